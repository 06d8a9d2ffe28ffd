"""The way to any provider that LiteLLM knows, the embedded model included."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.errors import CallError, JudgeSetupError
from evalkit.judges import loading, setup
from evalkit.judges.faults import call_error
from evalkit.judges.guard import BY_OWN_HANDLER, OPENAI_PROTOCOL, Guard, guarded
from evalkit.judges.ladder import Shape
from evalkit.judges.model_judge import Reply
from evalkit.judges.prices import listed_cost, tier_of
from evalkit.judges.reading import Answer, amount, answer_of

_PRICED_BY_LIST = (*OPENAI_PROTOCOL, "mistral")
_PRICED_BY_SIZE = ("fireworks_ai", "together_ai")  # where the list has no price, by the size in the model's name
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
        if target.provider in BY_OWN_HANDLER:
            await asyncio.to_thread(loading.rehearse)
        return target, shape

    async def send(self, where: setup.Target, call: Mapping[str, Any]) -> Reply:
        """Send one call.

        Raises:
            CallError: if no answer came.
            JudgeSetupError: if no call to this judge can succeed.
        """
        settings = {**where.settings, "timeout": self.timeout, "num_retries": 0}
        await self._turn()
        if where.provider in _PRICED_BY_LIST:
            price = partial(self._price, where, call.get("service_tier"))
            settings |= loading.account(where.model, call["messages"], price)
        if where.provider not in BY_OWN_HANDLER:
            settings["max_retries"] = 0  # those of OpenAI's client
        if "tools" in call:
            # Else LiteLLM imports its proxy's tool gateway, and with it packages that are not installed.
            settings["_skip_mcp_handler"] = True
        with loading.unlogged(), guarded(self._guard(where)) as guard:
            try:
                response = await self._litellm.acompletion(**call, **settings)
            except (JudgeSetupError, asyncio.CancelledError):
                raise
            except Exception as error:
                # What the guard refused comes back in LiteLLM's words, not in ours.
                known = guard.refused or setup.hidden_setup_error(error, where.model)
                raise known or call_error(error) from error
        answer = _named(answer_of(response), where)
        return Reply(answer, _cost(response), _headers(response))

    def _guard(self, where: setup.Target) -> Guard:
        provider = where.provider
        return Guard(self.config.max_answer_bytes, provider in OPENAI_PROTOCOL, provider in BY_OWN_HANDLER)

    def _price(self, where: setup.Target, asked: object, response: object) -> float | None:
        """Return the US$ of an answer by LiteLLM's list; LookupError where LiteLLM has to work it out."""
        try:
            answer = _named(answer_of(response), where)
        except CallError:  # whoever reads the answer says so
            return None
        names, tier = (answer.model, where.name), tier_of(answer.tier, asked)
        cost = listed_cost(where.provider, names, answer.usage, answer.cached, tier)
        if cost is None and (where.provider in _PRICED_BY_SIZE or self._is_listed(where.provider, names)):
            raise LookupError(where.model)
        return cost

    def _is_listed(self, provider: str, names: Iterable[str | None]) -> bool:
        listed = self._litellm.model_cost
        return any(name in listed or f"{provider}/{name}" in listed for name in names)

    async def _turn(self) -> None:
        """Wait until the call before has had the time that its making takes."""
        now = time.monotonic()
        self._next = max(now, self._next) + APART
        if (wait := self._next - APART - now) > 0:
            await asyncio.sleep(wait)

    def entry(self) -> Mapping[str, Any]:
        """Return what LiteLLM's price list says of the model."""
        return {} if self._litellm is None else setup.entry(self._litellm.model_cost, self.config.model or "")

    async def close(self) -> None:
        """Let go of connections."""
        if self._litellm is not None:
            self._litellm = None
            await loading.leave()


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
