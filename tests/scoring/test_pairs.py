"""From judgments of pairs to verdicts: two passes, a third one, expectations, and criteria that cancel out."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.core.errors import ConfigError
from evalkit.core.types import WeightedJudgment
from evalkit.scoring.pipeline import score_run, verdicts_of
from evalkit.scoring.verdicts.pairs import coin
from tests.support.thorough import examples

SIGNS = {1: "A", 0: "TIE", -1: "B"}


def only(config, cases, judgments):
    (verdict,) = verdicts_of(config, cases, judgments)
    return verdict


@pytest.mark.parametrize(
    ("resolve", "first", "second", "confidence", "winner", "reason", "margin", "left"),
    [
        ("tie", 1, 1, (0.9, 0.7), "A", "judged", 1, 0.8),
        ("tie", -1, -1, (None, 0.7), "B", "judged", -1, 0.7),
        ("tie", 0, 0, (0.6, 0.8), "TIE", "judged", 0, 0.7),
        ("tie", 1, -1, (0.9, 0.7), "TIE", "swap_disagreement", 0, 0.5),
        ("tie", 1, 0, (0.9, 0.7), "TIE", "swap_disagreement", 0.5, 0.5),
        ("tie", 1, None, (0.9, None), None, "missing", None, None),
        ("lower_confidence", 1, 1, (0.9, 0.7), "A", "judged", 1, 0.8),
        ("lower_confidence", 1, -1, (0.9, 0.7), "A", "judged", 1, 0.6),
        ("lower_confidence", 1, -1, (0.6, 0.9), "B", "judged", -1, 0.65),
        ("lower_confidence", 1, -1, (0.3, 0.1), "A", "judged", 1, 0.3),
        ("lower_confidence", 1, 0, (0.6, 0.9), "TIE", "swap_disagreement", 0, 0.65),
        ("lower_confidence", 1, -1, (0.8, 0.8), "TIE", "swap_disagreement", 0, 0.5),
        ("lower_confidence", 1, -1, (0.8, None), "TIE", "swap_disagreement", 0, 0.5),
        ("lower_confidence", None, -1, (None, 0.9), None, "missing", None, None),
        ("net_vote", 1, 1, (0.9, 0.7), "A", "judged", 1, 0.8),
        ("net_vote", 1, 0, (0.9, 0.7), "A", "judged", 0.5, 0.7),
        ("net_vote", 1, -1, (0.9, 0.7), "TIE", "swap_disagreement", 0, 0.5),
        ("net_vote", 0.2, -0.9, (0.9, 0.7), "TIE", "swap_disagreement", 0, 0.5),
        ("net_vote", None, -1, (None, 0.7), "B", "judged", -0.5, 0.7),
        ("net_vote", None, 0, (None, 0.7), "TIE", "judged", 0, 0.7),
        ("net_vote", None, None, (None, None), None, "missing", None, None),
        ("mean", 1, 0, (0.9, 0.7), "A", "judged", 0.5, 0.7),
        ("mean", 0.2, -0.9, (0.9, 0.8), "B", "judged", -0.35, 0.45),
        ("mean", 1, -1, (0.9, 0.7), "TIE", "swap_disagreement", 0, 0.5),
        ("mean", 1, 0, (None, 0.7), "A", "judged", 0.5, None),
        ("mean", 1, None, (0.9, None), None, "missing", None, None),
    ],
)
def test_two_passes(
    configure, make_case, passes, resolve, first, second, confidence, winner, reason, margin, left
):
    judgments = passes("c", first, second, confidence=confidence)
    verdict = only(configure(swap={"resolve": resolve}), [make_case("c")], judgments)
    assert (verdict.winner, verdict.reason) == (winner, reason)
    assert verdict.margin == (None if margin is None else pytest.approx(margin))
    assert verdict.confidence == (None if left is None else pytest.approx(left))
    said = [None if m is None else SIGNS[(m > 0) - (m < 0)] for m in (first, second)]
    assert [verdict.orders.first, verdict.orders.second] == said
    assert verdict.orders.consistent == (None if None in said else said[0] == said[1])
    assert verdict.unit == (0, 1)
    assert verdict.judge == "m"


def obvious(resolve, first, second, threshold):
    """The rules in words, for margins without confidences."""
    if resolve == "net_vote":
        if first is None and second is None:
            return None
        net = sum((m > 0) - (m < 0) for m in (first, second) if m is not None)
        margin = net / 2
        if (
            first is not None
            and second is not None
            and (first > 0) == (second > 0)
            and (first < 0) == (second < 0)
        ):
            margin = (first + second) / 2
    elif first is None or second is None:
        return None
    else:
        signs = {(m > 0) - (m < 0) for m in (first, second)}
        margin = (first + second) / 2
        if resolve in ("tie", "lower_confidence") and len(signs) > 1:
            return "TIE"
    return "TIE" if abs(margin) <= threshold else "A" if margin > 0 else "B"


MARGINS = st.none() | st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])


@examples(12)
@given(
    st.lists(st.tuples(MARGINS, MARGINS), min_size=1, max_size=6),
    st.sampled_from(["tie", "lower_confidence", "net_vote", "mean"]),
    st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]),
)
def test_many_pairs_equal_the_obvious_version(
    configure, make_case, passes, margins, resolve, threshold
):
    cases = [make_case(str(k)) for k in range(len(margins))]
    judgments = [
        judgment for k, (one, two) in enumerate(margins) for judgment in passes(str(k), one, two)
    ]
    config = configure(
        swap={"resolve": resolve}, tie={"threshold": threshold}, scoring={"bootstrap": 0}
    )
    winners = [verdict.winner for verdict in verdicts_of(config, cases, judgments)]
    assert winners == [obvious(resolve, one, two, threshold) for one, two in margins]


@pytest.mark.parametrize("resolve", ["tie", "lower_confidence", "net_vote", "mean"])
def test_turning_a_pair_round_turns_the_verdict_round(configure, make_case, passes, resolve):
    def negate(margin):
        return None if margin is None else -margin

    config = configure(swap={"resolve": resolve}, scoring={"bootstrap": 0})
    margins = list(product([1.0, 0.4, 0.0, -0.4, -1.0, None], repeat=2))
    given, turned = (
        [
            one
            for pair in margins
            for one in passes(f"{pair} {side}", *map(turn, pair), confidence=(0.9, 0.6))
        ]
        for side, turn in (("as it is", lambda margin: margin), ("turned", negate))
    )
    cases = [make_case(name) for name in dict.fromkeys(one.case_id for one in [*given, *turned])]
    verdicts = verdicts_of(config, cases, [*given, *turned])
    for pair, there, back in zip(
        margins, verdicts[: len(margins)], verdicts[len(margins) :], strict=True
    ):
        assert back.winner == {"A": "B", "B": "A"}.get(there.winner, there.winner), pair
        assert back.confidence == there.confidence, pair
        assert back.margin == (None if there.margin is None else -there.margin), pair


@pytest.mark.parametrize(("tie", "margin", "confidence", "winner", "reason"), [
    ({"threshold": 0.3}, 0.3, 0.9, "TIE", "threshold"),
    ({"threshold": 0.3}, 0.1 + 0.2, 0.9, "TIE", "threshold"),
    ({"threshold": 0.3}, 0.3001, 0.9, "A", "judged"),
    ({"threshold": 0.3}, 0.0, 0.9, "TIE", "judged"),
    ({"min_confidence": 0.7}, 1.0, 0.6, "TIE", "threshold"),
    ({"min_confidence": 0.7}, 1.0, 0.7, "A", "judged"),
    ({"min_confidence": 0.7}, 1.0, None, "A", "judged"),
    ({"threshold": 0.3}, None, None, None, "missing"),
    ({"threshold": 0.3, "allow": False}, None, None, None, "missing"),
    ({"threshold": 0.3, "allow": False}, -0.2, 0.9, "B", "forced"),
    ({"threshold": 0.3, "allow": False}, -0.4, 0.9, "B", "judged"),
])  # fmt: skip
def test_tie_rules(configure, make_case, judged, tie, margin, confidence, winner, reason):
    judgments = [judged("c", (0, 1), margin, confidence=confidence)]
    verdict = only(configure(swap={"policy": "none"}, tie=tie), [make_case("c")], judgments)
    assert (verdict.winner, verdict.reason) == (winner, reason)


@pytest.mark.parametrize(("first", "second", "confidence", "winner"), [
    (1, 0, (0.5, 0.9), "A"),
    (1, -1, (0.5, 0.9), "B"),
    (1, -1, (0.9, 0.5), "A"),
    (0.5, -1, (0.5, 0.9), "B"),
])  # fmt: skip
@pytest.mark.parametrize("resolve", ["tie", "lower_confidence", "mean"])
def test_a_forbidden_tie_is_settled_by_margin_then_confidence(
    configure, make_case, passes, first, second, confidence, winner, resolve
):
    config = configure(swap={"resolve": resolve}, tie={"allow": False})
    verdict = only(config, [make_case("c")], passes("c", first, second, confidence=confidence))
    assert verdict.winner == winner
    assert verdict.reason in ("forced", "judged")


def test_the_coin_is_fair_and_falls_the_same_way_for_the_same_pair(configure, make_case, passes):
    names = [f"case {k}" for k in range(400)]
    judgments = [judgment for name in names for judgment in passes(name, 1, -1)]
    config = configure(tie={"allow": False}, scoring={"bootstrap": 0})
    cases = [make_case(name) for name in names]
    verdicts = verdicts_of(config, cases, judgments)
    assert {verdict.reason for verdict in verdicts} == {"forced"}
    assert 150 < sum(verdict.winner == "A" for verdict in verdicts) < 250
    assert [verdict.winner for verdict in verdicts] == [SIGNS[coin(case, 0, 1)] for case in cases]
    turned = [replace(case, responses=case.responses[::-1]) for case in cases]
    assert [coin(case, 0, 1) for case in turned] == [-coin(case, 0, 1) for case in cases]
    assert only(config, [make_case(names[7])], judgments[14:16]).winner == verdicts[7].winner


CRITERIA = [
    {"name": "truth", "weight": 3},
    {"name": "style", "weight": 1},
    {"name": "idle", "weight": 0},
]


@pytest.mark.parametrize(("scoring", "held", "margin"), [
    ({}, {"truth": -1.0, "style": 1.0}, -0.5),
    ({"weights": {"truth": 1, "idle": 1}}, {"truth": -1.0, "style": 1.0, "idle": 0.0}, 1.0),
    ({}, {"truth": -1.0}, None),
    ({}, {}, 1.0),
    ({"aggregate": "overall", "weights": {"style": 5}}, {"truth": -1.0, "style": 1.0}, 1.0),
    ({"aggregate": "criteria"}, {"truth": -1.0, "style": 1.0}, -0.5),
    ({"weights": {"style": 9}}, {"truth": -1.0, "style": 1.0}, 0.5),
    ({"aggregate": "criteria"}, {"truth": -1.0}, None),
])  # fmt: skip
def test_what_a_margin_is_made_of(configure, make_case, judged, scoring, held, margin):
    config = configure(criteria=CRITERIA, swap={"policy": "none"}, scoring=scoring)
    verdict = only(config, [make_case("c")], [judged("c", (0, 1), 1.0, criteria=held)])
    assert verdict.margin == margin
    assert (verdict.reason == "missing") == (margin is None)
    assert verdict.criteria == held


def test_weights_need_criteria(configure, make_case, passes):
    with pytest.raises(ConfigError, match=r"scoring\.aggregate.*gave none"):
        score_run(configure(scoring={"aggregate": "criteria"}), [make_case("c")], passes("c", 1, 1))
    unread = only(
        configure(scoring={"aggregate": "criteria"}), [make_case("c")], passes("c", None, None)
    )
    assert unread.reason == "missing"


def test_one_order(configure, make_case, judged, passes):
    config = configure(swap={"policy": "none"})
    swapped = only(
        config, [make_case("c")], [judged("c", (0, 1), -1.0, swapped=True, confidence=0.7)]
    )
    assert (swapped.winner, swapped.confidence) == ("B", 0.7)
    assert (swapped.orders.first, swapped.orders.second, swapped.orders.consistent) == (
        None,
        "B",
        None,
    )
    of_two = only(config, [make_case("c")], passes("c", 1, -1))
    assert (of_two.winner, of_two.orders.second) == ("A", None)
    unread = only(config, [make_case("c")], passes("c", None, -1))
    assert (unread.winner, unread.reason) == (None, "missing")


def test_labels_come_from_people_or_from_their_grades(configure, make_case):
    cases = [
        make_case("label", ("a", "b", "c"), label="B", grades=[3, 1, 1]),
        make_case("grades", ("a", "b", "c"), grades=[2, 2, None]),
        make_case("none"),
    ]
    verdicts = verdicts_of(configure(), cases, [])
    assert [(v.case_id, v.unit, v.label) for v in verdicts] == [
        ("label", (0, 1), "B"),
        ("label", (0, 2), "A"),
        ("label", (1, 2), "TIE"),
        ("grades", (0, 1), "TIE"),
        ("grades", (0, 2), None),
        ("grades", (1, 2), None),
        ("none", (0, 1), None),
    ]
    assert {v.reason for v in verdicts} == {"missing"}


def test_both_orders_cannot_be_had_from_one(configure, make_case, judged):
    with pytest.raises(ConfigError, match=r"swap\.policy: both orders.*set swap=none"):
        score_run(configure(), [make_case("c")], [judged("c", (0, 1), 1.0)])


# Orders drawn at random: each sample counts, whichever order it was drawn for


def test_no_sample_is_left_out_for_the_order_it_was_shown_in(configure, make_case, judged):
    config = configure(swap={"policy": "random"}, mode={"samples": 2})
    own, swapped = (
        judged("c", (0, 1), 1.0, confidence=0.9),
        judged("c", (0, 1), -1.0, swapped=True, sample=1, confidence=0.5),
    )
    scores = score_run(config, [make_case("c", label="TIE"), make_case("other")], [own, swapped])
    verdict = scores.verdicts[0]
    assert (verdict.winner, verdict.reason, verdict.margin) == ("TIE", "split", 0.0)
    assert verdict.confidence == pytest.approx(0.7)
    assert (verdict.orders.first, verdict.orders.second) == ("A", "B")
    assert (
        scores.metrics["position/first_rate"].value,
        scores.metrics["position/first_rate"].n,
    ) == (1.0, 2)
    assert "cannot be separated" not in scores.metrics["position/first_rate"].note


@pytest.mark.parametrize("swapped", [True, False])
def test_one_sample_decides_in_the_order_it_was_drawn_for(configure, make_case, judged, swapped):
    config = configure(swap={"policy": "random"})
    (verdict,) = verdicts_of(config, [make_case("c")], [judged("c", (0, 1), -1.0, swapped=swapped)])
    assert (verdict.winner, verdict.margin) == ("B", -1.0)
    (lost,) = verdicts_of(config, [make_case("c")], [judged("c", (0, 1), None, swapped=swapped)])
    assert (lost.winner, lost.reason) == (None, "missing")


THIRD = {"resolve": "third_pass"}


def third(judged, value, confidence=None, *, swapped=False, arbiter="m", sample=1):
    return judged(
        "c", (0, 1), value, swapped=swapped, sample=sample, confidence=confidence, arbiter=arbiter
    )


@pytest.mark.parametrize(("values", "confidences", "winner", "reason", "margin", "confidence"), [
    ((1, 1, None), (0.9, 0.7, None), "A", "judged", 1, 0.8),
    ((1, -1, 1), (0.9, 0.7, 0.8), "A", "judged", 1, (0.9 + 0.3 + 0.8) / 3),
    ((1, -1, -1), (0.9, 0.7, 0.8), "B", "judged", -1, (0.1 + 0.7 + 0.8) / 3),
    ((1, -1, 0), (0.9, 0.7, 0.8), "TIE", "swap_disagreement", 0, 0.5),
    ((1, 0, 1), (0.9, 0.7, 0.8), "A", "judged", 1, (0.9 + 0.5 + 0.8) / 3),
    ((1, 0, 0), (0.9, 0.7, 0.8), "TIE", "judged", 0, 0.5),
    ((1, 0, -1), (0.9, 0.7, 0.8), "TIE", "swap_disagreement", 0, 0.5),
    ((0.4, -0.9, 0.6), (None, 0.7, 0.8), "A", "judged", 0.4, None),
    ((1, -1, None), (0.9, 0.7, None), None, "missing", None, None),
    ((1, None, None), (0.9, None, None), None, "missing", None, None),
])  # fmt: skip
def test_two_of_three_decide(
    configure, make_case, passes, judged, values, confidences, winner, reason, margin, confidence
):
    *two, last = values
    judgments = [
        *passes("c", *two, confidence=confidences[:2]),
        third(judged, last, confidences[2]),
    ]
    [verdict] = verdicts_of(configure(swap=THIRD), [make_case("c")], judgments)
    assert (verdict.winner, verdict.reason) == (winner, reason)
    assert verdict.margin == (None if margin is None else pytest.approx(margin))
    assert verdict.confidence == (None if confidence is None else pytest.approx(confidence))
    differ = None not in two and (two[0] > 0) - (two[0] < 0) != (two[1] > 0) - (two[1] < 0)
    signs = {1: "A", 0: "TIE", -1: "B"}
    assert verdict.orders.third == (
        signs[(last > 0) - (last < 0)] if differ and last is not None else None
    )


def test_a_verdict_does_not_depend_on_which_of_three_came_third_and_turns_with_the_pair(
    configure, make_case, passes, judged
):
    def judgments(case, values):
        return [*passes(case, *values[:2]), replace(third(judged, values[2]), case_id=case)]

    triples = list(product([1.0, 0.3, 0.0, -0.3, -1.0], repeat=3))
    both = {
        f"{values} {side}": [side * value for value in values]
        for values in triples
        for side in (1, -1)
    }
    given = [one for name, values in both.items() for one in judgments(name, values)]
    scored = verdicts_of(
        configure(swap=THIRD, scoring={"bootstrap": 0}), [*map(make_case, both)], given
    )
    winners = {verdict.case_id: verdict.winner for verdict in scored}
    for values in triples:
        winner, turned = winners[f"{values} 1"], winners[f"{values} -1"]
        signs = [(value > 0) - (value < 0) for value in values]
        if signs[0] != signs[1]:
            assert winner == {1: "A", 0: "TIE", -1: "B"}[sorted(signs)[1]], values
        assert turned == {"A": "B", "B": "A"}.get(winner, "TIE"), values


def test_the_third_may_be_shown_swapped_by_another_judge_and_in_samples(
    configure, make_case, passes, judged
):
    votes = [
        third(judged, value, arbiter="wise", swapped=k % 2 == 1, sample=k)
        for k, value in enumerate((1.0, 1.0, -1.0))
    ]
    scores = score_run(configure(swap=THIRD), [make_case("c")], [*passes("c", 1, -1), *votes])
    [verdict] = scores.verdicts
    assert (verdict.winner, verdict.judge, verdict.orders.consistent) == ("A", "m", False)
    assert scores.metrics["position/consistency"].value == 0
    assert scores.metrics["third_pass/settled_rate"].value == 1


def test_other_resolutions_leave_third_judgments_out(configure, make_case, passes, judged):
    judgments = [*passes("c", 1, -1), third(judged, 1)]
    scores = score_run(configure(), [make_case("c")], judgments)
    assert (scores.verdicts[0].winner, scores.verdicts[0].orders.third) == ("TIE", None)
    assert "third_pass/settled_rate" not in scores.metrics
    alone = score_run(configure(swap={"policy": "none"}), [make_case("c")], judgments)
    assert (alone.verdicts[0].winner, alone.verdicts[0].orders.second) == ("A", None)
    assert not alone.verdicts[0].incomplete


def test_a_run_judged_without_a_third_pass_says_so(configure, make_case, passes):
    config = configure(swap=THIRD)
    with pytest.raises(
        ConfigError,
        match=r"swap\.resolve: orders disagree, but there are no third.*rerun the judge with swap=third_pass",
    ):
        score_run(config, [make_case("c")], passes("c", 1, -1))
    assert verdicts_of(config, [make_case("c")], passes("c", 1, 1))[0].winner == "A"


def test_a_disagreement_that_only_other_weights_make_is_missing(configure, make_case, passes):
    criteria = [{"name": "truth"}, {"name": "style"}]
    judgments = [
        replace(one, criteria={"truth": side, "style": 0.0})
        for one, side in zip(passes("c", 1, 1), (1.0, -1.0), strict=True)
    ]
    config = configure(criteria=criteria, swap=THIRD, scoring={"aggregate": "criteria"})
    scores = score_run(config, [make_case("c")], judgments)
    assert scores.verdicts[0].reason == "missing"
    settled = scores.metrics["third_pass/settled_rate"]
    assert (settled.value, settled.missing) == (None, 1)


@pytest.mark.parametrize(("values", "winner", "reason"), [
    ((1, 0, -1), None, "forced"),
    ((0.4, 0, -0.9), "B", "forced"),
    ((1, 0, 0), "A", "forced"),
    ((1, -1, 1), "A", "judged"),
])  # fmt: skip
def test_where_ties_are_forbidden_all_three_margins_settle_it(
    configure, make_case, passes, judged, values, winner, reason
):
    *two, last = values
    config = configure(swap=THIRD, tie={"allow": False})
    scores = score_run(config, [make_case("c")], [*passes("c", *two), third(judged, last)])
    [verdict] = scores.verdicts
    assert verdict.winner == (winner or verdict.winner)
    assert verdict.winner in ("A", "B")
    assert verdict.reason == reason
    assert scores.metrics["forced_rate"].value == (reason == "forced")


def test_a_net_vote_says_where_it_rests_on_one_pass(configure, make_case, passes):
    cases = [make_case(str(k)) for k in range(3)]
    judgments = [
        one
        for k, row in enumerate([(1, 1), (None, -1), (None, None)])
        for one in passes(str(k), *row)
    ]
    scores = score_run(configure(swap={"resolve": "net_vote"}), cases, judgments)
    assert [(verdict.winner, verdict.incomplete) for verdict in scores.verdicts] == [
        ("A", False),
        ("B", True),
        (None, False),
    ]
    alone = scores.metrics["missing/one_pass"]
    assert (alone.value, alone.n, alone.missing) == (0.5, 2, 1)
    other = score_run(configure(), cases, judgments)
    assert "missing/one_pass" not in other.metrics
    assert not any(verdict.incomplete for verdict in other.verdicts)


def test_each_judge_of_a_panel_has_third_judgments_of_its_own(configure, make_case, passes, judged):
    judge = {"judges": [{"model": "m"}, {"model": "n"}]}
    config = configure(judge=judge, swap=THIRD)
    judgments = [
        *passes("c", 1, -1),
        third(judged, 1, arbiter="wise", sample=0),
        *(replace(one, judge="n") for one in passes("c", -1, 1)),
        replace(third(judged, 1, arbiter="wise", sample=0), judge="n"),
    ]
    scores = score_run(config, [make_case("c")], judgments)
    assert scores.verdicts[0].votes == {"m": "A", "n": "A"}
    assert scores.verdicts[0].orders.third is None
    assert scores.metrics["judge/m/third_pass/settled_rate"].value == 1
    assert "third_pass/settled_rate" not in scores.metrics


WEIGHTS = [
    ("0.5", "0.3", "0.2"), ("0.3", "0.3", "0.4"), ("0.1", "0.2", "0.3"), ("0.7", "0.1", "0.6"),
    ("3", "2", "1"),
]  # fmt: skip
NAMES = ("x", "y", "z")


def criteria(weights):
    return [{"name": name, "weight": float(weight)} for name, weight in weights]


def verdict_of(configure, make_case, judged, weights, values, overall, **scoring):
    config = configure(criteria=criteria(weights), swap={"policy": "none"}, scoring=scoring)
    scores = score_run(config, [make_case("c")], [judged("c", (0, 1), overall, criteria=values)])
    return scores.verdicts[0], scores.metrics


@pytest.mark.parametrize("weights", WEIGHTS, ids="/".join)
def test_verdicts_follow_exact_arithmetic(configure, make_case, judged, weights):
    """Whatever the order of the criteria, the winner is that of rational weights, and a named winner breaks ties."""
    asked = list(product(product((1, 0, -1), repeat=3), (1.0, -1.0)))
    cases = [make_case(f"c{n}") for n in range(len(asked))]
    judgments = [
        judged(case.id, (0, 1), overall, criteria=dict(zip(NAMES, map(float, values), strict=True)))
        for case, (values, overall) in zip(cases, asked, strict=True)
    ]
    for order in permutations(zip(NAMES, weights, strict=True)):
        config = configure(
            criteria=criteria(order), swap={"policy": "none"}, scoring={"bootstrap": 0}
        )
        for (values, overall), verdict in zip(
            asked, verdicts_of(config, cases, judgments), strict=True
        ):
            exact = sum(
                Fraction(weight) * value for weight, value in zip(weights, values, strict=True)
            )
            expected = exact or Fraction(overall)
            assert verdict.winner == ("A" if expected > 0 else "B"), (order, values, overall)
            assert (abs(verdict.margin) == 0.001) == (exact == 0)


CASES = [
    ({}, 1.0, "A", "judged"),
    ({}, 0.0, "TIE", "judged"),
    ({"aggregate": "overall"}, 1.0, "A", "judged"),
    ({"aggregate": "criteria_first"}, -1.0, "B", "judged"),
    ({"aggregate": "criteria"}, 1.0, "TIE", "criteria_cancel"),
    ({"aggregate": "criteria"}, 0.0, "TIE", "judged"),
]


@pytest.mark.parametrize(("scoring", "overall", "winner", "reason"), CASES)
def test_the_reason_of_a_tie_by_weights(
    configure, make_case, judged, scoring, overall, winner, reason
):
    weights, values = (
        tuple(zip(NAMES, (0.5, 0.3, 0.2), strict=True)),
        {"x": 1.0, "y": -1.0, "z": -1.0},
    )
    verdict, metrics = verdict_of(configure, make_case, judged, weights, values, overall, **scoring)
    assert (verdict.winner, verdict.reason) == (winner, reason)
    assert metrics["tie_rate/criteria_cancel"].value == float(reason == "criteria_cancel")
    assert metrics["tie_rate/judged"].value == float((winner, reason) == ("TIE", "judged"))
    disagrees = scoring.get("aggregate") in ("overall", "criteria") and overall != 0
    assert metrics["criteria/overall_disagreement"].value == float(disagrees)


def test_ties_on_every_criterion_do_not_cancel(configure, make_case, judged):
    weights, values = tuple(zip(NAMES, (0.5, 0.3, 0.2), strict=True)), dict.fromkeys(NAMES, 0.0)
    verdict, _ = verdict_of(
        configure, make_case, judged, weights, values, 1.0, aggregate="criteria"
    )
    assert (verdict.winner, verdict.reason) == ("TIE", "judged")


def test_an_overall_winner_only_breaks_ties(configure, make_case, judged):
    """One order cancels out with winner A, the other prefers B by 0.2: their mean is B, and a threshold applies."""
    weights = tuple(zip(NAMES, (0.5, 0.3, 0.2), strict=True))
    judgments = [
        judged("c", (0, 1), 1.0, criteria={"x": 1.0, "y": -1.0, "z": -1.0}),
        judged("c", (0, 1), -1.0, swapped=True, criteria={"x": 0.0, "y": 0.0, "z": -1.0}),
    ]
    config = configure(criteria=criteria(weights), swap={"policy": "both", "resolve": "mean"})
    (verdict,) = verdicts_of(config, [make_case("c")], judgments)
    assert verdict.winner == "B"
    assert verdict.margin == pytest.approx(-0.0995)
    config = config.model_copy(update={"tie": config.tie.model_copy(update={"threshold": 0.1})})
    (verdict,) = verdicts_of(config, [make_case("c")], judgments)
    assert verdict.reason == "threshold"


ASKED = {"model": "m", "logprobs": True}
FALLBACK = {"model": "m", "logprobs": "fallback"}


def weighed(judgment, value=None, mass=0.9, open_=0.1, **criteria):
    return replace(judgment, weighted=WeightedJudgment(value, criteria, mass, open_))


@pytest.fixture
def pair(passes):
    return [
        weighed(one, value, quality=value)
        for one, value in zip(passes("c", 1, 1), (0.5, 0.1), strict=True)
    ]


def test_margins_are_expectations(configure, make_case, pair):
    scores = score_run(configure(judge=ASKED), [make_case("c")], pair)
    assert scores.verdicts[0].margin == pytest.approx(0.3)
    assert scores.verdicts[0].criteria == {"quality": pytest.approx(0.3)}
    stated = score_run(configure(judge=ASKED, scoring={"weighted": False}), [make_case("c")], pair)
    assert stated.verdicts[0].margin == 1
    assert stated.metrics["weighted/rate"].value == 1
    little = [weighed(one, 0.5, mass=0.4) for one in pair]
    mass = score_run(configure(judge=ASKED), [make_case("c")], little).metrics["weighted/mass"]
    assert "not values of the scale" in mass.note
    unasked = score_run(configure(), [make_case("c")], pair)
    assert unasked.verdicts[0].margin == 1
    assert "weighted/rate" not in unasked.metrics


def test_scores_are_expectations_and_break_ties(pointwise, make_case, judged):
    judgments = [
        weighed(judged("c", (k,), criteria={"quality": 4}), quality=value)
        for k, value in enumerate((3.8, 4.2))
    ]
    case = make_case("c", grades=[1, 2])
    scores = score_run(pointwise(judge=ASKED), [case], judgments)
    assert [verdict.score for verdict in scores.verdicts[:2]] == [3.8, 4.2]
    assert scores.verdicts[2].winner == "B"
    assert (
        verdicts_of(pointwise(judge=ASKED, scoring={"weighted": False}), [case], judgments)[
            2
        ].winner
        == "TIE"
    )


def test_one_judgment_without_probabilities_is_a_mistake_where_they_are_a_must(
    configure, make_case, pair
):
    pair[1] = replace(pair[1], weighted=None)
    with pytest.raises(
        ConfigError,
        match=r"judge\.logprobs: some judgments by m have no probabilities; rerun the judge",
    ):
        score_run(configure(judge=ASKED), [make_case("c")], pair)


def test_with_fallback_the_kinds_are_never_mixed(configure, make_case, pair):
    pair[1] = replace(pair[1], weighted=None)
    scores = score_run(configure(judge=FALLBACK), [make_case("c")], pair)
    assert scores.verdicts[0].margin == 1
    rate = scores.metrics["weighted/rate"]
    assert (rate.value, rate.n) == (0.5, 2)
    assert "scored as stated" in rate.note
    pair[1] = replace(pair[1], status="unparseable", value=None)
    alone = score_run(configure(judge=FALLBACK, swap={"policy": "none"}), [make_case("c")], pair)
    assert alone.verdicts[0].margin == 0.5
    assert (
        alone.metrics["weighted/rate"].note is None
        or "stated" not in alone.metrics["weighted/rate"].note
    )


def test_each_judge_and_arbiter_is_of_its_own_kind(configure, make_case, passes, judged):
    config = configure(judge=ASKED, swap={"resolve": "third_pass", "arbiter": {"model": "wise"}})
    judgments = [
        weighed(one, value) for one, value in zip(passes("c", 1, -1), (0.2, -0.6), strict=True)
    ]
    judgments.append(judged("c", (0, 1), 1.0, arbiter="wise"))
    scores = score_run(config, [make_case("c")], judgments)
    assert (scores.verdicts[0].winner, scores.verdicts[0].margin) == ("A", pytest.approx(0.2))
    assert scores.metrics["weighted/rate"].n == 2
    panel = {"judges": [ASKED, {"model": "n"}]}
    both = [
        *(weighed(one, 0.5) for one in passes("c", 1, 1)),
        *(replace(one, judge="n") for one in passes("c", -1, -1)),
    ]
    voted = score_run(configure(judge={**panel, "vote": "mean"}), [make_case("c")], both)
    assert voted.verdicts[0].margin == pytest.approx(-0.25)
    assert voted.metrics["judge/m/weighted/rate"].value == 1
    assert "judge/n/weighted/rate" not in voted.metrics
