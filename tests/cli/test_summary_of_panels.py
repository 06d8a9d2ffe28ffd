"""A panel's summary: its own metrics in the table, its judges in one of theirs."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from evalkit.cli.summary import judge_table, metric_table
from evalkit.config import RunConfig
from evalkit.report.page import render_report
from evalkit.report.texts import metric_words
from evalkit.results import RunResult
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Metric, Response

METRICS = {
    metric.name: metric
    for metric in (
        Metric("agreement/accuracy", 0.8, 0.6, 0.9, 10),
        Metric("panel/alpha", 0.4, 0.1, 0.7, 30),
        Metric("judge/x/agreement/accuracy", 0.7, 0.5, 0.8, 10),
        Metric("judge/x/tie_rate", 0.1, None, None, 10),
        Metric("judge/y/agreement/accuracy", None, n=0, missing=10),
        Metric("judge/y/tie_rate", 0.2, None, None, 10),
    )
}


@pytest.fixture
def make_panel():
    """A panel of a judge that is right in nine of ten pairs, and one that decides by the number of the case."""

    def make() -> RunResult:
        judges = [{"model": "openai/x", "name": name} for name in ("exact", "coin")]
        config = RunConfig.model_validate(
            {
                "judge": {"name": "panel", "model": None, "judges": judges},
                "criteria": [{"name": "quality"}],
                "scoring": {"bootstrap": 200},
            }
        )
        cases = [Case(str(n), "?", (Response("one"), Response("two")), label="AB"[n % 2]) for n in range(200)]
        judgments = []
        for n in range(200):
            right = {"exact": 1 if n % 20 < 18 else -1, "coin": 1 if n % 4 < 2 else -1}
            for name, sign in right.items():
                value = float(sign * (-1) ** n)
                judgments += [Judgment(str(n), (0, 1), order, 0, name, "ok", value) for order in ((0, 1), (1, 0))]
        scores = score_run(config, cases, judgments)
        manifest = {"judge": "panel", "mode": "pairwise"}
        return RunResult(None, config, manifest, cases, judgments, scores.verdicts, scores.metrics)

    return make


def shown(table) -> str:
    out = StringIO()
    Console(file=out, width=200).print(table)
    return out.getvalue()


def test_judges_stand_in_a_table_of_their_own() -> None:
    assert "judge/" not in shown(metric_table(METRICS, 0.95))
    assert "panel/alpha" in shown(metric_table(METRICS, 0.95))
    lines = [line.split() for line in shown(judge_table(METRICS)).splitlines()]
    assert lines == [
        ["judge", "decision", "accuracy", "tie_rate"],
        ["x", "not", "decided", "0.700", "[0.500,", "0.800]", "0.100"],
        ["y", "not", "decided", "–", "0.200"],
    ]


def test_each_judge_has_a_decision_of_its_own_in_the_terminal_and_in_the_report(make_panel) -> None:
    result = make_panel()
    uses = {name: decision.use for name, decision in result.decisions.items()}
    assert uses == {"exact": "single", "coin": "none"}
    lines = shown(judge_table(result.metrics)).splitlines()
    assert [name for name in ("exact", "coin") for line in lines if line.startswith(name)] == ["exact", "coin"]
    words = {line.split()[0]: line for line in lines}
    assert "single verdicts" in words["exact"]
    assert "do not trust" in words["coin"]
    page = render_report(result)
    section = page[page.index("Judges of the panel") : page.index("All metrics")]
    assert "Trust this judge for single verdicts on pairs" in section
    assert "Do not trust this judge" in section
    planted = [{"name": name, "model": f"simulated/{name}"} for name in uses]
    simulated = render_report(replace(result, manifest={**result.manifest, "judges": planted}))
    section = simulated[simulated.index("Judges of the panel") : simulated.index("All metrics")]
    assert "Do not trust this judge" not in section
    assert "do not trust" in section


def test_a_single_judge_has_no_such_table() -> None:
    assert judge_table({"agreement/accuracy": METRICS["agreement/accuracy"]}) is None


def test_metrics_of_a_judge_are_named_after_it() -> None:
    assert metric_words("judge/x/tie_rate") == ("x: Ties", "x：平局率")
    assert metric_words("judge/x/other") == ("x: other", "x：other")
