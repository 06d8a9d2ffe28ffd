"""HalluQA: systems' answers, a file each, and whether the judge found each a hallucination: 0 if it did, 1 if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evalkit.datasets.named.truth import QUESTIONS_FILE, best_answers, models_of
from evalkit.interop.files import Peek, load_json, peek, require, rows_of, sibling_file
from evalkit.interop.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record

_SAID = {"true": 0.0, "false": 1.0}


def sniff(start: Peek) -> bool:
    """Say whether its rows are answers that were judged, in a folder those of some file beside the questions."""
    if QUESTIONS_FILE in start.names:
        others = (file for file in sorted(start.path.glob("*.json*")) if file.name != QUESTIONS_FILE)
        start = next((peek(file) for file in others), start)
    return start.has("question", "response", "is_hallucination")


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each answer, its system named by its file; categories come from HalluQA.json beside it."""
    kinds = _categories(path)
    judge = options.judge or "gpt-4"
    placed = [(Path(place.rpartition(":")[0]), place, row) for place, row in rows_of(path)]
    models = models_of({file for file, _, _ in placed if file.name != QUESTIONS_FILE})
    records = []
    for file, place, row in placed:
        if file not in models:
            continue
        verdict = str(require(row, "is_hallucination", place))
        score = _SAID.get(verdict.lower())
        said = (
            RecordedJudgment(judge, scores={"not_hallucinated": score})
            if score is not None
            else missing_record(judge, verdict)
        )
        name = str(require(row, "question_id", place))
        references = best_answers(row)
        answer = Answer(models[file], str(require(row, "response", place)), models[file])
        metadata = {"Category": kinds[name]} if name in kinds else {}
        reference = "\n".join(references) or None
        records.append(
            Record(name, str(require(row, "question", place)), (answer,), said, reference=reference, metadata=metadata)
        )
    return ParsedFile(records, scale=(0.0, 1.0, 1.0), benchmark="halluqa")


def _categories(path: Path) -> dict[str, Any]:
    file = sibling_file(path, QUESTIONS_FILE)
    rows = load_json(file) if file is not None else []
    return {str(row.get("question_id")): row.get("Category") for row in rows}
