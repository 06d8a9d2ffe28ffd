"""A judge of turns or steps takes lists of messages, over HTTP, by MCP and in Python, as its data set did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalkit
from evalkit.errors import EvalkitError
from evalkit.runs import read_run
from evalkit.serving.service import Service
from tests.serving.conftest import make_judge
from tests.support.fake_provider import Provider
from tests.support.serving import served

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "What is 2 + 2?"}
AGENT = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": "good: 4"},
]
CHAT = [SYSTEM, ASKED, *AGENT]
OTHER = [SYSTEM, ASKED, {"role": "assistant", "content": "bad: 5"}]
LONGER = [ASKED, {"role": "assistant", "content": "bad: 3"}, {"role": "user", "content": "Sure?"}, *AGENT]
CONVERSATIONS = [CHAT, OTHER, LONGER, [ASKED, AGENT[-1]]]
UNITS = ("turn", "step", "conversation")


@pytest.fixture
def build(finished: Callable[..., None], provider: Provider, tmp_path: Path) -> Callable[..., Path]:
    """Makes the judge of a run on pairs of conversations, whose answers are stored."""

    def judge_of(unit: str) -> Path:
        fields = ("dataset.fields.messages_a=messages_a", "dataset.fields.messages_b=messages_b")
        cases = [{"id": f"{n}", "messages_a": one, "messages_b": OTHER} for n, one in enumerate(CONVERSATIONS)]
        finished(unit, lambda: make_judge(provider, tmp_path, f"dataset.unit={unit}", *fields, cases=cases))
        return tmp_path / "judge"

    return judge_of


@pytest.mark.parametrize("unit", UNITS)
def test_messages_are_read_as_in_the_data_set(build: Any, provider: Provider, unit: str) -> None:
    """The case has the texts of the run, so that its answer is stored; the last turn or step is judged."""
    folder = build(unit)
    known = {verdict.case_id.partition(" ")[0]: verdict for verdict in read_run(folder.parent / "run").verdicts}
    judge = evalkit.load_judge(folder, api_base=provider.api_base)
    sent = len(provider.requests)
    for fields in (
        {"response_a": CHAT, "response_b": OTHER, "id": "x"},
        {"responses": [CHAT, OTHER], "id": "x"},
        {"prompt": [SYSTEM, ASKED], "response_a": AGENT, "response_b": OTHER[2:], "id": "x"},
    ):
        case = judge.case(fields)
        assert case.id == "x"
        if unit != "step":  # their last steps are not about the same step of the pair
            verdict = judge.sync(**fields)
            assert (verdict.status, verdict.winner, verdict.stored) == ("ok", known["0"].winner, True)
    assert len(provider.requests) == sent


@pytest.mark.parametrize("unit", UNITS)
def test_texts_are_the_last_turn(build: Any, provider: Provider, unit: str) -> None:
    judge = evalkit.load_judge(build(unit), api_base=provider.api_base)
    texts = judge.case({"prompt": ASKED["content"], "response_a": "good: 4", "response_b": "bad: 5"})
    listed = judge.case({"response_a": [ASKED, AGENT[-1]], "response_b": OTHER[1:]})
    assert (texts.prompt, texts.responses) == (listed.prompt, listed.responses)


HOSTILE = [
    [],
    [[]],
    ["text"],
    [3, None],
    [{}],
    [{"role": "assistant"}],
    [{"role": 3, "content": "x"}],
    [{"role": "assistant", "content": {"deep": 1}}],
    [{"role": "user", "content": "only a question"}],
    [ASKED, "text"],
    3,
    True,
    {"role": "assistant", "content": "x"},
]


@pytest.mark.parametrize("unit", ["turn", "conversation"])
def test_hostile_messages_are_one_line_everywhere(build: Any, provider: Provider, unit: str) -> None:
    folder = build(unit)
    sent = len(provider.requests)
    judge = evalkit.load_judge(folder, api_base=provider.api_base)
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    with served(str(folder), "--api-base", provider.api_base) as server:
        for given in [*HOSTILE, [ASKED, {"role": "assistant", "content": deep}]]:
            for fields in ({"response_a": given, "response_b": OTHER}, {"responses": [OTHER, given]}):
                status, reply = server.post("/judge", fields)
                assert (status, "\n" in str(reply)) == (422, False), (given, reply)
                with pytest.raises(EvalkitError) as error:
                    judge.sync(**fields)
                assert "\n" not in str(error.value)
        status, reply = server.post("/judge", {"response_a": CHAT, "response_b": OTHER})
        assert (status, reply["status"], reply["stored"]) == (200, "ok", True)
    assert len(provider.requests) == sent


async def test_agents_pass_messages_by_mcp(build: Any, provider: Provider) -> None:
    mcp = pytest.importorskip("evalkit.serving.mcp")
    service = Service(evalkit.load_judge(build("turn"), api_base=provider.api_base))
    found = await mcp._answer(service, "judge", {"response_a": CHAT, "response_b": OTHER})
    assert (found["status"], found["stored"]) == ("ok", True)
    with pytest.raises(Exception, match="neither a text nor a list of messages"):
        await mcp._answer(service, "judge", {"response_a": ["x"], "response_b": OTHER})
    await service.stop()
