"""The way to a simulated judge: a function call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.config import SIMULATED, JudgeConfig, RunnerConfig
from evalkit.errors import CallError, JudgeSetupError
from evalkit.judges import setup
from evalkit.judges.ladder import Shape
from evalkit.judges.model_judge import Reply
from evalkit.judges.responses import Answer
from evalkit.judges.simulated import answer


class SimulatedTransport:
    """Answers `simulated/…` models in the process: no network, no key, no cost.

    Args:
        config: the judge's own config, not a panel's.
        _: a runner's settings, which a call that takes no time has no use for.
    """

    def __init__(self, config: JudgeConfig, _: RunnerConfig) -> None:
        self.config, self._model = config, config.model or ""

    async def open(self, judge: str) -> tuple[setup.Target, Shape]:
        """Check what no simulated judge can do.

        Raises:
            JudgeSetupError: if log-probabilities or a rung without a schema are asked for.
        """
        rung = self.config.response_format
        if rung in ("json_object", "text"):
            raise JudgeSetupError(
                f"judge {judge}: {self._model} writes JSON by a schema only",
                where="judge.response_format",
                remedy="set judge.response_format=auto; for plain text, output=bracket",
            )
        if self.config.logprobs is True:
            raise JudgeSetupError(
                f"judge {judge}: {self._model} gives no log-probabilities",
                where="judge.logprobs",
                remedy="set judge.logprobs=false",
            )
        where = setup.Target(self._model, self._model.removeprefix(SIMULATED), "simulated", None)
        return where, Shape("tool" if rung == "tool" else "json_schema", frozenset({"logprobs", "top_logprobs"}))

    async def send(self, where: setup.Target, call: Mapping[str, Any]) -> Reply:
        """Answer one call.

        Raises:
            CallError: if no response is marked in the prompt.
        """
        text = answer(where.model, call)
        if text is None:
            message = "simulated judges find responses by the markers of the shipped templates; this prompt has none"
            raise CallError("bad_response", message, retryable=False)
        return Reply(Answer(text, model=where.model), 0.0)

    def entry(self) -> Mapping[str, Any]:
        """Return nothing: no price list has it."""
        return {}

    async def close(self) -> None:
        """Do nothing."""
