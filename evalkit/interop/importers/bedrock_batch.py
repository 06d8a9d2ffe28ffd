"""Import the results of a Bedrock batch: answers by `recordId`, for the cases of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json
from evalkit.interop.importers.anthropic_batch import as_completion
from evalkit.interop.importers.openai_batch import read_batch
from evalkit.interop.layouts.judgment_files import Peek
from evalkit.interop.layouts.records import ImportedJudgments, Importer, Options


def _sniff(start: Peek) -> bool:
    return start.has("recordId") and (
        "modelOutput" in start.row or "error" in start.row
    )


def _read_records(path: Path, options: Options) -> ImportedJudgments:
    """Return a judgment for each answer of a batch; its text is not yet read."""
    return read_batch(path, options, "bedrock_batch", _as_completion)


def _as_completion(row: Json) -> Json:
    """Return a row of OpenAI's layout; models other than Claude nest their message."""
    output: Any = row.get("modelOutput")
    message = output
    inner = output.get("output") if isinstance(output, Mapping) else None
    if isinstance(inner, Mapping) and isinstance(inner.get("message"), Mapping):
        content = inner["message"].get("content")
        parts = content if isinstance(content, list) else []
        message = {
            **output,
            "content": [
                {"type": "text", **part} for part in parts if isinstance(part, Mapping)
            ],
            "stop_reason": output.get("stopReason"),
        }
    placed = {"custom_id": row.get("recordId")}
    if not isinstance(message, Mapping):
        return {**placed, "error": row.get("error") or "no answer"}
    return as_completion({**placed, "result": {"message": message}})


IMPORTER: Final = Importer(
    "bedrock_batch",
    "the results of a Bedrock batch for the cases in dataset.path",
    _sniff,
    _read_records,
    needs_cases=True,
)
