"""LiteLLM, imported once, late and quiet."""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from importlib import import_module
from itertools import count
from threading import Lock
from typing import Any

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


def litellm() -> Any:
    """Import LiteLLM if it is not yet there and return the module: no network, no noise, our provider known to it."""
    with _lock:
        return _imported()


def enter() -> Any:
    """Import LiteLLM and count one more user of its connections."""
    global _users
    module = litellm()
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
        module = litellm()
        await module.close_litellm_async_clients()
        module.in_memory_llm_clients_cache.flush_cache()
        gc.unfreeze()


@contextmanager
def unlogged() -> Iterator[None]:
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
        litellm().get_api_base(model="openai/none", optional_params={})


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
    from evalkit.judges.guard import install
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
