"""Calibration examples from a file: read into the rubric, or refused with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.compose import load_config
from evalkit.config import Criterion, JudgeConfig, ModeConfig, RubricConfig, RunConfig, SwapConfig
from evalkit.datasets import with_examples
from evalkit.errors import ConfigError, DatasetError, EvalkitError
from evalkit.evaluators.pointwise import Pointwise
from evalkit.prompting import Prompts

GOOD = {"response": "Paris.", "score": 5, "justification": "It is the capital."}


def config(path: str | None, **rubric: Any) -> RunConfig:
    return RunConfig(
        judge=JudgeConfig(model="a/b"),
        criteria={"overall": Criterion()},
        mode=ModeConfig(name="pointwise"),
        swap=SwapConfig(policy="none"),
        rubric=RubricConfig(examples_path=path, **rubric),
    )


def write(folder: Path, *rows: Any, name: str = "examples.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), "utf-8")
    return path


def test_examples_of_the_file_come_after_those_of_the_config(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "", GOOD | {"score": 1, "response": "里昂"})
    own = {"response": "Rome", "score": 2, "justification": "Wrong."}
    read = with_examples(config(str(path), examples=(own,)))
    assert [(one.response, one.score) for one in read.rubric.examples] == [("Rome", 2), ("Paris.", 5), ("里昂", 1)]
    assert read.rubric.examples_path is None
    assert with_examples(read) is read
    assert RunConfig.model_validate(read.dump()) == read


def test_what_the_file_says_is_in_the_hash(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    before = with_examples(config(str(path))).hash()
    write(tmp_path, GOOD | {"justification": "Because."})
    assert with_examples(config(str(path))).hash() != before


def test_a_relative_path_is_of_the_current_folder_then_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, here = tmp_path / "project", tmp_path / "here"
    project.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    write(project, GOOD)
    assert with_examples(config("examples.jsonl"), base=project).rubric.examples[0].score == 5
    write(here, GOOD | {"score": 4})
    assert with_examples(config("examples.jsonl"), base=project).rubric.examples[0].score == 4


def test_other_formats_are_known_by_their_suffix(tmp_path: Path) -> None:
    path = write(tmp_path, "response,score,justification", "Paris.,5,Right", name="examples.csv")
    assert with_examples(config(str(path))).rubric.examples[0].score == 5


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "the row is not JSON"),
        ([1], "the row is a list"),
        (GOOD | {"score": 6}, "score 6 is not on the scale 1-5"),
        (GOOD | {"score": 4.5}, "score 4.5 is not on the scale 1-5"),
        (GOOD | {"score": "high"}, "'score' is 'high' and not a number; write a number on the scale 1-5"),
        (GOOD | {"score": True}, "'score' is True and not a number"),
        (GOOD | {"score": None}, "'score' is missing"),
        ({"response": "x", "justification": "y"}, "'score' is missing"),
        ({"score": 1, "justification": "y"}, "'response' is missing; give response, score and justification"),
        ({"score": 1, "response": "y"}, "'justification' is missing"),
        (GOOD | {"response": 7}, "'response' is 7 and not a text"),
        (GOOD | {"reponse": "x"}, "an example has no 'reponse'; did you mean 'response'?"),
        ('{"response": "x", "score": NaN, "justification": "y"}', "'score' is missing"),
        ('{"response": "x", "score": 1e999, "justification": "y"}', "'score' is inf and not a number"),
    ],
)
def test_a_row_that_is_no_example_is_named_with_its_line(tmp_path: Path, row: Any, said: str) -> None:
    path = write(tmp_path, GOOD, row)
    with pytest.raises(DatasetError) as caught:
        with_examples(config(str(path)))
    assert str(caught.value).startswith(f"{path}:2: {said}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_is_empty_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rubric\.examples_path: there is no file 'gone\.jsonl'"):
        with_examples(config("gone.jsonl"), base=tmp_path)
    with pytest.raises(DatasetError, match="the file holds no examples"):
        with_examples(config(str(write(tmp_path))))


def test_a_composed_config_holds_the_examples_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GOOD)
    composed = load_config(overrides=["mode=pointwise", "rubric.examples_path=examples.jsonl"])
    assert composed.rubric.examples_path is None
    assert composed.rubric.examples[0].justification == "It is the capital."
    with pytest.raises(EvalkitError, match=r"examples.jsonl:1: score 5 is not on the scale 1-3"):
        load_config(overrides=["mode=pointwise", "rubric=likert3", "rubric.examples_path=examples.jsonl"])


def test_an_evaluator_made_of_an_unread_path_says_so() -> None:
    with pytest.raises(ConfigError, match=r"rubric\.examples_path: 'x\.jsonl' was not read"):
        Pointwise(config("x.jsonl"), Prompts("en"))
