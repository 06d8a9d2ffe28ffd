"""A judge: it gives the answer that its model is named by, to everything."""

from __future__ import annotations

import asyncio

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError
from evalkit.core.types import Completion, JudgeRequest, Usage


class Echo:
    """Answer `-> A` to everything if the model is echo/A; fail if it is echo/broken."""

    def __init__(self, config: JudgeConfig, runner: RunnerConfig) -> None:
        self._answer = (config.model or "").rpartition("/")[2]

    async def complete(self, request: JudgeRequest) -> Completion:
        """Answer one request."""
        await asyncio.sleep(0)
        if self._answer == "broken":
            raise CallError("server", "it is broken", retryable=False)
        words = sum(len(message["content"].split()) for message in request.messages)
        return Completion(f"-> {self._answer}", model=f"echo/{self._answer}", usage=Usage(words, 2))

    async def close(self) -> None:
        """Do nothing: there is no connection."""
