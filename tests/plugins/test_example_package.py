"""One of each thing that another package can add, by entry point and by path, none by editing evalkit."""

import json
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalkit.cli import main
from evalkit.compose import load_config
from evalkit.config import DatasetConfig, JudgeConfig, OutputConfig, RunConfig, TrackingConfig
from evalkit.config.data import GateConfig
from evalkit.core import plugins
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.errors import ConfigError, JudgeSetupError, PluginError, TrackingError
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Completion, Judgment, Metric, Response
from evalkit.datasets import load_cases
from evalkit.evaluators.factory import make_evaluator
from evalkit.report.findings import findings
from evalkit.report.findings.labels import label_words
from evalkit.report.texts import metric_words, note_words
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import MetricSpec, catalog_of
from evalkit.scoring.gate_rules import available_names
from evalkit.scoring.pipeline import score_run
from evalkit.testing import check_benchmark, check_evaluator, check_judge, check_probe, check_store
from evalkit.tracking import make_tracker
from evalkit.workflows.gating import check_gate

COUNT = count()
CASE = Case("c", "Say hello.", (Response("Hello."), Response("Go away.")), label="A")
TOML = '[[case]]\nid = "one"\nprompt = "p"\nresponse_a = "x"\nresponse_b = "y"\nlabel = "A"\n'


def test_everything_found_is_listed_with_where_it_is_from(example, capsys):
    assert main(["plugins"]) == 0
    out = capsys.readouterr().out
    assert out.count("evalkit-example 0.3.0") == 12
    for what in plugins.GROUPS.values():
        assert any(line.startswith(what) for line in out.splitlines())
    assert str(example / "duel.py") in out
    assert str(example / "conf") in out


def test_plug_ins_can_be_switched_off_or_chosen(example, monkeypatch, capsys):
    monkeypatch.setenv("EVALKIT_PLUGINS", "")
    assert main(["plugins"]) == 0
    assert "no other package adds" in capsys.readouterr().out
    with pytest.raises(PluginError, match="there is no 'duel'"):
        make_evaluator(load_config(overrides=["mode.name=duel"]))
    with pytest.raises(ConfigError, match="no such mode"):
        load_config(overrides=["mode=duel"])
    monkeypatch.setenv("EVALKIT_PLUGINS", "other, Evalkit_Example")
    assert load_config(overrides=["mode=duel"]).mode.name == "duel"
    monkeypatch.setenv("EVALKIT_PLUGINS", "other")
    assert plugins.folders(plugins.CONF) == []


@pytest.mark.parametrize(
    "spelling",
    [
        "mode.name=duel",
        "mode=duel",
        "mode.name=evalkit_example.duel.Duel",
        "mode._target_=evalkit_example.duel.Duel",
    ],
)
def test_an_evaluator_with_its_own_prompts_and_settings(example, spelling):
    evaluator: Any = make_evaluator(
        load_config(overrides=[spelling, "mode.params.question=Which is kinder?"])
    )
    check_evaluator(evaluator, answers=["It is the first.", "neither", "I say: second."])
    request = evaluator.plan(CASE)[0]
    assert "Which is kinder?" in request.messages[0]["content"]
    assert list(evaluator.prompt_hashes) == ["en/duel.md.j2"]


def test_an_evaluators_judgments_are_scored_like_any(example):
    config = load_config(overrides=["mode=duel"])
    assert config.mode.params == {"question": "Which is the kinder of the two?"}
    evaluator = make_evaluator(config)
    read = [evaluator.read(one, Completion("first")) for one in evaluator.plan(CASE)]
    judgments = [one for one in read if isinstance(one, Judgment)]
    metrics = score_run(config, [CASE], judgments).metrics
    assert metrics["position/first_rate"].value == 1.0
    assert metrics["tie_rate/swap_disagreement"].value == 1.0


def test_a_probe_is_planted_like_any(example, capsys):
    check_probe("flattery")
    words = [
        *("judge=simulated/good", "dataset=quick", "tracking=none", "scoring.bootstrap=50"),
        *("store.mode=off", "-q"),
    ]
    assert main(["audit", *words, "probe=flattery", "--output", "audit"]) == 0
    assert "audit/flattery/shift" in json.loads(Path("audit/metrics.json").read_bytes())["metrics"]
    assert main(["audit", "--probes"]) == 0
    assert "Tells the judge in the response" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda case, _: None, "no case is edited"),
        (
            lambda case, _: replace(case, prompt=f"{next(COUNT)}"),
            "two edits differ: use no random numbers",
        ),
        (
            lambda case, _: replace(case, responses=(*case.responses, *case.responses)),
            "the number of responses changes",
        ),
        (
            lambda case, _: case.metadata.update(edited=next(COUNT)) or replace(case, prompt="new"),
            "the original",
        ),
    ],
)
def test_a_probe_is_held_to_the_protocol(example, monkeypatch, edit, fault):
    from evalkit_example import flattery

    cases = [replace(CASE, metadata={})]
    monkeypatch.setattr(flattery, "FLATTERY", replace(flattery.FLATTERY, edit=edit, assumes=""))
    with pytest.raises(AssertionError, match="`what` or `assumes` is empty") as bad:
        check_probe("flattery", cases=cases)
    assert fault in str(bad.value)


def test_a_wrong_setting_is_one_line(example):
    with pytest.raises(PluginError, match=r"mode\.params\.qestion: "):
        make_evaluator(load_config(overrides=["mode=duel", "mode.params.qestion=x"]))


def test_prompts_in_another_language(example):
    evaluator = make_evaluator(load_config(overrides=["prompt.language=fr", "output.format=arrow"]))
    request = evaluator.plan(CASE)[0]
    assert request.messages[0]["content"].startswith("Tu compares")
    assert "-> A, -> B ou -> TIE" in request.messages[-1]["content"]


def test_the_users_prompts_come_before_a_plug_ins(example, tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "duel.md.j2").write_text(
        "mine {{ question }} {{ first }} {{ second }}", "utf-8"
    )
    evaluator = make_evaluator(load_config(overrides=["mode=duel"]), prompt_folders=[tmp_path])
    assert evaluator.plan(CASE)[0].messages[0]["content"].startswith("mine")


@pytest.mark.parametrize(
    "name", ["arrow", "evalkit_example.arrow.Arrow", "evalkit_example.arrow:Arrow"]
)
@pytest.mark.parametrize(
    ("text", "margin"), [("so -> A", 1.0), ("-> B -> tie", 0.0), ("<think>-> A</think> -> b", -1.0)]
)
def test_an_output_format_for_winners(example, name, text, margin):
    evaluator = make_evaluator(load_config(overrides=[f"output.format='{name}'"]))
    request = evaluator.plan(CASE)[0]
    assert request.messages[-1]["content"].endswith(
        "\n\nEnd with an arrow and the winner: -> A, -> B or -> TIE."
    )
    judgment = evaluator.read(request, Completion(text))
    assert judgment.value == margin
    check_evaluator(evaluator, answers=[text, "-> A"])


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("A wins", "unparseable"),
        ("-> the longer", "unparseable"),
        ("I'm sorry, but I can't help with that.", "refused"),
    ],
)
def test_what_an_output_format_cannot_read_is_missing(example, text, status):
    evaluator = make_evaluator(load_config(overrides=["output.format=arrow"]))
    judgment = evaluator.read(evaluator.plan(CASE)[0], Completion(text))
    assert (judgment.status, judgment.value) == (status, None)


def test_an_output_format_for_scores_is_held_to_the_scale(example):
    overrides = [
        *("mode=pointwise", "criteria=overall", "output._target_=evalkit_example.arrow.Arrow"),
    ]
    evaluator = make_evaluator(load_config(overrides=overrides))
    check_evaluator(evaluator, answers=["-> 4"])
    request = evaluator.plan(CASE)[0]
    four, six = (evaluator.read(request, Completion(f"-> {score}")) for score in (4, 6))
    assert four.criteria == {"overall quality": 4.0}
    assert (six.status, six.criteria) == ("unparseable", {})


def test_an_output_format_for_classes_is_held_to_the_rubric(example):
    overrides = ["mode=pointwise", "criteria=overall", "rubric=pass_fail", "rubric.abstain=unclear"]
    evaluator = make_evaluator(load_config(overrides=[*overrides, "output.format=arrow"]))
    check_evaluator(evaluator, answers=["-> fail"])
    request = evaluator.plan(CASE)[0]
    assert (
        "End with an arrow and one of: -> pass, -> fail, -> unclear."
        in request.messages[-1]["content"]
    )
    read = [
        evaluator.read(request, Completion(text)) for text in ("-> Fail", "-> unclear", "-> failed")
    ]
    assert [(one.status, one.class_name) for one in read if isinstance(one, Judgment)] == [
        ("ok", "fail"),
        ("ok", "unclear"),
        ("unparseable", None),
    ]


def test_an_output_format_that_does_not_read_what_the_mode_needs(example, monkeypatch):
    with pytest.raises(PluginError, match="there is no 'arow'; did you mean 'arrow'"):
        make_evaluator(load_config(overrides=["output.format=arow"]))
    with pytest.raises(PluginError, match=r"output\.format: there is no 'arrow'"):
        make_evaluator(load_config(overrides=["mode=listwise", "output.format=arrow"]))
    with pytest.raises(
        PluginError,
        match=r"'evalkit_example\.duel\.Params' does not implement the protocol of '.*'; choose a class with the method"
        r" winner or score or class_name",
    ):
        make_evaluator(load_config(overrides=["output.format=evalkit_example.duel.Params"]))
    with pytest.raises(
        PluginError, match=r"'evalkit_example\.cases\.read_toml' does not implement"
    ):
        make_evaluator(load_config(overrides=["output.format=evalkit_example.cases.read_toml"]))
    from evalkit_example.arrow import Arrow

    monkeypatch.setattr(Arrow, "_last", lambda self, text: {}["no such key"])
    evaluator = make_evaluator(load_config(overrides=["output.format=arrow"]))
    with pytest.raises(
        PluginError, match=r"output\.format: it fails on a judge's answer: KeyError"
    ):
        evaluator.read(evaluator.plan(CASE)[0], Completion("-> A"))


@pytest.mark.parametrize("format_", [None, "toml", "evalkit_example.cases.TomlReader"])
def test_a_dataset_format_by_suffix_name_or_path(example, tmp_path, format_):
    path = tmp_path / "cases.toml"
    path.write_text(TOML, "utf-8")
    (case,) = load_cases(DatasetConfig(path=str(path), format=format_), mode="pairwise").cases
    assert (case.id, case.label, [response.text for response in case.responses]) == (
        "one",
        "A",
        ["x", "y"],
    )


def test_a_dataset_formats_mistakes_and_the_datas_are_told(example, tmp_path):
    path = tmp_path / "cases.toml"
    path.write_text("[[case]]\nprompt = 1 2", "utf-8")
    with pytest.raises(
        PluginError, match=r"dataset\.format: 'toml' fails on .*cases\.toml: TOMLDecodeError"
    ):
        load_cases(DatasetConfig(path=str(path)), mode="pairwise")
    path.write_text(TOML.replace("response_b", "respons_b"), "utf-8")
    with pytest.raises(ConfigError, match="case 1"):
        load_cases(DatasetConfig(path=str(path)), mode="pairwise")
    with pytest.raises(ConfigError, match="did you mean 'toml'"):
        load_cases(DatasetConfig(path=str(path), format="tom"), mode="pairwise")


def result() -> RunResult:
    return RunResult(
        None, RunConfig(judge={"model": "m"}, criteria={"q": {}}), {"mode": "duel"}, (), (), (), {}
    )


def test_a_tracker_by_name_or_path(example, tmp_path):
    ledger = tmp_path / "ledger.txt"
    for number, name in enumerate(("ledger", "evalkit_example.ledger.Ledger"), 1):
        tracker = make_tracker(TrackingConfig(tracker=name, params={"path": str(ledger)}))
        assert tracker.record(result()) == str(number)
    assert len(ledger.read_text("utf-8").splitlines()) == 2
    targeted = TrackingConfig.model_validate({"_target_": "evalkit_example.ledger.Ledger"})
    assert targeted.tracker == "evalkit_example.ledger.Ledger"


def test_a_tracker_that_fails_is_one_line_and_no_tracker_is_refused(example, tmp_path):
    tracker = make_tracker(TrackingConfig(tracker="ledger", params={"path": str(tmp_path)}))
    assert tracker is not None
    with pytest.raises(
        TrackingError, match=r"tracking\.tracker 'ledger' failed: IsADirectoryError"
    ):
        tracker.record(result())
    with pytest.raises(
        PluginError,
        match=r"does not implement the protocol of '.*'; choose a class with the method record",
    ):
        make_tracker(TrackingConfig(tracker="evalkit_example.duel.Params"))
    with pytest.raises(PluginError, match="there is no 'leger'; did you mean 'ledger'"):
        make_tracker(TrackingConfig(tracker="leger"))


def test_a_config_group_and_an_option(example):
    config = load_config(overrides=["mode=duel", "+preset=quick"])
    assert (config.scoring.bootstrap, config.tracking.tracker) == (50, "ledger")
    assert config.tracking.params == {"path": "quick.txt"}


def test_the_users_configs_come_after_a_plug_ins(example, tmp_path, monkeypatch):
    (tmp_path / "own" / "mode").mkdir(parents=True)
    (tmp_path / "own" / "mode" / "triel.yaml").write_text(
        "name: duel\nparams: {question: mine}\n", "utf-8"
    )
    monkeypatch.setenv("EVALKIT_CONF", str(tmp_path / "own"))
    assert load_config(overrides=["mode=triel"]).mode.params == {"question": "mine"}
    assert load_config(overrides=["mode=duel"]).mode.params["question"].startswith("Which")


@pytest.mark.parametrize("section", [OutputConfig, DatasetConfig])
def test_a_target_of_nothing_is_none(section):
    assert section.model_validate({"_target_": None, "format": "json"}).format == "json"


def test_a_target_is_saved_under_the_key_it_spells(example):
    config = load_config(overrides=["mode._target_=evalkit_example.duel.Duel"])
    assert json.loads(json.dumps(config.dump()))["mode"]["name"] == "evalkit_example.duel.Duel"
    assert RunConfig.model_validate(config.dump()) == config


def test_what_is_broken_is_said_and_listed(example, tmp_path, capsys):
    entries = tmp_path / "site" / "broken-1.0.dist-info"
    entries.mkdir()
    (entries / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", "utf-8"
    )
    text = "[evalkit.conf]\nbroken = no_such_package:conf\n[evalkit.outputs]\nbroken = evalkit_example.arrow:Absent\n"
    (entries / "entry_points.txt").write_text(text, "utf-8")
    assert main(["plugins"]) == 1
    out = capsys.readouterr().out
    assert "wrong: there is no folder 'no_such_package:conf'" in out
    assert "wrong: 'evalkit_example.arrow:Absent' cannot be imported: AttributeError" in out
    assert main(["plan"]) == 1
    error = capsys.readouterr().err
    assert "broken (evalkit.conf 'broken'): there is no folder 'no_such_package:conf'" in error
    assert "exclude it with EVALKIT_PLUGINS" in error
    assert "Traceback" not in error


def test_the_command_takes_no_words(capsys):
    assert main(["plugins", "all"]) == 1
    assert "evalkit plugins: unexpected argument 'all'" in capsys.readouterr().err


RUN = ["run", "judge=simulated/good", "tracking=none", "scoring.bootstrap=0"]


@pytest.mark.parametrize("scheme", ["memory", "evalkit_example.memory_store.MemoryStore"])
def test_a_store_by_the_scheme_of_its_url(example, capsys, scheme):
    url = f"store.url={scheme}://{scheme}"
    assert main([*RUN, url, "hydra.run.dir=one"]) == 0
    assert main([*RUN, url, "hydra.run.dir=two", "store.mode=read_only"]) == 0
    calls = [
        json.loads(Path(run, "metrics.json").read_text("utf-8"))["calls"] for run in ("one", "two")
    ]
    assert calls[0]["sent"] == calls[1]["stored"] > 0
    capsys.readouterr()
    assert main(["store", "stats", url]) == 0
    assert f"{scheme}://{scheme}: {calls[0]['sent']:,} answers\n" in capsys.readouterr().out
    assert main(["store", "export", "saved.jsonl", url]) == 0
    assert main(["store", "import", "saved.jsonl", "store.url=answers.sqlite"]) == 0
    assert f"{calls[0]['sent']:,} answers added to answers.sqlite" in capsys.readouterr().out


def test_a_store_is_held_to_the_protocol_and_its_failures_are_one_line(
    example, monkeypatch, capsys
):
    from evalkit_example.memory_store import MemoryStore

    check_store(MemoryStore, "memory://checked")

    def fail(self: Any, keys: Any) -> None:
        raise OSError("could not connect to\npostgresql://user:hidden@host")

    monkeypatch.setattr(MemoryStore, "get_many", fail)
    assert main([*RUN, "store.url=memory://failing"]) == 1
    error = capsys.readouterr().err
    assert "store.url: the backend 'memory' failed: OSError: could not connect to" in error
    assert "hidden" not in error
    assert "Traceback" not in error


def test_code_that_is_named_by_a_store_url_runs_only_if_allowed(example, monkeypatch, capsys):
    monkeypatch.delenv("EVALKIT_ALLOW_CODE")
    assert main(["store", "stats", "store.url=evalkit_example.memory_store.MemoryStore://x"]) == 1
    assert "--allow-code" in capsys.readouterr().err
    assert "evalkit_example.memory_store" not in sys.modules


def test_a_transport_that_is_code_runs_only_if_allowed(example, monkeypatch, capsys):
    monkeypatch.delenv("EVALKIT_ALLOW_CODE")
    assert main(["run", *ECHO, "judge.transport=evalkit_example.echo.Echo"]) == 1
    assert "--allow-code" in capsys.readouterr().err
    assert "evalkit_example.echo" not in sys.modules


RIDDLES = "".join(
    f'{{"riddle": "r{k}", "solution": "yes {k}", "decoy": "no {k}"}}\n' for k in range(4)
)
ECHO = [
    *("judge.model=echo/A", "judge.transport=echo", "output.format=arrow", "tracking=none"),
    "scoring.bootstrap=0",
]


def test_a_benchmark_and_a_judge_from_the_command_line(example, capsys):
    Path("riddles.jsonl").write_text(RIDDLES, "utf-8")
    words = [
        "dataset=riddles",
        "dataset.path=riddles.jsonl",
        *ECHO,
        "judge.price={input: 1, output: 1}",
    ]
    assert main(["run", "-v", *words, "hydra.run.dir=run", "store=off"]) == 0
    out = capsys.readouterr()
    assert "riddles/solved" in out.out
    assert "By Riddles's own rule: solved 0.00 (n = 4)." in " ".join(out.out.split())
    assert "Riddles: license CC0; cite Sphinx" in out.out + out.err
    written = json.loads(Path("run", "metrics.json").read_text("utf-8"))
    assert (
        written["metrics"]["riddles/solved"]["value"],
        written["metrics"]["riddles/solved"]["n"],
    ) == (0.0, 4)
    assert written["calls"]["sent"] == 8
    assert written["metrics"]["cost/per_case"]["value"] > 0
    assert next(iter(written["metrics"])) == "riddles/solved"
    assert "Riddles: solved</span>" in Path("run", "report.html").read_text("utf-8")
    assert (
        main(
            [
                "run",
                *words,
                'gate={riddles/solved: {value: ">= 0.5", by: value}}',
                "hydra.run.dir=gated",
            ]
        )
        == 4
    )
    assert main(["run", *words, 'gate={riddles/solvd: ">= 0.5"}']) == 1
    assert "did you mean 'riddles/solved'" in capsys.readouterr().err
    assert main(["run", "dataset=file", "dataset.path=riddles.jsonl", *ECHO]) == 1
    assert "looks like riddles; use dataset=riddles" in capsys.readouterr().err


def test_a_benchmark_names_its_main_metric_another_for_want_of_it_and_whose_labels_it_has(
    example, monkeypatch
):
    from evalkit_example import riddles

    metrics = {"riddles/solved": Metric("riddles/solved", 0.5, 0.25, 0.75, n=4)}
    assert in_every_language(label_words(metrics))[0] == "the annotators' labels"
    changed = {
        "main_metric": "riddles/best",
        "substitute": ("riddles/solved", " There is no best."),
        "short_title": "R",
    }
    monkeypatch.setattr(riddles, "RIDDLES", replace(riddles.RIDDLES, human_labels=False, **changed))
    assert in_every_language(label_words(metrics))[0] == "the labels"
    texts = [one.text for one in findings(metrics, "pairwise") if one.metric == "riddles/solved"]
    assert texts == ["By R's own rule: solved 0.50 [0.25, 0.75] (n = 4). There is no best."]
    # None of these attributes is required.
    needed = [
        name for name in dir(riddles.RIDDLES) if not name.startswith("_") and name not in changed
    ]
    plain = {name: getattr(riddles.RIDDLES, name) for name in needed if name != "human_labels"}
    monkeypatch.setattr(riddles, "RIDDLES", SimpleNamespace(**plain))
    assert "riddles/solved" not in [one.metric for one in findings(metrics, "pairwise")]
    assert metric_words("riddles/solved")[0] == "Riddles: solved"


def test_a_benchmark_names_the_values_of_its_own_placeholders(example, monkeypatch):
    from evalkit_example import riddles

    rows = (*riddles.RIDDLES.metrics, MetricSpec("riddles/{level}", "solved, {level}", "A share."))
    values, words = {"level": ("short", "long")}, {"short": "up to 9 words"}
    monkeypatch.setattr(
        riddles, "RIDDLES", replace(riddles.RIDDLES, metrics=rows, values=values, words=words)
    )
    assert metric_words("riddles/short")[0] == "Riddles: solved, up to 9 words"
    assert metric_words("riddles/easy")[0] == "riddles/easy"
    config = load_config(overrides=["dataset=riddles", "dataset.path=riddles.jsonl"])
    names = available_names(config, catalog_of("riddles"), ["easy"])
    assert names[:3] == ["riddles/solved", "riddles/short", "riddles/long"]
    check_gate(
        config.model_copy(update={"gate": GateConfig.model_validate({"riddles/long": ">= 0"})}), []
    )
    with pytest.raises(ConfigError, match="no such metric"):
        check_gate(
            config.model_copy(update={"gate": GateConfig.model_validate({"riddles/easy": ">= 0"})}),
            [],
        )


def test_a_package_brings_the_translations_of_its_benchmark(example, monkeypatch):
    from evalkit_example import riddles

    rows = (*riddles.RIDDLES.metrics, MetricSpec("riddles/{level}", "solved, {level}", "A share."))
    changed = {"metrics": rows, "values": {"level": ("short",)}, "words": {"short": "solved"}}
    monkeypatch.setattr(riddles, "RIDDLES", replace(riddles.RIDDLES, **changed))
    assert metric_words("riddles/solved") == ("Riddles: solved", "Riddles：解出的谜语")
    assert metric_words("riddles/short") == (
        "Riddles: solved, solved",
        "Riddles：solved, 解出的谜语",
    )
    assert (
        note_words("no riddle could be read; no pair has a verdict")[1]
        == "没有可读的谜语；没有成对回答有结论"
    )
    assert metric_words("tie_rate")[1] == "平局率"


def test_translations_that_cannot_be_read_are_one_line(example, tmp_path, monkeypatch):
    compiled = tmp_path / "zh" / "LC_MESSAGES" / "evalkit.mo"
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(b"msgid")
    monkeypatch.setattr(plugins, "folders", lambda group: [tmp_path])
    with pytest.raises(
        PluginError, match=r"its translations cannot be read .* compile them again"
    ) as caught:
        find_benchmark("riddles")
    assert str(tmp_path) in str(caught.value)


def test_a_benchmark_is_held_to_what_loading_and_scoring_need(example, tmp_path, monkeypatch):
    path = tmp_path / "riddles.jsonl"
    path.write_text(RIDDLES, "utf-8")
    check_benchmark("riddles", path)
    from evalkit_example import riddles

    def wrong(view: Any) -> list[Metric]:
        return [Metric("solved", 0.5), Metric("riddles/none", None)]

    rows = (*riddles.RIDDLES.metrics, MetricSpec("riddle/other", "other", "A share."))
    changed = {
        "citation": "",
        "shapes": (frozenset(),),
        "metrics": rows,
        "main_metric": "riddles/best",
    }
    monkeypatch.setattr(riddles, "RIDDLES", replace(riddles.RIDDLES, rule=wrong, **changed))
    with pytest.raises(AssertionError) as bad:
        check_benchmark("riddles", path)
    for fault in (
        "described() has no citation",
        "it recognizes any row with a pair as its own",
        "judged: the metric 'solved' is not named 'riddles/…'",
        "not judged: 'solved' is 0.5 without data: a missing answer is never a score",
        "judged: 'riddles/none' has no value, and no note that explains why",
        "judged: 'riddles/none' has no row in metrics",
        "the row 'riddle/other' in metrics is not named 'riddles/…'",
        "main_metric 'riddles/best' has no row in metrics",
    ):
        assert fault in str(bad.value)
    monkeypatch.setattr(riddles, "RIDDLES", riddles.solved)
    with pytest.raises(
        PluginError, match="the entry point 'riddles' is not a benchmark with that name"
    ):
        check_benchmark("riddles", path)


def test_a_judge_is_held_to_the_protocol(example, monkeypatch):
    for transport in ("echo", "evalkit_example.echo.Echo"):
        check_judge(JudgeConfig(model="echo/A", transport=transport))
    with pytest.raises(
        AssertionError, match="it does not answer a simple request: server: it is broken"
    ):
        check_judge(JudgeConfig(model="echo/broken", transport="echo"))
    from evalkit_example.echo import Echo

    async def answer(self: Any, request: Any) -> Completion:
        if request.sample:
            raise KeyError("no such key")
        return Completion("\ud800", cost_usd=-1.0)

    monkeypatch.setattr(Echo, "complete", answer)
    with pytest.raises(AssertionError) as bad:
        check_judge(JudgeConfig(model="echo/A", transport="echo"))
    for fault in (
        "its completion has text or numbers that a file cannot hold",
        "a call costs $-1.0",
        "with 4 concurrent requests: complete raises KeyError",
    ):
        assert fault in str(bad.value)

    async def silent(self: Any, request: Any) -> Any:
        return Completion("") if request.sample else "A"

    async def unclosed(self: Any) -> None:
        raise OSError("still open")

    monkeypatch.setattr(Echo, "complete", silent)
    monkeypatch.setattr(Echo, "close", unclosed, raising=False)
    with pytest.raises(AssertionError) as bad:
        check_judge(JudgeConfig(model="echo/A", transport="echo"))
    for fault in (
        "complete raises AttributeError ('str' object has no attribute",
        "with 4 concurrent requests: it answers a simple request with an empty text and no refusal",
        "the second close fails with OSError: still open",
    ):
        assert fault in str(bad.value)

    async def unusable(self: Any, request: Any) -> Any:
        raise JudgeSetupError("no key")

    monkeypatch.setattr(Echo, "complete", unusable)
    with pytest.raises(AssertionError, match="no call can succeed: no key"):
        check_judge(JudgeConfig(model="echo/A", transport="echo"))


@pytest.mark.parametrize(
    ("transport", "line"),
    [
        ("dirct", "judge.transport: there is no 'dirct'; did you mean 'direct'"),
        ("evalkit_example.duel.Params", "choose a class with the method complete or send"),
    ],
)
def test_a_transport_that_is_none_is_one_line(example, capsys, transport, line):
    assert main(["run", "judge.model=echo/A", f"judge.transport={transport}", "tracking=none"]) == 1
    assert line in capsys.readouterr().err


def test_a_group_that_evalkit_does_not_have_is_named(example, tmp_path, capsys):
    info = next((tmp_path / "site").glob("*.dist-info"))
    with (info / "entry_points.txt").open("a", encoding="utf-8") as file:
        file.write("\n[evalkit.benchmark]\nriddles = evalkit_example.riddles:RIDDLES\n")
    problem = "evalkit has no group 'evalkit.benchmark': did you mean 'evalkit.benchmarks'?"
    assert main(["plugins"]) == 1
    assert problem in capsys.readouterr().out
    words = ["judge=simulated/good", "dataset=sample", "tracking=none"]
    assert main(["doctor", *words]) == 1
    [line] = [line for line in capsys.readouterr().out.splitlines() if "wrong" in line]
    assert line.startswith(
        f"wrong plug-ins: evalkit-example (evalkit.benchmark 'riddles'): {problem}"
    )


def rows_of(name):
    lines = Path("run", f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_a_metric_is_the_mean_of_what_its_function_returns(example, capsys):
    words = [
        "run",
        "dataset=sample",
        "hydra.run.dir=run",
        "tracking=none",
        *ECHO[:4],
        "store=off",
        "swap=none",
    ]
    gate = 'gate={brevity/shorter_wins: {value: ">= 0", by: value}}'
    assert main([*words, gate, "scoring.bootstrap=100"]) == 0, capsys.readouterr().err
    run = json.loads(Path("run/metrics.json").read_text("utf-8"))
    metric = run["metrics"]["brevity/shorter_wins"]
    cases = {case["id"]: case for case in rows_of("cases")}
    shorter, decided, missing = 0, 0, 0
    for verdict in rows_of("verdicts"):
        first, second = (
            len(cases[verdict["case_id"]]["responses"][index]["text"]) for index in verdict["unit"]
        )
        missing += verdict["reason"] == "missing"
        if verdict["winner"] in ("A", "B") and first != second:
            decided += 1
            shorter += (verdict["winner"] == "A") == (first < second)
    assert (metric["value"], metric["n"], metric["missing"]) == (
        pytest.approx(shorter / decided),
        decided,
        missing,
    )
    assert 0 <= metric["low"] <= metric["value"] <= metric["high"] <= 1
    assert "shorter response wins" in Path("run/report.html").read_text("utf-8")
    assert main([*words, "gate={brevity/shorter: {value: '>= 0'}}", "hydra.run.dir=b"]) == 1
    assert "did you mean 'brevity/shorter_wins'" in capsys.readouterr().err
