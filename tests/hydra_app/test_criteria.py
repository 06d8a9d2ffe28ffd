"""Criteria by name: from files, from the command line, inline, and from old configs where they were a list."""

from pathlib import Path
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.compose import load_config, load_jobs
from evalkit.config import RunConfig
from evalkit.core.errors import EvalkitError

GENERAL = ["accuracy", "instruction following", "clarity"]
SHAPES = {
    "natural": "tone:\n  description: fits\n",
    "short": "tone: fits\n",
    "package": "# @package _global_\ncriteria:\n  tone:\n    description: fits\n",
    "nested": "criteria:\n  tone:\n    description: fits\n",
    "old": "# @package _global_\ncriteria:\n  - name: tone\n    description: fits\n",
    "nested list": "criteria:\n  - name: tone\n    description: fits\n",
    "list": "- name: tone\n  description: fits\n",
}


def weights(*overrides: str, name: str = "config") -> dict[str, float]:
    return {key: one.weight for key, one in load_config(name, overrides).criteria.items()}


def said(*overrides: str) -> str:
    with pytest.raises(EvalkitError) as caught:
        load_config(overrides=overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["criteria.accuracy.weight=0.7"], {**dict.fromkeys(GENERAL), "accuracy": 0.7}),
        (["criteria=[safety,general]"], dict.fromkeys(["harmlessness", "privacy", *GENERAL])),
        (["~criteria.clarity"], dict.fromkeys(GENERAL[:2])),
        (
            ["+criteria.tone.description=Friendly, and calm", "+criteria.tone.weight=2"],
            {**dict.fromkeys(GENERAL), "tone": 2},
        ),
        (["criteria.instruction following.weight=9"], {**dict.fromkeys(GENERAL), GENERAL[1]: 9}),
        (
            ["criteria=general_zh", "criteria.准确性.weight=0.9", "~criteria.清晰度"],
            {"准确性": 0.9, "遵循指令": None},
        ),
        (
            ["criteria=overall", '+criteria.语气=合适，而且 "友好"'],
            {"overall quality": 1, "语气": 1},
        ),
        (
            [
                "criteria=topical_chat",
                "~criteria.naturalness",
                "criteria.coherence.weight=3",
                "~criteria.groundedness",
            ],
            {"coherence": 3, "engagingness": None, "understandability": None},
        ),
        (
            ['criteria={tone: {description: "x, y", weight: 2}, "v1.0": short}'],
            {"tone": 2, "v1.0": 1},
        ),
        (["criteria=[{name: tone, weight: 3}]"], {"tone": 3}),
        (["+criteria={tone: {weight: 3}}"], {**dict.fromkeys(GENERAL), "tone": 3}),
        (
            ["criteria=[overall,{tone: friendly}]", "criteria.tone.weight=4"],
            {"overall quality": 1, "tone": 4},
        ),
    ],
)
def test_criteria_are_reached_by_name(overrides, expected):
    found = weights(*overrides)
    assert list(found) == list(expected)
    assert {name: found[name] for name, weight in expected.items() if weight is not None} == {
        name: weight for name, weight in expected.items() if weight is not None
    }


def test_a_description_is_a_text_as_it_is_typed():
    for text in (
        *("Is it kind, and calm?", "it's \\ (odd) [x] {y} $z 'q' \"r\"", "语气合适", "a=b"),
        *("${oops}", "end\\"),
    ):
        assert (
            load_config(overrides=[f"criteria.accuracy.description={text}"])
            .criteria["accuracy"]
            .description
            == text
        )
    quoted = load_config(overrides=["criteria.accuracy.description='one, two'"])
    assert quoted.criteria["accuracy"].description == "one, two"


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["criteria.acuracy.weight=1"],
            "criteria.acuracy: no such criterion; did you mean 'accuracy', or add one: "
            "+criteria.acuracy.description=TEXT",
        ),
        (
            ["criteria.语气.weight=1"],
            "criteria.语气: no such criterion; choose from accuracy, clarity, instruction following, or add one: "
            "+criteria.语气.description=TEXT",
        ),
        (["~criteria.claritty"], "criteria.claritty: no such criterion; did you mean 'clarity'"),
        (["criteria.0.weight=1"], "criteria.0: no such criterion; choose from accuracy"),
        (
            ["criteria.accuracy.wieght=1"],
            "criteria.accuracy.wieght: no such key; did you mean 'weight'?",
        ),
        (
            ["criteria.accuracy.weight=x"],
            "criteria.accuracy.weight: input should be a valid number",
        ),
        (["criteria={tone"], "criteria={tone: "),
        (
            ["criteria={tone: [}"],
            "criteria={tone: [}: cannot be read as criteria; write 'criteria={NAME: {description: ",
        ),
        (["criteria=[1,{a: b}]"], "criteria=[1,{a: b}]: cannot be read as criteria; write "),
        (["criteria=[]"], "criteria: there are none; set at least one criterion"),
        (["criteria={}"], "criteria: there are none; set at least one criterion"),
        (
            ["criteria={a: 1, b: 2}"],
            "criteria.a: is neither a description nor settings (got 1); write a text, or {",
        ),
        (
            ["criteria.accuracy.weight=1,2"],
            "criteria.accuracy.weight=1,2: has several values; add -m to run a job for each, or write "
            "'criteria.accuracy.weight=\"1,2\"'",
        ),
        (
            ["criteria=[{name: a},{name: a}]"],
            "criteria: 'a' is named twice; give each its own name",
        ),
    ],
)
def test_what_is_wrong_is_one_line(overrides, line):
    assert said(*overrides).startswith(line)


def test_a_criterion_that_is_not_there_is_not_offered_to_be_added_where_it_is_deleted():
    assert (
        said("~criteria.tone")
        == "criteria.tone: no such criterion; choose from accuracy, clarity, " + GENERAL[1]
    )


def test_the_file_that_is_named_is_the_one_that_says_so(tmp_path, monkeypatch):
    write(tmp_path, "conf/criteria/another.yaml", "tone:\n  weight: 1\n")
    write(tmp_path, "conf/criteria/old.yaml", "- name: kindness\n- name: tone\n  weight: much\n")
    monkeypatch.chdir(tmp_path)
    what = "criteria.tone.weight: input should be a valid number, unable to parse string as a number (got 'much')"
    assert said("criteria=old") == f"conf/criteria/old.yaml:3: {what}"
    minus = "criteria.tone.weight: input should be greater than or equal to 0 (got -1)"
    assert said("criteria=another", "criteria.tone.weight=-1") == minus


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_as_anybody_would_write_it(shape, tmp_path, monkeypatch):
    write(tmp_path, "conf/criteria/mine.yaml", SHAPES[shape])
    monkeypatch.chdir(tmp_path)
    config = load_config(overrides=["criteria=mine"])
    assert {name: one.description for name, one in config.criteria.items()} == {"tone": "fits"}


def test_a_list_cannot_be_composed_and_says_so(tmp_path, monkeypatch):
    write(tmp_path, "conf/criteria/mine.yaml", SHAPES["old"])
    write(tmp_path, "conf/criteria/wrong.yaml", "tone:\n  wieght: 3\n")
    monkeypatch.chdir(tmp_path)
    a_list = "a list of criteria cannot be changed or combined; write NAME: {"
    assert said("criteria=[general,mine]").startswith(f"conf/criteria/mine.yaml: {a_list}")
    assert said("criteria=mine", "criteria.tone.weight=2").startswith(f"criteria: {a_list}")
    write(tmp_path, "conf/criteria/words.yaml", "- tone\n- length\n")
    assert said("criteria=words").startswith(
        "conf/criteria/words.yaml:1: criteria: is not a mapping; write {name:"
    )
    assert (
        said("criteria=wrong")
        == "conf/criteria/wrong.yaml:2: criteria.tone.wieght: no such key; did you mean 'weight'?"
    )


def test_a_study_composes_a_mapping_and_replaces_by_a_list(tmp_path):
    head = "defaults:\n- config\n- override /criteria: overall\n- _self_\n"
    mapped = write(tmp_path, "experiments/mapped.yaml", head + "criteria:\n  tone: fits\n")
    listed = write(tmp_path, "experiments/listed.yaml", head + "criteria:\n- name: tone\n")
    assert list(weights(name=mapped)) == ["overall quality", "tone"]
    assert weights("criteria.tone.weight=2", name=listed) == {"tone": 2}
    params = "hydra: {mode: MULTIRUN, sweeper: {params: {criteria: general_zh, criteria.准确性.weight: '1,2'}}}\n"
    swept = write(tmp_path, "experiments/swept.yaml", f"defaults:\n- config\n- _self_\n{params}")
    jobs = load_jobs(swept, [], sweep=True)
    assert [job for job, _ in jobs] == [
        ("criteria=general_zh", f"criteria.准确性.weight={k}") for k in (1, 2)
    ]
    assert [config.criteria["准确性"].weight for _, config in jobs] == [1, 2]


def test_a_sweep_names_its_jobs_as_they_were_written():
    words = ["criteria=[general,writing],general", "criteria.accuracy.weight=0.3,0.5"]
    jobs = load_jobs("config", words, sweep=True)
    assert [job[1] for job, _ in jobs] == [f"criteria.accuracy.weight={w}" for w in (0.3, 0.5)] * 2
    assert [len(config.criteria) for _, config in jobs] == [6, 6, 3, 3]


def test_a_config_is_shown_as_it_is_composed(capsys):
    assert (
        main(
            [
                *("run", "--cfg", "job", "criteria=general_zh", "criteria.准确性.weight=0.9"),
                "~criteria.清晰度",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert (
        "criteria:\n  准确性:\n    description: 内容正确，没有误导。\n    weight: 0.9\n  遵循指令:"
        in shown
    )
    assert "清晰度" not in shown
    assert "_set_" not in shown


def old(**settings: Any) -> RunConfig:
    """Return a config as an older run folder has it: criteria as a list, and no `prompt.show_weights`."""
    written = {"judge": {"model": "m"}, "prompt": {"language": "en", "template": None}, **settings}
    return RunConfig.model_validate(
        {"criteria": [{"name": "b"}, {"name": "a", "weight": 3}], **written}
    )


def test_an_old_config_is_what_it_was():
    config = old()
    assert list(config.criteria) == ["b", "a"]
    assert config.dump()["criteria"]["a"] == {"description": "", "weight": 3.0, "levels": {}}
    assert RunConfig.model_validate(config.dump()) == config
    assert not config.prompt.show_weights
    assert old(scoring={"aggregate": "auto"}).aggregate() == "overall"
    assert old(scoring={"aggregate": "auto", "weights": {"a": 2}}).aggregate() == "criteria"
    # Scores were asked for with the weights in the prompt.
    assert old(mode={"name": "pointwise"}, swap={"policy": "none"}).prompt.show_weights


def test_the_order_of_criteria_is_part_of_a_config():
    turned = RunConfig.model_validate({**old().dump(), "criteria": {"a": {"weight": 3}, "b": {}}})
    assert turned.hash() != old().hash()


def test_a_project_begins_with_criteria_of_its_own(tmp_path, monkeypatch):
    assert main(["init", str(tmp_path / "demo")]) == 0
    monkeypatch.chdir(tmp_path / "demo")
    assert weights("criteria=mine") == {"accuracy": 0.6, "tone": 0.4}
    assert list(weights("criteria=[general,mine]")) == [*GENERAL, "tone"]
