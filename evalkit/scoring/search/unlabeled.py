"""Slices that have no labels, or hardly any: nothing is shown about the judge in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from evalkit.core.values import frozen
from evalkit.scoring.decision import FEW
from evalkit.scoring.search.family import UNITS
from evalkit.scoring.search.missing import log_upper_tail
from evalkit.scoring.slices import Slices
from evalkit.scoring.stats.arrays import Bools, Ints
from evalkit.scoring.stats.clusters import Clusters

MOST: Final = 10
"""At most so many slices are named."""
_LABELED: Final = re.compile(
    r"(is|has|not|un|non)?[ _-]*(label|labels|labell?ed|annotated|annotations?)"
    r"([ _-]*(status|state|done))?",
    re.IGNORECASE,
)
"""The names and values of a column that says whether a case has a label, as `has_label` and
`status: labeled`."""


@frozen
class Unlabeled:
    """A slice with fewer labels than chance explains.

    Attributes:
        slices: the slices of its column.
        number: which of them it is.
        cases: how many cases it has.
        labeled: how many of them have a label.
    """

    slices: Slices
    number: int
    cases: int
    labeled: int


def unlabeled_slices(
    columns: Sequence[Slices], labeled: Ints, clusters: Clusters, confidence: float
) -> Iterator[Unlabeled]:
    """Yield the slices in which fewer than `FEW` cases have a label, largest first, each
    among the cases of none before it.

    If labels were a random sample of the clusters, so few would be improbable: the lower tail of
    the hypergeometric distribution (Fisher 1935), adjusted for the number of slices (Bonferroni).
    Labels of other cases say nothing about such a slice, whatever the judge is like in them.

    Args:
        columns: the columns that are slices.
        labeled: the numbers of the labeled cases.
        clusters: the clusters of the cases, which are labeled if one of their cases is.
        confidence: one minus the probability of naming a slice that has few labels by chance.
    """
    has_label = np.zeros(clusters.cases, dtype=bool)
    has_label[labeled] = True
    if has_label.all():
        return
    cluster = clusters.of_rows(np.arange(clusters.cases))
    candidates = [
        (column, number)
        for column in columns
        if not _says_what_is_labeled(column, has_label)
        for number in range(len(column.values))
        if not _is_place(column, number)
    ]
    limit = np.log((1 - confidence) / max(len(candidates), 1))
    few = []
    for column, number in candidates:
        members = column.members[:, number]
        cases = int(members.sum())
        count = int((members & has_label).sum())
        if cases < UNITS or count >= FEW:
            continue
        if _log_chance(members, has_label, cluster) <= limit:
            few.append(Unlabeled(column, number, cases, count))
    remaining = np.ones(clusters.cases, dtype=bool)
    for _ in range(MOST):
        sizes = [
            int((slice_.slices.members[:, slice_.number] & remaining).sum())
            for slice_ in few
        ]
        if max(sizes, default=0) < UNITS:
            return
        largest = few[sizes.index(max(sizes))]
        yield largest
        remaining &= ~largest.slices.members[:, largest.number]


def _log_chance(members: Bools, has_label: Bools, cluster: Ints) -> float:
    """Return the logarithm of the probability of no more labeled clusters in a slice.

    A cluster that is only partly in the slice is two, as either part can have labels.
    """
    inside = len(np.unique(cluster[members]))
    outside = len(np.unique(cluster[~members]))
    labeled_inside = len(np.unique(cluster[members & has_label]))
    labeled_outside = len(np.unique(cluster[~members & has_label]))
    unlabeled = inside + outside - labeled_inside - labeled_outside
    return log_upper_tail(inside - labeled_inside, inside, unlabeled, inside + outside)


def _says_what_is_labeled(column: Slices, has_label: Bools) -> bool:
    """Return whether a column says by a name or a value which cases have a label, and keeps to it.

    Each of its slices then has labels in all cases or in none.
    """
    texts = (column.column, *column.values)
    if not any(_LABELED.fullmatch(text.strip()) for text in texts):
        return False
    # (slices,) the labeled cases, and all cases, of each slice
    labeled = has_label.astype(np.int64) @ column.members
    return bool(((labeled == 0) | (labeled == column.members.sum(axis=0))).all())


def _is_place(column: Slices, number: int) -> bool:
    """Return whether a slice of numbers is rows that follow one another.

    Numbers of rows, or lengths of texts with such a number, say nothing but the place in the data.
    """
    if not column.ends and not column.computed:
        return False
    rows = np.flatnonzero(column.members[:, number])
    return len(rows) > 0 and bool(rows[-1] - rows[0] == len(rows) - 1)
