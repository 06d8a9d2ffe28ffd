"""Rewards: their margins, AUC and slope against scikit-learn, and what has no worst case or no unit."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, roc_auc_score

from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.clusters import Clusters

QUESTIONS = 60
"""Each is asked in two cases, which are one cluster."""


def config(**scoring) -> RunConfig:
    return RunConfig.model_validate(
        {
            "judge": {"model": "m", "api_base": "http://127.0.0.1:1", "endpoint": "classify"},
            "mode": {"name": "pointwise"},
            "criteria": {"quality": {}},
            "rubric": {"real": True},
            "swap": {"policy": "none"},
            "scoring": {"bootstrap": 200, **scoring},
        }
    )


def made(
    seed: int = 0, *, labeled: bool = True, noise: float = 3.0, graded: bool = False
) -> tuple[list[Case], list[Judgment]]:
    rng = np.random.default_rng(seed)
    cases, judgments = [], []
    for number in range(2 * QUESTIONS):
        reward = rng.normal(0, 10, size=2)
        prefers_first = rng.random() < 1 / (
            1 + np.exp(-np.clip((reward[0] - reward[1]) / noise, -500, 500))
        )
        label = ("A" if prefers_first else "B") if rng.random() > 0.1 else "TIE"
        grades = (1.0, 0.0) if prefers_first else (0.0, 1.0)
        responses = tuple(
            Response(f"r{i}", f"s{i}", grades[i] if graded else None) for i in range(2)
        )
        cases.append(
            Case(
                f"c{number}",
                f"q{number // 2}",
                responses,
                label=label if labeled and not graded else None,
            )
        )
        judgments += [
            Judgment(
                f"c{number}", (i,), (i,), 0, "rm", "ok", criteria={"quality": float(reward[i])}
            )
            for i in range(2)
        ]
    return cases, judgments


def columns(cases, judgments):
    rewards = {(one.case_id, one.unit[0]): one.criteria["quality"] for one in judgments}
    return np.array([rewards[case.id, 0] - rewards[case.id, 1] for case in cases])


def test_margins_are_those_of_scikit_learn_out_of_fold_by_cluster():
    cases, judgments = made()
    scores = score_run(config(), cases, judgments)
    difference, clusters = columns(cases, judgments), Clusters.of(config(), cases)
    assert clusters.count == QUESTIONS
    folds = clusters.folds(cases)
    assert all(folds[n] == folds[n + 1] for n in range(0, len(cases), 2))
    # A tie is half a row of each choice.
    rows = [
        (n, choice, weight)
        for n, case in enumerate(cases)
        for choice, weight in {"A": [(1, 1.0)], "B": [(0, 1.0)], "TIE": [(1, 0.5), (0, 0.5)]}[
            case.label
        ]
    ]
    place, choice, weight = (np.array(column) for column in zip(*rows, strict=True))
    expected = np.zeros(len(cases))
    for fold in range(5):
        inside = folds[place] != fold
        model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10)
        model.fit(difference[place[inside], None], choice[inside], sample_weight=weight[inside])
        own = folds == fold
        expected[own] = model.predict_proba(difference[own, None])[:, 1]
    margins = np.array([one.margin for one in scores.verdicts if len(one.unit) == 2])
    assert margins == pytest.approx(2 * expected - 1, abs=1e-4)
    winners = np.array([one.winner for one in scores.verdicts if len(one.unit) == 2])
    labels = np.array([case.label for case in cases])
    found = scores.metrics
    assert found["agreement/accuracy"].value == pytest.approx(
        accuracy_score(labels, winners), abs=1e-6
    )
    right, confidence = winners == labels, np.maximum(expected, 1 - expected)
    assert found["calibration/brier"].value == pytest.approx(
        brier_score_loss(right, confidence), abs=1e-4
    )
    assert any("2 P - 1" in note for note in scores.notes)


def test_the_slope_is_the_temperature_of_all_labels():
    cases, judgments = made(3, noise=8.0)
    cases = [case for case in cases if case.label != "TIE"]
    kept = {case.id for case in cases}
    judgments = [one for one in judgments if one.case_id in kept]
    difference = columns(cases, judgments)
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10)
    model.fit(difference[:, None], [case.label == "A" for case in cases])
    slope = score_run(config(), cases, judgments).metrics["calibration/reward_slope"]
    # The penalty shrinks it by a few percent.
    assert slope.value == pytest.approx(model.coef_[0, 0], rel=0.05)
    assert 1 / slope.high < 8.0 < 1 / slope.low


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_auc_is_that_of_scikit_learn_and_of_all_pairs(seed):
    cases, judgments = made(seed, graded=True)
    found = score_run(config(), cases, judgments).metrics["agreement/auc"]
    y = np.array([response.grade for case in cases for response in case.responses])
    x = np.array([one.criteria["quality"] for one in judgments])
    assert found.value == pytest.approx(roc_auc_score(y, x), abs=1e-6)
    ordered = [
        1.0 if x[i] > x[j] else 0.5 if x[i] == x[j] else 0.0
        for a, b in combinations(range(len(x)), 2)
        if y[a] != y[b]
        for i, j in [(a, b) if y[a] > y[b] else (b, a)]
    ]
    assert found.value == pytest.approx(np.mean(ordered), abs=1e-6)
    assert found.low < found.value < found.high


@pytest.mark.parametrize("why", ["unlabeled", "few", "reversed"])
def test_without_a_fit_margins_have_no_unit_and_only_equal_rewards_tie(why):
    cases, judgments = made(labeled=why != "unlabeled")
    if why == "few":
        cases, judgments = cases[:38], judgments[:76]
    if why == "reversed":
        judgments = [replace(j, criteria={"quality": -j.criteria["quality"]}) for j in judgments]
    same = next(one for one in judgments if one.case_id == "c0").criteria
    judgments = [replace(j, criteria=same) if j.case_id == "c0" else j for j in judgments]
    scores = score_run(config(), cases, judgments)
    pairs = [one for one in scores.verdicts if len(one.unit) == 2]
    assert [one.margin for one in pairs] == pytest.approx(list(columns(cases, judgments)))
    assert {one.case_id for one in pairs if one.winner == "TIE"} == {"c0"}
    assert pairs[0].reason == "equal_scores"
    assert {one.confidence for one in pairs} == {None}
    assert [note for note in scores.notes if "no unit" in note]
    assert scores.metrics["calibration/ece"].value is None


def test_separated_labels_have_finite_margins():
    cases, judgments = made(noise=1e-9)
    cases = [
        case if case.label != "TIE" else Case(case.id, case.prompt, case.responses)
        for case in cases
    ]
    margins = [
        one.margin
        for one in score_run(config(), cases, judgments).verdicts
        if one.margin is not None
    ]
    assert all(-1 <= margin <= 1 for margin in margins)
    assert max(map(abs, margins)) > 0.9


def test_missing_rewards_have_no_worst_case():
    cases, judgments = made(graded=True)
    judgments[5] = Judgment("c2", (1,), (1,), 0, "rm", "failed", error_kind="too_long")
    found = score_run(config(), cases, judgments).metrics
    mean = found["score/mean"]
    assert (mean.missing, mean.worst_low, mean.worst_high) == (1, None, None)
    assert "any number" in mean.note
    assert found["missing/failed"].value == pytest.approx(1 / len(judgments), abs=1e-6)
    assert found["agreement/accuracy"].missing == 1
    for name, metric in found.items():
        for bound in (metric.value, metric.low, metric.high, metric.worst_low, metric.worst_high):
            assert bound is None or np.isfinite(bound), name


@pytest.mark.parametrize("normalize", ["zscore", "rank"])
def test_other_scales_of_rewards(normalize):
    cases, judgments = made()
    found = score_run(config(normalize=normalize, length_control=True), cases, judgments).metrics
    assert found["agreement/accuracy"].value > 0.5
    with pytest.raises(ValueError, match="minmax needs a scale"):
        config(normalize="minmax")
