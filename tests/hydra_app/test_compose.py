"""Composition: every shipped option composes, and what is wrong is said in one line."""

from itertools import zip_longest

import pytest

from evalkit.compose import find_study, load_config, load_jobs
from evalkit.config import JudgeConfig, Price
from evalkit.core.errors import ConfigError, EvalkitError
from evalkit.core.resources import shipped
from evalkit.runs.manifest import dump

GROUPS = sorted(p.name for p in shipped("conf").iterdir() if p.is_dir())
OPTIONS = sorted((g, f.stem) for g in GROUPS for f in (shipped("conf") / g).glob("*.yaml"))
TEMPLATES = [
    (group, option)
    for group, option in OPTIONS
    if "  source:" in (shipped("conf") / group / f"{option}.yaml").read_text("utf-8")
]
"""Those that ask with an author's template, which is not shipped."""
APART = (
    ("criteria", "dataset", "judge", "store", "tracking"),
    ("probe", "rubric", "runner"),
)
"""Groups whose options do not depend on each other, so one composition has an option of each."""


def together() -> list[list[str]]:
    """Return every option once, those of groups that are apart in the same compositions."""
    words: dict[str, list[str]] = {group: [] for group in GROUPS}
    for group, option in OPTIONS:
        if (group, option) not in TEMPLATES:
            words[group].append(f"{group}={option}")
    combined = []
    for groups in APART:
        rows = zip_longest(*(words.pop(group) for group in groups))
        combined += [[word for word in row if word] for row in rows]
    alone = [[word] for left in words.values() for word in left]
    return combined + alone


SHIPPED = {
    "judge": {
        *("smollm2", "gpt-4o-mini", "gpt-4o", "claude-sonnet", "gemini-flash", "ollama", "vllm"),
        *("openai_compatible", "panel"),
    },
    "mode": {"pairwise", "pointwise"},
    "rubric": {"likert3", "likert5", "likert10", "decimal10", "percent100", "own"},
    "swap": {"both", "none", "random"},
    "tie": {"allow", "forbid"},
    "prompt": {"en", "zh"},
    "output": {"json", "bracket", "rating", "regex"},
    "dataset": {"sample", "jsonl", "csv", "parquet"},
    "tracking": {"mlflow", "none"},
}


def said(overrides: list[str], name: str = "config") -> str:
    with pytest.raises(EvalkitError) as caught:
        load_config(name, overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.slow
@pytest.mark.parametrize("words", together(), ids=" ".join)
def test_every_shipped_option_composes(words):
    assert load_config(overrides=words).judge.label


@pytest.mark.parametrize(("group", "option"), TEMPLATES)
def test_a_template_of_other_authors_is_asked_for(group, option):
    assert "and set prompt.template=PATH" in said([f"{group}={option}"])


@pytest.mark.parametrize("group", sorted(SHIPPED))
def test_the_promised_options_are_there(group):
    assert {o for g, o in OPTIONS if g == group} >= SHIPPED[group]


def test_the_default_run():
    config = load_config()
    assert (config.judge.label, config.mode.name, config.swap.policy, config.swap.resolve) == (
        *("smollm2", "pairwise", "both", "tie"),
    )
    assert (config.rubric.min, config.rubric.max, config.dataset.path) == (
        *(1, 5, "evalkit:quick.jsonl"),
    )


def test_an_option_does_not_leak_into_the_next():
    assert load_config(overrides=["judge=gpt-4o"]).judge.params == {}


def test_pointwise_shows_one_response():
    assert load_config(overrides=["mode=pointwise"]).swap.policy == "none"


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["judge=gpt4"], "judge=gpt4: no such judge; did you mean 'gpt-4o'?"),
        (
            ["judge=simulated/goood"],
            "judge=simulated/goood: no such judge; did you mean 'simulated/good'?",
        ),
        (["probe=identicl"], "probe=identicl: no such probe; did you mean 'identical'?"),
        (["probe=[order,identicl]"], "probe=identicl: no such probe; did you mean 'identical'?"),
        (["method=decimall"], "method=decimall: no such method; did you mean 'decimal'?"),
        (["judge.modle=x"], "judge.modle: no such key; did you mean 'model'?"),
        (["judgee=x"], "judgee: no such key; did you mean 'judge'?"),
        (["+judge.modle=x"], "judge.modle: no such key; did you mean 'model'?"),
        (
            ["tie.threshold=1.5"],
            "tie.threshold: 1.5 is larger than the largest possible difference (1); choose a smaller threshold",
        ),
        (
            ["criteria.accuracy.weight=-1"],
            "criteria.accuracy.weight: input should be greater than or equal to 0 (got -1)",
        ),
        (
            ["mode=pointwise", "swap=both"],
            "swap.policy: 'both' needs two responses, but mode pointwise shows one; set swap=none",
        ),
        (
            ["scoring.weights.acuracy=2"],
            "scoring.weights.acuracy: no such criterion; choose from accuracy, instruction following, clarity",
        ),
    ],
)
def test_a_mistake_is_said_in_one_line(overrides, line):
    assert said(overrides) == line


def test_free_keys_need_no_plus():
    config = load_config(
        overrides=[
            *("judge.params.top_p=0.9", "dataset.fields.prompt=question", "tracking.tags.team=x"),
        ]
    )
    assert (
        config.judge.params["top_p"],
        config.dataset.fields["prompt"],
        config.tracking.tags["team"],
    ) == (*(0.9, "question", "x"),)


def test_numbers_may_be_spelled_labels():
    assert load_config(overrides=["dataset.label_map={1: A, 2: B}"]).dataset.label_map == {
        "1": "A",
        "2": "B",
    }


def test_a_judge_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "conf" / "judge").mkdir(parents=True)
    (tmp_path / "conf" / "judge" / "mine.yaml").write_text("model: openai/mine\ntemperature: 0.3\n")
    monkeypatch.chdir(tmp_path)
    config = load_config(overrides=["judge=mine"])
    assert (config.judge.model, config.judge.temperature, config.judge.label) == (
        *("openai/mine", 0.3, "mine"),
    )
    (tmp_path / "conf" / "judge" / "wrong.yaml").write_text(
        "model: openai/mine\n\ntemprature: 0.3\n"
    )
    assert (
        said(["judge=wrong"])
        == "conf/judge/wrong.yaml:3: judge.temprature: no such key; did you mean 'temperature'?"
    )


def test_conf_is_found_from_below_and_through_a_variable(tmp_path, monkeypatch):
    (tmp_path / "conf" / "judge").mkdir(parents=True)
    (tmp_path / "experiments" / "deep").mkdir(parents=True)
    (tmp_path / "conf" / "judge" / "mine.yaml").write_text("model: openai/mine\n")
    monkeypatch.chdir(tmp_path / "experiments" / "deep")
    assert load_config(overrides=["judge=mine"]).judge.model == "openai/mine"
    monkeypatch.chdir("/")
    assert "no such judge" in said(["judge=mine"])
    monkeypatch.setenv("EVALKIT_CONF", str(tmp_path / "conf"))
    assert load_config(overrides=["judge=mine"]).judge.model == "openai/mine"


def test_a_study_is_found_by_file_and_by_name(here):
    assert (
        find_study("first_look")
        == find_study("experiments/first_look.yaml")
        == shipped("experiments") / "first_look.yaml"
    )
    (here / "experiments").mkdir()
    (here / "experiments" / "own.yaml").write_text(
        "defaults: [config, _self_]\ntie: {treshold: 0.1}\n"
    )
    assert (
        said([], "own")
        == "experiments/own.yaml:2: tie.treshold: no such key; did you mean 'threshold'?"
    )
    assert said([], "ownn") == "ownn: no such study file; did you mean 'own'?"
    (here / "conf" / "experiment").mkdir(parents=True)
    for file, remedy in (
        ("conf/main.yaml", "evalkit run conf/main.yaml runs it"),
        ("conf/experiment/small.yaml", "evalkit run experiment=small runs it"),
    ):
        (here / file).write_text("defaults: [config, _self_]\n")
        name = (here / file).stem
        assert said([], name) == f"{name}: no such study file; {remedy}"
    (here / "bad.yaml").write_text("a: [1\nb: 2\n")
    assert said([], "bad.yaml").startswith("bad.yaml:2: is not YAML") or "bad.yaml:2" in said(
        [], "bad.yaml"
    )


REPLAYED = {"llmbar_replay"}  # of published answers: it needs their server


@pytest.mark.slow
@pytest.mark.parametrize(
    "study", sorted({f.stem for f in shipped("experiments").glob("*.yaml")} - REPLAYED)
)
def test_every_study_composes_and_runs_without_a_key(study):
    jobs = load_jobs(study, [], sweep=True)
    judges = [one for _, job in jobs for one in job.judge.members]
    assert judges
    assert all(one.simulated or one.model == "local/smollm2-135m-instruct" for one in judges)
    assert all(job.tracking.experiment == study for _, job in jobs)


def test_the_replayed_study_names_its_judges_by_their_strategy():
    [(_, job)] = load_jobs(
        "llmbar_replay", ["+tracking.tags.strategy=CoT", "judge.name=GPT-4"], sweep=False
    )
    assert (job.judge.model, job.judge.transport, job.output.format) == (
        *("openai/GPT-4-CoT", "direct", "regex"),
    )


def test_a_sweep_is_every_combination_and_takes_another_judge():
    jobs = load_jobs("judge_sweep", ["judge=gpt-4o,gpt-4o-mini"], sweep=True)
    assert [(c.judge.label, c.swap.policy) for _, c in jobs] == [
        ("gpt-4o", "both"),
        ("gpt-4o", "none"),
        ("gpt-4o-mini", "both"),
        ("gpt-4o-mini", "none"),
    ]


def test_the_job_that_is_wrong_is_named():
    with pytest.raises(ConfigError, match=r"\(job tie.threshold=3\)"):
        load_jobs("config", ["tie.threshold=0,3"], sweep=True)


@pytest.mark.slow
def test_jobs_that_differ_in_plain_values_are_what_each_would_be_alone():
    words = [
        "tie.threshold=0,0.25",
        "swap=both,none",
        "judge.seed=null,3",
        "scoring.weights={accuracy: 1}",
    ]
    words += ["hydra.sweep.dir=there"]
    jobs = load_jobs("config", words, sweep=True)
    assert len({config.hash() for _, config in jobs}) == 8
    assert all(config == load_config("config", job) for job, config in jobs)


@pytest.fixture
def finished(tmp_path):
    """The resolved config of a run, as its folder holds it."""
    config = load_config(
        overrides=[
            *("judge=openai_compatible", "judge.model=openai/mine"),
            *("judge.api_base=http://127.0.0.1:9/v1", "judge.temperature=0.3", "swap=random"),
            *("rubric=likert10", "output=bracket", "tie.threshold=0.2", "dataset.path=mine.jsonl"),
            *("dataset.limit=3", "scoring.bootstrap=7"),
        ]
    )
    path = tmp_path / "config.yaml"
    path.write_bytes(dump(config.dump()))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "groups"),
    [
        ("judge=gpt-4o", {"judge"}),
        ("criteria=overall", {"criteria"}),
        ("dataset=sample", {"dataset"}),
        ("mode=pointwise", {"mode", "swap"}),  # which sets swap=none, as in any config
        ("method=direct100", {"mode", "swap", "rubric"}),
    ],
)
def test_an_option_replaces_a_group_of_a_finished_runs_config(finished, option, groups):
    before, fresh, now = (
        load_config(finished).dump(),
        load_config(overrides=[option]).dump(),
        load_config(finished, [option]).dump(),
    )
    assert {group: now[group] for group in groups} == {group: fresh[group] for group in groups}
    assert {k: v for k, v in now.items() if k not in groups} == {
        k: v for k, v in before.items() if k not in groups
    }


def test_values_and_sweeps_of_a_finished_runs_config(finished):
    config = load_config(finished, ["judge=gpt-4o", "judge.temperature=1", "scoring.bootstrap=9"])
    assert (config.judge.model, config.judge.api_base, config.judge.temperature) == (
        *("openai/gpt-4o", None, 1),
    )
    assert (config.swap.policy, config.scoring.bootstrap) == ("random", 9)
    jobs = load_jobs(finished, ["method=direct10,pairwise", "judge=gpt-4o,recorded"], sweep=True)
    found = [(job.mode.name, job.swap.policy, job.rubric.max, job.judge.model) for _, job in jobs]
    assert found == [
        ("pointwise", "none", 10, "openai/gpt-4o"),
        ("pointwise", "none", 10, "openai/mine"),
        ("pairwise", "random", 5, "openai/gpt-4o"),
        ("pairwise", "random", 5, "openai/mine"),
    ]
    with pytest.raises(ConfigError, match="no such judge") as error:
        load_config(finished, ["judge=gtp-4o"])
    assert "recorded" not in str(error.value)


@pytest.mark.parametrize("key", ["swap.arbiter", "probe.rewriter"])
def test_a_second_judge_is_a_name_with_keys(key):
    def chosen(*words: str) -> JudgeConfig | None:
        config = load_config(overrides=[f"{key}{word}" for word in words])
        return config.swap.arbiter if key == "swap.arbiter" else config.probe.rewriter

    named = chosen("=gpt-4o", ".temperature=0.5", ".params={top_p: 0.9}")
    assert named == JudgeConfig(
        name="gpt-4o", model="openai/gpt-4o", temperature=0.5, params={"top_p": 0.9}
    )
    assert chosen(".model=openai/other") == JudgeConfig(model="openai/other")
    assert chosen("=null") is None
    with pytest.raises(ConfigError, match="no such judge; did you mean 'gpt-4o'"):
        chosen("=gpt4o")


def test_prices_are_set_one_by_one():
    config = load_config(overrides=["judge.price.input=0.1", "judge.price.output=0.4"])
    assert config.judge.price == Price(input=0.1, output=0.4)
    assert (
        said(["judge.price.input=0.1"])
        == "judge.price.output: is not set; give judge.price.output=…"
    )
    assert said(["judge.judges=[{name: x, price: {input: 1}}]"]).endswith(": is not set; add it")


@pytest.mark.parametrize(
    "key",
    [
        *("judge.price.input", "dataset.sample.n", "dataset.split.column", "swap.arbiter.model"),
        "probe.rewriter.model",
    ],
)
def test_a_key_of_a_section_that_no_file_sets_can_be_set(key):
    more = ["judge.price.output=1"] if key == "judge.price.input" else []
    config = load_config(
        overrides=[
            f"{key}='1'" if key.endswith(("model", "column")) else f"{key}=1",
            *more,
            "dataset.path=x",
        ]
    )
    assert config.dump()


def test_a_stop_is_set_key_by_key():
    config = load_config(overrides=["runner.stop.metric=tie_rate", "runner.stop.width=0.2"])
    assert (config.runner.stop.metric, config.runner.stop.width) == ("tie_rate", 0.2)
    assert (
        said(["runner.stop.width=0.2"])
        == "runner.stop.metric: is not set; give runner.stop.metric=…"
    )
    assert said(
        ["runner.stop.metric=tie_rate", "runner.stop.width=0.2", "runner.stop.widht=1"]
    ).startswith("runner.stop.widht: no such key")


def test_a_key_inside_a_list_is_told_to_set_the_list():
    line = said(["judge.judges.model=x"])
    assert (
        line
        == "judge.judges.model: cannot be set in this way; set the whole list: 'judge.judges=[{model: VALUE}]'"
    )
    config = load_config(overrides=["judge.judges=[{model: x}]", "judge.model=null"])
    assert [judge.model for judge in config.judge.members] == ["x"]


@pytest.mark.parametrize(
    ("words", "name"), [([], "panel"), (["judge.name=three"], "three"), (["judge=panel"], "panel")]
)
def test_a_panel_does_not_have_the_name_of_the_judge_that_it_replaces(words, name):
    for judges in ("[{model: x}, {model: y}]", "[simulated/good,simulated/noisy]"):
        assert load_config(overrides=[*words, f"judge.judges={judges}"]).judge.label == name


@pytest.mark.parametrize("method", ["mode=pointwise", "method=direct10"])
def test_level_texts_are_in_the_language_of_the_prompt_unless_a_rubric_is_chosen(method):
    english = load_config(overrides=[method]).rubric
    chinese = load_config(overrides=[method, "prompt=zh", "criteria=general_zh"])
    name = {5: "likert5", 10: "likert10", 100: "percent100"}[int(english.max)]
    assert english == load_config(overrides=[method, f"rubric={name}"]).rubric
    assert chinese.rubric == load_config(overrides=[method, f"rubric={name}_zh"]).rubric != english
    assert not any("not in Chinese" in note for note in chinese.notes())
    assert load_config(overrides=[method, "prompt=zh", f"rubric={name}"]).rubric == english


def test_a_study_and_a_folder_of_the_user_select_level_texts_by_language(tmp_path, monkeypatch):
    for folder, text in (("prompt", "language: fr"), ("rubric", "levels: {1: mauvais, 5: bon}")):
        (tmp_path / "conf" / folder).mkdir(parents=True)
        name = "fr" if folder == "prompt" else "likert5_fr"
        (tmp_path / "conf" / folder / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("EVALKIT_CONF", str(tmp_path / "conf"))
    study = tmp_path / "study.yaml"
    study.write_text(
        "defaults: [config, override /prompt: fr, override /mode: pointwise, _self_]\n"
    )
    assert load_config(str(study)).rubric.levels == {1: "mauvais", 5: "bon"}
    assert (
        load_config(str(study), ["prompt=zh"]).rubric
        == load_config(overrides=["rubric=likert5_zh"]).rubric
    )


@pytest.mark.parametrize("rubric", ["rubric=pass_fail", "rubric={classes: {pass: p, fail: f}}"])
def test_a_label_map_of_classes_is_told_the_classes(rubric):
    line = "dataset.label_map: is not a list of LABEL=CLASS, where a class is pass or fail; for example"
    words = ["mode=pointwise", rubric]
    assert said([*words, "dataset.label_map=ok"]) == f"{line} 'good=pass, bad=fail'"
    assert (
        load_config(overrides=[*words, "dataset.label_map='ok=pass, no=fail'"]).dataset.label_map[
            "ok"
        ]
        == "pass"
    )
    assert "LABEL=TIE" in said(["dataset.label_map=ok"])
