"""Prometheus' evaluation data: an instruction that holds task, response, reference and rubric, and repeated scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit.exchange.files import Peek, need, number, rows_of
from evalkit.exchange.records import Answer, Found, Options, Record, Said, lost

_PARTS = {
    "prompt": "The instruction to evaluate",
    "response": "Response to evaluate",
    "reference": "Reference Answer",
    "rubric": "Score Rubrics?",
}


def sniff(start: Peek) -> bool:
    """Say whether its rows have an instruction and GPT-4's scores."""
    return start.has("instruction", "gpt4_score")


def read(path: Path, options: Options) -> Found:
    """Return a record for each repeat of each response's score."""
    records = [
        record
        for index, (place, row) in enumerate(rows_of(path))
        for record in _records(row, index, place, options.judge or "gpt-4")
    ]
    return Found(records, scale=(1.0, 5.0, 1.0))


def _records(row: Mapping[str, Any], index: int, place: str, judge: str) -> Iterator[Record]:
    parts = _split(str(need(row, "instruction", place)))
    scores, words = _listed(row["gpt4_score"]), _listed(row.get("gpt4_feedback"))
    system = row.get("response_source")
    answer = Answer(str(system or index), parts.get("response", ""), None if system is None else str(system))
    for sample, score in enumerate(scores):
        value, text = number(score), str(words[sample]) if sample < len(words) else None
        said = (
            Said(judge, scores={"quality": value}, text=text, sample=sample)
            if value is not None
            else lost(judge, f"score is {score}", text=text, sample=sample)
        )
        more = {"category": row.get("category"), "rubric": parts.get("rubric")}
        yield Record(
            str(row.get("idx", index)),
            parts.get("prompt", ""),
            (answer,),
            said,
            reference=parts.get("reference"),
            metadata={key: part for key, part in more.items() if part},
        )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _split(instruction: str) -> dict[str, str]:
    found = {}
    for name, title in _PARTS.items():
        match = re.search(rf"###\s*{title}[^\n:]*:[ \t]*\n?(.*?)(?=\n###|\Z)", instruction, re.DOTALL)
        if match:
            found[name] = match[1].strip()
    return found
