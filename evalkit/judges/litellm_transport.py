"""The way to any provider that LiteLLM knows, the embedded model included."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from importlib import import_module
from itertools import count
from threading import Lock
from typing import Any

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.errors import CallError, JudgeSetupError
from evalkit.judges import setup
from evalkit.judges.error_mapping import call_error
from evalkit.judges.http_guard import BY_OWN_HANDLER, OPENAI_PROTOCOL, Guard, guarded
from evalkit.judges.ladder import Shape
from evalkit.judges.model_judge import Reply
from evalkit.judges.pricing import listed_cost, tier_of
from evalkit.judges.responses import Answer, amount, answer_of

_LATE = (
    "litellm._service_logger",
    "litellm.litellm_core_utils.default_encoding",
    "litellm.litellm_core_utils.litellm_logging",
    "litellm.llms.fal_ai.chat.transformation",
    "litellm.llms.fal_ai.cost_calculator",
    "litellm.llms.openai.chat.gpt_audio_transformation",
    "litellm.proxy.openai_files_endpoints.common_utils",
)
Price = Callable[[object], float | None]
_lock = Lock()
_numbers = count()
_users = 0


def load_litellm() -> Any:
    """Import LiteLLM if it is not yet there and return the module: no network, no noise, our provider known to it."""
    with _lock:
        return _imported()


def enter() -> Any:
    """Import LiteLLM and count one more user of its connections."""
    global _users
    module = load_litellm()
    with _lock:
        _users += 1
    return module


async def leave() -> None:
    """Count one user less, and close LiteLLM's connections with the last: they are shared within the process."""
    global _users
    with _lock:
        _users -= 1
        last = _users == 0
    if last:
        module = load_litellm()
        await module.close_litellm_async_clients()
        module.in_memory_llm_clients_cache.flush_cache()
        gc.unfreeze()


@contextmanager
def skip_logging() -> Iterator[None]:
    """Spare calls inside LiteLLM's success logging, which nobody reads: a tenth of a call's work."""
    try:
        from litellm._internal_context import is_internal_call
    except ImportError:  # its own affair: another version may do without
        yield
        return
    before = is_internal_call.set(True)
    try:
        yield
    finally:
        is_internal_call.reset(before)


def rehearse() -> None:
    """Import what LiteLLM itself imports only within its first call by the short route: a third of a second."""
    for name in _LATE:
        with suppress(ImportError):  # its own affair: another version may do without
            import_module(name)
    with suppress(Exception):  # the same: it makes a large pydantic model, and asks nobody
        load_litellm().get_api_base(model="openai/none", optional_params={})


def account(model: str, messages: Sequence[Mapping[str, Any]], price: Price) -> dict[str, Any]:
    """Return the further argument by which LiteLLM's own account of a call has its US$ from `price`.

    LiteLLM takes such an account where one is given; else it makes one, whose price is a third of a call's work, and
    more where it knows none. Where `price` raises a LookupError, LiteLLM works the price out itself.
    """
    try:
        made = _account()(
            model=model,
            messages=list(messages),
            stream=False,
            call_type="acompletion",
            start_time=datetime.now(),  # naive, as LiteLLM's own are
            litellm_call_id=f"evalkit-{next(_numbers)}",
            function_id="",
        )
    except (ImportError, TypeError):  # its own affair: another version may do without
        return {}
    made.evalkit_price = price
    return {"litellm_logging_obj": made, "litellm_call_id": made.litellm_call_id}


@cache
def _account() -> Any:
    from litellm.litellm_core_utils.litellm_logging import Logging

    class Account(Logging):  # type: ignore[misc, unused-ignore]
        evalkit_price: Price

        def response_cost_calculator(self, result: object, *others: Any, **named: Any) -> float | None:
            try:
                return self.evalkit_price(result)
            except LookupError:
                found: float | None = super().response_cost_calculator(result, *others, **named)
                return found

        _response_cost_calculator = response_cost_calculator

    return Account


def _imported() -> Any:
    # Without it LiteLLM fetches its price map from the network as it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    module = _import_without_collecting()
    if not any(item["provider"] == "local" for item in module.custom_provider_map):
        _configure(module)
    return module


def _import_without_collecting() -> Any:
    new, collecting = "litellm" not in sys.modules, gc.isenabled()
    # A fifth of the time its import takes is the collector walking what the import has just made; nor need it be walked
    # as long as anybody calls.
    gc.disable()
    try:
        import litellm as module

        if new:
            gc.freeze()
    finally:
        if collecting:
            gc.enable()
    return module


def _configure(module: Any) -> None:
    from evalkit.judges.http_guard import install
    from evalkit.judges.smollm2_provider import SmolLM2Provider

    install()

    with warnings.catch_warnings():
        # Its response type is completed at first use, under warnings that are not the user's business.
        warnings.simplefilter("ignore")
        module.ModelResponse()
    module.suppress_debug_info = True
    module.telemetry = False
    # Nothing is logged, so that nothing need be taken out of it: that would copy every answer.
    module.turn_off_message_logging = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    module.custom_provider_map = [
        *module.custom_provider_map,
        {"provider": "local", "custom_handler": SmolLM2Provider()},
    ]


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
            await asyncio.to_thread(load_litellm)
            self._litellm = enter()
        target = setup.resolve_target(self._litellm, self.config)
        await setup.check(target, judge=judge)
        shape = setup.first_shape(self._litellm, self.config, target)
        if target.provider in BY_OWN_HANDLER:
            await asyncio.to_thread(rehearse)
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
            settings |= account(where.model, call["messages"], price)
        if where.provider not in BY_OWN_HANDLER:
            settings["max_retries"] = 0  # those of OpenAI's client
        if "tools" in call:
            # Else LiteLLM imports its proxy's tool gateway, and with it packages that are not installed.
            settings["_skip_mcp_handler"] = True
        with skip_logging(), guarded(self._guard(where)) as guard:
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
            await leave()


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
