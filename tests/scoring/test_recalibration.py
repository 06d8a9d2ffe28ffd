"""Reliability curves, and confidence recalibrated out of fold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

from evalkit.scoring import score_run
from evalkit.scoring.metrics.calibration import EDGE, by_isotonic, by_temperature
from tests.support.penalized import slow_fit


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
    return score_run(configure(swap={"policy": "none"}, scoring={"bootstrap": 200, **scoring}), cases, judgments)


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
    one = run(configure, make_case, judged, confidence, right, bootstrap=0).metrics["calibration/brier_isotonic"]
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
    metric = run(configure, make_case, judged, [0.5] * 30, [True, False] * 15).metrics["calibration/slope"]
    assert metric.note == "every confidence is 0.5"


def test_the_reliability_curve(configure, make_case, judged):
    curve = run(configure, make_case, judged, [0.55, 0.6, 0.95, 0.95, 1.0], [1, 0, 1, 1, 0]).details["reliability"]
    rows = [(row["from"], row["to"], row["n"], row["cases"], row["accuracy"]) for row in curve["stated"]]
    assert rows == [(0.5, 0.6, 1, 1, 1), (0.6, 0.7, 1, 1, 0), (0.9, 1.0, 3, 3, pytest.approx(2 / 3))]
    last = curve["stated"][-1]
    assert last["confidence"] == pytest.approx(2.9 / 3)
    assert last["low"] < last["accuracy"] < last["high"]
