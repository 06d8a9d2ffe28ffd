"""From config to judges that can be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evalkit.config import JudgeConfig, RunConfig, RunnerConfig
from evalkit.judges.direct_transport import DirectTransport
from evalkit.judges.litellm_transport import LiteLLMTransport
from evalkit.judges.model_judge import ModelJudge, Transport
from evalkit.judges.simulated_transport import SimulatedTransport
from evalkit.judges.specs import spec_of
from evalkit.protocols import Judge

_TRANSPORTS: Mapping[str, Callable[[JudgeConfig, RunnerConfig], Transport]] = {
    "litellm": LiteLLMTransport,
    "direct": DirectTransport,
}


def make_judges(config: JudgeConfig, runner: RunnerConfig) -> tuple[Judge, ...]:
    """Make the judge, or each judge of a panel; nothing heavy is imported before the first call.

    Raises:
        JudgeSetupError: if the config describes a judge that cannot be.
    """
    return tuple(
        ModelJudge(member, spec, _transport(member, runner))
        for member, spec in zip(config.members, spec_of(config), strict=True)
    )


def _transport(member: JudgeConfig, runner: RunnerConfig) -> Transport:
    if member.simulated:
        return SimulatedTransport(member, runner)
    return _TRANSPORTS[member.transport](member, runner)


def make_arbiter(config: RunConfig) -> Judge | None:
    """Make the judge that gives third judgments, or return none where no third pass asks for one.

    Raises:
        JudgeSetupError: if the config describes a judge that cannot be.
    """
    arbiter = _arbiter(config)
    return None if arbiter is None else make_judges(arbiter, config.runner)[0]


def describe_judges(config: RunConfig) -> list[dict[str, Any]]:
    """Return what a run's manifest says of its judges, the arbiter last.

    Raises:
        JudgeSetupError: if the config describes a judge that cannot be.
    """
    arbiter = _arbiter(config)
    told = [{"name": s.name, "model": s.model, "api_base": s.api_base} for s in spec_of(config.judge)]
    further = () if arbiter is None else spec_of(arbiter)
    return told + [{"name": s.name, "model": s.model, "api_base": s.api_base, "arbiter": True} for s in further]


def _arbiter(config: RunConfig) -> JudgeConfig | None:
    swap = config.swap
    return swap.arbiter if swap.policy == "both" and swap.resolve == "third_pass" else None
