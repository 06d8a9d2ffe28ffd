"""QLoRA's reviews of pairs of systems on the Vicuna questions: one file for each ordered pair, keyed on answer ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.exchange.files import Peek, beside, need, rows_of
from evalkit.exchange.records import Answer, Found, Options, Record, Said, lost

_SCORES = {1: 1.0, 2: -1.0, 3: 0.0}
_REVIEWER = re.compile(r"-(?P<judge>[^-]+(?:-[\d.]+)?)-reviewer(?:-\w+)?\Z")
OUTPUT = {
    "format": "regex",
    "pattern": r"(?m)^[ \t*]*(?P<winner>[123])[ \t.*]*$",
    "map": {"1": "A", "2": "B", "3": "TIE"},
}


def sniff(start: Peek) -> bool:
    """Say whether its rows are reviews."""
    return start.has("review_id", "question_id", "answer1_id", "answer2_id", "score")


def read(path: Path, options: Options) -> Found:
    """Return a record for each review; a system is known by its answers' ids, and named by most of its files."""
    reviews = []
    votes: dict[str, Counter[str]] = {}
    for place, row in rows_of(path):
        sides, judge = _of_file(place)
        ids = str(need(row, "answer1_id", place)), str(need(row, "answer2_id", place))
        for answer, side in zip(ids, sides, strict=True):
            votes.setdefault(answer, Counter())[side] += 1
        reviews.append((place, row, ids, options.judge or judge))
    names = {answer: counted.most_common(1)[0][0] for answer, counted in votes.items()}
    texts, prompts = _texts(path), _prompts(path)
    records = []
    for place, row, ids, judge in reviews:
        question = str(need(row, "question_id", place))
        shown = tuple(Answer(one, texts.get((names[one], question), ""), names[one]) for one in ids)
        records.append(Record(question, prompts.get(question, ""), shown, _said(row, judge)))
    lacking = () if texts else ("the systems' answers are not beside it (../generations): texts are empty",)
    return Found(records, OUTPUT, by_name=True, notes=lacking)


def _of_file(place: str) -> tuple[tuple[str, str], str]:
    """Return the two systems and the judge that a file's name tells of."""
    stem = Path(place.rpartition(":")[0]).stem
    reviewer = _REVIEWER.search(stem)
    first, _, second = (stem[: reviewer.start()] if reviewer else stem).partition("-vs-")
    return (first or "1", second or "2"), reviewer["judge"] if reviewer else "reviewer"


def _said(row: Mapping[str, Any], judge: str) -> Said:
    text, score = row.get("text"), row.get("score")
    value = _SCORES.get(score) if isinstance(score, int) else None
    if value is not None:
        return Said(judge, value=value, text=text)
    if text == "error":
        return lost(judge, "the review is 'error'", status="failed")
    return lost(judge, f"score is {score}", text=text)


def _texts(path: Path) -> dict[tuple[str, str], str]:
    """Return systems' answers by system and question, where they stand beside the reviews."""
    folder = beside(path, "generations")
    if folder is None:
        return {}
    found = {}
    for file in sorted(folder.glob("*.jsonl")):
        for _, row in rows_of(file):
            answer = row.get("generation_truncated") or row.get("generation") or row.get("text") or ""
            found[(_system(file.stem), str(row.get("question_id")))] = str(answer)
    return found


def _system(stem: str) -> str:
    return re.sub(r"\Aanswer_", "answer-", stem)


def _prompts(path: Path) -> dict[str, str]:
    file = beside(path, "prompts/vicuna_questions.jsonl", "vicuna_questions.jsonl", "question.jsonl")
    if file is None:
        return {}
    return {str(row.get("question_id")): str(row.get("text", "")) for _, row in rows_of(file)}
