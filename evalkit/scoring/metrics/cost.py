"""Cost and latency of judging a case."""

from __future__ import annotations

import numpy as np

from evalkit.scoring.columns.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally

ODD = 0x5851F42D4C957F2D
"""An odd multiplier: answer × ODD + case identifies the answer of a case."""


def cost_statistics(judgments: JudgmentColumns, cases: int) -> list[Statistic]:
    """Return `cost/per_case` in dollars and `latency/per_case` in seconds: means over cases of their answers' totals.

    An answer counts with its cost and latency at the time of the request, even if it is now stored, and once if several
    judgments share it. A case's answers add up, as if requested one after another. Preparatory answers and failed
    attempts are not counted. Cases with an answer that failed or has no price are omitted.
    """
    judgments = judgments.asked
    _, once = np.unique(judgments.answer * ODD + judgments.case, return_index=True)
    case = judgments.case[once]
    unread = "there are no answers"
    untimed = "no answer has a latency" if np.isfinite(judgments.cost).any() else unread
    unpriced = "no answer has a price" if np.isfinite(judgments.latency).any() else unread
    return [
        _mean("cost/per_case", judgments.cost[once], case, cases, unpriced),
        _mean("latency/per_case", judgments.latency[once], case, cases, untimed),
    ]


def _mean(name: str, values: Floats, case: Ints, cases: int, why: str) -> Statistic:
    tally, known = Tally(case, cases), np.isfinite(values)
    priced = (tally(known) > 0) & (tally(~known) == 0)
    columns = np.stack([np.where(priced, tally(np.where(known, values, 0.0)), 0.0), priced.astype(np.float64)], axis=1)
    n = int(priced.sum())
    return Statistic(
        name,
        columns,
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=n,
        missing=cases - n,
        # There is no largest cost. Where all are equal, one case is assumed to cost at most as much as all together.
        limits=(0.0, float(columns[:, 0].sum())),
        why=why,
    )
