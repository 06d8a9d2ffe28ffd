"""Agreement of verdicts with labels, and of two runs on the same pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.types import Metric, Verdict
from evalkit.core.values import JsonObject
from evalkit.scoring.columns import (
    CODES,
    NAMES,
    NONE,
    TIE,
    A,
    B,
    PassColumns,
    VerdictColumns,
)
from evalkit.scoring.stats.agreement_formulas import ac1, kappa
from evalkit.scoring.stats.arrays import Bounds, Codes, Floats, Ints
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.coefficients import Unread, counts_by_label, most_even
from evalkit.scoring.stats.paired import align
from evalkit.scoring.stats.statistic import Statistic, Tabled, Tally, weighted_sum

CLASSES = (A, TIE, B)
UNLABELED = "no pair has a label"
UNREAD = "no labeled pair has a verdict"


def agreement_statistics(verdicts: VerdictColumns) -> list[Statistic]:
    """Return accuracy, accuracy among decided pairs, and kappa of the verdicts on labeled pairs.

    For accuracy and kappa, a TIE equals only a label TIE. A pair is decided if verdict and label
    both name a winner; a judge that ignores the responses is right on half of these. There, a
    missing verdict could be correct, wrong or a tie.
    """
    labeled = verdicts.labeled
    present = verdicts.present
    label = verdicts.pairs.label
    right = verdicts.right
    # Labels that name a winner: there, a judge that ignores responses is right on half.
    choosing = labeled & (label != TIE)
    if (choosing & present).any():
        # Verdicts exist, so their being ties is the reason.
        why = "every verdict on a labeled pair is a tie"
    elif choosing.any():
        why = UNREAD
    elif labeled.any():
        why = "no label names a winner"
    else:
        why = UNLABELED
    rate = verdicts.tally.rate
    table = verdicts.confusion(CLASSES)
    return [
        rate(
            "agreement/accuracy",
            right,
            verdicts.read,
            verdicts.unread,
            why=UNREAD if labeled.any() else UNLABELED,
        ),
        rate(
            "agreement/accuracy_decided",
            right,
            choosing & present & (verdicts.winner != TIE),
            choosing & verdicts.missing,
            why=why,
        ),
        table.statistic(
            "agreement/kappa",
            kappa,
            table.unread.kappa(),
            contrast=True,
            why=_one_class(verdicts),
        ),
    ]


def _one_class(verdicts: VerdictColumns) -> str:
    """Return why a coefficient of agreement over the labeled pairs is undefined."""
    labels = np.unique(verdicts.pairs.label[verdicts.read])
    if not len(labels):
        if verdicts.labeled.any():
            return UNREAD
        return UNLABELED
    if len(labels) > 1:
        return "verdicts and labels are all of one class"
    return (
        f"labels are all of one class ({NAMES[int(labels[0])]}): it would be 0 whatever the"
        " verdicts are"
    )


def pass_statistics(verdicts: VerdictColumns, passes: PassColumns) -> list[Statistic]:
    """Return the accuracies of single passes over labeled pairs, per order and in both orders."""
    tally = verdicts.tally
    label = verdicts.pairs.label
    # Both orders were to be judged, and no cascade abstained.
    relevant = verdicts.labeled & passes.both & ~verdicts.withheld
    if passes.both:
        why = "no labeled pair was read in both orders"
    else:
        why = "each pair was judged in one order"
    why = why if verdicts.labeled.any() else UNLABELED
    orders = [
        tally.rate(
            f"agreement/accuracy_{name}_order",
            passes.winner[:, order] == label,
            relevant & passes.read[:, order],
            relevant & ~passes.read[:, order],
            why=why,
        )
        for order, name in enumerate(("first", "second"))
    ]
    # (pairs, 2) == (pairs, 1): right in both orders.
    right = (passes.winner == label[:, None]).all(axis=1)
    both = tally.rate(
        "agreement/accuracy_both_orders",
        right,
        relevant & passes.complete,
        relevant & ~passes.complete,
        why=why,
    )
    # The mean of the rates of both orders.
    per_order = weighted_sum(
        "agreement/accuracy_per_order", orders, (0.5, 0.5), proportion=True, why=why
    )
    return [per_order, *orders, both]


def confusion_statistics(verdicts: VerdictColumns) -> Tabled:
    """Return `agreement/kappa_weighted` and `agreement/ac1` of verdicts and labels, and
    the table of their counts.
    """
    table = verdicts.confusion(CLASSES)
    statistics = []
    unread = table.unread
    # Without any tie there are two categories, and agreement by chance is larger.
    ties = unread.missing.any() or unread.table[1].any() or unread.table[:, 1].any()
    for coefficient in table.coefficients(
        "agreement", "pairs", why=_one_class(verdicts)
    ):
        if coefficient.name == "agreement/ac1":
            value = partial(ac1, categories=3 if ties else 2)
            statistics.append(
                replace(coefficient, value=value, worst=_ac1_bounds(unread, value))
            )
        elif coefficient.name != "agreement/kappa":  # every judge has it
            statistics.append(coefficient)
    return statistics, {
        "confusion": confusion_table(verdicts)
    } if verdicts.labeled.any() else {}


def _ac1_bounds(unread: Unread, value: Callable[[Floats], Floats]) -> Bounds:
    """Return bounds on AC1: the maximum is at a vertex, since AC1 is quasi-convex; the
    minimum may be inside.
    """
    low, high = unread.bounds(value, unread.at_vertices(value))
    if low is None or not unread.missing.any():
        return low, high
    # The smallest AC1 has the most even shares: most agreement by chance is subtracted.
    share = most_even(
        unread.labels + unread.table.sum(axis=0), float(unread.missing.sum())
    ) / (2 * unread.n)
    by_chance = float((share * (1 - share)).sum()) / 2
    return min(
        low, (float(np.trace(unread.table)) / unread.n - by_chance) / (1 - by_chance)
    ), high


def confusion_table(verdicts: VerdictColumns) -> JsonObject:
    """Return the counts of verdicts by label, with `missing` and `abstained` among the verdicts."""
    columns = {NAMES[code]: verdicts.winner == code for code in CLASSES} | {
        "missing": verdicts.missing
    }
    if verdicts.withheld.any():
        columns["abstained"] = verdicts.withheld
    return counts_by_label(
        {NAMES[code]: verdicts.pairs.label == code for code in CLASSES}, columns
    )


def contradictions(
    pointwise: Sequence[Verdict],
    pairwise: Sequence[Verdict],
    scoring: ScoringConfig,
    cluster: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Metric]:
    """Return the metrics of two runs' verdicts on the same pairs.

    Pairs of only one run are ignored.

    Args:
        pointwise: the verdicts by scores.
        pairwise: the verdicts by comparison.
        scoring: the confidence and the number of resamples.
        cluster: the cluster of each case by its id; other cases are their own cluster.
    """
    runs = align(
        (pointwise, pairwise),
        lambda verdict: CODES[verdict.winner],
        cluster,
        missing=NONE,
        shared=True,
    )
    statistics = contradiction_statistics(runs.codes[0], runs.codes[1], runs.tally)
    return measure(statistics, scoring, runs.clusters)


def contradiction_statistics(
    by_score: Codes | Ints, by_comparison: Codes | Ints, tally: Tally
) -> list[Statistic]:
    """Return `between/contradiction` and `between/difference` of the winners of the same pairs.

    A contradiction is a pair whose lower-scored response wins the comparison (arXiv 2509.21117), as
    a share of pairs with a winner in both. The difference is the share of pairs read in both with
    different outcomes, ties included.

    Args:
        by_score: (pairs,) the winners by scores.
        by_comparison: (pairs,) the winners by comparison.
        tally: the case of each pair.
    """
    read = (by_score != NONE) & (by_comparison != NONE)
    decided = read & (by_score != TIE) & (by_comparison != TIE)
    # A pair missing on one side could be decided unless the other side is a tie.
    undecided = ~read & (by_score != TIE) & (by_comparison != TIE)
    opposite = by_score != by_comparison
    return [
        tally.rate(
            "between/contradiction",
            opposite,
            decided,
            undecided,
            why="no pair has a winner in both",
        ),
        tally.rate(
            "between/difference", opposite, read, ~read, why="no pair was read in both"
        ),
    ]
