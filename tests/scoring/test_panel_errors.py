"""Errors that judges of a panel share, and the best judges for the money, against brute force; findings on both."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import RunConfig
from evalkit.core.annotations import INCLUSION
from evalkit.core.types import Case, Judgment
from evalkit.report.findings import findings
from evalkit.report.findings.finding import RunFacts
from evalkit.report.findings.panels import panel_findings
from evalkit.scoring.metrics.panels import (
    ALIKE,
    DISAGREEMENT,
    ERRORS,
    NO_LABEL,
    NO_OTHERS,
    UNREAD,
    VOTES,
)
from evalkit.scoring.metrics.subsets import ACCURACY, LEAD, TOO_FEW, TOO_MANY
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.clusters import Clusters
from tests.support.panels import PAIR, panel_of
from tests.support.thorough import examples


def run_of(*panel, **settings):
    return score_run(*panel_of(*panel, **settings))


def obvious(pairs):
    """The mean covariance of the errors of two judges over the mean variance, for each pair of judges."""
    covariances, variances = [], []
    for one, two in pairs:
        both = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and b is not None]
        if both:
            table = np.cov(np.array(both, dtype=float).T, bias=True)
            covariances.append(table[0, 1])
            variances.append((table[0, 0] + table[1, 1]) / 2)
    return (
        np.mean(covariances) / np.mean(variances)
        if variances and np.mean(variances) > 1e-12
        else None
    )


def differs(votes, truth):
    return [None if None in (v, x) else v != x for v, x in zip(votes, truth, strict=True)]


WINNERS = st.sampled_from(["A", "TIE", "B", None])


@pytest.mark.slow
@examples(10)
@given(
    st.integers(2, 4).flatmap(
        lambda k: st.lists(st.tuples(*[WINNERS] * (k + 1)), min_size=2, max_size=8)
    )
)
@pytest.mark.parametrize("mode", ["pairwise", "classes"])
def test_the_correlation_is_that_of_the_errors(mode, rows):
    labels, *votes = zip(*rows, strict=True)
    metrics = run_of(votes, labels, mode, scoring={"bootstrap": 0}).metrics
    wrong = [differs(row, labels) for row in votes]
    expected, k = obvious(combinations(wrong, 2)), len(votes)
    if expected is None:
        assert metrics[ERRORS].value is None
        assert metrics[VOTES].note in (ALIKE, NO_LABEL, UNREAD)
        return
    assert metrics[ERRORS].value == pytest.approx(expected)
    assert metrics[VOTES].value == pytest.approx(k / (1 + (k - 1) * max(0.0, expected)))
    read = [sum(one[n] is not None for one in wrong) > 1 for n in range(len(labels))]
    assert (metrics[ERRORS].n, metrics[VOTES].n) == (sum(read), sum(read))


@pytest.mark.slow
@examples(10)
@given(st.lists(st.tuples(*[WINNERS] * 3), min_size=2, max_size=8))
def test_disagreement_is_with_the_vote_of_the_others(rows):
    votes = list(zip(*rows, strict=True))
    pairs = [[differs(votes[k], votes[third]) for k in {0, 1, 2} - {third}] for third in range(3)]
    expected = obvious(pairs)
    metric = run_of(votes, ["A"] * len(rows), scoring={"bootstrap": 0}).metrics[DISAGREEMENT]
    assert metric.value == (None if expected is None else pytest.approx(expected))


def test_four_judges_are_compared_with_the_most_frequent_vote_of_the_other_two():
    votes = [["A", "B", "A", "B"], ["A", "A", "B", "A"], ["A", "A", "A", "A"], ["A", "A", "A", "B"]]
    pairs = []
    for k, j in combinations(range(4), 2):
        others = [votes[i] for i in range(4) if i not in (k, j)]
        most = [a if a == b else None for a, b in zip(*others, strict=True)]
        pairs.append((differs(votes[k], most), differs(votes[j], most)))
    assert run_of(votes, [None] * 4).metrics[DISAGREEMENT].value == pytest.approx(obvious(pairs))


def test_the_error_of_a_score_is_its_difference_from_the_grade():
    g = np.random.default_rng(3)
    grades = g.integers(1, 6, 60).astype(float)
    scores = np.clip(grades + g.integers(-1, 2, (3, 60)), 1, 5)
    metrics = run_of(scores.tolist(), grades.tolist(), "scores").metrics
    assert metrics[ERRORS].value == pytest.approx(obvious(combinations(scores - grades, 2)))
    assert metrics[ERRORS].low < metrics[ERRORS].value < metrics[ERRORS].high
    means = [np.delete(scores, pair, axis=0).mean(axis=0) for pair in combinations(range(3), 2)]
    apart = [
        (scores[i] - mean, scores[j] - mean)
        for (i, j), mean in zip(combinations(range(3), 2), means, strict=True)
    ]
    assert metrics[DISAGREEMENT].value == pytest.approx(obvious(apart))
    off = run_of(scores.tolist(), (grades + 10).tolist(), "scores").metrics
    assert (off[ERRORS].value, off[ERRORS].note) == (
        None,
        "grades are not on the judge's scale, 1-5",
    )


def test_scores_without_grades_err_in_the_pairs_that_they_imply():
    judges = [{"name": f"j{k}", "model": "m"} for k in range(2)]
    sections = {
        "mode": {"name": "pointwise"},
        "swap": {"policy": "none"},
        "criteria": [{"name": "quality"}],
    }
    config = RunConfig(judge={"judges": judges}, scoring={"bootstrap": 0}, **sections)
    g = np.random.default_rng(5)
    labels, cases, judgments = labels_of(40), [], []
    wrong = g.random((2, 40)) < 0.4
    for n, label in enumerate(labels):
        cases.append(Case(f"c{n}", f"q{n}", PAIR, label=label))
        for k in range(2):
            first = (label == "A") != wrong[k, n]
            judgments += [
                Judgment(f"c{n}", (i,), (i,), 0, f"j{k}", "ok", 5.0 if (i == 0) == first else 1.0)
                for i in (0, 1)
            ]
    metrics = score_run(config, cases, judgments).metrics
    assert metrics[ERRORS].value == pytest.approx(obvious([wrong.astype(float)]))


def labels_of(n):
    return ["AB"[k % 2] for k in range(n)]


def wrong_at(labels, wrong):
    return [{"A": "B", "B": "A"}[x] if off else x for x, off in zip(labels, wrong, strict=True)]


def said(scores, metric=VOTES):
    return [
        (one.tone, one.text)
        for one in panel_findings(scores.metrics, RunFacts("", None, {}, 0.95))
        if one.metric == metric
    ]


def test_three_copies_of_a_judge_are_one_vote():
    labels = labels_of(200)
    copy = wrong_at(labels, np.arange(200) % 10 == 0)
    scores = run_of([copy] * 3, labels)
    votes = scores.metrics[VOTES]
    assert (votes.value, votes.low) == (1.0, 1.0)
    assert 1.0 < votes.high < 1.3
    ((tone, text),) = said(scores)
    assert tone == "warn"
    assert text.startswith("The judges err on the same units (correlation of errors 1.00")
    assert "200 labels): 3 judges count as 1.0 [1.0, 1." in text


@pytest.mark.slow
def test_independent_judges_are_as_many_votes():
    g = np.random.default_rng(5)
    labels = labels_of(400)
    scores = run_of([wrong_at(labels, g.random(400) < 0.25) for _ in range(3)], labels)
    assert scores.metrics[VOTES].low > 2.3
    ((tone, text),) = said(scores)
    assert tone == "info"
    assert text.startswith(
        "The judges are not shown to err on the same units (correlation of errors "
    )


def test_too_few_labels_are_said_to_be_too_few():
    g = np.random.default_rng(6)
    labels = labels_of(20)
    scores = run_of([wrong_at(labels, g.random(20) < 0.25) for _ in range(3)], labels)
    assert said(scores)[0][1].startswith(
        "20 labels are too few to show whether the judges err on the same units"
    )


def test_judges_without_an_error_leave_it_open():
    scores = run_of([labels_of(30)] * 3, labels_of(30))
    assert scores.metrics[VOTES].note == ALIKE
    assert said(scores) == [
        (
            "info",
            "Whether the judges err on the same units is open: on 30 labels, each judge is always right or always "
            "wrong.",
        )
    ]


@pytest.mark.slow
def test_without_labels_it_is_a_correlation_of_disagreement():
    g = np.random.default_rng(7)
    labels = labels_of(200)
    scores = run_of([wrong_at(labels, g.random(200) < 0.25) for _ in range(3)], [None] * 200)
    metrics = scores.metrics
    assert (metrics[ERRORS].value, metrics[VOTES].note) == (None, NO_LABEL)
    # Independent errors of the third judge alone make it positive, so it is not one of errors.
    assert metrics[DISAGREEMENT].low > 0
    ((tone, text),) = said(scores)
    assert tone == "info"
    assert text.startswith(
        "Without labels, it is unknown whether the judges err on the same units. Correlation of their "
    )
    assert text.endswith(", which errors of the others raise.")
    two = run_of([labels, labels], [None] * 200)
    assert two.metrics[DISAGREEMENT].note == NO_OTHERS
    assert said(two) == [
        ("info", "Without labels, it is unknown whether the judges err on the same units.")
    ]


def test_a_judge_alone_has_no_effective_votes():
    scores = run_of([labels_of(10), [None] * 10], labels_of(10))
    assert {scores.metrics[name].note for name in (ERRORS, VOTES)} == {UNREAD}
    assert said(scores) == []
    config_of_one = run_of([labels_of(10)], labels_of(10)).metrics
    assert VOTES not in config_of_one


def test_labels_sampled_with_unequal_probabilities_are_weighted():
    g = np.random.default_rng(8)
    labels = [*labels_of(60), *[None] * 20]
    chance = np.where(g.random(80) < 0.5, 0.2, 0.8)
    votes = [wrong_at(labels_of(80), g.random(80) < 0.3) for _ in range(2)]
    metadata = [
        {INCLUSION: p} if label else {} for p, label in zip(chance.tolist(), labels, strict=True)
    ]
    scores = run_of(votes, labels, metadata=metadata)
    wrong = np.array([differs(row, labels)[:60] for row in votes], dtype=float)
    table = np.cov(wrong, aweights=1 / chance[:60], bias=True)
    assert scores.metrics[ERRORS].value == pytest.approx(
        2 * table[0, 1] / (table[0, 0] + table[1, 1])
    )


def run_of_subsets(*panel, **settings):
    config, cases, judgments = panel_of(*panel, **settings)
    return config, cases, score_run(config, cases, judgments)


def judge(g, labels, right):
    return [x if g.random() < right else {"A": "B", "B": "A"}[x] for x in labels]


def majority(votes):
    counts = {name: votes.count(name) for name in ("A", "TIE", "B")}
    most = [name for name, count in counts.items() if count == max(counts.values())]
    return most[0] if len(most) == 1 else "TIE"


def brute(votes, labels, folds, costs, margin=0.05):
    """Choose and score subsets of every size by loops: the cross-fitted accuracy, the lead, and the choice."""
    k = len(votes)
    subsets = [one for size in range(1, k + 1) for one in combinations(range(k), size)]
    subsets.sort(key=lambda one: (sum(costs[j] for j in one), len(one)))

    def right(subset, n):
        given = [votes[j][n] for j in subset if votes[j][n] is not None]
        return len(given) >= len(subset) / 2 and majority(given) == labels[n]

    def best(units):
        rates = [sum(right(one, n) for n in units) / len(units) for one in subsets]
        return next(
            one
            for one, rate in zip(subsets, rates, strict=True)
            if rate >= max(rates) - margin - 1e-12
        )

    units = [n for n in range(len(labels)) if labels[n] is not None]
    hits, whole = [], []
    for fold in sorted({folds[n] for n in units}):
        chosen = best([n for n in units if folds[n] != fold])
        held = [n for n in units if folds[n] == fold]
        hits += [right(chosen, n) for n in held]
        whole += [right(tuple(range(k)), n) for n in held]
    return np.mean(hits), np.mean(hits) - np.mean(whole), best(units)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "costs"),
    [("pairwise", (3.0, 1.0, 1.0, 0.5)), ("classes", (0.0, 0.0, 0.0, 0.0))],
)
def test_the_choice_and_its_accuracy_are_those_of_brute_force(mode, costs):
    g = np.random.default_rng(1)
    labels = labels_of(90)
    votes = [judge(g, labels, right) for right in (0.85, 0.7, 0.75, 0.6)]
    votes[1][5], labels[7] = None, None
    prompts = [n // 3 for n in range(90)]
    if mode == "classes":  # a vote without a winner is no class, which is wrong as a tie is
        votes = [["A" if one == "TIE" else one for one in row] for row in votes]
    config, cases, scores = run_of_subsets(votes, labels, mode, costs=costs, prompts=prompts)
    folds = Clusters.of(config, cases).folds(cases)
    accuracy, lead, chosen = brute(votes, labels, folds, costs)
    assert scores.metrics[ACCURACY].value == pytest.approx(accuracy)
    assert scores.metrics[LEAD].value == pytest.approx(lead)
    assert (scores.metrics[ACCURACY].n, scores.metrics[LEAD].n) == (89, 89)
    table = scores.details["panel"]
    assert len(table["subsets"]) == 15
    assert [row["judges"] for row in table["subsets"] if row["chosen"]] == [
        [f"j{k}" for k in chosen]
    ]
    assert [row["cost_usd"] for row in table["subsets"]] == sorted(
        row["cost_usd"] for row in table["subsets"]
    )
    whole = next(row for row in table["subsets"] if len(row["judges"]) == 4)
    assert whole["cost_usd"] == pytest.approx(sum(costs))


@pytest.mark.slow
def test_the_best_of_many_equal_judges_is_no_better_by_cross_fitting():
    """Eight judges of 60%: the best single one looks better than it is, and not on labels that did not choose it."""
    in_sample, fitted = [], []
    for seed in range(12):
        g = np.random.default_rng(seed)
        labels = labels_of(60)
        votes = [judge(g, labels, 0.6) for _ in range(5)]
        settings = {"bootstrap": 0, "margin": 0.0}
        scores = run_of_subsets(votes, labels, judge={"vote": "majority"}, scoring=settings)[-1]
        in_sample.append(max(row["accuracy"] for row in scores.details["panel"]["subsets"]))
        fitted.append(scores.metrics[ACCURACY].value)
    truth = 0.6826  # of five judges together, the best that there is
    assert np.mean(in_sample) > truth + 0.03
    assert np.mean(fitted) <= truth


def said_of_subsets(scores):
    found = findings(scores.metrics, "pairwise", scores.details)
    return [(one.tone, one.text) for one in found if one.metric == LEAD]


@pytest.mark.slow
def test_one_judge_that_is_as_good_can_replace_the_panel():
    g = np.random.default_rng(2)
    labels = labels_of(600)
    first = judge(g, labels, 0.9)
    scores = run_of_subsets([first, first, first], labels, costs=(0.001, 0.02, 0.02))[-1]
    assert scores.metrics[LEAD].value == 0.0
    ((tone, text),) = said_of_subsets(scores)
    assert tone == "good"
    assert text.startswith("j0 can replace all 3 judges: at most 5 points less accurate. Right in ")
    assert text.endswith(
        ", each for a subset chosen on other labels. Cost per case: $0.001 instead of $0.041."
    )


def test_a_few_labels_leave_it_open():
    g = np.random.default_rng(3)
    labels = labels_of(30)
    scores = run_of_subsets([judge(g, labels, right) for right in (0.9, 0.8, 0.7)], labels)[-1]
    ((tone, text),) = said_of_subsets(scores)
    assert tone == "info"
    assert text.startswith("It is open whether ")
    assert "can replace all 3 judges within 5 points of accuracy. Right in " in text
    assert "Cost" not in text


@pytest.mark.slow
def test_a_panel_that_needs_all_its_judges_is_not_made_smaller():
    g = np.random.default_rng(4)
    labels = labels_of(900)
    scores = run_of_subsets(
        [judge(g, labels, 0.75) for _ in range(3)], labels, costs=(0.01, 0.01, 0.01)
    )[-1]
    assert said_of_subsets(scores) == [
        (
            "info",
            "On 900 labels, no smaller panel is within 5 points of the accuracy of the best one, which has all 3 "
            "judges.",
        )
    ]


def test_nothing_is_chosen_without_enough_labels_or_among_too_many_judges():
    few = run_of_subsets([labels_of(9)] * 2, labels_of(9))[-1]
    assert few.metrics[ACCURACY].note == TOO_FEW
    assert "panel" not in few.details
    assert said_of_subsets(few) == []
    many = run_of_subsets([labels_of(20)] * 9, labels_of(20), scoring={"bootstrap": 0})[-1]
    assert many.metrics[LEAD].note == TOO_MANY


def test_an_unknown_price_is_not_the_lowest():
    g = np.random.default_rng(5)
    labels = labels_of(100)
    votes = [judge(g, labels, 0.8), judge(g, labels, 0.8)]
    table = run_of_subsets(votes, labels, costs=(0.01, None))[-1].details["panel"]
    assert {row["cost_usd"] for row in table["subsets"]} == {None}
    assert [len(row["judges"]) for row in table["subsets"]] == [1, 1, 2]


@pytest.mark.slow
def test_subsets_of_one_or_two_judges_vote_by_majority_where_the_model_needs_three():
    g = np.random.default_rng(6)
    labels = labels_of(60)
    votes = [judge(g, labels, right) for right in (0.9, 0.6, 0.6)]
    found = [
        run_of_subsets(votes, labels, judge={"vote": how})[-1].details["panel"]
        for how in ("majority", "dawid_skene")
    ]
    rows = [
        [(row["judges"], row["accuracy"]) for row in table["subsets"] if len(row["judges"]) < 3]
        for table in found
    ]
    assert rows[0] == rows[1]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "weighted", "vote"), [
    ("classes", True, "majority"),
    ("pairwise", False, "dawid_skene"),
])  # fmt: skip
def test_the_interval_of_a_single_judge_is_that_of_its_accuracy(mode, weighted, vote):
    g = np.random.default_rng(7)
    labels = labels_of(120)
    votes = [judge(g, labels, right) for right in (1.0, 0.8, 0.6)]
    labels = [None if weighted and n % 5 == 0 else label for n, label in enumerate(labels)]
    config, cases, judgments = panel_of(votes, labels, mode, judge={"vote": vote})
    if weighted:
        cases = [
            replace(case, metadata={INCLUSION: 0.2 + 0.6 * (n % 2)}) for n, case in enumerate(cases)
        ]
    scores = score_run(config, cases, judgments)
    rows = scores.details["panel"]["subsets"]
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in rows)
    for row in rows:
        if len(row["judges"]) == 1:
            own = scores.metrics[f"judge/{row['judges'][0]}/agreement/accuracy"]
            assert (row["accuracy"], row["low"], row["high"]) == (own.value, own.low, own.high)


def test_without_resamples_there_are_no_intervals_of_subsets():
    table = run_of_subsets([labels_of(30)] * 2, labels_of(30), scoring={"bootstrap": 0})[
        -1
    ].details["panel"]
    assert {(row["low"], row["high"]) for row in table["subsets"]} == {(None, None)}
