"""Study files without a defaults list, and files that set too little: what they mean, and what is said of them."""

from pathlib import Path

import pytest

from evalkit.compose import load_config, load_jobs
from evalkit.core.errors import ConfigError

GENERAL = ["accuracy", "instruction following", "clarity"]


@pytest.fixture
def folder(here):
    (here / "conf" / "judge").mkdir(parents=True)
    (here / "experiments").mkdir()
    (here / "conf" / "judge" / "team.yaml").write_text("name: team\nmodel: openai/team\n", "utf-8")
    return here


def study(folder: Path, text: str) -> str:
    (folder / "study.yaml").write_text(text, "utf-8")
    return "study.yaml"


def refused(name: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(name, overrides)
    assert "allow-code" not in str(caught.value)
    return str(caught.value)


def test_a_study_without_defaults_changes_the_default_run(folder):
    shipped = load_config()
    changed = load_config(
        study(folder, "dataset: {limit: 2}\ntie: {threshold: 0.1}\nmode: {samples: 3}\n")
    )
    assert (
        changed.model_copy(
            update={"dataset": shipped.dataset, "tie": shipped.tie, "mode": shipped.mode}
        )
        == shipped
    )
    assert (changed.dataset.path, changed.dataset.limit) == (shipped.dataset.path, 2)
    assert (changed.tie.threshold, changed.mode.name, changed.mode.samples) == (0.1, "pairwise", 3)


def test_its_judge_and_criteria_replace_the_default_ones(folder):
    config = load_config(study(folder, "judge: {model: openai/mine}\ncriteria: {fit: it fits}\n"))
    assert (config.judge.label, config.judge.params, config.judge.max_tokens) == ("mine", {}, None)
    assert list(config.criteria) == ["fit"]
    assert list(load_config(study(folder, "judge: {model: openai/mine}\n")).criteria) == GENERAL
    listed = load_config(study(folder, "criteria: [{name: fit, description: it fits}]\n"))
    assert (list(listed.criteria), listed.judge.label) == (["fit"], "smollm2")


@pytest.mark.parametrize(
    ("section", "levels"),
    [("{min: 0, max: 9}", 0), ("{classes: {pass: '', fail: ''}}", 0), ("{step: 0.5}", 5)],
)
def test_its_own_scale_has_no_levels_of_the_default_one(folder, section, levels):
    assert (
        len(load_config(study(folder, f"mode: pointwise\nrubric: {section}\n")).rubric.levels)
        == levels
    )


def test_an_option_on_the_command_line_replaces_a_section_of_it(folder):
    name = study(
        folder,
        "judge: {model: openai/mine, seed: 7}\ndataset: {path: data.jsonl}\ncriteria: {fit: fits}\n",
    )
    config = load_config(name, ["judge=team", "dataset=sample", "criteria=general"])
    assert (config.judge.label, config.judge.seed, config.dataset.path) == (
        *("team", None, "evalkit:sample.jsonl"),
    )
    assert list(config.criteria) == GENERAL
    assert load_config(name, ["judge.seed=8"]).judge.seed == 8
    jobs = load_jobs(name, ["judge=team,gpt-4o"], sweep=True)
    assert [(job.judge.label, job.judge.seed, job.dataset.path) for _, job in jobs] == [
        ("team", None, "data.jsonl"),
        ("gpt-4o", None, "data.jsonl"),
    ]


def test_a_name_in_it_is_an_option(folder):
    config = load_config(study(folder, "judge: team\ntracking: none\nprobe: null\n"))
    assert (config.judge.label, config.tracking.enabled, config.probe.probes) == ("team", False, {})


def test_a_section_that_is_neither_is_refused(folder):
    line = refused(study(folder, "judge: [team]\n"))
    assert line.endswith(
        "study.yaml: judge: is neither a mapping nor an option; write judge: {KEY: VALUE}, or judge: NAME for an option"
    )


@pytest.mark.parametrize("defaults", ["[_self_]", "[{judge: team}, _self_]"])
def test_a_defaults_list_without_the_default_run_is_told_what_to_write(folder, defaults):
    line = refused(study(folder, f"defaults: {defaults}\ndataset: {{path: data.jsonl}}\n"))
    assert "write `- config` first" in line


def test_a_defaults_list_without_the_study_itself_is_told_what_to_write(folder):
    line = refused(study(folder, "defaults: [config]\ndataset: {path: data.jsonl}\n"))
    assert (
        line
        == "defaults: the defaults list has no _self_; write `- _self_` last, so that the file's own keys apply"
    )


def test_a_judge_without_a_model_is_named_by_its_file(folder):
    (folder / "conf" / "judge" / "bare.yaml").write_text("name: bare\nseed: 3\n", "utf-8")
    (folder / "conf" / "judge" / "heir.yaml").write_text("defaults: [bare]\n", "utf-8")
    (folder / "conf" / "judge" / "text.yaml").write_text("seed\n", "utf-8")
    for words in (["judge=bare"], ["judge=heir", "judge.rpm=1"]):
        assert refused("config", *words).startswith(
            "conf/judge/bare.yaml: judge: model is not set; choose a LiteLLM"
        )
    assert refused("config", "judge=team", "judge.model=null").startswith("judge: model is not set")
    assert refused(study(folder, "tie: allow\njudge: {name: x}\n")).startswith(
        "study.yaml:2: judge: model is not set"
    )
