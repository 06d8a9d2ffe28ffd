"""Position, length, confidence, and the rates of ties, wins and missing answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import foldnorm
from sklearn.metrics import brier_score_loss

from evalkit.scoring import score_run


def run(configure, make_case, passes, rows, cases=None, **sections):
    cases = cases or [make_case(str(k)) for k in range(len(rows))]
    judgments = [j for k, row in enumerate(rows) for j in passes(str(k), *row)]
    return score_run(configure(**sections), cases, judgments).metrics


def test_position(configure, make_case, passes):
    rows = [(1, 1), (1, -1), (1, -1), (-1, 1), (0, 0), (1, 0), (1, None), (None, None)]
    metrics = run(configure, make_case, passes, rows)
    consistency, first = metrics["position/consistency"], metrics["position/first_rate"]
    assert (consistency.value, consistency.n, consistency.missing) == (pytest.approx(2 / 6), 6, 2)
    assert (consistency.worst_low, consistency.worst_high) == (2 / 8, 4 / 8)
    # First shown won: (1, 1) once, (1, -1) twice each, (-1, 1) never, (1, 0) once, (1, missing) once.
    assert (first.value, first.n, first.missing) == (pytest.approx(7 / 10), 10, 3)


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


def test_length_counts_decided_pairs_of_unequal_length(configure, make_case, passes):
    texts = [("long", "x"), ("x", "long"), ("x", "long"), ("same", "size"), ("long", "x"), ("long", "x")]
    cases = [make_case(str(k), pair) for k, pair in enumerate(texts)]
    rows = [(1, 1), (1, 1), (-1, -1), (1, 1), (1, -1), (None, 1)]
    metric = run(configure, make_case, passes, rows, cases)["length/longer_rate"]
    assert (metric.value, metric.n, metric.missing) == (pytest.approx(2 / 3), 3, 1)
    assert run(configure, make_case, passes, [(1, 1)])["length/longer_rate"].value is None


def test_tie_and_win_rates(configure, make_case, passes):
    rows = [(1, 1), (-1, -1), (-1, -1), (0, 0), (1, -1), (0.1, 0.1), (None, 1), (0, 0)]
    metrics = run(configure, make_case, passes, rows, tie={"threshold": 0.2})
    values = {name: round(metric.value * 7, 9) for name, metric in metrics.items() if "_rate" in name[:8]}
    assert values == {
        "tie_rate": 4,
        "tie_rate/judged": 2,
        "tie_rate/swap_disagreement": 1,
        "tie_rate/threshold": 1,
        "win_rate/a": 1,
        "win_rate/b": 2,
    }
    assert {(metrics[name].n, metrics[name].missing) for name in values} == {(7, 1)}
    assert (metrics["win_rate/a"].worst_low, metrics["win_rate/a"].worst_high) == (1 / 8, 2 / 8)


def test_missing_answers_by_kind(configure, make_case, judged):
    kinds = ["ok", "repaired", "unparseable", "refused", "refused", "failed", "budget", "ok"]
    judgments = []
    for k, kind in enumerate(kinds):
        value, status = 1.0 if kind in ("ok", "repaired") else None, "failed" if kind == "budget" else kind
        error = {"budget": "budget", "failed": "timeout"}.get(kind)
        more = {"status": status, "sample": k // 2, "swapped": bool(k % 2), "error_kind": error}
        judgments.append(judged("c", (0, 1), value, **more))
    metrics = score_run(configure(), [make_case("c")], judgments).metrics
    rates = {name: metrics[f"missing/{name}"] for name in ("unparseable", "refused", "failed", "budget")}
    assert [metric.value for metric in rates.values()] == [1 / 8, 2 / 8, 1 / 8, 1 / 8]
    assert {metric.n for metric in rates.values()} == {8}
    nothing = score_run(configure(), [make_case("c")], []).metrics["missing/failed"]
    assert (nothing.value, nothing.note) == (None, "no judgment was made")


ROW = st.tuples(st.sampled_from("AB"), st.sampled_from([1, -1]), st.floats(0, 1))


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
    ece = sum(abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in set(bins))
    gaps = np.array([np.where(bins == b, confidence - right, 0.0) for b in range(10)])
    errors = gaps.std(axis=1, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else np.zeros(10)
    assert metrics["calibration/ece"].value == pytest.approx(_less_noise(gaps.mean(axis=1), errors, ece), abs=1e-7)
    expected = brier_score_loss(right, confidence, labels=[False, True])
    assert metrics["calibration/brier"].value == pytest.approx(expected, abs=1e-9)


def _less_noise(gaps, errors, seen):
    """Return the share of the gaps of which as large a sum is expected as was seen, by scipy's folded normal."""

    def beyond(t):
        noisy = errors > 1e-12
        with np.errstate(invalid="ignore", divide="ignore"):  # in its higher moments, which are not used
            folded = foldnorm.mean(np.abs(t * gaps[noisy]) / errors[noisy], scale=errors[noisy]).sum()
        return folded + np.abs(t * gaps[~noisy]).sum() - seen

    return 0.0 if beyond(0) >= 0 else brentq(beyond, 0, 10) * seen


def test_calibration_bounds_what_is_missing(configure, make_case, judged):
    cases = [make_case(str(k), label="A") for k in range(6)]
    judgments = [judged("0", (0, 1), 1, confidence=0.9), judged("1", (0, 1), -1, confidence=0.8)]
    judgments += [judged("2", (0, 1), 1), judged("3", (0, 1)), judged("4", (0, 1), 0, confidence=0.9)]
    metrics = score_run(configure(swap={"policy": "none"}), cases, judgments).metrics
    brier, ece = metrics["calibration/brier"], metrics["calibration/ece"]
    assert brier.value == pytest.approx((0.01 + 0.64) / 2)
    assert (brier.n, brier.missing) == (ece.n, ece.missing) == (2, 3)
    assert (brier.worst_low, brier.worst_high) == pytest.approx((0.65 / 5, 3.65 / 5))
    bias = (0.1 + 0.8) / 2 - ece.value
    assert bias > 0
    assert (ece.worst_low, ece.worst_high) == pytest.approx((0, 3.9 / 5 - bias))
    confident = [judged(str(k), (0, 1), -1, confidence=1) for k in range(5)]
    one_lost = score_run(configure(swap={"policy": "none"}), cases, confident).metrics["calibration/ece"]
    assert (one_lost.value, one_lost.worst_low, one_lost.worst_high) == pytest.approx((1, 4 / 6, 1))
    unstated = score_run(configure(swap={"policy": "none"}), cases, judgments[2:3]).metrics
    assert unstated["calibration/ece"].value is None
    assert "stated confidence" in unstated["calibration/brier"].note


def test_formats_without_winners_by_criterion_contradict_no_winner(configure, make_case, passes):
    metrics = run(configure, make_case, passes, [(1, 1)], output={"format": "bracket"})
    assert "criteria/overall_disagreement" not in metrics
