"""What the writers of logs share: served models whose answers depend on the request, and the rows of answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from tests.support.fake_provider import Reply, said, serving

Values = dict[str, list[dict[str, Any]]]
"""The samples of each log."""


def pick(text: str, *values: Any) -> Any:
    """Return one of the values, always the same for a text."""
    return values[int(sha256(text.encode()).hexdigest(), 16) % len(values)]


def spoken(body: Mapping[str, Any]) -> str:
    """Return what a request asks: its last message and the model."""
    return f"{body['model']} {json.dumps(body['messages'][-1]['content'])}"


@contextmanager
def models(judge: Callable[[str], Reply]) -> Iterator[str]:
    """Serve models: those named `judge-…` grade as given, others answer.

    A repeated question has another answer.
    """
    asked: Counter[str] = Counter()

    def rule(body: dict[str, Any]) -> Reply:
        text = spoken(body)
        if body["model"].startswith("judge"):
            return judge(text)
        if body.get("tools") and body["messages"][-1]["role"] != "tool":
            call = {"name": body["tools"][0]["function"]["name"], "arguments": '{"x": 20, "y": 22}'}
            return said(
                None,
                finish="tool_calls",
                tool_calls=[{"id": "c1", "type": "function", "function": call}],
            )
        asked[text] += 1
        return said(
            f"It is {pick(text, 2, 4, 6, 8)}, says {body['model']} in answer {asked[text]}."
        )

    with serving() as server:
        server.rule = rule
        yield server.api_base


def sample(
    id_: Any, prompt: str, answer: str | None, model: str | None, **more: Any
) -> dict[str, Any]:
    """Return the row of an answer."""
    row = {
        "id": str(id_),
        "prompt": prompt,
        "answer": answer,
        "model": model,
        "reference": None,
        "metadata": {},
    }
    return {**row, "judges": {}, "reasons": {}, "labels": {}, **more}
