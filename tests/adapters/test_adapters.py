"""What is judged of a task's input, output and expected output, and the number that a verdict becomes."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import evalkit
from evalkit.core.errors import ConfigError
from evalkit.runs import read_run
from evalkit.serving.adapters import AdaptedJudge
from evalkit.serving.folder import write_judge
from evalkit.serving.rating import needed_share
from tests.adapters.conftest import ASKED, BAD, DOWN, GOOD, GRADED, Judges
from tests.support.reward_server import MODEL, RewardServer
from tests.support.serving import served


@dataclass
class Question:
    question: str


def adapted(judges: Judges, name: str, **options: Any) -> AdaptedJudge:
    return AdaptedJudge(
        getattr(judges, name), api_base=judges.api_base, runner={"retries": 0}, **options
    )


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
def test_the_case(judges, name, given, case):
    assert adapted(judges, name).fields(*given) == case


def test_a_verdict_is_a_number_only_if_it_is_one(judges):
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


def test_a_reward_has_no_scale(provider, tmp_path):
    RewardServer(reward=lambda _, response: 7.5 if response.startswith("good") else -2).install(
        provider
    )
    words = [
        "judge=reward_model",
        f"judge.model=hosted_vllm/{MODEL}",
        f"judge.api_base={provider.api_base}",
    ]
    config = evalkit.load_config(overrides=[*words, "tracking=none", "scoring.bootstrap=50"])
    evalkit.run(config, tmp_path / "run", cases=GRADED)
    write_judge(read_run(tmp_path / "run"), tmp_path / "judge")
    rating = AdaptedJudge(tmp_path / "judge", api_base=provider.api_base).rate_sync(ASKED, GOOD)
    assert (rating.value, rating.share, rating.error) == (7.5, None, None)
    with pytest.raises(ConfigError, match="a reward has no scale"):
        needed_share(rating)
    with served(tmp_path / "judge", "--api-base", provider.api_base) as server:
        status, problem = server.post("/webhook", {"output": GOOD, "context": {"prompt": ASKED}})
    assert (status, problem) == (
        422,
        {"error": "a reward has no scale, so it is not a number from 0 to 1"},
    )


async def test_calls_of_one_loop_share_a_session_that_ends_with_the_last(judges):
    judge = adapted(judges, "scores")
    ratings = await asyncio.gather(
        *(judge.rate(f"Question {n}: is sport healthy?", GOOD) for n in range(12))
    )
    assert {one.value for one in ratings} == {4}
    assert not judge.judge._sessions
