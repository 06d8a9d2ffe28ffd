"""From config to judges that can be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evalkit.config import JudgeConfig, RunConfig, RunnerConfig
from evalkit.judges.direct_transport import DirectTransport
from evalkit.judges.litellm_transport import LiteLLMTransport
from evalkit.judges.model_judge import ModelJudge, Transport
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
        ModelJudge(member, spec, _TRANSPORTS[member.transport](member, runner))
        for member, spec in zip(config.members, spec_of(config), strict=True)
    )


def make_arbiter(config: RunConfig) -> Judge | None:
    """Make the judge that gives third judgments, or return none where no third pass asks for one.

    Raises:
        JudgeSetupError: if the config describes a judge that cannot be.
    """
    swap = config.swap
    if swap.arbiter is None or swap.policy != "both" or swap.resolve != "third_pass":
        return None
    return make_judges(swap.arbiter, config.runner)[0]
