"""Metrics that can stop a run, and their intervals that hold at every look: a slow version, and simulations."""

import random
from functools import cache
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import load_config
from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.scoring.pipeline import score_run, score_without_intervals, verdict_statistics
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.sequences import clusters_needed, mean_sequence, width_of
from evalkit.scoring.stats.statistic import Statistic, Tally
from evalkit.scoring.stopping import NOTE, OTHERS, ClusterSums, can_stop, is_settled
from tests.support.thorough import examples

STOP = "runner.stop={metric: win_rate/a, width: 0.5, largest: 2}"
MODES: dict[str, list[str]] = {
    "pairs": ["swap=both"],
    "scores": ["mode=pointwise", "swap=none", "rubric=likert5"],
    "classes": ["mode=pointwise", "swap=none", "rubric=own",
                "rubric.classes={good: fine, bad: wrong}"],
}  # fmt: skip


@cache
def config(*words: str) -> RunConfig:
    return load_config(
        overrides=["judge=simulated/good", "scoring.bootstrap=20", "tracking=none", *words]
    )


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
            judgments.append(
                Judgment(f"c{n}", unit, shown, 0, "good", status, **({} if failed else given))
            )
    return cases, judgments


@pytest.mark.slow
@examples(3)
@given(st.sampled_from([*MODES]), st.integers(0, 99))
def test_the_values_of_a_cluster_depend_on_no_other_cluster(mode, seed):
    made = config(*MODES[mode])
    cases, judgments = judged(mode, 8, seed)
    whole = score_without_intervals(made, cases, judgments)
    able = [one for one in whole.measures if isinstance(one, Statistic) and can_stop(one)]
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
                assert getattr(own, name)[0] == pytest.approx(getattr(whole_sums, name)[place]), (
                    metric
                )


@pytest.mark.slow
def test_a_run_that_stops_has_sequences_for_what_can_stop_it():
    cases, judgments = judged("pairs", 40, 1)
    plain = score_run(config(), cases, judgments)
    made = config(STOP)
    found = score_run(made, cases, judgments)
    metric, before = found.metrics["win_rate/a"], plain.metrics["win_rate/a"]
    assert [metric.value, metric.n, metric.missing] == [before.value, before.n, before.missing]
    assert metric.note == NOTE
    wins = {(v.case_id): float(v.winner == "A") if v.winner else None for v in found.verdicts}
    least = np.array([sum(wins[f"c{2 * k + i}"] or 0.0 for i in (0, 1)) for k in range(20)])
    unread = np.array(
        [sum(wins[f"c{2 * k + i}"] is None for i in (0, 1)) for k in range(20)], dtype=float
    )
    assert unread.sum() > 0
    expected = mean_sequence(least, np.full(20, 2.0), most=least + unread, largest=2)
    assert (metric.low, metric.high) == pytest.approx(expected)
    assert found.metrics["agreement/kappa"] == plain.metrics["agreement/kappa"]
    assert found.details["sequence"]["points"][-1] == {
        "clusters": 20,
        "low": metric.low,
        "high": metric.high,
    }
    assert [OTHERS in one.notes for one in (plain, found)] == [False, True]
    assert "sequence" not in plain.details
    # Without the largest cluster, nothing is known before the first look.
    unset = score_run(config("runner.stop={metric: win_rate/a, width: 0.5}"), cases, judgments)
    assert unset.metrics["win_rate/a"] == before


def test_a_metric_without_a_value_has_no_sequence():
    cases, judgments = judged("pairs", 6, 2)
    made = config("runner.stop={metric: agreement/accuracy, width: 0.5, largest: 2}")
    unlabeled = [Case(case.id, case.prompt, case.responses) for case in cases]
    found = score_run(made, unlabeled, judgments)
    assert found.metrics["agreement/accuracy"].low is None
    assert "sequence" not in found.details
    assert found.metrics["win_rate/a"].note == NOTE


def test_what_cannot_stop_a_run():
    some = np.ones(4, dtype=bool)
    rate = Tally.each(4).rate("win_rate/a", some, some, ~some)
    assert can_stop(rate)
    for other in (
        Metric("win_rate/a", 0.5),
        Tally.each(4).rate("win_rate/a", some, some),
        Tally.each(4).rate("conflict/rate", some, some, ~some),
        Tally.each(4).rate("nonsense", some, some, ~some),
        Statistic(
            "win_rate/a", rate.columns, rate.value, 4, unread=rate.unread, weights=np.ones(4)
        ),
    ):
        assert not can_stop(other)


def test_settled_is_what_the_interval_says():
    made = config(STOP)
    metric = Metric("win_rate/a", 0.5, 0.25, 0.75)
    assert is_settled(made, {"win_rate/a": metric})
    assert not is_settled(made, {"win_rate/a": Metric("win_rate/a", 0.5, 0.25, 0.76)})
    assert not is_settled(made, {"win_rate/a": Metric("win_rate/a", None)})
    assert not is_settled(made, {})
    assert not is_settled(config(), {"win_rate/a": metric})


def test_sums_of_later_clusters_are_added():
    one, other = (
        ClusterSums(np.array(least), np.array(most), np.ones(len(least)), (0.0, 1.0))
        for least, most in (([0.0, 1.0], [1.0, 1.0]), ([1.0], [1.0]))
    )
    both = one.joined(other)
    assert [*both.least, *both.most, *both.counts] == [0, 1, 1, 1, 1, 1, 1, 1, 1]
    assert both.interval(3, 1, 0.95) == mean_sequence(both.least, most=both.most)
    assert both.interval(1, 1, 0.95) == (0.0, 1.0)


LIMIT = log(20)


def halves(sums, counts, mean, *, ends=(0, 1), largest=1, steps=20_000):
    """Return (2, clusters): the log capital that bets on values above and below `mean`, by its definition.

    The bets are integrated over their density by many steps.
    """
    counts = np.ones(len(sums)) if counts is None else np.asarray(counts, dtype=float)
    shares, size = (
        (np.asarray(sums) - ends[0] * counts) / (ends[1] - ends[0]),
        np.asarray(counts) / largest,
    )
    m = (mean - ends[0]) / (ends[1] - ends[0])
    gain = shares / largest - m * size
    bets = (np.arange(steps) + 0.5) / steps
    density = np.where(bets > 5e-4, 1.0, 0.0)
    narrow = density * np.exp(-((bets / 0.1) ** 2) / 2)
    weights = np.log(
        np.maximum(0.75 * narrow / narrow.sum() + 0.25 * density / density.sum(), 1e-300) / 2
    )
    up = np.cumsum(np.log1p(np.outer(bets / m, gain)), axis=1)
    down = np.cumsum(np.log1p(np.outer(-bets / (1 - m), gain)), axis=1)
    return np.stack([np.logaddexp.reduce(part + weights[:, None], axis=0) for part in (up, down)])


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1, 2, 4])), min_size=1, max_size=30),
    st.sampled_from([0.8, 0.95, 0.999]),
)
def test_the_interval_holds_the_means_against_which_no_bets_have_won(rows, confidence):
    counts = np.array([n for _, n in rows], dtype=float)
    sums = (np.array([share for share, _ in rows]) * 4 - 1) * counts
    low, high = mean_sequence(sums, counts, ends=(-1, 3), largest=4, confidence=confidence)
    limit, mean = -log(1 - confidence), sums.sum() / counts.sum()
    assert -1 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 3
    for bound, side, step in ((low, 0, 0.02), (high, 1, -0.02)):
        for value, wins in ((bound - step, True), (bound + step, False)):
            if -0.99 < value < 2.99 and (value - mean) * step < 0:
                won = halves(sums, counts, value, ends=(-1, 3), largest=4)[side, -1]
                assert won >= limit - 0.05 if wins else won < limit + 0.05
    order = slice(None, None, -1)
    again = mean_sequence(
        sums[order], counts[order], ends=(-1, 3), largest=4, confidence=confidence
    )
    assert again == pytest.approx((low, high))


@given(
    st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=200),
    st.randoms(use_true_random=False),
)
def test_missing_values_widen_the_interval_whatever_they_are(values, random):
    least, most = (np.array([end if one is None else one for one in values]) for end in (0.0, 1.0))
    low, high = mean_sequence(least, most=most)
    filled = np.array([random.random() if one is None else one for one in values])
    inside = mean_sequence(filled)
    assert low <= inside[0] + 1e-12
    assert inside[1] <= high + 1e-12
    assert (low, high) == (mean_sequence(least)[0], mean_sequence(most)[1])


def test_the_clusters_that_a_width_takes():
    assert [clusters_needed(width, 0.95) for width in (0.2, 0.1, 0.05)] == [245, 970, 4216]
    assert [clusters_needed(0.1, 0.95, share) for share in (0.0, 0.05, 0.2)] == [67, 231, 663]
    assert width_of(970, 0.95) <= 0.1 < width_of(968, 0.95)
    low, high = mean_sequence(np.zeros(67))
    assert high - low <= 0.1 < np.diff(mean_sequence(np.zeros(66)))[0]


SITUATIONS = {
    "shares of 0.5": lambda r, n: (r.integers(0, 2, n).astype(float), None, 0.5, (0, 1), 1),
    "rare": lambda r, n: ((r.random(n) < 0.03).astype(float), None, 0.03, (0, 1), 1),
    "with ties": lambda r, n: (r.choice([0, 0.5, 1], n, p=[0.2, 0.2, 0.6]), None, 0.7, (0, 1), 1),
    "differences": lambda r, n: (
        r.choice([-1, 0, 1], n, p=[0.05, 0.9, 0.05]).astype(float),
        None,
        0.0,
        (-1, 1),
        1,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_at_most_five_percent_of_runs_ever_miss_the_mean(name):
    generator = np.random.default_rng(7)
    ever = 0
    for _ in range(120):
        sums, counts, mean, ends, largest = SITUATIONS[name](generator, 400)
        ever += bool(
            (halves(sums, counts, mean, ends=ends, largest=largest, steps=150) >= LIMIT).any()
        )
    assert ever / 120 <= 0.05
    if name == "shares of 0.5":
        values = generator.integers(0, 2, (400, 400)).cumsum(axis=1)[:, 20:] / np.arange(21, 401)
        wald = np.abs(values - 0.5) > 1.96 * 0.5 / np.sqrt(np.arange(21, 401))
        assert wald.any(axis=1).mean() > 0.25


@pytest.mark.slow
def test_clusters_whose_size_and_share_depend_on_each_other():
    """Large clusters have lower shares: the mean is that of all values, not of the clusters' shares."""
    generator = np.random.default_rng(3)
    ever, widths = 0, []
    for _ in range(60):
        counts = generator.choice([1.0, 4.0], 300)
        sums = np.where(
            counts == 1, generator.random(300) < 0.9, generator.binomial(4, 0.3, 300)
        ).astype(float)
        mean = (0.9 + 4 * 0.3) / 5
        ever += bool((halves(sums, counts, mean, largest=4, steps=150) >= LIMIT).any())
        widths.append(mean_sequence(sums, counts, largest=4))
    assert ever / 60 <= 0.05
    assert all(low < sums.sum() / counts.sum() < high for low, high in widths[-1:])
    assert np.mean([high - low for low, high in widths]) < 0.25


def test_nothing_seen_and_only_extremes():
    assert mean_sequence(np.zeros(0)) == (0, 1)
    assert mean_sequence(np.zeros(2), np.zeros(2), ends=(-1, 1)) == (-1, 1)
    low, high = mean_sequence(np.zeros(100))
    assert low == 0
    assert 0.03 < high < 0.08
    assert mean_sequence(np.ones(100)) == pytest.approx((1 - high, 1))


@pytest.mark.parametrize(
    ("values", "counts"), [([1.1], None), ([-0.1], None), ([2.0], [3.0]), ([1.5], [1.0])]
)
def test_what_is_beyond_the_declared_bounds_is_refused(values, counts):
    with pytest.raises(ValueError, match="beyond its ends"):
        mean_sequence(
            np.array(values),
            None if counts is None else np.array(counts),
            largest=2 if counts else 1,
        )
