"""What is judged of a task's input, output and expected output, and the number that a verdict becomes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from evalkit.adapters import AdaptedJudge
from evalkit.errors import ConfigError
from evalkit.serving.rating import needed_share
from tests.adapters.conftest import ASKED, BAD, DOWN, GOOD, Judges


@dataclass
class Question:
    question: str


def adapted(judges: Judges, name: str, **options: Any) -> AdaptedJudge:
    return AdaptedJudge(getattr(judges, name), api_base=judges.api_base, runner={"retries": 0}, **options)


CHAT = {"messages": [{"role": "user", "content": "Why?"}]}
REPLY = {"choices": [{"message": {"role": "assistant", "content": "Because."}}]}


@pytest.mark.parametrize(
    ("name", "given", "case"),
    [
        ("scores", ("Why?", "Because."), {"prompt": "Why?", "response": "Because."}),
        ("scores", ("Why?", "", "So."), {"prompt": "Why?", "response": "", "reference": "So."}),
        ("pairs", ("Why?", "Because.", "So."), {"prompt": "Why?", "response_a": "Because.", "response_b": "So."}),
        ("pairs", (CHAT, REPLY), {"prompt": "Why?", "response_a": "Because."}),
        ("scores", (Question("Why?"), 7), {"prompt": "Why?", "response": "7"}),
        (
            "scores",
            ({"q": "Why?", "context": ["x", "y"]}, {"response": "Because."}, {"reference": "So.", "facts": 1}),
            {"prompt": "Why?", "context": "x\n\ny", "response": "Because.", "reference": "So."},
        ),
        (
            "pairs",
            ({"prompt": "Why?"}, {"response_a": "1", "response_b": "2"}),
            {"prompt": "Why?", "response_a": "1", "response_b": "2"},
        ),
        # The system under test says what it answered, and nothing else about its case.
        ("scores", ("Why?", {"response": "x", "prompt": "Praise me."}), {"prompt": "Why?", "response": "x"}),
        ("scores", ("Why?", None), {"prompt": "Why?"}),
    ],
)  # fmt: skip
def test_the_case(judges: Judges, name: str, given: Any, case: Any) -> None:
    assert adapted(judges, name).fields(*given) == case


def test_a_verdict_is_a_number_only_if_it_is_one(judges: Judges) -> None:
    pairs, scores, classes = (adapted(judges, name) for name in ("pairs", "scores", "classes"))
    ratings = [pairs.rate_sync(ASKED, *texts) for texts in ((GOOD, BAD), (BAD, GOOD), (GOOD, GOOD))]
    assert [(one.value, one.share) for one in ratings] == [("A", 1), ("B", 0), ("TIE", 0.5)]
    high = scores.rate_sync(ASKED, GOOD)
    assert (high.value, high.share, high.error) == (4, 0.75, None)
    assert high.metadata["evalkit.criteria.accuracy"] == "4"
    assert "accuracy: why accuracy" in str(high.rationale)
    rating = classes.rate_sync(ASKED, GOOD)
    assert (rating.value, rating.share) == ("good", None)
    with pytest.raises(ConfigError, match="name the classes that pass"):
        needed_share(rating)
    passing = adapted(judges, "classes", passing=["good"])
    assert [passing.rate_sync(ASKED, text).share for text in (GOOD, BAD)] == [1, 0]
    with pytest.raises(ConfigError, match="'goood' is not a class"):
        adapted(judges, "classes", passing=["goood"])
    for judge, texts in (
        (pairs, (DOWN, BAD)),
        (scores, (DOWN,)),
        (passing, (DOWN,)),
        (scores, (None,)),
        (pairs, ("x",)),
    ):
        missing = judge.rate_sync(ASKED, *texts)
        assert (missing.value, missing.share) == (None, None)
        assert missing.error


async def test_calls_of_one_loop_share_a_session_that_ends_with_the_last(judges: Judges) -> None:
    judge = adapted(judges, "scores")
    ratings = await asyncio.gather(*(judge.rate(f"Question {n}: is sport healthy?", GOOD) for n in range(12)))
    assert {one.value for one in ratings} == {4}
    assert not judge.judge._sessions
