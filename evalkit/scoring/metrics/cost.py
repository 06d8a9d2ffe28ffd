"""What judging a case takes: money and time, however often it is judged and by whomever."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally

ODD = 0x5851F42D4C957F2D
"""Spreads the numbers of answers, so that one with a case's place added is that of one answer of one case."""


def cost_statistics(judgments: JudgmentColumns, cases: int) -> list[Statistic]:
    """Return `cost/per_case` in US$ and `latency/per_case` in seconds: means over cases of what their answers took.

    An answer counts with what it took when it was sent for, also where it was stored since, and once where several
    judgments rest on it; those of a case add up, as if asked one after another. Earlier answers that a judgment was
    prepared by, and tries that failed, are not counted. Cases with an answer that failed or has no price are left out.
    """
    judgments = judgments.asked
    _, once = np.unique(judgments.answer * ODD + judgments.case, return_index=True)
    case = judgments.case[once]
    unread = "no answer is there to be counted"
    untimed = "no answer has a latency" if np.isfinite(judgments.cost).any() else unread
    unpriced = "no answer has a price" if np.isfinite(judgments.latency).any() else unread
    return [
        _mean("cost/per_case", judgments.cost[once], case, cases, unpriced),
        _mean("latency/per_case", judgments.latency[once], case, cases, untimed),
    ]


def _mean(name: str, values: Floats, case: Ints, cases: int, why: str) -> Statistic:
    tally, known = Tally(case, cases), np.isfinite(values)
    there = (tally(known) > 0) & (tally(~known) == 0)
    columns = np.stack([np.where(there, tally(np.where(known, values, 0.0)), 0.0), there.astype(np.float64)], axis=1)
    n = int(there.sum())
    return Statistic(name, columns, lambda totals: divide(totals[:, 0], totals[:, 1]), n=n, missing=cases - n, why=why)
