"""Prometheus' evaluation data: an instruction that holds task, response, reference and rubric, and repeated scores.

Scores are GPT-4's, or Prometheus' own where the rows have them: GPT-4's mean is then the grade that they are held
against.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit.datasets.named.graded import rubric_as_context
from evalkit.interop.files import Peek, number, require, rows_of
from evalkit.interop.records import Answer, NumberedNames, Options, ParsedFile, Record, RecordedJudgment, missing_record

_PARTS = {
    "prompt": "The instruction to evaluate",
    "response": "Response to evaluate",
    "reference": "Reference Answer",
    "rubric": "Score Rubrics?",
}


_SCORES, _WORDS = ("prometheus_score", "gpt4_score"), ("prometheus_output", "gpt4_feedback")
_JUDGES = ("prometheus", "gpt-4")


def sniff(start: Peek) -> bool:
    """Say whether its rows have an instruction and scores."""
    return start.has("instruction") and any(name in start.row for name in _SCORES)


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each repeat of each response's score."""
    numbers = NumberedNames()
    records = [
        record
        for index, (place, row) in enumerate(rows_of(path))
        for record in _records(row, index, place, options.judge, numbers)
    ]
    ungraded = all(record.shown[0].grade is None for record in records)
    notes = ("the scores are GPT-4's own: there is no other grade to hold them against",) if ungraded else ()
    return ParsedFile(records, scale=(1.0, 5.0, 1.0), benchmark="prometheus", notes=notes)


def _records(
    row: Mapping[str, Any], index: int, place: str, named: str | None, numbers: NumberedNames
) -> Iterator[Record]:
    parts = _split(str(require(row, "instruction", place)))
    asked = [parts.get(name, "") for name in ("prompt", "rubric", "reference")]
    own = int(_SCORES[0] not in row)
    judge = named or _JUDGES[own]
    scores, words = _listed(require(row, _SCORES[own], place)), _listed(row.get(_WORDS[own]))
    system = row.get("response_source")
    grade = None if own else _mean(_listed(row.get(_SCORES[1])))
    answer = Answer(str(system or index), parts.get("response", ""), None if system is None else str(system), grade)
    for sample, score in enumerate(scores or [None]):
        value, text = number(score), str(words[sample]) if sample < len(words) else None
        said = (
            RecordedJudgment(judge, scores={"quality": value}, text=text, sample=sample)
            if value is not None
            else missing_record(judge, f"score is {score}", text=text, sample=sample)
        )
        yield Record(
            numbers["\0".join(asked)] if asked[0] else str(row.get("idx", index)),
            asked[0],
            (answer,),
            said,
            context=rubric_as_context(asked[1]) if asked[1] else None,
            reference=asked[2] or None,
            metadata={"category": row["category"]} if row.get("category") else {},
        )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _mean(scores: list[Any]) -> float | None:
    known = [score for score in map(number, scores) if score is not None]
    return sum(known) / len(known) if known else None


def _split(instruction: str) -> dict[str, str]:
    found = {}
    for name, title in _PARTS.items():
        match = re.search(rf"###\s*{title}[^\n:]*:[ \t]*\n?(.*?)(?=\n###|\Z)", instruction, re.DOTALL)
        if match:
            found[name] = match[1].strip()
    return found
