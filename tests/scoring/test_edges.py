"""The rare ways through scoring: rules on two runs, third-party benchmarks, nothing to measure."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from evalkit.config import GateConfig, LeadRule, ScoringConfig
from evalkit.errors import ConfigError, PluginError
from evalkit.scoring import catalog, run_metrics, score_run
from evalkit.scoring.catalog import CATALOG, MetricSpec, catalog_of
from evalkit.scoring.columns import NONE, A, B, all_pairs
from evalkit.scoring.compare import RunEntry
from evalkit.scoring.gate_rules import Gate, fits, judge_lead, judge_metrics, lead_text
from evalkit.scoring.metrics import correlation
from evalkit.scoring.metrics.correlation import kendall_bounds, pearson_bounds
from evalkit.scoring.stats.clusters import Clusters, check_column
from evalkit.scoring.verdicts.pairs import coin
from evalkit.types import Case, Metric, Response

SETTINGS = ScoringConfig(bootstrap=50)
SCALES = {"mine": 5, "main": 10}


def three(labels: dict[str, object], grades: tuple[float | None, ...] = (None, None, None)) -> Case:
    responses = tuple(Response(text, grade=grade) for text, grade in zip("xyz", grades, strict=True))
    return Case("c", "question", responses, labels=labels)


def label_of(case: Case, i: int, j: int) -> int:
    pairs = all_pairs([case])
    return int(pairs.label[pairs.place(0, i, j)])


def test_the_annotators_majority_labels_the_other_pairs_of_a_case() -> None:
    case = three({"ann": {"0,2": "A", "1,2": "B", "5,6": "A"}, "ben": {"0,2": "A", "1,2": "A"}, "cid": {"0,2": "B"}})
    assert label_of(case, 0, 2) == A
    assert label_of(case, 1, 2) == NONE  # one against one
    assert label_of(three({"ann": {"0,2": "A"}}, (1.0, 2.0, 3.0)), 0, 2) == B  # grades come first
    pairs = all_pairs([case, case])
    assert pairs.find(np.array([0, 1]), np.array([1, 0]), np.array([2, 1])).tolist() == [2, 3]


def test_identical_texts_are_tossed_for_by_their_places() -> None:
    case = Case("c", "question", tuple(Response("same") for _ in range(4)))
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    assert {coin(case, i, j) for i, j in pairs} == {1, -1}
    assert [coin(case, i, j) for i, j in pairs] == [coin(case, i, j) for i, j in pairs]


@pytest.fixture
def entry(configure, make_case, passes):
    """Make a run of 40 cases, right on the first `right` of them."""

    def make(name: str, right: int, **sections: object) -> RunEntry:
        cases = tuple(make_case(str(k), label="A") for k in range(40))
        margins = [1.0 if k < right else -1.0 for k in range(40)]
        judgments = tuple(one for k, margin in enumerate(margins) for one in passes(str(k), margin, margin))
        return RunEntry(name, configure(**sections), cases, judgments)

    return make


@pytest.mark.parametrize(
    ("rule", "right", "by", "state"),
    [
        ({"margin": 0.5}, 30, "interval", "held"),
        ({"margin": 0.02}, 10, "interval", "failed"),
        ({"margin": 0.25}, 30, "interval", "undecided"),
        ({"margin": 0.25}, 30, "value", "held"),
        ({"margin": 0.2}, 30, "value", "failed"),
        ({}, 40, "interval", "held"),  # no case differs, so no interval
        ({"metric": "tie_rate", "margin": 0.1, "better": "lower"}, 40, "interval", "held"),
        ({"metric": "agreement/spearman"}, 40, "interval", "undecided"),
    ],
)
def test_a_run_is_held_against_another_by_the_interval_of_the_difference(entry, rule, right, by, state) -> None:
    lead = LeadRule(run="there", **rule)
    ruling = judge_lead(lead, entry("mine", right), entry("main", 39 if rule else 40), SETTINGS, by)
    assert (ruling.metric, ruling.state) == (lead.metric, state), ruling.why
    assert ruling.rule == lead_text(lead, "main")
    assert ruling.rule.endswith(f"by more than {lead.margin:g}" if lead.margin else "no worse than main")


def test_runs_on_different_scales_are_not_decided(pointwise, make_case, judged) -> None:
    cases = tuple(make_case(str(k)) for k in range(6))
    judgments = tuple(judged(str(k), (0,), criteria={"quality": 1.0 + k % 3}) for k in range(6))
    mine, main = (RunEntry(name, pointwise(rubric={"max": most}), cases, judgments) for name, most in SCALES.items())
    ruling = judge_lead(LeadRule(run="there", metric="score/mean", better="higher"), mine, main, SETTINGS)
    assert (ruling.state, ruling.why) == ("undecided", "the runs' values cannot be compared: their scales differ")


@pytest.mark.parametrize(
    ("states", "strict", "state"),
    [
        ([], False, "held"),
        (["held", "undecided"], False, "undecided"),
        (["held", "undecided"], True, "failed"),
        (["undecided", "failed"], False, "failed"),
    ],
)
def test_a_gate_is_as_its_gravest_rule(states, strict, state) -> None:
    rules = {"held": ">= 0.1", "undecided": ">= 0.5", "failed": ">= 0.9"}
    metrics = {f"rate/{k}": Metric(f"rate/{k}", 0.5, 0.4, 0.6) for k in range(len(states))}
    config = GateConfig.model_validate({f"rate/{k}": rules[name] for k, name in enumerate(states)})
    gate = Gate(tuple(judge_metrics(config, metrics)), strict=strict)
    assert gate.state == state
    told = gate.json()
    assert (told["state"], told["undecided"]) == (state, "fail" if strict else "pass")
    assert [rule["state"] for rule in told["rules"]] == states


def test_a_third_partys_rows_come_first_and_a_rule_that_fails_is_its_own_error(
    monkeypatch, configure, make_case, passes
) -> None:
    def fail(*_: object) -> list[Metric]:
        raise ZeroDivisionError("nothing to divide by")

    def refuse(*_: object) -> list[Metric]:
        raise ConfigError("is refused")

    row = MetricSpec("theirs/score", "Score", "Their score.")
    theirs = SimpleNamespace(title="Theirs", metrics=(row,), cluster=None, statistics=fail)
    for module in (catalog, run_metrics):
        monkeypatch.setattr(module, "find_benchmark", lambda _: theirs)
    monkeypatch.setattr("evalkit.scoring.stats.clusters.find_benchmark", lambda _: theirs)
    found = catalog_of("theirs")
    assert (found.rows[0].name, found.rows[0].benchmark) == ("theirs/score", "Theirs")
    assert found.rows[1:] == CATALOG.rows
    assert catalog_of(None) is CATALOG
    config = configure(dataset={"benchmark": "theirs", "path": "x.jsonl"})
    with pytest.raises(PluginError, match="the rule of 'theirs' fails: ZeroDivisionError: nothing to divide by"):
        score_run(config, [make_case("c", label="A")], passes("c", 1.0, 1.0))
    theirs.statistics = refuse
    with pytest.raises(ConfigError, match="is refused"):
        score_run(config, [make_case("c", label="A")], passes("c", 1.0, 1.0))


def test_a_catalog_says_what_its_rows_say() -> None:
    assert CATALOG.chance("position/first_rate") == 0.5
    assert CATALOG.chance("nothing") is None
    assert CATALOG.spec("agreement/kappa").is_coefficient  # type: ignore[union-attr]
    assert not CATALOG.spec("tie_rate").is_coefficient  # type: ignore[union-attr]
    assert CATALOG.main(["tie_rate", "agreement/accuracy", "nothing"], 1) == ["tie_rate"]


def test_a_metric_of_a_criterion_needs_that_criterion(configure) -> None:
    named = [row.name for row in CATALOG.rows if row.placeholders == ("criterion",)]
    assert named
    for name in named:
        for criterion, expected in (("quality", True), ("absent", False)):
            match = CATALOG.find(name.replace("{criterion}", criterion))
            assert match is not None
            assert fits(match, configure(), lambda: []) is expected


def test_a_column_for_clusters_that_no_case_has() -> None:
    cases = [Case("c", "question", (Response("x"),), metadata={"topic": "history"})]
    for column in (None, "id", "prompt", "topic"):
        check_column(column, iter(cases))
    with pytest.raises(ConfigError, match="no case has this column; did you mean 'topic'"):
        check_column("topics", cases)


def test_correlations_without_different_grades_or_with_too_many_rows_have_no_bounds(monkeypatch) -> None:
    equal, none = np.ones(3), np.zeros(0)
    assert kendall_bounds(np.arange(3.0), equal, none, float("nan")) == (None, None)
    assert pearson_bounds(np.arange(3.0), equal, none, (0.0, 5.0)) == (None, None)
    monkeypatch.setattr(correlation, "LARGEST", 2)
    assert pearson_bounds(np.arange(3.0), np.arange(3.0), none, (0.0, 5.0)) == (None, None)


def test_clusters_are_told_only_where_there_are_any() -> None:
    assert Clusters.each(3).note() is None
    assert Clusters.by_key([1, 1, 2], "topic").note() is not None
