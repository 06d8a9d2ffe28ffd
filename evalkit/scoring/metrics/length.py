"""How far a response's length decides what a judge makes of it, and what is left without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.bootstrap import Statistic, Tally, divide
from evalkit.scoring.columns import Bools, Codes, Floats, Ints, flat
from evalkit.scoring.metrics.logistic import expit, regression
from evalkit.scoring.pairs import Resolution, group_mean
from evalkit.scoring.pointwise import ScoreColumns, normalize
from evalkit.types import Case

LEAST_SHARE = 0.05
"""A win rate at equal length is read off only if each response is the longer one in at least so many pairs."""


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Characters of the first and the second response of each pair."""

    first: Floats
    second: Floats

    @classmethod
    def of(cls, cases: Sequence[Case], resolved: Resolution) -> _Lengths:
        pairs = resolved.pairs
        characters = flat(cases, lambda case: [len(response.text) for response in case.responses])
        offset = (np.cumsum(pairs.sizes) - pairs.sizes)[pairs.case]
        return cls(characters[offset + pairs.i], characters[offset + pairs.j])

    @property
    def known(self) -> Bools:
        """Which pairs have both texts."""
        return np.asarray((self.first > 0) & (self.second > 0))

    def log_ratio(self, used: Bools) -> Floats:
        return log_length(self.first[used]) - log_length(self.second[used])


def log_length(characters: Floats) -> Floats:
    """Return the logarithm of numbers of characters; an empty text counts as one character."""
    return np.asarray(np.log(np.maximum(characters, 1.0)))


def length_models(resolved: Resolution, cases: Sequence[Case]) -> list[Statistic]:
    """Return the slopes of verdicts on length, raw and at equal label, and the win rates with and without length."""
    lengths, credit = _Lengths.of(cases, resolved), _credit(resolved.winner)
    return [
        _slope(resolved, lengths, credit, len(cases)),
        _slope_at_label(resolved, lengths, credit, len(cases)),
        _win_rate(resolved, credit, len(cases)),
        _controlled(resolved, lengths, credit, len(cases)),
    ]


def _credit(winner: Codes) -> Floats:
    """Return 1 for the first response, 0 for the second and 1/2 for a tie."""
    return np.asarray((1.0 + winner) / 2)


def _scaled(values: Floats) -> Floats:
    """Return values in units of their standard deviation, not centred: 0 stays equal length."""
    spread = float(values.std()) if len(values) else 0.0
    return np.asarray(values / spread) if spread > 1e-9 else np.zeros(len(values))


def _slope(resolved: Resolution, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/slope`: by how much one standard deviation of log length ratio raises the log odds of winning.

    Logistic regression of the verdict (a tie is 1/2) on log(length of the first / of the second), in standard
    deviations, and an intercept, cases resampled. 0: length does not matter.
    """
    used = resolved.present & lengths.known
    x = _scaled(lengths.log_ratio(used))
    design = np.stack([np.ones(len(x)), x], axis=1)
    tally = Tally(resolved.pairs.case[used], cases)
    why = _unvaried(x, "no pair has a verdict")
    missing = int((~resolved.present & lengths.known).sum())
    return regression("length/slope", design, credit[used], tally, lambda b: b[:, 1], missing=missing, why=why)


def _unvaried(x: Floats, nothing: str) -> str:
    if not len(x):
        return nothing
    return "" if np.ptp(x) > 1e-9 else "the ratio of lengths is the same in every pair"


def _slope_at_label(resolved: Resolution, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/slope_at_label`: the same slope with people's choice held equal.

    Longer responses may be better: this is how length sways the judge beyond what it does to people.
    """
    wanted = resolved.labelled & lengths.known
    used = resolved.present & wanted
    x, label = _scaled(lengths.log_ratio(used)), resolved.pairs.label[used].astype(np.float64)
    design = np.stack([np.ones(len(x)), x, label], axis=1)
    tally = Tally(resolved.pairs.case[used], cases)
    missing = int((wanted & ~resolved.present).sum())
    why = _unvaried(x, "no labelled pair has a verdict")
    return regression("length/slope_at_label", design, credit[used], tally, lambda b: b[:, 1], missing=missing, why=why)


def _win_rate(resolved: Resolution, credit: Floats, cases: int) -> Statistic:
    """Return `length/win_rate`: the first response's wins and half its ties, of the pairs that have a verdict."""
    tally, present = Tally(resolved.pairs.case, cases), resolved.present
    sums = tally(np.where(present, credit, 0.0))
    n, missing, total = int(present.sum()), int((~present).sum()), float(sums.sum())
    every = n + missing
    return Statistic(
        "length/win_rate",
        np.stack([sums, tally(present)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n,
        missing,
        worst=(total / every, (total + missing) / every) if every else (None, None),
        proportion=True,
        why="no pair has a verdict",
    )


def _controlled(resolved: Resolution, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/controlled_win_rate`: the first response's win rate had both been of one length.

    The regression of Dubois et al. (2024, arXiv 2404.04475, section 3) on tanh of the difference in characters, in
    standard deviations, read off at a difference of 0; their term for an instruction's difficulty needs other systems'
    results and is left out, as is their regularisation. It is not identifiable where one side is nearly always the
    longer one: equal length would then lie outside what was seen.
    """
    used = resolved.present & lengths.known
    difference = lengths.first[used] - lengths.second[used]
    x = np.tanh(_scaled(difference))
    design = np.stack([np.ones(len(x)), x], axis=1)
    return regression(
        "length/controlled_win_rate",
        design,
        credit[used],
        Tally(resolved.pairs.case[used], cases),
        lambda b: expit(b[:, 0]),
        missing=int((~resolved.present & lengths.known).sum()),
        proportion=True,
        why=_one_sided(difference),
    )


def _one_sided(difference: Floats) -> str:
    if not len(difference):
        return "no pair has a verdict"
    if not np.ptp(difference):
        return "the difference in length is the same in every pair"
    shares = {"first": float((difference >= 0).mean()), "second": float((difference <= 0).mean())}
    side, share = min(shares.items(), key=lambda item: item[1])
    if share >= LEAST_SHARE:
        return ""
    return f"the {side} response is as long as the other in {share:.0%} of pairs: equal length was hardly seen"


def score_slopes(scored: ScoreColumns, cases: Sequence[Case]) -> list[Statistic]:
    """Return `length/score_slope`, raw and at equal grade: scale units by which a tenfold length raises a score.

    Least squares within cases where a case has several responses, else across them; cases resampled.
    """
    length = _decades(cases)
    known = flat(cases, lambda case: [bool(response.text) for response in case.responses]) > 0
    there, graded = np.isfinite(scored.raw) & known, np.isfinite(scored.grade) & known
    missing = int((~there & known).sum())
    raw = _linear("length/score_slope", scored, there, [length], len(cases), missing)
    lost = int((graded & ~there).sum())
    both = [length, np.where(graded, scored.grade, 0.0)]
    return [raw, _linear("length/score_slope_at_grade", scored, there & graded, both, len(cases), lost)]


def _decades(cases: Sequence[Case]) -> Floats:
    characters = flat(cases, lambda case: [len(response.text) for response in case.responses])
    return np.asarray(log_length(characters) / np.log(10.0))


def _centre(values: Floats, case: Ints, cases: int) -> Floats:
    """Return distances from each case's mean, or from everything's where no case has two."""
    if len(case) and np.bincount(case).max() > 1:
        return np.asarray(values - group_mean(case, values, cases)[case])
    return np.asarray(values - values.mean()) if len(values) else values


def _linear(name: str, scored: ScoreColumns, used: Bools, columns: list[Floats], cases: int, missing: int) -> Statistic:
    case = scored.case[used]
    y, x = _centre(scored.raw[used], case, cases), [_centre(column[used], case, cases) for column in columns]
    tally, k = Tally(case, cases), len(columns)
    moments = [tally(a * b) for a in x for b in x] + [tally(a * y) for a in x]
    return Statistic(
        name,
        np.stack(moments, axis=1),
        lambda totals: _first_coefficient(totals, k),
        len(y),
        missing,
        covered=tally(np.ones(len(y))) > 0,
        note="missing scores are left out and not bounded" if missing else None,
        why="lengths do not vary apart from case and grade" if len(y) else "no such response has a score",
    )


def _first_coefficient(totals: Floats, k: int) -> Floats:
    """Return the first coefficient of each row's normal equations, NaN where they have no single solution."""
    square, right = totals[:, : k * k].reshape(-1, k, k), totals[:, k * k :]
    diagonal = np.prod(np.diagonal(square, axis1=1, axis2=2), axis=1)
    sound = (np.linalg.det(square) > 1e-9 * diagonal) & (diagonal > 1e-12)
    out = np.full(len(totals), np.nan)
    out[sound] = np.linalg.solve(square[sound], right[sound][:, :, None])[:, 0, 0]
    return out


def control_length(config: RunConfig, cases: Sequence[Case], scored: ScoreColumns) -> ScoreColumns:
    """Return scores as they would be at the mean length of all responses, if `scoring.length_control` asks for it.

    What is taken out is `length/score_slope_at_grade`; without grades, or where that is not identifiable, the raw
    slope, and with it whatever made longer responses better. Where no slope is identifiable, scores stay as they are.
    """
    if not config.scoring.length_control or not len(scored.raw):
        return scored
    length = _decades(cases)
    slopes = [statistic.observed() for statistic in score_slopes(scored, cases)[::-1]]
    slope = next((value for value in slopes if np.isfinite(value)), 0.0)
    level = scored.raw - slope * (length - length.mean())
    return replace(scored, score=normalize(config, level, scored.case))
