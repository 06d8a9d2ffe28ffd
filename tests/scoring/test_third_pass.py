"""A third judgment where the two orders disagree; what is said of forced verdicts and of passes that are missing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from evalkit.errors import ConfigError
from evalkit.scoring import score_run, verdicts_of

THIRD = {"resolve": "third_pass"}


def third(judged, value, confidence=None, *, swapped=False, arbiter="m", sample=1):
    return judged("c", (0, 1), value, swapped=swapped, sample=sample, confidence=confidence, arbiter=arbiter)


@pytest.mark.parametrize(
    ("values", "confidences", "winner", "reason", "margin", "confidence"),
    [
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
    ],
)
def test_two_of_three_decide(
    configure, make_case, passes, judged, values, confidences, winner, reason, margin, confidence
):
    *two, last = values
    judgments = [*passes("c", *two, confidence=confidences[:2]), third(judged, last, confidences[2])]
    [verdict] = verdicts_of(configure(swap=THIRD), [make_case("c")], judgments)
    assert (verdict.winner, verdict.reason) == (winner, reason)
    assert verdict.margin == (None if margin is None else pytest.approx(margin))
    assert verdict.confidence == (None if confidence is None else pytest.approx(confidence))
    differ = None not in two and (two[0] > 0) - (two[0] < 0) != (two[1] > 0) - (two[1] < 0)
    signs = {1: "A", 0: "TIE", -1: "B"}
    assert verdict.orders.third == (signs[(last > 0) - (last < 0)] if differ and last is not None else None)


def test_a_verdict_does_not_depend_on_which_of_three_came_third_and_turns_with_the_pair(
    configure, make_case, passes, judged
):
    def judgments(case, values):
        return [*passes(case, *values[:2]), replace(third(judged, values[2]), case_id=case)]

    triples = list(product([1.0, 0.3, 0.0, -0.3, -1.0], repeat=3))
    both = {f"{values} {side}": [side * value for value in values] for values in triples for side in (1, -1)}
    given = [one for name, values in both.items() for one in judgments(name, values)]
    scored = verdicts_of(configure(swap=THIRD, scoring={"bootstrap": 0}), [*map(make_case, both)], given)
    winners = {verdict.case_id: verdict.winner for verdict in scored}
    for values in triples:
        winner, turned = winners[f"{values} 1"], winners[f"{values} -1"]
        signs = [(value > 0) - (value < 0) for value in values]
        if signs[0] != signs[1]:
            assert winner == {1: "A", 0: "TIE", -1: "B"}[sorted(signs)[1]], values
        assert turned == {"A": "B", "B": "A"}.get(winner, "TIE"), values


def test_the_third_may_be_shown_swapped_by_another_judge_and_in_samples(configure, make_case, passes, judged):
    votes = [
        third(judged, value, arbiter="wise", swapped=k % 2 == 1, sample=k) for k, value in enumerate((1.0, 1.0, -1.0))
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


def test_how_many_disagreements_a_third_judgment_settles(configure, make_case, passes, judged):
    rows = [(1, -1, 1), (1, -1, 0), (1, 1, None), (1, 0, None), (0, -1, 0)]
    cases = [make_case(str(k)) for k in range(len(rows))]
    judgments = []
    for k, (one, two, last) in enumerate(rows):
        judgments += passes(str(k), one, two)
        if one != two:
            judgments.append(replace(third(judged, last), case_id=str(k)))
    settled = score_run(configure(swap=THIRD), cases, judgments).metrics["third_pass/settled_rate"]
    assert (settled.value, settled.n, settled.missing) == (pytest.approx(2 / 3), 3, 1)
    assert (settled.worst_low, settled.worst_high) == (0.5, 0.75)


@pytest.mark.parametrize(
    ("values", "winner", "reason"),
    [
        ((1, 0, -1), None, "forced"),
        ((0.4, 0, -0.9), "B", "forced"),
        ((1, 0, 0), "A", "forced"),
        ((1, -1, 1), "A", "judged"),
    ],
)
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


def test_forced_verdicts_are_counted(configure, pointwise, make_case, passes, judged):
    cases = [make_case(str(k)) for k in range(4)]
    rows = [(1, 1), (1, -1), (0, 0), (None, 1)]
    judgments = [one for k, row in enumerate(rows) for one in passes(str(k), *row)]
    forbidden = configure(tie={"allow": False})
    forced = score_run(forbidden, cases, judgments).metrics["forced_rate"]
    assert (forced.value, forced.n, forced.missing) == (pytest.approx(2 / 3), 3, 1)
    assert (forced.worst_low, forced.worst_high) == (0.5, 0.75)
    assert score_run(forbidden, cases, judgments).metrics["tie_rate"].value == 0
    assert "forced_rate" not in score_run(configure(), cases, judgments).metrics
    scored = [judged("0", (k,), criteria={"quality": 3}) for k in (0, 1)]
    assert score_run(pointwise(tie={"allow": False}), cases[:1], scored).metrics["forced_rate"].value == 1


def test_a_net_vote_says_where_it_rests_on_one_pass(configure, make_case, passes):
    cases = [make_case(str(k)) for k in range(3)]
    judgments = [one for k, row in enumerate([(1, 1), (None, -1), (None, None)]) for one in passes(str(k), *row)]
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
