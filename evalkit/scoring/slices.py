"""Slices: the cases with one value of a column of their metadata, or of one computed from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final, TypeAlias

import numpy as np

from evalkit.core.display import char_code, visible, visible_names
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import Bools, Floats
from evalkit.scoring.times import (
    HOUR,
    HOURS,
    MONTH,
    WEEKDAY,
    NamedValue,
    hour_ranges,
    moments_of,
    names_of_day,
    range_name,
    split_part,
)

FEW: Final = 10
"""Slices of fewer units are counted, not estimated."""
BINS: Final = 4
"""Bins of a column of numbers."""
MOST: Final = 100
"""The most slices of a column."""
LONGEST: Final = 100
"""The longest name of a slice in characters."""
LARGEST: Final = 1e300
"""The bound of numbers that are put into bins."""
LENGTH: Final = "length"
ANNOTATOR: Final = "annotator"
NO_VALUE: Final = "(no value)"
"""The name of the slice of the cases that have no value in a column."""


Edge: TypeAlias = float | str | None
"""Where a bin begins or ends: a number, a date, or `None` if it is open."""


@frozen
class Slices:
    """The slices of a column.

    Attributes:
        column: the name of the column.
        values: the value or bin of each slice.
        members: (cases, slices) whether a case belongs to it.
        ends: from where to below where each bin reaches; empty if slices are values.
        computed: whether the values are not those of a column in the data.
    """

    column: str
    values: tuple[str, ...]
    members: Bools
    ends: tuple[tuple[Edge, Edge], ...] = ()
    computed: bool = False


def slices_of(column: str, cases: Sequence[Case]) -> Slices:
    """Return the slices of a column: its values, or quarters of the cases if it has many numbers.

    A list has several values. Without a column of this name, `length` is the mean number of
    characters of a case's responses, and `annotator` is those who labeled the case.

    Raises:
        ConfigError: if no case has the column, or it has too many values.
    """
    # (cases,) the value of the column, from the metadata or computed.
    values: list[Any] = [case.metadata.get(column) for case in cases]
    absent = all(value is None for value in values)
    computed = absent and column in (LENGTH, ANNOTATOR)
    if absent and column == LENGTH:
        values = [mean_length(case) for case in cases]
    elif absent and column == ANNOTATOR:
        values = [[*case.labels] for case in cases]
    where = f"scoring.slices={column}"
    derived = split_part(column) if absent else None
    if derived is not None:
        name, part = derived
        stamps = [case.metadata.get(name) for case in cases]
        parts = slices_of_times(name, stamps)
        if part in parts:
            return parts[part]
    # An empty list or text in every case is an absent column too.
    if cases and all(not _listed(value) for value in values):
        columns = dict.fromkeys(name for case in cases for name in case.metadata)
        remedy = did_you_mean(column, [LENGTH, ANNOTATOR, *columns])
        raise ConfigError("no case has this column", where=where, remedy=remedy)
    try:
        slices = slices_of_values(column, values)
    except TooManySlicesError as error:
        remedy = "choose a column with fewer and shorter values"
        raise ConfigError(str(error), where=where, remedy=remedy) from None
    return replace(slices, computed=computed)


def mean_length(case: Case) -> float:
    """Return the mean number of characters of a case's responses."""
    if len(case.responses) == 1:
        return float(len(case.responses[0].text))
    lengths = [len(response.text) for response in case.responses]
    return sum(lengths) / len(lengths) if lengths else float("nan")


class TooManySlicesError(ValueError):
    """A column has too many or too long values to be slices."""


def slices_of_values(column: str, values: Sequence[Any], bins: int = BINS) -> Slices:
    """Return the slices of a column, given the value of each case.

    Args:
        column: the name of the column.
        values: the value of each case.
        bins: the number of bins of numbers and dates.

    Raises:
        TooManySlicesError: if it has too many or too long values.
    """
    plain_numbers = _plain_numbers(values)
    if plain_numbers is not None:
        return _parts_by_number(column, plain_numbers, False, bins)
    lists = [_listed(value) for value in values]
    texts = [_text(value) for row in lists for value in row]
    # Distinct values in order of first occurrence.
    distinct = list(dict.fromkeys(texts))
    # Numbers in lists are names, such as those of annotators; they measure nothing.
    are_names = any(isinstance(value, list | tuple) for value in values)
    if len(distinct) > BINS + 1 and not are_names:
        # Numbers first, then dates: a column is one of them only if all of its values are.
        for scale in (number_of, day_of):
            numbers = _numbers(lists, scale)
            if numbers is not None:
                dates = scale is day_of
                return _parts_by_number(column, numbers, dates, bins)
    if len(distinct) > MOST:
        raise TooManySlicesError(
            f"it has {len(distinct):,} values, and at most {MOST} can be slices"
        )
    longest = max(map(len, distinct), default=0)
    if longest > LONGEST:
        raise TooManySlicesError(
            f"a value has {longest:,} characters, and at most {LONGEST} can name a slice"
        )
    # Names in order, so that slices do not depend on the order of the cases.
    index = {value: position for position, value in enumerate(sorted(distinct))}
    # shape (cases, slices)
    members = np.zeros((len(values), len(index)), dtype=bool)
    # A case with a list of values belongs to several slices: its row is there several times.
    rows = [row for row, cell in enumerate(lists) for _ in cell]
    columns = [index[text] for text in texts]
    members[rows, columns] = True
    return Slices(visible(column), _values(index), members)


def _plain_numbers(values: Sequence[Any]) -> Floats | None:
    """Return values as an array, NaN where there is none, if all are numbers and more than a
    few differ; most computed columns are of this kind.
    """
    if not {*map(type, values)} <= {int, float, type(None)}:
        return None
    numbers = [value for value in values if value is not None]
    if len({*numbers}) <= BINS + 1 or not all(
        abs(value) < LARGEST for value in numbers
    ):
        return None
    return np.array([np.nan if value is None else value for value in values], float)


def _numbers(
    lists: Sequence[Sequence[Any]], scale: Callable[[Any], float | None]
) -> Floats | None:
    """Return the number of each case, NaN without a value; `None` if a value is no number.

    Args:
        lists: the values of each case, at most one.
        scale: reads a value as a number.
    """
    numbers = np.full(len(lists), np.nan)
    for row, cell in enumerate(lists):
        if not cell:
            continue
        number = scale(cell[0])
        if number is None:
            return None
        numbers[row] = number
    return numbers


def _listed(value: Any) -> list[Any]:
    """Return the values of a cell, which can be a list of them."""
    if not isinstance(value, list | tuple):
        value = [value]
    return [part for part in value if part not in (None, "")]


def is_member(
    value: Any, name: str, ends: tuple[Edge, Edge] | None = None
) -> bool | None:
    """Return whether a cell with this value belongs to a slice.

    It is `None` if the cell has no value of the kind, except for the slice of such cells.

    Args:
        value: the value of a case.
        name: the value or bin that the slice is named by.
        ends: from where to below where the bin reaches; `None` for a value.
    """
    if isinstance(value, NamedValue):
        return value.is_named(name)
    cell = _listed(value)
    if not cell:
        if name == NO_VALUE:
            return True
        return None
    if ends is None:
        # As texts show the value, since that is how slices are named.
        return any(visible(_text(part)) == name for part in cell)
    low, high = ends
    # An end that is a text is a date.
    dates = isinstance(low, str) or isinstance(high, str)
    scale = day_of if dates else number_of
    parsed = [scale(part) for part in cell]
    numbers = [number for number in parsed if number is not None]
    if not numbers:
        return None
    # From the start, and below the end.
    start = _edge(low, -np.inf)
    end = _edge(high, np.inf)
    return any(start <= number < end for number in numbers)


def is_named(value: Any, name: str) -> bool:
    """Return whether a cell has the value of this name.

    It also has it if it is a number or a date in the range `low..high`.
    """
    if isinstance(value, NamedValue):
        return value.is_named(name)
    cell = _listed(value)
    if not cell:
        return name == NO_VALUE
    for part in cell:
        text = _text(part)
        # The value as data have it, or as metrics spell it.
        if name in (text, visible(text)):
            return True
        if ".." in name and _is_in_range(part, name):
            return True
    return False


def _is_in_range(value: Any, name: str) -> bool:
    """Return whether a value is a number or a date in the range `low..high`."""
    low, _, high = name.partition("..")
    for scale in (number_of, day_of):
        start = scale(low)
        end = scale(high)
        number = scale(value)
        if number is None or start is None or end is None:
            continue
        # Names of bins have six digits.
        if scale is number_of:
            number = float(f"{number:.6g}")
        if start <= number <= end:
            return True
    return False


def _edge(edge: Edge, otherwise: float) -> float:
    """Return an end of a bin as a number."""
    if edge is None:
        return otherwise
    if isinstance(edge, str):
        day = day_of(edge)
        if day is None:
            return otherwise
        return day
    return edge


def check_slices(columns: Sequence[str], cases: Iterable[Case]) -> None:
    """Check the value of `scoring.slices`; without any, no case is read.

    Raises:
        ConfigError: as `slices_of`.
    """
    sliced_cases = [*cases] if columns else []
    for column in columns:
        slices_of(column, sliced_cases)


def _text(value: Any) -> str:
    """Return a value as a text; one with parts as JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _values(values: Iterable[str]) -> tuple[str, ...]:
    """Return values as texts show them, different ones for all that would have the same
    name of a metric.
    """
    parts = visible_names(values, _name_part)
    texts = []
    for value, part in parts.items():
        is_own = _name_part(value) == part
        texts.append(visible(value) if is_own else part)
    return tuple(texts)


_NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
"""A number as text. One with leading zeros is a code."""


def number_of(value: Any) -> float | None:
    """Return a value as a number with which arithmetic is possible; `None` if it is none."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) < LARGEST:
        return float(value)
    return None


def day_of(value: Any) -> float | None:
    """Return the number of the day of a date or time in ISO format; `None` if it is none."""
    text = str(value)
    if not _DATE.match(text):
        return None
    try:
        return float(datetime.fromisoformat(text).toordinal())
    except ValueError:
        return None


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def _parts_by_number(column: str, numbers: Floats, dates: bool, parts: int) -> Slices:
    """Return parts of the cases of about equal size by a number, or by the number of a day."""
    # Quantiles that are values of cases; equal ones merge, so that there may be fewer bins.
    shares = np.linspace(0, 1, parts + 1)
    quantiles = np.nanquantile(numbers, shares, method="lower")
    edges = np.unique(quantiles)
    count = max(len(edges) - 1, 1)
    # The index of the last edge at or below the number; the highest number belongs to the last
    # bin.
    last_edge = np.searchsorted(edges, numbers, side="right") - 1
    bins = np.clip(last_edge, 0, count - 1)
    present = ~np.isnan(numbers)
    # (cases, bins): a case without a number is in none.
    members = (bins[:, None] == np.arange(count)) & present[:, None]
    names = []
    for column_members in members.T:
        inside = numbers[column_members]
        # Bins are named by the lowest and the highest number in them.
        lowest = _shown(inside.min(), dates)
        highest = _shown(inside.max(), dates)
        names.append(f"{lowest}..{highest}")
    starts: list[Edge] = [_start(edge, dates) for edge in edges[1:-1].tolist()]
    # The first bin also holds lower values, and the last one higher values.
    ends = tuple(zip([None, *starts], [*starts, None], strict=True))
    return Slices(visible(column), tuple(names), members, ends)


def slices_of_times(column: str, values: Sequence[Any]) -> dict[str, Slices]:
    """Return the months, the weekdays and the hours of a column of time stamps as slices, by the
    end of their name; nothing for another column.

    A day is in two slices, as a weekend has two days; an hour is in many ranges of hours.

    Args:
        column: the name of the column.
        values: the value of each case.
    """
    moments = moments_of(column, values)
    if moments is None:
        return {}
    months = [moment.month if moment else None for moment in moments]
    days = [moment.weekday if moment else None for moment in moments]
    named_days = [None if day is None else names_of_day(day) for day in days]
    hours = [moment.hour if moment else None for moment in moments]
    slices_by_part = {}
    different_months = {*months} - {None}
    different_days = {*days} - {None}
    different_hours = {*hours} - {None}
    # As many months as bins, at least, and at most as many as can be slices.
    if BINS < len(different_months) <= MOST:
        slices_by_part[MONTH] = slices_of_values(column + MONTH, months)
    # Of one day, or one hour, nothing can be compared.
    if len(different_days) > 1:
        slices_by_part[WEEKDAY] = slices_of_values(column + WEEKDAY, named_days)
    if len(different_hours) > 1:
        slices_by_part[HOUR] = _ranges_of_hours(column + HOUR, hours)
    return slices_by_part


def _ranges_of_hours(column: str, hours: Sequence[int | None]) -> Slices:
    """Return ranges of hours that have cases as slices; a range may pass midnight."""
    # shape (cases,): -1 without an hour
    numbers = np.array([-1 if hour is None else hour for hour in hours])
    names = []
    members = []
    for first, count in hour_ranges():
        since = (numbers - first) % HOURS
        inside = (numbers >= 0) & (since < count)
        if inside.any():
            names.append(range_name(first, count))
            members.append(inside)
    return Slices(visible(column), tuple(names), np.stack(members, axis=1))


def _start(edge: float, dates: bool) -> Edge:
    if dates:
        return _shown(edge, dates)
    return edge


def _shown(number: float, dates: bool) -> str:
    """Return an end of a bin as its name has it."""
    if dates:
        return date.fromordinal(int(number)).isoformat()
    return f"{number:.6g}"


def slice_name(column: str, value: str, metric: str) -> str:
    """Return a slice's name of a metric; characters that MLflow refuses are replaced by
    their code, `_3d_` for `=`.
    """
    return f"slice/{_name_part(column)}/{_name_part(value)}/{metric}"


def _name_part(text: str) -> str:
    return re.sub(r"[^\w.-]|^\.", lambda match: char_code(match[0]), text)
