"""The search over checklist items: each item is a row, so that items and their tags are
columns, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from evalkit.core.values import frozen
from evalkit.scoring.labels import LabelWeights, weigh_labels
from evalkit.scoring.metrics.checklists import agreement_of_items
from evalkit.scoring.metrics.decisions import item_decision_statistics
from evalkit.scoring.search.cells import ITEM, TAG
from evalkit.scoring.search.columns import SearchedColumns
from evalkit.scoring.slices import Slices, TooManySlicesError, slices_of_values
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic
from evalkit.scoring.verdicts.checklists import ItemColumns

RESPONSES: Final = "response"
"""The name of the responses in sentences."""
MOST_CELLS: Final = 50_000_000
"""Rows times slices: with more of them, items are not searched one by one."""


@frozen
class SearchRows:
    """What is searched: a row for each case, or for each item.

    Attributes:
        columns: the columns, with the rows of each slice.
        statistics: the statistics of a judge, by name.
        clusters: the cluster of each row.
    """

    columns: SearchedColumns
    statistics: Mapping[str, Statistic]
    clusters: Clusters


def by_item(
    items: ItemColumns, by_case: SearchRows, weights: LabelWeights | None
) -> SearchRows | None:
    """Return a row for each item; `None` if nothing is to be searched by item, or there
    are too many.

    Args:
        items: the items of a judge.
        by_case: the same with a row for each case.
        weights: the weights of labels, if they differ.
    """
    columns = by_case.columns
    clusters = by_case.clusters
    of_items = _columns_of(items)
    responses = [*_responses(items)]
    every = [
        *(columns.slices + columns.strata + columns.crossed + columns.prompts),
        *columns.without,
        *columns.derived,
        *of_items,
        *responses,
    ]
    cells = len(items.case) * sum(len(column.values) for column in every)
    if not (of_items or responses) or cells > MOST_CELLS:
        return None

    def expanded(some: Sequence[Slices]) -> tuple[Slices, ...]:
        return tuple(
            replace(column, members=column.members[items.case]) for column in some
        )

    searched = SearchedColumns(
        slices=(*expanded(columns.slices), *of_items),
        omitted=columns.omitted,
        strata=expanded(columns.strata),
        crossed=expanded(columns.crossed),
        prompts=(*expanded(columns.prompts), *responses),
        without=expanded(columns.without),
        derived=expanded(columns.derived),
    )
    rows = len(items.case)
    alone = replace(items, case=np.arange(rows), cases=rows)
    measures = [*agreement_of_items(alone), *item_decision_statistics(alone)]
    if weights is not None:
        of_rows = replace(weights, weights=weights.weights[items.case])
        measures = [*weigh_labels(measures, of_rows)]
    statistics = {
        measure.name: measure for measure in measures if isinstance(measure, Statistic)
    }
    number = clusters.of_rows(items.case)
    by_row = Clusters(rows, clusters.count, number, clusters.by)
    return SearchRows(searched, statistics, by_row)


def _columns_of(items: ItemColumns) -> list[Slices]:
    """Return the items by id and by tag, if some of several cases have the same."""
    ids = [None if item.numbered else item.id for item in items.items]
    cells: dict[str, list[Any]] = {ITEM: ids, TAG: [[*tags] for tags in items.tags]}
    columns = []
    for name, values in cells.items():
        try:
            column = slices_of_values(name, values)
        except TooManySlicesError:
            continue
        # An item of one case is no group of them.
        several = (column.members.sum(axis=0) > 1).any()
        if len(column.values) > 1 and several:
            columns.append(column)
    return columns


def _responses(items: ItemColumns) -> Iterator[Slices]:
    """Yield the responses as strata, if they have several items each: a judge may
    answer all of one alike.
    """
    numbers, of_row = np.unique(items.response, return_inverse=True)
    rows = len(of_row)
    if len(numbers) < 2 or 2 * len(numbers) > rows or rows * len(numbers) > MOST_CELLS:
        return
    members = of_row[:, None] == np.arange(len(numbers))
    yield Slices(RESPONSES, tuple(map(str, numbers.tolist())), members)
