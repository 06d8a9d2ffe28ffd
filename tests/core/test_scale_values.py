"""One object says what is on a scale: its text, schema, check and distances never disagree."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evalkit.config import OutputConfig, RubricConfig
from evalkit.core.resources import shipped
from evalkit.core.scale import Scale
from evalkit.evaluators.parsing import UnreadableError, read_score
from tests.support.verdicts import read_rating

SHIPPED = {
    path.stem: path
    for path in sorted((shipped("conf") / "rubric").glob("*.yaml"))
    if not re.search(
        "^(classes|real):", path.read_text("utf-8"), re.M
    )  # which have no numbers, or no scale
}
RATING = OutputConfig(format="rating")
PATTERN = OutputConfig(format="regex", pattern=r"Score: (?P<score>\d)")
LENGTHS = {
    **dict.fromkeys(("binary", "binary_zh"), 2),
    **dict.fromkeys(("decimal10", "decimal10_zh"), 91),
    "helpsteer": 5,
    "share": 101,
    **dict.fromkeys(("likert10", "likert10_zh"), 10),
    **dict.fromkeys(("likert3", "likert3_zh"), 3),
    **dict.fromkeys(("likert5", "likert5_zh", "likert5_examples", "likert5_examples_zh"), 5),
    "own": 5,
    **dict.fromkeys(("percent100", "percent100_zh"), 100),
}


def shipped_scale(name: str) -> Scale:
    values = yaml.safe_load(SHIPPED[name].read_text("utf-8"))
    for base in values.pop("defaults", []):
        values = {**yaml.safe_load(SHIPPED[base].read_text("utf-8")), **values}
    return RubricConfig.model_validate(values).scale


@st.composite
def scales(draw: st.DrawFn) -> Scale:
    """Scales of decimal numbers: a step with up to three decimals, a minimum on or off its grid."""
    step = Decimal(draw(st.integers(1, 2000))).scaleb(-draw(st.integers(0, 3)))
    low = Decimal(draw(st.integers(-5000, 5000))).scaleb(-draw(st.integers(0, 3)))
    count = draw(st.integers(1, 60))
    return Scale(float(low), float(low + count * step), float(step))


def decimals(value: float) -> Any:
    # As a JSON number: 4 is an integer there, and 7.3 is the decimal number that it reads as.
    return int(value) if value.is_integer() else Decimal(str(value))


def check_all(scale: Scale) -> None:
    assert scale.problem() is None
    values = scale.values()
    assert len(values) == len(scale) == len(set(values))
    assert (values[0], values[-1]) == (scale.min, scale.max)
    assert list(values) == sorted(values)
    schema = Draft202012Validator(json.loads(json.dumps(scale.schema()), parse_float=Decimal))
    for value in values:
        text = scale.text(value)
        assert scale.contains(value)
        assert read_score(value, scale) == value
        assert read_score(text, scale) == value
        assert read_rating(f"Because. [[{text}]]", RATING, scale) == value
        assert schema.is_valid(decimals(value))
    assert len({scale.text(value) for value in values}) == len(values)


def test_what_is_shipped_is_what_it_is_called():
    assert {name: len(shipped_scale(name)) for name in SHIPPED} == LENGTHS


@pytest.mark.parametrize("name", SHIPPED)
def test_every_value_of_a_shipped_scale_goes_there_and_back(name):
    check_all(shipped_scale(name))


@given(scales())
def test_every_value_of_any_scale_goes_there_and_back(scale):
    check_all(scale)


@given(scales(), st.data())
def test_what_lies_between_or_beyond_is_off_the_scale_everywhere(scale, data):
    index = data.draw(st.integers(-1, len(scale) - 1))
    share = data.draw(st.sampled_from([Decimal("0.5"), Decimal("0.25"), Decimal("0.9375")]))
    off = float(Decimal(str(scale.min)) + (index + share) * Decimal(str(scale.step)))
    assert not scale.contains(off)
    for written in (off, repr(off), f"{off:f}" if "e" not in repr(off) else off):
        with pytest.raises(UnreadableError):
            read_score(written, scale)
    if len(scale) <= 101 or Decimal(str(scale.min)) % Decimal(str(scale.step)) == 0:
        assert not Draft202012Validator(
            json.loads(json.dumps(scale.schema()), parse_float=Decimal)
        ).is_valid(decimals(off))


@given(scales(), st.data())
def test_distances_are_those_of_decimal_arithmetic(scale, data):
    first, second = (data.draw(st.sampled_from(scale.values())) for _ in range(2))
    exact = abs(Decimal(str(first)) - Decimal(str(second)))
    assert scale.distance(first, second) == scale.distance(second, first) == float(exact)
    span = Decimal(str(scale.max)) - Decimal(str(scale.min))
    assert scale.span == float(span)


@pytest.mark.parametrize(
    ("scale", "schema"),
    [
        (Scale(1, 5, 1), {"type": "integer", "minimum": 1, "maximum": 5}),
        (Scale(0, 10, 2), {"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 2}),
        (Scale(1, 5, 2), {"type": "integer", "enum": [1, 3, 5]}),
        (Scale(1, 10, 0.1), {"type": "number", "minimum": 1.0, "maximum": 10.0, "multipleOf": 0.1}),
        (Scale(0.5, 2.5, 1), {"type": "number", "enum": [0.5, 1.5, 2.5]}),
        (Scale(0.5, 1000.5, 1), {"type": "number", "minimum": 0.5, "maximum": 1000.5}),
    ],
)
def test_the_schema_says_as_much_as_a_schema_can(scale, schema):
    assert scale.schema() == schema


@pytest.mark.parametrize(
    ("scale", "name", "step"),
    [
        (Scale(1, 5, 1), "1-5", "1"),
        (Scale(1, 10, 0.1), "1.0-10.0 by 0.1", "0.1"),
        (Scale(-2, 2, 0.5), "-2.0 to 2.0 by 0.5", "0.5"),
        (Scale(0, 1, 0.00001), "0.00000-1.00000 by 0.00001", "0.00001"),
        (Scale(0, 100, 5), "0-100 by 5", "5"),
    ],
)
def test_a_scale_names_itself(scale, name, step):
    assert scale.name() == scale.words()["name"] == name
    assert scale.words()["step"] == step


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"min": 5, "max": 1}, "min (5) must be below max (1)"),
        ({"min": 1, "max": 1}, "must be below max"),
        ({"max": float("inf")}, "must be below max"),
        ({"min": float("nan")}, "must be below max"),
        ({"step": 3}, "step 3 does not lead from min 1 to max 5"),
        ({"min": 0, "max": 1, "step": 0.3333333}, "does not lead"),
        ({"min": 0, "max": 1e9, "step": 0.1}, "more than a million values"),
        ({"step": float("inf")}, "finite"),
        ({"step": 0}, "greater than 0"),
    ],
)
def test_what_is_no_scale_is_refused(settings, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace(")", r"\)")):
        RubricConfig.model_validate(settings)


FIVE, TEN, HUNDRED, HALVES = Scale(1, 5, 1), Scale(1, 10, 1), Scale(1, 100, 1), Scale(1, 5, 0.5)


@pytest.mark.parametrize(
    ("written", "scale", "value"),
    [
        ("10", TEN, 10),
        ("１０", TEN, 10),
        ("十", TEN, 10),
        ("十分", TEN, 10),
        ("3.5/5", HALVES, 3.5),
        ("3.5 / 5.0", HALVES, 3.5),
        ("4 out of 5", FIVE, 4),
        ("4 OUT OF 5", FIVE, 4),
        ("４／５", FIVE, 4),
        ("４", FIVE, 4),
        ("四", FIVE, 4),
        ("四分", FIVE, 4),
        ("4分", FIVE, 4),
        ("4分。", FIVE, 4),
        ("两分", FIVE, 2),
        ("三点五分", HALVES, 3.5),
        ("4 stars", FIVE, 4),
        ("四星", None, None),
        ("4/5 points", FIVE, 4),
        ("4.", FIVE, 4),
        ("**4**", FIVE, 4),
        ("七十五分", HUNDRED, 75),
        ("一百分", HUNDRED, 100),
        ("85%", HUNDRED, 85),
        ("85 %", HUNDRED, 85),
        ("5.0", FIVE, 5),
        (True, None, None),
    ],
)
def test_spellings_that_are_read(written, scale, value):
    if scale is None:
        with pytest.raises(UnreadableError):
            read_score(written, FIVE)
    else:
        assert read_score(written, scale) == value


@pytest.mark.parametrize(
    "written",
    [
        *(
            *("8/10", "8 out of 10", "80%", "4/10", "4/5/5", "3-4", "3–4", "3~4", "3到4", "三四分"),
            *("四点", "五分之四"),
        ),
        *(
            *("4 or 5", "about 4", "~4", ">4", "4+", "4-", "+-4", "4,5", "4,0", "1e0", "0x4"),
            *("4.5", "6", "0", "-1", "10"),
        ),
        *(
            *("五十", "五十分", "零分", "十", "百", "百分", "二十零", "IV", "four", "4½", "4²"),
            *("④", "", " ", "5 4", "4 5", "N/A"),
        ),
        *(
            *("nan", "inf", "-inf", "NaN", "Infinity", "score", "None", "null", "四颗星", "4/five"),
            *("/5", "out of 5", "[4]"),
        ),
        *(
            10**400,
            -(10**400),
            float("nan"),
            float("inf"),
            1e308,
            None,
            [4],
            {"score": 4},
            (4,),
            4.0000001,
        ),
    ],
)
def test_spellings_that_are_refused_on_one_to_five(written):
    with pytest.raises(UnreadableError) as caught:
        read_score(written, FIVE)
    assert caught.value.kind == "invalid"
    assert len(caught.value.reason) < 200


def test_minus_nought_is_nought():
    assert str(read_score("-0", Scale(-1, 1, 1))) == "0.0"


@pytest.mark.parametrize(
    "text",
    [
        *("Score: 10", "Score: 1.5", "Score: 1/10", "Score: 1 out of 10", "Score: 1-2"),
        *("Score: 1,5", "Score: 1½"),
    ],
)
def test_a_pattern_that_captures_part_of_a_number_does_not_read_it(text):
    with pytest.raises(UnreadableError):
        read_rating(text, PATTERN, FIVE)


@pytest.mark.parametrize(
    ("text", "scale", "value"),
    [
        ("Score: 4", FIVE, 4),
        ("Score: 4.", FIVE, 4),
        ("Score: 4, since it is right", FIVE, 4),
        ("Score: 4/5", FIVE, 4),
        ("Score: 4 out of 5", FIVE, 4),
        ("Score: 10", TEN, 10),
        ("Score: 10/10", TEN, 10),
        ("Score: 4 - 2 faults", FIVE, 4),
        ("Score: 4\n5 quotes", FIVE, 4),
    ],
)
def test_a_pattern_reads_the_whole_number(text, scale, value):
    assert read_rating(text, PATTERN, scale) == value


def test_a_pattern_for_chinese_numerals_reads_the_whole_numeral():
    output = OutputConfig(format="regex", pattern=r"评分：(?P<score>[一二三四五])")
    assert read_rating("评分：四分", output, FIVE) == 4
    assert read_rating("评分：五十分", output, HUNDRED) == 50
    with pytest.raises(UnreadableError):
        read_rating("评分：五十分", output, FIVE)


@pytest.mark.parametrize("text", ["[[8]]/10", "[[4]] out of 10", "[[4]]／10"])
def test_a_rating_out_of_another_number_is_refused(text):
    with pytest.raises(UnreadableError, match="not a score out of 5"):
        read_rating(text, RATING, FIVE)
    assert read_rating("[[4]]/5", RATING, FIVE) == 4
