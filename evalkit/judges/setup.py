"""Resolve and check a judge before its first call, and choose the shape of its requests.

A shape is the rung of structured output and the parameters that are dropped because the provider
refuses them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from evalkit.config import DECISIONS, SIMULATED, JudgeConfig
from evalkit.core.errors import AccessError, CallError, JudgeSetupError
from evalkit.core.patterns import lazy_pattern
from evalkit.core.tokens import image_tokens
from evalkit.core.types import JudgeRequest, Rung
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.guard.credentials import is_withheld, stand_in
from evalkit.guard.hosts import host_of
from evalkit.guard.known_hosts import FLAG
from evalkit.judges.adaptations import LIMITS, OPTIONAL, Shape, shaped
from evalkit.judges.error_bodies import PAGE
from evalkit.judges.error_mapping import clean_message

LOCAL = "local/"
COPIES = 2
"""Copies of the embedded model; two with one thread each have 1.5 times the throughput of one with
two threads."""
FREE = (LOCAL, SIMULATED)
"""Prefixes of models that cost nothing."""
HEADERS = "headers"
"""The parameter of the content key that holds the user's own headers."""
ENDPOINT = "endpoint"
"""The parameter of the content key that names an endpoint other than chat completions."""
OPENAI_SERVERS = (
    *(
        "openai",
        "custom_openai",
        "aiohttp_openai",
        "openai_like",
        "hosted_vllm",
        "litellm_proxy",
        "lm_studio",
    ),
    *("llamafile", "xinference", "docker_model_runner"),
    *(
        "cerebras",
        "deepinfra",
        "deepseek",
        "fireworks_ai",
        "groq",
        "nvidia_nim",
        "openrouter",
        "together_ai",
        "xai",
    ),
)
"""The providers whose servers answer with OpenAI chat completions, and that need no more than an
address and a key."""
CONNECT_SECONDS = 5.0


def proxy_of(address: str) -> str | None:
    """Return the URL of the proxy through which an address is reached, by the
    environment; `None` if there is none.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(address)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


async def check_reachable(api_base: str, *, judge: str) -> None:
    """Connect once to the host and port of `api_base`; behind a proxy, check nothing.

    Args:
        api_base: The address; without a port, that of its scheme is used.
        judge: The name of the judge, for the error.

    Raises:
        JudgeSetupError: If the connection fails.
    """
    parts = urlsplit(api_base)
    host = parts.hostname or ""
    # A proxy may be the only way out: a direct connection would fail though calls work.
    if not host or proxy_of(api_base) is not None:
        return
    port = parts.port or (443 if parts.scheme == "https" else 80)
    # Late, as in all modules that only describe judges where nothing is asked: with what it
    # imports, it takes 25 ms.
    import asyncio

    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(host, port), CONNECT_SECONDS
        )
    except OSError as error:
        raise JudgeSetupError(
            f"no server answers at {api_base}",
            where=f"judge {judge}",
            remedy="start the server, or fix judge.api_base",
        ) from error
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


_PER_IMAGE, _PER_IMAGE_OF_MINI = 17_000, 37_000
_TOKENS_PER_MESSAGE = 16  # markers that chat templates add to each message


@frozen
class Target:
    """The destination of a judge's calls.

    Attributes:
        model: The model's name for LiteLLM.
        name: The model's name for the provider.
        provider: LiteLLM's name of the provider.
        address: The endpoint's URL; `None` if it is unknown.
        missing: The environment variables of keys that are not set.
        settings: The arguments that every call shares.
    """

    model: str
    name: str
    provider: str
    address: str | None
    missing: tuple[str, ...] = ()
    settings: Json = field(default_factory=dict)


def top_rung(
    *, listed: bool, response_schema: bool, functions: bool, supported: Collection[str]
) -> Rung:
    """Return the highest rung that a model can be expected to support.

    Args:
        listed: Whether the price list has the model; for an unknown model, the best rung is tried
            first.
        response_schema: Whether the model supports a JSON schema.
        functions: Whether the model can call tools.
        supported: The parameters that the provider accepts.
    """
    if "response_format" in supported and (response_schema or not listed):
        return "json_schema"
    if "tools" in supported and functions:
        return "tool"
    if "response_format" in supported:
        return "json_object"
    return "text"


def settings(shape: Shape, request: JudgeRequest, params: Json) -> JsonObject:
    """Return the keyword arguments that send `request` in this shape.

    Args:
        shape: The rung and the dropped parameters.
        request: The request to send.
        params: The sampling parameters.
    """
    kept = shaped(shape, params)
    if (answer := request.answer) is None or shape.rung == "text":
        return kept
    # A deep copy of plain types: formats are shared by all requests, and a client may change what
    # it gets.
    schema = json.loads(json.dumps(dict(answer.schema)))
    if shape.rung == "tool":
        tool = {
            "name": answer.name,
            "description": "Give the answer.",
            "parameters": schema,
        }
        choice = {"type": "function", "function": {"name": answer.name}}
        return {
            **kept,
            "tools": [{"type": "function", "function": tool}],
            "tool_choice": choice,
        }
    form: JsonObject = {"type": shape.rung}
    if shape.rung == "json_schema":
        form["json_schema"] = {"name": answer.name, "schema": schema, "strict": True}
    return {**kept, "response_format": form}


def resolve_target(litellm: Any, config: JudgeConfig) -> Target:
    """Return the destination of a judge's calls.

    Raises:
        JudgeSetupError: If LiteLLM does not know the provider.
    """
    model = config.model or ""
    try:
        name, provider, _, base = litellm.get_llm_provider(
            model, api_base=config.api_base
        )
    except Exception as error:
        raise unknown_provider(model) from error
    address = config.api_base or base
    missing = _missing_keys(litellm, model)
    if not address and provider in ("ollama", "ollama_chat"):
        address = os.environ.get("OLLAMA_API_BASE", "http://localhost:11434")
    settings = {"model": model}
    if config.api_base is not None:
        # Most self-hosted servers need no key, but OpenAI's client does not start without one.
        settings |= {
            "api_base": config.api_base,
            **({"api_key": "none"} if missing else {}),
        }
        if is_withheld(config.api_base):
            # LiteLLM would read the real key from the environment and send it to a server that a
            # file names.
            settings["api_key"] = stand_in(f"{provider.upper()}_API_KEY")
    return Target(model, name, provider, address, missing, settings)


def unknown_provider(model: str) -> JudgeSetupError:
    """Return the error for a model whose provider LiteLLM does not know."""
    problem = f"LiteLLM does not know the provider of '{model}'"
    remedy = "write it as provider/model, for example openai/gpt-4o-mini"
    return JudgeSetupError(problem, where="judge.model", remedy=remedy)


async def check(target: Target, *, judge: str) -> None:
    """Check a target without making a call.

    Raises:
        JudgeSetupError: If the provider's key is not set, or the endpoint does not accept
            connections.
    """
    # A custom server may need no key.
    if target.missing and "api_base" not in target.settings:
        empty = [name for name in target.missing if name in os.environ]
        raise _no_key(
            target, f"the API key in {empty[0]} is empty" if empty else "no API key"
        )
    if target.address is not None:
        await check_reachable(target.address, judge=judge)


_DECISION_MODES = ("evaluation", "decisions")
_DECISION_PATHS = ("/v1/decisions", "/v1/systemone")


def check_listed_mode(entry: Json, config: JudgeConfig) -> None:
    """Check the endpoint by the model's entry in the price list; do nothing without an entry.

    Raises:
        JudgeSetupError: If a decision model is asked to chat, or a chat model is asked for
            decisions; a custom server may have another model of this name.
    """
    mode = entry.get("mode")
    if config.endpoint == "chat" and mode in _DECISION_MODES:
        paths = entry.get("supported_endpoints") or _DECISION_PATHS
        endpoints = [path.rpartition("/")[2] for path in paths]
        # The last one that evalkit can call, or the usual one.
        decision_endpoints = [name for name in reversed(endpoints) if name in DECISIONS]
        endpoint = next(iter(decision_endpoints), DECISIONS[0])
        raise JudgeSetupError(
            f"{config.model} is a decision model, which writes no text",
            where="judge.endpoint",
            remedy=f"set judge.endpoint={endpoint}",
        )
    chats = mode is not None and mode not in _DECISION_MODES
    # Some models of the list can do both.
    both = set(_DECISION_PATHS) & set(entry.get("supported_endpoints") or ())
    if config.decides and chats and not both and config.api_base is None:
        raise JudgeSetupError(
            f"{config.model} is no decision model (LiteLLM lists it for {mode})",
            where="judge.endpoint",
            remedy="set judge.endpoint=chat, or choose a decision model",
        )


def first_shape(litellm: Any, config: JudgeConfig, target: Target) -> Shape:
    """Return the shape of a judge's first request, from what LiteLLM knows about the model.

    A shape is the rung of structured output, which is the format of the answer, and the
    parameters that are not sent. The rung is the configured one, or the best that the model
    supports.

    Raises:
        JudgeSetupError: If log-probabilities are requested and the provider does not return them.
    """
    supported = (
        litellm.get_supported_openai_params(
            target.name, custom_llm_provider=target.provider
        )
        or []
    )
    rung = config.response_format
    if rung == "auto":
        rung = top_rung(
            listed=target.name in litellm.model_cost
            or target.model in litellm.model_cost,
            response_schema=litellm.supports_response_schema(
                target.name, target.provider
            ),
            functions=litellm.supports_function_calling(target.name, target.provider),
            supported=supported,
        )
    if config.logprobs is True and "logprobs" not in supported:
        raise JudgeSetupError(
            f"{target.model}: provider {target.provider} does not return log-probabilities",
            where="judge.logprobs",
            remedy=(
                "set judge.logprobs to false, or to fallback to use them only if the provider"
                " returns them"
            ),
        )
    return Shape(rung, frozenset(name for name in OPTIONAL if name not in supported))


def ceiling(entry: Json, config: JudgeConfig, request: JudgeRequest) -> float | None:
    """Return the most that one call can cost in USD; `None` if the price or the longest
    answer is unknown.

    A token has at least one byte, so the prompt's size in bytes is an upper bound of its tokens.

    Args:
        entry: The model's entry in the price list.
        config: The judge's config.
        request: The request to send.
    """
    # An upper bound, since a budget must never be exceeded: the shortest limit that applies.
    limits = [
        config.max_tokens,
        request.max_tokens,
        *(config.params.get(name) for name in LIMITS),
    ]
    output_limit = (
        min((limit for limit in limits if limit), default=None)
        or entry.get("max_output_tokens")
        or None
    )
    longest = 0 if config.rewards or config.decides else output_limit
    input_price = entry.get("input_cost_per_token")
    output_price = entry.get("output_cost_per_token")
    if config.price is not None:
        input_price = config.price.input / 1e6
        output_price = config.price.output / 1e6
    # Unknown is not free: the caller then refuses a budget in USD.
    if longest is None or input_price is None or output_price is None:
        return None
    prompt = sum(
        len(m["content"].encode()) + _TOKENS_PER_MESSAGE for m in request.messages
    )
    prompt += image_tokens(request.messages, _longest_image(config.model or ""))
    # Providers may add the schema to the prompt and charge for it.
    schema = len(str(request.answer.schema).encode()) if request.answer else 0
    return float((prompt + schema) * input_price + longest * output_price)


def _longest_image(model: str) -> int:
    """Return the most tokens that a picture is charged as; gpt-4o-mini's are a multiple
    of all others.
    """
    if "4o-mini" in model:
        return _PER_IMAGE_OF_MINI
    return _PER_IMAGE


_UNSUPPORTED = lazy_pattern(
    r"chat.?template|not support|unsupported|endpoint|\btask\b", re.IGNORECASE
)


def is_unsupported(error: CallError) -> bool:
    """Return whether a server refused a request because the model cannot answer at this
    endpoint.
    """
    return _UNSUPPORTED.search(error.message) is not None


_ABOUT_FORMAT = lazy_pattern(
    r"response_?format|json_?schema|schema|structured|json_?object|json.?mode|\btools?\b|function",
    re.IGNORECASE,
)
_ABOUT_LIMIT = lazy_pattern("|".join((*LIMITS, "maximum tokens")))
_ABOUT_TEMPLATE = lazy_pattern("chat.?template", re.IGNORECASE)
_ABOUT_REGION = lazy_pattern(
    r"(?:country|region|territory|location)\b.{0,40}not supported|unsupported (?:countr|region)",
    re.IGNORECASE,
)
_ABOUT_CLOSED = lazy_pattern(
    r"\b(?:account|organi[sz]ation)\b.{0,60}\b(?:disabled|deactivated|restricted|terminated)\b",
    re.IGNORECASE,
)
_RESPONSES_ONLY = lazy_pattern(
    r"v1/responses|not a chat model|responses api", re.IGNORECASE
)


def setup_error(
    target: Target, error: CallError, endpoint: str = "chat", rung: str = "auto"
) -> JudgeSetupError:
    """Return the error that explains why no call to this judge can succeed, with a
    remedy by its cause.

    Args:
        target: The destination of the call.
        error: The error of the call.
        endpoint: The configured endpoint.
        rung: The configured response format.
    """
    if error.kind in ("auth", "account") or _is_from_gateway(error):
        return _access_error(target, error)
    address = target.address or f"provider {target.provider}"
    if endpoint != "chat":
        remedy = "check judge.endpoint, judge.model and judge.api_base"
        if _ABOUT_TEMPLATE.search(error.message):
            remedy = "set judge.template to the path of the model's chat template (a Jinja file)"
        problem = f"{target.model}: {address} has no {endpoint} of it ({error.message})"
        return _as_kind(error, problem, remedy)
    if error.kind == "bad_request":
        problem = f"{target.model}: {address} rejects the request ({error.message})"
        return JudgeSetupError(problem, remedy=_remedy_of_request(error, rung))
    if error.scope == "address" or error.message.startswith(PAGE):
        remedy = "check judge.api_base: a server's address often ends with /v1; or judge.model"
        if _ABOUT_TEMPLATE.search(error.message):
            remedy = (
                "start the server with a chat template, or set judge.endpoint=completion and"
                " judge.max_tokens"
            )
        problem = f"{target.model}: {address} has no chat completions ({error.message})"
        return _as_kind(error, problem, remedy)
    remedy = "check judge.model and judge.api_base"
    if _RESPONSES_ONLY.search(error.message):
        # LiteLLM posts to the other address if a model's name says so.
        remedy = (
            f"set judge.model=openai/responses/{target.name}, or choose a chat model"
        )
        if "model" not in target.settings:
            # LiteLLM is not in use.
            remedy = remedy.replace(", or", " and judge.transport=litellm, or")
    problem = f"{target.model}: {address} does not have this model ({error.message})"
    return _as_kind(error, problem, remedy)


def _is_from_gateway(error: CallError) -> bool:
    """Return whether a page before the server denies access."""
    return error.http_status == 403 and error.message.startswith(PAGE)


def _access_error(target: Target, error: CallError) -> AccessError:
    """Return the error for access that is denied, or an account that is closed or used up."""
    denied = f"access denied ({error.message})"
    problem = f"{target.model}: {denied}"
    if error.kind == "auth" and is_withheld(target.settings.get("api_base")):
        host = host_of(str(target.address))
        remedy = f"a file names this server, so it gets no key: if you trust it, add {FLAG} {host}"
        return AccessError(problem, remedy=remedy)
    if _is_from_gateway(error):
        remedy = "a gateway before the server says this: check judge.api_base, and the network"
        return AccessError(problem, remedy=remedy)
    if error.kind == "auth" and _ABOUT_REGION.search(error.message):
        remedy = "the provider does not serve where this runs: use another network or provider"
        return AccessError(problem, remedy=remedy)
    if error.kind == "auth":
        return _no_key(target, denied)
    if _ABOUT_CLOSED.search(error.message):
        return AccessError(
            f"{target.model}: the account is closed ({error.message})",
            remedy=(
                "ask the provider to open it, or use another key, and run again: stored answers are"
                " kept"
            ),
        )
    return AccessError(
        f"{target.model}: the account or its budget is used up ({error.message})",
        remedy=(
            "add credit or raise the budget, or wait until it is reset, and run again: stored"
            " answers are kept"
        ),
    )


def _remedy_of_request(error: CallError, rung: str) -> str:
    """Return what to do about a request that a server rejects.

    Args:
        error: The server's error.
        rung: The configured response format.
    """
    if rung not in ("auto", "text") and _ABOUT_FORMAT.search(error.message):
        return "try judge.response_format=auto"
    if _ABOUT_LIMIT.search(error.message):
        return "change judge.max_tokens, or check judge.params"
    return "check judge.params and judge.model"


def _as_kind(error: CallError, problem: str, remedy: str) -> JudgeSetupError:
    """Return the error of an endpoint; what is not there ends a run whenever it is missed."""
    if error.kind == "not_found" or error.scope == "address":
        return AccessError(problem, remedy=remedy, kind=error.kind)
    return JudgeSetupError(problem, remedy=remedy)


_KEY_OF_JUDGE = lazy_pattern(r"\bjudge\.(?!judges\b)(?=[a-z_])")


@contextmanager
def keys_below(key: str) -> Iterator[None]:
    """Name the keys of a judge that is configured at another key than `judge` in the
    errors of its setup.
    """
    try:
        yield
    except JudgeSetupError as error:
        if key == "judge":
            raise
        raise _relocated(error, key) from error.__cause__


def _relocated(error: JudgeSetupError, key: str) -> JudgeSetupError:
    where, remedy = (
        # `align.model` is the name of a model, or the keys of a judge.
        _KEY_OF_JUDGE.sub(f"{key}.", text).replace("model.model", "model")
        for text in (error.where, error.remedy)
    )
    relocated = type(error)(error.what, where=where or key, remedy=remedy)
    if isinstance(error, AccessError) and isinstance(relocated, AccessError):
        relocated.kind = error.kind
    return relocated


def hidden_setup_error(error: BaseException, model: str) -> JudgeSetupError | None:
    """Return the permanent error inside one of LiteLLM's exceptions: one of ours, or a package that
    is not installed; `None` if there is none.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, JudgeSetupError):
            return cause
        if isinstance(cause, ImportError):
            return JudgeSetupError(
                f"{model}: LiteLLM needs a package for this provider ({clean_message(str(cause))})",
                remedy=f"pip install {cause.name or 'that package'}",
            )
        cause = cause.__cause__ or cause.__context__
    return None


def _missing_keys(litellm: Any, model: str) -> tuple[str, ...]:
    """Return the variables that a model's provider needs and the environment lacks.

    Empty if the key is there, or if other credentials could serve instead: only a call can test
    them.
    """
    # LiteLLM takes empty variables for keys. It reads keys from os.environ only, so they are hidden
    # in the process.
    empty = {name: value for name, value in os.environ.items() if not value.strip()}
    for name in empty:
        del os.environ[name]
    try:
        environment = litellm.validate_environment(model)
    finally:
        os.environ.update(empty)
    missing = tuple(environment.get("missing_keys") or ())
    # If more than a key is missing, there are other credentials (profiles, instance roles) that
    # only a call can test.
    keys_only = bool(missing) and all(
        name.endswith(("_API_KEY", "_API_TOKEN")) for name in missing
    )
    if keys_only and not environment.get("keys_in_environment"):
        return missing
    return ()


def _no_key(target: Target, problem: str) -> AccessError:
    names = target.missing or (f"{target.provider.upper()}_API_KEY",)
    verb = "check" if any(os.environ.get(name, "").strip() for name in names) else "set"
    return AccessError(
        f"{target.model}: {clean_message(problem)}",
        remedy=f"{verb} the environment variable {' or '.join(names)}",
    )
