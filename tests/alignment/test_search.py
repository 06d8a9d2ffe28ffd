"""Fitted settings against brute force, and what can be fitted."""

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import spearmanr

from evalkit.alignment.search import (
    Candidate,
    Side,
    agreement,
    candidates,
    depends_on_others,
    obstacle,
    weightings,
)
from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.scoring.decision import CLASSES, PAIRS, SCORES
from evalkit.scoring.pipeline import score_run
from tests.alignment.conftest import NAMES, pair, passes
from tests.scoring.test_dawid_skene import planted, slow


def config_of(**sections) -> RunConfig:
    settings = {
        "judge": {"model": "m"},
        "criteria": dict.fromkeys(NAMES, ""),
        "scoring": {"bootstrap": 0},
        **sections,
    }
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
    found = {
        tuple(one.settings): one
        for one in candidates(config, PAIRS, side, ("threshold", "weights"))
    }
    assert [*found] == [
        (),
        ("tie.threshold",),
        ("scoring.weights",),
        ("scoring.weights", "tie.threshold"),
    ]
    assert found[()].train == accuracy(config, side)
    best = max(accuracy(config.with_({"tie.threshold": t}), side) for t in (0.5, 0.75, 1.0))
    assert found["tie.threshold",].train == best
    weights = [w / 20 for w in range(21) if w != 10]
    assert found["scoring.weights",].train == pytest.approx(
        max(by_hand(side, w, 0.0) for w in weights)
    )
    thresholds = np.arange(0.001, 1.001, 0.005)
    both = max(by_hand(side, w, t) for w, t in product(weights, thresholds))
    assert found["scoring.weights", "tie.threshold"].train == pytest.approx(both)
    assert all(one.train == accuracy(one.of(config), side) for one in found.values())


def test_weightings_are_all_multiples_of_one_step():
    assert [one["a"] for one in weightings(["a", "b"])] == pytest.approx(
        [k / 20 for k in range(21)]
    )
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
    config = config_of(
        judge=panel, mode={"samples": 3}, scoring={"combine": "mean", "bootstrap": 0}
    )
    found = [
        one.settings
        for one in candidates(config, PAIRS, Side(cases, judgments), ("combine", "vote"))
    ]
    assert found[0] == {}
    assert found[2] == {"judge.vote": "majority"}, "the first of equally good ones"
    assert [set(one) for one in found[1:]] == [
        {"scoring.combine"},
        {"judge.vote"},
        {"scoring.combine", "judge.vote"},
    ]
    weighted = config_of(judge={**panel, "weights": {"one": 2}}, mode={"samples": 3})
    values = [
        one.settings for one in candidates(weighted, PAIRS, Side(cases, judgments), ("vote",))
    ]
    assert len(values) == 2


PANEL = {"judges": [{"name": f"j{k}", "model": "m"} for k in range(3)], "vote": "majority"}
CODES = ("A", "TIE", "B")


def panel_side(
    seed: int, n: int, accuracy: tuple[float, ...], *, labeled: int, lost: float = 0.0
) -> Side:
    """Pairs that judges decide with planted errors; the first ones have their true labels."""
    truth, votes = planted(seed, n, 3, accuracy, lost)
    cases = [pair(k, CODES[truth[k]] if k < labeled else None) for k in range(n)]
    judgments = [
        one
        for k in range(n)
        for judge, own in zip(("j0", "j1", "j2"), votes, strict=True)
        if own[k] >= 0
        for one in passes(k, (1.0, 0.0, -1.0)[own[k]], judge)
    ]
    return Side(cases, judgments)


def right_votes(side: Side, how: str) -> float:
    """The share of labeled pairs that a vote has right, by loops and the slow version of the model."""
    read = {
        (one.case_id, one.judge): CODES[1 - int(np.sign(one.value or 0))] for one in side.judgments
    }
    votes = [
        [CODES.index(read[c.id, j]) if (c.id, j) in read else -1 for c in side.cases]
        for j in ("j0", "j1", "j2")
    ]
    chances = slow(votes, 3) if how == "dawid_skene" else None
    right = []
    for k, case in enumerate(side.cases):
        cast = [own[k] for own in votes if own[k] >= 0]
        if case.label is None or len(cast) < 2:
            continue
        counts = [cast.count(code) for code in range(3)] if chances is None else chances[:, k]
        best = max(counts)
        first = [code for code in range(3) if counts[code] > best - 1e-9]
        right.append((CODES[first[0]] if len(first) == 1 else "TIE") == case.label)
    return float(np.mean(right))


@pytest.mark.parametrize(("seed", "labeled"), [
    (0, 40),
    *(pytest.param(seed, n, marks=pytest.mark.thorough) for seed in (1, 2) for n in (150, 40)),
])  # fmt: skip
def test_a_vote_by_a_model_is_the_one_of_the_slow_version(seed, labeled):
    side, config = (
        panel_side(seed, 150, (0.95, 0.3, 0.3), labeled=labeled, lost=0.1),
        config_of(judge=PANEL),
    )
    own, other = candidates(config, PAIRS, side, ("vote",))
    shares = {how: right_votes(side, how) for how in ("majority", "dawid_skene")}
    assert own.train == pytest.approx(shares["majority"])
    assert accuracy(config.with_({"judge.vote": "dawid_skene"}), side) == pytest.approx(
        shares["dawid_skene"]
    )
    brute = {
        how: accuracy(config.with_({"judge.vote": how}), side)
        for how in ("mean", "median", "dawid_skene")
    }
    assert other.train == pytest.approx(max(brute.values())) == pytest.approx(brute["dawid_skene"])
    assert max(brute.values()) > shares["majority"]
    assert other.settings == {"judge.vote": "dawid_skene"}


def test_which_verdicts_depend_on_the_answers_to_other_cases():
    two, classes = {**PANEL, "judges": PANEL["judges"][:2]}, {"classes": {"good": "", "bad": ""}}
    judgments = [*passes(0, 1.0, "j0"), *passes(0, 1.0, "j1")]
    assert depends_on_others(config_of(judge=PANEL), ("threshold", "vote"))
    assert depends_on_others(config_of(judge=PANEL, rubric=classes, **POINTWISE), ("vote",))
    assert depends_on_others(config_of(judge={**PANEL, "vote": "dawid_skene"}), ("threshold",))
    assert depends_on_others(
        config_of(scoring={"normalize": "zscore", "bootstrap": 0}), ("threshold",)
    )
    assert not depends_on_others(config_of(judge=PANEL), ("threshold",))
    assert not depends_on_others(config_of(judge=two), ("vote",))
    assert not depends_on_others(config_of(judge=PANEL, **POINTWISE), ("vote",)), (
        "the model is not for scores"
    )
    why = "2 judges have no other vote: dawid_skene needs three"
    assert (
        obstacle("vote", config_of(judge=two, rubric=classes, **POINTWISE), CLASSES, judgments)
        == why
    )
    assert obstacle("vote", config_of(judge=two), PAIRS, judgments) is None


def test_scores_agree_by_rank_correlation():
    generator = np.random.default_rng(3)
    grades, values = generator.integers(1, 6, 30), generator.integers(1, 6, (30, 2))
    cases = [
        Case(f"c{k}", f"q{k}", (Response("a", grade=float(grade)),))
        for k, grade in enumerate(grades)
    ]
    judgments = [
        Judgment(
            f"c{k}",
            (0,),
            (0,),
            0,
            "m",
            "ok",
            criteria=dict(zip(NAMES, map(float, row), strict=True)),
        )
        for k, row in enumerate(values)
    ]
    config = config_of(**POINTWISE)
    side = Side(cases, judgments)
    assert agreement(config, SCORES, side) == pytest.approx(
        spearmanr(values.mean(axis=1), grades).statistic
    )
    own, fitted = candidates(config, SCORES, side, ("weights",))
    brute = [
        spearmanr(values @ [w / 20, 1 - w / 20], grades).statistic for w in range(21) if w != 10
    ]
    assert fitted.train == pytest.approx(max(brute))
    assert own == Candidate({}, agreement(config, SCORES, side))
    assert agreement(config, SCORES, Side(cases[:1], judgments[:1])) == -1
    assert agreement(config, PAIRS, Side([pair(0, None)], passes(0, 1.0))) == -1


POINTWISE = {"mode": {"name": "pointwise"}, "swap": {"policy": "none"}}
NAMED = {**POINTWISE, "rubric": {"classes": {"good": "", "bad": ""}}}
CHECKED = {**POINTWISE, "mode": {"name": "checklist"}, "rubric": {"min": 0, "max": 1}}


@pytest.mark.parametrize(("knob", "sections", "kind", "why"), [
    ("threshold", {}, PAIRS, None),
    ("threshold", {}, SCORES, "the labels are not of pairs"),
    ("threshold", {"tie": {"allow": False}}, PAIRS, "tie.allow is false"),
    ("threshold", NAMED, CLASSES, "the labels are not of pairs"),
    ("weights", {}, PAIRS, None),
    ("weights", {"scoring": {"aggregate": "overall"}}, PAIRS, "scoring.aggregate is overall"),
    ("weights", {"criteria": {"tone": ""}}, PAIRS, "there is one criterion"),
    ("weights", NAMED, CLASSES, "the answers have no values by criterion"),
    ("combine", {}, PAIRS, "there is one sample of each answer"),
    ("combine", {"mode": {"samples": 2}}, PAIRS, None),
    ("vote", {}, PAIRS, "there is one judge"),
    ("vote", {**NAMED, "judge": PANEL}, CLASSES, None),
    ("vote", CHECKED, PAIRS, "checklist items have no such setting"),
])  # fmt: skip
def test_a_setting_that_changes_nothing_is_known(knob, sections, kind, why):
    judgments = passes(0, 1.0, tone=1.0)
    judgments += [] if why == "there is one judge" else passes(0, 1.0, "other", tone=1.0)
    assert obstacle(knob, config_of(**sections), kind, judgments) == why


def test_classes_are_elected(tmp_path):
    cases = [Case(f"c{k}", f"q{k}", (Response("a", class_name="good"),)) for k in range(4)]
    votes = {"x": "bad", "y": "bad", "z": "good"}
    judgments = [
        Judgment(case.id, (0,), (0,), 0, judge, "ok", class_name=name)
        for case in cases
        for judge, name in votes.items()
    ]
    judge = {"judges": [{"model": name} for name in votes], "weights": {"z": 3}}
    config = config_of(judge=judge, **NAMED)
    own, other = candidates(config, CLASSES, Side(cases, judgments), ("vote",))
    assert (own.train, other.train, other.settings) == (0.0, 1.0, {"judge.vote": "weighted"})
