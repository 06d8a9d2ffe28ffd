"""How far a response's length decides what a judge makes of it, and what is left without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns.cases import flat
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.logistic import expit, regression
from evalkit.scoring.verdicts.length_control import log_length
from evalkit.types import Case

LEAST_SHARE = 0.05
"""A win rate at equal length is read off only if each response is the longer one in at least so many pairs."""


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Characters of the first and the second response of each pair."""

    first: Floats
    second: Floats

    @classmethod
    def of(cls, cases: Sequence[Case], verdicts: VerdictColumns) -> _Lengths:
        pairs = verdicts.pairs
        characters = flat(cases, lambda case: [len(response.text) for response in case.responses])
        offset = (np.cumsum(pairs.sizes) - pairs.sizes)[pairs.case]
        return cls(characters[offset + pairs.i], characters[offset + pairs.j])

    @property
    def known(self) -> Bools:
        """Which pairs have both texts."""
        return np.asarray((self.first > 0) & (self.second > 0))

    def log_ratio(self, used: Bools) -> Floats:
        return log_length(self.first[used]) - log_length(self.second[used])


def length_models(verdicts: VerdictColumns, cases: Sequence[Case]) -> list[Statistic]:
    """Return the slopes of verdicts on length, raw and at equal label, and the win rates with and without length."""
    lengths, credit = _Lengths.of(cases, verdicts), _credit(verdicts.winner)
    return [
        _slope(verdicts, lengths, credit, len(cases)),
        _slope_at_label(verdicts, lengths, credit, len(cases)),
        _win_rate(verdicts, credit),
        _controlled(verdicts, lengths, credit, len(cases)),
    ]


def _credit(winner: Codes) -> Floats:
    """Return 1 for the first response, 0 for the second and 1/2 for a tie."""
    return np.asarray((1.0 + winner) / 2)


def _scaled(values: Floats) -> Floats:
    """Return values in units of their standard deviation, not centred: 0 stays equal length."""
    spread = float(values.std()) if len(values) else 0.0
    return np.asarray(values / spread) if spread > 1e-9 else np.zeros(len(values))


def _slope(verdicts: VerdictColumns, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/slope`: by how much one standard deviation of log length ratio raises the log odds of winning.

    Logistic regression of the verdict (a tie is 1/2) on log(length of the first / of the second), in standard
    deviations, and an intercept, cases resampled. 0: length does not matter.
    """
    used = verdicts.present & lengths.known
    x = _scaled(lengths.log_ratio(used))
    design = np.stack([np.ones(len(x)), x], axis=1)
    tally = Tally(verdicts.pairs.case[used], cases)
    why = _unvaried(x, "no pair has a verdict")
    missing = int((~verdicts.present & lengths.known).sum())
    return regression("length/slope", design, credit[used], tally, lambda b: b[:, 1], missing=missing, why=why)


def _unvaried(x: Floats, nothing: str) -> str:
    if not len(x):
        return nothing
    return "" if np.ptp(x) > 1e-9 else "the ratio of lengths is the same in every pair"


def _slope_at_label(verdicts: VerdictColumns, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/slope_at_label`: the same slope with people's choice held equal.

    Longer responses may be better: this is how length sways the judge beyond what it does to people.
    """
    wanted = verdicts.labelled & lengths.known
    used = verdicts.present & wanted
    x, label = _scaled(lengths.log_ratio(used)), verdicts.pairs.label[used].astype(np.float64)
    design = np.stack([np.ones(len(x)), x, label], axis=1)
    tally = Tally(verdicts.pairs.case[used], cases)
    missing = int((wanted & ~verdicts.present).sum())
    why = _unvaried(x, "no labelled pair has a verdict")
    return regression("length/slope_at_label", design, credit[used], tally, lambda b: b[:, 1], missing=missing, why=why)


def _win_rate(verdicts: VerdictColumns, credit: Floats) -> Statistic:
    """Return `length/win_rate`: the first response's wins and half its ties, of the pairs that have a verdict."""
    tally, present = verdicts.tally, verdicts.present
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


def _controlled(verdicts: VerdictColumns, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/controlled_win_rate`: the first response's win rate had both been of one length.

    The regression of Dubois et al. (2024, arXiv 2404.04475, section 3) on tanh of the difference in characters, in
    standard deviations, read off at a difference of 0; their term for an instruction's difficulty needs other systems'
    results and is left out, as is their regularisation. It is not identifiable where one side is nearly always the
    longer one: equal length would then lie outside what was seen.
    """
    used = verdicts.present & lengths.known
    difference = lengths.first[used] - lengths.second[used]
    x = np.tanh(_scaled(difference))
    design = np.stack([np.ones(len(x)), x], axis=1)
    return regression(
        "length/controlled_win_rate",
        design,
        credit[used],
        Tally(verdicts.pairs.case[used], cases),
        lambda b: expit(b[:, 0]),
        missing=int((~verdicts.present & lengths.known).sum()),
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
