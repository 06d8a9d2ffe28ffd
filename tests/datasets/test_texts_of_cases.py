"""The texts of cases, read without the cases: the same texts, and the same complaints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.config import DatasetConfig
from evalkit.datasets import iter_cases
from evalkit.errors import DatasetError
from evalkit.types import CaseTexts

TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
text = st.sampled_from(["a", "b", "a b", "评语", "x" * 60])
odd = st.sampled_from(["", None, 3, 2.5, True, float("nan"), TALK, {"a": 1}, " "])
label = st.sampled_from(
    ["A", "A", "A", "B", "tie", "TIE", "no label", "", None, 3, 0, 2.5, float("nan"), float("inf"), True, [1, 2]]
)
mostly = st.integers(0, 9).flatmap(lambda drawn: odd if drawn == 9 else text)
SHAPES: dict[str, dict[str, Any]] = {
    "pairs": {"response_a": mostly, "response_b": mostly},
    "pairs of models": {"response_a": text, "response_b": text, "model_a": mostly, "model_b": mostly},
    "one": {"response": mostly, "model": mostly},
    "lists": {"responses": st.lists(mostly, max_size=3)},
    "lists of models": {
        "responses": st.lists(
            st.fixed_dictionaries({"text": text}, optional={"model": mostly, "grade": label, "odd": text}), max_size=3
        )
        | st.sampled_from(["a", '["a", "b"]', None])
    },
}


@st.composite
def data_sets(draw: st.DrawFn) -> list[dict[str, Any]]:
    shape = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    further = {"label": label, "context": mostly, "reference": mostly, "topic": text}
    if draw(st.integers(0, 9)) == 0:
        further["labels"] = st.just({"ann": "A"})
    rows = st.fixed_dictionaries({"prompt": mostly, **shape}, optional=further)
    found = [{"id": f"{number}", **row} for number, row in enumerate(draw(st.lists(rows, min_size=1, max_size=5)))]
    for row in found:
        if draw(st.integers(0, 9)) == 0:
            row["id"] = draw(st.sampled_from(["0", "", None, 7]))
    return found


def read(rows: list[dict[str, Any]], mode: str, as_texts: bool, settings: dict[str, Any]) -> list[CaseTexts] | str:
    cases = iter_cases(DatasetConfig.model_validate(settings), mode=mode, frame=rows)
    try:
        found = list(cases.texts()) if as_texts else list(map(CaseTexts.of, cases))
    except DatasetError as bad:
        return str(bad)
    return [one._replace(responses=tuple(one.responses)) for one in found]


@pytest.mark.parametrize(
    "how", [{}, {"max_chars": 40}, {"nulls": "leave_out"}, {"label_map": {"no label": "A", "3": "B"}}, {"limit": 2}]
)
@settings(max_examples=150)
@given(data_sets(), st.sampled_from(["pairwise", "pointwise"]))
def test_they_are_the_cases_texts(how: dict[str, Any], rows: list[dict[str, Any]], mode: str) -> None:
    assert read(rows, mode, True, how) == read(rows, mode, False, how)


@pytest.mark.parametrize("fields", [{"prompt": "question"}, {"prompt": "{{ question }}!"}, {"prompt": "deep.er"}])
def test_they_are_found_in_other_columns(fields: dict[str, str], tmp_path: Path) -> None:
    rows = [
        {"id": f"{n}", "question": f"q{n}", "deep": {"er": f"d{n}"}, "response_a": "a", "response_b": "b", "label": "A"}
        for n in range(3)
    ]
    found = read(rows, "pairwise", True, {"fields": fields})
    assert found == read(rows, "pairwise", False, {"fields": fields})
    assert next(one.prompt for one in found if isinstance(one, CaseTexts)) in ("q0", "q0!", "d0")


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"text": "a", "grade": "good"}, {"text": "b"}], 'the grade "good" is not a number'),
        ([{"text": "a", "model": {"name": "x"}}, {"text": "b"}], "responses.0.model is an object"),
        ([{"text": "a"}, {"model": "x"}], "responses.1 has no 'text'"),
        ([{"text": "a"}, {"text": None}], "responses.1.text is null"),
        (["a", {"text": "b", "model": 3}], None),
        (["a"], "1 response, and mode pairwise needs 2"),
    ],
)
def test_a_list_that_is_not_plain_is_read_as_ever(entries: list[Any], said: str | None) -> None:
    rows = [{"id": "1", "prompt": "p", "responses": entries}]
    found = read(rows, "pairwise", True, {})
    assert found == read(rows, "pairwise", False, {})
    assert isinstance(found, list) if said is None else said in found
