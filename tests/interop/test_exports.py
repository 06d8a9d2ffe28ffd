"""Exports of other tools: recognized by content, with the right verdicts and labels; damaged ones are one line."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.foreign_files.records import Options
from evalkit.interop import import_judgments, recognize_format
from tests.support.exports import GRADES, HUMAN, JUDGE, SCORES, SHAPES, N, format_of, texts_of

POLARITY = {
    **dict.fromkeys(("pass", "true", "1", 1.0, "yes"), True),
    **dict.fromkeys(("fail", "false", "0", 0.0, "no"), False),
}
CASES = [(name, suffix) for name in SHAPES for suffix in texts_of(SHAPES[name])]


def written(tmp_path: Path, name: str, suffix: str) -> Path:
    path = tmp_path / f"export{suffix}"
    path.write_text(texts_of(SHAPES[name])[suffix], encoding="utf-8")
    return path


def read(path: Path, tool: str, options: Options = Options()) -> Any:  # noqa: B008
    return import_judgments(tool, path, options)


def verdicts(found: Any) -> list[Any]:
    values = []
    for judgment in found.judgments:
        assert judgment.status == "ok", judgment
        word = judgment.class_name
        values.append(judgment.criteria["quality"] if word is None else word)
    return values


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_an_export_has_its_judge_and_its_labels(name, suffix, tmp_path):
    path = written(tmp_path, name, suffix)
    tool = format_of(name)
    assert recognize_format(path) == tool
    found = read(path, tool)
    labels = [next(iter(case.labels.values()))[0] for case in found.cases]
    judged = verdicts(found)
    assert len(found.cases) == len(judged) == N
    if "rat" in name.removeprefix(tool):
        assert judged == [float(score) for score in SCORES]
        assert labels == [float(grade) for grade in GRADES]
    else:
        assert [POLARITY[value] for value in judged] == [word == "pass" for word in JUDGE]
        assert [POLARITY[label] for label in labels] == [word == "pass" for word in HUMAN]


WITH_SEVERAL = {
    "label_studio predictions": {"1@example.com", "2@example.com"},
    "prodigy two annotators": {"ann", "bob"},
    "label_studio in data": {"annotator 1", "annotator 2"},
}


@pytest.mark.parametrize("name", WITH_SEVERAL)
def test_each_annotator_is_named(name, tmp_path):
    found = read(written(tmp_path, name, ".json"), format_of(name))
    assert {person for case in found.cases for person in case.labels} == WITH_SEVERAL[name]


OMITTED = {
    "label_studio cancelled": "annotations that were cancelled or skipped, omitted: 12",
    "prodigy choice": "tasks with the answer 'ignore', omitted: 3",
    "argilla 1": "responses that are drafts or discarded, omitted: 12",
    "argilla 2 flat": "responses that are drafts or discarded, omitted: 12",
    "braintrust flags": "spans that are no answers, omitted: 12",
    "opik sdk": "read as those of judges because no score is of online scoring: 12",
}


@pytest.mark.parametrize("name", OMITTED)
def test_what_is_not_used_is_counted(name, tmp_path):
    notes = read(written(tmp_path, name, ".json"), format_of(name)).notes
    assert any(OMITTED[name] in note for note in notes)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


VALUES: tuple[Any, ...] = (
    *(None, "two", 3, 10**400, -1.5, True, [], {}, [None], {"x": "y"}, "\x00", [["a"]]),
    *(float("nan"), "x" * 5000, [[[]]], "\ud800", {"": None}, ...),
)


def damaged(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = deepcopy(content)
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return copy


def complaint(path: Path, tool: str, options: Options = Options()) -> str:  # noqa: B008
    """Return the error that a file raises; empty if it is read."""
    try:
        read(path, tool, options)
    except EvalkitError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", SHAPES)
def test_a_damaged_export_is_read_or_one_line(name, tmp_path, thorough):
    content = SHAPES[name]
    tool = format_of(name)
    path = tmp_path / "export.json"
    every = [*places(content)]
    random = Random(name)
    for _ in range(150 if thorough else 25):
        place = random.choice(every)
        value = random.choice(VALUES)
        path.write_text(json.dumps(damaged(content, place, value)), encoding="utf-8")
        for options in (Options(), Options(answers=True)):
            fault = complaint(path, tool, options)
            assert "\n" not in fault, (place, value)
            assert len(fault) < 900
    whole = json.dumps(content)
    for part in ("", "{}", "[]", "null", "[3]", whole[: len(whole) // 2], whole * 2):
        path.write_text(part, encoding="utf-8")
        fault = complaint(path, tool)
        assert fault
        assert "\n" not in fault
