"""Labels of several people for one case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalkit.config import DatasetConfig
from evalkit.datasets import load_cases
from evalkit.errors import DatasetError

PAIR = {"prompt": "q", "response_a": "x", "response_b": "y"}


def load(tmp_path: Path, *rows: dict, mode: str = "pairwise", **config):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_cases(DatasetConfig(path=str(path), **config), mode=mode)


def test_choices_of_several_people(tmp_path):
    people = {"ann": "A", "bo": "b", "cy": "tie", "di": None, "ed": "B"}
    dataset = load(tmp_path, {**PAIR, "labels": people, "source": "s"})
    (case,) = dataset.cases
    assert dict(case.labels) == {"ann": "A", "bo": "B", "cy": "TIE", "ed": "B"}
    assert case.label == "B"
    assert case.metadata == {"source": "s"}
    assert any(note.startswith("labels from the majority of annotators") for note in dataset.notes)


def test_people_who_are_split_leave_no_label(tmp_path):
    dataset = load(tmp_path, {**PAIR, "labels": {"ann": "A", "bo": "B"}}, {**PAIR, "labels": '{"ann": "A"}'})
    assert [case.label for case in dataset.cases] == [None, "A"]
    assert any("evenly split" in note for note in dataset.notes)


def test_a_label_of_its_own_stands(tmp_path):
    (case,) = load(tmp_path, {**PAIR, "label": "A", "labels": {"ann": "B"}}).cases
    assert (case.label, dict(case.labels)) == ("A", {"ann": "B"})


def test_grades_for_each_response(tmp_path):
    (case,) = load(tmp_path, {**PAIR, "votes": {"ann": [1, 4], "bo": [2, None]}}, fields={"labels": "votes"}).cases
    assert dict(case.labels) == {"ann": (1.0, 4.0), "bo": (2.0, None)}
    assert [response.grade for response in case.responses] == [1.5, 4.0]
    assert case.label is None
    assert case.metadata == {}


def test_grades_that_stand_on_the_responses(tmp_path):
    responses = [{"text": "x", "labels": {"ann": 1, "bo": 3}}, {"text": "y", "labels": {"bo": 5}}, {"text": "z"}]
    (case,) = load(tmp_path, {"prompt": "q", "responses": responses}, mode="pointwise").cases
    assert dict(case.labels) == {"ann": (1.0, None, None), "bo": (3.0, 5.0, None)}
    assert [response.grade for response in case.responses] == [2.0, 5.0, None]


def test_one_response_takes_a_number(tmp_path):
    row = {"prompt": "q", "response": "x", "labels": {"ann": 4, "bo": "5"}}
    (case,) = load(tmp_path, row, mode="pointwise").cases
    assert dict(case.labels) == {"ann": (4.0,), "bo": (5.0,)}
    assert case.responses[0].grade == 4.5


def test_a_column_of_that_name_that_holds_something_else_is_metadata(tmp_path):
    (case,) = load(tmp_path, {**PAIR, "labels": ["news", "short"]}).cases
    assert (dict(case.labels), case.metadata) == ({}, {"labels": ["news", "short"]})


def test_the_fingerprint_knows_of_people_and_of_nothing_else(tmp_path):
    plain, labelled = (
        load(tmp_path, {**PAIR, "label": "A"}),
        load(tmp_path, {**PAIR, "label": "A", "labels": {"n": "A"}}),
    )
    assert plain.fingerprint != labelled.fingerprint


@pytest.mark.parametrize(
    ("labels", "mapped", "said"),
    [
        ({"ann": "first"}, False, 'label "first" is not mapped'),
        ({"ann": [1, 2, 3]}, False, "label has 3 grades for 2 responses"),
        ({"ann": 3}, False, "label 3 is not mapped to A, B or TIE"),
        ("{broken", False, "labels is not a JSON object"),
        (["A"], True, "labels is not an object; write {annotator: label}"),
    ],
)
def test_what_is_no_label_is_refused_with_its_place(tmp_path, labels, mapped, said):
    fields = {"labels": "labels"} if mapped else {}
    with pytest.raises(DatasetError) as caught:
        load(tmp_path, PAIR, {**PAIR, "labels": labels}, fields=fields)
    assert "rows.jsonl:2: " in str(caught.value)
    assert said in str(caught.value)


def test_spellings_are_mapped_for_people_too(tmp_path):
    (case,) = load(tmp_path, {**PAIR, "labels": {"ann": 1, "bo": 2}}, label_map={"1": "A", "2": "B"}).cases
    assert dict(case.labels) == {"ann": "A", "bo": "B"}
