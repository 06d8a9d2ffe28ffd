"""The metric catalog knows every metric of every run and its function's parameters, and what it says of one holds."""

import inspect
import runpy
import tomllib
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest

from evalkit import load_config, run
from evalkit.config import DatasetConfig, RunConfig
from evalkit.core import benchmark_discovery
from evalkit.core.benchmark_discovery import iter_benchmarks
from evalkit.core.errors import ConfigError
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case, Metric
from evalkit.datasets import load_cases
from evalkit.runs.results import RunResult
from evalkit.scoring import catalog, metrics, pipeline
from evalkit.scoring.catalog import (
    CATALOG,
    HEADINGS,
    JUDGE_COLUMNS,
    LEADERBOARD_COLUMNS,
    RANKED_BY,
    TESTED,
    Catalog,
    catalog_of,
    full_catalog,
    heading,
)
from evalkit.scoring.catalog.spec import BOTH, EVERY
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.gate_rules import SETTINGS, available_names, is_available
from evalkit.scoring.metrics.classes import class_statistics
from evalkit.scoring.metrics.metric_registry import EACH, RUN
from evalkit.scoring.metrics.panels import class_panel_statistics
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.run_metrics import EXTRAS, RunValues, computed
from evalkit.scoring.stats import agreement_formulas, coefficients
from evalkit.scoring.stats.statistic import Tally
from evalkit.workflows.gating import check_gate

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "benchmarks" / "files"
PANEL = "judge={judges: [{model: simulated/good, name: x/y}, {model: simulated/good, name: b, seed: 1}]}"
CLASSES = [
    "dataset=file",
    f"dataset.path={ROOT / 'tests/scoring/files/classes.jsonl'}",
    "mode=pointwise",
]
LAST = "removed: evalkit 0.2 was the last version with it$"
SETTING_NEEDS = (*SETTINGS, "")


@cache
def composed(*overrides: str) -> RunConfig:
    return load_config(overrides=overrides)


def judged(tmp_path: Path, *overrides: str) -> RunResult:
    quiet = ["tracking=none", f"store.url=sqlite:///{tmp_path}/answers.db", "scoring.bootstrap=20"]
    judge = [] if any(one.startswith("judge=") for one in overrides) else ["judge=simulated/good"]
    return run(load_config(overrides=[*judge, *quiet, *overrides]), tmp_path / "run")


def unfit(metric: Metric) -> str | None:
    spec = CATALOG.spec(metric.name)
    if spec is None:
        return f"{metric.name} is not in the catalog"
    values = [value for value in (metric.value, metric.low, metric.high) if value is not None]
    if any(spec.low is not None and value < spec.low - 1e-9 for value in values):
        return f"{metric.name} has {min(values)}, and its range begins at {spec.low}"
    if any(spec.high is not None and value > spec.high + 1e-9 for value in values):
        return f"{metric.name} has {max(values)}, and its range ends at {spec.high}"
    return None


@pytest.mark.parametrize("overrides", [
    ["dataset=quick", "mode.samples=2", "swap.resolve=net_vote", "tie=forbid"],
    ["dataset=quick", "swap.resolve=third_pass", "criteria=overall", "output=bracket"],
    ["dataset=quick", PANEL],
    ["dataset=graded", "mode=pointwise", "mode.samples=2"],
    ["dataset=graded", "mode=pointwise", "rubric=binary", "scoring.conflict_edges=ties", PANEL],
    ["dataset=graded", "mode=listwise"],
    [*CLASSES, "rubric=pass_fail", "rubric.abstain=unsure",
     "dataset.label_map={yes: pass, no: fail}"],
    [*CLASSES, "rubric=yes_no", "rubric.ordered=true", PANEL],
], ids=lambda overrides: " ".join(overrides)[:40])  # fmt: skip
def test_every_metric_of_a_run_is_in_the_catalog_and_could_have_been_named_in_a_gate(
    tmp_path, overrides
):
    result = judged(tmp_path, *overrides)
    assert not [why for metric in result.metrics.values() if (why := unfit(metric))]
    gate = dict.fromkeys(result.metrics, ">= 0")
    config = RunConfig.model_validate({**result.config.model_dump(mode="json"), "gate": gate})
    check_gate(config, result.cases)
    # The other way round: a name that only settings decide on is there.
    certain = {
        s.name for s in full_catalog().rows if s.needs in SETTING_NEEDS and not s.placeholders
    }
    absent = {name for name in certain if is_available(CATALOG[name], config)} - set(result.metrics)
    # A claim about stated confidences is tested only if there are some: `output=bracket` asks for none.
    ece = result.metrics.get("calibration/ece")
    unstated = {"calibration/claim", "calibration/excess"} if ece and not ece.n else set()
    assert absent <= unstated | {
        "criteria/overall_disagreement",
        "labels/identical",
        "labels/disputed",  # all annotators of these cases agree
        "labels/copied",  # no annotator copies
        "pictures/omitted",  # no case of these runs has pictures
        "tie_rate/split",
        "panel/unanimous",
    } | {
        name
        for name in certain
        if name.startswith(("position/", "samples/", "jnd/")) and PANEL in overrides
    }


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("name", [benchmark.name for benchmark in iter_benchmarks()])
def test_every_metric_of_a_benchmark_is_in_the_catalog(name, mode):
    path = FILES / {"prometheus": "prometheus/feedback_bench.json"}.get(name, name)
    try:
        cases = load_cases(DatasetConfig(benchmark=name, path=str(path)), mode=mode).cases
    except ConfigError:
        return  # not for this mode
    config = composed(f"mode={mode}", "scoring.bootstrap=0")
    config = config.model_copy(update={"dataset": DatasetConfig(benchmark=name, path=str(path))})
    found = score_run(config, cases, []).metrics
    own = [metric for metric in found if metric.startswith(f"{name}/")]
    assert own
    assert not [metric for metric in found if CATALOG.spec(metric) is None]
    gate = type(config.gate).model_validate(dict.fromkeys(own, ">= 0"))
    check_gate(config.model_copy(update={"gate": gate}), cases)


@pytest.mark.parametrize(("overrides", "name", "remedy"), [
    (["mode=pointwise"], "position/consistency", "choose from "),
    ([], "forced_rate", "did you mean"),
    ([], "between/kappa", "did you mean 'agreement/kappa'"),
    ([], "conflict/rate/clarty", "did you mean 'conflict/rate/clarity'"),
    ([], "llmbar/mean_accuracy", "did you mean"),
    (["+dataset.benchmark=llmbar"], "llmbar/mean_accuracy/naturl",
     "did you mean 'llmbar/mean_accuracy/natural'"),
    ([], "ranking/rating/nobody", "did you mean"),
    ([], "panel/alpha", "did you mean"),
    ([], "variance/case", LAST),
    ([], "position/order_effect", LAST),
    ([], "slice/length/short/variance/case", LAST),
    ([PANEL], "judge/x_y/variance/case", LAST),
])  # fmt: skip
def test_what_a_run_cannot_have_is_refused_before_it(overrides, name, remedy):
    benchmark = "llmbar" if any("llmbar" in one for one in overrides) else None
    config = composed(*(one for one in overrides if "llmbar" not in one))
    config = config.model_copy(
        update={"dataset": config.dataset.model_copy(update={"benchmark": benchmark})}
    )
    gate = type(config.gate).model_validate({name: ">= 0"})
    cases = [Case("1", "?", (), metadata={"subset": "Natural"})]
    with pytest.raises(ConfigError, match=f"gate.{name}: no such metric.*{remedy}"):
        check_gate(config.model_copy(update={"gate": gate}), cases)


def test_a_removed_metric_is_none_of_the_catalog():
    removed = tomllib.loads((Path(catalog.__file__).parent / "removed.toml").read_text("utf-8"))
    assert [name for name in removed if CATALOG.find(name)] == []
    assert not {name.partition("/")[0] for name in removed if name[-1] == "/"} & {*CATALOG.groups}


def test_a_typo_is_told_the_name_that_it_may_mean():
    names = available_names(composed(), full_catalog(), ["gpt-4"])
    assert {"agreement/kappa", "conflict/rate/clarity", "ranking/rating/gpt-4"} <= set(names)
    assert not {"score/mean", "llmbar/mean_accuracy", "between/kappa", "forced_rate"} & set(names)
    halluqa = composed("mode=pointwise")
    halluqa = halluqa.model_copy(update={"dataset": DatasetConfig(benchmark="halluqa")})
    own = [
        name
        for name in available_names(halluqa, catalog_of("halluqa"), ["gpt-4"])
        if name.startswith("halluqa/")
    ]
    assert "halluqa/non_hallucination_rate/gpt-4" in own
    assert not [name for name in own if name.count("gpt-4") > 1], (
        "a name of two parts from the cases is not guessed"
    )


def test_every_row_says_what_a_metric_is():
    for row in full_catalog().rows:
        assert row.definition.endswith("."), row.name
        assert row.definition.count(". ") == 0, row.name
        assert row.title, row.name
        assert set(row.modes) <= set(EVERY), row.name
        assert row.low is None or row.high is None or row.low < row.high, row.name
        assert not isinstance(row.chance, float) or (row.low is None or row.low <= row.chance), (
            row.name
        )
    chosen = {*JUDGE_COLUMNS, *LEADERBOARD_COLUMNS, *RANKED_BY, *TESTED}
    assert all(CATALOG[name].name == name for name in chosen)


def test_a_row_is_found_by_the_stricter_of_two_patterns_and_of_a_judge_with_slashes():
    def found(name: str) -> tuple[str, dict[str, str], str | None]:
        match = CATALOG.find(name)
        assert match is not None
        return match.spec.name, dict(match.values), match.judge

    assert found("rewardbench/chat_hard") == (
        "rewardbench/{section}",
        {"section": "chat_hard"},
        None,
    )
    assert found("rewardbench/hep-go") == ("rewardbench/{subset}", {"subset": "hep-go"}, None)
    model, turn = {"model": "gpt-4", "turn": "turn2"}, "mt_bench/score/{model}/{turn}"
    assert found("mt_bench/score/gpt-4/turn2") == (turn, model, None)
    assert found("summeval/overall/system/kendall")[0] == "summeval/overall/{grouping}/kendall"
    assert found("judge/a/b/ranking/rating/c/d") == (
        "ranking/rating/{system}",
        {"system": "c/d"},
        "a/b",
    )
    assert CATALOG.find("judge/a/nothing") is None
    assert CATALOG.find("nothing/at/all") is None
    assert (CATALOG.better("judge/x/tie_rate"), CATALOG.better("human/gap")) == ("lower", "higher")
    assert not CATALOG.is_headline("judge/x/tie_rate")


def test_a_benchmarks_rows_come_first_by_name_or_of_one_benchmark():
    own = catalog_of("llmbar").rows[: -len(CATALOG.rows)]
    assert own == tuple(row for row in full_catalog().rows if row.group == "llmbar")
    assert catalog_of("llmbar").rows[len(own) :] == CATALOG.rows
    names = [
        "agreement/accuracy",
        "judge/x/llmbar/agreement_rate",
        "llmbar/agreement_rate",
        "llmbar/mean_accuracy",
    ]
    first = [
        "llmbar/mean_accuracy",
        "llmbar/agreement_rate",
        "agreement/accuracy",
        "judge/x/llmbar/agreement_rate",
    ]
    assert sorted(names, key=CATALOG.order) == first
    assert CATALOG["llmbar/mean_accuracy"].benchmark == "LLMBar"


def test_metrics_that_need_no_benchmark_are_known_without_loading_any(monkeypatch):
    def refuse() -> None:
        raise AssertionError("benchmarks are loaded")

    monkeypatch.setattr(benchmark_discovery, "own_benchmarks", refuse)
    assert CATALOG.find("judge/x/tie_rate") is not None
    assert CATALOG.find("agreement/nothing") is None
    assert CATALOG.order("tie_rate") < CATALOG.order("judge/x/tie_rate")
    with pytest.raises(AssertionError, match="are loaded"):
        CATALOG.find("llmbar/mean_accuracy")


def test_no_two_rows_have_one_name():
    with pytest.raises(ValueError, match="tie_rate twice"):
        Catalog([*CATALOG.rows, CATALOG["tie_rate"]])


def test_the_page_of_metrics_is_the_catalog():
    page = runpy.run_path(str(ROOT / "docs" / "generate_metrics.py"))["page"]()
    assert (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8") == page, (
        "run docs/generate_metrics.py"
    )


def test_every_group_has_a_heading_and_so_has_any_other_metric():
    assert {*CATALOG.groups} == {*HEADINGS}
    assert heading("tie_rate/split") == heading("win_rate/a") == HEADINGS["tie_rate"]
    assert (heading("pandalm/f1"), heading("judge/small/tie_rate")) == ("PandaLM", "small")
    assert in_every_language(heading("mine/own")) == ("Other metrics", "其他指标")


LISTED = (*EACH, *EXTRAS, *RUN)


def test_a_new_metric_needs_no_line_outside_its_function_and_its_row(
    monkeypatch, configure, make_case, passes
):
    def sure_statistics(verdicts):
        sure = verdicts.confidence > 0.9
        return [verdicts.tally.rate("tie_rate/sure", sure, verdicts.present, verdicts.missing)], {
            "sure": {"rows": 1}
        }

    def class_count_statistics(classes):
        raise AssertionError("a run without classes has no metric of classes")

    monkeypatch.setattr(pipeline, "EACH", (*EACH, sure_statistics, class_count_statistics))
    cases = [make_case("a", label="A"), make_case("b", label="B")]
    scored = score_run(configure(), cases, [*passes("a", 1.0, 1.0), *passes("b", 1.0, 1.0)])
    assert scored.metrics["tie_rate/sure"].n == 2
    assert scored.details["sure"] == {"rows": 1}


def test_a_function_is_called_where_all_it_needs_is_known():
    def one(items, weights=None):
        return [Tally.each(1).rate("one", items, items, None if weights is None else weights > 0)]

    def none(items, classes):
        raise AssertionError

    some = np.array([True])
    found, tables = computed((one, none), {"items": some, "classes": None})
    assert ([statistic.name for statistic in found], tables) == (["one"], {})
    assert found[0].missing == 0
    assert computed((one,), {"items": some, "weights": np.ones(1)})[0][0].missing == 1


def test_a_misspelled_parameter_is_an_error():
    def lengths(verdict, config=None):
        raise AssertionError

    def defaults(verdicts, wheights=None):
        raise AssertionError

    with pytest.raises(TypeError, match="lengths: no run has verdict;"):
        computed((lengths,), {})
    with pytest.raises(TypeError, match="defaults: no run has wheights;"):
        computed((defaults,), {})


def test_no_function_of_metrics_is_forgotten():
    known = RunValues.__annotations__.keys()
    assert known == {name for function in LISTED for name in inspect.signature(function).parameters}
    for module in iter_modules([str(Path(metrics.__file__).parent)]):
        for name, function in inspect.getmembers(
            import_module(f"{metrics.__name__}.{module.name}"), inspect.isfunction
        ):
            own = function.__module__.endswith(f".{module.name}") and name.endswith(
                ("_statistics", "_results")
            )
            if own and {*inspect.signature(function).parameters} <= known:
                assert function in LISTED, (
                    f"{name} is in no list of evalkit/scoring/metrics/metric_registry.py"
                )
    assert len({*LISTED}) == len(LISTED)
    assert CATALOG.spec("agreement/kappa") is not None


def test_a_new_coefficient_in_one_place_appears_for_pairs_classes_and_annotators(
    monkeypatch, configure, make_case, passes
):
    raters = ("pairs", "classes", "items", "annotators", "panel")
    new = coefficients.Coefficient(agreement_formulas.accuracy, lambda unread: (0.0, 1.0), raters)
    monkeypatch.setitem(coefficients.COEFFICIENTS, "observed", new)
    labels = {"ann": "A", "ben": "A", "cat": "B"}
    cases = [
        replace(make_case(name, label=label), labels=labels)
        for name, label in (("a", "A"), ("b", "B"))
    ]
    scored = score_run(configure(), cases, [*passes("a", 1.0, 1.0), *passes("b", 1.0, 1.0)]).metrics
    pairs = scored["agreement/observed"]
    assert (pairs.value, pairs.n, pairs.worst_low, pairs.worst_high) == (0.5, 2, 0.0, 1.0)
    assert scored["human/observed"].value == round(
        1 / 3, 12
    )  # of three pairs of annotators, one agrees
    assert scored["human/observed"].worst_low is None

    n, zeros = 4, np.zeros(4, dtype=np.int64)
    each = [
        ClassColumns(
            ("good", "bad"),
            False,
            0,
            np.arange(n),
            zeros,
            n,
            np.array(verdicts),
            np.array([0, 0, 1, 1]),
        )
        for verdicts in ([0, 1, 1, 1], [0, 0, 1, 1])
    ]
    found = {one.name: one for one in class_statistics(each[0])}
    assert found["agreement/observed"].observed() == 0.75
    (votes,) = (
        one for one in class_panel_statistics(each[1], each) if one.name == "panel/observed"
    )
    assert votes.observed() == 0.75
