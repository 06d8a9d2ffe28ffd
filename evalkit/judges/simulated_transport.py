"""Call a simulated judge, which is a function."""

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
        config: The config of one judge, not of a panel.
        _: The runner's settings, which a call within the process does not need.
    """

    def __init__(self, config: JudgeConfig, _: RunnerConfig) -> None:
        self.config, self._model = config, config.model or ""

    async def open(self, judge: str) -> tuple[setup.Target, Shape]:
        """Refuse settings that simulated judges do not support; return the target and the shape of the first request.

        Raises:
            JudgeSetupError: If log-probabilities or a rung without a schema are requested.
        """
        rung = self.config.response_format
        if rung in ("json_object", "text"):
            raise JudgeSetupError(
                f"judge {judge}: {self._model} answers only with a JSON schema or a tool call",
                where="judge.response_format",
                remedy="set judge.response_format=auto; for plain text, output=bracket",
            )
        if self.config.logprobs is True:
            raise JudgeSetupError(
                f"judge {judge}: {self._model} does not return log-probabilities",
                where="judge.logprobs",
                remedy="set judge.logprobs=false",
            )
        target = setup.Target(self._model, self._model.removeprefix(SIMULATED), "simulated", None)
        return target, Shape("tool" if rung == "tool" else "json_schema", frozenset({"logprobs", "top_logprobs"}))

    async def send(self, target: setup.Target, call: Mapping[str, Any]) -> Reply:
        """Answer one call.

        Raises:
            CallError: If the prompt does not mark any response.
        """
        text = answer(target.model, call)
        if text is None:
            message = "this prompt has no response markers; simulated judges need those of the shipped templates"
            raise CallError("bad_response", message, retryable=False)
        return Reply(Answer(text, model=target.model), 0.0)

    def entry(self) -> Mapping[str, Any]:
        """Return nothing: no price list has simulated judges."""
        return {}

    async def close(self) -> None:
        """Do nothing."""
