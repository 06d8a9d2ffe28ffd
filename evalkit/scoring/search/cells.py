"""The value of a case in a column: of the data, computed from the case, or of two
columns at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from evalkit.core.types import Case
from evalkit.scoring.slices import LENGTH, is_named, mean_length
from evalkit.scoring.times import NamedValue, part_of_time, split_part

PROMPT_LENGTH: Final = "prompt_length"
SYSTEMS: Final = "model"
"""The systems whose responses a case has."""
SYSTEM_PAIR: Final = "model_pair"
"""The systems that a pair compares, in whichever order."""
LENGTH_RATIO: Final = "length_ratio"
"""How many times as long as the other the longer response of a pair is."""
SAME: Final = "the same"
"""The value of a pair whose responses are of one system."""
ITEM: Final = "item"
TAG: Final = "tag"
"""The ids and the tags of the items of a case's checklist."""
PLACE: Final = "case_number"
"""The place of a case in the data, from 1; only the whole data knows it."""
COMPUTED: Final = (LENGTH, PROMPT_LENGTH)
"""Columns that every case has, whatever its metadata are."""
CROSS: Final = " × "
"""Between the names of two columns that are searched at once."""
BOTH: Final = " / "
"""Between the values of a case in two such columns."""


def cell_of(case: Case, column: str) -> Any:
    """Return the value of a case in a column; a column of the data goes before a computed one.

    Args:
        case: the case.
        column: the column; `length` is the mean length of its responses, `prompt_length` that of
            its prompt, `model` the systems of its responses, `model_pair` both of a pair,
            `length_ratio` that of the lengths of its responses, and `item` and `tag` are those of
            its checklist. `created_at:month`, `created_at:weekday` and `created_at:hour` are parts
            of the time stamp in `created_at`.
    """
    value = case.metadata.get(column)
    if value is not None:
        return value
    value = computed_cell(case, column)
    if value is not None:
        return value
    derived = split_part(column)
    if derived is not None:
        name, part = derived
        return part_of_time(name, case.metadata.get(name), part)
    first, crosses, second = column.partition(CROSS)
    if not crosses:
        return None
    cells = [cell_of(case, first), cell_of(case, second)]
    if any(is_empty(cell) for cell in cells):
        return None
    return Crossed(*cells)


def computed_cell(case: Case, column: str) -> Any:
    """Return the value of a case in a column that is computed from it; `None` for
    another column.
    """
    if column == LENGTH and case.responses:
        return mean_length(case)
    if column == PROMPT_LENGTH and case.prompt:
        return len(case.prompt)
    if column == SYSTEMS:
        return [response.model for response in case.responses if response.model]
    if column == LENGTH_RATIO:
        return _length_ratio(case)
    if column == SYSTEM_PAIR:
        return _systems_compared(case)
    if column == ITEM:
        return [item.id for item in case.checklist if not item.numbered]
    if column == TAG:
        return [tag for item in case.checklist for tag in item.tags]
    return None


def _systems_compared(case: Case) -> list[str] | None:
    """Return both systems of a pair in the order of their names, and whether they are the same;
    `None` if one is unknown, or for another number of them.
    """
    names = [response.model for response in case.responses if response.model]
    if not len(names) == len(case.responses) == 2:
        return None
    both = BOTH.join(sorted(names))
    if names[0] == names[1]:
        return [both, SAME]
    return [both]


def _length_ratio(case: Case) -> float | None:
    """Return the ratio of the lengths of both responses of a pair, at least 1; `None`
    if one is empty, or for another number of them.
    """
    lengths = sorted(len(response.text) for response in case.responses)
    if len(lengths) != 2 or not lengths[0]:
        return None
    return round(lengths[1] / lengths[0], 3)


class Crossed(NamedValue):
    """The values of a case in two columns.

    Args:
        first: the value in the first column.
        second: the value in the second one.
    """

    def __init__(self, first: Any, second: Any) -> None:
        self.first = first
        self.second = second

    def __str__(self) -> str:
        return f"{self.first}{BOTH}{self.second}"

    def is_named(self, name: str) -> bool:
        """Return whether both values have the names that `name` is made of."""
        return any(
            is_named(self.first, first) and is_named(self.second, second)
            for first, second in _halves(name)
        )


def is_empty(value: Any) -> bool:
    """Return whether a case has no value in a column."""
    return value is None or value == "" or value == []


def _halves(name: str) -> Iterator[tuple[str, str]]:
    """Yield each way to read a name as two values; a value may have the separator in it, too."""
    start = name.find(BOTH)
    while start >= 0:
        # Before the separator, and after it.
        yield name[:start], name[start + len(BOTH) :]
        start = name.find(BOTH, start + 1)
