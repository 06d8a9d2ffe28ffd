"""Labels of a part of the cases: corrected means and unequal probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from evalkit.core.annotations import INCLUSION, UNKNOWN
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.labels import ONLY_LABELED, label_weights
from evalkit.scoring.metrics.corrections import Target, prediction_powered, rogan_gladen
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.statistic import Tally


def target(said, meant, case=None, **more):
    said, meant = np.array(said, dtype=float), np.array(meant, dtype=float)
    case = np.arange(len(said)) if case is None else np.array(case)
    return Target(
        "corrected/win_rate/a",
        "win_rate/a",
        Tally(case, int(case.max()) + 1),
        said,
        meant,
        **{"proportion": False, **more},
    )


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 60))
def test_prediction_powered_inference_equals_its_formula(seed, labelled, others):
    generator = np.random.default_rng(seed)
    said = generator.normal(size=labelled + others)
    meant = said + generator.normal(size=labelled + others)
    meant[labelled:] = np.nan
    y, f, rest = meant[:labelled], said[:labelled], said[labelled:]
    k = np.cov(y, f, ddof=0)[0, 1] / said.var() / (1 + labelled / others)
    assert prediction_powered([target(said, meant)])[0].observed() == pytest.approx(
        y.mean() + k * (rest.mean() - f.mean())
    )


LOST_BY_LABEL = [(0.6, 0.0), (0.3, 0.3), (0.6, 0.1)]


@pytest.mark.parametrize("lost", LOST_BY_LABEL)
def test_answers_that_are_missing_by_label_do_not_bias_corrected_rates(lost):
    """100 of 1,000 units are labeled, 40% are 1, and answers are missing by label: corrections are near 0.4.

    The rate by answers is 0.24 where 60% of the answers to 1 are missing.
    """
    rng = np.random.default_rng(0)
    powered, inverted, by_labels = [], [], []
    for _ in range(200):
        truth = (rng.random(1000) < 0.4).astype(float)
        answers = np.where(rng.random(1000) < 0.95, truth, 1 - truth)
        answers[rng.random(1000) < np.where(truth == 1, *lost)] = np.nan
        labels = np.where(np.arange(1000) < 100, truth, np.nan)
        one = target(answers, labels)
        powered.append(prediction_powered([one])[0].observed())
        inverted.append(rogan_gladen(one).observed())
        by_labels.append(truth[:100].mean())
    assert np.mean(powered) == pytest.approx(0.4, abs=0.012)
    assert np.mean(inverted) == pytest.approx(0.4, abs=0.02)
    assert np.std(powered) < 0.9 * np.std(by_labels)


@given(st.integers(0, 10**6))
def test_rogan_gladen_equals_its_formula(seed):
    generator = np.random.default_rng(seed)
    truth = generator.random(80) < 0.4
    said = np.where(generator.random(80) < 0.85, truth, ~truth).astype(float)
    meant = np.where(np.arange(80) < 30, truth, np.nan)
    labels = meant[:30] == 1
    found = rogan_gladen(target(said, meant)).observed()
    if labels.all() or not labels.any():
        assert np.isnan(found)
        return
    sensitivity, specificity = said[:30][labels].mean(), 1 - said[:30][~labels].mean()
    if sensitivity + specificity <= 1:
        assert np.isnan(found)
    else:
        expected = (said.mean() + specificity - 1) / (sensitivity + specificity - 1)
        assert found == pytest.approx(min(1, max(0, expected)))


def half_labelled(make_case, judged, cases=120, labelled=40, right=0.8, seed=0):
    generator = np.random.default_rng(seed)
    truth = np.where(generator.random(cases) < 0.3, "A", "B")
    rows = [make_case(str(k), label=truth[k] if k < labelled else None) for k in range(cases)]
    said = np.where(generator.random(cases) < right, truth, np.where(truth == "A", "B", "A"))
    judgments = [judged(str(k), (0, 1), 1.0 if said[k] == "A" else -1.0) for k in range(cases)]
    return rows, judgments, truth, said


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [3, 12, 40])
@pytest.mark.parametrize("seed", range(2))
def test_corrected_rates_sum_to_one(configure, make_case, judged, seed, labelled):
    generator = np.random.default_rng(seed)
    truth = generator.choice(["A", "B", "TIE"], size=60, p=[0.85, 0.1, 0.05])
    said = np.where(generator.random(60) < 0.6, truth, generator.choice(["A", "B", "TIE"], size=60))
    rows = [make_case(str(k), label=truth[k] if k < labelled else None) for k in range(60)]
    margins = {"A": 1.0, "B": -1.0, "TIE": 0.0}
    judgments = [judged(str(k), (0, 1), margins[said[k]]) for k in range(60)]
    scores = score_run(configure(swap={"policy": "none"}), rows, judgments)
    rates = [
        scores.metrics[f"corrected/{name}"] for name in ("win_rate/a", "win_rate/b", "tie_rate")
    ]
    assert sum(rate.value for rate in rates) == pytest.approx(1, abs=1e-12)
    for rate in rates:
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
        assert rate.low < rate.high
    assert [one["corrected"] for one in scores.details["corrected"]["targets"]] == [
        rate.value for rate in rates
    ]


def test_a_judge_that_knows_nothing_is_not_trusted(configure, make_case, judged):
    rows, judgments, truth, _ = half_labelled(make_case, judged, right=0.5, seed=3)
    scores = score_run(configure(swap={"policy": "none"}), rows, judgments)
    powered = scores.metrics["corrected/win_rate/a"]
    assert powered.value == pytest.approx(np.mean(truth[:40] == "A"), abs=0.08)
    assert abs(scores.details["corrected"]["targets"][0]["trust_in_judge"]) < 0.3
    mended = scores.metrics["corrected/rogan_gladen/a"]
    assert mended.low is None
    assert "not identified" in mended.note or "not defined in" in mended.note


@pytest.mark.parametrize(("labels", "powered", "mended"), [
    ([None] * 6, "no answer has a label", "no answer has a label"),
    (["A"] + [None] * 5, "fewer than two", "all belong to one class"),
    (["A", "A"] + [None] * 4, None, "all belong to one class"),
    (["B", "A", "B", "A", "B", "A"], None, "sum to 1 or less"),
])  # fmt: skip
def test_what_is_not_identified_says_so(configure, make_case, judged, labels, powered, mended):
    rows = [make_case(str(k), label=label) for k, label in enumerate(labels)]
    judgments = [judged(str(k), (0, 1), 1.0 if k % 2 == 0 else -1.0) for k in range(6)]
    scores = score_run(configure(swap={"policy": "none"}), rows, judgments)
    for name, wanted in (("corrected/win_rate/a", powered), ("corrected/rogan_gladen/a", mended)):
        metric = scores.metrics[name]
        assert (metric.value is None) == (wanted is not None)
        assert wanted is None or wanted in metric.note
    if labels[0] is None:
        assert scores.details["corrected"]["targets"][0]["people"] is None


def graded(scale, make_case, judged, seed=0, cases=60, labelled=20, shift=0.7):
    generator = np.random.default_rng(seed)
    quality = generator.choice(scale, size=(cases, 2)).astype(float)
    rows = [
        make_case(str(k), grades=quality[k].tolist() if k < labelled else [None, None])
        for k in range(cases)
    ]
    said = np.clip(quality + (generator.random((cases, 2)) < shift), min(scale), max(scale))
    judgments = [
        judged(str(k), (r,), criteria={"quality": said[k, r]}) for k in range(cases) for r in (0, 1)
    ]
    return rows, judgments, quality, said


def test_two_levels_are_corrected_as_a_rate(pointwise, make_case, judged):
    rows, judgments, quality, _ = graded(
        [0, 1], make_case, judged, shift=0.3, cases=200, labelled=80
    )
    scores = score_run(pointwise(rubric={"min": 0, "max": 1}), rows, judgments)
    metric = scores.metrics["corrected/rogan_gladen"]
    assert metric.low < quality.mean() < metric.high
    assert scores.details["corrected"]["notes"] == []


def test_a_judge_that_always_says_the_same_moves_nothing(pointwise, make_case, judged):
    rows, _, quality, _ = graded([1, 2], make_case, judged)
    judgments = [judged(str(k), (r,), criteria={"quality": 3}) for k in range(60) for r in (0, 1)]
    scores = score_run(pointwise(), rows, judgments)
    assert scores.metrics["corrected/score_mean"].value == pytest.approx(quality[:20].mean())
    assert scores.details["corrected"]["targets"][0]["trust_in_judge"] == 0


def repeated(make_case, judged, noise, cases=300, samples=3, seed=0, **sections):
    generator = np.random.default_rng(seed)
    rows = [make_case(str(k)) for k in range(cases)]
    judgments = [
        judged(str(k), (0, 1), float(generator.normal(scale=noise)), swapped=o, sample=s)
        for k in range(cases)
        for o in (False, True)
        for s in range(samples)
    ]
    return rows, judgments


def test_noise_alone_exceeds_the_noticeable_difference_as_often_as_it_says(
    configure, make_case, judged
):
    rows, judgments = repeated(make_case, judged, 0.2)
    config = configure(swap={"resolve": "mean"})
    metric = score_run(config, rows, judgments).metrics["jnd/noise"]
    assert metric.value == pytest.approx(norm.ppf(0.975) * 0.2 / 6**0.5, rel=0.08)
    assert metric.low < metric.value < metric.high
    assert metric.n == 300 * 2 * 2
    tied = score_run(
        configure(swap={"resolve": "mean"}, tie={"threshold": metric.value}), rows, judgments
    )
    decided = [v for v in tied.verdicts if v.winner != "TIE"]
    assert len(decided) / 300 == pytest.approx(0.05, abs=0.03)


def test_noise_of_scores(pointwise, make_case, judged):
    generator = np.random.default_rng(4)
    rows = [make_case(str(k)) for k in range(200)]
    judgments = [
        judged(str(k), (r,), criteria={"quality": 3 + float(generator.normal(scale=0.5))}, sample=s)
        for k in range(200)
        for r in (0, 1)
        for s in (0, 1)
    ]
    expected = norm.ppf(0.975) * 0.5 * 2**0.5 / 2**0.5
    plain = score_run(pointwise(), rows, judgments).metrics["jnd/noise"]
    assert plain.value == pytest.approx(expected, rel=0.1)
    scaled = score_run(pointwise(scoring={"normalize": "minmax"}), rows, judgments).metrics[
        "jnd/noise"
    ]
    assert scaled.value == pytest.approx(plain.value / 4)
    for how in ("rank", "zscore"):
        rescaled = score_run(pointwise(scoring={"normalize": how}), rows, judgments).metrics[
            "jnd/noise"
        ]
        assert rescaled.value is None
        assert "rescaled within each case" in rescaled.note


def labelled_margins(make_case, judged, slope, cases=800, seed=0, decimals=2):
    generator = np.random.default_rng(seed)
    margins = np.round(generator.uniform(0.01, 1, cases), decimals) * generator.choice(
        [-1, 1], cases
    )
    right = generator.random(cases) < 1 / (1 + np.exp(-slope * np.abs(margins)))
    label = np.where((margins > 0) == right, "A", "B")
    rows = [make_case(str(k), label=str(label[k])) for k in range(cases)]
    return (
        rows,
        [judged(str(k), (0, 1), float(margins[k])) for k in range(cases)],
        np.abs(margins),
        right,
    )


@pytest.mark.parametrize("decimals", [1, 3])
def test_the_margin_at_which_people_agree_three_times_of_four(
    configure, make_case, judged, decimals
):
    rows, judgments, sizes, right = labelled_margins(make_case, judged, 3.0, decimals=decimals)
    metric = score_run(configure(swap={"policy": "none"}), rows, judgments).metrics["jnd/labels"]
    assert metric.low < np.log(3) / 3.0 < metric.high
    found = minimize_scalar(
        lambda b: np.log1p(np.exp(np.where(right, -b, b) * sizes)).sum(), (0, 5)
    )
    assert metric.value == pytest.approx(np.log(3) / found.x, rel=0.03 if decimals == 3 else 1e-6)


@pytest.mark.parametrize(("margins", "labels", "why"), [
    ([1, 1, 1], ["A", "A", "A"], "always equals the label"),
    ([1, 1, 1], ["B", "A", "B"], "not equal the label more often"),
    ([0, 0, 0], ["B", "A", "B"], "no labeled pair has a margin"),
    ([1, 1, 1], ["TIE", None, "TIE"], "no labeled pair has a margin"),
])  # fmt: skip
def test_labels_that_do_not_tell(configure, make_case, judged, margins, labels, why):
    rows = [make_case(str(k), label=label) for k, label in enumerate(labels)]
    judgments = [judged(str(k), (0, 1), float(m)) for k, m in enumerate(margins)]
    metric = score_run(configure(swap={"policy": "none"}), rows, judgments).metrics["jnd/labels"]
    assert metric.value is None
    assert why in metric.note


PAIRS = {"swap": {"policy": "none"}, "mode": {"name": "pairwise"}}


def chosen(case: Case, probability: object) -> Case:
    return replace(case, metadata={**case.metadata, INCLUSION: probability})


def unlabeled(case: Case) -> Case:
    return replace(
        case,
        label=None,
        responses=tuple(replace(one, grade=None, class_name=None) for one in case.responses),
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
    with pytest.raises(
        ConfigError, match=r"is not the probability that a case is chosen.*case 'c'|case 'c'"
    ):
        label_weights([chosen(make_case("c", label="A"), probability), unlabeled(make_case("d"))])


def test_without_unequal_probabilities_nothing_changes(make_case):
    one, other, rest = (
        make_case("a", label="A"),
        make_case("b", label="B"),
        unlabeled(make_case("c")),
    )
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
    assert (
        after.pop("decision/labels_needed").note == "labels of cases sampled at random are needed"
    )
    del before["decision/labels_needed"]
    assert after == before


def simulated(rng, n=300):
    """Return who is right in `n` pairs, and which are flips: the judge is right in 85% of the others, 40% of flips."""
    flips = rng.random(n) < 0.3
    return rng.random(n) < np.where(flips, 0.4, 0.85), flips


def picked_accuracy(configure, make_case, judged, right, flips, rng, labels=60):
    """Return the accuracy from labels of half flips and half others."""
    probability = np.where(flips, labels / 2 / flips.sum(), labels / 2 / (~flips).sum())
    asked = np.concatenate(
        [rng.choice(np.flatnonzero(rows), labels // 2, replace=False) for rows in (flips, ~flips)]
    )
    cases = [make_case(f"c{n}") for n in range(len(right))]
    for n in asked:
        cases[n] = chosen(replace(cases[n], label="A"), float(probability[n]))
    judgments = [
        judged(case.id, (0, 1), 1.0 if ok else -1.0) for case, ok in zip(cases, right, strict=True)
    ]
    config = configure(**PAIRS, scoring={"bootstrap": 150})
    return score_run(config, cases, judgments).metrics


@pytest.mark.slow
def test_weighted_accuracy_is_unbiased_and_its_interval_covers(
    configure, make_case, judged, thorough
):
    """A few samples of one data set: the mean is its accuracy, and 95% intervals hold it in at least 92%.

    Unweighted, the estimate would be 0.63 instead of 0.72.
    """
    rng = np.random.default_rng(7)
    right, flips = simulated(rng)
    found = [
        picked_accuracy(configure, make_case, judged, right, flips, rng)
        for _ in range(40 if thorough else 12)
    ]
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
    cases = [
        chosen(cases[0], 0.01),
        *(chosen(case, 1.0) for case in cases[1:50]),
        *map(unlabeled, cases[50:]),
    ]
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


@pytest.mark.slow
def test_correlations_of_sampled_grades_are_those_of_all(pointwise, judged):
    """Mean over 12 samples: each coefficient is close to that of all grades, nearer than without weights."""
    rng, means = np.random.default_rng(3), []
    score = rng.integers(1, 6, 400)
    grade, probability = (
        np.clip(score + rng.integers(-1, 2, 400), 1, 5),
        np.where(score == 3, 0.1, 0.6),
    )
    for _ in range(12):
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
        judgments = [
            judged(f"c{n}", (0,), None, criteria={"quality": float(s)}) for n, s in enumerate(score)
        ]
        metrics = score_run(pointwise(scoring={"bootstrap": 0}), cases, judgments).metrics
        means.append(
            [
                metrics[f"agreement/{name}"].value
                for name in ("pearson", "spearman", "kendall", "rmse")
            ]
        )
    everyone = [Case(f"c{n}", "", (Response("r", grade=float(g)),)) for n, g in enumerate(grade)]
    truth = score_run(pointwise(scoring={"bootstrap": 0}), everyone, judgments).metrics
    expected = [
        truth[f"agreement/{name}"].value for name in ("pearson", "spearman", "kendall", "rmse")
    ]
    assert np.mean(means, axis=0) == pytest.approx(expected, abs=0.015)


KINDS = {
    "pairs": ({}, lambda n: {"label": "AB"[n % 2]},
              lambda n: {"value": (1.0, -1.0, -1.0)[n % 3], "confidence": 0.6}),
    "scores": ({"mode": {"name": "pointwise"}}, lambda n: {"grade": 1.0 + n % 4},
               lambda n: {"quality": 1.0 + n % 3}),
    "classes": (
     {"mode": {"name": "pointwise"}, "rubric": {"classes": {"x": "", "y": ""}, "positive": "x"}},
     lambda n: {"class_name": "xy"[n % 2]}, lambda n: {"class_name": "xxy"[n % 3]}),
}  # fmt: skip


@pytest.mark.slow
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
                Response("w " * (1 + (n * k) % 5), **(told if k == 1 else {}))
                for k in range(1, size + 1)
            )
            made.append(
                Case(f"c{n}", f"q{n}", responses, metadata=metadata if n % 7 < 3 else {}, **case)
            )
        return made

    judgments = []
    for n in range(40):
        more = answer(n)
        more = {"criteria": more} if "quality" in more else more
        judgments.append(
            Judgment(f"c{n}", tuple(range(size)), tuple(range(size)), 0, "j", "ok", **more)
        )
    without = score_run(config, cases(lambda n: False), judgments).metrics
    plain = score_run(config, cases(lambda n: n % 5), judgments).metrics
    found = score_run(config, cases(lambda n: n % 5, **{INCLUSION: 0.25}), judgments).metrics
    needs = {
        name
        for name, metric in plain.items()
        if metric.value is not None and (name not in without or without[name].value is None)
    }
    assert needs
    touched = {
        name for name in plain if found[name] != plain[name] and plain[name].value is not None
    }
    touched.discard("decision/labels_needed")  # has a value only where labels do not decide
    unweighted = {name for name in needs if ONLY_LABELED in str(found[name].note)}
    assert unweighted <= {
        "calibration/claim",
        "human/alt_test",
        "length/score_slope_at_grade",
        "length/slope_at_label",
    }
    assert touched == needs
