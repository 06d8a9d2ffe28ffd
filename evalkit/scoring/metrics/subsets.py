"""Which judges of a panel are worth their price: every subset's vote, and the choice of
one without optimism.

The best of many subsets on some labels is worse on others. So each fold of clusters is scored by
the subset chosen on the other folds (cross-fitting; Stone 1974, J. R. Stat. Soc. B 36, 111-147),
and the interval resamples these scores (Bayle et al. 2020, arXiv 2007.12671).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import ceil
from typing import Any, Final

import numpy as np

from evalkit.core.values import Json, JsonObject, frozen
from evalkit.scoring.decision import Metrics
from evalkit.scoring.metrics.panels import NO_LABEL
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, round_metric
from evalkit.scoring.stats.bounded_intervals import PseudoCounts
from evalkit.scoring.stats.statistic import Statistic, Tally, mean_of
from evalkit.scoring.verdicts.panel import DAWID_SKENE, Panel

MOST: Final = 8
"""Subsets of more judges than this are not compared."""
ACCURACY: Final = "panel/subset_accuracy"
LEAD: Final = "panel/subset_lead"
TOO_MANY: Final = f"more than {MOST} judges have too many subsets to compare"
TOO_FEW: Final = (
    "fewer than ten labeled units were read by every judge, or all are in one fold"
)
FEW: Final = 10


@frozen
class Subsets:
    """Every subset of a panel's judges, the cheapest first.

    Attributes:
        judges: the indices of the judges of each subset.
        costs: (subsets,) $ per case, NaN if unknown.
        right: (subsets, units) whether the subset's vote is right.
        weights: (units,) the weight of each unit's label.
        margin: how much less accurate than the best one a cheaper subset may be.
    """

    judges: Sequence[tuple[int, ...]]
    costs: Floats
    right: Bools
    weights: Floats
    margin: float

    def accuracy(self, units: Bools) -> Floats:
        """Return the accuracy of each subset over some units."""
        return np.asarray(
            np.average(self.right[:, units], axis=1, weights=self.weights[units])
        )

    def best(self, units: Bools) -> int:
        """Return the cheapest subset whose accuracy is within the margin of the highest."""
        accuracy = self.accuracy(units)
        return int(np.argmax(accuracy >= accuracy.max() - self.margin - 1e-12))


def subset_results(
    panel: Panel,
    costs: Floats,
    vote: Callable[[Panel, Sequence[int]], Bools],
    used: Bools,
    tally: Tally,
    folds: Ints,
    *,
    margin: float,
    weights: Floats | None,
    pseudo: PseudoCounts | None = None,
) -> tuple[list[Statistic], list[Statistic], JsonObject]:
    """Return the cross-fitted accuracy and lead of the best subset for the money, the
    accuracy of each, and the table.

    The accuracy of a subset is named by its row in the table.

    Args:
        panel: the panel.
        costs: (judges,) $ per case of each judge, NaN if unknown.
        vote: maps the panel of some judges, and their indices, to whether its vote is right
            (units,).
        used: (units,) which units have a label and were given to every judge. A vote that is
            missing or split is not right, for the panel as for each subset.
        tally: the case of each unit.
        folds: (cases,) the fold of each case.
        margin: how much less accurate than the best one a cheaper subset may be.
        weights: (cases,) the weights of labeled cases; `None` without weights.
        pseudo: what the intervals of accuracies add to resampled totals.
    """
    judges = len(panel.names)
    # shape (units,)
    fold = folds[tally.case]
    costs = costs if np.isfinite(costs).all() else np.full(judges, np.nan)
    enough = judges <= MOST and used.sum() >= FEW and len(np.unique(fold[used])) > 1
    too_few = TOO_FEW if used.any() else NO_LABEL
    why = TOO_MANY if judges > MOST else too_few
    chosen = np.zeros(len(used))
    whole = np.zeros(len(used))
    accuracies = list[Statistic]()
    table = dict[str, Any]()
    if enough and judges > 1:
        every = [
            subset
            for size in range(1, judges + 1)
            for subset in combinations(range(judges), size)
        ]
        every.sort(
            key=lambda subset: (np.nan_to_num(costs[list(subset)].sum()), len(subset))
        )
        # shape (subsets, units)
        right = np.stack([vote(_subpanel(panel, subset), subset) for subset in every])
        unit_weights = np.ones(len(used)) if weights is None else weights[tally.case]
        subsets = Subsets(
            every,
            np.array([costs[list(subset)].sum() for subset in every]),
            right,
            unit_weights,
            margin,
        )
        for number in np.unique(fold[used]):
            # The subset that judges a fold is chosen on the other folds.
            held = used & (fold == number)
            chosen[held] = right[subsets.best(used & ~held), held]
        whole = right[every.index(tuple(range(judges)))].astype(np.float64)
        table = _subset_table(panel, subsets, used)
        for index, hit in enumerate(right):
            columns = [
                column if weights is None else column * weights
                for column in tally.columns(hit & used, used)
            ]
            kind: JsonObject = {
                "proportion": True,
                "weights": weights,
                "pseudo": pseudo,
            }
            accuracies.append(
                Statistic(str(index), columns, mean_of, n=int(used.sum()), **kind)
            )
    among = used & bool(table)
    statistics = [
        tally.rate(ACCURACY, chosen > 0, among, why=why),
        tally.mean(LEAD, chosen - whole, among, ends=(-1.0, 1.0), why=why),
    ]
    return statistics, accuracies, table


def with_intervals(table: Json, accuracies: Metrics) -> JsonObject:
    """Return the table with the interval of each accuracy, by the row of the subset."""
    rows = [
        {**row, "low": accuracies[str(index)].low, "high": accuracies[str(index)].high}
        for index, row in enumerate(table["subsets"])
    ]
    return {**table, "subsets": rows}


def _subpanel(panel: Panel, judges: Sequence[int]) -> Panel:
    """Return the panel of some of the judges, by index."""
    vote = "majority" if panel.vote == DAWID_SKENE and len(judges) < 3 else panel.vote
    names = tuple(panel.names[judge] for judge in judges)
    # All judges vote as the panel does, and fewer as a panel of them would.
    whole = len(judges) == len(panel.names)
    quorum = panel.quorum if whole else min(panel.quorum, ceil(len(judges) / 2))
    return replace(
        panel,
        names=names,
        weights=panel.weights[list(judges)],
        vote=vote,
        quorum=quorum,
    )


def _subset_table(panel: Panel, subsets: Subsets, used: Bools) -> JsonObject:
    """Return the accuracy and cost of each subset of judges, and which one is chosen."""
    best = subsets.best(used)
    accuracy = subsets.accuracy(used)
    rows = [
        {
            "judges": [panel.names[judge] for judge in judges],
            "accuracy": round_metric(accuracy[index]),
            "cost_usd": round_metric(subsets.costs[index]),
            "chosen": index == best,
        }
        for index, judges in enumerate(subsets.judges)
    ]
    return {"margin": subsets.margin, "labels": int(used.sum()), "subsets": rows}
