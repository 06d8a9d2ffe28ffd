"""Fitted settings against brute force, and what can be fitted."""

from __future__ import annotations

from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from evalkit.alignment.search import Candidate, Side, agreement, candidates, obstacle, weightings
from evalkit.config import RunConfig
from evalkit.decision import CLASSES, PAIRS, SCORES
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Response
from tests.alignment.conftest import NAMES, pair, passes


def config_of(**sections) -> RunConfig:
    settings = {"judge": {"model": "m"}, "criteria": dict.fromkeys(NAMES, ""), "scoring": {"bootstrap": 0}, **sections}
    return RunConfig.model_validate(settings)


def accuracy(config: RunConfig, side: Side) -> float:
    value = score_run(config, side.cases, side.judgments).metrics["agreement/accuracy"].value
    assert value is not None
    return value


def random_side(seed: int, n: int = 40) -> Side:
    generator = np.random.default_rng(seed)
    cases, judgments = [], []
    for k in range(n):
        values = generator.choice([-1.0, -0.5, 0.0, 0.5, 1.0], 3).tolist()
        cases.append(pair(k, str(generator.choice(["A", "B", "TIE"]))))
        judgments += passes(k, values[0], accuracy=values[1], tone=values[2])
    return Side(cases, judgments)


def by_hand(side: Side, first: float, threshold: float) -> float:
    """The accuracy under unequal weights: where the weighted winners cancel out, the overall winner decides."""
    right = []
    for case, one in zip(side.cases, side.judgments[::2], strict=True):
        overall = one.value or 0.0
        margin = first * one.criteria["accuracy"] + (1 - first) * one.criteria["tone"]
        margin = 0.001 * np.sign(overall) if abs(margin) < 1e-9 else margin
        winner = "TIE" if abs(margin) <= threshold + 1e-9 else "A" if margin > 0 else "B"
        right.append(winner == case.label)
    return float(np.mean(right))


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_and_weights_are_the_best_by_brute_force(seed):
    side, config = random_side(seed), config_of()
    found = {tuple(one.settings): one for one in candidates(config, PAIRS, side, ("threshold", "weights"))}
    assert [*found] == [(), ("tie.threshold",), ("scoring.weights",), ("scoring.weights", "tie.threshold")]
    assert found[()].train == accuracy(config, side)
    best = max(accuracy(config.with_({"tie.threshold": t}), side) for t in (0.5, 0.75, 1.0))
    assert found["tie.threshold",].train == best
    weights = [w / 20 for w in range(21) if w != 10]
    assert found["scoring.weights",].train == pytest.approx(max(by_hand(side, w, 0.0) for w in weights))
    thresholds = np.arange(0.001, 1.001, 0.005)
    both = max(by_hand(side, w, t) for w, t in product(weights, thresholds))
    assert found["scoring.weights", "tie.threshold"].train == pytest.approx(both)
    assert all(one.train == accuracy(one.of(config), side) for one in found.values())


def test_weightings_are_all_multiples_of_one_step():
    assert [one["a"] for one in weightings(["a", "b"])] == pytest.approx([k / 20 for k in range(21)])
    for count in (1, 3, 5, 8, 30):
        names = [str(k) for k in range(count)]
        found = list(weightings(names))
        assert len({tuple(one.values()) for one in found}) == len(found) <= 300
        assert all(sum(one.values()) == pytest.approx(1) for one in found)
    assert len(list(weightings(["a", "b", "c"]))) == comb(22, 2)


def test_samples_and_votes_are_searched():
    cases = [pair(k, "A") for k in range(9)]
    judges = {"one": 1.0, "two": 1.0, "three": -1.0}
    judgments = [
        one for k in range(9) for judge, sign in judges.items() for s in range(3)
        for one in passes(k, sign * (1.0 if s else -0.9), judge, s)
    ]  # fmt: skip
    panel = {"judges": [{"model": f"x/{name}"} for name in judges], "vote": "mean"}
    config = config_of(judge=panel, mode={"samples": 3}, scoring={"combine": "mean", "bootstrap": 0})
    found = [one.settings for one in candidates(config, PAIRS, Side(cases, judgments), ("combine", "vote"))]
    assert found[0] == {}
    assert [set(one) for one in found[1:]] == [{"scoring.combine"}, {"judge.vote"}, {"scoring.combine", "judge.vote"}]
    weighted = config_of(judge={**panel, "weights": {"one": 2}}, mode={"samples": 3})
    values = [one.settings for one in candidates(weighted, PAIRS, Side(cases, judgments), ("vote",))]
    assert len(values) == 2


def test_scores_agree_by_rank_correlation():
    generator = np.random.default_rng(3)
    grades, values = generator.integers(1, 6, 30), generator.integers(1, 6, (30, 2))
    cases = [Case(f"c{k}", f"q{k}", (Response("a", grade=float(grade)),)) for k, grade in enumerate(grades)]
    judgments = [
        Judgment(f"c{k}", (0,), (0,), 0, "m", "ok", criteria=dict(zip(NAMES, map(float, row), strict=True)))
        for k, row in enumerate(values)
    ]
    config = config_of(mode={"name": "pointwise"}, swap={"policy": "none"})
    side = Side(cases, judgments)
    assert agreement(config, SCORES, side) == pytest.approx(spearmanr(values.mean(axis=1), grades).statistic)
    own, fitted = candidates(config, SCORES, side, ("weights",))
    brute = [spearmanr(values @ [w / 20, 1 - w / 20], grades).statistic for w in range(21) if w != 10]
    assert fitted.train == pytest.approx(max(brute))
    assert own == Candidate({}, agreement(config, SCORES, side))
    assert agreement(config, SCORES, Side(cases[:1], judgments[:1])) == -1
    assert agreement(config, PAIRS, Side([pair(0, None)], passes(0, 1.0))) == -1


@pytest.mark.parametrize(
    ("knob", "sections", "kind", "why"),
    [
        ("threshold", {}, PAIRS, None),
        ("threshold", {}, SCORES, "the labels are not of pairs"),
        ("threshold", {"tie": {"allow": False}}, PAIRS, "tie.allow is false"),
        ("weights", {}, PAIRS, None),
        ("weights", {"scoring": {"aggregate": "overall"}}, PAIRS, "scoring.aggregate is overall"),
        ("weights", {"criteria": {"tone": ""}}, PAIRS, "there is one criterion"),
        ("combine", {}, PAIRS, "there is one sample of each answer"),
        ("combine", {"mode": {"samples": 2}}, PAIRS, None),
        ("vote", {}, PAIRS, "there is one judge"),
    ],
)
def test_a_setting_that_changes_nothing_is_known(knob, sections, kind, why):
    assert obstacle(knob, config_of(**sections), kind, passes(0, 1.0, tone=1.0)) == why


def test_classes_and_checklists_have_few_settings():
    judgments = [*passes(0, 1.0), *passes(0, 1.0, "other")]
    classes = config_of(
        mode={"name": "pointwise"}, swap={"policy": "none"}, rubric={"classes": {"good": "", "bad": ""}}
    )
    assert obstacle("vote", classes, CLASSES, judgments) is None
    assert obstacle("threshold", classes, CLASSES, judgments) == "the labels are not of pairs"
    assert obstacle("weights", classes, CLASSES, judgments) == "the answers have no values by criterion"
    checklist = config_of(mode={"name": "checklist"}, swap={"policy": "none"}, rubric={"min": 0, "max": 1})
    assert obstacle("vote", checklist, PAIRS, judgments) == "checklist items have no such setting"


def test_classes_are_elected(tmp_path: Path):
    cases = [Case(f"c{k}", f"q{k}", (Response("a", class_name="good"),)) for k in range(4)]
    votes = {"x": "bad", "y": "bad", "z": "good"}
    judgments = [
        Judgment(case.id, (0,), (0,), 0, judge, "ok", class_name=name)
        for case in cases
        for judge, name in votes.items()
    ]
    judge = {"judges": [{"model": name} for name in votes], "weights": {"z": 3}}
    classes = {"classes": {"good": "", "bad": ""}}
    config = config_of(judge=judge, mode={"name": "pointwise"}, swap={"policy": "none"}, rubric=classes)
    own, other = candidates(config, CLASSES, Side(cases, judgments), ("vote",))
    assert (own.train, other.train, other.settings) == (0.0, 1.0, {"judge.vote": "weighted"})
