"""From judgments of pairs to verdicts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import ConfigError
from evalkit.scoring import score_run, verdicts_of
from evalkit.scoring.verdicts.pairs import coin

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
def test_two_passes(configure, make_case, passes, resolve, first, second, confidence, winner, reason, margin, left):
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
        if first is not None and second is not None and (first > 0) == (second > 0) and (first < 0) == (second < 0):
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


@given(
    st.lists(st.tuples(MARGINS, MARGINS), min_size=1, max_size=6),
    st.sampled_from(["tie", "lower_confidence", "net_vote", "mean"]),
    st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]),
)
def test_many_pairs_equal_the_obvious_version(configure, make_case, passes, margins, resolve, threshold):
    cases = [make_case(str(k)) for k in range(len(margins))]
    judgments = [judgment for k, (one, two) in enumerate(margins) for judgment in passes(str(k), one, two)]
    config = configure(swap={"resolve": resolve}, tie={"threshold": threshold}, scoring={"bootstrap": 0})
    winners = [verdict.winner for verdict in verdicts_of(config, cases, judgments)]
    assert winners == [obvious(resolve, one, two, threshold) for one, two in margins]


@pytest.mark.parametrize("resolve", ["tie", "lower_confidence", "net_vote", "mean"])
def test_turning_a_pair_round_turns_the_verdict_round(configure, make_case, passes, resolve):
    def negate(margin):
        return None if margin is None else -margin

    config = configure(swap={"resolve": resolve}, scoring={"bootstrap": 0})
    margins = list(product([1.0, 0.4, 0.0, -0.4, -1.0, None], repeat=2))
    given, turned = (
        [one for pair in margins for one in passes(f"{pair} {side}", *map(turn, pair), confidence=(0.9, 0.6))]
        for side, turn in (("as it is", lambda margin: margin), ("turned", negate))
    )
    cases = [make_case(name) for name in dict.fromkeys(one.case_id for one in [*given, *turned])]
    verdicts = verdicts_of(config, cases, [*given, *turned])
    for pair, there, back in zip(margins, verdicts[: len(margins)], verdicts[len(margins) :], strict=True):
        assert back.winner == {"A": "B", "B": "A"}.get(there.winner, there.winner), pair
        assert back.confidence == there.confidence, pair
        assert back.margin == (None if there.margin is None else -there.margin), pair


@pytest.mark.parametrize(
    ("tie", "margin", "confidence", "winner", "reason"),
    [
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
    ],
)
def test_tie_rules(configure, make_case, judged, tie, margin, confidence, winner, reason):
    judgments = [judged("c", (0, 1), margin, confidence=confidence)]
    verdict = only(configure(swap={"policy": "none"}, tie=tie), [make_case("c")], judgments)
    assert (verdict.winner, verdict.reason) == (winner, reason)


@pytest.mark.parametrize(
    ("first", "second", "confidence", "winner"),
    [(1, 0, (0.5, 0.9), "A"), (1, -1, (0.5, 0.9), "B"), (1, -1, (0.9, 0.5), "A"), (0.5, -1, (0.5, 0.9), "B")],
)
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


def test_samples_are_averaged_and_unreadable_ones_left_out(configure, make_case, judged):
    margins = [1.0, 1.0, -1.0, None]
    judgments = [
        judged("c", (0, 1), margin, sample=k, swapped=swapped, confidence=0.2 * (k + 1) if margin else None)
        for k, margin in enumerate(margins)
        for swapped in (False, True)
    ]
    verdict = only(configure(), [make_case("c")], judgments)
    assert verdict.winner == "A"
    assert verdict.margin == pytest.approx(1 / 3)
    assert verdict.confidence == pytest.approx(0.4)


CRITERIA = [{"name": "truth", "weight": 3}, {"name": "style", "weight": 1}, {"name": "idle", "weight": 0}]


@pytest.mark.parametrize(
    ("scoring", "held", "margin"),
    [
        ({}, {"truth": -1.0, "style": 1.0}, -0.5),
        ({"weights": {"truth": 1, "idle": 1}}, {"truth": -1.0, "style": 1.0, "idle": 0.0}, 1.0),
        ({}, {"truth": -1.0}, None),
        ({}, {}, 1.0),
        ({"aggregate": "overall", "weights": {"style": 5}}, {"truth": -1.0, "style": 1.0}, 1.0),
        ({"aggregate": "criteria"}, {"truth": -1.0, "style": 1.0}, -0.5),
        ({"weights": {"style": 9}}, {"truth": -1.0, "style": 1.0}, 0.5),
        ({"aggregate": "criteria"}, {"truth": -1.0}, None),
    ],
)
def test_what_a_margin_is_made_of(configure, make_case, judged, scoring, held, margin):
    config = configure(criteria=CRITERIA, swap={"policy": "none"}, scoring=scoring)
    verdict = only(config, [make_case("c")], [judged("c", (0, 1), 1.0, criteria=held)])
    assert verdict.margin == margin
    assert (verdict.reason == "missing") == (margin is None)
    assert verdict.criteria == held


def test_weights_need_criteria(configure, make_case, passes):
    with pytest.raises(ConfigError, match=r"scoring\.aggregate.*gave none"):
        score_run(configure(scoring={"aggregate": "criteria"}), [make_case("c")], passes("c", 1, 1))
    unread = only(configure(scoring={"aggregate": "criteria"}), [make_case("c")], passes("c", None, None))
    assert unread.reason == "missing"


def test_one_order(configure, make_case, judged, passes):
    config = configure(swap={"policy": "none"})
    swapped = only(config, [make_case("c")], [judged("c", (0, 1), -1.0, swapped=True, confidence=0.7)])
    assert (swapped.winner, swapped.confidence) == ("B", 0.7)
    assert (swapped.orders.first, swapped.orders.second, swapped.orders.consistent) == (None, "B", None)
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
    assert (scores.metrics["position/first_rate"].value, scores.metrics["position/first_rate"].n) == (1.0, 2)
    assert "cannot be separated" not in scores.metrics["position/first_rate"].note


@pytest.mark.parametrize("swapped", [True, False])
def test_one_sample_decides_in_the_order_it_was_drawn_for(configure, make_case, judged, swapped):
    config = configure(swap={"policy": "random"})
    (verdict,) = verdicts_of(config, [make_case("c")], [judged("c", (0, 1), -1.0, swapped=swapped)])
    assert (verdict.winner, verdict.margin) == ("B", -1.0)
    (lost,) = verdicts_of(config, [make_case("c")], [judged("c", (0, 1), None, swapped=swapped)])
    assert (lost.winner, lost.reason) == (None, "missing")
