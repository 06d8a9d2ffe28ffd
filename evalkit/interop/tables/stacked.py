"""Tables with a column for each rater and criterion, run or order, as rows by
criterion, run or order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from evalkit.config.table_reading import TableReading
from evalkit.core.errors import DatasetError, did_you_mean
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns
from evalkit.interop.tables.words import fold, matches, tokens

ALL_CRITERIA: Final = "CRITERION"
"""The word for all criteria in `--key CRITERION`."""
COLUMN: Final = "criterion"
"""The column with the names of criteria."""
ALL_RUNS: Final = "RUN"
"""The word for all runs of judges in `--key RUN`."""
RUN: Final = "run"
ALL_ORDERS: Final = "ORDER"
"""The word for both orders of pairs in `--key ORDER`."""
ORDER: Final = "order"
ROLES: Final = {RUN: "sample", ORDER: "order"}
"""The roles of columns of runs and orders; one of criteria is a key."""
_ID: Final = "id"
_BETWEEN_WORDS: Final = " _-.:/|()[]"
_SHORTER: Final = 0.25
"""By which share of its range a scale may end earlier than another and count as the same."""

Key = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stack:
    """Which columns become one.

    `criteria` are the names of the criteria, or of runs or orders, as `column` says. `judges` and
    `labels` have, for each rater, the columns in the order of the criteria.
    """

    criteria: tuple[str, ...]
    judges: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, tuple[str, ...]]
    column: str = COLUMN

    @property
    def raters(self) -> dict[str, tuple[str, ...]]:
        """The columns of all raters."""
        return {**self.judges, **self.labels}


def stack_of(
    judged: Mapping[Key, Sequence[str]],
    labeled: Mapping[Key, Sequence[str]],
    typed: Mapping[str, TypedColumn],
) -> Stack | None:
    """Return how to stack the columns of judges and labels; `None` if they have
    different raters or types.

    Args:
        judged: The judges' columns by criterion.
        labeled: The labels' columns by criterion.
        typed: The columns.
    """
    if COLUMN in typed:
        return None
    judges = _by_rater(judged)
    labels = _by_rater(labeled)
    if not judges or not labels:
        return None
    # A rater is either a judge or an annotator.
    shared = judges.keys() & labels.keys()
    if shared:
        return None
    criteria = tuple(" ".join(key) for key in judged)
    stack = Stack(criteria, judges, labels)
    kinds: set[str] = set()
    for columns in stack.raters.values():
        kinds.update(_kind(typed[name]) for name in columns)
    if len(kinds) > 1:
        return None
    return stack


def _kind(column: TypedColumn) -> str:
    """Return the type of a column; integers and decimal numbers are one type."""
    if column.is_numeric:
        return "number"
    return column.kind


def _by_rater(columns: Mapping[Key, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each rater in the order of criteria; nothing if a rater has
    not all of them.
    """
    # `human_tone` and `human_safety_score` are of one rater, but only by the second way.
    for rater_of in (_rater_of, _rater_without_parts):
        columns_by_rater: dict[str, list[str]] = {}
        for key, names in columns.items():
            for name in names:
                rater = rater_of(name, key)
                columns_by_rater.setdefault(rater, []).append(name)
        if all(len(names) == len(columns) for names in columns_by_rater.values()):
            return {rater: tuple(names) for rater, names in columns_by_rater.items()}
    return {}


def _rater_of(name: str, key: Key) -> str:
    """Return the name of a column without the words of its criterion."""
    words = _other_words(name, key)
    criterion = r"[\W_]*".join(map(re.escape, key))
    rater = re.sub(criterion, "", name, flags=re.IGNORECASE)
    rater = rater.strip(_BETWEEN_WORDS)
    if tokens(rater) == words:
        return rater
    return "_".join(words)


def _rater_without_parts(name: str, key: Key) -> str:
    """Return the name of a column also without words such as `score`."""
    words = _other_words(name, key)
    return "_".join(part for part in words if not matches(part, "part"))


def _other_words(name: str, key: Key) -> tuple[str, ...]:
    """Return the words of a name without those of a criterion, which are at an end if
    they can be.
    """
    words = tokens(name)
    size = len(key)
    if words[-size:] == key:
        return words[:-size]
    if words[:size] == key:
        return words[size:]
    return tuple(part for part in words if part not in key)


def has_one_scale(stack: Stack, typed: Mapping[str, TypedColumn]) -> bool:
    """Return whether all criteria have verdicts on one scale, by the levels that occur.

    A criterion whose highest number is far below that of another may have a shorter scale, and a
    result of both together would be about the scales.
    """
    # (criteria,) the columns of all raters.
    by_criterion = [*zip(*stack.raters.values(), strict=True)]
    if all(typed[name].is_numeric for names in by_criterion for name in names):
        highest_by_criterion = []
        lowest_by_criterion = []
        for names in by_criterion:
            numbers = [x for name in names for x in typed[name].distinct_numbers]
            highest_by_criterion.append(max(numbers))
            lowest_by_criterion.append(min(numbers))
        highest = max(highest_by_criterion)
        allowance = _SHORTER * (highest - min(lowest_by_criterion))
        return min(highest_by_criterion) >= highest - allowance
    words = [
        {fold(word) for name in names for word in typed[name].words}
        for names in by_criterion
    ]
    every_word = set().union(*words)
    half = len(every_word) / 2
    return all(len(levels) > half for levels in words)


def stacked(columns: Columns, stack: Stack, *, has_id: bool) -> Columns:
    """Return a table with a row for each row and criterion, run or order.

    Args:
        columns: The table.
        stack: Which columns become one.
        has_id: Whether a column identifies rows; otherwise their numbers do.
    """
    count = len(stack.criteria)
    rated: set[str] = set()
    for names in stack.raters.values():
        rated.update(names)
    # Each row becomes `count` rows.
    cells: dict[str, list[Any]] = {
        name: _repeated(column, count)
        for name, column in columns.cells.items()
        if name not in rated
    }
    if not has_id:
        # Rows are numbered from 1.
        numbers = range(1, len(columns) + 1)
        cells[_ID] = _repeated(numbers, count)
    cells[stack.column] = [*stack.criteria] * len(columns)
    for rater, names in stack.raters.items():
        by_criterion = [columns.cells[name] for name in names]
        by_row = zip(*by_criterion, strict=True)
        cells[rater] = [cell for row in by_row for cell in row]
    locations = _repeated(columns.places, count)
    return Columns(cells, locations, columns.notes)


def _repeated(values: Iterable[T], count: int) -> list[T]:
    """Return each value `count` times, one after the other."""
    return [value for value in values for _ in range(count)]


def stacked_again(
    columns: Columns, reading: TableReading, labels: Collection[str], where: str
) -> Columns:
    """Return a table with rows by criterion, as in a reading; without judges if its
    columns are missing.

    Args:
        columns: The table.
        reading: The reading.
        labels: The raters that are labels.
        where: The table's name.

    Raises:
        DatasetError: If a label's column is missing, or some of a judge's.
    """
    raters = {}
    for rater, names in reading.stacked.items():
        missing = [name for name in names if name not in columns.cells]
        if len(missing) == len(names) and rater not in labels:
            continue
        if missing:
            first = missing[0]
            problem = f"has no column '{first}', which the reading uses"
            remedy = did_you_mean(first, list(columns.cells))
            raise DatasetError(problem, where=where, remedy=remedy)
        raters[rater] = names
    roles = [
        column.role for name, column in reading.columns.items() if name in columns.cells
    ]
    has_id = "id" in roles or "prompt" in roles
    stack = Stack(reading.criteria, {}, raters, reading.stacked_by)
    return stacked(columns, stack, has_id=has_id)
