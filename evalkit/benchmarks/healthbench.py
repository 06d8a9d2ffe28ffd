"""HealthBench (Arora et al. 2025, arXiv 2505.08775): health conversations with physicians' rubrics.

A file of examples has `prompt` and `rubrics`; add the answers as a column `response`, or with
`dataset.join`. The meta-evaluation has completions, one criterion each, and physicians' answers to
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.shared.benchmark import (
    RowLocation,
    answers_of,
    benchmark,
    listed,
    row_by_row,
    shape,
)
from evalkit.core.errors import DatasetError
from evalkit.core.types import Metric
from evalkit.core.values import JsonObject
from evalkit.datasets.located_rows import Row
from evalkit.interop.layouts.judgment_files import text
from evalkit.scoring.metrics.checklists import UNCLIPPED, checklist_statistics
from evalkit.scoring.stats.arrays import Floats
from evalkit.scoring.stats.statistic import Statistic, mean_of
from evalkit.scoring.verdicts.checklists import ItemColumns, rescored

_META: Final = shape("prompt", "completion", "rubric", "binary_labels")
SCORE = "healthbench/score"


def _read_case(row: Row, at: RowLocation) -> Row:
    """Return a row as a case with its rubric, or with one item for the meta-evaluation."""
    shared = {
        "prompt": text(row["prompt"]),
        "prompt_id": str(row.get("prompt_id", at.number)),
    }
    if row.keys() >= _META:
        labels = listed(row["binary_labels"], "binary_labels", at.place)
        item = {
            "criterion": row["rubric"],
            "labels": {
                f"physician_{number}": label for number, label in enumerate(labels, 1)
            },
            "tags": [str(row["category"])] if row.get("category") else [],
        }
        name = f"{shared['prompt_id']}/{row.get('completion_id', '')}/{at.number}"
        return {
            **shared,
            "id": name,
            "response": row["completion"],
            "checklist": [item],
        }
    items = [
        _item(rubric, at.place)
        for rubric in listed(row["rubrics"], "rubrics", at.place)
    ]
    return {**shared, "id": shared["prompt_id"], **answers_of(row), "checklist": items}


def _item(item: Any, location: str) -> JsonObject:
    if not isinstance(item, dict):
        raise DatasetError(
            "a rubric item is not an object", where=location, remedy="fix the row"
        )
    return {key: item[key] for key in ("criterion", "points", "tags") if key in item}


def _item_rule(items: ItemColumns) -> Sequence[Statistic | Metric]:
    """Return `healthbench/score`: the mean over examples of points over positive
    points, clipped to 0 and 1.

    Arora et al. 2025, arXiv 2505.08775, section 3: the mean is clipped, not the score of an
    example.
    """
    statistics = checklist_statistics(rescored(items, "points"), "points")
    mean = next(
        statistic
        for statistic in statistics
        if isinstance(statistic, Statistic) and statistic.name == UNCLIPPED
    )
    # The bounds are clipped as the mean is.
    low, high = (None if end is None else min(max(end, 0.0), 1.0) for end in mean.worst)

    def clipped(totals: Floats) -> Floats:
        return np.clip(mean_of(totals), 0.0, 1.0)

    return [
        Statistic(
            SCORE,
            mean.columns,
            clipped,
            mean.n,
            mean.missing,
            (low, high),
            why=mean.why,
        )
    ]


BENCHMARKS: Final = (
    benchmark(
        "healthbench",
        read=row_by_row(_read_case),
        item_rule=_item_rule,
    ),
)
