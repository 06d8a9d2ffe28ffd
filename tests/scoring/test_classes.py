"""Metrics of classes equal those of other libraries; their votes, and bounds over all that may be missing."""

import tracemalloc
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from typing import Any

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t
from sklearn import metrics as sk
from statsmodels.stats.inter_rater import aggregate_raters, cohens_kappa, fleiss_kappa

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Classes
from evalkit.core.types import Case, Judgment, Metric, Response, Verdict, WeightedJudgment
from evalkit.scoring.columns import ClassColumns
from evalkit.scoring.judgments import ABSTAINED, MISSING, SPLIT, read_judgments
from evalkit.scoring.metrics.classes import class_confusion, class_statistics
from evalkit.scoring.metrics.metric_registry import MODELS
from evalkit.scoring.metrics.panels import class_panel_statistics
from evalkit.scoring.pipeline import score_run, verdicts_of
from evalkit.scoring.run_metrics import computed
from evalkit.scoring.stats import agreement_formulas, coefficients
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.coefficients import Unread
from evalkit.scoring.stats.statistic import Statistic
from evalkit.scoring.verdicts.classes import elect, labeled_responses, vote_samples
from tests.support.thorough import examples

CONFIG = RunConfig.model_validate(
    {
        "judge": {"model": "judge"},
        "mode": {"name": "pointwise"},
        "swap": {"policy": "none"},
        "criteria": [{"name": "quality"}],
        "scoring": {"bootstrap": 200},
    }
)
NAMES = ("good", "fair", "bad", "awful")


def columns_of(
    verdicts, labels=None, classes=3, *, positive=0, ordered=False, abstain="unsure", **more
):
    n = len(verdicts)
    labels = [MISSING] * n if labels is None else labels
    return ClassColumns(
        NAMES[:classes],
        ordered,
        positive,
        np.arange(n),
        np.zeros(n, dtype=np.int64),
        n,
        np.array(verdicts, dtype=np.int64),
        np.array(labels, dtype=np.int64),
        abstain=abstain,
        **more,
    )


def class_extras(config, columns, clusters):
    return computed(MODELS, {"config": config, "classes": columns, "clusters": clusters})


def values(columns):
    found = [
        *class_statistics(columns),
        *class_extras(CONFIG, columns, Clusters.each(columns.cases))[0],
    ]
    return {one.name: one.observed() if isinstance(one, Statistic) else one.value for one in found}


def measured(columns, clusters=None):
    clusters = clusters or Clusters.each(columns.cases)
    found = [*class_statistics(columns), *class_extras(CONFIG, columns, clusters)[0]]
    made = measure([one for one in found if isinstance(one, Statistic)], CONFIG.scoring, clusters)
    return made | {one.name: one for one in found if isinstance(one, Metric)}


@st.composite
def tables(draw, classes=(2, 3, 4)):
    k = draw(st.sampled_from(classes))
    rows = st.tuples(st.integers(ABSTAINED, k - 1), st.integers(MISSING, k - 1))
    rows = draw(st.lists(rows, min_size=2, max_size=40))
    return k, *zip(*rows, strict=True)


@pytest.mark.slow
@examples(25)
@given(tables())
def test_metrics_equal_scikit_learn(table):
    k, verdicts, labels = table
    found = values(columns_of(verdicts, labels, k, ordered=True))
    y, x = (np.array(side) for side in (labels, verdicts))
    read = (y >= 0) & (x >= 0)
    y, x, every = y[read], x[read], list(range(k))
    if not len(y):
        assert np.isnan(found["agreement/accuracy"])
        assert np.isnan(found["class/mcc"])
        return
    expected = {"agreement/accuracy": sk.accuracy_score(y, x)}
    own = {"labels": every, "average": None, "zero_division": np.nan}
    for score, end in (
        (sk.precision_score, "precision"),
        (sk.recall_score, "recall"),
        (sk.f1_score, "f1"),
    ):
        expected |= {
            f"class/{name}/{end}": value
            for name, value in zip(NAMES, score(y, x, **own), strict=False)
        }
    expected["class/macro_f1"] = sk.f1_score(y, x, average="macro", zero_division=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = set(y) == set(every)
        expected["class/balanced_accuracy"] = sk.balanced_accuracy_score(y, x) if whole else np.nan
    expected["class/tpr"] = expected["class/good/recall"]
    expected["class/tnr"] = np.mean(x[y != 0] != 0) if (y != 0).any() else np.nan
    expected["class/youden_j"] = expected["class/tpr"] + expected["class/tnr"] - 1
    if len(np.unique(y)) > 1:
        if len(np.unique(x)) > 1:
            expected["class/mcc"] = sk.matthews_corrcoef(y, x)
        kappa = {"kappa": None, "kappa_weighted": "linear", "kappa_quadratic": "quadratic"}
        for end, weights in kappa.items():
            expected[f"agreement/{end}"] = sk.cohen_kappa_score(y, x, labels=every, weights=weights)
    else:
        assert np.isnan(found["agreement/kappa"])
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-9, nan_ok=True), name


@pytest.mark.slow
@examples(20)
@given(tables())
def test_coefficients_equal_statsmodels_and_krippendorff(table):
    k, verdicts, labels = table
    found = values(columns_of(verdicts, labels, k))
    read = [
        (label, verdict)
        for label, verdict in zip(labels, verdicts, strict=True)
        if label >= 0 and verdict >= 0
    ]
    if len({code for pair in read for code in pair}) < 2:
        assert np.isnan(found["agreement/alpha"])
        assert np.isnan(found["agreement/scott_pi"])
        return
    # Fleiss' kappa of two raters is Scott's pi.
    assert found["agreement/scott_pi"] == pytest.approx(
        fleiss_kappa(aggregate_raters(np.array(read))[0]), abs=1e-9
    )
    known = [[np.nan if code < 0 else code for code in side] for side in (labels, verdicts)]
    alpha = krippendorff.alpha(
        reliability_data=known, level_of_measurement="nominal", value_domain=list(range(k))
    )
    assert found["agreement/alpha"] == pytest.approx(alpha, abs=1e-9)
    if len({label for label, _ in read}) > 1:
        counts = np.zeros((k, k))
        np.add.at(counts, tuple(np.array(read).T), 1)
        with np.errstate(all="ignore"):  # it divides by standard errors of 0
            assert found["agreement/kappa"] == pytest.approx(cohens_kappa(counts).kappa, abs=1e-9)
    agreed = np.mean([label == verdict for label, verdict in read])
    shares = np.bincount(np.array(read).ravel(), minlength=k) / (2 * len(read))
    chance = (shares * (1 - shares)).sum() / (k - 1)
    assert found["agreement/ac1"] == pytest.approx((agreed - chance) / (1 - chance), abs=1e-9)


@pytest.mark.slow
@examples(12)
@given(tables())
def test_every_interval_and_every_bound_holds_the_value(table):
    k, verdicts, labels = table
    for metric in measured(columns_of(verdicts, labels, k, ordered=True)).values():
        if metric.value is None:
            assert metric.note
            continue
        if metric.low is not None:
            assert metric.low - 1e-9 <= metric.value <= metric.high + 1e-9, metric
        if metric.worst_low is not None:
            assert metric.worst_low - 1e-9 <= metric.value <= metric.worst_high + 1e-9, metric
        if not metric.missing and metric.worst_low is not None:
            assert metric.worst_low == pytest.approx(metric.worst_high, abs=1e-6), metric


def test_abstentions_are_neither_missing_nor_a_class():
    # Of ten answers one is missing and three abstain; of the six others, four are good.
    verdicts = [0, 0, 0, 0, 1, 1, ABSTAINED, ABSTAINED, ABSTAINED, MISSING]
    found = measured(columns_of(verdicts, [0] * 5 + [1] * 5, 2))
    rate = found["class/good/rate"]
    assert (rate.value, rate.n, rate.missing) == (pytest.approx(4 / 6), 6, 1)
    assert (rate.worst_low, rate.worst_high) == (pytest.approx(4 / 7), pytest.approx(5 / 7))
    assert "6 of 9 answers name a class" in rate.note
    abstained = found["class/abstained"]
    assert (abstained.value, abstained.n, abstained.missing) == (pytest.approx(3 / 9), 9, 1)
    assert (abstained.worst_low, abstained.worst_high) == (pytest.approx(0.3), pytest.approx(0.4))
    recall = found["class/fair/recall"]
    assert (recall.value, recall.n, recall.missing) == (1.0, 1, 1)
    assert (recall.worst_low, recall.worst_high) == (pytest.approx(0.5), 1.0)
    assert (found["agreement/accuracy"].value, found["agreement/accuracy"].n) == (
        pytest.approx(5 / 6),
        6,
    )
    matrix = class_confusion(columns_of(verdicts, [0] * 5 + [1] * 5, 2))[1]["confusion"]["labels"]
    assert matrix["fair"] == {"good": 0, "fair": 1, "unsure": 3, "missing": 1}


def simulated(seed, n, shares, errors, labeled):
    generator = np.random.default_rng(seed)
    k = len(shares)
    true = generator.choice(k, size=n, p=shares)
    verdicts = (
        (generator.random(n)[:, None] > np.array(errors)[true].cumsum(axis=1))
        .sum(axis=1)
        .clip(0, k - 1)
    )
    labels = np.where(generator.random(n) < labeled, true, MISSING)
    return columns_of(verdicts, labels, k), np.bincount(true, minlength=k) / n


THREE = ([0.6, 0.3, 0.1], [[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]])
TWO = ([0.7, 0.3], [[0.9, 0.1], [0.25, 0.75]])


@pytest.mark.parametrize("planted", [TWO, THREE])
def test_corrected_rates_undo_planted_errors_and_sum_to_one(planted):
    columns, truth = simulated(3, 40_000, *planted, labeled=0.5)
    found = values(columns)
    for kind in ("rate", "prediction_powered"):
        rates = [found[f"corrected/{kind}/{name}"] for name in columns.names]
        assert sum(rates) == pytest.approx(1, abs=1e-9)
        assert rates == pytest.approx(truth, abs=0.02)
        assert (
            min(
                abs(found[f"class/{name}/rate"] - rate)
                for name, rate in zip(columns.names, rates, strict=True)
            )
            > 0
        )


def test_two_classes_are_corrected_as_by_rogan_and_gladen():
    columns, _ = simulated(5, 300, *TWO, labeled=0.4)
    found, own = measured(columns), values(columns)
    used = columns.labels >= 0
    said, true = columns.verdicts[used] == 0, columns.labels[used] == 0
    sensitivity, specificity = said[true].mean(), (~said)[~true].mean()
    expected = (own["class/good/rate"] + specificity - 1) / (sensitivity + specificity - 1)
    assert found["corrected/rate/good"].value == pytest.approx(expected, abs=1e-9)
    assert f"Youden's J {sensitivity + specificity - 1:.2f}" in found["corrected/rate/good"].note


def test_more_classes_name_the_condition_number():
    columns, _ = simulated(5, 300, *THREE, labeled=0.4)
    details = class_extras(CONFIG, columns, Clusters.each(columns.cases))[1]["corrected"]
    matrix = np.array([[row[name] for name in columns.names] for row in details["errors"].values()])
    assert details["condition_number"] == pytest.approx(np.linalg.cond(matrix), abs=1e-9)
    judged = np.bincount(columns.verdicts, minlength=3) / len(columns)
    solved = np.linalg.solve(matrix.T, judged)
    found = measured(columns)
    assert [found[f"corrected/rate/{name}"].value for name in columns.names] == pytest.approx(
        solved, abs=1e-9
    )
    assert f"condition number {details['condition_number']:.3g}" in found["corrected/rate/bad"].note
    assert "Youden's J" in found["corrected/rate/bad"].note


def test_rates_that_errors_do_not_determine_are_not_identified():
    labels = [0, 0, 0, 1, 1, 1, 2, 2, 2] * 3
    same = measured(columns_of([0, 1, 2] * 9, labels))
    assert same["corrected/rate/good"].value is None
    assert "not identified" in same["corrected/rate/good"].note
    assert "Youden's J 0.00" in same["corrected/rate/good"].note
    unseen = measured(columns_of([0, 0, 1, 1] * 3, [0, 0, 1, 1] * 3))
    assert "no answer is labeled 'bad'" in unseen["corrected/rate/good"].note
    reversed_ = measured(columns_of([1, 1, 0, 0] * 3, [0, 0, 1, 1] * 3, 2))
    assert "not identified" in reversed_["corrected/rate/good"].note
    # Prediction-powered rates need no inverse.
    assert unseen["corrected/prediction_powered/good"].value == pytest.approx(0.5)


def test_annotators_agree_on_classes_and_the_judge_is_one_of_them():
    generator = np.random.default_rng(1)
    true = generator.integers(0, 3, size=120)

    def errs(rate):
        return np.where(generator.random(120) < rate, generator.integers(0, 3, size=120), true)

    annotators = {name: errs(0.3) for name in ("ann", "ben", "cat", "dan")}
    annotators["ann"] = np.where(generator.random(120) < 0.2, MISSING, annotators["ann"])
    verdicts = errs(0.05)
    verdicts[:10] = ABSTAINED
    columns = columns_of(verdicts, true, annotators=annotators)
    found = measured(columns)
    known = [np.where(codes < 0, np.nan, codes) for codes in annotators.values()]
    alpha = krippendorff.alpha(reliability_data=known, level_of_measurement="nominal")
    assert found["human/alpha"].value == pytest.approx(alpha, abs=1e-9)
    assert found["human/judge"].value > found["human/ceiling"].value
    assert found["human/alt_test"].value == 1.0
    assert found["human/advantage"].value > 0.8
    assert found["human/judge"].missing == 0
    table = class_extras(CONFIG, columns, Clusters.each(120))[1]["annotators"]
    assert [row["annotator"] for row in table] == sorted(annotators)


def test_calibration_of_the_verdict_and_of_each_class():
    verdicts, labels = [0, 0, 1, 1, ABSTAINED], [0, 1, 1, 0, 0]
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.5, 0.5]])
    found = values(columns_of(verdicts, labels, 2, probabilities=p))
    assert found["calibration/brier"] == pytest.approx(np.mean([0.01, 0.64, 0.16, 0.49]))
    right = np.array([1, 0, 0, 1])
    assert found["class/good/brier"] == pytest.approx(np.mean((p[:4, 0] - right) ** 2))
    assert found["class/good/brier"] == pytest.approx(sk.brier_score_loss(right, p[:4, 0]))
    assert found["class/fair/brier"] == pytest.approx(found["class/good/brier"])
    assert 0 <= found["class/good/ece"] <= 1


def test_a_panel_votes_on_classes():
    each = [columns_of(votes) for votes in ([0, 1, 2, 0], [0, 1, 1, ABSTAINED], [0, 2, 1, MISSING])]
    alpha, unanimous, *_ = class_panel_statistics(columns_of([0, 1, 1, 0]), each)
    known = [np.where(one.verdicts < 0, np.nan, one.verdicts) for one in each]
    expected = krippendorff.alpha(reliability_data=known, level_of_measurement="nominal")
    assert alpha.observed() == pytest.approx(expected, abs=1e-9)
    assert (alpha.missing, unanimous.n) == (1, 3)
    assert unanimous.observed() == pytest.approx(1 / 3)


@pytest.mark.thorough
@pytest.mark.slow
def test_many_classes_need_no_matrix_over_pairs_of_cells():
    k, codes = 40, [*range(40)] * 3
    columns = replace(columns_of(codes, codes), names=tuple(map(str, range(k))))
    tracemalloc.start()
    kappa, peak = measured(columns)["agreement/kappa"], tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kappa.low < kappa.value == 1.0
    assert peak < 8 * k**4


def test_means_over_classes_name_the_classes_that_they_omit():
    found = measured(columns_of([0, 0, 1, 1], [0, 1, 1, 0]))
    assert found["class/macro_f1"].note == "without 'bad', which no label names"


@given(tables())
def test_balanced_accuracy_needs_a_label_of_every_class(table):
    k, verdicts, labels = table
    metric = measured(columns_of(verdicts, labels, k))["class/balanced_accuracy"]
    read = {
        label
        for verdict, label in zip(verdicts, labels, strict=True)
        if label >= 0 and verdict >= 0
    }
    assert (metric.value is not None) == (len(read) == k) == (metric.low is not None)
    if read and metric.value is None:
        assert all(f"no label is '{NAMES[c]}'" in metric.note for c in set(range(k)) - read)
        assert metric.worst_low is None


def test_clusters_widen_intervals():
    columns, _ = simulated(8, 100, *TWO, labeled=1.0)
    tenfold = columns_of(np.repeat(columns.verdicts, 10), np.repeat(columns.labels, 10), 2)
    clusters = Clusters(1000, 100, np.repeat(np.arange(100), 10), "prompt")
    alone, apart, together = measured(columns), measured(tenfold), measured(tenfold, clusters)
    for name in ("agreement/kappa", "class/tpr", "class/good/rate", "class/macro_f1"):
        widths = [found[name].high - found[name].low for found in (alone, apart, together)]
        assert widths[2] == pytest.approx(widths[0], rel=0.15), name
        assert widths[1] < 0.5 * widths[0], name


def prompts_of_responses(rng, prompts, size, shared=0.0):
    """Return a judge that is right in 90% of responses; those of a prompt share their errors."""
    labels = (rng.random(prompts * size) < 0.3).astype(np.int64)
    luck = rng.random(prompts * size)
    common = np.repeat(rng.random(prompts), size)
    wrong = np.where(rng.random(prompts * size) < shared, common, luck) > 0.9
    number = np.repeat(np.arange(prompts), size)
    columns = columns_of(np.where(wrong, 1 - labels, labels), labels, 2)
    return columns, Clusters(prompts * size, prompts, number, "prompt")


@pytest.mark.parametrize(("prompts", "size"), [(4, 60), (30, 8)])
def test_few_prompts_of_many_responses_have_students_width(prompts, size):
    ratios = []
    covered = []
    for seed in range(12):
        columns, clusters = prompts_of_responses(np.random.default_rng(seed), prompts, size)
        found = measured(columns, clusters)
        accuracy = found["agreement/accuracy"]
        means = columns.right.reshape(prompts, size).mean(axis=1)
        half = t.ppf(0.975, prompts - 1) * means.std(ddof=1) / np.sqrt(prompts)
        ratios.append((accuracy.high - accuracy.low) / (2 * half))
        covered.append(accuracy.low <= 0.9 <= accuracy.high)
    assert 0.95 < np.median(ratios) < 1.35
    assert np.mean(covered) >= 0.9


def test_clusters_that_all_differ_have_percentile_intervals():
    # Pseudo-clusters are added to at most 1,000 kinds of clusters; here each cluster has its own
    # counts.
    counts = [(hits, wrong) for hits in range(36) for wrong in range(1, 30)]
    verdicts = np.concatenate([[0] * hits + [1] * wrong for hits, wrong in counts])
    cluster = np.repeat(np.arange(len(counts)), [hits + wrong for hits, wrong in counts])
    columns = columns_of(verdicts, np.zeros(len(verdicts), dtype=np.int64), 2)
    rate = measured(columns, Clusters(len(verdicts), len(counts), cluster, "prompt"))["class/tpr"]
    assert rate.low < rate.value < rate.high
    sizes, shares = np.bincount(cluster), np.bincount(cluster, weights=verdicts == 0)
    spread = np.sqrt(((shares - rate.value * sizes) ** 2).sum()) / sizes.sum()
    assert rate.high - rate.low == pytest.approx(2 * 1.96 * spread, rel=0.2)


RUBRIC = {"classes": {"pass": "", "fail": "", "other": ""}, "abstain": "unsure", "positive": "fail"}
CASE = Case(
    "c", "q", (Response("a", class_name="pass"), Response("b")), labels={"ann": ("pass", None)}
)


def config(*judges: str, **more: Any) -> RunConfig:
    panel = {"judges": [{"model": name, "name": name} for name in judges], "name": "panel", **more}
    return RunConfig.model_validate(
        {
            "judge": panel if judges else {"model": "m"},
            "criteria": {"quality": ""},
            "mode": {"name": "pointwise"},
            "swap": {"policy": "none"},
            "rubric": RUBRIC,
            "scoring": {"bootstrap": 50},
        }
    )


def judged(
    said: str | None, sample: int = 0, judge: str = "m", unit: int = 0, **more: Any
) -> Judgment:
    status = "unparseable" if said is None else "ok"
    return Judgment("c", (unit,), (unit,), sample, judge, status, class_name=said, **more)


def classes_of(made: RunConfig, judgments: Sequence[Judgment]) -> ClassColumns:
    classes = Classes.of(made.rubric)
    columns = read_judgments([CASE], judgments, ["quality"], classes)
    return vote_samples(labeled_responses(classes, [CASE]), [CASE], columns)


def verdict(judgments: Sequence[Judgment], made: RunConfig | None = None) -> Verdict:
    return verdicts_of(made or config(), [CASE], judgments)[0]


@pytest.mark.parametrize(("samples", "name", "reason"), [
    (["pass"], "pass", "judged"),
    ([None], None, "missing"),
    (["unsure"], None, "abstained"),
    (["unsure", "unsure", "unsure"], None, "abstained"),
    (["unsure", None], None, "abstained"),
    (["pass", "pass", "fail"], "pass", "judged"),
    (["other", "fail", "other"], "other", "judged"),
    (["pass", "fail"], None, "split"),
    (["fail", "pass"], None, "split"),
    (["pass", "fail", "other"], None, "split"),
    (["pass", "unsure"], None, "split"),
    (["pass", "pass", "unsure"], "pass", "judged"),
    (["unsure", "unsure", "fail"], None, "abstained"),
    (["pass", None, None], "pass", "judged"),
    (["pass", "pass", "fail", "other"], "pass", "judged"),
    (["pass", "pass", "fail", "fail", "other"], None, "split"),
])  # fmt: skip
def test_samples_vote_and_a_tie_for_the_first_place_is_a_split(samples, name, reason):
    found = verdict([judged(said, number) for number, said in enumerate(samples)])
    assert (found.class_name, found.reason, found.label) == (name, reason, "pass")
    assert (found.winner, found.score) == (None, None)
    again = verdict([judged(said, number) for number, said in enumerate(reversed(samples))])
    assert (again.class_name, again.reason) == (name, reason)


@pytest.mark.parametrize(("votes", "name", "reason"), [
    ({"x": "pass", "y": "pass", "z": "fail"}, "pass", "judged"),
    ({"x": "unsure", "y": "unsure", "z": "unsure"}, None, "abstained"),
    ({"x": "pass", "y": "fail", "z": None}, None, "split"),
    ({"x": "pass", "y": None, "z": None}, None, "missing"),  # below the quorum of two
    ({"x": "pass", "y": "unsure", "z": None}, None, "split"),
])  # fmt: skip
def test_judges_of_a_panel_vote(votes, name, reason):
    found = verdict(
        [judged(said, judge=judge) for judge, said in votes.items()], config("x", "y", "z")
    )
    assert (found.class_name, found.reason, found.judge) == (name, reason, "panel")
    assert dict(found.votes) == votes


def test_a_judge_whose_samples_are_split_has_no_vote():
    said = [
        judged("pass", 0, "x"),
        judged("fail", 1, "x"),
        judged("fail", 0, "y"),
        judged("fail", 1, "y"),
    ]
    found = verdict(said, config("x", "y"))
    assert (found.class_name, dict(found.votes)) == ("fail", {"x": None, "y": "fail"})


def test_probabilities_are_those_of_the_classes_averaged_over_samples():
    def chances(**given: float) -> WeightedJudgment:
        return WeightedJudgment(
            classes={"pass": 0.0, "fail": 0.0, "other": 0.0, "unsure": 0.0, **given}
        )

    said = [
        judged("pass", 0, weighted=chances(**{"pass": 0.4, "fail": 0.1, "unsure": 0.5})),
        judged("pass", 1, weighted=chances(**{"pass": 0.6, "fail": 0.4})),
        judged("unsure", unit=1, weighted=chances(unsure=1.0)),
    ]
    made = config()
    found = classes_of(made, said).probabilities
    assert found is not None
    np.testing.assert_allclose(found, [[0.7, 0.3, 0.0], [np.nan] * 3])
    assert verdict(said).confidence == pytest.approx(0.7)


def test_random_votes_agree_with_counting():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 4, (500, 4)).astype(float)
    for row, winner in zip(counts, elect(counts), strict=True):
        first = [place for place, count in enumerate(row) if count == row.max() and count > 0]
        expected = (
            MISSING
            if not first
            else SPLIT
            if len(first) > 1
            else ABSTAINED
            if first[0] == 3
            else first[0]
        )
        assert winner == expected


def test_a_panel_of_split_judges_is_split_and_one_without_answers_is_missing():
    split = [
        judged(said, sample, judge)
        for judge in "xy"
        for sample, said in enumerate(("pass", "fail"))
    ]
    assert verdict(split, config("x", "y")).reason == "split"
    unread = [judged(None, sample, judge) for judge in "xy" for sample in range(2)]
    assert verdict(unread, config("x", "y")).reason == "missing"


def repeated(answers: Sequence[Sequence[str | None]], **more: Any) -> dict[str, Metric]:
    """Return the metrics of cases that are all labeled 'pass' or, every other one, 'fail'."""
    made = config(**more)
    made = made.model_copy(
        update={"mode": made.mode.model_copy(update={"samples": len(answers[0])})}
    )
    cases = [
        Case(f"c{n}", "", (Response("a", class_name=("pass", "fail")[n % 2]),))
        for n in range(len(answers))
    ]
    judgments = [
        replace(judged(said, sample), case_id=case.id)
        for case, row in zip(cases, answers, strict=True)
        for sample, said in enumerate(row)
    ]
    return dict(score_run(made, cases, judgments).metrics)


@pytest.mark.parametrize("samples", [2, 4])
def test_samples_that_contradict_each_other_are_not_missing(samples):
    """A coin for each sample: half of two samples are split; agreement beyond chance is 0, and nothing is missing."""
    coins = np.random.default_rng(samples).integers(0, 2, (200, samples))
    found = repeated([[("pass", "fail")[coin] for coin in row] for row in coins])
    split = float((2 * coins.sum(axis=1) == samples).mean())
    assert found["class/split"].value == split
    assert found["agreement/accuracy"].missing == found["class/split"].missing == 0
    assert found["agreement/accuracy"].n == 200 - round(200 * split)
    assert f"{200 - round(200 * split)} of 200 answers name a class" in str(
        found["agreement/accuracy"].note
    )
    assert found["samples/flip_rate"].value == pytest.approx(0.5, abs=0.05)
    alpha = found["samples/alpha"]
    assert alpha.low is not None
    assert alpha.high is not None
    assert alpha.low < 0 < alpha.high


def test_missing_samples_are_missing_and_an_abstention_is_an_answer():
    found = repeated([["pass", "pass"], ["unsure", "fail"], ["pass", None], [None, None]])
    assert (found["samples/flip_rate"].value, found["samples/flip_rate"].n) == (0.5, 2)
    assert found["samples/alpha"].missing == found["samples/unanimous"].missing == 2
    assert (found["class/split"].n, found["class/split"].missing) == (3, 1)
    assert found["agreement/accuracy"].missing == 1


def test_samples_of_each_judge_of_a_panel_are_compared():
    made = config("x", "y")
    made = made.model_copy(update={"mode": made.mode.model_copy(update={"samples": 2})})
    said = [
        judged(answer, sample, judge)
        for judge in "xy"
        for sample, answer in enumerate(("pass", "fail"))
    ]
    metrics = score_run(made, [CASE], said).metrics
    assert metrics["judge/x/samples/flip_rate"].value == metrics["class/split"].value == 1.0
    assert "samples/flip_rate" not in metrics


@pytest.mark.parametrize(("judgment", "said"), [
    (judged("passed"), "it was judged 'passed', which is not among pass, fail, other, unsure"),
    (Judgment("c", (0,), (0,), 0, "m", "ok", criteria={"quality": 3.0}),
     "it was not judged by class"),
])  # fmt: skip
def test_a_judgment_of_another_rubric_is_refused(judgment, said):
    with pytest.raises(ConfigError, match=said):
        score_run(config(), [CASE], [judgment])


def test_a_label_of_another_rubric_is_refused():
    case = Case("c", "q", (Response("a", class_name="passed"),))
    with pytest.raises(
        ConfigError,
        match="case 'c': the label 'passed' is not one of the classes pass, fail, other",
    ):
        score_run(config(), [case], [])


def test_a_class_is_not_scored_on_a_scale():
    scale = config().model_copy(update={"rubric": RunConfig.model_fields["rubric"].default})
    with pytest.raises(ConfigError, match="it was judged by class, and the rubric is a scale"):
        score_run(scale, [CASE], [judged("pass")])


@st.composite
def tables_between(draw, classes=(2, 3), most=3):
    k = draw(st.sampled_from(classes))
    cells = draw(st.lists(st.integers(0, 4), min_size=k * k, max_size=k * k))
    missing = draw(st.lists(st.integers(0, most), min_size=k, max_size=k))
    return Unread(np.array(cells, dtype=float).reshape(k, k), np.array(missing, dtype=float))


def fillings(unread):
    """Return every matrix, flat, that naming a class for each missing verdict can give."""
    k = len(unread.table)
    rows = [
        [
            np.bincount(list(picked), minlength=k)
            for picked in combinations_with_replacement(range(k), int(count))
        ]
        for count in unread.missing
    ]
    return np.array([(unread.table + np.array(fill)).ravel() for fill in product(*rows)])


def of_class(c, name):
    def value(totals):
        table = agreement_formulas.matrices(totals)
        hit, verdicts, labels = table[:, c, c], table[:, :, c].sum(axis=1), table[:, c].sum(axis=1)
        n = table.sum(axis=(1, 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            recall, wrong = hit / labels, (verdicts - hit) / (n - labels)
            return {
                "precision": hit / verdicts,
                "recall": recall,
                "f1": 2 * hit / (verdicts + labels),
                "specificity": 1 - wrong,
                "youden": recall - wrong,
            }[name]

    return value


def check(found, values, observed, *, exact):
    """Check bounds against all values, and the observed one, which some hold as well."""
    defined = values[np.isfinite(values)]
    if not len(defined):
        return
    assert found[0] is not None
    assert found[0] <= defined.min() + 1e-9
    assert found[1] >= defined.max() - 1e-9
    ends = [*defined, *([observed] if np.isfinite(observed) else [])]
    if "low" in exact:
        assert found[0] == pytest.approx(min(ends), abs=1e-9)
    if "high" in exact:
        assert found[1] == pytest.approx(max(ends), abs=1e-9)


@examples(25)
@given(tables_between(), st.data())
def test_rates_of_a_class_have_exact_bounds(unread, data):
    c = data.draw(st.integers(0, len(unread.table) - 1))
    every, own = fillings(unread), unread.table.reshape(1, -1)
    for name in ("precision", "recall", "f1", "specificity", "youden"):
        value = of_class(c, name)
        low, high = unread.of_class(getattr(agreement_formulas, name), c)
        check((low, high), value(every), np.nan, exact=("low", "high"))
        observed = value(own)[0]
        if np.isfinite(observed):
            assert low - 1e-9 <= observed <= high + 1e-9, name


SEVERAL_LABELS = {"kappa", "weighted_kappa", "matthews"}
COEFFICIENTS = {
    "balanced_accuracy": (lambda t: agreement_formulas.mean_defined(agreement_formulas.recalls(t)),
                          ("low", "high")),
    "macro_f1": (lambda t: agreement_formulas.mean_defined(agreement_formulas.f1_scores(t)),
                 ("high",)),
    "kappa": (agreement_formulas.kappa, ("low", "high")),
    "weighted_kappa": (lambda t: agreement_formulas.weighted_kappa(t, 2), ("low", "high")),
    "scott_pi": (agreement_formulas.scott_pi, ()),
    "alpha": (agreement_formulas.alpha, ()),
    "ac1": (agreement_formulas.ac1, ()),
    "matthews": (agreement_formulas.matthews, ()),
}  # fmt: skip


@pytest.mark.slow
@examples(25)
@given(tables_between())
@pytest.mark.parametrize("name", sorted(COEFFICIENTS))
def test_coefficients_have_bounds_that_hold_every_filling(name, unread):
    value, exact = COEFFICIENTS[name]
    if name in SEVERAL_LABELS and np.count_nonzero(unread.labels) < 2:
        return
    found = getattr(unread, name)(2) if name == "weighted_kappa" else getattr(unread, name)()
    check(found, value(fillings(unread)), value(unread.table.reshape(1, -1))[0], exact=exact)


@examples(25)
@given(tables_between(classes=(2,), most=6))
def test_two_classes_have_exact_bounds_of_macro_f1_and_mcc(unread):
    every, own = fillings(unread), unread.table.reshape(1, -1)
    check(
        unread.macro_f1(),
        COEFFICIENTS["macro_f1"][0](every),
        COEFFICIENTS["macro_f1"][0](own)[0],
        exact=("low", "high"),
    )
    values = agreement_formulas.matthews(every)
    if np.count_nonzero(unread.labels) == 2 and np.isfinite(values).all():
        check(unread.matthews(), values, agreement_formulas.matthews(own)[0], exact=("low", "high"))


@examples(40)
@given(tables_between(most=4))
def test_bounds_by_numerator_and_denominator_apart_hold_every_filling_too(unread):
    if np.count_nonzero(unread.labels) < 2:
        return
    every, own = fillings(unread), unread.table.reshape(1, -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coefficients, "VERTICES", 0)
        for name in ("scott_pi", "alpha", "ac1", "matthews"):
            value = COEFFICIENTS[name][0]
            check(getattr(unread, name)(), value(every), value(own)[0], exact=())


def test_one_class_and_a_missing_verdict_bound_nothing(monkeypatch):
    """Where all verdicts may agree by chance alone, the least disagreement by chance is 0."""
    monkeypatch.setattr(coefficients, "VERTICES", 0)
    unread = Unread(np.array([[5.0, 0], [0, 0]]), np.array([1.0, 0]))
    low, high = unread.scott_pi()
    every = COEFFICIENTS["scott_pi"][0](fillings(unread))
    assert low == -1
    assert high >= np.nanmax(every)


def test_bounds_of_many_missing_verdicts_are_close():
    # 30 labels of each of three classes, 20 of them read and 3 of these wrong.
    unread = Unread(np.array([[18.0, 1, 1], [1, 18, 1], [1, 1, 18]]), np.array([10.0, 10, 10]))
    for name, low, high in (
        ("scott_pi", 0.392, 0.9),
        ("alpha", 0.395, 0.901),
        ("ac1", 0.4, 0.9),
        ("kappa", 0.4, 0.9),
        ("matthews", 0.4, 0.9),
    ):
        found = getattr(unread, name)()
        assert found == pytest.approx((low, high), abs=0.01), name
