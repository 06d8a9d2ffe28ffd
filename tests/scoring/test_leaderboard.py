"""The judge configurations of a sweep in order, held against scipy and statsmodels."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from evalkit.config import ScoringConfig
from evalkit.core.types import Completion, Metric, Orders, Verdict
from evalkit.scoring.decision import KAPPA, USES, Decision, decide
from evalkit.scoring.leaderboard import (
    Choice,
    Contender,
    Contrast,
    Leaderboard,
    Standing,
    clearly_cheaper,
    rank,
)
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.selection import as_highest, use_as_highest

SETTINGS = ScoringConfig(bootstrap=400)


def contender(job, right, cost=None, dataset="d", by="agreement/accuracy"):
    """A job that was right, wrong or (None) silent on each case's one pair."""
    verdicts = [
        Verdict(
            f"c{k}", (0, 1), None if hit is None else "A" if hit else "B", None, "judged", label="A"
        )
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
            expected.append(
                float(mcnemar([[0, only[0]], [only[1], 0]], exact=sum(only) < 25).pvalue)
            )
    assert [c.p for c in board.contrasts] == pytest.approx(expected)
    assert [c.p_holm for c in board.contrasts] == pytest.approx(
        multipletests(expected, method="holm")[1]
    )
    assert [(c.first, c.second) for c in board.contrasts] == [
        ("0", "1"),
        ("0", "2"),
        ("1", "2"),
        ("3", "4"),
    ]
    letters = {row.job: row.letters for row in board.rows}
    for contrast in board.contrasts:
        shared = set(letters[contrast.first]) & set(letters[contrast.second])
        assert bool(shared) == (contrast.p_holm > 0.05)


def test_the_best_come_first_within_each_dataset_and_ties_share_a_rank():
    jobs = [
        contender("0", [1, 0, 0, 1]),
        contender("1", [1, 1, 1, 0]),
        contender("2", [0, 1, 1, 0]),
    ]
    jobs += [contender("3", [0, 0, 0, 1], dataset="e"), contender("4", [None] * 4)]
    rows = rank(jobs, SETTINGS).rows
    assert [(row.job, row.rank) for row in rows] == [
        ("1", 1),
        ("0", 2),
        ("2", 2),
        ("4", 4),
        ("3", 1),
    ]
    assert [row.letters for row in rows] == ["a", "a", "a", None, "a"]


def judge(job, shares, cost, n=400):
    """A job right on the first cases, by `shares` (from, to), whose accuracy has an interval."""
    right = [shares[0] <= k / n < shares[1] for k in range(n)]
    one = contender(job, right, cost)
    share = sum(right) / n
    low, high = max(0.0, share - 0.05), min(1.0, share + 0.05)
    metrics = {
        name: Metric(name, share, low, high, n)
        for name in ("agreement/accuracy", "agreement/accuracy_decided")
    }
    return Contender(job, one.name, "d", dict(one.metrics) | metrics, one.verdicts)


def fronts(*jobs):
    return {row.job: row.pareto for row in rank(jobs, SETTINGS).rows}


def test_the_front_leaves_out_only_what_is_shown_to_be_worse():
    best, cheap = judge("best", (0, 0.9), 0.3), judge("cheap", (0, 0.8), 0.1)
    assert fronts(best, cheap) == {"best": True, "cheap": True}
    assert fronts(best, cheap, judge("same for more", (0, 0.9), 0.4))["same for more"] is False
    assert fronts(best, cheap, judge("worse for more", (0, 0.7), 0.4))["worse for more"] is False
    assert fronts(best, cheap, judge("coin", (0.25, 0.75), 0.001))["coin"] is False, (
        "the cheapest, and at chance"
    )
    assert (
        fronts(judge("few", (0, 0.9), 0.3, 10), judge("few for more", (0, 0.9), 0.4, 10))[
            "few for more"
        ]
        is True
    )
    assert fronts(best, contender("free", [True] * 400)) == {"best": True, "free": None}


def test_ranks_have_intervals_that_hold_who_may_be_better():
    jobs = [judge("0", (0, 0.9), 0.3), judge("1", (0.05, 0.94), 0.1), judge("2", (0, 0.6), 0.1)]
    rows = {row.job: (row.rank, row.rank_low, row.rank_high) for row in rank(jobs, SETTINGS).rows}
    assert rows == {"0": (1, 1, 2), "1": (2, 1, 2), "2": (3, 3, 3)}


def test_few_cases_that_agree_do_not_show_non_inferiority():
    def behind(n):
        (row,) = rank([judge("0", (0, 0.9), 0.3, n), judge("1", (0, 0.9), 0.1, n)], SETTINGS).rows[
            1:
        ]
        assert row.behind.value == 0.0
        return row.behind.low, row.non_inferior

    assert behind(8) == (pytest.approx(-0.324, abs=1e-3), False)
    assert behind(400) == (pytest.approx(-0.0095, abs=1e-3), True)


def test_no_judge_at_chance_is_non_inferior():
    rows = rank([judge("0", (0, 0.52), 0.3), judge("1", (0, 0.51), 0.1)], SETTINGS).rows
    assert [(row.decision.reason, row.non_inferior) for row in rows] == [
        ("chance", None),
        ("chance", False),
    ]


def two_jobs(uses, p, cost, sound, letters="a"):
    """A leaderboard of two jobs with these decisions, of which the second costs `cost` of what the first does."""
    rows = [
        Standing(
            rank=place + 1,
            job=str(place),
            name=str(place),
            dataset="d",
            metrics={"cost/per_case": Metric("cost/per_case", (1.0, cost)[place])},
            decision=Decision(use, "undecided", "pair", labels_needed=70),
            letters=letters,
            non_inferior=(None, sound)[place],
        )
        for place, use in enumerate(uses)
    ]
    return Leaderboard(
        "agreement/accuracy", (), 0.95, tuple(rows), (Contrast("0", "1", 0.1, "test", p, p),)
    )


@pytest.mark.parametrize("uses", [*product(USES, USES)])
def test_a_choice_names_a_job_that_can_be_used_or_none(uses):
    for p, cost, sound, letters in product(
        (None, 0.01, 0.5), (1.0, 0.5), (True, False), ("a", None)
    ):
        [choice] = two_jobs(uses, p, cost, sound, letters).choices
        trusted = [place for place, use in enumerate(uses) if USES.index(use) > 1]
        if choice.job is not None:
            assert choice.job.decision.trusted
            assert int(choice.job.job) == trusted[choice.reason == "cheaper"]
            expected = {"only"} if len(trusted) == 1 else {"best"} if p == 0.01 else {"highest"}
            cheap = (
                len(trusted) == 2
                and cost == 0.5
                and sound
                and USES.index(uses[1]) >= USES.index(uses[0])
            )
            assert choice.reason in ({"cheaper"} if cheap else expected)
            other = 1 - trusted[0]
            may_be_better = USES.index(uses[other]) > 0 and (p != 0.01 or other == 0)
            assert [int(row.job) for row in choice.rivals] == [other] * may_be_better
        elif trusted:
            assert (choice.reason, letters, len(trusted)) == ("unranked", None, 2)
        else:
            assert choice.reason == ("undecided" if "unknown" in uses else "none")
            assert choice.top.decision.use == max(uses, key=USES.index)


def test_a_job_that_cannot_be_used_cannot_be_chosen():
    row = two_jobs(("none", "unknown"), None, 1.0, sound=False).rows[0]
    with pytest.raises(ValueError, match="job 0 is chosen, but its decision is none"):
        Choice("d", "best", row, row)


def test_the_difference_is_from_the_highest_job_that_can_be_used():
    """A job that always gives the most frequent label is right more often than a useful one, but is no reference."""
    jobs = [
        judge("always", (0, 0.9), 0.3),
        judge("useful", (0, 0.85), 0.3),
        judge("cheap", (0, 0.85), 0.1),
    ]
    constant = {"agreement/kappa": Metric("agreement/kappa", 0.0, -0.02, 0.02, 400)}
    jobs[0] = Contender("always", "always", "d", {**jobs[0].metrics, **constant}, jobs[0].verdicts)
    board = rank(jobs, SETTINGS)
    assert [(row.job, row.behind and row.behind.value) for row in board.rows] == [
        ("always", 0.05),
        ("useful", None),
        ("cheap", 0.0),
    ]
    assert (board.choices[0].job.job, board.choices[0].top.job) == ("cheap", "useful")


def test_pairs_of_one_case_do_not_count_as_cases_of_their_own():
    def job(name, wrong):
        verdicts = [
            Verdict(f"c{case}", (i, i + 1), "B" if case < wrong else "A", None, "judged", label="A")
            for case in range(20)
            for i in range(10)
        ]
        share = 1 - wrong / 20
        metrics = {
            key: Metric(key, share, 0.6, 1.0, 200)
            for key in ("agreement/accuracy", "agreement/accuracy_decided")
        }
        return Contender(name, name, "d", metrics, verdicts)

    (row,) = rank([job("0", 1), job("1", 2)], SETTINGS).rows[1:]
    assert row.behind.value == pytest.approx(-0.05)
    assert row.behind.low < -0.15, "20 cases, one of which differs, and not 200 pairs"
    (row,) = rank([job("0", 1), job("1", 2)], ScoringConfig(bootstrap=0)).rows[1:]
    assert row.behind.low < -0.15, "the interval over cases needs no resamples"


def test_missing_verdicts_are_in_neither_side_of_a_test():
    board = rank(
        [contender("0", [1] * 10 + [None] * 10), contender("1", [0] * 5 + [None] * 5 + [0] * 10)],
        SETTINGS,
    )
    assert board.contrasts[0].p == pytest.approx(float(stats.binomtest(5, 5).pvalue))


def test_without_labels_orders_that_agree_are_counted():
    def consistent(job, flags):
        verdicts = [
            Verdict(
                f"c{k}", (0, 1), "A", None, "judged", orders=Orders("A", "A" if flag else "B", flag)
            )
            for k, flag in enumerate(flags)
        ]
        name = "position/consistency"
        return Contender(job, job, "d", {name: Metric(name, sum(flags) / len(flags))}, verdicts)

    board = rank(
        [consistent("0", [True] * 12), consistent("1", [False] * 8 + [True] * 4)], SETTINGS
    )
    assert board.by == "position/consistency"
    assert board.contrasts[0].p == pytest.approx(float(stats.binomtest(8, 8).pvalue))


def test_grades_are_ranked_by_spearman_and_tested_by_the_paired_bootstrap():
    generator = np.random.default_rng(3)
    grades = generator.integers(1, 6, 60).astype(float)

    def scored(job, noise):
        scores = grades + generator.normal(scale=noise, size=60)
        pairs = zip(scores, grades, strict=True)
        verdicts = [
            Verdict(f"c{k}", (0,), None, float(s), "judged", label=float(g))
            for k, (s, g) in enumerate(pairs)
        ]
        name = "agreement/spearman"
        return Contender(
            job, job, "d", {name: Metric(name, float(stats.spearmanr(scores, grades)[0]))}, verdicts
        )

    close, far = (
        rank([scored("0", 0.5), scored("1", 5.0)], SETTINGS),
        rank([scored("0", 2.0), scored("1", 2.0)], SETTINGS),
    )
    assert close.by == "agreement/spearman"
    assert close.contrasts[0].p < 0.02 < far.contrasts[0].p
    assert [row.job for row in close.rows] == ["0", "1"]


def classifier(job, answers, labels, accuracy=True):
    """A job that answers each case's one response with a class."""
    verdicts = [
        Verdict(f"c{k}", (0,), None, None, "judged", label=label, class_name=answer)
        for k, (answer, label) in enumerate(zip(answers, labels, strict=True))
    ]
    read = [(a, b) for a, b in zip(answers, labels, strict=True) if a is not None]
    kappa = cohen_kappa_score(*zip(*read, strict=True)) if len({*labels}) > 1 and read else None
    clear = None if kappa is None or np.isnan(kappa) else (float(kappa), kappa - 0.1, kappa + 0.1)
    metrics = {
        "agreement/kappa": Metric("agreement/kappa", *(clear or [None])),
        "class/balanced_accuracy": Metric("class/balanced_accuracy", 0.5),
    }
    if accuracy:
        metrics["agreement/accuracy"] = Metric(
            "agreement/accuracy", np.mean([a == b for a, b in read]) if read else None, n=len(read)
        )
    return Contender(job, f"name {job}", "d", metrics, verdicts)


@pytest.mark.slow
def test_classes_are_ranked_by_kappa_and_tested_by_its_paired_bootstrap():
    generator = np.random.default_rng(3)
    labels = ["fail" if draw < 0.1 else "pass" for draw in generator.random(300)]
    flip = {"pass": "fail", "fail": "pass"}
    good = [
        label if draw > 0.12 else flip[label]
        for label, draw in zip(labels, generator.random(300), strict=True)
    ]
    better = [
        label if draw > 0.06 else flip[label]
        for label, draw in zip(labels, generator.random(300), strict=True)
    ]
    jobs = [
        classifier("constant", ["pass"] * 300, labels),
        classifier("good", good, labels),
        classifier("better", better, labels),
        classifier("silent", [None] * 300, labels),
    ]
    board = rank(jobs, SETTINGS)
    accuracy = {one.job: one.metrics["agreement/accuracy"].value for one in jobs}
    assert accuracy["constant"] > accuracy["good"]
    assert board.by == "agreement/kappa"
    assert [row.job for row in board.rows] == ["better", "good", "constant", "silent"]
    assert [row.decision.trusted for row in board.rows] == [True, True, False, False]
    assert (board.choices[0].reason, board.choices[0].top.job) == ("highest", "better")
    assert {one.test for one in board.contrasts} == {"paired bootstrap"}
    row = next(row for row in board.rows if row.job == "good")
    values = {one.job: one.metrics["agreement/kappa"].value for one in board.rows}
    assert row.behind.value == pytest.approx(values["good"] - values["better"], abs=1e-6)
    assert row.behind.low < row.behind.value < row.behind.high
    # The bootstrap, slowly: kappa of each resample by scikit-learn.
    chosen = generator.integers(0, 300, (200, 300))
    given = [np.array(one) == "pass" for one in (good, better, labels)]
    draws = [
        cohen_kappa_score(given[0][k], given[2][k]) - cohen_kappa_score(given[1][k], given[2][k])
        for k in chosen
    ]
    assert row.behind.low == pytest.approx(np.quantile(draws, 0.025 / 2), abs=0.08)
    assert row.behind.high == pytest.approx(np.quantile(draws, 1 - 0.025 / 2), abs=0.08)


def test_classes_without_a_kappa_are_ranked_by_accuracy_and_one_without_it_comes_last():
    alike = [classifier("0", ["a", "b"] * 9, ["a"] * 18), classifier("1", ["a"] * 18, ["a"] * 18)]
    assert rank(alike, SETTINGS).by == "agreement/accuracy"
    varied = [
        classifier("0", ["a"] * 18, ["a"] * 18),
        classifier("1", ["a", "b"] * 9, ["a", "b"] * 9),
    ]
    assert [row.job for row in rank(varied, SETTINGS).rows] == ["1", "0"]


def test_jobs_with_the_same_scores_have_no_difference_but_an_interval():
    verdicts = [
        Verdict(f"c{k}", (0,), None, float(k % 4), "judged", label=float(k % 3)) for k in range(12)
    ]
    metrics = {"agreement/spearman": Metric("agreement/spearman", 0.3)}
    board = rank([Contender(job, job, "d", metrics, verdicts) for job in "ab"], SETTINGS)
    behind = board.rows[1].behind
    far = 2 * (
        1 - 0.025 ** (1 / 12)
    )  # a share of the cases at the ends of the range of a difference
    assert (behind.value, behind.low, behind.high) == (0.0, pytest.approx(-far), pytest.approx(far))
    assert behind.note == "the same in every resample: exact bound on how many of 12 cases differ"
    assert (board.contrasts[0].p, board.contrasts[0].test) == (
        None,
        "the runs do not differ in any resample",
    )


def test_verdicts_on_single_responses_are_not_counted_as_pairs():
    def ranked(job, right):
        one = contender(job, right)
        singles = [
            Verdict(f"c{k}", (i,), None, 1.0, "judged") for k in range(len(right)) for i in (0, 1)
        ]
        return Contender(job, job, "d", one.metrics, [*one.verdicts, *singles])

    first, second = hits(4, (0.9, 0.6))
    with_singles = rank([ranked("0", first), ranked("1", second)], SETTINGS)
    assert (
        with_singles.contrasts[0].p
        == rank([contender("0", first), contender("1", second)], SETTINGS).contrasts[0].p
    )


def test_nothing_to_rank_by_keeps_the_jobs_in_order():
    board = rank([Contender(job, job, "d", {}, ()) for job in "ab"], SETTINGS)
    assert (board.by, board.contrasts) == (None, ())
    assert [row.job for row in board.rows] == ["a", "b"]


def test_the_columns_begin_with_what_ranks_and_leave_out_what_never_differs():
    jobs = [contender("0", [1, 1], 1.0), contender("1", [1, 0], 1.0)]
    assert rank(jobs, SETTINGS).main_columns() == ["agreement/accuracy"]
    jobs[1] = contender("1", [1, 0], 2.0)
    assert rank(jobs, SETTINGS).main_columns() == ["agreement/accuracy", "cost/per_case"]
    assert rank(jobs[:1], SETTINGS).main_columns() == ["agreement/accuracy", "cost/per_case"]


def test_jobs_without_a_pair_in_common_have_no_difference():
    board = rank([contender("0", [1, None]), contender("1", [None, 1])], SETTINGS)
    behind = [row.behind for row in board.rows if row.behind is not None]
    assert [(one.value, one.note) for one in behind] == [(None, "no pair was read in both")]


@pytest.mark.parametrize(("one", "other", "cheaper"), [
    (None, Metric("c", 1.0), False),
    (Metric("c", None), Metric("c", 1.0), False),
    (Metric("c", 0.1), Metric("c", 1.0), True),
    (Metric("c", 0.1, 0.05, 1.1), Metric("c", 1.0, 0.9, 1.1), False),
    (Metric("c", 0.1, 0.05, 0.2), Metric("c", 1.0, 0.9, 1.1), True),
    (Metric("c", 1.0), Metric("c", 1.0), False),
])  # fmt: skip
def test_a_lower_cost_has_to_be_shown(one, other, cheaper):
    assert clearly_cheaper(one, other) is cheaper


def answered(judged, case, cost, latency, key, **more):
    return judged(
        case,
        (0, 1),
        1.0,
        completion=Completion("x", cost_usd=cost, latency=latency),
        keys=(key,),
        **more,
    )


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
    assert cost.low == 0
    assert cost.high >= 0.75


def test_an_unknown_price_is_no_price_of_0(configure, make_case, judged):
    config = configure(swap={"policy": "none"})
    metrics = score_run(
        config, [make_case("one")], [answered(judged, "one", None, 2.0, "k1")]
    ).metrics
    assert metrics["cost/per_case"].value is None
    assert metrics["cost/per_case"].note == "no answer has a price"
    assert metrics["latency/per_case"].value == 2.0


def test_an_answer_that_two_cases_share_counts_for_each(configure, make_case, judged):
    config, cases = configure(swap={"policy": "none"}), [make_case("one"), make_case("two")]
    judgments = [answered(judged, name, 0.5, 2.0, "k") for name in ("one", "two")]
    cost = score_run(config, cases, judgments).metrics["cost/per_case"]
    assert (cost.value, cost.n, cost.missing) == (0.5, 2, 0)


def fisher_interval(value, n, errors):
    half = stats.norm.isf(errors) / np.sqrt(n - 3)
    return float(np.tanh(np.arctanh(value) - half)), float(np.tanh(np.arctanh(value) + half))


@given(value=st.floats(-0.99, 0.99), n=st.integers(10, 5000), count=st.integers(1, 200))
def test_the_highest_of_many_has_the_interval_of_a_smaller_share_of_errors(value, n, count):
    # Fisher's interval of a correlation, with these errors at each end.
    plain = fisher_interval(value, n, 0.025)
    expected = fisher_interval(value, n, 0.05 / max(count, 2))
    metric = Metric("agreement/spearman", value, *plain, n)
    highest = as_highest(metric, count, 0.95)
    assert (highest.low, highest.high) == pytest.approx(expected, abs=1e-6)


def test_the_highest_of_many_holds_its_value():
    generator = np.random.default_rng(4)
    n = 200
    held = {"plain": 0, "highest": 0}
    for _ in range(600):
        z = np.arctanh(0.6) + generator.normal(0, 1 / np.sqrt(n - 3), 20).max()
        value = float(np.tanh(z))
        plain = Metric("agreement/spearman", value, *fisher_interval(value, n, 0.025), n)
        highest = as_highest(plain, 20, 0.95)
        held["plain"] += plain.low <= 0.6 <= plain.high
        held["highest"] += highest.low <= 0.6 <= highest.high
    assert held["plain"] < 0.7 * 600
    assert 0.93 * 600 <= held["highest"] <= 0.98 * 600


@pytest.mark.parametrize(("value", "lean", "count", "use"), [
    (0.7, 0.03, 2, "single"),
    (0.7, 0.03, 5, "single"),
    (0.7, 0.03, 20, "rates"),
    # its lean may reach the margin of 0.05
    (0.75, 0.045, 20, "rates_corrected"),
    (0.34, 0.03, 2, "rates"),
    (0.34, 0.03, 20, "unknown"),
    (0.9, 0.06, 20, "rates_corrected"),
])  # fmt: skip
def test_the_highest_of_many_is_decided_by_its_interval(value, lean, count, use):
    rest = Metric("position/consistency", 0.9, 0.87, 0.93, 200)
    low, high = fisher_interval(value, 200, 0.025)
    half = Metric("decision/label_rate/a", 0.5, 0.45, 0.55, 200)
    of_lean = Metric("decision/lean/a", 0.0, -lean, lean, 200)
    right = Metric("agreement/accuracy", (1 + value) / 2, 0.5, 0.9, 200)
    plain = {
        metric.name: metric
        for metric in (rest, half, of_lean, right, Metric(KAPPA, value, low, high, 200))
    }
    errors = 0.05 / max(count, 2)
    far = lean * stats.norm.isf(errors) / stats.norm.isf(0.025)
    wide = Metric(KAPPA, value, *fisher_interval(value, 200, errors), 200)
    expected = decide(
        plain | {KAPPA: wide, of_lean.name: replace(of_lean, low=-far, high=far)}, 0.95
    )
    assert use_as_highest(plain, decide(plain, 0.95), count, 0.95) == expected.use == use


@pytest.mark.parametrize("use", ["none", "unknown", "order", "rates"])
@pytest.mark.parametrize("others", ["none", "rates"])
def test_the_highest_is_chosen_if_luck_leaves_it_a_use(use, others):
    board = two_jobs(("rates", others), 0.5, 1.0, sound=False)
    first = replace(board.rows[0], use_as_highest=use)
    [choice] = replace(board, rows=(first, board.rows[1])).choices
    assert choice.top.job == "0"
    if use in ("none", "unknown"):
        assert (choice.reason, choice.job) == ("luck", None)
    else:
        assert choice.job is choice.top


def test_the_interval_of_a_perfect_highest_is_within_its_range():
    perfect = as_highest(Metric("agreement/kappa", 1.0, 0.7, 1.0, 20), 20, 0.95)
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low < 0.7
    near = as_highest(Metric("agreement/accuracy", 0.95, 0.9, 1.0, 200), 20, 0.95)
    assert near.high == 1.0
    unknown = Metric("agreement/kappa", 0.5)
    assert as_highest(unknown, 20, 0.95) == unknown
