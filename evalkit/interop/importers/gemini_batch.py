"""Import the results of a Gemini batch: answers by `key`, for the cases of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from evalkit.core.values import Json, JsonObject, mapping_at, mapping_of
from evalkit.interop.importers.openai_batch import read_batch
from evalkit.interop.layouts.judgment_files import Peek
from evalkit.interop.layouts.records import ImportedJudgments, Importer, Options

_STOPS: Final = {"STOP": "stop", "MAX_TOKENS": "length"}


def _sniff(start: Peek) -> bool:
    response = start.row.get("response")
    answered = isinstance(response, Mapping) and "candidates" in response
    return ("key" in start.row or "request" in start.row) and answered


def _read_records(path: Path, options: Options) -> ImportedJudgments:
    """Return a judgment for each answer of a batch; its text is not yet read."""
    return read_batch(path, options, "gemini_batch", _as_completion)


def _as_completion(row: Json) -> Json:
    """Return a row of OpenAI's layout; a key can also be a label of the request."""
    request = row.get("request")
    labels = request.get("labels") if isinstance(request, Mapping) else None
    named = labels.get("custom_id") if isinstance(labels, Mapping) else None
    label = row.get("custom_id", named)
    placed: JsonObject = {"custom_id": row.get("key", label)}
    response = row.get("response")
    candidates = response.get("candidates") if isinstance(response, Mapping) else None
    if not isinstance(response, Mapping) or not isinstance(candidates, list):
        error = row.get("error") or row.get("status") or "no answer"
        return {**placed, "error": error}
    choices = []
    for candidate in candidates:
        content = mapping_of(candidate).get("content")
        parts = content.get("parts") if isinstance(content, Mapping) else None
        text = "".join(
            str(part.get("text") or "")
            for part in (parts if isinstance(parts, list) else [])
            if isinstance(part, Mapping) and not part.get("thought")
        )
        finish = str(candidate.get("finishReason") or "STOP")
        reason = _STOPS.get(finish, "content_filter")
        choices.append({"message": {"content": text}, "finish_reason": reason})
    usage = mapping_at(response, "usageMetadata")
    body: JsonObject = {
        "model": response.get("modelVersion"),
        "choices": choices,
        "usage": {
            "prompt_tokens": usage.get("promptTokenCount"),
            "completion_tokens": usage.get("candidatesTokenCount"),
        },
    }
    return {**placed, "response": {"body": body}}


IMPORTER: Final = Importer(
    "gemini_batch",
    "the results of a Gemini or Vertex batch with keys for the cases in dataset.path",
    _sniff,
    _read_records,
    needs_cases=True,
)
