"""Corrections of systems without labels: against a regression by statsmodels, and what the findings say was tested."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from evalkit.core.annotations import INCLUSION
from evalkit.report.findings import findings
from evalkit.scoring import score_run
from evalkit.scoring.metrics.transport import GAP, MEAN, REFUSED
from evalkit.types import Case, Judgment, Response

RUBRIC = {"min": 1, "max": 10}


def run_of(pointwise, systems, **settings):
    """Score systems, by name a list of (score, grade or `None`); the n-th answers have the same prompt."""
    cases, judgments = [], []
    metadata = settings.pop("metadata", None)
    for name, rows in systems.items():
        for n, (score, grade) in enumerate(rows):
            id_ = f"{name}-{n}"
            more = {INCLUSION: metadata[n]} if metadata is not None and grade is not None else {}
            cases.append(Case(id_, f"q{n}", (Response("a", model=name, grade=grade),), metadata=more))
            status = "failed" if score is None else "ok"
            judgments.append(Judgment(id_, (0,), (0,), 0, "m", status, score))
    return score_run(pointwise(rubric=RUBRIC, **settings), cases, judgments)


def system(seed, n, level, shift=0.0, noise=0.5, labels=True, slope=0.8):
    """Scores around a level, with grades 1 + slope × score + shift and noise."""
    g = np.random.default_rng(seed)
    scores = np.clip(np.round(g.normal(level, 1.5, n)), 1, 10)
    grades = np.clip(1 + slope * scores + shift + g.normal(0, noise, n), 1, 10)
    return [(float(x), float(y) if labels else None) for x, y in zip(scores, grades, strict=True)]


def line(rows, weights=None):
    x, y = np.array([row for row in rows if None not in row]).T
    model = sm.WLS(y, sm.add_constant(x), weights=np.ones(len(x)) if weights is None else weights)
    return model.fit().params


def test_gaps_and_means_are_those_of_the_regression(pointwise):
    systems = {
        "a": [*system(1, 40, 4), (None, 5.0)],
        "b": system(2, 50, 6, shift=0.3),
        "c": system(3, 30, 5),
        "none": system(4, 60, 5, labels=False),
    }
    metrics = run_of(pointwise, systems).metrics
    for name in "abc":
        start, slope = line([row for other in "abc" if other != name for row in systems[other]])
        x, y = np.array([row for row in systems[name] if None not in row]).T
        assert metrics[GAP + name].value == pytest.approx(y.mean() - start - slope * x.mean())
        assert metrics[GAP + name].n == len(x)
    start, slope = line([row for name in "abc" for row in systems[name]])
    mean = np.mean([score for score, _ in systems["none"]])
    found = metrics[MEAN + "none"]
    assert found.value == pytest.approx(start + slope * mean)
    assert found.low < found.value < found.high


def test_labels_sampled_with_unequal_probabilities_are_weighted(pointwise):
    chance = np.where(np.arange(40) % 3 == 0, 0.2, 0.8).tolist()
    systems = {"a": system(1, 40, 4), "b": system(2, 40, 6), "none": system(4, 40, 5, labels=False)}
    metrics = run_of(pointwise, systems, metadata=chance).metrics
    weights = 1 / np.array(chance)
    start, slope = line(systems["b"], weights)
    x, y = np.array(systems["a"]).T
    expected = np.average(y - start - slope * x, weights=weights)
    assert metrics[GAP + "a"].value == pytest.approx(expected)
    start, slope = line([*systems["a"], *systems["b"]], np.tile(weights, 2))
    mean = np.mean([score for score, _ in systems["none"]])
    assert metrics[MEAN + "none"].value == pytest.approx(start + slope * mean)


def said(scores):
    found = findings(scores.metrics, "pointwise", scores.details)
    return [(one.tone, one.text) for one in found if one.metric.startswith("transport/")]


def results(scores):
    return {row["system"]: row["result"] for row in scores.details["transport"]["systems"]}


def test_a_correction_that_holds_for_every_labeled_system(pointwise):
    systems = {name: system(k, 200, 4 + k) for k, name in enumerate("abc")}
    scores = run_of(pointwise, systems | {"none": system(9, 100, 5, labels=False)})
    assert results(scores) == {"a": "pass", "b": "pass", "c": "pass", "none": "untested"}
    (tone, tested), (_, untested) = said(scores)
    assert tone == "good"
    start = "A correction of scores by labels of other systems was tested on 3 labeled systems, with a margin of 0.45: "
    assert tested.startswith(start + "it holds for a ")
    assert untested.startswith("Mean scores corrected in this way, untested on these systems (intervals ")


def test_a_system_that_the_judge_flatters_fails(pointwise):
    """The judge likes the style of `flat`: its grades are 2 lower than those of others with the same score."""
    systems = {"a": system(1, 200, 5), "b": system(2, 200, 6), "flat": system(3, 200, 6, shift=-2.0)}
    scores = run_of(pointwise, systems | {"none": system(9, 100, 5, labels=False)})
    assert results(scores)["flat"] == "fail"
    assert scores.metrics[GAP + "flat"].high < -0.45
    (tone, text), (others, _) = said(scores)
    assert (tone, others) == ("bad", "warn")
    assert "it is off by more for " in text
    assert "flat -" in text


def test_a_few_labels_leave_it_undecided(pointwise):
    systems = {"a": system(1, 12, 5, noise=2.0), "b": system(2, 12, 6, noise=2.0)}
    scores = run_of(pointwise, systems | {"none": system(9, 12, 5, labels=False)})
    assert set(results(scores).values()) == {"undecided", "untested"}
    (tone, text), _ = said(scores)
    assert tone == "info"
    assert "margin of 0.45: the labels do not decide for a " in text


def test_a_system_outside_the_range_of_labeled_scores_is_refused(pointwise):
    labeled = {"a": [(float(3 + n % 3), 4.0 + n % 3) for n in range(60)], "b": [(4.0, 5.0), (5.0, 6.0)] * 20}
    scores = run_of(pointwise, labeled | {"star": [(9.0, None)] * 10 + [(5.0, None)] * 50, "mid": [(4.0, None)] * 20})
    assert results(scores) | {"a": 0, "b": 0} == {"a": 0, "b": 0, "star": "refused", "mid": "untested"}
    metric = scores.metrics[MEAN + "star"]
    assert (metric.value, metric.note) == (None, REFUSED)
    assert said(scores)[-1] == (
        "warn",
        "No corrected mean for star: more than 5% of the scores are outside the range of labeled scores.",
    )


@pytest.mark.parametrize(
    "systems",
    [
        {"a": system(1, 30, 5), "none": system(2, 30, 5, labels=False)},
        {"a": system(1, 30, 5), "b": system(2, 30, 5)},
        {"a": system(1, 9, 5), "b": system(2, 30, 5)},
    ],
    ids=["one labeled", "all labeled", "one with few labels"],
)
def test_nothing_is_corrected_without_two_labeled_systems_and_another(pointwise, systems):
    scores = run_of(pointwise, systems)
    assert not [name for name in scores.metrics if name.startswith("transport/")]
    assert "transport" not in scores.details
    assert said(scores) == []


def test_labels_picked_with_unknown_probabilities_correct_nothing(pointwise):
    systems = {"a": system(1, 40, 4), "b": system(2, 40, 6), "none": system(4, 40, 5, labels=False)}
    assert said(run_of(pointwise, systems, metadata=["unknown"] * 40)) == []


def test_many_systems_are_counted_and_five_are_named(pointwise):
    systems = {f"s{k}": system(k, 150, 5) for k in range(7)}
    scores = run_of(pointwise, systems | {"none": system(9, 100, 5, labels=False)}, scoring={"bootstrap": 100})
    assert " and 2 more." in said(scores)[0][1]


def test_equal_scores_have_no_line(pointwise):
    systems = {"a": [(5.0, 4.0)] * 20, "b": [(5.0, 6.0)] * 20, "none": [(5.0, None)] * 20}
    scores = run_of(pointwise, systems)
    assert scores.metrics[GAP + "a"].value is None
    assert results(scores) == {"a": "undecided", "b": "undecided", "none": "untested"}
