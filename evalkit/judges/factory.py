"""Create judges from a config."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from evalkit.config import JudgeConfig, RunConfig, RunnerConfig
from evalkit.judges import setup
from evalkit.judges.model_judge import ModelJudge
from evalkit.judges.responses import priced
from evalkit.judges.simulated_transport import SimulatedTransport
from evalkit.judges.specs import TRANSPORTS, max_concurrency, spec_of
from evalkit.plugins import JUDGES, construct, find
from evalkit.protocols import Judge
from evalkit.types import Completion, JudgeRequest, JudgeSpec

_KEY = "judge.transport"
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
        self.concurrency, self.rpm, self.tpm = max_concurrency(config), config.rpm, config.tpm

    @property
    def rest(self) -> float:
        """Seconds until its provider accepts more calls."""
        return float(getattr(self._inner, "rest", 0.0))

    async def prepare(self) -> None:
        """Let the judge prepare itself before the first call."""
        if (prepare := getattr(self._inner, "prepare", None)) is not None:
            await prepare()

    def ceiling(self, request: JudgeRequest) -> float | None:
        """Return the most that one call can cost in USD, by `judge.price` or by the judge itself; `None` if unknown."""
        if self._config.price is None and (ceiling := getattr(self._inner, "ceiling", None)) is not None:
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


def make_judges(config: JudgeConfig, runner: RunnerConfig) -> tuple[Judge, ...]:
    """Create the judge, or each judge of a panel; heavy packages are imported by the first call.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
        PluginError: If `judge.transport` names a plug-in that cannot be used.
    """
    return tuple(
        _make_judge(member, spec, runner) for member, spec in zip(config.members, spec_of(config), strict=True)
    )


def _make_judge(member: JudgeConfig, spec: JudgeSpec, runner: RunnerConfig) -> Judge:
    """Create one judge: `ModelJudge` over a transport, or a custom judge."""
    if member.simulated:
        return ModelJudge(member, spec, SimulatedTransport(member, runner))
    name = member.transport
    made = construct(
        find(JUDGES, name, TRANSPORTS, where=_KEY, methods=_METHODS), member, runner, name=name, where=_KEY
    )
    return CustomJudge(made, member, spec) if hasattr(made, "complete") else ModelJudge(member, spec, made)


def make_arbiter(config: RunConfig) -> Judge | None:
    """Create the judge of the third pass, or return `None` if the config has no third pass.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
    """
    arbiter = _arbiter(config)
    return None if arbiter is None else make_judges(arbiter, config.runner)[0]


def describe_rewriter(config: RunConfig) -> dict[str, Any] | None:
    """Describe the model of `probe.rewriter` for a run's manifest; `None` if there is none.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
    """
    rewriter = config.probe.rewriter
    return None if rewriter is None else _described(rewriter)[0]


def describe_judges(config: RunConfig) -> list[dict[str, Any]]:
    """Describe the judges for a run's manifest, the arbiter last.

    Raises:
        JudgeSetupError: If the config describes an impossible judge.
    """
    arbiter = _arbiter(config)
    arbiters = [] if arbiter is None else _described(arbiter)
    return _described(config.judge) + [{**one, "arbiter": True} for one in arbiters]


def _described(config: JudgeConfig) -> list[dict[str, Any]]:
    return [{"name": s.name, "model": s.model, "api_base": s.api_base} for s in spec_of(config)]


def _arbiter(config: RunConfig) -> JudgeConfig | None:
    swap = config.swap
    return swap.arbiter if swap.policy == "both" and swap.resolve == "third_pass" else None
