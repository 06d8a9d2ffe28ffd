"""Calibration examples from a file: read into the rubric, or refused with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalkit.compose import load_config
from evalkit.config import Criterion, JudgeConfig, ModeConfig, RubricConfig, RunConfig, SwapConfig
from evalkit.core.errors import ConfigError, DatasetError, EvalkitError
from evalkit.core.types import Case, Response
from evalkit.datasets import with_examples
from evalkit.evaluators.pointwise import Pointwise
from evalkit.evaluators.prompting import Prompts

GOOD = {"response": "Paris.", "score": 5, "justification": "It is the capital."}


NAMED = {
    "prompt": "Capital?",
    "response": "Paris.",
    "scores": {"overall": 5},
    "justification": "It is.",
}


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
    path.write_text(
        "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), "utf-8"
    )
    return path


def test_examples_of_the_file_come_after_those_of_the_config(tmp_path):
    path = write(tmp_path, GOOD, "", GOOD | {"score": 1, "response": "里昂"})
    own = {"response": "Rome", "score": 2, "justification": "Wrong."}
    read = with_examples(config(str(path), examples=(own,)))
    assert [(one.response, one.score) for one in read.rubric.examples] == [
        ("Rome", 2),
        ("Paris.", 5),
        ("里昂", 1),
    ]
    assert read.rubric.examples_path is None
    assert with_examples(read) is read
    assert RunConfig.model_validate(read.dump()) == read


def test_what_the_file_says_is_in_the_hash(tmp_path):
    path = write(tmp_path, GOOD)
    before = with_examples(config(str(path))).hash()
    write(tmp_path, GOOD | {"justification": "Because."})
    assert with_examples(config(str(path))).hash() != before


def test_a_relative_path_is_of_the_current_folder_then_of_the_project(tmp_path, monkeypatch):
    project, here = tmp_path / "project", tmp_path / "here"
    project.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    write(project, GOOD)
    assert with_examples(config("examples.jsonl"), base=project).rubric.examples[0].score == 5
    write(here, GOOD | {"score": 4})
    assert with_examples(config("examples.jsonl"), base=project).rubric.examples[0].score == 4


def test_other_formats_are_known_by_their_suffix(tmp_path):
    path = write(tmp_path, "response,score,justification", "Paris.,5,Right", name="examples.csv")
    assert with_examples(config(str(path))).rubric.examples[0].score == 5


def test_an_example_has_its_task_and_a_score_for_each_criterion(tmp_path):
    row = 'Paris.,Capital?,"{""overall"": 5}",Right'
    for path in (
        write(tmp_path, NAMED),
        write(tmp_path, "response,prompt,scores,justification", row, name="examples.csv"),
    ):
        [read] = with_examples(config(str(path))).rubric.examples
        assert (read.prompt, read.scores, read.score) == ("Capital?", {"overall": 5}, None)


@pytest.mark.parametrize(("example", "said"), [
    ({"response": "x", "justification": "y"}, "set either scores (one per criterion) or score"),
    ({**GOOD, "scores": {"overall": 5}}, "set either scores (one per criterion) or score"),
    ({**NAMED, "scores": {"tone": 5}}, "rubric.examples.0.scores: there is no criterion 'tone'"),
    ({**NAMED, "scores": {"overall": 7}}, "rubric.examples.0.scores.overall: 7 is not on the"),
])  # fmt: skip
def test_an_example_that_does_not_fit_the_config_is_refused(example, said):
    with pytest.raises(ValidationError) as caught:
        config(None, examples=(example,))
    assert said in str(caught.value)


def calibration_notes(*overrides: str) -> list[str]:
    notes = load_config(overrides=["mode=pointwise", *overrides]).notes()
    return [note for note in notes if note.startswith("rubric.examples")]


def test_levels_without_an_example_are_noted():
    assert calibration_notes()[0].startswith(
        "rubric.examples is empty, so no level has a calibration example"
    )
    some = "rubric.examples=[{prompt: p, response: r, scores: {accuracy: 2, clarity: 5}, justification: j}]"
    assert calibration_notes(some) == [
        "rubric.examples: no example has levels 1, 3, 4",
        "rubric.examples: no example has a score for instruction following",
    ]
    assert "rubric.examples: no example has level 1" in calibration_notes(
        "rubric=own",
        "rubric.min=1",
        "rubric.max=2",
        "rubric.examples=[{response: r, score: 2, justification: j}]",
    )
    assert load_config(overrides=["mode=pairwise"]).notes() == []


@pytest.mark.parametrize(
    ("language", "rubric", "criteria"),
    [("en", "likert5", "general"), ("zh", "likert5_zh", "general_zh")],
)
def test_the_shipped_examples_cover_every_level_in_both_languages(language, rubric, criteria):
    shipped = rubric.replace("likert5", "likert5_examples")
    words = ["mode=pointwise", f"prompt={language}", f"criteria={criteria}", f"rubric={shipped}"]
    composed = load_config(overrides=words)
    assert calibration_notes(*words[1:]) == []
    assert (
        composed.rubric.levels
        == load_config(overrides=[*words[:-1], f"rubric={rubric}"]).rubric.levels
    )
    prompt = (
        Pointwise(composed, Prompts(language))
        .plan(Case("c", "Q", (Response("R"),)))[0]
        .messages[0]["content"]
    )
    assert prompt.count("<example_task>") == prompt.count("</example_response>") == 5


@pytest.mark.parametrize(
    "rubric", ["binary", "likert3", "likert5", "likert10", "decimal10", "percent100"]
)
def test_a_chinese_rubric_has_the_levels_of_the_english_one(rubric):
    words = ["mode=pointwise", "prompt=zh", "criteria=general_zh"]
    english, chinese = (
        load_config(overrides=[*words, f"rubric={name}"]) for name in (rubric, f"{rubric}_zh")
    )
    assert english.rubric.scale.values() == chinese.rubric.scale.values()
    assert [*english.rubric.levels] == [*chinese.rubric.levels]
    assert not any(text.isascii() for text in chinese.rubric.levels.values())
    noted = "prompt.language is zh, but rubric.levels are not in Chinese: set for example rubric=likert5_zh"
    assert noted in english.notes()
    assert noted not in chinese.notes()


@pytest.mark.parametrize(("row", "said"), [
    ("{", "the row is not JSON"),
    ([1], "the row is a list"),
    (GOOD | {"score": 6}, "score 6 is not on the scale 1-5"),
    (GOOD | {"score": 4.5}, "score 4.5 is not on the scale 1-5"),
    (GOOD | {"score": "high"}, "'score' is 'high' and not a number; write a number on the"),
    (GOOD | {"score": True}, "'score' is True and not a number"),
    (GOOD | {"score": None}, "'score' is missing"),
    ({"response": "x", "justification": "y"}, "'score' is missing"),
    ({"score": 1, "justification": "y"}, "'response' is missing; give prompt, response"),
    ({"score": 1, "response": "y"}, "'justification' is missing"),
    (GOOD | {"response": 7}, "'response' is 7 and not a text"),
    (NAMED | {"scores": {"overall": 6}}, "score of overall 6 is not on the scale 1-5"),
    (NAMED | {"scores": {"overall": "high"}}, "'score of overall' is 'high' and not a number"),
    (NAMED | {"scores": {"overal": 5}},
     "'scores' has 'overal', which is not one of the criteria; did you mean"),
    (NAMED | {"scores": [5]}, "'scores' is [5] and not a mapping; write a score for each"),
    (NAMED | {"scores": {}}, "'scores' is {} and not a mapping"),
    (NAMED | {"score": 5}, "it has both 'scores' and 'score'; remove 'score'"),
    (NAMED | {"prompt": 7}, "'prompt' is 7 and not a text"),
    (GOOD | {"reponse": "x"}, "an example has no 'reponse'; did you mean 'response'?"),
    ('{"response": "x", "score": NaN, "justification": "y"}', "'score' is missing"),
    ('{"response": "x", "score": 1e999, "justification": "y"}', "'score' is inf and not a"),
])  # fmt: skip
def test_a_row_that_is_no_example_is_named_with_its_line(tmp_path, row, said):
    path = write(tmp_path, GOOD, row)
    with pytest.raises(DatasetError) as caught:
        with_examples(config(str(path)))
    assert str(caught.value).startswith(f"{path}:2: {said}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_is_empty_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"rubric\.examples_path: there is no file 'gone\.jsonl'"):
        with_examples(config("gone.jsonl"), base=tmp_path)
    with pytest.raises(DatasetError, match="the file has no examples"):
        with_examples(config(str(write(tmp_path))))


def test_a_composed_config_holds_the_examples_themselves(here):
    write(here, GOOD)
    composed = load_config(overrides=["mode=pointwise", "rubric.examples_path=examples.jsonl"])
    assert composed.rubric.examples_path is None
    assert composed.rubric.examples[0].justification == "It is the capital."
    with pytest.raises(EvalkitError, match=r"examples.jsonl:1: score 5 is not on the scale 1-3"):
        load_config(
            overrides=["mode=pointwise", "rubric=likert3", "rubric.examples_path=examples.jsonl"]
        )


def test_an_evaluator_made_of_an_unread_path_says_so():
    with pytest.raises(ConfigError, match=r"rubric\.examples_path: 'x\.jsonl' has not been read"):
        Pointwise(config("x.jsonl"), Prompts("en"))
