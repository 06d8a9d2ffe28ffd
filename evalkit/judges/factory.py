"""Derive judges and their identity from a config."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from evalkit.config import JudgeConfig, RunConfig, RunnerConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.core.plugins import JUDGES, check_known, construct, find
from evalkit.core.protocols import Judge
from evalkit.core.redaction import remedy_for, secret_in
from evalkit.core.types import Completion, JudgeRequest, JudgeSpec
from evalkit.core.values import JsonObject
from evalkit.judges import setup
from evalkit.judges.completions import priced
from evalkit.judges.model_judge import InProcess, ModelJudge, max_concurrency
from evalkit.judges.setup import ENDPOINT, HEADERS
from evalkit.judges.transport_registry import (
    DECIDERS,
    ENDPOINTS,
    IN_PROCESS,
    TRANSPORTS,
)

TOP_LOGPROBS = 20  # the maximum of OpenAI's API; a scale of ten needs more than ten
_SECRET_PARAMS = ("api_key", "api_token", "headers", "extra_headers", "authorization")
_OWN_PARAMS = (
    "model",
    "messages",
    "response_format",
    "tools",
    "tool_choice",
    "stream",
    "n",
    "api_base",
    "base_url",
    "endpoint",
)
_KEY = "judge.transport"
ARBITER = "swap.arbiter"
REWRITER = "probe.rewriter"
_METHODS = ("complete", "send")


class CustomJudge:
    """A third-party judge, with the spec, limits and price from its config.

    Args:
        inner: An object with `complete` and, optionally, `prepare`, `ceiling`, `rest` and `close`.
        config: The config of one judge, not of a panel.
        spec: The judge's identity.
    """

    def __init__(self, inner: Any, config: JudgeConfig, spec: JudgeSpec) -> None:
        self.spec, self._inner, self._config = spec, inner, config
        self.concurrency = max_concurrency(config)
        self.rpm = config.rpm
        self.tpm = config.tpm

    @property
    def rest(self) -> float:
        """Seconds until its provider accepts more calls."""
        return float(getattr(self._inner, "rest", 0.0))

    async def prepare(self) -> None:
        """Let the judge prepare itself before the first call."""
        if (prepare := getattr(self._inner, "prepare", None)) is not None:
            await prepare()

    def ceiling(self, request: JudgeRequest) -> float | None:
        """Return the most that one call can cost in USD, by `judge.price` or by the
        judge itself; `None` if unknown.
        """
        if (
            self._config.price is None
            and (ceiling := getattr(self._inner, "ceiling", None)) is not None
        ):
            limit: float | None = ceiling(request)
            return limit
        return setup.ceiling({}, self._config, request)

    async def complete(self, request: JudgeRequest) -> Completion:
        """Send one request once; measure its latency unless the judge reports it.

        Raises:
            CallError: If the call fails.
        """
        started = time.monotonic()
        completion: Completion = await self._inner.complete(request)
        if not completion.latency:
            completion = replace(completion, latency=time.monotonic() - started)
        return priced(completion, completion.cost_usd, self._config.price)

    async def close(self) -> None:
        """Close the connections."""
        if (close := getattr(self._inner, "close", None)) is not None:
            await close()


def make_judges(
    config: JudgeConfig, runner: RunnerConfig, key: str = "judge"
) -> tuple[Judge, ...]:
    """Create the judge, or each judge of a panel; heavy packages are imported by the first call.

    Args:
        config: The config of the judge.
        runner: The runner's settings.
        key: The key of this config, which errors name.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
        PluginError: If `judge.transport` names a plug-in that cannot be used.
    """
    judges: list[Judge] = []
    with setup.keys_below(key):
        for member, spec in zip(config.members, spec_of(config), strict=True):
            built = _made(member, runner)
            # a plug-in is a whole judge if it completes requests, and otherwise a
            # transport
            custom = hasattr(built, "complete")
            judges.append(
                CustomJudge(built, member, spec)
                if custom
                else ModelJudge(member, spec, built, key)
            )
    # In the order of `config.members`: their index is the index of a judge in a run.
    return tuple(judges)


def _made(member: JudgeConfig, runner: RunnerConfig) -> Any:
    """Return the transport of one judge, or a third-party judge."""
    name = member.transport
    is_default = (name, member.endpoint) == ("litellm", "chat")
    in_process = _in_process(member.model or "")
    # A transport or an endpoint that the user chose counts more than the name.
    if in_process is not None and (member.simulated or is_default):
        return in_process(member, runner)
    kind = find(JUDGES, name, _transports(member), where=_KEY, methods=_METHODS)
    return construct(kind, member, runner, name=name, where=_KEY)


def _in_process(model: str) -> type[InProcess] | None:
    """Return the transport of a model in this process; `None` for any other model."""
    for prefix in IN_PROCESS:
        if model.startswith(prefix):
            transport: type[InProcess] = find(
                JUDGES, prefix, IN_PROCESS, where="judge.model", methods=_METHODS
            )
            return transport
    return None


def _transports(config: JudgeConfig) -> Mapping[str, str]:
    """Return the transports for an endpoint, by name."""
    if config.endpoint == "chat":
        return TRANSPORTS
    if config.decides:
        return DECIDERS
    return ENDPOINTS


def make_arbiter(config: RunConfig) -> Judge | None:
    """Create the judge of the third pass, or return `None` if the config has no third pass.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
    """
    arbiter = _arbiter(config)
    if arbiter is None:
        return None
    return make_judges(arbiter, config.runner, ARBITER)[0]


def describe_rewriter(config: RunConfig) -> JsonObject | None:
    """Describe the model of `probe.rewriter` for a run's manifest; `None` if there is none.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
    """
    rewriter = config.probe.rewriter
    if rewriter is None:
        return None
    with setup.keys_below(REWRITER):
        return _described(rewriter)[0]


def describe_judges(config: RunConfig) -> list[JsonObject]:
    """Describe the judges for a run's manifest, the arbiter last.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
    """
    arbiter = _arbiter(config)
    with setup.keys_below(ARBITER):
        # The arbiter is not a member of the panel, so it is marked.
        arbiters = [] if arbiter is None else _described(arbiter)
    return _described(config.judge) + [
        {**description, "arbiter": True} for description in arbiters
    ]


def _described(config: JudgeConfig) -> list[JsonObject]:
    return [
        {"name": s.name, "model": s.model, "api_base": s.api_base}
        for s in spec_of(config)
    ]


def _arbiter(config: RunConfig) -> JudgeConfig | None:
    swap = config.swap
    if swap.policy == "both" and swap.resolve == "third_pass":
        return swap.arbiter
    return None


def spec_of(
    config: JudgeConfig, models: Mapping[str, str] | None = None
) -> tuple[JudgeSpec, ...]:
    """Return the spec of the judge, or of each judge of a panel, without making a call.

    `models` maps judges to full model names that need not be looked up here.

    Raises:
        JudgeSetupError: If a parameter is reserved, an api_base is malformed, or two judges share a
            name.
    """
    members = tuple(config.members)
    specs = tuple(
        JudgeSpec(
            m.label,
            (models or {}).get(m.label) or _model(m),
            m.api_base,
            params_of(m),
            m.look,
            merged=m.system == "user",
            longest_string=m.max_string,
        )
        for m in members
    )
    names = [spec.name for spec in specs]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise JudgeSetupError(
            f"two judges are named '{repeated[0]}'",
            where="judge.judges",
            remedy="give each judge a unique 'name'",
        )
    return specs


def params_of(config: JudgeConfig) -> JsonObject:
    """Return the sampling parameters that are set, as they are sent and as they enter
    the content key.

    Raises:
        JudgeSetupError: If a parameter is a secret or is set by evalkit, or if a header, the
            transport or the setting of a simulated judge is not valid.
    """
    for name in config.params:
        where = f"judge.params.{name}"
        # Parameters enter the content key and the manifest, where a secret would be stored and
        # shared.
        if name.lower() in _SECRET_PARAMS:
            remedy = "set the provider's environment variable"
            if name.lower().endswith("headers"):
                remedy += "; a header without a credential goes into judge.headers"
            raise JudgeSetupError(
                "a config must not contain secrets", where=where, remedy=remedy
            )
        if name in _OWN_PARAMS:
            raise JudgeSetupError(
                "evalkit sets this parameter itself", where=where, remedy="remove it"
            )
    _check_headers(config)
    check_known(JUDGES, config.transport, TRANSPORTS, where=_KEY)
    if (in_process := _in_process(config.model or "")) is not None:
        in_process.check(config)
    # Headers can change what a server answers, so they belong to the key; names in lowercase,
    # since their case has no meaning.
    headers = {name.lower(): value for name, value in config.headers.items()}
    sent_headers = {HEADERS: headers} if headers else {}
    if config.rewards or config.decides:
        return {ENDPOINT: config.endpoint, **sent_headers, **config.params}
    options: JsonObject = {
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "seed": config.seed,
    }
    options |= {} if config.endpoint == "chat" else {ENDPOINT: config.endpoint}
    params = {name: value for name, value in options.items() if value is not None}
    if config.logprobs:
        params |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return {**params, **sent_headers, **config.params}


_CREDENTIALS = re.compile(
    (
        r"auth|cookie|credential|password|secret|signature"
        r"|token|session|(?:^|[-_])(?:api[-_]?)?key(?:$|[-_])"
    ),
    re.IGNORECASE,
)
_OWN_HEADERS = (
    *("host", "content-length", "content-type", "content-encoding"),
    *("accept-encoding", "transfer-encoding", "connection"),
)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


def _check_headers(config: JudgeConfig) -> None:
    """Check additional headers.

    Raises:
        JudgeSetupError: If one is malformed, is set by evalkit itself, or holds a credential.
    """
    for name, value in config.headers.items():
        where = f"judge.headers.{name}"
        if (
            not _HEADER.fullmatch(name)
            or not value.isascii()
            or not value.isprintable()
        ):
            raise JudgeSetupError(
                "not a header", where=where, remedy="use printable ASCII"
            )
        if name.lower() in _OWN_HEADERS:
            raise JudgeSetupError(
                "evalkit sets this header itself", where=where, remedy="remove it"
            )
        if _CREDENTIALS.search(name):
            raise JudgeSetupError(
                "a config must not contain secrets",
                where=where,
                remedy="set the provider's environment variable",
            )
        if (secret := secret_in(value)) is not None:
            raise JudgeSetupError(secret, where=where, remedy=remedy_for(where))


def _model(config: JudgeConfig) -> str:
    model = config.model or ""
    base = config.api_base
    where = "judge.api_base"
    if base is not None:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            remedy = "write a URL such as http://127.0.0.1:8000/v1"
            raise JudgeSetupError(f"'{base}' is not a URL", where=where, remedy=remedy)
        if (secret := secret_in(base)) is not None:
            raise JudgeSetupError(secret, where=where, remedy=remedy_for(where))
    if (in_process := _in_process(model)) is not None:
        return in_process.identified(model)
    return model


async def check_judges(config: RunConfig) -> str:
    """Check each judge's model name, key and endpoint without a paid call, and return their names.

    A server of OpenAI's protocol is asked for its list of models, which costs nothing.

    Raises:
        JudgeSetupError: if a judge cannot be called.
    """
    arbiter = make_arbiter(config)
    rewriter = config.probe.rewriter
    judges = [
        *make_judges(config.judge, config.runner),
        *([arbiter] if arbiter else []),
    ]
    judges += make_judges(rewriter, config.runner, REWRITER) if rewriter else ()
    try:
        for judge in judges:
            if prepare := getattr(judge, "prepare", None):
                await prepare()
            if isinstance(judge, ModelJudge):
                await judge.confirm()
        return ", ".join(judge.spec.model for judge in judges)
    finally:
        for judge in judges:
            await judge.close()
