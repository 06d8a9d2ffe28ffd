"""The judge configurations of a sweep in order, held against scipy and statsmodels."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from evalkit.config import ScoringConfig
from evalkit.scoring import score_run
from evalkit.scoring.leaderboard import Contender, rank
from evalkit.types import Completion, Metric, Orders, Verdict

SETTINGS = ScoringConfig(bootstrap=400)


def contender(job, right, cost=None, dataset="d", by="agreement/accuracy"):
    """A job that was right, wrong or (None) silent on each case's one pair."""
    verdicts = [
        Verdict(f"c{k}", (0, 1), None if hit is None else "A" if hit else "B", None, "judged", label="A")
        for k, hit in enumerate(right)
    ]
    read = [hit for hit in right if hit is not None]
    metrics = {by: Metric(by, sum(read) / len(read) if read else None)}
    if cost is not None:
        metrics["cost/per_case"] = Metric("cost/per_case", cost)
    return Contender(job, f"name {job}", dataset, metrics, verdicts)


def hits(seed, rates, n=120):
    generator = np.random.default_rng(seed)
    return [(generator.random(n) < rate).tolist() for rate in rates]


def test_pairs_are_tested_by_mcnemar_and_adjusted_over_all_pairs_of_one_dataset():
    first, second = hits(1, (0.9, 0.7, 0.72)), hits(2, (0.8, 0.5), n=80)
    jobs = [contender(f"{k}", one) for k, one in enumerate(first)]
    jobs += [contender(f"{k + 3}", one, dataset="e") for k, one in enumerate(second)]
    board = rank(jobs, SETTINGS)
    expected = []
    for group in (first, second):
        for one, two in combinations(np.array(group), 2):
            only = (int((one & ~two).sum()), int((two & ~one).sum()))
            expected.append(float(mcnemar([[0, only[0]], [only[1], 0]], exact=sum(only) < 25).pvalue))
    assert [c.p for c in board.contrasts] == pytest.approx(expected)
    assert [c.p_holm for c in board.contrasts] == pytest.approx(multipletests(expected, method="holm")[1])
    assert [(c.first, c.second) for c in board.contrasts] == [("0", "1"), ("0", "2"), ("1", "2"), ("3", "4")]
    letters = {row.job: row.letters for row in board.rows}
    for contrast in board.contrasts:
        shared = set(letters[contrast.first]) & set(letters[contrast.second])
        assert bool(shared) == (contrast.p_holm > 0.05)


def test_the_best_come_first_within_each_dataset_and_ties_share_a_rank():
    jobs = [contender("0", [1, 0, 0, 1]), contender("1", [1, 1, 1, 0]), contender("2", [0, 1, 1, 0])]
    jobs += [contender("3", [0, 0, 0, 1], dataset="e"), contender("4", [None] * 4)]
    rows = rank(jobs, SETTINGS).rows
    assert [(row.job, row.rank) for row in rows] == [("1", 1), ("0", 2), ("2", 2), ("4", 4), ("3", 1)]
    assert [row.letters for row in rows] == ["a", "a", "a", None, "a"]


def test_the_front_is_of_those_that_nobody_beats_for_less():
    costs = {"0": 0.1, "1": 0.2, "2": 0.3, "3": 0.3, "4": None, "5": 0.1}
    right = {"0": [1, 0, 0, 0], "1": [1, 1, 0, 0], "2": [1, 1, 0, 0], "3": [1, 1, 1, 0], "4": [1, 1, 1, 1]}
    right["5"] = [0, 0, 0, 0]
    rows = rank([contender(job, right[job], cost) for job, cost in costs.items()], SETTINGS).rows
    assert {row.job: row.pareto for row in rows} == {"0": True, "1": True, "2": False, "3": True, "4": None, "5": False}


def test_missing_verdicts_are_in_neither_side_of_a_test():
    board = rank([contender("0", [1] * 10 + [None] * 10), contender("1", [0] * 5 + [None] * 5 + [0] * 10)], SETTINGS)
    assert board.contrasts[0].p == pytest.approx(float(stats.binomtest(5, 5).pvalue))


def test_without_labels_orders_that_agree_are_counted():
    def consistent(job, flags):
        verdicts = [
            Verdict(f"c{k}", (0, 1), "A", None, "judged", orders=Orders("A", "A" if flag else "B", flag))
            for k, flag in enumerate(flags)
        ]
        name = "position/consistency"
        return Contender(job, job, "d", {name: Metric(name, sum(flags) / len(flags))}, verdicts)

    board = rank([consistent("0", [True] * 12), consistent("1", [False] * 8 + [True] * 4)], SETTINGS)
    assert board.by == "position/consistency"
    assert board.contrasts[0].p == pytest.approx(float(stats.binomtest(8, 8).pvalue))


def test_grades_are_ranked_by_spearman_and_tested_by_the_paired_bootstrap():
    generator = np.random.default_rng(3)
    grades = generator.integers(1, 6, 60).astype(float)

    def scored(job, noise):
        scores = grades + generator.normal(scale=noise, size=60)
        pairs = zip(scores, grades, strict=True)
        verdicts = [Verdict(f"c{k}", (0,), None, float(s), "judged", label=float(g)) for k, (s, g) in enumerate(pairs)]
        name = "agreement/spearman"
        return Contender(job, job, "d", {name: Metric(name, float(stats.spearmanr(scores, grades)[0]))}, verdicts)

    close, far = (
        rank([scored("0", 0.5), scored("1", 5.0)], SETTINGS),
        rank([scored("0", 2.0), scored("1", 2.0)], SETTINGS),
    )
    assert close.by == "agreement/spearman"
    assert close.contrasts[0].p < 0.02 < far.contrasts[0].p
    assert [row.job for row in close.rows] == ["0", "1"]


def test_nothing_to_rank_by_keeps_the_jobs_in_order():
    board = rank([Contender(job, job, "d", {}, ()) for job in "ab"], SETTINGS)
    assert (board.by, board.contrasts) == (None, ())
    assert [row.job for row in board.rows] == ["a", "b"]


def answered(judged, case, cost, latency, key, **more):
    return judged(case, (0, 1), 1.0, completion=Completion("x", cost_usd=cost, latency=latency), keys=(key,), **more)


def test_a_case_costs_what_its_answers_cost_each_counted_once(configure, make_case, judged):
    cases = [make_case(name) for name in ("one", "two", "three")]
    judgments = [
        answered(judged, "one", 0.5, 2.0, "k1"),
        answered(judged, "one", 0.25, 1.0, "k2", swapped=True),
        answered(judged, "two", 0.1, 4.0, "k3"),
        answered(judged, "two", 0.1, 4.0, "k3", swapped=True),
        answered(judged, "three", 0.1, 4.0, "k4"),
        judged("three", (0, 1), swapped=True, status="failed", keys=("k5",)),
    ]
    metrics = score_run(configure(), cases, judgments).metrics
    cost, latency = metrics["cost/per_case"], metrics["latency/per_case"]
    assert (cost.value, cost.n, cost.missing) == (pytest.approx((0.75 + 0.1) / 2), 2, 1)
    assert (latency.value, latency.n) == (pytest.approx(3.5), 2)
    assert (cost.low, cost.high) == (pytest.approx(0.1), pytest.approx(0.75))


def test_an_unknown_price_is_no_price_of_0(configure, make_case, judged):
    config = configure(swap={"policy": "none"})
    metrics = score_run(config, [make_case("one")], [answered(judged, "one", None, 2.0, "k1")]).metrics
    assert metrics["cost/per_case"].value is None
    assert metrics["cost/per_case"].note == "no answer has a price"
    assert metrics["latency/per_case"].value == 2.0


def test_an_answer_that_two_cases_share_counts_for_each(configure, make_case, judged):
    config, cases = configure(swap={"policy": "none"}), [make_case("one"), make_case("two")]
    judgments = [answered(judged, name, 0.5, 2.0, "k") for name in ("one", "two")]
    cost = score_run(config, cases, judgments).metrics["cost/per_case"]
    assert (cost.value, cost.n, cost.missing) == (0.5, 2, 0)
