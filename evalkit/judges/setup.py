"""What is found out of a judge before its first call: provider, key, endpoint, abilities and price."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from evalkit.config import JudgeConfig
from evalkit.errors import CallError, JudgeSetupError
from evalkit.judges import ladder
from evalkit.judges.error_mapping import clean_message
from evalkit.judges.ladder import Shape
from evalkit.judges.specs import LIMITS
from evalkit.types import JudgeRequest

CONNECT_SECONDS = 5.0


async def check_reachable(api_base: str, *, judge: str) -> None:
    """Connect to the host and port of `api_base` once.

    Raises:
        JudgeSetupError: if nothing listens there. Behind a proxy nothing is checked: the way there is not ours.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(api_base)
    host = parts.hostname or ""
    if not host or (parts.scheme in getproxies() and not proxy_bypass(host)):
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), CONNECT_SECONDS)
    except OSError as error:
        raise JudgeSetupError(
            f"nothing answers at {api_base}",
            where=f"judge {judge}",
            remedy="is the server running? check judge.api_base",
        ) from error
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


_OLLAMA = ("ollama", "ollama_chat")
_TOKENS_PER_MESSAGE = 16  # the markers that chat templates put around each


@dataclass(frozen=True, slots=True)
class Target:
    """Where calls go: the model as LiteLLM is given it, its provider, and the arguments every call shares."""

    model: str
    name: str
    provider: str
    address: str | None
    missing: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def resolve_target(litellm: Any, config: JudgeConfig) -> Target:
    """Work out where a judge's calls go.

    Raises:
        JudgeSetupError: if LiteLLM knows no such provider.
    """
    model = config.model or ""
    try:
        name, provider, _, base = litellm.get_llm_provider(model, api_base=config.api_base)
    except Exception as error:
        raise JudgeSetupError(
            f"'{model}' names no provider that LiteLLM knows",
            where="judge.model",
            remedy="write it as provider/model, for example openai/gpt-4o-mini",
        ) from error
    address = config.api_base or base or _default_address(provider)
    missing = _missing_keys(litellm, model)
    settings = {"model": model, **_address_settings(config, missing)}
    return Target(model, name, provider, address, missing, settings)


async def check(where: Target, *, judge: str) -> None:
    """Check what can be checked without a call.

    Raises:
        JudgeSetupError: if the provider's key is not set, or nothing listens at the endpoint.
    """
    if where.missing and "api_base" not in where.settings:
        empty = [name for name in where.missing if name in os.environ]
        raise _no_key(where, f"the API key in {empty[0]} is empty" if empty else "no API key")
    if where.address is not None:
        await check_reachable(where.address, judge=judge)


def first_shape(litellm: Any, config: JudgeConfig, where: Target) -> Shape:
    """Return the shape of a judge's first request, by what LiteLLM knows of the model.

    Raises:
        JudgeSetupError: if log-probabilities are asked for, and this provider gives none.
    """
    if where.provider == "local":
        return Shape("json_schema" if config.response_format == "auto" else config.response_format)
    supported = litellm.get_supported_openai_params(where.name, custom_llm_provider=where.provider) or []
    rung = config.response_format
    if rung == "auto":
        rung = ladder.top_rung(
            known=where.name in litellm.model_cost or where.model in litellm.model_cost,
            response_schema=litellm.supports_response_schema(where.name, where.provider),
            functions=litellm.supports_function_calling(where.name, where.provider),
            supported=supported,
        )
    return Shape(rung, _unsupported(config, where, supported))


def entry(prices: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return what LiteLLM's price list says of a model, by its name with or without its provider, or nothing."""
    found: Mapping[str, Any] = prices.get(model) or prices.get(model.partition("/")[2]) or {}
    return found


def ceiling(entry: Mapping[str, Any], config: JudgeConfig, request: JudgeRequest) -> float | None:
    """Return the most US$ one call can cost, or none if price or longest answer is not known.

    A token is at least one byte, so the prompt's bytes bound its tokens.
    """
    set_here = [config.max_tokens, request.max_tokens, *(config.params.get(name) for name in LIMITS)]
    longest = min((limit for limit in set_here if limit), default=None) or entry.get("max_output_tokens")
    input_price, output_price = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if config.price is not None:
        input_price, output_price = config.price.input / 1e6, config.price.output / 1e6
    if not longest or input_price is None or output_price is None:
        return None
    prompt = sum(len(m["content"].encode()) + _TOKENS_PER_MESSAGE for m in request.messages)
    schema = len(str(request.answer.schema).encode()) if request.answer else 0
    return float((prompt + schema) * input_price + longest * output_price)


def setup_error(where: Target, error: CallError) -> JudgeSetupError:
    """Return the one line that says why no call to this judge can succeed, and what to do."""
    if error.kind == "auth":
        return _no_key(where, f"access refused ({error.message})")
    place = where.address or f"provider {where.provider}"
    if error.kind == "bad_request":
        return JudgeSetupError(
            f"{where.model}: {place} refuses the request ({error.message})", remedy="try judge.response_format=auto"
        )
    return JudgeSetupError(
        f"{where.model}: {place} does not have this model ({error.message})",
        remedy="check judge.model and judge.api_base",
    )


def hidden_setup_error(error: BaseException, model: str) -> JudgeSetupError | None:
    """Return what LiteLLM wrapped in an exception of its own and no retry mends: ours, or a package not installed."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, JudgeSetupError):
            return seen
        if isinstance(seen, ImportError):
            return JudgeSetupError(
                f"{model}: LiteLLM needs a package for this provider ({clean_message(str(seen))})",
                remedy=f"pip install {seen.name or 'that package'}",
            )
        seen = seen.__cause__ or seen.__context__
    return None


def _unsupported(config: JudgeConfig, where: Target, supported: Sequence[str]) -> frozenset[str]:
    if config.logprobs is True and "logprobs" not in supported:
        raise JudgeSetupError(
            f"{where.model}: provider {where.provider} gives no log-probabilities",
            where="judge.logprobs",
            remedy="set judge.logprobs=false, or fallback to do without where there are none",
        )
    return frozenset(name for name in ladder.OPTIONAL if name not in supported)


def _default_address(provider: str) -> str | None:
    return os.environ.get("OLLAMA_API_BASE", "http://localhost:11434") if provider in _OLLAMA else None


def _address_settings(config: JudgeConfig, missing: Sequence[str]) -> dict[str, Any]:
    if config.api_base is None:
        return {}
    # A server of one's own mostly asks for no key, but OpenAI's client will not start without one.
    return {"api_base": config.api_base, **({"api_key": "none"} if missing else {})}


def _missing_keys(litellm: Any, model: str) -> tuple[str, ...]:
    if model.startswith("local/"):
        return ()
    with _no_empty_variables():
        found = litellm.validate_environment(model)
    missing = tuple(found.get("missing_keys") or ())
    # Where more than a key is missing there are other ways in (profiles, instance roles), which only a call can try.
    keys_only = bool(missing) and all(name.endswith(("_API_KEY", "_API_TOKEN")) for name in missing)
    return missing if keys_only and not found.get("keys_in_environment") else ()


@contextmanager
def _no_empty_variables() -> Iterator[None]:
    """Hide environment variables without content as long as the block lasts: LiteLLM takes them for keys."""
    empty = {name: value for name, value in os.environ.items() if not value.strip()}
    for name in empty:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(empty)


def _no_key(where: Target, what: str) -> JudgeSetupError:
    names = where.missing or (f"{where.provider.upper()}_API_KEY",)
    verb = "check" if any(os.environ.get(name, "").strip() for name in names) else "set"
    return JudgeSetupError(
        f"{where.model}: {clean_message(what)}", remedy=f"{verb} the environment variable {' or '.join(names)}"
    )
