"""Metrics of plug-ins: means of what a function returns for each verdict."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from evalkit.compose import load_config
from evalkit.core.errors import PluginError
from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.catalog import CATALOG, CustomMetric, MetricSpec, catalog_of, custom_metrics
from evalkit.scoring.pipeline import score_run

CASE = Case("c", "Say hello.", (Response("Hello."), Response("Go away.")), label="A")


def metrics_with(monkeypatch, *custom):
    monkeypatch.setattr("evalkit.scoring.pipeline.custom_metrics", lambda: custom)


@pytest.mark.parametrize(("value", "spec", "problem"), [
    (lambda verdict: 2, {}, "returns 2 for case c"),
    (lambda verdict: "yes", {}, "returns 'yes' for case c"),
    (lambda verdict: 1 / 0, {}, "fails for case c: ZeroDivisionError"),
    (lambda verdict: float("nan"), {"low": None, "high": None}, "returns nan for case c"),
])  # fmt: skip
def test_a_value_that_is_no_number_in_the_range_is_one_line(value, spec, problem, monkeypatch):
    metrics_with(monkeypatch, CustomMetric(MetricSpec("mine/x", "x", "X.", **spec), value))
    with pytest.raises(PluginError, match=re.escape(problem)):
        score_run(
            load_config(overrides=["scoring.bootstrap=10", "swap=none"]), [CASE], [judged(1.0)]
        )


def judged(value):
    """Return a judgment of the pair of CASE, shown in its order."""
    return Judgment("c", (0, 1), (0, 1), 0, "m", "ok", value=value)


def test_numbers_have_bounds_and_missing_verdicts_are_missing(monkeypatch):
    points = MetricSpec("mine/points", "points", "Mean points.", unit="points", high=10.0)
    first = CustomMetric(points, lambda first: len(first.text))
    lone = CustomMetric(MetricSpec("mine/lone", "lone", "X."), lambda response: True)
    other = CustomMetric(MetricSpec("mine/none", "none", "X."), lambda case: None)
    metrics_with(monkeypatch, first, lone, other)
    config = load_config(overrides=["scoring.bootstrap=10", "swap=none"])
    cases = [CASE, replace(CASE, id="d")]
    metrics = score_run(config, cases, [judged(1.0)]).metrics
    assert (metrics["mine/points"].value, metrics["mine/points"].n) == (6.0, 1)
    assert metrics["mine/points"].missing == 1
    assert (metrics["mine/points"].worst_low, metrics["mine/points"].worst_high) == (3.0, 8.0)
    assert "mine/lone" not in metrics  # about single responses
    assert metrics["mine/none"].value is None


@pytest.mark.parametrize(("offered", "group", "problem"), [
    (1, "mine", "is not a metric"),
    (CustomMetric(MetricSpec("other/x", "x", "X."), lambda case: 1), "mine",
     "not named 'mine/"),
    (CustomMetric(MetricSpec("mine/{x}", "x", "X."), lambda case: 1), "mine", "placeholder"),
    ([CustomMetric(MetricSpec("mine/x", "x", "X."), lambda row: 1)], "mine", "asks for row"),
    (CustomMetric(MetricSpec("tie_rate", "x", "X."), lambda: 1), "tie_rate", "evalkit has"),
    (CustomMetric(MetricSpec("shp/x", "x", "X."), lambda: 1), "shp", "evalkit has metrics"),
])  # fmt: skip
def test_what_is_no_metric_is_refused_before_a_run_pays(offered, group, problem, monkeypatch):
    point = SimpleNamespace(name=group, value="m:x", dist=None)
    monkeypatch.setattr("evalkit.scoring.catalog.custom.entry_points_in", lambda _: [point])
    monkeypatch.setattr("evalkit.scoring.catalog.custom.load_only", lambda *_: offered)
    with pytest.raises(PluginError, match=problem):
        custom_metrics()
    assert CATALOG.find("mine/x") is None


def test_the_catalog_has_the_rows_of_plug_ins(monkeypatch):
    points = CustomMetric(MetricSpec("mine/points", "points", "Mean points."), lambda case: 1)
    point = SimpleNamespace(name="mine", value="m:x", dist=None)
    monkeypatch.setattr("evalkit.scoring.catalog.custom.entry_points_in", lambda _: [point])
    offered = lambda _, name, __: points if name == "mine" else None  # noqa: E731
    monkeypatch.setattr("evalkit.scoring.catalog.custom.load_only", offered)
    assert custom_metrics() == (points,)
    assert CATALOG.spec("mine/points") is points.spec
    assert CATALOG.find("other/points") is None
    assert points.spec in catalog_of(None).rows
    assert points.spec in catalog_of("llmbar").rows


def test_a_metric_of_single_responses(monkeypatch):
    long = CustomMetric(MetricSpec("mine/long", "x", "X."), lambda response: len(response.text) > 6)
    metrics_with(monkeypatch, long)
    config = load_config(overrides=["mode=pointwise", "swap=none", "scoring.bootstrap=10"])
    scores = [
        Judgment("c", (index,), (index,), 0, "m", "ok", value=3.0, criteria={"general": 3.0})
        for index in range(2)
    ]
    assert score_run(config, [CASE], scores).metrics["mine/long"].value == 0.5
