"""Derive a judge's identity from its config alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from evalkit.config import SIMULATED, JudgeConfig
from evalkit.core.redaction import remedy_for, secret_in
from evalkit.errors import JudgeSetupError
from evalkit.judges import simulated
from evalkit.judges.smollm2 import COPIES, identified
from evalkit.plugins import JUDGES, check_known
from evalkit.types import JudgeRequest, JudgeSpec

LOCAL = "local/"
LIMITS = ("max_tokens", "max_completion_tokens")
FREE = (LOCAL, SIMULATED)
"""Prefixes of models that cost nothing."""
TOP_LOGPROBS = 20  # the maximum of OpenAI's API; a scale of ten needs more than ten
_SECRET_PARAMS = ("api_key", "api_token", "headers", "extra_headers", "authorization")
_OWN_PARAMS = ("model", "messages", "response_format", "tools", "tool_choice", "stream", "n", "api_base", "base_url")


TRANSPORTS = MappingProxyType(
    {
        "litellm": "evalkit.judges.litellm_transport:LiteLLMTransport",
        "direct": "evalkit.judges.direct_transport:DirectTransport",
    }
)
"""The transports by the value of `judge.transport`; each is constructed with a `JudgeConfig` and a `RunnerConfig`."""


def spec_of(config: JudgeConfig, models: Mapping[str, str] | None = None) -> tuple[JudgeSpec, ...]:
    """Return the spec of the judge, or of each judge of a panel, without making a call.

    `models` maps judges to full model names that need not be looked up here.

    Raises:
        JudgeSetupError: If a parameter is reserved, an api_base is malformed, or two judges share a name.
    """
    members = tuple(config.members)
    specs = tuple(
        JudgeSpec(m.label, (models or {}).get(m.label) or _model(m), m.api_base, params_of(m)) for m in members
    )
    names = [spec.name for spec in specs]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise JudgeSetupError(
            f"two judges are named '{repeated[0]}'", where="judge.judges", remedy="give each judge a unique 'name'"
        )
    return specs


def max_concurrency(config: JudgeConfig) -> int | None:
    """Return the concurrency limit of one judge, or `None` if only the runner limits it.

    A copy of the embedded model answers one request at a time: requests must not wait there while their timeout runs.
    """
    if (config.model or "").startswith(LOCAL):
        return min(config.concurrency or COPIES, COPIES)
    return config.concurrency


def params_of(config: JudgeConfig) -> dict[str, Any]:
    """Return the sampling parameters that are set, as they are sent and as they enter the content key."""
    _refuse(config)
    check_known(JUDGES, config.transport, TRANSPORTS, where="judge.transport")
    if config.simulated:
        simulated.check(config)
    options = {"temperature": config.temperature, "max_tokens": config.max_tokens, "seed": config.seed}
    params = {name: value for name, value in options.items() if value is not None}
    if config.logprobs:
        params |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return {**params, **config.params}


def sent_params(params: Mapping[str, Any], request: JudgeRequest) -> dict[str, Any]:
    """Return the sampling parameters of one request: the seed of sample k is the judge's seed plus k.

    With one seed, all samples would be the same answer. The content key contains the seed and the sample, so it does
    not need their sum. The request's token limit, if it has one, can only lower the judge's limit.
    """
    sent = dict(params)
    if request.max_tokens is not None:
        name = next((name for name in LIMITS if name in params), LIMITS[0])
        sent[name] = min(request.max_tokens, params.get(name) or request.max_tokens)
    if (seed := params.get("seed")) is not None and not request.shared:
        sent["seed"] = seed + request.sample
    return sent


def _refuse(config: JudgeConfig) -> None:
    for name in config.params:
        if name.lower() in _SECRET_PARAMS:
            raise JudgeSetupError(
                "a config must not contain secrets",
                where=f"judge.params.{name}",
                remedy="set the provider's environment variable",
            )
        if name in _OWN_PARAMS:
            raise JudgeSetupError(
                "evalkit sets this parameter itself",
                where=f"judge.params.{name}",
                remedy="remove it",
            )


def _model(config: JudgeConfig) -> str:
    model = config.model or ""
    if config.api_base is not None:
        _check_base(config.api_base)
    return identified(model) if model.startswith(LOCAL) else model


def _check_base(api_base: str) -> None:
    parts = urlsplit(api_base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise JudgeSetupError(
            f"'{api_base}' is not a URL", where="judge.api_base", remedy="write a URL such as http://127.0.0.1:8000/v1"
        )
    if (found := secret_in(api_base)) is not None:
        raise JudgeSetupError(found, where="judge.api_base", remedy=remedy_for("judge.api_base"))
