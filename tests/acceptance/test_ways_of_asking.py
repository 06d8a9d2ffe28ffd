"""Samples, probabilities, third judgments, forced choices and own answers from the command line, judges on loopback."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.command_line import BRIEF, Commands, fake, pair, prefers, shown
from tests.support.fake_provider import Reply, completion, said

Body = Mapping[str, Any]
OWN = re.compile(r"<own_answer>\n(.*?)\n</own_answer>", re.DOTALL)


def user(body: Body) -> str:
    text: str = body["messages"][-1]["content"]
    return text


def comparison(winner: str, confidence: float = 0.8) -> str:
    compared = {
        "criterion": "overall quality",
        "aAssessment": "",
        "bAssessment": "",
        "reasoning": "r",
        "winner": winner,
    }
    result = {"reasoning": "r", "differentiators": [], "winner": winner, "confidence": confidence}
    sides = {"strengths": [], "weaknesses": []}
    analysis = {"responseA": sides, "responseB": sides}
    return json.dumps(
        {"analysis": analysis, "comparison": [compared], "result": result}, ensure_ascii=False
    )


def scored(score: int) -> str:
    one = {"criterion": "overall quality", "justification": "因为", "examples": [], "score": score}
    return json.dumps(
        {"scores": [one], "summary": {"strengths": [], "weaknesses": [], "suggestions": []}},
        ensure_ascii=False,
    )


def with_logprobs(text: str, place: int, *chances: tuple[str, float]) -> Reply:
    """A reply in tokens of one character, in UTF-8 parts where it is not ASCII, with `chances` at one place."""
    content = []
    for at, char in enumerate(text):
        top = list(chances) if at == place else [(char, 1.0)]
        tops = [
            {"token": one, "logprob": math.log(p), "bytes": list(one.encode())} for one, p in top
        ]
        logprob = next((math.log(p) for one, p in top if one == char), -9.0)
        parts = [[byte] for byte in char.encode()]
        for part in parts:
            token = char if len(parts) == 1 else "\ufffd"
            content.append(
                {"token": token, "logprob": logprob, "bytes": part, "top_logprobs": tops}
            )
    message = {"role": "assistant", "content": text}
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": message,
        "logprobs": {"content": content},
    }
    return Reply(completion([choice]))


@pytest.fixture
def cases(commands, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    commands.write("cases.jsonl", *(pair(number) for number in range(4)))
    return ["dataset.path=cases.jsonl", "criteria=overall", "hydra.run.dir=run", *BRIEF]


def lines(commands: Commands, name: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (commands.folder / "run" / name).read_text("utf-8").splitlines()
    ]


def value(commands: Commands, name: str) -> Any:
    return commands.metrics("run")["metrics"][name]["value"]


def test_scores_weighed_by_probability_break_the_ties_of_whole_numbers(
    within, commands, provider, cases
):
    def rule(body: Body) -> Reply:
        better = "good" in re.search(r"<response>\n(.*?)\n</response>", user(body), re.S)[1]  # type: ignore[index]
        text = scored(4)
        return with_logprobs(
            text, text.rindex("4"), ("4", 0.6), ("5", 0.3 if better else 0.1), ("3", 0.1)
        )

    provider.rule = rule
    within("run", *fake(provider), *cases, "method=weighted")
    assert {body["top_logprobs"] for body in provider.requests} == {20}
    assert value(commands, "tie_rate") == 0
    assert value(commands, "agreement/accuracy") == 1
    assert value(commands, "weighted/rate") == 1
    assert value(commands, "weighted/mass") == pytest.approx(0.9)
    first = lines(commands, "judgments.jsonl")[0]
    assert (first["criteria"], first["weighted"]["criteria"]) == (
        {"overall quality": 4},
        {"overall quality": pytest.approx((4 * 0.6 + 5 * 0.3 + 3 * 0.1) / 1.0)},
    )
    sent = len(provider.requests)
    within("score", "run", "scoring.weighted=false")
    assert value(commands, "tie_rate") == 1
    assert len(provider.requests) == sent


def test_a_provider_without_probabilities_is_one_line_or_a_fallback(
    within, commands, provider, cases
):
    provider.rule = lambda body: said(scored(3))
    refused = within("run", *fake(provider), *cases, "method=weighted", status=1)
    assert (
        "judge.logprobs: judge fake returned no log-probabilities (sent as json_schema)"
        in refused.err
    )
    assert "Traceback" not in refused.err
    within("run", *fake(provider), *cases, "method=weighted", "judge.logprobs=fallback")
    assert value(commands, "weighted/rate") == 0
    assert value(commands, "score/mean") == 3
    assert {judgment["weighted"] for judgment in lines(commands, "judgments.jsonl")} == {None}


@pytest.mark.slow
def test_an_arbiter_settles_what_a_biased_judge_leaves_open(within, commands, provider, cases):
    seeing = prefers()
    provider.rule = lambda body: seeing(body) if body["model"] == "wise" else said("[[A]]")
    commands.write(
        "conf/judge/wise.yaml",
        f"{{name: wise, model: openai/wise, api_base: '{provider.api_base}'}}",
    )
    words = [
        *("run", *fake(provider), *cases, "output=bracket", "swap=third_pass"),
        "+judge@swap.arbiter=wise",
    ]
    within(*words)
    assert [body["model"] for body in provider.requests].count("wise") == 4
    assert value(commands, "agreement/accuracy") == 1
    assert value(commands, "position/consistency") == 0
    assert value(commands, "third_pass/settled_rate") == 1
    assert lines(commands, "verdicts.jsonl")[0]["orders"] == {
        "first": "A",
        "second": "B",
        "consistent": False,
        "third": "A",
    }
    assert [judgment["arbiter"] for judgment in lines(commands, "judgments.jsonl")] == [
        *(None, None, "wise"),
    ] * 4
    sent = len(provider.requests)
    within(*words)
    within("run", "run/config.yaml", "hydra.run.dir=again")
    assert len(provider.requests) == sent
    assert commands.metrics("again")["metrics"] == commands.metrics("run")["metrics"]
    within("score", "run", "swap.resolve=tie")
    assert value(commands, "tie_rate/swap_disagreement") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "said_so"), [("en", "ties are not allowed"), ("zh", "不允许平局")]
)
def test_a_forbidden_tie_is_in_no_prompt_no_schema_and_no_verdict(
    within, commands, provider, cases, language, said_so
):
    provider.rule = lambda body: said(
        comparison("A", 0.9 if shown(body)[0].startswith("good") else 0.6)
    )
    within("run", *fake(provider), *cases, "tie=forbid", f"prompt.language={language}")
    for body in provider.requests:
        assert said_so in body["messages"][0]["content"]
        assert "TIE" not in json.dumps(body)
    verdicts = lines(commands, "verdicts.jsonl")
    assert [(verdict["winner"], verdict["reason"]) for verdict in verdicts] == [("A", "forced")] * 4
    assert value(commands, "forced_rate") == 1
    assert value(commands, "tie_rate") == 0
    frontier = json.loads((commands.folder / "run" / "frontier.json").read_text("utf-8"))
    assert frontier[0]["tie_rate"] == 1
    provider.rule = lambda body: said(comparison("TIE"))
    within(
        "run",
        *fake(provider),
        *cases,
        "tie=forbid",
        "judge.seed=2",
        "runner.max_unusable_rate=1",
        "--overwrite",
    )
    assert value(commands, "missing/unparseable") == 0
    assert {verdict["reason"] for verdict in lines(commands, "verdicts.jsonl")} == {"forced"}


@pytest.mark.slow
def test_the_judge_answers_first_once_for_each_case(within, commands, provider, cases):
    seeing = prefers()

    def rule(body: Body) -> Reply:
        return (
            seeing(body)
            if "<response_a>" in user(body)
            else said(f"own words on {user(body).split()[4]} [[B]]")
        )

    provider.rule = rule
    words = [
        *("run", *fake(provider), *cases, "output=bracket", "mode.commit_first=true"),
        "mode.samples=2",
    ]
    planned = within("plan", *words[1:-3], *words[-3:], "judge.temperature=1")
    assert re.search(r"the run\s+32\s+0\s+20\s", planned.out)
    within(*words, "judge.temperature=1")
    own = [body for body in provider.requests if "<response_a>" not in user(body)]
    assert len(own) == 4
    assert len(provider.requests) == 4 + 4 * 2 * 2
    for body in provider.requests:
        if body not in own:
            number = shown(body)[0].split()[1]
            assert OWN.findall(user(body)) == [f"own words on {number}? [[B]]"]
    assert value(commands, "agreement/accuracy") == 1
    assert value(commands, "samples/flip_rate") == 0
    within(*words, "judge.temperature=1")
    assert len(provider.requests) == 20


def test_samples_are_combined_again_at_no_cost(within, commands, provider, cases):
    scores = {"1": 5, "2": 1, "3": 2}
    provider.rule = lambda body: said(scored(scores[str(body["seed"])]))
    within("run", *fake(provider), *cases, "method=sampled")
    assert value(commands, "score/mean") == pytest.approx(8 / 3)
    assert value(commands, "samples/spread") == pytest.approx(math.sqrt(13 / 3))
    assert value(commands, "samples/flip_rate") == 1
    sent = len(provider.requests)
    within("score", "run", "scoring.combine=median")
    assert value(commands, "score/mean") == 2
    assert len(provider.requests) == sent == 24
