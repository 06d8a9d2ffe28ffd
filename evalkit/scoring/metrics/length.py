"""Effect of response length on verdicts, and win rates at equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.scoring.columns.cases import flat
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.logistic import rate_at_zero, slope
from evalkit.scoring.verdicts.length_control import log_length
from evalkit.types import Case

MIN_SHARE = 0.05
"""Minimum share of pairs in which each response is at least as long, for a win rate at equal length."""
MIN_CONTRARY = 10
"""Minimum number of verdicts that differ from the label, for a slope at equal label.

Only these verdicts, and those on labels TIE, show what the judge prefers beyond the labels. Ten outcomes of the rarer
kind for each coefficient are the usual minimum (Peduzzi et al. 1996, J. Clin. Epidemiol. 49, 1373-1379).
"""


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Characters of the first and the second response of each pair, (pairs,)."""

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
        """Which pairs have both texts, (pairs,)."""
        return np.asarray((self.first > 0) & (self.second > 0))

    def log_ratio(self, selected: Bools) -> Floats:
        return log_length(self.first[selected]) - log_length(self.second[selected])


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
    """Return values divided by their standard deviation, not centered, so that 0 remains equal length."""
    spread = float(values.std()) if len(values) else 0.0
    return np.asarray(values / spread) if spread > 1e-9 else np.zeros(len(values))


def _slope(verdicts: VerdictColumns, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/slope`: the increase in the log odds of winning for one standard deviation of log length ratio.

    It is the slope of a penalized logistic regression of the verdict (a tie is 1/2) on log(first length / second
    length) in standard deviations, with intercept. It is 0 if length has no effect.
    """
    selected = verdicts.present & lengths.known
    x = _scaled(lengths.log_ratio(selected))
    design = np.stack([np.ones(len(x)), x], axis=1)
    tally = Tally(verdicts.pairs.case[selected], cases)
    why = _why_constant(x, "no pair has a verdict")
    missing = int((~verdicts.present & lengths.known).sum())
    return slope("length/slope", design, credit[selected], tally, 1, missing=missing, why=why)


def _why_constant(x: Floats, empty: str) -> str:
    if not len(x):
        return empty
    return "" if np.ptp(x) > 1e-9 else "the ratio of lengths is the same in every pair"


def _slope_at_label(verdicts: VerdictColumns, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/slope_at_label`: the same slope with the label held constant.

    Longer responses may be better. This is the effect of length on the judge beyond its effect on the labels.
    """
    relevant = verdicts.labeled & lengths.known
    selected = verdicts.present & relevant
    x, label = _scaled(lengths.log_ratio(selected)), verdicts.pairs.label[selected].astype(np.float64)
    design = np.stack([np.ones(len(x)), x, label], axis=1)
    tally = Tally(verdicts.pairs.case[selected], cases)
    missing = int((relevant & ~verdicts.present).sum())
    contrary = np.asarray(verdicts.winner[selected] != verdicts.pairs.label[selected])
    why = _why_constant(x, "no labeled pair has a verdict") or _why_alike(int(contrary.sum()))
    return slope("length/slope_at_label", design, credit[selected], tally, 1, rare=contrary, missing=missing, why=why)


def _why_alike(contrary: int) -> str:
    if contrary >= MIN_CONTRARY:
        return ""
    return f"{contrary} verdicts differ from the label, and {MIN_CONTRARY} are needed to see what else they depend on"


def _win_rate(verdicts: VerdictColumns, credit: Floats) -> Statistic:
    """Return `length/win_rate`: the first response's win rate, a tie counting as half."""
    tally, present = verdicts.tally, verdicts.present
    sums = tally(np.where(present, credit, 0.0))
    n, missing, total = int(present.sum()), int((~present).sum()), float(sums.sum())
    count = n + missing
    return Statistic(
        "length/win_rate",
        np.stack([sums, tally(present)], axis=1),
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n,
        missing,
        worst=(total / count, (total + missing) / count) if count else (None, None),
        proportion=True,
        why="no pair has a verdict",
    )


def _controlled(verdicts: VerdictColumns, lengths: _Lengths, credit: Floats, cases: int) -> Statistic:
    """Return `length/controlled_win_rate`: the first response's win rate if both responses had the same length.

    It is the regression of Dubois et al. (2024, arXiv 2404.04475, section 3) on tanh of the difference in characters in
    standard deviations, evaluated at 0. Their term for an instruction's difficulty needs the results of other systems
    and is omitted, as is their regularization. The rate is not identifiable if one side is nearly always longer,
    because equal length would be an extrapolation.
    """
    selected = verdicts.present & lengths.known
    difference = lengths.first[selected] - lengths.second[selected]
    x = np.tanh(_scaled(difference))
    design = np.stack([np.ones(len(x)), x], axis=1)
    return rate_at_zero(
        "length/controlled_win_rate",
        design,
        credit[selected],
        Tally(verdicts.pairs.case[selected], cases),
        missing=int((~verdicts.present & lengths.known).sum()),
        why=_why_one_sided(difference),
    )


def _why_one_sided(difference: Floats) -> str:
    if not len(difference):
        return "no pair has a verdict"
    if not np.ptp(difference):
        return "the difference in length is the same in every pair"
    shares = {"first": float((difference >= 0).mean()), "second": float((difference <= 0).mean())}
    side, share = min(shares.items(), key=lambda item: item[1])
    if share >= MIN_SHARE:
        return ""
    return f"the {side} response is at least as long as the other in only {share:.0%} of pairs"
