"""A server that answers as vLLM 0.18 documents `/classify`, `/pooling`, `/score`, `/tokenize` and `/v1/models`.

See https://docs.vllm.ai/en/v0.18.0/models/pooling_models/ and
vllm/entrypoints/pooling/*/protocol.py. Rewards are of the test's own making: a function of the
prompt and the response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_provider import Provider, Reply

MODEL = "acme/reward-1b"
NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the "
    "tokenizer does not define one."
)


def stated_quality(_prompt: str, response: str) -> float:
    """Return the number that a response states, so that a test knows the reward."""
    found = re.search(r"quality=(-?[\d.]+)", response)
    return float(found[1]) if found else 0.0


@dataclass
class RewardServer:
    """How the server behaves; `install` adds its routes to a provider.

    Attributes:
        reward: The reward of a response to a prompt.
        answers: What is answered instead of one reward, such as two probabilities.
        endpoints: The endpoints that the model supports.
        has_template: Whether the tokenizer has a chat template.
        context: The context length in tokens (words, here); `None` if `/v1/models` does not report
            it.
        tokenizes: Whether there is a `/tokenize`.
        truncates: Whether longer texts are cut off instead of refused.
    """

    reward: Callable[[str, str], Any] = stated_quality
    answers: Callable[[float], list[Any]] = field(default=lambda reward: [reward])
    endpoints: Sequence[str] = ("classify", "pooling", "score")
    has_template: bool = True
    context: int | None = 4096
    tokenizes: bool = True
    truncates: bool = False
    labels: Sequence[str] = ("LABEL_0", "LABEL_1")

    def install(self, provider: Provider) -> Provider:
        provider.routes = {
            "/v1/models": lambda _: Reply(
                {"object": "list", "data": [{"id": MODEL, "max_model_len": self.context}]}
            ),
            **{f"/{name}": getattr(self, name) for name in self.endpoints},
            **({"/tokenize": self.tokenize} if self.tokenizes else {}),
            "/v1/chat/completions": lambda body: provider.rule(body),
            "/v1/completions": lambda body: provider.rule(body),
        }
        return provider

    def tokenize(self, body: dict[str, Any]) -> Reply:
        text = body.get("prompt") or " ".join(message["content"] for message in body["messages"])
        return Reply({"count": len(text.split()), "max_model_len": self.context, "tokens": []})

    def classify(self, body: dict[str, Any]) -> Reply:
        def entry(values: list[Any]) -> dict[str, Any]:
            best = max(range(len(values)), key=lambda n: values[n] or 0)
            return {
                "index": 0,
                "label": self.labels[best],
                "probs": values,
                "num_classes": len(values),
            }

        return self._answer(body, entry)

    def pooling(self, body: dict[str, Any]) -> Reply:
        return self._answer(body, lambda values: {"index": 0, "object": "pooling", "data": values})

    def score(self, body: dict[str, Any]) -> Reply:
        texts = {"messages": [{"content": body["text_1"]}, {"content": body["text_2"]}]}
        return self._answer(
            texts, lambda values: {"index": 0, "object": "score", "score": values[0]}
        )

    def _answer(self, body: dict[str, Any], entry: Callable[[list[Any]], dict[str, Any]]) -> Reply:
        if "messages" in body and "model" in body and not self.has_template:
            return self._refused(NO_TEMPLATE)
        texts = (
            [message["content"] for message in body["messages"]]
            if "messages" in body
            else ["", body["input"]]
        )
        tokens = sum(len(text.split()) for text in texts)
        if self.context is not None and tokens > self.context:
            if not self.truncates:
                return self._refused(
                    f"This model's maximum context length is {self.context} tokens. However, you requested {tokens} "
                    "tokens in the input for classification. Please reduce the length of the input."
                )
            tokens = self.context
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        values = self.answers(self.reward(*texts))
        data = [entry(values)]
        return Reply(
            {
                "id": "x",
                "object": "list",
                "created": 1,
                "model": MODEL,
                "data": data,
                "usage": usage,
            }
        )

    def _refused(self, message: str) -> Reply:
        return Reply(
            {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}},
            400,
        )
