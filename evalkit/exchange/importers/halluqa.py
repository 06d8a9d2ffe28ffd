"""HalluQA: a system's answers and whether the judge found each a hallucination: 0 if it did, 1 if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evalkit.exchange.files import Peek, beside, load_json, need, rows_of
from evalkit.exchange.records import Answer, Found, Options, Record, Said, lost

_SAID = {"true": 0.0, "false": 1.0}


def sniff(start: Peek) -> bool:
    """Say whether its rows are answers that were judged."""
    return start.has("question", "response", "is_hallucination")


def read(path: Path, options: Options) -> Found:
    """Return a record for each answer; the questions' categories come from HalluQA.json beside it."""
    kinds = _categories(path)
    judge = options.judge or "gpt-4"
    records = []
    for place, row in rows_of(path):
        verdict = str(need(row, "is_hallucination", place))
        score = _SAID.get(verdict.lower())
        said = Said(judge, scores={"not_hallucinated": score}) if score is not None else lost(judge, verdict)
        name = str(need(row, "question_id", place))
        references = [str(row[key]) for key in sorted(row) if key.startswith("Best_Answer") and row[key]]
        answer = Answer(path.stem, str(row["response"]), path.stem)
        metadata = {"Category": kinds[name]} if name in kinds else {}
        reference = "\n".join(references) or None
        records.append(Record(name, str(row["question"]), (answer,), said, reference=reference, metadata=metadata))
    return Found(records, scale=(0.0, 1.0, 1.0), benchmark="halluqa")


def _categories(path: Path) -> dict[str, Any]:
    file = beside(path, "HalluQA.json")
    rows = load_json(file) if file is not None else []
    return {str(row.get("question_id")): row.get("Category") for row in rows}
