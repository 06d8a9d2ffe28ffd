"""Metrics that can stop a run: their sums by cluster, their sequences, and what depends on no other cluster."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit import load_config
from evalkit.config import RunConfig
from evalkit.scoring import score_run
from evalkit.scoring.pipeline import score_without_intervals, verdict_statistics
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.sequences import mean_sequence
from evalkit.scoring.stopping import NOTE, OTHERS, ClusterSums, can_stop, is_settled
from evalkit.types import Case, Judgment, Metric, Response

STOP = "runner.stop={metric: win_rate/a, width: 0.5, largest: 2}"
MODES: dict[str, list[str]] = {
    "pairs": ["swap=both"],
    "scores": ["mode=pointwise", "swap=none", "rubric=likert5"],
    "classes": ["mode=pointwise", "swap=none", "rubric=own", "rubric.classes={good: fine, bad: wrong}"],
}


@cache
def config(*words: str) -> RunConfig:
    return load_config(overrides=["judge=simulated/good", "scoring.bootstrap=20", "tracking=none", *words])


def judged(mode: str, count: int, seed: int) -> tuple[list[Case], list[Judgment]]:
    """Judge cases of two responses, two cases to a prompt; some judgments fail, and some cases have no label."""
    own = random.Random(seed)
    cases, judgments = [], []
    for n in range(count):
        label: Any = own.choice(["A", "B", None]) if mode == "pairs" else None
        name = {"class_name": own.choice(["good", "bad"])} if mode == "classes" else {}
        responses = (Response("one", **name), Response("another", **name))
        cases.append(Case(f"c{n}", f"question {n // 2}", responses, label=label))
        shapes = [(0, 1), (1, 0)] if mode == "pairs" else [(0,), (1,)]
        for shown in shapes:
            unit = (0, 1) if mode == "pairs" else shown
            value = own.choice([-1.0, 0.0, 1.0]) if mode == "pairs" else float(own.randint(1, 5))
            given: dict[str, Any] = {"value": value}
            if mode == "scores":
                given = {"criteria": dict.fromkeys(config().criteria, value)}
            if mode == "classes":
                given = {"class_name": own.choice(["good", "bad"])}
            failed = own.random() < 0.15
            status: Any = "failed" if failed else "ok"
            judgments.append(Judgment(f"c{n}", unit, shown, 0, "good", status, **({} if failed else given)))
    return cases, judgments


@settings(max_examples=5)
@given(st.sampled_from([*MODES]), st.integers(0, 99))
def test_the_values_of_a_cluster_depend_on_no_other_cluster(mode: str, seed: int) -> None:
    made = config(*MODES[mode])
    cases, judgments = judged(mode, 8, seed)
    whole = score_without_intervals(made, cases, judgments)
    able = [one for one in whole.found if isinstance(one, Statistic) and can_stop(one)]
    assert {one.name for one in able} >= {"tie_rate", "win_rate/a"} or mode == "classes"
    sums = {one.name: ClusterSums.of(one, whole.clusters) for one in able}
    for place in range(whole.clusters.count):
        some = [case for k, case in enumerate(cases) if k // 2 == place]
        ids = {case.id for case in some}
        alone = Clusters(2, 1, np.zeros(2, dtype=np.int64))
        its = [one for one in judgments if one.case_id in ids]
        part = {one.name: one for one in verdict_statistics(made, some, its, alone)}
        for metric, whole_sums in sums.items():
            statistic = part[metric]
            assert isinstance(statistic, Statistic)
            own = ClusterSums.of(statistic, alone)
            for name in ("least", "most", "counts"):
                assert getattr(own, name)[0] == pytest.approx(getattr(whole_sums, name)[place]), metric


def test_a_run_that_stops_has_sequences_for_what_can_stop_it() -> None:
    cases, judgments = judged("pairs", 40, 1)
    plain = score_run(config(), cases, judgments)
    made = config(STOP)
    found = score_run(made, cases, judgments)
    metric, before = found.metrics["win_rate/a"], plain.metrics["win_rate/a"]
    assert [metric.value, metric.n, metric.missing] == [before.value, before.n, before.missing]
    assert metric.note == NOTE
    wins = {(v.case_id): float(v.winner == "A") if v.winner else None for v in found.verdicts}
    least = np.array([sum(wins[f"c{2 * k + i}"] or 0.0 for i in (0, 1)) for k in range(20)])
    unread = np.array([sum(wins[f"c{2 * k + i}"] is None for i in (0, 1)) for k in range(20)], dtype=float)
    assert unread.sum() > 0
    expected = mean_sequence(least, np.full(20, 2.0), most=least + unread, largest=2)
    assert (metric.low, metric.high) == pytest.approx(expected)
    assert found.metrics["agreement/kappa"] == plain.metrics["agreement/kappa"]
    assert found.details["sequence"]["points"][-1] == {"clusters": 20, "low": metric.low, "high": metric.high}
    assert [OTHERS in one.notes for one in (plain, found)] == [False, True]
    assert "sequence" not in plain.details
    # Without the largest cluster, nothing is known before the first look.
    unset = score_run(config("runner.stop={metric: win_rate/a, width: 0.5}"), cases, judgments)
    assert unset.metrics["win_rate/a"] == before


def test_a_metric_without_a_value_has_no_sequence() -> None:
    cases, judgments = judged("pairs", 6, 2)
    made = config("runner.stop={metric: agreement/accuracy, width: 0.5, largest: 2}")
    unlabeled = [Case(case.id, case.prompt, case.responses) for case in cases]
    found = score_run(made, unlabeled, judgments)
    assert found.metrics["agreement/accuracy"].low is None
    assert "sequence" not in found.details
    assert found.metrics["win_rate/a"].note == NOTE


def test_what_cannot_stop_a_run() -> None:
    some = np.ones(4, dtype=bool)
    rate = Tally.each(4).rate("win_rate/a", some, some, ~some)
    assert can_stop(rate)
    for other in (
        Metric("win_rate/a", 0.5),
        Tally.each(4).rate("win_rate/a", some, some),
        Tally.each(4).rate("conflict/rate", some, some, ~some),
        Tally.each(4).rate("nonsense", some, some, ~some),
        Statistic("win_rate/a", rate.columns, rate.value, 4, unread=rate.unread, weights=np.ones(4)),
    ):
        assert not can_stop(other)


def test_settled_is_what_the_interval_says() -> None:
    made = config(STOP)
    metric = Metric("win_rate/a", 0.5, 0.25, 0.75)
    assert is_settled(made, {"win_rate/a": metric})
    assert not is_settled(made, {"win_rate/a": Metric("win_rate/a", 0.5, 0.25, 0.76)})
    assert not is_settled(made, {"win_rate/a": Metric("win_rate/a", None)})
    assert not is_settled(made, {})
    assert not is_settled(config(), {"win_rate/a": metric})


def test_sums_of_later_clusters_are_added() -> None:
    one, other = (
        ClusterSums(np.array(least), np.array(most), np.ones(len(least)), (0.0, 1.0))
        for least, most in (([0.0, 1.0], [1.0, 1.0]), ([1.0], [1.0]))
    )
    both = one.joined(other)
    assert [*both.least, *both.most, *both.counts] == [0, 1, 1, 1, 1, 1, 1, 1, 1]
    assert both.interval(3, 1, 0.95) == mean_sequence(both.least, most=both.most)
    assert both.interval(1, 1, 0.95) == (0.0, 1.0)
