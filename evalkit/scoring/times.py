"""The month, the weekday and the hour of a time stamp, in the time zone in which it is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from evalkit.core.patterns import lazy_pattern
from evalkit.core.values import frozen

WEEKDAY: Final = ":weekday"
HOUR: Final = ":hour"
MONTH: Final = ":month"
PARTS: Final = (MONTH, WEEKDAY, HOUR)
"""Ends of the names of columns that are parts of a column of time stamps."""
WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
    *("Saturday", "Sunday"),
)
WEEKEND: Final = "weekend"
WORKDAY: Final = "Monday to Friday"
SATURDAY: Final = 5
HOURS: Final = 24
STEP: Final = 2
"""Ranges of hours begin and end at even hours."""
LONGEST: Final = 12
"""The most hours of a range."""
_DATE: Final = lazy_pattern(r"(\d{4})[-/](\d\d)[-/](\d\d)(?!\d)")
_CLOCK: Final = lazy_pattern(
    r"(?:^|[T ,])(\d{1,2}):\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?([AaPp])\.?[Mm]\.?)?"
    r"(?:$|[Z ]|[+-]\d\d)"
)
_DAY_NAME: Final = lazy_pattern(
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:day|sday|nesday|rsday|urday)?\b"
)
_NUMERIC: Final = lazy_pattern(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
"""A date that may begin with its day or its month: only its hour is known."""
_CLOCK_ONLY: Final = lazy_pattern(r"\d{1,2}:\d\d")
_TIME_NAME: Final = lazy_pattern(
    r"(?:^|_|\b)(?:at|time|timestamp|created|updated|date|ts|epoch)(?:$|_|\b)"
    r"|[a-z](?:At|Time|Date|Timestamp)(?:$|[A-Z])",
)
_EPOCH: Final = (946_684_800, 4_102_444_800)
"""Seconds since 1970 of the years 2000 and 2100; milliseconds are a thousand times as many."""
_LONGEST_EPOCH: Final = len(str(1000 * _EPOCH[1]))
"""The most digits of a text with so many milliseconds."""
_RANGE: Final = lazy_pattern(r"(\d{1,2}):00\.\.(\d{1,2}):59")


@frozen
class Moment:
    """What a time stamp says.

    Attributes:
        weekday: its day of the week, from 0 for Monday; `None` if it has none.
        hour: its hour of the day; `None` if it has none.
        month: its year and month, such as `2026-01`; `None` if its text begins with neither.
    """

    weekday: int | None
    hour: int | None
    month: str | None = None


class NamedValue(ABC):
    """A value that has other names than its text."""

    @abstractmethod
    def is_named(self, name: str) -> bool:
        """Return whether the value has this name."""


class Hour(NamedValue):
    """An hour of the day, which is in many ranges of hours.

    Args:
        hour: the hour, from 0.
    """

    def __init__(self, hour: int) -> None:
        self.hour = hour

    def __str__(self) -> str:
        return range_name(self.hour, 1)

    def is_named(self, name: str) -> bool:
        """Return whether the hour is in a range such as `22:00..05:59`, or is this number."""
        if name.isdecimal():
            return name.lstrip("0") == str(self.hour).lstrip("0")
        found = _RANGE.fullmatch(name)
        if found is None:
            return False
        first, last = map(int, found.groups())
        # A range may pass midnight.
        if first <= last:
            return first <= self.hour <= last
        return self.hour >= first or self.hour <= last


def range_name(first: int, count: int) -> str:
    """Return the name of so many hours from the first one on."""
    last = (first + count - 1) % HOURS
    return f"{first:02}:00..{last:02}:59"


def hour_ranges() -> list[tuple[int, int]]:
    """Return the ranges of hours that are searched, as the first hour and the number of hours."""
    starts = range(0, HOURS, STEP)
    return [
        (start, count) for count in range(STEP, LONGEST + 1, STEP) for start in starts
    ]


def moment_of(column: str, value: Any) -> Moment | None:
    """Return what a time stamp says; `None` if a value is none.

    Args:
        column: the name of the column, by which a number may be one.
        value: the value.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _of_number(column, value)
    text = str(value).strip()
    if text.isdecimal():
        if len(text) > _LONGEST_EPOCH:
            return None
        return _of_number(column, int(text))
    weekday = _weekday(text)
    clock = _CLOCK.search(text)
    is_known = weekday is not None or _NUMERIC.match(text) or _CLOCK_ONLY.match(text)
    if not is_known or (weekday is None and clock is None):
        return None
    month = _month(text)
    if clock is None:
        return Moment(weekday, None, month)
    hour = int(clock[1])
    if clock[2] is not None:
        # 12 AM is midnight.
        is_afternoon = clock[2] in "Pp"
        hour = hour % 12 + 12 * is_afternoon
    if hour >= HOURS:
        return None
    return Moment(weekday, hour, month)


def _month(text: str) -> str | None:
    """Return the year and the month that a text begins with."""
    found = _DATE.match(text)
    if found is None:
        return None
    return f"{found[1]}-{found[2]}"


def _weekday(text: str) -> int | None:
    """Return the day of the week that a text begins with, or of the date that it begins with."""
    named = _DAY_NAME.match(text)
    if named is not None and any(map(str.isdigit, text)):
        return [day[:3] for day in WEEKDAYS].index(named[1])
    found = _DATE.match(text)
    if found is None:
        return None
    year, month, day = map(int, found.groups())
    try:
        return date(year, month, day).weekday()
    except ValueError:
        return None


def _of_number(column: str, value: float) -> Moment | None:
    """Return what a number of seconds or milliseconds since 1970 says, in UTC."""
    if not _TIME_NAME.search(column):
        return None
    low, high = _EPOCH
    # An integer of hundreds of digits cannot be divided.
    if not low <= value < 1000 * high:
        return None
    seconds = value if value < high else value / 1000
    if seconds < low:
        return None
    stamp = datetime.fromtimestamp(seconds, UTC)
    return Moment(stamp.weekday(), stamp.hour, f"{stamp:%Y-%m}")


def part_of_time(column: str, value: Any, part: str) -> Any:
    """Return the month, the weekday, or the hour of a time stamp; `None` if it has none.

    Args:
        column: the column of the time stamp.
        value: the time stamp.
        part: `MONTH`, `WEEKDAY` or `HOUR`.
    """
    moment = moment_of(column, value)
    if moment is None:
        return None
    if part == MONTH:
        return moment.month
    if part == HOUR:
        return None if moment.hour is None else Hour(moment.hour)
    if moment.weekday is None:
        return None
    return names_of_day(moment.weekday)


def names_of_day(weekday: int) -> list[str]:
    """Return the name of a day, and whether it is at a weekend."""
    if weekday >= SATURDAY:
        return [WEEKDAYS[weekday], WEEKEND]
    return [WEEKDAYS[weekday], WORKDAY]


def split_part(column: str) -> tuple[str, str] | None:
    """Return the column of time stamps and the part that a name such as
    `created_at:hour` is of; `None` for another name.
    """
    for part in PARTS:
        if column.endswith(part) and len(column) > len(part):
            return column.removesuffix(part), part
    return None


def moments_of(column: str, values: Sequence[Any]) -> list[Moment | None] | None:
    """Return what each value of a column of time stamps says, `None` for a missing one;
    `None` for another column.
    """
    moments: list[Moment | None] = []
    for value in values:
        if value is None or value == "":
            moments.append(None)
            continue
        moment = moment_of(column, value)
        if moment is None:
            return None
        moments.append(moment)
    return moments
