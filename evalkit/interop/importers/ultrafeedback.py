"""Import UltraFeedback: a model's ratings of several completions by aspect, without
human labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, Assessment, assessment
from evalkit.interop.layouts.judgment_files import Peek, rows_of, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_JUDGE: Final = "gpt-4"
"""The annotator of the published files, which do not name it."""


def _sniff(start: Peek) -> bool:
    completions = start.row.get("completions")
    if "instruction" not in start.row or not isinstance(completions, list):
        return False
    return bool(completions) and all(
        isinstance(item, Mapping) and "annotations" in item for item in completions
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each completion, with its ratings as criteria."""
    units = [
        Assessed(
            {
                "id": f"{row.get('source') or 'row'} {index}",
                "prompt": text(row.get("instruction")),
                "response": text(completion.get("response")),
                "model": completion.get("model"),
                "metadata": {"source": row.get("source")},
            },
            tuple(_ratings(completion)),
        )
        for index, (_, row) in enumerate(rows_of(path))
        for completion in _completions(row)
    ]
    return read_assessed(path, units, options)


def _completions(row: Json) -> list[Json]:
    listed = row.get("completions")
    parts = listed if isinstance(listed, list) else []
    return [part for part in parts if isinstance(part, Mapping)]


def _ratings(completion: Json) -> Iterator[Assessment]:
    annotations = completion.get("annotations")
    for aspect, rating in (
        annotations.items() if isinstance(annotations, Mapping) else ()
    ):
        entries: Any = rating[0] if isinstance(rating, list) and rating else rating
        if isinstance(entries, Mapping):
            reason = entries.get("Rationale")
            value = entries.get("Rating")
            yield assessment(aspect, _JUDGE, JUDGE, value, reason=reason)


IMPORTER: Final = Importer(
    "ultrafeedback",
    "UltraFeedback: ratings of completions by a model",
    _sniff,
    _read_records,
    is_log=True,
)
