"""Whether stated probabilities are what they claim: false alarms, power, and what a run reports."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from evalkit.core.types import Case, Judgment, Response, WeightedJudgment
from evalkit.report.findings import findings
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.claims import claim_test
from evalkit.scoring.stats.logistic import expit, logit

RUNS = 300


def refuted(seed, n, actual, *, runs=RUNS, low=0.5, high=0.99):
    """The share of judges whose claim is refuted; `actual` maps stated to actual log odds."""
    generator = np.random.default_rng(seed)
    found = 0
    for _ in range(runs):
        stated = generator.uniform(low, high, n)
        right = generator.random(n) < expit(actual(logit(stated)))
        p = claim_test(stated, right.astype(float), np.arange(n))
        found += p < 0.05
    return found / runs


@pytest.mark.parametrize(("low", "n"), [(0.5, 30), (0.9, 30), (0.98, 60)])
def test_a_calibrated_judge_is_refuted_in_at_most_one_of_twenty_runs(low, n):
    share = refuted(1, n, lambda odds: odds, low=low)
    assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / RUNS)


def test_overconfidence_by_half_the_log_odds_is_refuted_with_400_labels():
    assert refuted(2, 400, lambda odds: odds / 2, runs=30) >= 0.61
    assert refuted(3, 400, lambda odds: odds - 0.5, runs=30) >= 0.61


def test_outcomes_of_one_cluster_are_no_independent_evidence():
    generator = np.random.default_rng(4)
    alarms = 0
    for _ in range(RUNS):
        # Ten verdicts of a case are all right or all wrong.
        right = np.repeat(generator.random(25) < 0.8, 10).astype(float)
        p = claim_test(np.full(250, 0.8), right, np.repeat(np.arange(25), 10))
        alarms += p < 0.05
    assert alarms / RUNS <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / RUNS)


def test_one_error_refutes_certainty_and_no_outcome_says_nothing():
    right = np.array([1.0] * 9 + [0.0])
    assert claim_test(np.ones(10), right, np.arange(10)) < 0.01
    assert claim_test(np.ones(10), np.ones(10), np.arange(10)) > 0.9
    assert claim_test(np.zeros(0), np.zeros(0), np.arange(0)) is None


def test_clusters_without_spread_refute_a_constant_probability():
    # Each of 20 cases has two verdicts at 50%, and all are right.
    assert claim_test(np.full(40, 0.5), np.ones(40), np.repeat(np.arange(20), 2)) < 0.01


@pytest.mark.parametrize("says", ["probabilities", "confidence"])
def test_a_judge_of_classes_claims_the_probability_of_its_verdict(configure, says):
    cases, judgments = [], []
    for k in range(60):
        cases.append(
            Case(f"c{k}", f"q{k}", (Response("r", class_name="pass" if k % 2 else "fail"),))
        )
        chances = WeightedJudgment(classes={"pass": 0.95, "fail": 0.05})
        judgment = Judgment(f"c{k}", (0,), (0,), 0, "j", "ok", class_name="pass")
        if says == "confidence":
            judgments.append(replace(judgment, confidence=0.95))
        else:
            judgments.append(replace(judgment, weighted=chances))
    config = configure(
        mode={"name": "pointwise"},
        swap={"policy": "none"},
        judge={"model": "m", "logprobs": True},
        rubric={"classes": {"pass": "", "fail": ""}},
        scoring={"bootstrap": 20},
    )
    metrics = score_run(config, cases, judgments).metrics
    assert metrics["calibration/right_at_90"].value == 0.5
    assert metrics["calibration/claim"].value < 0.01
    assert ("calibration/ece" in metrics) is (says == "probabilities")


def run(configure, make_case, judged, confidence, right):
    cases = [make_case(f"case {k}", label="A") for k in range(len(right))]
    judgments = [
        judged(f"case {k}", (0, 1), 1.0 if ok else -1.0, confidence=float(c))
        for k, (c, ok) in enumerate(zip(confidence, right, strict=True))
    ]
    config = configure(swap={"policy": "none"}, scoring={"bootstrap": 100})
    return score_run(config, cases, judgments).metrics


def test_a_run_says_what_its_confidence_is_worth(configure, make_case, judged):
    # 100 verdicts at 95%, of which 78 are right, and 100 at 60%, of which 60 are.
    confidence = np.repeat([0.95, 0.6], 100)
    right = np.arange(200) % 100 < np.repeat([78, 60], 100)
    metrics = run(configure, make_case, judged, confidence, right)
    at_90 = metrics["calibration/right_at_90"]
    assert (at_90.value, at_90.n) == (0.78, 100)
    assert at_90.low < 0.78 < at_90.high < 0.9
    assert metrics["calibration/right_at_70"].n == 100
    assert metrics["calibration/claim"].value < 0.01
    assert metrics["calibration/excess"].value == pytest.approx(0.775 - 0.69)
    assert "calibration/threshold_90" not in metrics
    said = [finding.text for finding in findings(metrics, "pairwise")]
    assert any(text.startswith("When it says 90% or more, it is right in 78%") for text in said)
    assert any("overconfident by 8 points" in text or "by 9 points" in text for text in said)


def test_a_run_names_the_threshold_of_an_accuracy_and_what_it_covers(configure, make_case, judged):
    confidence = np.repeat([0.97, 0.6], [150, 50])
    right = np.concatenate([np.arange(150) % 50 != 0, np.arange(50) % 5 < 3])
    metrics = run(configure, make_case, judged, confidence, right)
    assert metrics["calibration/threshold_90"].value == pytest.approx(0.97)
    assert metrics["calibration/covered_90"].value == 0.75
    said = [finding.text for finding in findings(metrics, "pairwise")]
    assert any("at least 97.0% are right in" in text for text in said)
    assert any(text.startswith("Nothing shows that its confidence") for text in said)


def test_many_claims_of_one_probability_are_tested_by_their_mean():
    right = (np.arange(600) < 430).astype(float)
    p = claim_test(np.full(600, 0.7), right, np.arange(600))
    assert p == pytest.approx(stats.chi2.sf((430 - 420) ** 2 / (600 * 0.21), 1))
