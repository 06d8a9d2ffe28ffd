"""Call endpoints other than chat completions: the completion of a text, or the reward or label of a conversation.

The endpoints are those of vLLM 0.18 (`/v1/completions`, `/classify`, `/pooling` and `/score`). SGLang has
`/v1/classify` in the same format; TEI has `/predict` and `/rerank`, which are tried last.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.errors import CallError
from evalkit.judges import context, setup
from evalkit.judges.direct_transport import DirectTransport
from evalkit.judges.model_judge import Reply
from evalkit.judges.responses import answer_in, completed_text, rewards_in
from evalkit.judges.setup import LIMITS, Shape

_OF_TEI = MappingProxyType({"classify": "predict", "score": "rerank"})


class EndpointTransport(DirectTransport):
    """Posts to `judge.endpoint` below `judge.api_base`, with or without its `/v1`, whichever exists.

    Args:
        config: The config of one judge, not of a panel.
        runner: Provides the timeout of one call, in seconds.

    Raises:
        JudgeSetupError: If the config has no `api_base`.
    """

    def __init__(self, config: JudgeConfig, runner: RunnerConfig) -> None:
        super().__init__(config, runner)
        name, root = config.endpoint, self._base.removesuffix("/v1")
        path = "completions" if name == "completion" else name
        self._urls = list(dict.fromkeys([f"{self._base}/{path}", f"{root}/{path}"]))
        self._urls += [f"{root}/{_OF_TEI[name]}"] if name in _OF_TEI else []

    async def open(self, judge: str, *, check: bool = True) -> tuple[setup.Target, Shape]:
        """Check the server, unless `check` is false; return the target and the shape, which is always text.

        Raises:
            JudgeSetupError: If the server does not accept connections.
        """
        target, _ = await super().open(judge, check=check)
        return target, Shape("text")

    async def send(self, target: setup.Target, call: Mapping[str, Any]) -> Reply:
        """Send one call to the first address that exists, and return the reply.

        Raises:
            CallError: If the call fails, or the server read only a part of the text.
        """
        while True:
            url = self._urls[0]
            status, content, headers = await self._post(url, self._endpoint_body(url, target, call))
            if status != 404 or b"model" in content or url == self._urls[-1]:
                break
            if url == self._urls[0]:  # another call may have removed it
                del self._urls[0]
        read = rewards_in if self.config.rewards else completed_text
        answer = answer_in(status, content, headers, read)
        room, tokens = context.room(self.config, self._entry, self._served), answer.usage.prompt_tokens
        if self.config.rewards and room is not None and tokens is not None and tokens >= room:
            message = f"the server read {tokens:,} tokens, which is all that fits: it may have cut off the rest"
            raise CallError("too_long", message, retryable=False)
        return self._reply(target, call, answer, headers)

    def _endpoint_body(self, url: str, target: setup.Target, call: Mapping[str, Any]) -> dict[str, Any]:
        settings = {name: value for name, value in call.items() if name != "messages"}
        settings |= settings.pop("extra_body", None) or {}
        messages = call["messages"]
        *before, last = [message["content"] for message in messages]
        if self.config.endpoint == "completion":
            return {"model": target.name, "prompt": "\n\n".join([*before, last]), **settings}
        asked = "\n\n".join(before)
        if url.endswith("/predict"):
            inputs = [asked, last] if before else last
            return {"inputs": inputs, "raw_scores": True, "truncate": False}
        if url.endswith("/rerank"):
            return {"query": asked, "texts": [last], "raw_scores": True, "truncate": False}
        settings = {name: value for name, value in settings.items() if name not in LIMITS}
        if self.config.endpoint == "score":
            texts = {"text_1": asked, "text_2": last}
        else:
            texts = {"input": last} if messages[0]["role"] == context.TEXT else {"messages": messages}
        return {"model": target.name, **texts, **settings}
