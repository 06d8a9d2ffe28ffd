"""Weekdays and hours of time stamps: as texts have them, as slices, in gates, and in trust.json."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.core.errors import ConfigError
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Response
from evalkit.scoring.search import cell_of, check_choices, columns, searched_columns, selected
from evalkit.scoring.slices import slices_of
from evalkit.scoring.times import HOURS, Hour, Moment, hour_ranges, moment_of, range_name
from evalkit.serving.known_slices import KnownSlices

FORMATS = (
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M:%S.%f+02:00",
    "%Y/%m/%d %H:%M:%S",
    "%a, %d %b %Y %H:%M:%S GMT",
    "%a %b %d %H:%M:%S %Y",
    "%A %d %B %Y, %I:%M %p",
)
WITHOUT_DAY = ("%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%H:%M", "%I:%M:%S %p")


@given(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)))
def test_texts_say_the_weekday_and_the_hour_that_the_calendar_has(stamp):
    month = stamp.strftime("%Y-%m")
    for form in FORMATS:
        expected = Moment(stamp.weekday(), stamp.hour, month if form.startswith("%Y") else None)
        assert moment_of("x", stamp.strftime(form)) == expected, form
    for form in WITHOUT_DAY:
        assert moment_of("x", stamp.strftime(form)) == Moment(None, stamp.hour), form
    assert moment_of("x", stamp.date().isoformat()) == Moment(stamp.weekday(), None, month)


@pytest.mark.parametrize("name", ["created", "created_at", "responseTime", "ts", "timestamp"])
@pytest.mark.parametrize("scale", [1, 1000])
def test_numbers_are_times_by_the_name_of_their_column(name, scale):
    seconds = datetime(2026, 1, 3, 22, tzinfo=UTC).timestamp()
    for number in (seconds * scale, f"{seconds * scale:.0f}"):
        assert moment_of(name, number) == Moment(5, 22, "2026-01")
    assert moment_of("views", seconds * scale) is None


@pytest.mark.parametrize(
    "value",
    [True, 7, "Monitor 5", "Monday", "2026-13-01", "1.2.3", "3/4/2026", "10", "30:10", "at 10:30"],
)
def test_other_values_are_no_times(value):
    assert moment_of("created_at", value) is None


@given(st.text() | st.integers() | st.floats() | st.from_regex(r"\d{4}[-/]\d\d[-/]\d\d.*"))
@example(5 * 10**9)
@example(10**400)
@example("9" * 400)
@example("9" * 5000)
def test_no_value_is_too_strange_for_a_time(value):
    moment = moment_of("created_at", value)
    assert moment is None or moment.hour is None or 0 <= moment.hour < HOURS
    assert not Hour(7).is_named("9" * 5000)


def test_ranges_of_hours_pass_midnight():
    for first, count in hour_ranges():
        inside = {(first + step) % HOURS for step in range(count)}
        name = range_name(first, count)
        assert {hour for hour in range(HOURS) if Hour(hour).is_named(name)} == inside
    assert Hour(7).is_named("7")
    assert not Hour(7).is_named("night")
    assert str(Hour(7)) == "07:00..07:59"


def stamped(*stamps, column="created_at"):
    return [
        Case(str(number), "p", (Response("r"),), metadata={column: stamp})
        for number, stamp in enumerate(stamps)
    ]


START = datetime(2026, 1, 5)
WEEK = [(START + timedelta(hours=5 * number)).isoformat() for number in range(70)]


def test_parts_of_time_stamps_are_slices_and_no_strata():
    found = searched_columns(stamped(*WEEK, None, column="judged_at"))
    days, hours = found.derived
    assert (days.column, hours.column) == ("judged_at:weekday", "judged_at:hour")
    members = dict(zip(days.values, days.members.T, strict=True))
    weekend = members["Saturday"] | members["Sunday"]
    assert np.array_equal(members["weekend"], weekend)
    assert np.array_equal(members["Monday to Friday"][:-1], ~weekend[:-1])
    assert not days.members[-1].any()
    assert len(hours.values) == len(hour_ranges())
    listed = slices_of("judged_at:weekday", stamped(*WEEK, column="judged_at"))
    assert listed.values == days.values
    for cases in (stamped("2026-01-05", "2026-01-05"), stamped(*WEEK, "soon")):
        assert not searched_columns(cases).derived
        with pytest.raises(ConfigError, match="no case has this column"):
            slices_of("created_at:hour", cases)


def test_months_are_slices_from_five_on():
    for months, expected in ((4, 0), (5, 1)):
        cases = stamped(
            *(f"2026-{month:02}-0{day}" for month in range(1, months + 1) for day in (1, 2))
        )
        found = searched_columns(cases).derived
        named = [column for column in found if column.column == "created_at:month"]
        assert len(named) == expected
    assert named[0].values == tuple(f"2026-0{month}" for month in range(1, 6))
    assert selected(cases, {"created_at:month": {"in": ["2026-02"]}}).count(True) == 2


def test_a_column_of_the_data_goes_before_a_part_of_a_time():
    cases = [
        replace(case, metadata={**case.metadata, "created_at:weekday": "x"})
        for case in stamped(*WEEK)
    ]
    assert cell_of(cases[0], "created_at:weekday") == "x"
    assert [part.column for part in searched_columns(cases).derived] == ["created_at:hour"]
    assert searched_columns(stamped(*WEEK), ["created_at"]).derived
    (unclear,) = stamped("3/4/2026 10:30")
    assert cell_of(unclear, "created_at:weekday") is None
    assert cell_of(unclear, "created_at:month") is None


def test_only_hours_that_occur_are_slices_and_only_if_there_is_room(monkeypatch):
    cases = stamped(*(f"2026-01-0{day}T{hour:02}:00" for day in (5, 6) for hour in (9, 10)))
    days, hours = searched_columns(cases).derived
    assert days.values == ("Monday", "Monday to Friday", "Tuesday")
    assert 1 < len(hours.values) < len(hour_ranges())
    assert "12:00..13:59" not in hours.values
    monkeypatch.setattr(columns, "LIMIT", 8)
    assert [part.column for part in searched_columns(cases).derived] == ["created_at:weekday"]


def test_a_gate_is_limited_to_hours_and_weekdays():
    cases = stamped("2026-01-03T23:10", "2026-01-05T05:00", "2026-01-05T12:00")
    for column, value, chosen in (
        ("created_at:hour", "22:00..05:59", [False, False, True]),
        ("created_at:weekday", "weekend", [False, True, True]),
        ("created_at:weekday", "Monday", [True, False, False]),
    ):
        choices = {column: {"not": [value]}}
        check_choices(cases, choices)
        assert selected(cases, choices) == chosen


@pytest.mark.parametrize(("column", "value", "known"), [
    ("created_at:hour", "22:00..05:59", ["22:00..05:59", "06:00..17:59"]),
    ("created_at:weekday", "weekend", ["Monday", "Saturday", "weekend", "Monday to Friday"]),
])  # fmt: skip
def test_a_served_judge_knows_the_part_of_a_time(column, value, known):
    where = [{"column": column, "slice": value, "allows": "none"}]
    decision = {"use": "single", "where": where}
    slices = KnownSlices(
        json.loads(json.dumps({"decision": decision, "searched": {"values": {column: known}}}))
    )
    weekend_night, monday_noon = stamped("2026-01-03T23:10", "2026-01-05T12:00")
    assert [kind for kind, _ in slices.warnings(weekend_night)] == ["slice"]
    assert not [*slices.warnings(monday_noon)]
    for unknown in stamped(None, "soon", "10"):
        ((kind, text),) = slices.warnings(unknown)
        assert kind == "slice_unknown"
        assert "no known value of created_at, so" in in_every_language(text)[0]


def test_pairs_of_one_system_and_which_systems_are_compared_are_slices():
    pairs = [("a", "b"), ("b", "a"), ("a", "a"), ("b", "b"), ("a", None)]
    cases = [
        Case(str(n), "p", tuple(Response("r", name) for name in names))
        for n, names in enumerate(pairs)
    ]
    longer = [
        replace(case, responses=(Response("r" * 9), Response("r" * n)))
        for n, case in enumerate(cases)
    ]
    (ratios,) = searched_columns(longer).derived
    assert (ratios.column, ratios.computed) == ("length_ratio", True)
    assert ratios.members.sum() == 4
    (compared,) = searched_columns(cases).derived
    assert compared.column == "model_pair"
    members = dict(zip(compared.values, compared.members.T.tolist(), strict=True))
    assert members["a / b"] == [True, True, False, False, False]
    assert members["the same"] == [False, False, True, True, False]
    named = [replace(case, metadata={"model_pair": case.id}) for case in cases]
    assert not searched_columns(named).derived
    assert selected(cases, {"model_pair": {"not": ["the same"]}}) == [
        True,
        True,
        False,
        False,
        False,
    ]
