"""Confidence recalibrated out of fold, and penalized logistic regression against published and exact results."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

from evalkit.scoring.metrics.calibration import EDGE, by_isotonic, by_temperature
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats import logistic
from evalkit.scoring.stats.logistic import Penalized, fit, penalized_fit
from tests.support.penalized import slow_fit, slow_likelihood
from tests.support.thorough import examples


def judge(seed, n, temperature):
    """Return confidences and outcomes of a judge whose logits are `temperature` times too large."""
    generator = np.random.default_rng(seed)
    honest = generator.uniform(0.5, 0.95, n)
    right = generator.random(n) < honest
    return 1 / (1 + np.exp(-temperature * np.log(honest / (1 - honest)))), right.astype(float)


def run(configure, make_case, judged, confidence, right, **scoring):
    cases = [make_case(f"case {k}", label="A") for k in range(len(right))]
    judgments = [
        judged(f"case {k}", (0, 1), 1.0 if ok else -1.0, confidence=float(c))
        for k, (c, ok) in enumerate(zip(confidence, right, strict=True))
    ]
    return score_run(
        configure(swap={"policy": "none"}, scoring={"bootstrap": 200, **scoring}), cases, judgments
    )


def test_an_overconfident_judge_is_set_right(configure, make_case, judged):
    scores = run(configure, make_case, judged, *judge(3, 600, 3.0))
    metrics = scores.metrics
    before, slope = metrics["calibration/ece"], metrics["calibration/slope"]
    assert slope.low < 1 / 3 < slope.high < 0.6
    for name in ("temperature", "isotonic"):
        after = metrics[f"calibration/ece_{name}"]
        assert after.value < 0.6 * before.value
        assert metrics[f"calibration/brier_{name}"].value < metrics["calibration/brier"].value
        assert after.n == before.n == 600
    assert set(scores.details["reliability"]) == {"stated", "temperature", "isotonic"}


def test_the_slope_equals_the_slow_penalized_one(configure, make_case, judged):
    confidence, right = judge(3, 80, 2.0)
    logit = np.log(confidence / (1 - confidence))
    metric = run(configure, make_case, judged, confidence, right).metrics["calibration/slope"]
    assert metric.value == pytest.approx(slow_fit(logit[:, None], right)[0], abs=1e-6)
    assert metric.low < metric.value < metric.high


@given(
    st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=25),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_isotonic_equals_scikit_learn(rows, new):
    confidence, right = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    model = IsotonicRegression(out_of_bounds="clip").fit(confidence / 10, right)
    found = by_isotonic(confidence / 10, right, np.array(new))
    assert found == pytest.approx(model.predict(np.array(new)), abs=1e-9)


@pytest.mark.slow
def test_isotonic_imports_no_optimizer():
    lines = (
        "import sys, numpy as np",
        "from evalkit.scoring.metrics.calibration import by_isotonic",
        "print(*by_isotonic(np.array([0.1, 0.5, 0.9]), np.array([1.0, 0, 1]), np.array([0.1, 0.7])))",
        "assert not any(name.startswith('scipy') for name in sys.modules), sorted(sys.modules)",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["0.5", "0.75"], "")


def test_temperature_equals_the_best_of_a_fine_grid():
    confidence, right = judge(4, 200, 2.5)
    logit = np.log(confidence / (1 - confidence))
    factors = np.linspace(0.01, 3, 3000)
    p = 1 / (1 + np.exp(-factors[:, None] * logit))
    loss = -(right * np.log(p) + (1 - right) * np.log(1 - p)).sum(axis=1)
    best = factors[loss.argmin()]
    new = np.array([0.6, 0.9])
    expected = 1 / (1 + np.exp(-best * np.log(new / (1 - new))))
    assert by_temperature(confidence, right, new) == pytest.approx(expected, abs=1e-3)
    assert by_temperature(np.array([0.9, 0.8]), np.ones(2), new) == pytest.approx(new)
    assert 0 < by_temperature(confidence, right, np.array([1.0]))[0] < 1 - EDGE / 10
    assert by_isotonic(np.zeros(0), np.zeros(0), new) == pytest.approx(new)


def test_each_fold_is_set_by_the_others_only(configure, make_case, judged):
    # One case turned round moves the confidences of all folds but its own.
    confidence, right = judge(5, 60, 2.0)
    one = run(configure, make_case, judged, confidence, right, bootstrap=0).metrics[
        "calibration/brier_isotonic"
    ]
    shown = run(configure, make_case, judged, confidence, right, bootstrap=0, seed=9).metrics
    assert shown["calibration/brier_isotonic"] == one
    fitted_on_itself = brier_score_loss(right, by_isotonic(confidence, right, confidence))
    assert one.value > fitted_on_itself


def test_too_few_cases_are_not_recalibrated(configure, make_case, judged):
    scores = run(configure, make_case, judged, *judge(6, 19, 1.0))
    for name in ("calibration/slope", "calibration/ece_temperature", "calibration/brier_isotonic"):
        metric = scores.metrics[name]
        assert (metric.value, metric.worst_low) == (None, None)
        assert "fewer than 20 cases" in metric.note
    assert set(scores.details["reliability"]) == {"stated"}
    assert "reliability" not in run(configure, make_case, judged, [], []).details


def test_confidence_that_never_varies_from_a_half(configure, make_case, judged):
    metric = run(configure, make_case, judged, [0.5] * 30, [True, False] * 15).metrics[
        "calibration/slope"
    ]
    assert metric.note == "every confidence is 0.5"


def test_the_reliability_curve(configure, make_case, judged):
    curve = run(
        configure, make_case, judged, [0.55, 0.6, 0.95, 0.95, 1.0], [1, 0, 1, 1, 0]
    ).details["reliability"]
    rows = [
        (row["from"], row["to"], row["n"], row["cases"], row["accuracy"]) for row in curve["stated"]
    ]
    assert rows == [
        (0.5, 0.6, 1, 1, 1),
        (0.6, 0.7, 1, 1, 0),
        (0.9, 1.0, 3, 3, pytest.approx(2 / 3)),
    ]
    last = curve["stated"][-1]
    assert last["confidence"] == pytest.approx(2.9 / 3)
    assert last["low"] < last["accuracy"] < last["high"]


ENDOMETRIAL = """
0 13 164 0|0 16 226 0|0 8 314 0|0 34 268 0|0 20 128 0|0 5 231 0|0 17 180 0|0 10 168 0|0 26 156 0|0 17 231 0|0 8 201 0
0 7 189 0|0 20 315 0|0 10 123 0|0 18 127 0|0 16 176 0|0 18 200 0|0 8 264 1|0 29 88 1|0 12 127 1|0 20 137 1|1 38 97 1
1 22 114 1|1 7 88 1|1 25 91 1|1 15 58 1|0 7 97 1|0 28 150 0|0 11 133 0|0 19 237 0|0 10 182 0|0 10 313 0|0 18 131 0
0 14 192 0|0 21 164 0|0 11 201 0|0 17 188 0|0 25 193 0|0 16 211 0|0 19 129 0|0 15 172 0|0 33 75 0|0 24 192 0|0 48 184 1
0 12 111 1|0 19 161 1|0 2 118 1|1 22 144 1|1 40 118 1|1 5 93 1|1 0 117 1|0 21 119 1|0 15 106 1|0 29 202 0|0 15 229 0
0 12 233 0|0 3 290 0|0 20 170 0|0 23 141 0|0 12 225 0|0 22 154 0|0 42 197 0|0 15 175 0|0 13 216 0|0 14 257 0|0 19 137 0
0 12 361 0|0 13 204 0|0 10 217 0|0 12 169 1|1 49 27 1|0 6 184 1|0 5 130 1|0 17 96 1|1 11 101 1|1 21 98 1|0 5 35 1
1 19 102 1|0 33 85 1
"""
"""Neovascularization, pulsatility index, 100 × endometrium height, and histology (Heinze and
Schemper 2002)."""
Z = stats.norm.ppf(0.975)


def model(design, outcome):
    return Penalized(design, outcome, np.ones(len(outcome)))


def test_the_published_example_of_separation():
    """Heinze and Schemper 2002, table III, with the decimals that logistf gives; NV separates the outcomes."""
    rows = np.array(
        [row.split() for row in ENDOMETRIAL.strip().replace("\n", "|").split("|")], dtype=float
    )
    assert rows.shape == (79, 4)
    design, outcome = np.column_stack([np.ones(79), rows[:, :2], rows[:, 2] / 100]), rows[:, 3]
    assert fit(design, outcome).coefficients is None
    fitted = penalized_fit(design, outcome).coefficients
    assert fitted == pytest.approx([3.77455951, 2.92927330, -0.03475175, -2.60416387], abs=1e-6)
    intervals = [model(design, outcome).interval(fitted, place, Z) for place in range(4)]
    expected = [
        (1.0825371, 7.2092805),
        (0.6097244, 7.8546317),
        (-0.1244587, 0.0404555),
        (-4.3651832, -1.2327211),
    ]
    assert np.array(intervals) == pytest.approx(np.array(expected), abs=1e-6)


@given(*[st.integers(0, 30)] * 4)
def test_a_table_of_two_by_two_gets_half_a_count_in_each_cell(a, b, c, d):
    """For a saturated model the penalty is exactly half an observation in each cell (Firth 1993, section 3.3)."""
    if not (a + b and c + d):
        return
    x, y = (
        np.repeat([1.0, 1.0, 0.0, 0.0], [a, b, c, d]),
        np.repeat([1.0, 0.0, 1.0, 0.0], [a, b, c, d]),
    )
    fitted = penalized_fit(np.stack([np.ones(len(x)), x], axis=1), y).coefficients
    expected = np.log((a + 0.5) * (d + 0.5) / ((b + 0.5) * (c + 0.5)))
    assert fitted[1] == pytest.approx(expected, abs=1e-7)


@pytest.mark.slow
@examples(10)
@given(
    st.integers(0, 10**6), st.integers(14, 24), st.booleans()
)  # with few rows, there are several maxima
def test_fit_and_interval_equal_the_slow_ones(seed, n, ties):
    generator = np.random.default_rng(seed)
    design = np.stack([np.ones(n), generator.normal(size=n)], axis=1)
    outcome = (
        generator.integers(0, 3, size=n) / 2 if ties else generator.integers(0, 2, size=n) * 1.0
    )
    fitted, own = penalized_fit(design, outcome).coefficients, model(design, outcome)
    assert fitted == pytest.approx(slow_fit(design, outcome), abs=1e-4)
    top = slow_likelihood(design, outcome, fitted)
    for end in own.interval(fitted, 1, Z):

        def lack(b: float, end: float = end) -> float:
            return -slow_likelihood(design, outcome, np.array([b, end]))

        far = abs(end) * float(np.abs(design[:, 1]).max()) + 5
        starts = np.linspace(-far, far, 201)
        near, gap = min(starts, key=lack), starts[1] - starts[0]
        found = minimize_scalar(lack, bounds=(near - gap, near + gap), options={"xatol": 1e-6})
        assert 2 * (top + found.fun) == pytest.approx(Z**2, abs=1e-4)


@pytest.mark.parametrize("bound", ["STEPS", "HALVINGS"])
def test_a_search_that_is_cut_short_returns_what_it_reached(monkeypatch, bound):
    design, outcome = (
        np.stack([np.ones(6), np.arange(6.0)], axis=1),
        np.array([0.0, 1.0, 0.0, 1.0, 1.0, 1.0]),
    )
    best = penalized_fit(design, outcome).coefficients
    monkeypatch.setattr(logistic, bound, 1 if bound == "STEPS" else 0)
    short = penalized_fit(design, outcome).coefficients
    own = model(design, outcome)
    assert -np.inf < own.likelihood(short) < own.likelihood(best)
    low, high = own.interval(best, 1, Z)
    assert low < best[1] < high


def test_the_ends_of_an_interval_are_found_in_few_steps(monkeypatch):
    """A search that halves the same end each time only bisects, and needs forty."""
    generator = np.random.default_rng(0)
    design = np.stack([np.ones(20), generator.normal(size=20)], axis=1)
    outcome = generator.integers(0, 2, size=20) * 1.0
    fitted = penalized_fit(design, outcome).coefficients
    climbed, steps = Penalized._climbed, []

    def counted(*arguments):
        steps.append(arguments)
        return climbed(*arguments)

    monkeypatch.setattr(Penalized, "_climbed", counted)
    model(design, outcome).interval(fitted, 1, Z)
    assert len(steps) < 20


def test_columns_that_depend_on_each_other_have_no_fit():
    assert "collinear" in penalized_fit(np.ones((4, 2)), np.array([0.0, 1.0, 0.0, 1.0])).reason
    assert "collinear" in penalized_fit(np.ones((0, 2)), np.zeros(0)).reason


def test_an_interval_ends_where_the_information_vanishes():
    """At a confidence that no sample of three reaches, the ends are far off, but finite."""
    x, y = np.array([-1.0, 0.5, 1.0]), np.array([0.0, 1.0, 1.0])
    fitted = penalized_fit(x[:, None], y).coefficients
    low, high = model(x[:, None], y).interval(fitted, 0, 1e4)
    assert -np.inf < low < -50 < 50 < high < np.inf
