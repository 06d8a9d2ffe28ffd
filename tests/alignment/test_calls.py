"""Texts that a model on loopback writes for an alignment: stored, within the budget, and read with distrust."""

import json
import signal
import threading
from dataclasses import replace
from typing import Any

import pytest

from evalkit.alignment.calls import AnswersError, Asking
from evalkit.cli.align import read_settings
from evalkit.config import JudgeConfig
from evalkit.core.errors import ConfigError, Signaled
from evalkit.runs.results import RunResult
from tests.alignment.conftest import pair, passes, write
from tests.support.fake_provider import Provider, Reply, refused, said

PROMPTS = [({"role": "user", "content": f"write {k}"},) for k in range(3)]
PRICE = {"input": 1.0, "output": 1.0}


@pytest.fixture
def result(here, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    store = {"url": f"sqlite:///{here / 'store.db'}"}
    sections: dict[str, Any] = {"runner": {"retries": 0}, "store": store}
    return write(here / "run", [pair(0, "A")], passes(0, 1.0), **sections)


def asking(result: RunResult, provider: Provider, budget: float = 1.0) -> Asking:
    named = {
        "model": "openai/writer",
        "api_base": provider.api_base,
        "transport": "direct",
        "price": PRICE,
    }
    return Asking(result, budget, JudgeConfig.model_validate({**named, "max_tokens": 1000}))


def words(text: str) -> dict[str, Any]:
    return {"words": text.split()}


def test_texts_are_written_once(result, provider):
    provider.rule = lambda body: said(f"<think>no</think> {body['messages'][0]['content']}")
    first = asking(result, provider)
    written = first.write(PROMPTS, words)
    assert written is not None
    assert [one.answer for one in written] == [{"words": ["write", str(k)]} for k in range(3)]
    assert (len(provider.requests), first.spent.calls) == (3, 3)
    assert first.spent.usd == pytest.approx(3 * 15e-6)
    again = asking(result, provider)
    assert [one.answer for one in again.write(PROMPTS, words) or ()] == [
        one.answer for one in written
    ]
    assert (len(provider.requests), again.spent.calls) == (3, 0)


@pytest.mark.parametrize(("reply", "why"), [
    (said("  "), "the text is empty"),
    (said("half", finish="length"), "set a higher align.model.max_tokens"),
    (said(None, refusal="I will not"), "the judge refused: I will not"),
])  # fmt: skip
def test_a_text_that_cannot_be_used_says_why(reply, why, result, provider):
    provider.rule = lambda _: reply
    [one] = asking(result, provider).write(PROMPTS[:1], words) or ()
    assert one.answer is None
    assert why in (one.error or "")


def test_a_budget_that_does_not_pay_for_all_texts_ends_the_writing(result, provider):
    assert asking(result, provider, budget=1e-9).write(PROMPTS, words) is None
    assert not provider.requests


def test_failed_calls_are_no_texts(result, provider):
    provider.rule = lambda _: refused(400, "not this")
    with pytest.raises(
        AnswersError, match=r"3 of 3 calls failed, for example: .*; run it again to resume"
    ):
        asking(result, provider).write(PROMPTS, words)


def test_texts_that_came_before_ctrl_c_are_stored(result, provider):
    def rule(body: dict[str, Any]) -> Reply:
        if len(provider.requests) < 3:
            return said("a text")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return refused(400, "not this")

    provider.rule = rule
    one = asking(result, provider)
    one.result = replace(result, config=result.config.with_({"runner.concurrency": 1}))
    with pytest.raises(Signaled):
        one.write(PROMPTS, words)
    provider.rule = lambda _: said("another")
    written = asking(result, provider).write(PROMPTS, words)
    assert [found.answer for found in written or ()] == [{"words": ["a", "text"]}] * 2 + [
        {"words": ["another"]}
    ]


def test_the_model_is_a_name_or_the_keys_of_a_judge():
    settings = read_settings(["align.model=openai/m"])
    assert settings.model == JudgeConfig(model="openai/m")
    mixed = read_settings(
        ["align.model.temperature=1", "align.model=openai/m", "align.model.max_tokens=9"]
    )
    assert mixed.model == JudgeConfig(model="openai/m", temperature=1.0, max_tokens=9)
    whole = read_settings(["align.model={model: openai/m, seed: 1}"])
    assert whole.model == JudgeConfig(model="openai/m", seed=1)
    assert json.loads(whole.model_dump_json())["model"]["seed"] == 1


@pytest.mark.parametrize(("words", "message"), [
    (["align.model.temperatur=1"],
     "is not a setting of align; did you mean 'align.model.temperature'?"),
    (["align.model.temperature=-1"],
     "align.model.temperature: input should be greater than or equal to 0"),
    (["align.model={judges: [{model: a}, {model: b}]}"],
     "model writes no texts; choose a single model"),
    (["align.model=simulated/good"],
     "model writes no texts; choose a single model that answers in words"),
    (["align.model=[a]"], "align.model: is not a mapping"),
    (["align.model=[a]", "align.model.seed=1"], "align.model: is not a mapping"),
])  # fmt: skip
def test_a_model_that_cannot_write_is_refused(words, message):
    with pytest.raises(ConfigError) as caught:
        read_settings(words)
    assert message in str(caught.value)
