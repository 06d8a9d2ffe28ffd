"""Import QLoRA's reviews of pairs of systems: one file per ordered pair, on Vicuna or
Open Assistant questions.

A review is 1, 2, or 3 (a tie), or (on Vicuna, against one system) a score for both answers.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.judgment_files import (
    Peek,
    number,
    require,
    rows_of,
    sibling_file,
    text,
)
from evalkit.interop.layouts.layouts import record_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

# 1 and 2 name the better answer, 3 is a tie.
_SCORES = {1: 1.0, 2: -1.0, 3: 0.0}
_REVIEWER = re.compile(
    r"(?:-(?P<judge>[^-]+(?:-[\d.]+)?)-|_(?P<named>[^_]+)_)reviewer(?:[-_]\w+)?\Z"
)
_BETWEEN = re.compile(r"[-_]vs[-_]")
_IDS = ("question_id", "message_id")
"""The key of a question: its number for Vicuna, the id of its last message for Open Assistant."""
_NEXT = "A chat between a curious human and an artificial intelligence"
"""The beginning of text that a system adds after its answer, which judges were not shown."""
OUTPUT = {
    "format": "regex",
    "pattern": r"(?m)^[ \t*]*(?P<winner>[123])[ \t.*]*$",
    "map": {"1": "A", "2": "B", "3": "TIE"},
}


def _sniff(start: Peek) -> bool:
    return start.has("review_id", "answer1_id", "answer2_id", "score") and any(
        name in start.row for name in _IDS
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each review.

    A system is identified by its answers' ids, and named by most of its files.
    """
    reviews = []
    # {answer id: {system: files}}.
    votes: dict[str, Counter[str]] = {}
    for location, row in rows_of(path):
        sides, judge = _of_file(location)
        ids = (
            str(require(row, "answer1_id", location)),
            str(require(row, "answer2_id", location)),
        )
        # an id votes for the systems in the names of the files that have its answers
        for answer, side in zip(ids, sides, strict=True):
            votes.setdefault(answer, Counter())[side] += 1
        reviews.append((location, row, ids, sides, options.judge or judge))
    # The system in most names of the files with this id.
    names = {answer: counted.most_common(1)[0][0] for answer, counted in votes.items()}
    texts = _read_answers(path)
    prompts = _prompts(path)
    records = []
    for location, row, ids, sides, judge in reviews:
        question = _question(row) or str(require(row, _IDS[0], location))
        systems = names[ids[0]], names[ids[1]]
        # Systems with the same text share an id, and then the file's name decides.
        if sorted(systems) != sorted(sides):
            systems = sides
        cells = {
            "id": question,
            "prompt": prompts.get(question, ""),
            "judge": judge,
            "text": row.get("text"),
        }
        for side, system, answer in zip("ab", systems, ids, strict=True):
            # Texts by system and question, or else by the answer's own id.
            response = texts.get((system, question)) or texts.get(
                (answer, question), ""
            )
            cells |= {f"model_{side}": system, f"response_{side}": response}
        records.append(record_of({**cells, **_verdict(row)}, location, "pair"))
    scored = sum(isinstance(row.get("score"), list) for _, row, *_ in reviews)
    notes = []
    if scored:
        notes.append(f"winners derived from two scores: {scored}")
    if not texts:
        notes.append(
            "the systems' answers (../generations) are missing: texts are empty"
        )
    return ParsedFile(
        records, None if scored else OUTPUT, by_name=True, notes=tuple(notes)
    )


def _question(row: Json) -> str | None:
    return next((str(row[name]) for name in _IDS if row.get(name) is not None), None)


def _of_file(location: str) -> tuple[tuple[str, str], str]:
    """Return the two systems and the judge in a file's name."""
    stem = Path(location.rpartition(":")[0]).stem
    reviewer = _REVIEWER.search(stem)
    # The name of the file without the reviewer: two systems with `vs` between them.
    first, *second = _BETWEEN.split(
        stem[: reviewer.start()] if reviewer else stem, maxsplit=1
    )
    judge = (reviewer["judge"] or reviewer["named"]) if reviewer else "reviewer"
    return (_system(first) or "1", _system("".join(second)) or "2"), judge


def _verdict(row: Json) -> JsonObject:
    """Return the margin of a review, with an error for one that is missing; or its failure."""
    score = row.get("score")
    margin = None
    # Two scores, or the number of a choice.
    if isinstance(score, list):
        margin = _lead(score)
    elif isinstance(score, int):
        margin = _SCORES.get(score)
    # A review that failed has the text `error`.
    if row.get("text") == "error" and margin is None:
        return {"failure": "the review is 'error'", "text": None}
    return {"margin": margin, "error": f"score is {score}"}


def _lead(scores: list[Any]) -> float | None:
    """Return the margin of the higher of two scores; `None` if a score is -1, that is,
    unreadable.
    """
    readable = [
        score for score in map(number, scores) if score is not None and score >= 0
    ]
    if len(scores) != 2 or len(readable) != 2:
        return None
    # 1, 0 or -1: only which score is higher counts.
    return float(readable[0] > readable[1]) - float(readable[0] < readable[1])


def _read_answers(path: Path) -> dict[tuple[str, str], str]:
    """Return the systems' answers by system or answer id and question; empty without files."""
    folder = sibling_file(path, "generations")
    answers: dict[tuple[str, str], str] = {}
    for file in sorted(folder.rglob("*.jsonl")) if folder is not None else ():
        for _, row in rows_of(file):
            answer = next(
                (
                    row[name]
                    for name in ("generation_truncated", "generation", "text")
                    if name in row
                ),
                "",
            )
            # What follows is another conversation that the system made up.
            answer_text = text(answer).split(_NEXT)[0]
            question = _question(row)
            if question is not None:
                answers[_system(file.stem), question] = answer_text
                if row.get("answer_id"):
                    answers[str(row["answer_id"]), question] = answer_text
    return answers


def _system(stem: str) -> str:
    # Names of files have `answer_` or `answer-`.
    return re.sub(r"\Aanswer_", "answer-", stem)


def _prompts(path: Path) -> dict[str, str]:
    """Return the texts of the questions in all question files next to the reviews."""
    folder = sibling_file(path, "prompts")
    files = [] if folder is None else sorted(folder.glob("*_questions.jsonl"))
    if (
        not files
        and (file := sibling_file(path, "vicuna_questions.jsonl", "question.jsonl"))
        is not None
    ):
        files = [file]
    return {
        _question(row) or "": text(row.get("text"))
        for file in files
        for _, row in rows_of(file)
    }


IMPORTER = Importer(
    "qlora",
    "QLoRA's reviews by GPT-4: a file, or the folder pairwise/, oa/ or relative-gpt-3.5/",
    _sniff,
    _read_records,
)
