"""Checklists: three-valued items, prerequisites, rules for scores with bounds, and metrics by item."""

import random
import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from evalkit import load_config
from evalkit.config import ScoringConfig
from evalkit.core.checklists import ChecklistError, leaves, read_items
from evalkit.core.errors import ConfigError
from evalkit.core.turns import Part, render
from evalkit.core.types import Case, ChecklistItem, Judgment, Response
from evalkit.scoring.compare import compare_runs
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.verdicts.checklists import score_items

ITEMS = [
    {"id": "light", "criterion": "Names light", "points": 5, "tags": ["facts"]},
    {"id": "sugar", "criterion": "Names sugar", "points": 3, "tags": ["facts"], "after": ["light"]},
    {"id": "rude", "criterion": "Is rude", "points": -4},
]
MET, NOT, CANNOT = "met", "not_met", "cannot_assess"


def case(name: str, items: Any = ITEMS, responses: int = 1) -> Case:
    checklist = read_items(items, responses=responses)
    return Case(
        name,
        f"prompt {name}",
        tuple(Response(f"text {k}") for k in range(responses)),
        checklist=checklist,
    )


def judged(name: str, sample: int = 0, judge: str = "gpt", unit: int = 0, **items: Any) -> Judgment:
    return Judgment(name, (unit,), (unit,), sample, judge, "ok", items=items)


def scored(cases: list[Case], judgments: list[Judgment], *more: str) -> Any:
    config = load_config(
        overrides=["mode=checklist", "judge=gpt-4o", "scoring.bootstrap=200", *more]
    )
    return score_run(config, cases, judgments)


@pytest.mark.parametrize(("items", "what"), [
    ([], "has no checklist items"),
    ("text", "is not a list"),
    ([{"points": 1}], "item 1 has no criterion"),
    ([{"criterion": "x", "points": "5"}], "item 1: points is not a number"),
    ([{"criterion": "x", "points": float("nan")}], "item 1: points is not a number"),
    ([{"criterion": "x", "points": True}], "item 1: points is not a number"),
    ([{"criterion": "x", "weight": -1}], "item 1: weight is negative"),
    ([{"criterion": "x", "required": "yes"}], "item 1: required is neither true nor false"),
    ([{"criterion": "x", "pionts": 1}], "has no key 'pionts'; did you mean 'points'"),
    ([{"criterion": "x", "id": "a"}, {"criterion": "y", "id": "a"}],
     "two items have the id 'a'"),
    ([{"criterion": "x", "after": ["b"]}], "comes after 'b', which is not an item"),
    ([{"criterion": "x", "id": "a", "after": ["b"]}, {"criterion": "y", "id": "b",
     "after": ["a"]}], "in a cycle: '"),
    ([{"criterion": "x", "id": "a", "parts": [{"criterion": "y", "after": ["a"]}]}],
     "in a cycle: '"),
    ([{"criterion": "x", "points": -1}], "no item has positive points"),
    ([{"criterion": "x", "label": "perhaps"}], "'perhaps' is not a label"),
    ([{"criterion": "x", "label": [True, False]}], "item 1 has 2 label(s) for 1 responses"),
    (["x"] * 5001, "more than 5,000 items"),
    ([["x"]], "item 1 is neither a text nor a mapping"),
    ([{"criterion": "x", "id": True}], "item 1: its id is not a text"),
    ([{"criterion": "x", "id": " "}], "item 1: its id is not a text"),
    ([{"criterion": "x", "parts": "y"}], "item 1: parts is not a list"),
    ([{"criterion": "x", "tags": [True]}], "tags is not a list of texts"),
    ([{"criterion": "x", "tags": [str(k) for k in range(101)]}], "item 1 has more than"),
    ([{"criterion": "x", "labels": ["met"]}], "item 1: labels is not a mapping"),
])  # fmt: skip
def test_invalid_checklist_is_one_line(items, what):
    with pytest.raises(ChecklistError) as error:
        read_items(items)
    line = f"{error.value.what}; {error.value.remedy}"
    assert what in line
    assert "\n" not in line
    assert len(line) < 400


def test_deep_checklist_is_refused_without_a_crash():
    item: dict[str, Any] = {"criterion": "x"}
    for _ in range(5000):
        item = {"criterion": "x", "parts": [item]}
    with pytest.raises(ChecklistError, match="nested deeper"):
        read_items([item])


@pytest.mark.parametrize(("rule", "met", "low", "high"), [
    ("points", {"light": True, "sugar": True, "rude": False}, 1.0, 1.0),
    ("points", {"light": False, "sugar": False, "rude": True}, 0.0, 0.0),
    ("points", {"light": True, "sugar": None, "rude": None}, 1 / 8, 1.0),
    ("points", {"light": False, "sugar": False, "rude": None}, 0.0, 0.0),
    ("share", {"light": True, "sugar": False, "rude": False}, 2 / 3, 2 / 3),
    ("share", {"light": True, "sugar": None, "rude": True}, 1 / 3, 2 / 3),
    ("required", {"light": False, "sugar": None, "rude": None}, 0.0, 0.0),
    ("required", {"light": True, "sugar": True, "rude": False}, 1.0, 1.0),
])  # fmt: skip
def test_rules_bound_what_is_unknown(rule, met, low, high):
    score = score_items(read_items(ITEMS), met, rule)
    assert (score.low, score.high) == pytest.approx((low, high))
    assert (score.state == "scored") == (low == high)


def test_no_positive_points_is_a_state_and_no_score():
    score = score_items([ChecklistItem("a", "x", points=-1.0)], {"a": False}, "points")
    assert score.state == "no_positive_points"
    assert score.value != score.value


def test_tree_is_weighted_from_the_leaves():
    items = read_items(
        [
            {
                "criterion": "code",
                "weight": 3,
                "parts": [{"id": "a", "criterion": "a"}, {"id": "b", "criterion": "b"}],
            },
            {"id": "c", "criterion": "c", "weight": 1},
        ]
    )
    assert [item.id for item in leaves(items)] == ["a", "b", "c"]
    assert score_items(
        items, {"a": True, "b": False, "c": True}, "weighted"
    ).value == pytest.approx(0.625)


@pytest.mark.parametrize("items", [
    [{"id": "a", "criterion": "x", "weight": 0}],
    [{"criterion": "y", "parts": [{"id": "a", "criterion": "x", "weight": 0}]}, {"id": "b",
     "criterion": "z"}],
])  # fmt: skip
def test_no_weight_is_a_state_and_no_score(items):
    found = scored([case("a", items)], [judged("a", a=MET)], "scoring.checklist=weighted")
    assert found.verdicts[0].score is None
    assert found.metrics["score/mean"].value is None


@pytest.mark.parametrize("rule", ["points", "weighted", "share", "required"])
def test_bounds_hold_whatever_is_unknown(rule):
    draw = random.Random(7)
    for _ in range(50):
        items = read_items(
            [
                {"id": str(k), "criterion": "x", "points": draw.choice([-3, 1, 4]), "weight": k % 3}
                for k in range(5)
            ]
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


@pytest.mark.parametrize(("first", "second", "answer", "reason"), [
    (MET, MET, MET, "judged"),
    (MET, NOT, NOT, "prerequisite"),
    (NOT, MET, NOT, "prerequisite"),
    (MET, None, None, "undetermined"),
    (None, NOT, NOT, "prerequisite"),
])  # fmt: skip
def test_a_group_is_a_prerequisite_if_all_its_parts_are_met(first, second, answer, reason):
    facts = [
        {"id": "light", "criterion": "Names light"},
        {"id": "water", "criterion": "Names water"},
    ]
    items = [
        {"id": "facts", "criterion": "States facts", "parts": facts},
        {"id": "clear", "criterion": "Is clear", "after": ["facts"]},
    ]
    verdict = scored(
        [case("a", items)], [judged("a", light=first, water=second, clear=MET)]
    ).verdicts[0]
    clear = next(item for item in verdict.items if item.id == "clear")
    assert (clear.answer, clear.reason, clear.judged) == (answer, reason, MET)


@pytest.mark.parametrize(("answers", "answer", "reason"), [
    ([MET, NOT], None, "missing"),
    ([MET, None], MET, "judged"),
    ([None, MET], MET, "judged"),
    ([NOT, NOT], NOT, "judged"),
])  # fmt: skip
def test_an_item_answered_twice_in_a_sample_counts_if_the_answers_agree(answers, answer, reason):
    rest = judged("a", sugar=MET, rude=NOT)
    items = (
        scored([case("a")], [*(judged("a", light=one) for one in answers), rest]).verdicts[0].items
    )
    assert (items[0].answer, items[0].reason) == (answer, reason)


@pytest.mark.parametrize(("judgment", "what"), [
    (judged("b", light=MET), "case 'b': this case was judged but is not in the dataset"),
    (judged("a", unit=1, light=MET),
     "case 'a': responses [1] were judged, but the case does not have them"),
    (Judgment("a", (0, 1), (0, 1), 0, "gpt", "ok"),
     "responses [0, 1] were judged, but the case does not have them"),
    (judged("a", light=MET, dark=MET),
     "case 'a': item 'dark' was judged, but is not in the checklist"),
])  # fmt: skip
def test_judgments_of_other_data_are_refused(judgment, what):
    with pytest.raises(ConfigError) as error:
        scored([case("a")], [judgment])
    assert what in str(error.value)


def test_a_case_without_a_checklist_is_refused():
    plain = Case("plain", "prompt", (Response("text"),))
    with pytest.raises(
        ConfigError, match=r"case 'plain': the case has no checklist; set mode\.checklist"
    ):
        scored([case("a"), plain], [])


@pytest.mark.parametrize("unknown", [None, CANNOT])
def test_unknown_item_is_no_score(unknown):
    found = scored(
        [case("a"), case("b")],
        [
            judged("a", light=MET, sugar=MET, rude=NOT),
            judged("b", light=unknown, sugar=MET, rude=NOT),
        ],
    )
    assert [verdict.score for verdict in found.verdicts] == [1.0, None]
    sugar = found.verdicts[1].items[1]
    assert (sugar.answer, sugar.reason) == (None, "undetermined")
    mean = found.metrics["score/mean"]
    assert (mean.value, mean.n, mean.missing) == (1.0, 1, 1)
    assert (mean.worst_low, mean.worst_high) == (0.5, 1.0)
    missing, cannot = (
        found.metrics[f"checklist/{name}"].value for name in ("missing", "cannot_assess")
    )
    assert missing == pytest.approx(1 / 6 if unknown is None else 0.0)
    assert cannot == pytest.approx(0.0 if unknown is None else 1 / 6)


def test_samples_vote_and_a_split_is_missing():
    answers = [(MET, MET), (MET, NOT), (NOT, CANNOT)]
    judgments = [
        judged("a", k, light=light, sugar=sugar, rude=NOT)
        for k, (light, sugar) in enumerate(answers)
    ]
    items = (
        scored([case("a")], judgments, "mode.samples=3", "judge.temperature=1").verdicts[0].items
    )
    assert [(item.answer, item.reason) for item in items] == [
        (MET, "judged"),
        (None, "split"),
        (NOT, "judged"),
    ]


def test_a_panel_votes_on_items_and_keeps_each_judge():
    judgments = [
        judged("a", judge=name, light=light, sugar=MET, rude=NOT)
        for name, light in (("x", MET), ("y", NOT), ("z", MET))
    ]
    panel = "judge={judges: [{model: openai/x, name: x}, {model: openai/y, name: y}, {model: openai/z, name: z}]}"
    found = scored([case("a")], judgments, panel)
    assert [item.answer for item in found.verdicts[0].items] == [MET, MET, NOT]
    assert found.metrics["judge/y/checklist/met_rate"].value == 0.0
    assert found.metrics["checklist/met_rate"].value == pytest.approx(2 / 3)


def test_agreement_with_annotators_by_item():
    items = [
        {"criterion": "a", "label": True},
        {"criterion": "b", "label": False},
        {"criterion": "c", "labels": {"p": MET, "q": MET, "r": NOT}},
    ]
    found = scored(
        [case("a", items), case("b", items)],
        [
            judged("a", **{"#1": MET, "#2": NOT, "#3": MET}),
            judged("b", **{"#1": NOT, "#2": None, "#3": MET}),
        ],
    ).metrics
    accuracy = found["checklist/accuracy"]
    assert (accuracy.value, accuracy.n, accuracy.missing) == (0.8, 5, 1)
    assert (accuracy.worst_low, accuracy.worst_high) == pytest.approx((4 / 6, 5 / 6))
    assert (found["checklist/tpr"].value, found["checklist/tnr"].value) == (0.75, 1.0)
    assert found["checklist/kappa"].value == pytest.approx(
        (0.8 - (4 / 5 * 3 / 5 + 1 / 5 * 2 / 5)) / (1 - (4 / 5 * 3 / 5 + 1 / 5 * 2 / 5))
    )


@pytest.mark.parametrize("lost", [False, True])
def test_a_kappa_of_labels_of_one_class_has_no_value_and_no_bounds(lost):
    items = [{"criterion": "a", "label": True}, {"criterion": "b", "label": True}]
    answers = [
        judged("a", **{"#1": MET, "#2": NOT}),
        judged("b", **{"#1": MET, "#2": None if lost else NOT}),
    ]
    kappa = scored([case("a", items), case("b", items)], answers).metrics["checklist/kappa"]
    assert (kappa.value, kappa.low, kappa.high, kappa.worst_low, kappa.worst_high) == (None,) * 5
    assert kappa.note == "labels are all met: it would be 0 whatever the answers are"


def entry(
    name: str, ask: str, answers: list[tuple[str | None, ...]], items: Any = "abc"
) -> RunEntry:
    config = load_config(overrides=["mode=checklist", "judge=gpt-4o", f"mode.ask={ask}"])
    cases = tuple(
        case(str(n), [{"id": one, "criterion": f"Names {one}"} for one in items])
        for n in range(len(answers))
    )
    made = tuple(
        judged(str(n), **dict(zip(items, row, strict=True))) for n, row in enumerate(answers)
    )
    return RunEntry(name, config, cases, made)


def test_halo_is_the_change_towards_what_most_other_items_are():
    alone = entry(
        "alone", "each", [(MET, MET, NOT), (NOT, NOT, MET), (MET, NOT, CANNOT), (MET, MET, MET)]
    )
    together = entry(
        "together",
        "together",
        [(MET, MET, MET), (NOT, NOT, NOT), (MET, NOT, MET), (MET, MET, None)],
    )
    for runs in ((alone, together), (together, alone)):
        (halo,) = (
            row.metric
            for row in compare_runs(runs, ScoringConfig(bootstrap=50)).between
            if "halo" in row.metric.name
        )
        # The others of items 1 and 2 of the first two cases are split, and so are those of the
        # third item of the third case. The third items of the first two cases changed to resemble
        # the others; two items of
        # the last case did not change, and the third has no answer.
        assert (halo.n, halo.missing) == (6, 1)
        assert halo.value == pytest.approx(2 / 6)
        assert (halo.worst_low, halo.worst_high) == pytest.approx((1 / 7, 3 / 7))


def test_no_halo_of_different_checklists_or_the_same_way_of_asking():
    answers: list[tuple[str | None, ...]] = [(MET, MET, NOT), (NOT, NOT, MET)]
    alone, again = entry("alone", "each", answers), entry("again", "each", answers)
    other = entry("other", "together", answers, "abd")
    for runs in ((alone, again), (alone, other)):
        between = compare_runs(runs, ScoringConfig(bootstrap=50)).between
        assert not [row for row in between if "halo" in row.metric.name]


@pytest.mark.slow
def test_each_run_is_compared_by_its_own_checklist():
    answers: list[tuple[str | None, ...]] = [(MET, NOT), (MET, MET), (NOT, MET)]
    plain = entry("plain", "each", answers, "ab")
    heavy = [{"id": "a", "criterion": "Names a", "points": 9}, {"id": "b", "criterion": "Names b"}]
    cases = tuple(replace(one, checklist=read_items(heavy)) for one in plain.cases)
    weighted = replace(plain, name="weighted", cases=cases)
    config = load_config(overrides=["mode=pointwise", "judge=gpt-4o", "criteria=overall"])
    judgments = tuple(
        Judgment(one.id, (0,), (0,), 0, "gpt", "ok", criteria={"overall quality": 3.0})
        for one in plain.cases
    )
    whole = RunEntry(
        "whole", config, tuple(replace(one, checklist=()) for one in plain.cases), judgments
    )
    for runs in ((plain, weighted), (weighted, plain), (whole, plain, weighted)):
        entries = compare_runs(runs, ScoringConfig(bootstrap=50)).entries
        means = {one.run: one.metric.value for one in entries if one.metric.name == "score/mean"}
        assert means["plain"] == pytest.approx((0.5 + 1.0 + 0.5) / 3)
        assert means["weighted"] == pytest.approx((0.9 + 1.0 + 0.1) / 3)
        assert means.get("whole", 3.0) == 3.0


def test_reasons_that_name_turns_which_the_judge_did_not_see_are_counted():
    before = render(
        [
            Part(1, "said", "user", "Hi"),
            Part(1, "said", "assistant", "Hello"),
            Part(2, "said", "user", "?"),
        ]
    )
    own = [render([Part(2, "said", "assistant", text, judged=True)]) for text in ("a", "b")]
    items = read_items([{"id": "x", "criterion": "X"}, {"id": "y", "criterion": "Y"}], responses=2)
    cases = [Case(f"c{n}", before, tuple(map(Response, own)), checklist=items) for n in range(3)]
    cases.append(Case("plain", "prompt", (Response("text"), Response("text")), checklist=items))
    reasons = {
        ("c0", 0): ("see [turn 1] and [turn 2]", "none"),
        ("c0", 1): ("[turn 3] does not exist", "[turns 1 and 2]"),
        ("c1", 0): ("[step 2]", "[turn 1] [turn 9]"),
        ("plain", 0): ("[turn 7]", ""),
    }
    judgments = [
        replace(
            judged(one.id, unit=unit, x=MET, y=NOT),
            answer={
                "items": [
                    {"item": name, "reason": reason, "answer": MET}
                    for name, reason in zip(
                        "xy", reasons.get((one.id, unit), ("", "")), strict=True
                    )
                ]
            },
        )
        for one in cases
        for unit in (0, 1)
    ]
    metric = scored(cases, judgments).metrics["checklist/evidence/unknown_turn"]
    cited = [
        [int(number) for number in re.findall(r"\d", text)]
        for texts in reasons.values()
        for text in texts[:2]
    ]
    named = [numbers for numbers in cited[:-2] if numbers]
    assert (
        (metric.n, metric.value)
        == (len(named), sum(max(numbers) > 2 for numbers in named) / len(named))
        == (5, 0.4)
    )
    assert metric.low is not None
    assert "checklist/evidence/unknown_turn" not in scored(cases[-1:], judgments[-2:]).metrics


def test_a_missing_score_is_missing_as_the_judgments_behind_it():
    pairs = [replace(case(f"c{n}", responses=2), label="A") for n in range(8)]
    full = {"light": MET, "sugar": MET, "rude": NOT}
    lost = {
        "c1": [("unparseable", None)],
        "c2": [("refused", None)],
        "c3": [("failed", "timeout")],
        "c4": [("failed", "budget")],
        "c5": [("ok", None), ("failed", "timeout"), ("failed", None)],
    }
    judgments = [judged(one.id, **full) for one in pairs] + [
        judged("c0", unit=1, **full | {"sugar": NOT})
    ]
    judgments += [
        replace(judged(name, sample, unit=1, light=CANNOT), status=status, error_kind=kind)
        for name, answers in lost.items()
        for sample, (status, kind) in enumerate(answers)
    ]
    judgments.append(
        judged("c6", unit=1, **full | {"sugar": CANNOT})
    )  # c7 is not asked about its second response
    result = scored(pairs, judgments)
    # Unparseable, refused, two failed, budget, a side that cannot be assessed, and one not asked.
    accuracy = result.metrics["agreement/accuracy"]
    assert (accuracy.value, accuracy.n, accuracy.missing) == (1.0, 1, 7)
    assert result.metrics["missing/failed"].n == len(judgments)
