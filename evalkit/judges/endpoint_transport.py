"""Call endpoints other than chat completions: the completion of a text, or the reward
or label of a conversation.

The endpoints are those of vLLM 0.18 (`/v1/completions`, `/classify`, `/pooling` and `/score`).
SGLang has `/v1/classify` in the same format; TEI has `/predict` and `/rerank`, which are tried
last.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

from evalkit.config import JudgeConfig, RunnerConfig
from evalkit.core.errors import CallError
from evalkit.core.values import Json, JsonObject
from evalkit.judges import context, setup
from evalkit.judges.adaptations import LIMITS, Shape
from evalkit.judges.decision_protocol import decided, request_fields
from evalkit.judges.direct_transport import DirectTransport
from evalkit.judges.model_judge import ProviderReply
from evalkit.judges.responses import answer_in, completed_text, rewards_in

_NOT_FOUND = 404
_PATHS = MappingProxyType(
    {
        "completion": ("completions",),
        "classify": ("classify", "predict"),
        "pooling": ("pooling",),
        "score": ("score", "rerank"),
        "systemone": ("v1/systemone",),
        "decisions": ("v1/decisions",),
    }
)


class EndpointTransport(DirectTransport):
    """Posts to `judge.endpoint` below `judge.api_base`, with or without its `/v1`,
    whichever exists.

    Args:
        config: The config of one judge, not of a panel.
        runner: Provides the timeout of one call, in seconds.

    Raises:
        JudgeSetupError: If the config has no `api_base`.
    """

    def __init__(self, config: JudgeConfig, runner: RunnerConfig) -> None:
        super().__init__(config, runner)
        root = self._base.removesuffix("/v1")
        # The paths of decisions begin with `v1` themselves.
        bases = [self._base, root]
        if config.decides:
            bases = [root]
        self._urls = [
            f"{base}/{path}"
            for path in _PATHS[config.endpoint]
            for base in dict.fromkeys(bases)
        ]

    async def open(
        self, judge: str, *, check: bool = True
    ) -> tuple[setup.Target, Shape]:
        """Check the server, unless `check` is false; return the target and the shape:
        text, or questions.

        Raises:
            JudgeSetupError: If the server does not accept connections.
        """
        target, _ = await super().open(judge, check=check)
        if self._asking is not None:
            await self._asking  # such a server may cut a text instead
        return target, Shape("json_schema" if self.config.decides else "text")

    async def send(self, target: setup.Target, call: Json) -> ProviderReply:
        """Send one call to the first address that exists, and return the reply.

        An address whose status is 404 is not tried again in this run.

        Raises:
            CallError: If the call fails, or the server read only a part of the text.
        """
        while True:
            url = self._urls[0]
            status, content, headers = await self._post(
                url, self._endpoint_body(url, target, call)
            )
            # A server also answers 404 for a model that it does not have.
            is_absent = status == _NOT_FOUND and b"model" not in content
            if not is_absent or url == self._urls[-1]:
                break
            if url == self._urls[0]:  # another call may have removed it
                del self._urls[0]
        read = rewards_in if self.config.rewards else completed_text
        if self.config.decides:
            read = partial(decided, call=call)
        answer = answer_in(status, content, headers, read)
        room = context.room(self.config, self._entry, self.context)
        tokens = answer.usage.prompt_tokens
        if (
            self.config.rewards
            and room is not None
            and tokens is not None
            and tokens >= room
        ):
            message = (
                f"the server read {tokens:,} tokens, which is all that fits: it may have cut off"
                " the rest"
            )
            raise CallError("too_long", message, retryable=False)
        return self._reply(target, call, answer, headers)

    def _endpoint_body(self, url: str, target: setup.Target, call: Json) -> JsonObject:
        """Return the body of a call in the format of the endpoint at `url`.

        The last message has the text to judge; the earlier ones are the query. TEI's endpoints
        take no name of a model. A last message with the role `TEXT` is sent as it is, without a
        chat template.
        """
        if self.config.decides:
            unsent = ("messages", "response_format")
            params = {name: value for name, value in call.items() if name not in unsent}
            fields = request_fields(self.config.endpoint, call)
            return {"model": target.name, **fields, **params}
        unsent = ("messages", *(LIMITS if self.config.rewards else ()))
        settings = {name: value for name, value in call.items() if name not in unsent}
        *before, last = [message["content"] for message in call["messages"]]
        query = "\n\n".join(before)
        tei = {"raw_scores": True, "truncate": False}
        raw = call["messages"][-1]["role"] == context.TEXT
        texts: JsonObject = {
            "completions": {"prompt": "\n\n".join([*before, last])},
            "score": {"text_1": query, "text_2": last},
            "predict": {"inputs": last if raw else [query, last], **tei},
            "rerank": {"query": query, "texts": [last], **tei},
        }
        path = url.rpartition("/")[2]
        content = {"input": last} if raw else {"messages": call["messages"]}
        named = {} if path in ("predict", "rerank") else {"model": target.name}
        return {**named, **texts.get(path, content), **settings}
