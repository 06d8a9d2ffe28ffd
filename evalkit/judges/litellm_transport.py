"""The way to any provider that LiteLLM knows, the embedded model included."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.errors import JudgeSetupError
from evalkit.judges import loading, setup
from evalkit.judges.faults import call_error
from evalkit.judges.guard import OPENAI_PROTOCOL, Guard, guarded
from evalkit.judges.ladder import Shape
from evalkit.judges.model_judge import Reply
from evalkit.judges.prices import listed_cost
from evalkit.judges.reading import Answer, amount, answer_of

_SHORT = "hosted_vllm"
# Seconds between the starts of two calls, about what LiteLLM takes to make one. Calls that start together go through
# its steps together, so that all are sent when the last is made, and are all answered together again.
APART = 0.002


class LiteLLMTransport:
    """Calls by `litellm.acompletion`, which is imported by the first `open`; its own retries are off.

    Args:
        config: the judge's own config, not a panel's.
        runner: for the timeout of one call, in seconds.
    """

    def __init__(self, config: JudgeConfig, runner: RunnerConfig) -> None:
        self.config, self.timeout = config, runner.timeout
        self._litellm: Any = None
        self._next = 0.0

    async def open(self, judge: str) -> tuple[setup.Target, Shape]:
        """Import LiteLLM and check model, key and endpoint.

        Raises:
            JudgeSetupError: if no call to this judge can succeed.
        """
        if self._litellm is None:
            await asyncio.to_thread(loading.litellm)
            self._litellm = loading.enter()
        target = setup.target(self._litellm, self.config)
        await setup.check(target, judge=judge)
        shape = setup.first_shape(self._litellm, self.config, target)
        if not self._unheard_of(target):
            return target, shape
        await asyncio.to_thread(loading.rehearse)
        return _shortened(target), shape

    async def send(self, where: setup.Target, call: Mapping[str, Any]) -> Reply:
        """Send one call.

        Raises:
            CallError: if no answer came.
            JudgeSetupError: if no call to this judge can succeed.
        """
        settings = {**where.settings, "timeout": self.timeout, "num_retries": 0, "max_retries": 0}
        await self._turn()
        if short := settings["model"] != where.model:
            settings |= loading.unpriced(settings["model"], call["messages"])
        if "tools" in call:
            # Else LiteLLM imports its proxy's tool gateway, and with it packages that are not installed.
            settings["_skip_mcp_handler"] = True
        with loading.unlogged(), guarded(self._guard(where)) as guard:
            try:
                response = await self._litellm.acompletion(**_as_it_is(call) if short else call, **settings)
            except (JudgeSetupError, asyncio.CancelledError):
                raise
            except Exception as error:
                # What the guard refused comes back in LiteLLM's words, not in ours.
                known = guard.refused or setup.hidden_setup_error(error, where.model)
                raise known or call_error(error) from error
        answer = _named(answer_of(response), where)
        names = (answer.model, where.name)
        cost = listed_cost(where.provider, names, answer.usage, answer.cached) if short else _cost(response)
        return Reply(answer, cost, _headers(response))

    def _guard(self, where: setup.Target) -> Guard:
        return Guard(self.config.max_answer_bytes, openai=where.provider in OPENAI_PROTOCOL)

    async def _turn(self) -> None:
        """Wait until the call before has had the time that its making takes."""
        now = time.monotonic()
        self._next = max(now, self._next) + APART
        if (wait := self._next - APART - now) > 0:
            await asyncio.sleep(wait)

    def entry(self) -> Mapping[str, Any]:
        """Return what LiteLLM's price list says of the model."""
        return {} if self._litellm is None else setup.entry(self._litellm.model_cost, self.config.model or "")

    def _unheard_of(self, where: setup.Target) -> bool:
        """Say whether a model is a server's own: of OpenAI's LiteLLM knows what they take and cost."""
        known = where.name in self._litellm.model_cost
        return where.provider == "openai" and self.config.api_base is not None and not known

    async def close(self) -> None:
        """Let go of connections."""
        if self._litellm is not None:
            self._litellm = None
            await loading.leave()


def _shortened(where: setup.Target) -> setup.Target:
    # The same request by LiteLLM's own HTTP client in place of OpenAI's: half the work, and OpenAI's resources, two
    # thirds of a second, are not imported.
    key = os.environ.get("OPENAI_API_KEY") or "none"
    return replace(where, settings={**where.settings, "model": f"{_SHORT}/{where.name}", "api_key": key})


def _as_it_is(call: Mapping[str, Any]) -> dict[str, Any]:
    # What is in `extra_body` goes into the body untouched.
    further = {name: value for name, value in call.items() if name not in ("messages", "extra_body")}
    return {"messages": call["messages"], "extra_body": {**further, **call.get("extra_body", {})}}


def _named(answer: Answer, where: setup.Target) -> Answer:
    # Of some providers LiteLLM writes its own name for them before the model that the provider reports.
    prefix = where.settings["model"].removesuffix(where.name)
    if answer.model is not None and prefix.endswith("/"):
        return replace(answer, model=answer.model.removeprefix(prefix))
    return answer


def _cost(response: Any) -> float | None:
    known = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
    # LiteLLM's price list has zeros for models whose price it does not know.
    return amount(known) or None


def _headers(response: Any) -> dict[str, str]:
    held = (getattr(response, "_hidden_params", None) or {}).get("additional_headers") or {}
    return {name.lower().removeprefix("llm_provider-"): str(value) for name, value in held.items()}
