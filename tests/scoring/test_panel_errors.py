"""Errors that judges of a panel share: the correlation, the effective votes, and what the findings say of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.config import RunConfig
from evalkit.core.annotations import INCLUSION
from evalkit.report.findings.finding import RunFacts
from evalkit.report.findings.panels import panel_findings
from evalkit.scoring import score_run
from evalkit.scoring.metrics.panels import ALIKE, DISAGREEMENT, ERRORS, NO_LABEL, NO_OTHERS, UNREAD, VOTES
from evalkit.types import Case, Judgment
from tests.support.panels import PAIR, panel_of


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
    return np.mean(covariances) / np.mean(variances) if variances and np.mean(variances) > 1e-12 else None


def differs(votes, truth):
    return [None if None in (v, x) else v != x for v, x in zip(votes, truth, strict=True)]


WINNERS = st.sampled_from(["A", "TIE", "B", None])


@given(st.integers(2, 4).flatmap(lambda k: st.lists(st.tuples(*[WINNERS] * (k + 1)), min_size=2, max_size=8)))
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
        (scores[i] - mean, scores[j] - mean) for (i, j), mean in zip(combinations(range(3), 2), means, strict=True)
    ]
    assert metrics[DISAGREEMENT].value == pytest.approx(obvious(apart))
    off = run_of(scores.tolist(), (grades + 10).tolist(), "scores").metrics
    assert (off[ERRORS].value, off[ERRORS].note) == (None, "grades are not on the judge's scale, 1-5")


def test_scores_without_grades_err_in_the_pairs_that_they_imply():
    judges = [{"name": f"j{k}", "model": "m"} for k in range(2)]
    sections = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}, "criteria": [{"name": "quality"}]}
    config = RunConfig(judge={"judges": judges}, scoring={"bootstrap": 0}, **sections)
    g = np.random.default_rng(5)
    labels, cases, judgments = labels_of(40), [], []
    wrong = g.random((2, 40)) < 0.4
    for n, label in enumerate(labels):
        cases.append(Case(f"c{n}", f"q{n}", PAIR, label=label))
        for k in range(2):
            first = (label == "A") != wrong[k, n]
            judgments += [
                Judgment(f"c{n}", (i,), (i,), 0, f"j{k}", "ok", 5.0 if (i == 0) == first else 1.0) for i in (0, 1)
            ]
    metrics = score_run(config, cases, judgments).metrics
    assert metrics[ERRORS].value == pytest.approx(obvious([wrong.astype(float)]))


def labels_of(n):
    return ["AB"[k % 2] for k in range(n)]


def wrong_at(labels, wrong):
    return [{"A": "B", "B": "A"}[x] if off else x for x, off in zip(labels, wrong, strict=True)]


def said(scores, metric=VOTES):
    return [(one.tone, one.text) for one in panel_findings(scores.metrics, RunFacts()) if one.metric == metric]


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


def test_independent_judges_are_as_many_votes():
    g = np.random.default_rng(5)
    labels = labels_of(400)
    scores = run_of([wrong_at(labels, g.random(400) < 0.25) for _ in range(3)], labels)
    assert scores.metrics[VOTES].low > 2.3
    ((tone, text),) = said(scores)
    assert tone == "info"
    assert text.startswith("The judges are not shown to err on the same units (correlation of errors ")


def test_too_few_labels_are_said_to_be_too_few():
    g = np.random.default_rng(6)
    labels = labels_of(20)
    scores = run_of([wrong_at(labels, g.random(20) < 0.25) for _ in range(3)], labels)
    assert said(scores)[0][1].startswith("20 labels are too few to show whether the judges err on the same units")


def test_judges_without_an_error_leave_it_open():
    scores = run_of([labels_of(30)] * 3, labels_of(30))
    assert scores.metrics[VOTES].note == ALIKE
    assert said(scores) == [
        (
            "info",
            "Whether the judges err on the same units is open: none is right on some of the 30 labels and wrong on "
            "others.",
        )
    ]


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
    assert said(two) == [("info", "Without labels, it is unknown whether the judges err on the same units.")]


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
    metadata = [{INCLUSION: p} if label else {} for p, label in zip(chance.tolist(), labels, strict=True)]
    scores = run_of(votes, labels, metadata=metadata)
    wrong = np.array([differs(row, labels)[:60] for row in votes], dtype=float)
    table = np.cov(wrong, aweights=1 / chance[:60], bias=True)
    assert scores.metrics[ERRORS].value == pytest.approx(2 * table[0, 1] / (table[0, 0] + table[1, 1]))
