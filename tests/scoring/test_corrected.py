"""Means corrected by a labelled subset, and the tie threshold as a just-noticeable difference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from evalkit.scoring import score_run
from evalkit.scoring.metrics.corrections import Target, prediction_powered, rogan_gladen
from evalkit.scoring.stats.bootstrap import Tally
from evalkit.types import Case, Response


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


def test_a_run_with_labels_on_some(configure, make_case, judged):
    rows, judgments, truth, said = half_labelled(make_case, judged)
    scores = score_run(configure(swap={"policy": "none"}), rows, judgments)
    powered, mended = scores.metrics["corrected/win_rate/a"], scores.metrics["corrected/rogan_gladen/a"]
    for metric in (powered, mended):
        assert metric.low < np.mean(truth == "A") < metric.high
        assert metric.low < metric.value < metric.high
    assert powered.n == 40
    assert "40 labels and 80 answers without" in powered.note
    assert "random subset" in powered.note
    assert "errs as often" in mended.note
    plan = scores.details["corrected"]["targets"][0]
    assert plan["judge"] == pytest.approx(np.mean(said == "A"))
    assert plan["people"] == pytest.approx(np.mean(truth[:40] == "A"))
    assert plan["corrected"] == powered.value
    assert [row["labels"] for row in plan["more_labels"]] == [40, 80]
    widths = [row["width"] for row in plan["more_labels"]]
    assert widths[1] < widths[0] < plan["more_labels"][0]["without_judge"]
    assert widths[0] == pytest.approx(powered.high - powered.low, rel=0.25)
    assert scores.details["corrected"]["notes"]


@pytest.mark.parametrize("labelled", [3, 12, 40])
@pytest.mark.parametrize("seed", range(6))
def test_corrected_rates_sum_to_one(configure, make_case, judged, seed, labelled):
    generator = np.random.default_rng(seed)
    truth = generator.choice(["A", "B", "TIE"], size=60, p=[0.85, 0.1, 0.05])
    said = np.where(generator.random(60) < 0.6, truth, generator.choice(["A", "B", "TIE"], size=60))
    rows = [make_case(str(k), label=truth[k] if k < labelled else None) for k in range(60)]
    margins = {"A": 1.0, "B": -1.0, "TIE": 0.0}
    judgments = [judged(str(k), (0, 1), margins[said[k]]) for k in range(60)]
    scores = score_run(configure(swap={"policy": "none"}), rows, judgments)
    rates = [scores.metrics[f"corrected/{name}"] for name in ("win_rate/a", "win_rate/b", "tie_rate")]
    assert sum(rate.value for rate in rates) == pytest.approx(1, abs=1e-12)
    for rate in rates:
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
        assert rate.low < rate.high
    assert [one["corrected"] for one in scores.details["corrected"]["targets"]] == [rate.value for rate in rates]


def test_a_judge_that_knows_nothing_is_not_trusted(configure, make_case, judged):
    rows, judgments, truth, _ = half_labelled(make_case, judged, right=0.5, seed=3)
    scores = score_run(configure(swap={"policy": "none"}), rows, judgments)
    powered = scores.metrics["corrected/win_rate/a"]
    assert powered.value == pytest.approx(np.mean(truth[:40] == "A"), abs=0.08)
    assert abs(scores.details["corrected"]["targets"][0]["trust_in_judge"]) < 0.3
    mended = scores.metrics["corrected/rogan_gladen/a"]
    assert mended.low is None
    assert "not identified" in mended.note or "not defined in" in mended.note


@pytest.mark.parametrize(
    ("labels", "powered", "mended"),
    [
        ([None] * 6, "no answer has a label", "no answer has a label"),
        (["A"] + [None] * 5, "fewer than two", "all belong to one class"),
        (["A", "A"] + [None] * 4, None, "all belong to one class"),
        (["B", "A", "B", "A", "B", "A"], None, "sum to 1 or less"),
    ],
)
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


def test_labels_on_all_are_the_answer_themselves(configure, make_case, judged):
    rows, judgments, truth, _ = half_labelled(make_case, judged, labelled=120)
    scores = score_run(configure(swap={"policy": "none"}), rows, judgments)
    powered = scores.metrics["corrected/win_rate/a"]
    assert powered.value == pytest.approx(np.mean(truth == "A"))
    assert "the mean of the labels" in powered.note
    assert scores.metrics["corrected/rogan_gladen/a"].value == pytest.approx(powered.value)
    assert scores.details["corrected"]["targets"][0]["note"] == "every answer has a label"


def test_missing_answers_are_counted_and_nothing_is_enough(configure, make_case, judged):
    rows, judgments, *_ = half_labelled(make_case, judged, cases=30, labelled=10)
    lost = [judged("0", (0, 1)), *judgments[1:]]
    metric = score_run(configure(swap={"policy": "none"}), rows, lost).metrics["corrected/win_rate/a"]
    assert (metric.n, metric.missing) == (9, 1)
    empty = score_run(configure(swap={"policy": "none"}), [], []).details["corrected"]["targets"][0]
    assert (empty["judge"], empty["corrected"]) == (None, None)


def graded(scale, make_case, judged, seed=0, cases=60, labelled=20, shift=0.7):
    generator = np.random.default_rng(seed)
    quality = generator.choice(scale, size=(cases, 2)).astype(float)
    rows = [make_case(str(k), grades=quality[k].tolist() if k < labelled else [None, None]) for k in range(cases)]
    said = np.clip(quality + (generator.random((cases, 2)) < shift), min(scale), max(scale))
    judgments = [judged(str(k), (r,), criteria={"quality": said[k, r]}) for k in range(cases) for r in (0, 1)]
    return rows, judgments, quality, said


def test_a_mean_score_that_is_too_high_is_brought_down(pointwise, make_case, judged):
    rows, judgments, quality, said = graded([1, 2, 3, 4], make_case, judged)
    scores = score_run(pointwise(), rows, judgments)
    metric = scores.metrics["corrected/score_mean"]
    assert scores.metrics["score/mean"].value == pytest.approx(said.mean())
    assert metric.low < quality.mean() < metric.high < said.mean()
    assert "corrected/rogan_gladen" not in scores.metrics
    assert "more levels, each rate depends" in scores.details["corrected"]["notes"][0]
    widths = scores.details["corrected"]["targets"][0]["more_labels"]
    assert [row["labels"] for row in widths] == [40, 80]


def test_two_levels_are_corrected_as_a_rate(pointwise, make_case, judged):
    rows, judgments, quality, _ = graded([0, 1], make_case, judged, shift=0.3, cases=200, labelled=80)
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


def test_noise_alone_exceeds_the_noticeable_difference_as_often_as_it_says(configure, make_case, judged):
    rows, judgments = repeated(make_case, judged, 0.2)
    config = configure(swap={"resolve": "mean"})
    metric = score_run(config, rows, judgments).metrics["jnd/noise"]
    assert metric.value == pytest.approx(norm.ppf(0.975) * 0.2 / 6**0.5, rel=0.08)
    assert metric.low < metric.value < metric.high
    assert metric.n == 300 * 2 * 2
    tied = score_run(configure(swap={"resolve": "mean"}, tie={"threshold": metric.value}), rows, judgments)
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
    scaled = score_run(pointwise(scoring={"normalize": "minmax"}), rows, judgments).metrics["jnd/noise"]
    assert scaled.value == pytest.approx(plain.value / 4)
    for how in ("rank", "zscore"):
        rescaled = score_run(pointwise(scoring={"normalize": how}), rows, judgments).metrics["jnd/noise"]
        assert rescaled.value is None
        assert "rescaled within each case" in rescaled.note


def labelled_margins(make_case, judged, slope, cases=800, seed=0, decimals=2):
    generator = np.random.default_rng(seed)
    margins = np.round(generator.uniform(0.01, 1, cases), decimals) * generator.choice([-1, 1], cases)
    right = generator.random(cases) < 1 / (1 + np.exp(-slope * np.abs(margins)))
    label = np.where((margins > 0) == right, "A", "B")
    rows = [make_case(str(k), label=str(label[k])) for k in range(cases)]
    return rows, [judged(str(k), (0, 1), float(margins[k])) for k in range(cases)], np.abs(margins), right


@pytest.mark.parametrize("decimals", [1, 3])
def test_the_margin_at_which_people_agree_three_times_of_four(configure, make_case, judged, decimals):
    rows, judgments, sizes, right = labelled_margins(make_case, judged, 3.0, decimals=decimals)
    metric = score_run(configure(swap={"policy": "none"}), rows, judgments).metrics["jnd/labels"]
    assert metric.low < np.log(3) / 3.0 < metric.high
    found = minimize_scalar(lambda b: np.log1p(np.exp(np.where(right, -b, b) * sizes)).sum(), (0, 5))
    assert metric.value == pytest.approx(np.log(3) / found.x, rel=0.03 if decimals == 3 else 1e-6)


@pytest.mark.parametrize(
    ("margins", "labels", "why"),
    [
        ([1, 1, 1], ["A", "A", "A"], "always equals the label"),
        ([1, 1, 1], ["B", "A", "B"], "not equal the label more often"),
        ([0, 0, 0], ["B", "A", "B"], "no labeled pair has a margin"),
        ([1, 1, 1], ["TIE", None, "TIE"], "no labeled pair has a margin"),
    ],
)
def test_labels_that_do_not_tell(configure, make_case, judged, margins, labels, why):
    rows = [make_case(str(k), label=label) for k, label in enumerate(labels)]
    judgments = [judged(str(k), (0, 1), float(m)) for k, m in enumerate(margins)]
    metric = score_run(configure(swap={"policy": "none"}), rows, judgments).metrics["jnd/labels"]
    assert metric.value is None
    assert why in metric.note


def test_how_the_ranking_hangs_on_the_threshold(configure, judged):
    generator = np.random.default_rng(2)
    names = ("close", "many", "far")
    rows = [Case(str(k), "q", tuple(Response("x" * 5, names[(k + n) % 3]) for n in range(3))) for k in range(40)]
    lead = {("close", "many"): 0.1, ("close", "far"): 0.1, ("many", "far"): 0.6}
    judgments = []
    for k in range(40):
        for i, j in [(0, 1), (0, 2), (1, 2)]:
            one, two = names[(k + i) % 3], names[(k + j) % 3]
            size = lead.get((one, two)) or -lead[two, one]
            wrong = generator.random() < 0.15
            judgments.append(judged(str(k), (i, j), -size if wrong else size))
    scores = score_run(configure(swap={"policy": "none"}, tie={"threshold": 0.0}), rows, judgments)
    ranking = scores.details["jnd"]["ranking"]
    assert ranking[0]["threshold"] == 0
    assert ranking[0]["order"] == ["close", "many", "far"]
    assert ranking[0]["kendall"] == 1
    assert ranking[0]["by"] == "rating"
    second = next(row for row in ranking if row["threshold"] == 0.1)
    assert second["order"][0] == "many"
    assert second["kendall"] < 1
    assert second["tie_rate"] == pytest.approx(2 / 3)
    last = ranking[-1]
    assert (last["tie_rate"], last["kendall"], last["by"]) == (1, None, "win rate")
