"""Call any provider that LiteLLM supports."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from importlib import import_module
from itertools import count
from threading import Lock
from typing import Any

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError, JudgeSetupError
from evalkit.core.types import Message
from evalkit.core.values import Json, JsonObject
from evalkit.guard.credentials import is_withheld
from evalkit.judges import setup
from evalkit.judges.adaptations import Shape
from evalkit.judges.completions import amount
from evalkit.judges.error_mapping import call_error
from evalkit.judges.litellm_http import CapturedCall, captured, install_capture
from evalkit.judges.model_judge import ProviderReply
from evalkit.judges.pricing import entry_of, listed_cost, price_list, tier_of
from evalkit.judges.responses import Answer, answer_of, bad_response

_LATE_IMPORTS = (
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
_call_numbers = count()
_users = Counter[
    int
]()  # by event loop: LiteLLM keeps the clients of all loops in one cache of the process
OPENAI_PROTOCOL = (
    *setup.OPENAI_SERVERS,
    *("azure", "dashscope", "moonshot", "nebius", "novita", "sambanova"),
)
"""The providers that answer with OpenAI chat completions."""
_OTHER_CLIENTS = ("azure", "aiohttp_openai", "litellm_proxy", "xinference")
BY_OWN_HANDLER = tuple(name for name in OPENAI_PROTOCOL if name not in _OTHER_CLIENTS)
"""The providers of these that LiteLLM's own HTTP handler can call."""
_WRITING = ("chat", "completion", "responses")
_PRICED_BY_LIST = (*OPENAI_PROTOCOL, "mistral")
_PRICED_BY_SIZE = (
    "fireworks_ai",
    "together_ai",
)  # if the list has no price: by the size in the model's name


def load_litellm() -> Any:
    """Import and configure LiteLLM once, without network access or log noise, and
    return the module.
    """
    with _lock:
        # Without this, LiteLLM downloads its price map when it is imported.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        os.environ.setdefault("LITELLM_LOG", "ERROR")
        # LiteLLM fetches no picture: a URL is the provider's to fetch. It reads this when it is
        # imported.
        os.environ["MAX_IMAGE_URL_DOWNLOAD_SIZE_MB"] = "0"
        new = "litellm" not in sys.modules
        collecting = gc.isenabled()
        # A fifth of the import time is garbage collection of the imported objects. Freezing keeps
        # the collector away from them until the last user leaves.
        gc.disable()
        try:
            import litellm as module

            if new:
                gc.freeze()
        finally:
            if collecting:
                gc.enable()
        _configure(module)
        # LiteLLM sets this filter once. In pytest it ends with the test that imported LiteLLM, and
        # where warnings are errors, each later call fails that imports one of these types.
        warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier")
        return module


@cache
def _listed_providers() -> frozenset[str]:
    """Return the providers of the models in the price list that write texts, and those
    that need no list.
    """
    entries = (
        entry for entry in price_list().values() if entry.get("mode") in _WRITING
    )
    return frozenset(
        {*setup.OPENAI_SERVERS, *(entry.get("litellm_provider") for entry in entries)}
    )


def check_provider(config: JudgeConfig) -> None:
    """Check the provider of each judge as its first call does, importing LiteLLM only
    for one that is not listed.

    Raises:
        JudgeSetupError: If LiteLLM does not know it.
    """
    for member in config.members:
        model = member.model or ""
        # Importing LiteLLM is slow, so it is not done for what the list already answers.
        is_custom = (
            member.api_base is not None
            or member.transport != "litellm"
            or model.startswith(setup.FREE)
        )
        provider, named, _ = model.partition("/")
        if not (
            is_custom
            or model in price_list()
            or (named and provider in _listed_providers())
        ):
            setup.resolve_target(load_litellm(), member)


def enter() -> Any:
    """Import LiteLLM and add one user of the connections of the running event loop."""
    module = load_litellm()
    with _lock:
        # Connections belong to one event loop; each loop closes only its own.
        _users[id(asyncio.get_running_loop())] += 1
    return module


async def leave() -> None:
    """Remove one user of the event loop's connections, and close them after its last:
    no other loop could.
    """
    module = load_litellm()
    loop = id(asyncio.get_running_loop())
    with _lock:
        _users[loop] -= 1
        if _users[loop]:
            return
        del _users[loop]
        last = not _users
    cached = module.in_memory_llm_clients_cache
    # How a key names its loop differs between LiteLLM's versions.
    for key in [
        key
        for key in [*cached.cache_dict]
        if key.endswith(cached.update_cache_key_with_event_loop(""))
    ]:
        handler = cached.cache_dict.get(key)
        cached.delete_cache(key)
        client = getattr(handler, "_client", None) or getattr(
            handler, "client", handler
        )  # OpenAI's or LiteLLM's own
        with suppress(Exception):  # a connection that does not close ends no run
            await client.aclose()
    if last:
        with suppress(Exception):
            await module.base_llm_aiohttp_handler.close()
        gc.unfreeze()


@contextmanager
def skip_logging() -> Iterator[None]:
    """Skip LiteLLM's success logging, which nobody reads: a tenth of a call's work."""
    try:
        from litellm._internal_context import is_internal_call
    except ImportError:  # another version of LiteLLM may not have it
        yield
        return
    before = is_internal_call.set(True)
    try:
        yield
    finally:
        is_internal_call.reset(before)


def rehearse() -> None:
    """Import the modules that LiteLLM imports within its first call: a third of a second."""
    for name in _LATE_IMPORTS:
        with suppress(ImportError):  # another version of LiteLLM may not have it
            import_module(name)
    with suppress(
        Exception
    ):  # the same; this builds a large pydantic model and makes no call
        load_litellm().get_api_base(model="openai/none", optional_params={})


def account(model: str, messages: Sequence[Json], price: Price) -> JsonObject:
    """Return the extra argument that makes LiteLLM's call log take its cost from `price`.

    Without it, LiteLLM creates its own log object and works out the price, which is a third of a
    call's work, and more for a model without a known price. If `price` raises a LookupError,
    LiteLLM works out the price itself.

    Args:
        model: The model's name for LiteLLM.
        messages: The messages of the call.
        price: Returns the cost of a response in USD, or `None` if it is unknown.
    """
    try:
        call_log = _account()(
            model=model,
            messages=list(messages),
            stream=False,
            call_type="acompletion",
            start_time=datetime.now(),  # naive, as LiteLLM's own timestamps are
            litellm_call_id=f"evalkit-{next(_call_numbers)}",
            function_id="",
        )
    except (ImportError, TypeError):  # another version of LiteLLM may not have it
        return {}
    call_log.evalkit_price = price
    return {
        "litellm_logging_obj": call_log,
        "litellm_call_id": call_log.litellm_call_id,
    }


@cache
def _account() -> Any:
    """Return the class of LiteLLM's accounts that asks our price first, and LiteLLM only for a
    model without one.
    """
    from litellm.litellm_core_utils.litellm_logging import Logging

    class Account(Logging):  # type: ignore[misc, unused-ignore]
        evalkit_price: Price

        def response_cost_calculator(
            self, result: object, *arguments: Any, **named: Any
        ) -> float | None:
            try:
                return self.evalkit_price(result)
            except LookupError:
                cost: float | None = super().response_cost_calculator(
                    result, *arguments, **named
                )
                return cost

        _response_cost_calculator = response_cost_calculator

    return Account


@cache
def _configure(module: Any) -> None:
    install_capture()
    with warnings.catch_warnings():
        # pydantic completes its response type at first use, with warnings that users cannot act on.
        warnings.simplefilter("ignore")
        module.ModelResponse()
    module.suppress_debug_info = True
    module.telemetry = False
    # Nothing is logged, so nothing needs redaction, which would copy every answer.
    module.turn_off_message_logging = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _finish(received: Answer, read: Answer) -> str | None:
    """Return the end of an answer as the provider wrote it, unless LiteLLM found a tool
    call in the text.
    """
    if received.finish_reason == "stop" and read.finish_reason == "tool_calls":
        return read.finish_reason
    return received.finish_reason


# Seconds between the starts of two calls, about the time that LiteLLM takes to build one. Calls
# that start together advance together: all are sent when the last one is built, and all are
# answered together.
APART = 0.002


class LiteLLMTransport:
    """Calls `litellm.acompletion` with its own retries off; the first `open` imports LiteLLM.

    Args:
        config: The config of one judge, not of a panel.
        runner: Provides the timeout of one call, in seconds.
    """

    def __init__(self, config: JudgeConfig, runner: RunnerConfig) -> None:
        self.config = config
        self.timeout = runner.timeout
        self._litellm: Any = None
        self._next = 0.0

    async def open(
        self, judge: str, *, check: bool = True
    ) -> tuple[setup.Target, Shape]:
        """Import LiteLLM; check the model, key and endpoint; return the target and the
        shape of the first request.

        With `check` false, neither the key nor the endpoint is checked.

        Raises:
            JudgeSetupError: If no call to this judge can succeed.
        """
        if self._litellm is None:
            await asyncio.to_thread(load_litellm)
            self._litellm = enter()
        target = setup.resolve_target(self._litellm, self.config)
        setup.check_listed_mode(self.entry(), self.config)
        if check:
            await setup.check(target, judge=judge)
        shape = setup.first_shape(self._litellm, self.config, target)
        if check and target.provider in BY_OWN_HANDLER:
            await asyncio.to_thread(rehearse)
        return target, shape

    async def send(self, target: setup.Target, call: Json) -> ProviderReply:
        """Send one call and return the reply.

        Raises:
            CallError: If the call fails.
            JudgeSetupError: If no call to this judge can succeed.
        """
        settings = {**target.settings, "timeout": self.timeout, "num_retries": 0}
        own_handler = target.provider in BY_OWN_HANDLER
        call_record = CapturedCall(
            self.config.max_answer_bytes,
            target.provider in OPENAI_PROTOCOL,
            own_handler,
            is_withheld(self.config.api_base),
            extra_headers=self.config.headers,
        )
        # The record is created before the wait and read after the call: it carries what LiteLLM
        # hides, such as the provider's own error and end.
        await self._wait_for_turn()
        reader = _ResponseReader(target, call_record)
        if target.provider in _PRICED_BY_LIST:
            price = partial(self._price, target, call.get("service_tier"), reader)
            settings |= account(target.model, call["messages"], price)
        if not own_handler:
            settings["max_retries"] = 0  # the retries of OpenAI's client
        if "tools" in call:
            # Otherwise LiteLLM imports its proxy's tool gateway and packages that are not
            # installed.
            settings["_skip_mcp_handler"] = True
        with skip_logging(), captured(call_record):
            try:
                response = await self._litellm.acompletion(**call, **settings)
            except (JudgeSetupError, asyncio.CancelledError):
                raise
            except Exception as error:
                # LiteLLM rewords the provider's errors, so prefer the original.
                original = call_record.refused or setup.hidden_setup_error(
                    error, target.model
                )
                raise original or call_record.failure or call_error(error) from error
        hidden = getattr(response, "_hidden_params", None) or {}
        headers = hidden.get("additional_headers") or {}
        return ProviderReply(
            reader.answer(response),
            # LiteLLM's price list has zeros for models with an unknown price.
            amount(hidden.get("response_cost")) or None,
            {
                name.lower().removeprefix("llm_provider-"): str(value)
                for name, value in headers.items()
            },
        )

    def body(self, target: setup.Target, call: Json) -> JsonObject:
        """Return the JSON body of a call in OpenAI's protocol, with the parameters as
        LiteLLM adapts them to the model.

        For other providers, the parameters are OpenAI's: what reads the body, such as a LiteLLM
        proxy, adapts them.

        Raises:
            CallError: If the model does not support a parameter.
        """
        settings = {name: value for name, value in call.items() if name != "messages"}
        if target.provider in OPENAI_PROTOCOL:
            try:
                settings = self._litellm.get_optional_params(
                    model=target.name, custom_llm_provider=target.provider, **settings
                )
            except Exception as error:
                raise call_error(error) from error
            settings = {
                name: value for name, value in settings.items() if name != "stream"
            }
        settings |= settings.pop("extra_body", None) or {}
        return {"model": target.name, "messages": call["messages"], **settings}

    async def count(
        self, target: setup.Target, messages: Sequence[Message]
    ) -> int | None:
        """Return LiteLLM's count of the tokens of messages; `None` if it does not have
        the model's tokenizer.
        """
        if target.provider not in ("openai", "azure"):
            return None
        return int(
            await asyncio.to_thread(
                self._litellm.token_counter, model=target.name, messages=list(messages)
            )
        )

    def _price(
        self,
        target: setup.Target,
        requested: object,
        reader: _ResponseReader,
        response: object,
    ) -> float | None:
        """Return the cost of an answer in USD from LiteLLM's list; `None` if it has none, or the
        answer is not valid.

        Args:
            target: The model and its provider.
            requested: The service tier of the call.
            reader: Reads the response.
            response: LiteLLM's response.

        Raises:
            LookupError: If LiteLLM should work it out.
        """
        try:
            answer = reader.answer(response)
        except CallError:  # `send` reads the answer again and raises it
            return None
        names = (answer.model, target.name)
        tier = tier_of(answer.tier, requested)
        cost = listed_cost(target.provider, names, answer.usage, answer.cached, tier)
        listed = self._litellm.model_cost
        if cost is None and (
            target.provider in _PRICED_BY_SIZE
            or any(
                name in listed or f"{target.provider}/{name}" in listed
                for name in names
            )
        ):
            raise LookupError(target.model)
        return cost

    async def _wait_for_turn(self) -> None:
        """Wait until the previous call has had the time that LiteLLM takes to build it."""
        now = time.monotonic()
        # Taken before the `await`, so that two waiting calls never get the same time.
        self._next = max(now, self._next) + APART
        if (wait := self._next - APART - now) > 0:
            await asyncio.sleep(wait)

    def entry(self) -> Json:
        """Return the model's entry in LiteLLM's price list."""
        if self._litellm is None:
            return {}
        return entry_of(self._litellm.model_cost, self.config.model or "")

    async def close(self) -> None:
        """Release LiteLLM's connections."""
        if self._litellm is not None:
            self._litellm = None
            await leave()


class _ResponseReader:
    """Reads LiteLLM's response once, for its price and for the reply.

    LiteLLM asks for the price last, when the response is complete.

    Args:
        target: The model and its provider.
        call_record: What was read from the provider itself.
    """

    def __init__(self, target: setup.Target, call_record: CapturedCall) -> None:
        self._target = target
        self._call_record = call_record
        self._last: tuple[object, Answer] | None = None

    def answer(self, response: object) -> Answer:
        """Return the answer in a response.

        Raises:
            CallError: As `_answer`.
        """
        if self._last is not None and self._last[0] is response:
            return self._last[1]
        answer = _answer(response, self._target, self._call_record)
        self._last = (response, answer)
        return answer


def _answer(
    response: object, target: setup.Target, call_record: CapturedCall
) -> Answer:
    """Return the answer in LiteLLM's response, with what was read from the provider itself.

    Raises:
        CallError: Of kind `bad_response`, if the provider ended without a text.
    """
    answer = answer_of(response, end=call_record.end.reason)
    # An empty answer that ended well would be stored as an unreadable verdict; as an error it is
    # sent again.
    silent = not (answer.content or answer.arguments or answer.refusal)
    if (
        call_record.end.empty
        and silent
        and answer.finish_reason in ("stop", "tool_calls")
    ):
        message = f"the provider sent no text and ended with '{call_record.end.reason}'"
        raise bad_response(message)
    if call_record.answer is not None:
        # For some providers LiteLLM finds tool calls in the text; it has nothing to say about the
        # rest.
        return replace(
            call_record.answer,
            content=answer.content,
            arguments=answer.arguments,
            finish_reason=_finish(call_record.answer, answer),
            model=call_record.answer.model or target.name,
        )
    # For some providers LiteLLM adds its own provider prefix to the model name that the provider
    # reports.
    prefix = target.settings["model"].removesuffix(target.name)
    if answer.model is not None and prefix.endswith("/"):
        return replace(answer, model=answer.model.removeprefix(prefix))
    return answer
