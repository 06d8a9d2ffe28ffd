"""The best judges of a panel for the money: against brute force, and what the findings say of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from evalkit.core.annotations import INCLUSION
from evalkit.report.findings import findings
from evalkit.scoring import score_run
from evalkit.scoring.metrics.subsets import ACCURACY, LEAD, TOO_FEW, TOO_MANY
from evalkit.scoring.stats.clusters import Clusters
from tests.support.panels import panel_of


def run_of(*panel, **settings):
    config, cases, judgments = panel_of(*panel, **settings)
    return config, cases, score_run(config, cases, judgments)


def labels_of(n):
    return ["AB"[k % 2] for k in range(n)]


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
        return majority([votes[j][n] for j in subset]) == labels[n]

    def best(units):
        rates = [sum(right(one, n) for n in units) / len(units) for one in subsets]
        return next(one for one, rate in zip(subsets, rates, strict=True) if rate >= max(rates) - margin - 1e-12)

    units = [n for n in range(len(labels)) if all(row[n] is not None for row in votes) and labels[n] is not None]
    hits, whole = [], []
    for fold in sorted({folds[n] for n in units}):
        chosen = best([n for n in units if folds[n] != fold])
        held = [n for n in units if folds[n] == fold]
        hits += [right(chosen, n) for n in held]
        whole += [right(tuple(range(k)), n) for n in held]
    return np.mean(hits), np.mean(hits) - np.mean(whole), best(units)


@pytest.mark.parametrize("mode", ["pairwise", "classes"])
@pytest.mark.parametrize("costs", [(3.0, 1.0, 1.0, 0.5), (0.0, 0.0, 0.0, 0.0)])
def test_the_choice_and_its_accuracy_are_those_of_brute_force(mode, costs):
    g = np.random.default_rng(1)
    labels = labels_of(90)
    votes = [judge(g, labels, right) for right in (0.85, 0.7, 0.75, 0.6)]
    votes[1][5], labels[7] = None, None
    prompts = [n // 3 for n in range(90)]
    if mode == "classes":  # a vote without a winner is no class, which is wrong as a tie is
        votes = [["A" if one == "TIE" else one for one in row] for row in votes]
    config, cases, scores = run_of(votes, labels, mode, costs=costs, prompts=prompts)
    folds = Clusters.of(config, cases).folds(cases)
    accuracy, lead, chosen = brute(votes, labels, folds, costs)
    assert scores.metrics[ACCURACY].value == pytest.approx(accuracy)
    assert scores.metrics[LEAD].value == pytest.approx(lead)
    assert (scores.metrics[ACCURACY].n, scores.metrics[LEAD].n) == (88, 88)
    table = scores.details["panel"]
    assert len(table["subsets"]) == 15
    assert [row["judges"] for row in table["subsets"] if row["chosen"]] == [[f"j{k}" for k in chosen]]
    assert [row["cost_usd"] for row in table["subsets"]] == sorted(row["cost_usd"] for row in table["subsets"])
    whole = next(row for row in table["subsets"] if len(row["judges"]) == 4)
    assert whole["cost_usd"] == pytest.approx(sum(costs))


def test_the_best_of_many_equal_judges_is_no_better_by_cross_fitting():
    """Eight judges of 60%: the best single one looks better than it is, and not on labels that did not choose it."""
    in_sample, fitted = [], []
    for seed in range(12):
        g = np.random.default_rng(seed)
        labels = labels_of(60)
        votes = [judge(g, labels, 0.6) for _ in range(5)]
        settings = {"bootstrap": 0, "margin": 0.0}
        scores = run_of(votes, labels, judge={"vote": "majority"}, scoring=settings)[-1]
        in_sample.append(max(row["accuracy"] for row in scores.details["panel"]["subsets"]))
        fitted.append(scores.metrics[ACCURACY].value)
    truth = 0.6826  # of five judges together, the best that there is
    assert np.mean(in_sample) > truth + 0.03
    assert np.mean(fitted) <= truth


def said(scores):
    found = findings(scores.metrics, "pairwise", scores.details)
    return [(one.tone, one.text) for one in found if one.metric == LEAD]


def test_one_judge_that_is_as_good_can_replace_the_panel():
    g = np.random.default_rng(2)
    labels = labels_of(600)
    first = judge(g, labels, 0.9)
    scores = run_of([first, first, first], labels, costs=(0.001, 0.02, 0.02))[-1]
    assert scores.metrics[LEAD].value == 0.0
    ((tone, text),) = said(scores)
    assert tone == "good"
    assert text.startswith("j0 can replace all 3 judges: at most 5 points less accurate. Accuracy ")
    assert text.endswith(", each for a subset chosen on other labels. Cost per case: $0.001 instead of $0.041.")


def test_a_few_labels_leave_it_open():
    g = np.random.default_rng(3)
    labels = labels_of(30)
    scores = run_of([judge(g, labels, right) for right in (0.9, 0.8, 0.7)], labels)[-1]
    ((tone, text),) = said(scores)
    assert tone == "info"
    assert text.startswith("It is open whether ")
    assert "can replace all 3 judges within 5 points of accuracy. Accuracy " in text
    assert "Cost" not in text


def test_a_panel_that_needs_all_its_judges_is_not_made_smaller():
    g = np.random.default_rng(4)
    labels = labels_of(900)
    scores = run_of([judge(g, labels, 0.75) for _ in range(3)], labels, costs=(0.01, 0.01, 0.01))[-1]
    assert said(scores) == [
        (
            "info",
            "On 900 labels, no smaller panel is within 5 points of the accuracy of the best one, which has all 3 "
            "judges.",
        )
    ]


def test_nothing_is_chosen_without_enough_labels_or_among_too_many_judges():
    few = run_of([labels_of(9)] * 2, labels_of(9))[-1]
    assert few.metrics[ACCURACY].note == TOO_FEW
    assert "panel" not in few.details
    assert said(few) == []
    many = run_of([labels_of(20)] * 9, labels_of(20), scoring={"bootstrap": 0})[-1]
    assert many.metrics[LEAD].note == TOO_MANY


def test_an_unknown_price_is_not_the_lowest():
    g = np.random.default_rng(5)
    labels = labels_of(100)
    votes = [judge(g, labels, 0.8), judge(g, labels, 0.8)]
    table = run_of(votes, labels, costs=(0.01, None))[-1].details["panel"]
    assert {row["cost_usd"] for row in table["subsets"]} == {None}
    assert [len(row["judges"]) for row in table["subsets"]] == [1, 1, 2]


def test_subsets_of_one_or_two_judges_vote_by_majority_where_the_model_needs_three():
    g = np.random.default_rng(6)
    labels = labels_of(60)
    votes = [judge(g, labels, right) for right in (0.9, 0.6, 0.6)]
    found = [run_of(votes, labels, judge={"vote": how})[-1].details["panel"] for how in ("majority", "dawid_skene")]
    rows = [[(row["judges"], row["accuracy"]) for row in table["subsets"] if len(row["judges"]) < 3] for table in found]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("mode", ["pairwise", "classes"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("vote", ["majority", "dawid_skene"])
def test_the_interval_of_a_single_judge_is_that_of_its_accuracy(mode, weighted, vote):
    g = np.random.default_rng(7)
    labels = labels_of(120)
    votes = [judge(g, labels, right) for right in (1.0, 0.8, 0.6)]
    labels = [None if weighted and n % 5 == 0 else label for n, label in enumerate(labels)]
    config, cases, judgments = panel_of(votes, labels, mode, judge={"vote": vote})
    if weighted:
        cases = [replace(case, metadata={INCLUSION: 0.2 + 0.6 * (n % 2)}) for n, case in enumerate(cases)]
    scores = score_run(config, cases, judgments)
    rows = scores.details["panel"]["subsets"]
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in rows)
    for row in rows:
        if len(row["judges"]) == 1:
            own = scores.metrics[f"judge/{row['judges'][0]}/agreement/accuracy"]
            assert (row["accuracy"], row["low"], row["high"]) == (own.value, own.low, own.high)


def test_without_resamples_there_are_no_intervals_of_subsets():
    table = run_of([labels_of(30)] * 2, labels_of(30), scoring={"bootstrap": 0})[-1].details["panel"]
    assert {(row["low"], row["high"]) for row in table["subsets"]} == {(None, None)}
