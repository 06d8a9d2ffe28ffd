"""Import the results of an Anthropic message batch: answers by `custom_id`, for the
cases of a dataset.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_at
from evalkit.interop.importers.openai_batch import read_batch
from evalkit.interop.layouts.judgment_files import Peek
from evalkit.interop.layouts.records import ImportedJudgments, Importer, Options

_STOPS: Final = {"max_tokens": "length", "refusal": "content_filter"}
"""Reasons to stop that mean something else than the end of the answer."""
_KINDS: Final = ("succeeded", "errored", "canceled", "expired")


def _sniff(start: Peek) -> bool:
    result = start.row.get("result")
    return (
        start.has("custom_id")
        and isinstance(result, Mapping)
        and result.get("type") in _KINDS
    )


def _read_records(path: Path, options: Options) -> ImportedJudgments:
    """Return a judgment for each answer of a batch; its text is not yet read."""
    return read_batch(path, options, "anthropic_batch", as_completion)


def as_completion(row: Json) -> Json:
    """Return a row of OpenAI's layout: thinking is no part of an answer."""
    result = mapping_at(row, "result")
    message = result.get("message")
    if not isinstance(message, Mapping):
        error: Any = result.get("error")
        while isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
            error = error["error"]
        return {**row, "error": error or str(result.get("type") or "no answer")}
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    text = "".join(
        str(part.get("text") or "")
        for part in parts
        if isinstance(part, Mapping) and part.get("type") == "text"
    )
    stop = str(message.get("stop_reason") or "end_turn")
    body: JsonObject = {
        "model": message.get("model"),
        "choices": [
            {"message": {"content": text}, "finish_reason": _STOPS.get(stop, "stop")}
        ],
        "usage": message.get("usage"),
    }
    return {"custom_id": row.get("custom_id"), "response": {"body": body}}


IMPORTER: Final = Importer(
    "anthropic_batch",
    "the results of an Anthropic message batch for the cases in dataset.path",
    _sniff,
    _read_records,
    needs_cases=True,
)
