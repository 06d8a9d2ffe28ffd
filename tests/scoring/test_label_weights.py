"""Labels of cases that were chosen with unequal probabilities: what is weighted, and that it is unbiased."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalkit.core.annotations import INCLUSION, UNKNOWN
from evalkit.errors import ConfigError
from evalkit.scoring import score_run
from evalkit.scoring.labels import ONLY_LABELED, label_weights
from evalkit.types import Case, Judgment, Response

PAIRS = {"swap": {"policy": "none"}, "mode": {"name": "pairwise"}}


def chosen(case: Case, probability: object) -> Case:
    return replace(case, metadata={**case.metadata, INCLUSION: probability})


def unlabeled(case: Case) -> Case:
    return replace(
        case, label=None, responses=tuple(replace(one, grade=None, class_name=None) for one in case.responses)
    )


def test_a_labeled_case_stands_for_others(configure, make_case, judged):
    """Two certain labels are right, one of ten others is wrong: accuracy is 2 of 12, and not 2 of 3."""
    cases = [make_case(f"c{n}", label="A") for n in range(12)]
    cases = [cases[0], cases[1], chosen(cases[2], 0.1), *map(unlabeled, cases[3:])]
    judgments = [judged(case.id, (0, 1), 1.0 if n < 2 else -1.0) for n, case in enumerate(cases)]
    metrics = score_run(configure(**PAIRS), cases, judgments).metrics
    assert metrics["agreement/accuracy"].value == pytest.approx(2 / 12)
    assert metrics["agreement/accuracy"].n == 3
    assert metrics["win_rate/a"].value == pytest.approx(2 / 12)
    assert metrics["labels/effective"].value == pytest.approx(144 / 102)
    assert metrics["labels/effective"].n == 3
    # The judge's answers on all cases correct the mean of the weighted labels.
    assert "weighted by 1 / the probability" in str(metrics["corrected/win_rate/a"].note)


@pytest.mark.parametrize("probability", [0, -0.5, 1.5, float("nan"), "half", True, [0.5]])
def test_an_invalid_probability_is_an_error(make_case, probability):
    with pytest.raises(ConfigError, match=r"is not the probability that a case is chosen.*case 'c'|case 'c'"):
        label_weights([chosen(make_case("c", label="A"), probability), unlabeled(make_case("d"))])


def test_without_unequal_probabilities_nothing_changes(make_case):
    one, other, rest = make_case("a", label="A"), make_case("b", label="B"), unlabeled(make_case("c"))
    assert label_weights([one, other, rest]) is None
    assert label_weights([chosen(one, 0.5), chosen(other, 0.5), rest]) is None
    assert label_weights([chosen(one, 0.5), chosen(other, 0.1)]) is None  # every case has a label
    assert label_weights([chosen(one, ""), chosen(other, None), rest]) is None
    assert label_weights([rest, chosen(rest, 0.5)]) is None
    weighted = label_weights([chosen(one, "0.5"), chosen(other, UNKNOWN), rest])
    assert weighted is not None  # a case picked before the sample is certain
    assert (weighted.unknown, weighted.weights.tolist()) == (0, pytest.approx([4 / 3, 2 / 3, 0]))


def test_unknown_probabilities_are_reported_and_change_no_number(configure, make_case, judged):
    cases = [make_case(f"c{n}", label="A") for n in range(6)]
    cases = [*cases[:4], *map(unlabeled, cases[4:])]
    judgments = [judged(case.id, (0, 1), 1.0 if n % 3 else -1.0) for n, case in enumerate(cases)]
    before = dict(score_run(configure(**PAIRS), cases, judgments).metrics)
    picked = [chosen(case, UNKNOWN) if n < 3 else case for n, case in enumerate(cases)]
    after = dict(score_run(configure(**PAIRS), picked, judgments).metrics)
    share = after.pop("labels/picked")
    assert (share.value, share.n) == (0.75, 4)
    assert after.pop("decision/labels_needed").note == "labels of cases sampled at random are needed"
    del before["decision/labels_needed"]
    assert after == before


def simulated(rng, n=300):
    """Return who is right in `n` pairs, and which are flips: the judge is right in 85% of the others, 40% of flips."""
    flips = rng.random(n) < 0.3
    return rng.random(n) < np.where(flips, 0.4, 0.85), flips


def picked_accuracy(configure, make_case, judged, right, flips, rng, labels=60):
    """Return the accuracy from labels of half flips and half others."""
    probability = np.where(flips, labels / 2 / flips.sum(), labels / 2 / (~flips).sum())
    asked = np.concatenate([rng.choice(np.flatnonzero(rows), labels // 2, replace=False) for rows in (flips, ~flips)])
    cases = [make_case(f"c{n}") for n in range(len(right))]
    for n in asked:
        cases[n] = chosen(replace(cases[n], label="A"), float(probability[n]))
    judgments = [judged(case.id, (0, 1), 1.0 if ok else -1.0) for case, ok in zip(cases, right, strict=True)]
    config = configure(**PAIRS, scoring={"bootstrap": 150})
    return score_run(config, cases, judgments).metrics


def test_weighted_accuracy_is_unbiased_and_its_interval_covers(configure, make_case, judged, thorough):
    """25 samples of one data set: the mean is its accuracy, and 95% intervals hold it in at least 92%.

    Unweighted, the estimate would be 0.63 instead of 0.72.
    """
    rng = np.random.default_rng(7)
    right, flips = simulated(rng)
    found = [picked_accuracy(configure, make_case, judged, right, flips, rng) for _ in range(120 if thorough else 25)]
    accuracy, truth = [one["agreement/accuracy"] for one in found], right.mean()
    values = np.array([one.value for one in accuracy])
    assert abs(values.mean() - truth) < 3 * values.std() / np.sqrt(len(values))
    plain = 0.5 * right[flips].mean() + 0.5 * right[~flips].mean()
    assert plain < truth - 0.08
    assert np.mean([one.low <= truth <= one.high for one in accuracy]) >= 0.92
    # Every pair is labeled A: the corrected rate is that of A among all pairs, which is 1.
    assert {one["corrected/win_rate/a"].value for one in found} == {1.0}


def test_extreme_shares_have_the_interval_of_the_effective_number(configure, make_case, judged):
    cases = [make_case(f"c{n}", label="A") for n in range(100)]
    cases = [chosen(cases[0], 0.01), *(chosen(case, 1.0) for case in cases[1:50]), *map(unlabeled, cases[50:])]
    judgments = [judged(case.id, (0, 1), 1.0) for case in cases]
    accuracy = score_run(configure(**PAIRS), cases, judgments).metrics["agreement/accuracy"]
    assert (accuracy.value, accuracy.n) == (1.0, 50)
    assert accuracy.low == pytest.approx(0.025 ** (1 / 2))  # (149² / 10049 = 2.2) labels, not 50


def test_bounds_over_missing_answers_are_weighted(configure, make_case, judged):
    cases = [make_case(f"c{n}", label="A") for n in range(5)]
    cases = [cases[0], cases[1], chosen(cases[2], 0.25), *map(unlabeled, cases[3:])]
    judgments = [judged(case.id, (0, 1), None if n == 2 else 1.0) for n, case in enumerate(cases)]
    metrics = score_run(configure(**PAIRS), cases, judgments).metrics
    accuracy = metrics["agreement/accuracy"]
    assert (accuracy.value, accuracy.missing) == (1.0, 1)
    assert (accuracy.worst_low, accuracy.worst_high) == (pytest.approx(2 / 6), 1.0)
    assert metrics["agreement/kappa"].worst_low is None


def test_correlations_of_sampled_grades_are_those_of_all(pointwise, judged):
    """Mean over 20 samples: each coefficient is close to that of all grades, nearer than without weights."""
    rng, means = np.random.default_rng(3), []
    score = rng.integers(1, 6, 400)
    grade, probability = np.clip(score + rng.integers(-1, 2, 400), 1, 5), np.where(score == 3, 0.1, 0.6)
    for _ in range(20):
        asked = rng.random(len(score)) < probability
        cases = [
            Case(
                f"c{n}",
                "",
                (Response("r" * (1 + n % 7), grade=float(g) if use else None),),
                metadata={INCLUSION: p} if use else {},
            )
            for n, (g, p, use) in enumerate(zip(grade, probability, asked, strict=True))
        ]
        judgments = [judged(f"c{n}", (0,), None, criteria={"quality": float(s)}) for n, s in enumerate(score)]
        metrics = score_run(pointwise(scoring={"bootstrap": 0}), cases, judgments).metrics
        means.append([metrics[f"agreement/{name}"].value for name in ("pearson", "spearman", "kendall", "rmse")])
    everyone = [Case(f"c{n}", "", (Response("r", grade=float(g)),)) for n, g in enumerate(grade)]
    truth = score_run(pointwise(scoring={"bootstrap": 0}), everyone, judgments).metrics
    expected = [truth[f"agreement/{name}"].value for name in ("pearson", "spearman", "kendall", "rmse")]
    assert np.mean(means, axis=0) == pytest.approx(expected, abs=0.015)


KINDS = {
    "pairs": ({}, lambda n: {"label": "AB"[n % 2]}, lambda n: {"value": (1.0, -1.0, -1.0)[n % 3], "confidence": 0.6}),
    "scores": ({"mode": {"name": "pointwise"}}, lambda n: {"grade": 1.0 + n % 4}, lambda n: {"quality": 1.0 + n % 3}),
    "classes": (
        {"mode": {"name": "pointwise"}, "rubric": {"classes": {"x": "", "y": ""}, "positive": "x"}},
        lambda n: {"class_name": "xy"[n % 2]},
        lambda n: {"class_name": "xxy"[n % 3]},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_metrics_that_compare_with_labels_are_weighted(configure, kind):
    """A metric is weighted, or says that it is not, if and only if it needs labels."""
    settings, label, answer = KINDS[kind]
    size = 2 if kind == "pairs" else 1
    config = configure(criteria=[{"name": "quality"}], **{"swap": {"policy": "none"}, **settings})

    def cases(labeled, **metadata):
        made = []
        for n in range(40):
            told = label(n) if labeled(n) else {}
            case = {name: told.pop(name) for name in ("label",) if name in told}
            responses = tuple(
                Response("w " * (1 + (n * k) % 5), **(told if k == 1 else {})) for k in range(1, size + 1)
            )
            made.append(Case(f"c{n}", f"q{n}", responses, metadata=metadata if n % 7 < 3 else {}, **case))
        return made

    judgments = []
    for n in range(40):
        more = answer(n)
        more = {"criteria": more} if "quality" in more else more
        judgments.append(Judgment(f"c{n}", tuple(range(size)), tuple(range(size)), 0, "j", "ok", **more))
    without = score_run(config, cases(lambda n: False), judgments).metrics
    plain = score_run(config, cases(lambda n: n % 5), judgments).metrics
    found = score_run(config, cases(lambda n: n % 5, **{INCLUSION: 0.25}), judgments).metrics
    needs = {name for name, metric in plain.items() if metric.value is not None and without[name].value is None}
    assert needs
    touched = {name for name in plain if found[name] != plain[name] and plain[name].value is not None}
    touched.discard("decision/labels_needed")  # has a value only where labels do not decide
    unweighted = {name for name in needs if ONLY_LABELED in str(found[name].note)}
    assert unweighted <= {"length/slope_at_label", "length/score_slope_at_grade", "human/alt_test"}
    assert touched == needs
