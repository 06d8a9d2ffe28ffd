"""Tables in which only people judged: how far the annotators agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.errors import DatasetError
from evalkit.core.types import Metric
from evalkit.core.values import frozen
from evalkit.interop.import_cases import to_cases
from evalkit.interop.tables.columns import Rows, columns_of_table
from evalkit.interop.tables.fixed_roles import Choices
from evalkit.interop.tables.judging_command import judging_command
from evalkit.interop.tables.parts import Parts
from evalkit.interop.tables.questions import Role
from evalkit.interop.tables.reading import labels_of_case
from evalkit.interop.tables.table import read_columns
from evalkit.scoring.metrics.correlation import spearman_statistic
from evalkit.scoring.metrics.humans import Annotations, annotator_agreement
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.statistic import Statistic, Tally

MOST_PAIRS: Final = 10
"""The most pairs of annotators that are compared one by one."""
_ALPHA: Final = "human/alpha"


@frozen
class PairOfAnnotators:
    """Two annotators: how many units both labeled, in how many their labels are equal, and
    Cohen's kappa of choices or Spearman's correlation of grades.
    """

    names: tuple[str, str]
    units: int
    equal: int
    metric: Metric


@frozen
class AnnotatorAgreement:
    """How far the annotators of a table agree.

    `alpha` is Krippendorff's, of nominal choices or of interval grades. `units` have labels of two
    annotators or more. `judging_command` has the responses judged; it is empty if they are not
    known.
    """

    roles: tuple[Role, ...]
    warnings: tuple[str, ...]
    names: tuple[str, ...]
    labels: int
    units: int
    graded: bool
    alpha: Metric
    pairs: tuple[PairOfAnnotators, ...]
    judging_command: str = ""


def agreement_of_annotators(
    rows: Rows, where: str, choices: Choices
) -> AnnotatorAgreement:
    """Return how far the annotators of a table agree.

    Args:
        rows: The rows of the table.
        where: Its name.
        choices: The user's choices.

    Raises:
        ConfigError: If the labels cannot be read, or fewer than two annotators have any.
    """
    alone = choices.without_judges()
    columns = columns_of_table(rows, where)
    table = read_columns(columns, where, alone)
    cases, _, _ = to_cases(table.parsed, "table")
    # {unit: {annotator: value}}; a unit is a response or a pair of a case.
    values: dict[tuple[str, Any], dict[str, Any]] = {}
    for case in cases:
        for label in labels_of_case(case, where):
            by_annotator = values.setdefault((label.case_id, label.unit), {})
            by_annotator[label.annotator] = label.value
    counts = Counter(name for labels in values.values() for name in labels)
    if len(counts) < 2:
        problem = (
            "has labels of fewer than two annotators, so there is no agreement to show"
        )
        remedy = "name the columns of annotators: --label COLUMN for each of them"
        raise DatasetError(problem, where=where, remedy=remedy)
    names = tuple(counts)
    units = list(values.values())
    graded = table.unit == "response"
    annotations = _annotations(units, names, graded=graded)
    metrics = measure(
        annotator_agreement(annotations), ScoringConfig(), Clusters.each(len(units))
    )
    return AnnotatorAgreement(
        roles=table.roles,
        warnings=table.warnings,
        names=names,
        labels=counts.total(),
        units=sum(len(labels) > 1 for labels in units),
        graded=graded,
        alpha=metrics[_ALPHA],
        pairs=tuple(_pairs(units, names, graded=graded)),
        judging_command=judging_command(Parts(columns, {}, [*table.roles]), where),
    )


def _annotations(
    units: Sequence[Mapping[str, Any]], names: Sequence[str], *, graded: bool
) -> Annotations:
    codes = {} if graded else _codes(units)
    rows = [
        (item, names.index(name), value if graded else codes[value])
        for item, labels in enumerate(units)
        for name, value in labels.items()
    ]
    item, annotator, value = np.array(rows, dtype=np.float64).T
    return Annotations(
        item=item.astype(np.int64),
        annotator=annotator.astype(np.int64),
        value=value,
        # No judge judged: its values are missing.
        judge=np.full(len(rows), np.nan),
        case=np.arange(len(units)),
        cases=len(units),
        names=tuple(names),
        chosen=not graded,
        classes=tuple(codes.values()),
    )


def _codes(units: Sequence[Mapping[str, Any]]) -> dict[Any, int]:
    """Return a number for each class."""
    classes = sorted({value for labels in units for value in labels.values()}, key=str)
    return {value: code for code, value in enumerate(classes)}


def _pairs(
    units: Sequence[Mapping[str, Any]], names: Sequence[str], *, graded: bool
) -> list[PairOfAnnotators]:
    """Return the pairs of annotators that have units in common, unless there are many."""
    pairs: list[PairOfAnnotators] = []
    for first, second in combinations(names, 2):
        both = [
            (labels[first], labels[second])
            for labels in units
            if first in labels and second in labels
        ]
        if not both:
            continue
        if len(pairs) == MOST_PAIRS:
            return []
        tally = Tally.each(len(both))
        if graded:
            first_grades, second_grades = np.array(both, dtype=np.float64).T
            statistic = spearman_statistic(tally, first_grades, second_grades)
        else:
            statistic = _kappa(both, tally)
        metric = measure([statistic], ScoringConfig(), Clusters.each(len(both)))
        equal = sum(value == twin for value, twin in both)
        pairs.append(
            PairOfAnnotators((first, second), len(both), equal, metric[statistic.name])
        )
    return pairs


def _kappa(both: Sequence[tuple[Any, Any]], tally: Tally) -> Statistic:
    codes = _codes([dict(zip("ab", pair, strict=True)) for pair in both])
    first, second = np.array([[codes[value] for value in pair] for pair in both]).T
    read = np.ones(len(both), dtype=bool)
    confusion = Confusion.of(tally, first, second, read, ~read, tuple(codes.values()))
    statistics = confusion.coefficients("human", "classes")
    return next(
        statistic for statistic in statistics if statistic.name == "human/kappa"
    )
