"""Judgments that say the same of several cases are read once, and have a row for each."""

import json
from array import array
from dataclasses import fields, replace
from math import inf, nan

import numpy as np
import pytest

from evalkit.core.deduplication import SharedJudgments, by_case
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Classes
from evalkit.core.types import Case, Completion, Judgment, Response, Usage, WeightedJudgment
from evalkit.runs.records import encode_line, encode_lines
from evalkit.scoring.judgments import read_judgments
from evalkit.scoring.pipeline import verdicts_of
from evalkit.scoring.verdicts.verdict_objects import number_alike

CASES = [Case(f"c{number}", "prompt", (Response("text"),)) for number in range(40)]
UNIT = (0,)


def judgments(*, as_classes: bool, apart: bool) -> list[Judgment]:
    """Return judgments of two judges; `apart` gives each case its own confidence."""
    made = []
    for number, case in enumerate(CASES):
        for judge in ("b", "a"):
            value = None if number % 7 == 0 else float(number % 5)
            made.append(
                Judgment(
                    case.id,
                    UNIT,
                    UNIT,
                    number % 2,
                    judge,
                    "failed" if value is None else "ok",
                    None if as_classes else value,
                    0.5 + 1e-9 * number if apart else 0.5,
                    {} if as_classes or value is None else {"overall": value},
                    class_name=("x", "y")[number % 2] if as_classes and value is not None else None,
                    error_kind="budget" if value is None and number % 2 else None,
                )
            )
    return made


@pytest.mark.parametrize("classes", [None, Classes({"x": "", "y": ""})])
def test_repeated_judgments_have_the_columns_of_separate_ones(classes):
    names = ["overall"] if classes is None else []
    short, apart = (
        read_judgments(
            CASES, judgments(as_classes=classes is not None, apart=apart), names, classes
        )
        for apart in (False, True)
    )
    assert len(short.case) == 2 * len(CASES)
    assert len({*apart.confidence.tolist()}) == len(CASES)
    for column in fields(short):
        if column.name != "confidence":
            one, other = getattr(short, column.name), getattr(apart, column.name)
            np.testing.assert_array_equal(one, other, column.name)


PLAIN = Judgment("c0", UNIT, UNIT, 0, "a", "ok", 1.0, 0.5, {"overall": 1.0})
OTHERWISE = {
    "unit": {"unit": (), "shown": ()},
    "shown": {"shown": ()},
    "sample": {"sample": 1},
    "judge": {"judge": "b"},
    "status": {"status": "refused"},
    "value": {"value": 2.0},
    "confidence": {"confidence": 0.7},
    "criteria": {"criteria": {"overall": 2.0}},
    "error_kind": {"status": "failed", "error_kind": "budget"},
    "completion": {"completion": Completion("text", "m", "stop", Usage(1, 1), cost_usd=0.5)},
    "weighted": {"weighted": WeightedJudgment(value=0.25)},
    "arbiter": {"arbiter": "b"},
    "class_name": {"class_name": "y"},
    "seen": {"seen": 0.25},
}
"""A judgment that differs in one field, by its name."""
IN_NO_COLUMN = frozenset(
    {
        *("case_id", "answer", "read_by", "error", "keys", "stored", "earlier"),
        *("ranking", "rankings", "items"),
    }
)
"""Fields that a column of a single response or pair does not show."""


def test_each_field_of_a_judgment_is_known_to_be_in_a_column_or_in_none():
    assert {field.name for field in fields(Judgment)} == {*OTHERWISE} | IN_NO_COLUMN


@pytest.mark.parametrize("name", [name for name in OTHERWISE if name not in ("unit", "shown")])
def test_judgments_that_differ_in_a_field_have_their_own_rows(name):
    classes = Classes({"x": "", "y": ""}) if name == "class_name" else None
    names = [] if classes else ["overall"]
    plain = replace(PLAIN, value=None, criteria={}, class_name="x") if classes else PLAIN
    changed = replace(plain, case_id="c1", **OTHERWISE[name])
    both = read_judgments(CASES[:2], [plain, changed], names, classes)
    alone = read_judgments(CASES[:2], [changed], names, classes)
    row = int(np.flatnonzero(both.case == 1)[0])
    for column in ("sample", "value", "confidence", "cost", "kind", "criteria", "seen"):
        joint, single = getattr(both, column)[row], getattr(alone, column)[0]
        np.testing.assert_array_equal(joint, single, column)
    assert both.judges[both.judge[row]] == changed.judge


def shared(separate: list[Judgment]) -> SharedJudgments:
    """Return judgments as those that share what they say."""
    index_of: dict[str, int] = {}
    statements = []
    said = array("q")
    for judgment in separate:
        content = repr(replace(judgment, case_id=""))
        if content not in index_of:
            index_of[content] = len(statements)
            statements.append(judgment)
        said.append(index_of[content])
    return SharedJudgments(statements, said, [judgment.case_id for judgment in separate])


KEYED = [replace(PLAIN, case_id=case.id, keys=("first", "last")) for case in CASES]
RANKED = [
    replace(PLAIN, case_id=case.id, unit=(0, 1, 2), shown=(0, 1, 2), ranking=((0,), (2,), (1,)))
    for case in CASES
]


@pytest.mark.parametrize(
    "separate",
    [judgments(as_classes=False, apart=False), KEYED, RANKED],
    ids=["scores", "keyed", "ranked"],
)
def test_shared_judgments_are_those_of_each_case(separate):
    together = shared(separate)
    assert len(together.statements) < len(separate)
    assert together == separate
    expected = read_judgments(CASES, separate, ["overall"])
    columns = read_judgments(CASES, together, ["overall"])
    assert columns.shapes == expected.shapes
    for name in {field.name for field in fields(columns)} - {"shapes"}:
        np.testing.assert_array_equal(getattr(columns, name), getattr(expected, name), name)
    with pytest.raises(ConfigError, match="not in the dataset"):
        read_judgments(CASES[1:], together, ["overall"])


def test_shared_judgments_are_written_as_each_would_be():
    said = [
        PLAIN,
        replace(PLAIN, value=nan, confidence=-0.0),
        replace(PLAIN, error="é\u2028\ud800"),
    ]
    said += [replace(PLAIN, value=1), replace(PLAIN, value=inf)]
    ids = ["c0", 'a "quoted" id', "例1", "a\u2028b", "\udc00", "é"]
    separate = [replace(judgment, case_id=name) for name in ids for judgment in said]
    separate.append(replace(PLAIN, case_id="once", error="only here"))
    lines = [*encode_lines(shared(separate))]
    assert lines == [*map(encode_line, separate)] == [*encode_lines(separate)]
    assert [json.loads(line)["case_id"] for line in lines[::5]] == [*ids, "once"]


def test_rows_are_numbered_by_their_bits_in_the_order_of_the_first():
    numbers = number_alike(
        [np.array([0.0, -0.0, nan, 0.0, nan, 1.0]), np.array([3, 3, 1, 3, 1, 3])]
    )
    assert numbers.tolist() == [0, 1, 2, 0, 2, 3]
    assert number_alike([np.array([], dtype=np.int64)]).tolist() == []


@pytest.mark.parametrize("as_classes", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_shared_verdicts_are_those_of_each_case(pointwise, as_classes, shares):
    made = judgments(as_classes=as_classes, apart=not shares)
    if as_classes:
        made = [replace(judgment, sample=0) for judgment in made]
    rubric = {"classes": {"x": "", "y": ""}} if as_classes else {"min": 0, "max": 4}
    config = pointwise(
        judge={
            "name": "both",
            "judges": [{"model": "a", "name": "a"}, {"model": "b", "name": "b"}],
        },
        criteria={"overall": ""},
        rubric=rubric,
    )
    cases = [replace(case, responses=(Response("text", grade=2.0),)) for case in CASES]
    verdicts = verdicts_of(config, CASES if as_classes else cases, made)
    together = verdicts.shared()
    assert (together is not None) == (shares or as_classes)
    if together is not None:
        assert len(together.statements) < len(CASES) / 4
        assert together == [*verdicts]
        assert [name for name, _ in by_case(verdicts)] == [case.id for case in CASES]
        assert [*encode_lines(verdicts)] == [*map(encode_line, verdicts)]
