"""Labels in every spelling, and none invented."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.datasets.labels import Labels, normalize_label, read_choice
from evalkit.errors import DatasetError
from evalkit.types import Response

ONE, TWO, THREE = (tuple(Response(t) for t in "xyz"[:n]) for n in (1, 2, 3))


@pytest.mark.parametrize("value", [1, "1", 1.0, "1.0", " 1 "])
def test_one_label_in_many_spellings(value: object) -> None:
    assert normalize_label(value) == "1"
    for key in ("1", "1.0"):
        assert Labels({key: "B"}).attach(value, TWO, "here") == ("B", TWO)


@pytest.mark.parametrize(
    ("value", "expected"), [("A", "A"), ("b", "B"), ("Tie", "TIE"), (" TIE ", "TIE"), (None, None), ("", None)]
)
def test_plain_choices_need_no_map(value: object, expected: str | None) -> None:
    assert Labels({}).attach(value, THREE, "here") == (expected, THREE)


@pytest.mark.parametrize("word", ["left", "Right", "first", "model_a", "C", "[[A]]", "tie (both bad)", "none", "1", 2])
def test_an_annotators_choice_has_no_other_spelling(word: object) -> None:
    assert [read_choice(one, "l.csv:2") for one in (" a", "B", "Tie")] == ["A", "B", "TIE"]
    with pytest.raises(DatasetError) as error:
        read_choice(word, "l.csv:2")
    assert str(error.value) == f"l.csv:2: '{word}' is not a winner; write A, B or TIE"


def test_the_map_goes_before_the_plain_reading() -> None:
    labels = Labels({"A": "B", "model_b": "B", "true": "A", "中": "TIE"})
    assert [labels.attach(v, TWO, "here")[0] for v in ("A", "model_b", True, "中", "B")] == ["B", "B", "A", "TIE", "B"]


def test_grades() -> None:
    labels = Labels({"good": 5, "true": 0, "4": 40})
    assert [labels.attach(v, ONE, "here")[1][0].grade for v in (3, "2.5", "good", True, 4)] == [3, 2.5, 5, 0, 40]
    assert [r.grade for r in labels.attach([1, None, "good"], THREE, "here")[1]] == [1, None, 5]
    assert labels.grade("", "here") is None


@pytest.mark.parametrize(
    ("value", "responses", "said"),
    [
        ("A", ONE, 'here: label "A" chooses between two responses, but there is one'),
        ("fine", ONE, 'here: label "fine" is not a number; map it'),
        (False, ONE, "here: label false is not a number"),
        ("nan", ONE, 'here: label "nan" is not a number'),
        ("inf", TWO, 'here: label "inf" is not mapped'),
        (
            2,
            TWO,
            "here: label 2 is not mapped to A, B or TIE; map it, for example 'dataset.label_map=\"2=A\"', or",
        ),
        ("x" * 99, TWO, 'here: label "' + "x" * 38 + "… is not mapped"),
        ({"a": 1}, TWO, 'here: label {"a": 1} is not mapped'),
    ],
)
def test_a_label_that_says_nothing_is_refused(value: object, responses: tuple[Response, ...], said: str) -> None:
    with pytest.raises(DatasetError) as caught:
        Labels({}).attach(value, responses, "here")
    assert str(caught.value).startswith(said)


def test_a_winner_is_no_grade() -> None:
    with pytest.raises(DatasetError, match="not a number"):
        Labels({"good": "A"}).grade("good", "here")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_number_is_its_own_grade(value: float) -> None:
    assert Labels({}).grade(value, "here") == pytest.approx(value, rel=1e-12, abs=0)
