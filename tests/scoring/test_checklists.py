"""Checklists: three-valued items, prerequisites, rules for scores with bounds, and metrics by item."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from evalkit import load_config
from evalkit.core.checklists import ChecklistError, leaves, read_items
from evalkit.scoring import score_run
from evalkit.scoring.verdicts.checklists import score_items
from evalkit.types import Case, ChecklistItem, Judgment, Response

ITEMS = [
    {"id": "light", "criterion": "Names light", "points": 5, "tags": ["facts"]},
    {"id": "sugar", "criterion": "Names sugar", "points": 3, "tags": ["facts"], "after": ["light"]},
    {"id": "rude", "criterion": "Is rude", "points": -4},
]
MET, NOT, CANNOT = "met", "not_met", "cannot_assess"


def case(name: str, items: Any = ITEMS, responses: int = 1) -> Case:
    checklist = read_items(items, responses=responses)
    return Case(name, f"prompt {name}", tuple(Response(f"text {k}") for k in range(responses)), checklist=checklist)


def judged(name: str, sample: int = 0, judge: str = "gpt", unit: int = 0, **items: Any) -> Judgment:
    return Judgment(name, (unit,), (unit,), sample, judge, "ok", items=items)


def scored(cases: list[Case], judgments: list[Judgment], *more: str) -> Any:
    config = load_config(overrides=["mode=checklist", "judge=gpt-4o", "scoring.bootstrap=200", *more])
    return score_run(config, cases, judgments)


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ([], "has no checklist items"),
        ("text", "is not a list"),
        ([{"points": 1}], "item 1 has no criterion"),
        ([{"criterion": "x", "points": "5"}], "item 1: points is not a number"),
        ([{"criterion": "x", "points": float("nan")}], "item 1: points is not a number"),
        ([{"criterion": "x", "points": True}], "item 1: points is not a number"),
        ([{"criterion": "x", "weight": -1}], "item 1: weight is negative"),
        ([{"criterion": "x", "required": "yes"}], "item 1: required is neither true nor false"),
        ([{"criterion": "x", "pionts": 1}], "has no key 'pionts'; did you mean 'points'"),
        ([{"criterion": "x", "id": "a"}, {"criterion": "y", "id": "a"}], "two items have the id 'a'"),
        ([{"criterion": "x", "after": ["b"]}], "comes after 'b', which is not an item"),
        (
            [{"criterion": "x", "id": "a", "after": ["b"]}, {"criterion": "y", "id": "b", "after": ["a"]}],
            "in a cycle: '",
        ),
        ([{"criterion": "x", "id": "a", "parts": [{"criterion": "y", "after": ["a"]}]}], "in a cycle: '"),
        ([{"criterion": "x", "points": -1}], "no item has positive points"),
        ([{"criterion": "x", "label": "perhaps"}], "'perhaps' is not a label"),
        ([{"criterion": "x", "label": [True, False]}], "item 1 has 2 label(s) for 1 responses"),
        (["x"] * 5001, "more than 5,000 items"),
    ],
)
def test_invalid_checklist_is_one_line(items: Any, what: str) -> None:
    with pytest.raises(ChecklistError) as error:
        read_items(items)
    line = f"{error.value.what}; {error.value.remedy}"
    assert what in line
    assert "\n" not in line
    assert len(line) < 400


def test_deep_checklist_is_refused_without_a_crash() -> None:
    item: dict[str, Any] = {"criterion": "x"}
    for _ in range(5000):
        item = {"criterion": "x", "parts": [item]}
    with pytest.raises(ChecklistError, match="nested deeper"):
        read_items([item])


@pytest.mark.parametrize(
    ("rule", "met", "low", "high"),
    [
        ("points", {"light": True, "sugar": True, "rude": False}, 1.0, 1.0),
        ("points", {"light": False, "sugar": False, "rude": True}, 0.0, 0.0),
        ("points", {"light": True, "sugar": None, "rude": None}, 1 / 8, 1.0),
        ("points", {"light": False, "sugar": False, "rude": None}, 0.0, 0.0),
        ("share", {"light": True, "sugar": False, "rude": False}, 2 / 3, 2 / 3),
        ("share", {"light": True, "sugar": None, "rude": True}, 1 / 3, 2 / 3),
        ("required", {"light": False, "sugar": None, "rude": None}, 0.0, 0.0),
        ("required", {"light": True, "sugar": True, "rude": False}, 1.0, 1.0),
    ],
)
def test_rules_bound_what_is_unknown(rule: Any, met: Any, low: float, high: float) -> None:
    score = score_items(read_items(ITEMS), met, rule)
    assert (score.low, score.high) == pytest.approx((low, high))
    assert (score.state == "scored") == (low == high)


def test_points_before_clipping() -> None:
    score = score_items(read_items(ITEMS), {"light": False, "sugar": False, "rude": True}, "points")
    assert score.unclipped == pytest.approx((-0.5, -0.5))


def test_no_positive_points_is_a_state_and_no_score() -> None:
    score = score_items([ChecklistItem("a", "x", points=-1.0)], {"a": False}, "points")
    assert score.state == "no_positive_points"
    assert score.value != score.value


def test_tree_is_weighted_from_the_leaves() -> None:
    items = read_items(
        [
            {"criterion": "code", "weight": 3, "parts": [{"id": "a", "criterion": "a"}, {"id": "b", "criterion": "b"}]},
            {"id": "c", "criterion": "c", "weight": 1},
        ]
    )
    assert [item.id for item in leaves(items)] == ["a", "b", "c"]
    assert score_items(items, {"a": True, "b": False, "c": True}, "weighted").value == pytest.approx(0.625)


@pytest.mark.parametrize("rule", ["points", "weighted", "share", "required"])
def test_bounds_hold_whatever_is_unknown(rule: Any) -> None:
    draw = random.Random(7)
    for _ in range(50):
        items = read_items(
            [{"id": str(k), "criterion": "x", "points": draw.choice([-3, 1, 4]), "weight": k % 3} for k in range(5)]
            + [{"id": "sure", "criterion": "x"}]
        )
        met = {item.id: draw.choice([True, False, None]) for item in items}
        bounds = score_items(items, met, rule)
        unknown = [name for name, value in met.items() if value is None]
        values = [
            score_items(items, met | dict(zip(unknown, filled, strict=True)), rule).value
            for filled in product([True, False], repeat=len(unknown))
        ]
        assert (min(values), max(values)) == pytest.approx((bounds.low, bounds.high))


def test_unmet_prerequisite_makes_an_item_not_met() -> None:
    verdict = scored([case("a")], [judged("a", light=NOT, sugar=MET, rude=NOT)]).verdicts[0]
    sugar = next(item for item in verdict.items if item.id == "sugar")
    assert (sugar.answer, sugar.reason, sugar.judged) == (NOT, "prerequisite", MET)
    assert verdict.score == 0.0


@pytest.mark.parametrize("unknown", [None, CANNOT])
def test_unknown_item_is_no_score(unknown: str | None) -> None:
    found = scored(
        [case("a"), case("b")],
        [judged("a", light=MET, sugar=MET, rude=NOT), judged("b", light=unknown, sugar=MET, rude=NOT)],
    )
    assert [verdict.score for verdict in found.verdicts] == [1.0, None]
    sugar = found.verdicts[1].items[1]
    assert (sugar.answer, sugar.reason) == (None, "undetermined")
    mean = found.metrics["score/mean"]
    assert (mean.value, mean.n, mean.missing) == (1.0, 1, 1)
    assert (mean.worst_low, mean.worst_high) == (0.5, 1.0)
    missing, cannot = (found.metrics[f"checklist/{name}"].value for name in ("missing", "cannot_assess"))
    assert missing == pytest.approx(1 / 6 if unknown is None else 0.0)
    assert cannot == pytest.approx(0.0 if unknown is None else 1 / 6)


def test_samples_vote_and_a_split_is_missing() -> None:
    answers = [(MET, MET), (MET, NOT), (NOT, CANNOT)]
    judgments = [judged("a", k, light=light, sugar=sugar, rude=NOT) for k, (light, sugar) in enumerate(answers)]
    items = scored([case("a")], judgments, "mode.samples=3", "judge.temperature=1").verdicts[0].items
    assert [(item.answer, item.reason) for item in items] == [(MET, "judged"), (None, "split"), (NOT, "judged")]


def test_a_panel_votes_on_items_and_keeps_each_judge() -> None:
    judgments = [
        judged("a", judge=name, light=light, sugar=MET, rude=NOT)
        for name, light in (("x", MET), ("y", NOT), ("z", MET))
    ]
    panel = "judge={judges: [{model: openai/x, name: x}, {model: openai/y, name: y}, {model: openai/z, name: z}]}"
    found = scored([case("a")], judgments, panel)
    assert [item.answer for item in found.verdicts[0].items] == [MET, MET, NOT]
    assert found.metrics["judge/y/checklist/met_rate"].value == 0.0
    assert found.metrics["checklist/met_rate"].value == pytest.approx(2 / 3)


def test_agreement_with_annotators_by_item() -> None:
    items = [
        {"criterion": "a", "label": True},
        {"criterion": "b", "label": False},
        {"criterion": "c", "labels": {"p": MET, "q": MET, "r": NOT}},
    ]
    found = scored(
        [case("a", items), case("b", items)],
        [judged("a", **{"#1": MET, "#2": NOT, "#3": MET}), judged("b", **{"#1": NOT, "#2": None, "#3": MET})],
    ).metrics
    accuracy = found["checklist/accuracy"]
    assert (accuracy.value, accuracy.n, accuracy.missing) == (0.8, 5, 1)
    assert (accuracy.worst_low, accuracy.worst_high) == pytest.approx((4 / 6, 5 / 6))
    assert (found["checklist/tpr"].value, found["checklist/tnr"].value) == (0.75, 1.0)
    assert found["checklist/kappa"].value == pytest.approx(
        (0.8 - (4 / 5 * 3 / 5 + 1 / 5 * 2 / 5)) / (1 - (4 / 5 * 3 / 5 + 1 / 5 * 2 / 5))
    )


def test_rates_by_tag_and_by_item_that_cases_share() -> None:
    found = scored(
        [case("a"), case("b")],
        [judged("a", light=MET, sugar=MET, rude=NOT), judged("b", light=MET, sugar=NOT, rude=MET)],
    ).metrics
    assert found["checklist/met_rate/tag/facts"].value == 0.75
    assert found["checklist/met_rate/item/rude"].value == 0.5
    assert found["checklist/required_rate"].value == 0.5
    assert not any(name.startswith("checklist/met_rate/item/#") for name in found)
