"""Position, length, confidence, the order effect, preference for one's own family, and rates with missing answers."""

from itertools import combinations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import foldnorm
from sklearn.metrics import brier_score_loss

from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.types import Case, Response
from evalkit.scoring.metrics.biases import family, family_notes, judge_families
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats import logistic
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.logistic import expit, fit
from evalkit.scoring.stats.statistic import Tally
from tests.support.penalized import slow_fit
from tests.support.thorough import examples


@pytest.mark.parametrize("policy", ["none", "random"])
def test_position_in_one_order(configure, make_case, judged, policy):
    config = configure(swap={"policy": policy})
    cases = [make_case("x"), make_case("y")]
    own = [judged("x", (0, 1), 1), judged("y", (0, 1), -1)]
    metrics = score_run(config, cases, own).metrics
    assert metrics["position/first_rate"].value == 0.5
    assert "position and quality cannot be separated" in metrics["position/first_rate"].note
    assert metrics["position/consistency"].value is None
    assert "one order" in metrics["position/consistency"].note
    mixed = score_run(config, cases, [own[0], judged("y", (0, 1), -1, swapped=True)]).metrics
    assert mixed["position/first_rate"].value == 1
    assert "cannot be separated" not in mixed["position/first_rate"].note


ROW = st.tuples(st.sampled_from("AB"), st.sampled_from([1, -1]), st.floats(0, 1))


@pytest.mark.slow
@examples(10)
@given(st.lists(ROW, min_size=1, max_size=20))
@example([("A", 1, 0.0), ("A", 1, 6e-8)])  # a gap of 10⁸ errors, for which scipy divides 0 by 0
def test_calibration_equals_the_obvious_version(configure, make_case, judged, rows):
    cases = [make_case(str(k), label=row[0]) for k, row in enumerate(rows)]
    judgments = [judged(str(k), (0, 1), row[1], confidence=row[2]) for k, row in enumerate(rows)]
    config = configure(swap={"policy": "none"}, scoring={"bootstrap": 0})
    metrics = score_run(config, cases, judgments).metrics
    right = np.array([(label == "A") == (margin == 1) for label, margin, _ in rows])
    confidence = np.array([row[2] for row in rows])
    bins = np.minimum((confidence * 10 + 1e-9).astype(int), 9)
    ece = sum(
        abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean()
        for b in set(bins)
    )
    gaps = np.array([np.where(bins == b, confidence - right, 0.0) for b in range(10)])
    errors = gaps.std(axis=1, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else np.zeros(10)
    assert metrics["calibration/ece"].value == pytest.approx(
        _less_noise(gaps.mean(axis=1), errors, ece), abs=1e-7
    )
    expected = brier_score_loss(right, confidence, labels=[False, True])
    assert metrics["calibration/brier"].value == pytest.approx(expected, abs=1e-9)


def _less_noise(gaps, errors, seen):
    """Return the share of the gaps of which as large a sum is expected as was seen, by scipy's folded normal."""

    def beyond(t):
        noisy = errors > 1e-12
        with np.errstate(
            invalid="ignore", divide="ignore"
        ):  # in its higher moments, which are not used
            folded = foldnorm.mean(
                np.abs(t * gaps[noisy]) / errors[noisy], scale=errors[noisy]
            ).sum()
        return folded + np.abs(t * gaps[~noisy]).sum() - seen

    return 0.0 if beyond(0) >= 0 else brentq(beyond, 0, 10) * seen


def test_calibration_bounds_what_is_missing(configure, make_case, judged):
    cases = [make_case(str(k), label="A") for k in range(6)]
    judgments = [judged("0", (0, 1), 1, confidence=0.9), judged("1", (0, 1), -1, confidence=0.8)]
    judgments += [
        judged("2", (0, 1), 1),
        judged("3", (0, 1)),
        judged("4", (0, 1), 0, confidence=0.9),
    ]
    metrics = score_run(configure(swap={"policy": "none"}), cases, judgments).metrics
    brier, ece = metrics["calibration/brier"], metrics["calibration/ece"]
    assert brier.value == pytest.approx((0.01 + 0.64) / 2)
    assert (brier.n, brier.missing) == (ece.n, ece.missing) == (2, 3)
    assert (brier.worst_low, brier.worst_high) == pytest.approx((0.65 / 5, 3.65 / 5))
    bias = (0.1 + 0.8) / 2 - ece.value
    assert bias > 0
    assert (ece.worst_low, ece.worst_high) == pytest.approx((0, 3.9 / 5 - bias))
    confident = [judged(str(k), (0, 1), -1, confidence=1) for k in range(5)]
    one_lost = score_run(configure(swap={"policy": "none"}), cases, confident).metrics[
        "calibration/ece"
    ]
    assert (one_lost.value, one_lost.worst_low, one_lost.worst_high) == pytest.approx((1, 4 / 6, 1))
    unstated = score_run(configure(swap={"policy": "none"}), cases, judgments[2:3]).metrics
    assert unstated["calibration/ece"].value is None
    assert "stated confidence" in unstated["calibration/brier"].note


def test_preference_between_identical_responses(configure, make_case, passes):
    cases = [
        make_case("same", ("x", "x")),
        make_case("three", ("x", "y", "x")),
        make_case("lost", ("z", "z")),
    ]
    judgments = [*passes("same", 1.0, -1.0), *passes("lost", 0.0, None)]
    for unit in combinations(range(3), 2):
        judgments += passes("three", 0.0, 1.0, unit)
    metric = score_run(configure(), cases, judgments).metrics["position/identical_preference"]
    # Passes of equal texts: both of "same" prefer one, one of the two of (0, 2) in "three", none of
    # "lost".
    assert (metric.value, metric.n, metric.missing) == (pytest.approx(3 / 5), 5, 1)
    assert (metric.worst_low, metric.worst_high) == pytest.approx((3 / 6, 4 / 6))
    none = score_run(configure(), [make_case("c")], passes("c", 1.0, 1.0)).metrics[
        "position/identical_preference"
    ]
    assert none.note == "no case has two identical responses"
    unread = score_run(configure(), cases[:1], passes("same", None, None)).metrics[
        "position/identical_preference"
    ]
    assert unread.note == "no pair of identical responses was read"


@pytest.mark.parametrize(("model", "expected"), [
    ("openai/gpt-4o-mini", "gpt"),
    ("o1", "gpt"),
    ("azure/o3-mini", "gpt"),
    ("anthropic/claude-sonnet-4", "claude"),
    ("gemini/gemini-2.0-flash", "gemini"),
    ("google/gemma-2-9b-it", "gemini"),
    ("together_ai/meta-llama/Llama-3-70b", "llama"),
    ("vicuna-13b", "llama"),
    ("Qwen/Qwen2.5-7B-Instruct", "qwen"),
    ("local/smollm2-135m-instruct", "smollm"),
    ("system-a", "system"),
    ("7b", None),
    ("", None),
    (None, None),
])  # fmt: skip
def test_families(model, expected):
    assert family(model) == expected


def case(name, one, two, label):
    return Case(name, "question", (Response("a", one), Response("b", two)), label=label)


def run_of_families(configure, passes, rows, model="openai/gpt-4o"):
    """Score rows of (model of A, model of B, label, margin)."""
    cases = [case(str(k), *row[:3]) for k, row in enumerate(rows)]
    judgments = [j for k, row in enumerate(rows) for j in passes(str(k), row[3], row[3])]
    return score_run(configure(judge={"model": model}), cases, judgments).metrics


ROWS = [
    ("gpt-3.5", "claude-2", "A", 1.0),
    ("claude-2", "gpt-3.5", "B", -1.0),
    ("gpt-3.5", "claude-2", "A", 1.0),
    ("gpt-3.5", "claude-2", "B", 1.0),
    ("claude-2", "gpt-3.5", "A", 1.0),
    ("gpt-3.5", "claude-2", "B", 0.0),
    ("gpt-3.5", "claude-2", "TIE", 1.0),
    ("gpt-3.5", "gpt-4", "A", -1.0),
    ("claude-2", "llama", "A", -1.0),
    ("gpt-3.5", "claude-2", "A", None),
]


def test_own_preference_at_equal_label(configure, passes):
    metrics = run_of_families(configure, passes, ROWS)
    rate, preference = metrics["self/own_rate"], metrics["self/preference"]
    # Decided: rows 0 to 4 and 6; the other wins in row 4.
    assert (rate.value, rate.n, rate.missing) == (pytest.approx(5 / 6), 6, 1)
    # Own preferred by people: 3 of 3 found; the other preferred: 1 of 3 (rows 3, 4, 5).
    assert preference.value == pytest.approx(1 - 1 / 3)
    assert (preference.n, preference.missing) == (6, 1)
    assert (preference.worst_low, preference.worst_high) == (
        pytest.approx(3 / 4 - 1 / 3),
        pytest.approx(1 - 1 / 3),
    )
    assert preference.low < preference.value <= preference.high


def test_what_it_needs(configure, passes):
    unknown = run_of_families(configure, passes, [(None, None, "A", 1.0)])
    assert not [name for name in unknown if name.startswith("self/")]
    others = run_of_families(configure, passes, [("claude", "llama", "A", 1.0)])
    assert {others[f"self/{name}"].note for name in ("own_rate", "preference")} == {
        "no pair has one response of the judge's own family"
    }
    unlabelled = run_of_families(configure, passes, [("gpt-4", "llama", None, 0.0)])
    assert unlabelled["self/own_rate"].note == "no such pair has a winner"
    assert "too few labels" in unlabelled["self/preference"].note


def test_the_warning_names_judge_and_models(configure):
    cases = [
        case("1", "gpt-3.5", "claude-2", None),
        case("2", "gpt-4", "gpt-4o", None),
        case("3", "gpt-5", None, None),
    ]
    (note,) = family_notes(configure(judge={"model": "openai/gpt-4o-mini"}), cases)
    assert note.startswith(
        "judge gpt-4o-mini and gpt-3.5, gpt-4, gpt-4o and 1 more are of the same family (gpt)"
    )
    assert family_notes(configure(judge={"model": "mistral/mistral-large"}), cases) == []


def test_a_panel_has_the_families_of_its_judges():
    judges = [{"model": "openai/gpt-4o"}, {"model": "anthropic/claude-3"}, {"model": "x/7b"}]
    config = RunConfig.model_validate(
        {"judge": {"judges": judges}, "criteria": [{"name": "quality"}]}
    )
    assert judge_families(config) == {"gpt-4o": "gpt", "claude-3": "claude"}


def pairs(seed, n=120, bias=1.0, quality=0.0, advantage=0.0):
    """Simulate lengths, labels and verdicts of a judge that favours length by `bias` a standard deviation."""
    generator = np.random.default_rng(seed)
    ratio = generator.normal(0, 0.5, n)
    first, second = (
        np.round(200 * np.exp(ratio / 2)).astype(int),
        np.round(200 * np.exp(-ratio / 2)).astype(int),
    )
    x = np.log(first / second)
    label = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    p = 1 / (1 + np.exp(-(advantage + bias * x / x.std() + quality * label)))
    return first, second, label, np.where(generator.random(n) < p, 1.0, -1.0)


def run_of_lengths(configure, make_case, judged, first, second, label, verdict, **scoring):
    cases = [
        make_case(str(k), ("x" * a, "y" * b), label={1.0: "A", -1.0: "B", None: None}[choice])
        for k, (a, b, choice) in enumerate(zip(first, second, label, strict=True))
    ]
    judgments = [judged(str(k), (0, 1), value) for k, value in enumerate(verdict)]
    config = configure(swap={"policy": "none"}, scoring={"bootstrap": 400, **scoring})
    return score_run(config, cases, judgments).metrics


@pytest.mark.slow
def test_the_slopes_equal_the_slow_penalized_ones(configure, make_case, judged):
    first, second, label, verdict = pairs(1, n=300, quality=0.7)
    verdict[::9] = 0.0  # ties count half
    metrics = run_of_lengths(configure, make_case, judged, first, second, label, verdict)
    x = np.log(first / second)
    x = x / x.std()
    y = (1 + verdict) / 2
    plain, held = (
        slow_fit(sm.add_constant(x), y),
        slow_fit(sm.add_constant(np.stack([x, label], axis=1)), y),
    )
    assert metrics["length/slope"].value == pytest.approx(plain[1], abs=1e-6)
    assert metrics["length/slope_at_label"].value == pytest.approx(held[1], abs=1e-6)
    assert metrics["length/slope"].low > 0


def test_the_controlled_win_rate_equals_statsmodels(configure, make_case, judged):
    first, second, label, verdict = pairs(2, bias=1.5, advantage=0.4)
    metrics = run_of_lengths(configure, make_case, judged, first, second, label, verdict)
    difference = (first - second).astype(float)
    design = sm.add_constant(np.tanh(difference / difference.std()))
    found = sm.GLM((1 + verdict) / 2, design, family=sm.families.Binomial()).fit(tol=1e-14)
    expected = 1 / (1 + np.exp(-found.params[0]))
    metric = metrics["length/controlled_win_rate"]
    assert metric.value == pytest.approx(expected, abs=1e-9)
    assert metric.low < expected < metric.high
    assert metrics["length/win_rate"].value == pytest.approx(((1 + verdict) / 2).mean())


def test_one_step_is_close_to_fitting_each_resample_anew():
    first, second, label, verdict = pairs(4, n=150, quality=0.5)
    x = np.log(first / second)
    design = np.stack([np.ones(150), x / x.std(), label], axis=1)
    outcome = (1 + verdict) / 2
    item = logistic.rate_at_zero("x", design, outcome, Tally(np.arange(150), 150))
    weights = np.concatenate([rows for _, rows in Clusters.each(150).draw(200, 0)])
    near = item.value(item.table.totals(weights))
    drawn = [np.repeat(np.arange(150), row.astype(int)) for row in weights]
    anew = expit(np.array([fit(design[rows], outcome[rows]).coefficients[0] for rows in drawn]))
    assert np.corrcoef(near, anew)[0, 1] > 0.99
    assert np.quantile(near, [0.025, 0.975]) == pytest.approx(
        np.quantile(anew, [0.025, 0.975]), abs=0.15
    )


@pytest.mark.slow
def test_the_interval_of_a_large_run_is_the_clustered_sandwich(configure, make_case, judged):
    first, second, label, verdict = pairs(5, n=800, bias=0.5)
    metric = run_of_lengths(
        configure, make_case, judged, first, second, label, verdict, bootstrap=2000
    )["length/slope"]
    x = np.log(first / second)
    model = sm.GLM((1 + verdict) / 2, sm.add_constant(x / x.std()), family=sm.families.Binomial())
    error = model.fit(cov_type="HC0").bse[1]
    assert metric.high - metric.low == pytest.approx(2 * 1.96 * error, rel=0.1)


@pytest.mark.parametrize(("first", "second", "verdict", "why"), [
    ([10, 20], [20, 40], [1.0, -1.0], "the same in every pair"),
    ([10, 40], [20, 20], [None, None], "no pair has a verdict"),
])  # fmt: skip
def test_no_slope_has_a_reason(configure, make_case, judged, first, second, verdict, why):
    metrics = run_of_lengths(
        configure, make_case, judged, first, second, [None] * len(first), verdict
    )
    assert metrics["length/slope"].value is None
    assert why in metrics["length/slope"].note
    assert metrics["length/slope_at_label"].note == "no labeled pair has a verdict"


def test_a_fit_that_does_not_settle_is_none(monkeypatch):
    monkeypatch.setattr(logistic, "STEPS", 1)
    assert (
        fit(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 0.0, 1.0])).coefficients
        is None
    )


def test_an_outlier_is_not_taken_for_separation():
    x = np.array([-1.0, -0.5, 0.0, 0.2, 0.5, 1.0, 400.0])
    design, outcome = (
        np.stack([np.ones(7), x], axis=1),
        np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
    )
    expected = sm.GLM(outcome, design, family=sm.families.Binomial()).fit(tol=1e-14).params
    assert fit(design, outcome).coefficients == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=12))
def test_there_is_a_fit_if_and_only_if_the_outcomes_overlap(rows):
    won, lost = ([x for x, y in rows if y == side] for side in (True, False))
    design = np.array([[1.0, x] for x, _ in rows])
    found = fit(design, np.array([float(y) for _, y in rows]))
    overlap = won and lost and min(won) < max(lost) and min(lost) < max(won)
    if len({x for x, _ in rows}) < 2:
        assert "collinear" in found.reason
    else:
        assert (found.coefficients is not None) == bool(overlap)


def test_a_label_that_says_all_leaves_nothing_to_length(configure, make_case, judged):
    first, second, label, _ = pairs(6, n=40)
    metric = run_of_lengths(configure, make_case, judged, first, second, label, label)[
        "length/slope_at_label"
    ]
    assert (metric.value, metric.low) == (None, None)
    assert (
        metric.note
        == "0 verdicts differ from the label, and 10 are needed to see what else they depend on"
    )
    constant = run_of_lengths(configure, make_case, judged, first, second, np.ones(40), label)[
        "length/slope_at_label"
    ]
    assert "collinear" in constant.note


@pytest.mark.slow
@pytest.mark.parametrize(("contrary", "defined"), [(9, False), (20, True)])
def test_few_verdicts_against_the_label_show_nothing(
    configure, make_case, judged, contrary, defined
):
    first, second, label, _ = pairs(7, n=300)
    longer = np.where(first > second, 1.0, -1.0)
    verdict = label.copy()
    verdict[np.flatnonzero(label != longer)[:contrary]] *= -1  # only for the longer one
    metric = run_of_lengths(configure, make_case, judged, first, second, label, verdict)[
        "length/slope_at_label"
    ]
    assert (metric.value is not None) == defined == (metric.low is not None)
    assert not defined or metric.low > 0


@pytest.mark.slow
@pytest.mark.parametrize("slips", [0, 3])
def test_a_judge_that_always_takes_the_longer_answer_is_shown(configure, make_case, judged, slips):
    """Complete separation is the strongest evidence of all, and a verdict or three against it change nothing."""
    first, second, label, _ = pairs(8, n=200)
    verdict = np.where(first > second, 1.0, -1.0)
    verdict[:slips] *= -1
    metrics = run_of_lengths(configure, make_case, judged, first, second, label, verdict)
    for name in ("length/slope", "length/slope_at_label"):
        assert 1 < metrics[name].low < metrics[name].value < metrics[name].high


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("separated", [True, False])
def test_copies_of_a_pair_on_one_prompt_add_no_evidence(size, separated):
    """Of one outcome by prompt, four copies count as one, and as less than four of their own prompts."""
    generator = np.random.default_rng(3)
    x = np.repeat(generator.normal(size=40), size)
    y = (x > 0) * 1.0 if separated else np.repeat(generator.random(40) < 0.5, size) * 1.0
    n = len(x)
    clusters = Clusters.by_key(np.repeat(np.arange(1, 41), size), "prompt")
    item = logistic.slope(
        "length/slope", np.stack([np.ones(n), x], axis=1), y, Tally(np.arange(n), n), 1
    )
    once = logistic.slope(
        "length/slope",
        np.stack([np.ones(40), x[::size]], axis=1),
        y[::size],
        Tally(np.arange(40), 40),
        1,
    )
    settings = ScoringConfig(bootstrap=400)
    metric, single = (
        measure([one], settings, by)["length/slope"]
        for one, by in ((item, clusters), (once, Clusters.each(40)))
    )
    assert metric.high - metric.low > 0.95 * (single.high - single.low)
    assert separated == (metric.low > 0) == (single.low > 0)


@pytest.mark.parametrize(("first", "second", "why"), [
    ([30, 40, 50], [10, 10, 10],
     "the second response is at least as long as the other in only 0% of pairs"),
    ([10, 10, 10], [30, 40, 50],
     "the first response is at least as long as the other in only 0% of pairs"),
    ([10, 20, 30], [10, 20, 30], "the difference in length is the same in every pair"),
])  # fmt: skip
def test_a_win_rate_at_a_length_hardly_seen_is_not_read_off(
    configure, make_case, judged, first, second, why
):
    metrics = run_of_lengths(
        configure, make_case, judged, first, second, [None] * 3, [1.0, -1.0, 1.0]
    )
    assert metrics["length/controlled_win_rate"].value is None
    assert why in metrics["length/controlled_win_rate"].note
    assert metrics["length/win_rate"].value == pytest.approx(2 / 3)


def scores(pointwise, make_case, judged, rows, **scoring):
    """Score cases given as lists of (length, score, grade)."""
    cases = [
        make_case(
            str(k), ["x" * length for length, _, _ in row], grades=[grade for *_, grade in row]
        )
        for k, row in enumerate(rows)
    ]
    judgments = [
        judged(str(k), (r,), score)
        for k, row in enumerate(rows)
        for r, (_, score, _) in enumerate(row)
    ]
    return score_run(pointwise(scoring={"bootstrap": 100, **scoring}), cases, judgments)


LENGTHS = st.tuples(
    st.sampled_from([1, 10, 30, 100, 300]),
    st.integers(1, 5).map(float),
    st.integers(1, 5).map(float),
)


@pytest.mark.slow
@examples(10)
@given(st.lists(st.lists(LENGTHS, min_size=2, max_size=4), min_size=4, max_size=8))
def test_score_slopes_equal_least_squares_with_an_intercept_by_case(
    pointwise, make_case, judged, rows
):
    metrics = scores(pointwise, make_case, judged, rows, bootstrap=0).metrics
    length, score, grade = (
        np.array(column) for column in zip(*(r for row in rows for r in row), strict=True)
    )
    case = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    dummies = (case[:, None] == np.arange(len(rows))).astype(float)
    for name, more in (("length/score_slope", []), ("length/score_slope_at_grade", [grade])):
        design = np.column_stack([np.log10(length), *more, dummies])
        metric = metrics[name]
        if np.linalg.matrix_rank(design, tol=1e-6) == design.shape[1]:
            expected = np.linalg.lstsq(design, score, rcond=None)[0][0]
            assert metric.value == pytest.approx(expected, abs=1e-6)
        elif metric.value is None:
            assert "do not vary within" in metric.note


def test_length_control_takes_out_what_length_adds(pointwise, make_case, judged):
    lengths, quality = (
        [10, 100, 1000],
        [(1.0, 2.0, 1.0), (2.0, 1.0, 1.0), (1.0, 1.0, 2.0), (2.0, 2.0, 1.0)],
    )
    rows = [[(n, q + np.log10(n), q) for n, q in zip(lengths, row, strict=True)] for row in quality]
    controlled = scores(pointwise, make_case, judged, rows, length_control=True)
    found = {
        v.unit: v.score for v in controlled.verdicts if v.case_id == "0" and v.score is not None
    }
    assert [found[(k,)] for k in range(3)] == pytest.approx([3, 4, 3])
    assert controlled.metrics["agreement/pearson"].value == pytest.approx(1)
    plain = scores(pointwise, make_case, judged, rows)
    assert plain.metrics["agreement/pearson"].value < 0.9
    assert controlled.metrics["score/mean"] == plain.metrics["score/mean"]


def test_length_control_without_grades_or_variation(pointwise, make_case, judged):
    raw = scores(
        pointwise, make_case, judged, [[(10, 1.0, None), (100, 3.0, None)]], length_control=True
    )
    assert [v.score for v in raw.verdicts if v.score is not None] == pytest.approx([2, 2])
    same = scores(
        pointwise, make_case, judged, [[(10, 1.0, None), (10, 3.0, None)]], length_control=True
    )
    assert [v.score for v in same.verdicts if v.score is not None] == [1, 3]
    assert scores(pointwise, make_case, judged, [], length_control=True).verdicts == ()
