"""All parts of a result come from one aggregation: of ties forced, samples, panels, text formats and lost passes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import evalkit
from evalkit.core.errors import ConfigError
from tests.support.fake_provider import Provider, Reply, said
from tests.support.judging import INPUT, SCORED, always_first, judging, scoring


def tie(first: str, second: str) -> tuple[str, float]:
    return "TIE", 0.5


@pytest.mark.slow
async def test_forced_ties_fall_for_either_side_and_for_the_same_text(provider, overrides):
    provider.rule = judging(always_first)
    winners, config = [], evalkit.load_config(overrides=overrides)
    for number in range(8):
        texts = f"good {number}", f"bad {number}"
        won = []
        for first, second in (texts, texts[::-1]):
            asked = {**INPUT, "responseA": first, "responseB": second, "allowTie": False}
            result = await evalkit.pairwise_compare(asked, config=config)
            assert result.reason == "forced"
            assert [row.winner for row in result.comparison or ()] == [result.winner] * 2
            assert (
                f"This was a tie; {result.winner} was chosen because ties are not allowed."
                in result.overall_reasoning
            )
            won.append({"A": first, "B": second}[str(result.winner)])
        assert won[0] == won[1]
        winners.append(won[0].split()[0])
    assert {"good", "bad"} == {*winners}


async def test_a_judged_result_says_so(provider, overrides):
    provider.rule = judging(lambda first, _: ("A" if first.startswith("good") else "B", 0.9))
    assert (await evalkit.pairwise_compare(INPUT, overrides=overrides)).reason == "judged"
    provider.rule = judging(tie)
    result = await evalkit.pairwise_compare({**INPUT, "prompt": "Another?"}, overrides=overrides)
    assert (result.winner, result.reason) == ("TIE", "judged")


def in_turn(*rules: Callable[[dict[str, Any]], Reply]) -> Callable[[dict[str, Any]], Reply]:
    """Each order has its own samples, answered in turn."""
    counts: dict[bool, int] = {False: 0, True: 0}

    def rule(body: dict[str, Any]) -> Reply:
        text = body["messages"][1]["content"]
        swapped = text.index(INPUT["responseB"]) < text.index(INPUT["responseA"])
        counts[swapped] += 1
        return rules[(counts[swapped] - 1) % len(rules)](body)

    return rule


def choosing(good: str) -> Callable[[dict[str, Any]], Reply]:
    """A judge that names the good response, the bad one or neither, wherever it is."""
    if good == "TIE":
        return judging(tie)
    return judging(lambda first, _: ("A" if first.startswith(good) else "B", 0.8))


async def test_of_samples_every_part_is_the_majority(provider, overrides):
    provider.rule = in_turn(choosing("bad"), choosing("good"), choosing("good"))
    words = [
        *(*overrides, "mode.samples=3", "judge.temperature=1", "scoring.combine=majority"),
        "runner.concurrency=1",
    ]
    result = await evalkit.pairwise_compare(INPUT, overrides=words)
    assert (result.winner, result.reason) == ("A", "judged")
    assert [row.winner for row in result.comparison or ()] == ["A", "A"]
    assert [row.reasoning for row in result.comparison or ()] == [
        f"A wins as {INPUT['responseA']}"
    ] * 2
    assert result.overall_reasoning == f"Response A is better: {INPUT['responseA']}"
    assert result.position_consistency.consistent is True


async def test_of_scored_samples_every_part_is_the_mean(provider, overrides):
    scores = iter([5, 5, 2])
    provider.rule = lambda body: scoring(
        dict.fromkeys(("accuracy", "clarity", "completeness"), next(scores))
    )(body)
    words = [*overrides, "mode.samples=3", "judge.temperature=1", "runner.concurrency=1"]
    result = await evalkit.direct_score(SCORED, overrides=words)
    assert (result.overall_score, result.weighted_score) == (pytest.approx(4.0), pytest.approx(4.0))
    assert [row.score for row in result.scores] == [pytest.approx(4.0)] * 3


def panel(provider: Provider, *names: str) -> list[str]:
    judges = ", ".join(
        f"{{name: {name}, model: openai/{name}, api_base: '{provider.api_base}'}}" for name in names
    )
    return ["judge=panel", f"judge.judges=[{judges}]"]


SAME = {"first_pass_winner": "A", "second_pass_winner": "A", "consistent": True}


async def test_a_panels_parts_are_its_votes(provider):
    votes = {"one": "bad", "two": "good", "three": "good"}
    provider.rule = lambda body: choosing(votes[body["model"]])(body)
    result = await evalkit.pairwise_compare(INPUT, overrides=panel(provider, *votes))
    assert (result.winner, result.success) == ("A", True)
    assert [row.winner for row in result.comparison or ()] == ["A", "A"]
    assert result.overall_reasoning == f"Response A is better: {INPUT['responseA']}"
    assert result.position_consistency.model_dump() == SAME


def always(letter: str) -> Callable[[dict[str, Any]], Reply]:
    """A judge that names the same position in both orders."""
    return judging(lambda *_: (letter, 0.8))


async def test_a_tie_that_a_panel_voted_for_is_a_split(provider):
    rules = {"one": always("A"), "two": always("B"), "three": choosing("good")}
    provider.rule = lambda body: rules[body["model"]](body)
    result = await evalkit.pairwise_compare(INPUT, overrides=panel(provider, *rules))
    assert (result.winner, result.reason) == ("TIE", "split")
    assert result.position_consistency.model_dump() == SAME


@pytest.mark.parametrize(
    "more", [[], ["swap=none"], ["output=bracket"], ["mode.commit_first=true"], ["judge=two"]]
)
async def test_a_judge_that_insists_on_a_tie_gets_it_decided(more, provider, overrides):
    equal = (
        (lambda _: said("They are equal: [[C]]")) if "output=bracket" in more else choosing("TIE")
    )
    provider.rule = lambda body: (
        equal(body) if "<response_a>" in str(body["messages"]) else said("My answer.")
    )
    words = panel(provider, "one", "two") if more == ["judge=two"] else [*overrides, *more]
    winners = []
    for first, second in (
        (INPUT["responseA"], INPUT["responseB"]),
        (INPUT["responseB"], INPUT["responseA"]),
    ):
        swap = {"swapPositions": False} if more == ["swap=none"] else {}
        asked = {**INPUT, "responseA": first, "responseB": second, "allowTie": False, **swap}
        result = await evalkit.pairwise_compare(asked, overrides=words)
        assert (result.success, result.reason, result.error) == (True, "forced", None)
        assert {row.winner for row in result.comparison or ()} <= {result.winner}
        winners.append({"A": first, "B": second}[str(result.winner)])
    assert winners[0] == winners[1]  # the same text, wherever it is


async def test_where_the_difference_decides_a_tie_it_is_not_left_to_chance(provider, overrides):
    for good in ("good", "bad"):
        provider.rule = in_turn(
            choosing("TIE"), choosing("TIE"), choosing(good)
        )  # the first is asked again
        words = [
            *(*overrides, "mode.samples=2", "scoring.combine=majority", "judge.temperature=1"),
            "runner.concurrency=1",
        ]
        asked = {**INPUT, "prompt": f"Who is {good}?", "allowTie": False}
        result = await evalkit.pairwise_compare(asked, overrides=words)
        assert (result.winner, result.reason) == ("A" if good == "good" else "B", "judged")


async def test_a_panels_scores_are_its_votes(provider):
    votes = {"one": 1, "two": 4, "three": 5}
    names = ("accuracy", "clarity", "completeness")
    provider.rule = lambda body: scoring(dict.fromkeys(names, votes[body["model"]]))(body)
    result = await evalkit.direct_score(SCORED, overrides=panel(provider, *votes))
    assert ([row.score for row in result.scores], result.overall_score, result.weighted_score) == (
        [4.0] * 3,
        4.0,
        4.0,
    )


async def test_a_panel_with_one_unreadable_judge_has_the_others_result(provider):
    fine = scoring(dict.fromkeys(("accuracy", "clarity", "completeness"), 4))
    provider.rule = lambda body: (
        said("I would rather not.") if body["model"] == "one" else fine(body)
    )
    result = await evalkit.direct_score(SCORED, overrides=panel(provider, "one", "two"))
    assert (result.success, result.weighted_score, [row.score for row in result.scores]) == (
        True,
        4.0,
        [4.0] * 3,
    )


@pytest.mark.parametrize(
    "output",
    [["output=bracket"], ["output=regex", "output.pattern='better: (?P<winner>[AB])'"]],
    ids=["bracket", "regex"],
)
@pytest.mark.parametrize("agree", [True, False])
async def test_text_formats_have_a_winner_and_the_judges_words(agree, output, provider, overrides):
    def rule(body: dict[str, Any]) -> Reply:
        text = body["messages"][1]["content"]
        swapped = text.index(INPUT["responseB"]) < text.index(INPUT["responseA"])
        letter = "B" if swapped and agree else "A"
        ending = f"[[{letter}]]" if output == ["output=bracket"] else f"better: {letter}"
        return said(f"<think>hm</think>It is clearer.\n{ending}")

    provider.rule = rule
    result = await evalkit.pairwise_compare(INPUT, overrides=[*overrides, *output])
    assert (result.success, result.winner, result.confidence) == (
        True,
        "A" if agree else "TIE",
        None,
    )
    assert (result.comparison, result.differentiators) == (None, None)
    assert result.overall_reasoning.startswith("It is clearer.")
    assert result.position_consistency.consistent is agree
    json.dumps(result.model_dump(by_alias=True), allow_nan=False)


async def test_a_rating_has_a_score_and_the_judges_words(provider, overrides):
    provider.rule = lambda body: said("Clear and short.\n[[4]]")
    asked = {**SCORED, "criteria": [{"name": "clarity"}]}
    result = await evalkit.direct_score(asked, overrides=[*overrides, "output=rating"])
    assert (result.success, result.overall_score, result.weighted_score, result.summary) == (
        *(True, 4.0, 4.0, None),
    )
    assert result.scores[0].model_dump() == {
        "criterion": "clarity",
        "score": 4.0,
        "max_score": 5.0,
        "justification": "Clear and short.\n[[4]]",
        "examples": None,
    }
    with pytest.raises(
        ConfigError, match="it gives one score, and there are 3 criteria; use one criterion"
    ):
        await evalkit.direct_score(SCORED, overrides=[*overrides, "output=rating"])


async def test_two_lost_passes_are_not_inconsistent(provider, overrides):
    provider.rule = lambda body: said("I would rather not say.")
    result = await evalkit.pairwise_compare(INPUT, overrides=overrides)
    assert set(result.position_consistency.model_dump().values()) == {None}
    assert (result.success, result.reason, result.confidence) == (False, "missing", None)
