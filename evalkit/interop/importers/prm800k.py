"""Import PRM800K: people's ratings of each step of a solution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import PERSON, assessment
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_CRITERION: Final = "rating"
_COLUMNS: Final = frozenset(
    {
        *("labeler", "timestamp", "generation", "question", "label"),
        *("is_quality_control_question", "is_initial_screening_question"),
    }
)
"""Columns as published. Another could be a judge's, so that rows with one are a table."""


def _sniff(start: Peek) -> bool:
    question = start.row.get("question")
    return (
        isinstance(question, Mapping)
        and "problem" in question
        and bool(_steps(start.row))
    )


def _steps(row: Json) -> list[Json]:
    """Return the steps of a row, an empty list for a row of another form."""
    label = row.get("label")
    steps = label.get("steps") if isinstance(label, Mapping) else None
    if not isinstance(steps, list):
        return []
    return [
        step
        for step in steps
        if isinstance(step, Mapping) and isinstance(step.get("completions"), list)
    ]


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each candidate of a step, after the steps that were chosen before it."""
    units: list[Assessed] = []
    for index, (_, row) in enumerate(rows_of(path), 1):
        units += _units(row, index)
    return read_assessed(path, units, options)


def _units(row: Json, index: int) -> Iterator[Assessed]:
    question = row.get("question")
    problem = question.get("problem") if isinstance(question, Mapping) else None
    labeler = str(row.get("labeler") or "annotators")
    before: list[str] = []
    for position, step in enumerate(_steps(row), 1):
        candidates = [
            candidate
            for candidate in step["completions"]
            if isinstance(candidate, Mapping)
        ]
        for choice, candidate in enumerate(candidates, 1):
            cells: JsonObject = {
                "id": f"{index}/{position}/{choice}",
                "prompt": "\n".join([text(problem), *before]),
                "response": text(candidate.get("text")),
                "metadata": {"problem": index, "step": position},
            }
            rating = candidate.get("rating")
            rated = assessment(_CRITERION, labeler, PERSON, number(rating))
            yield Assessed(cells, (rated,))
        before += _chosen(step, candidates)


def _chosen(step: Json, candidates: list[Json]) -> list[str]:
    """Return the text with which a solution goes on; nothing if it ends here."""
    written = step.get("human_completion")
    if isinstance(written, Mapping):
        return [text(written.get("text"))]
    position = step.get("chosen_completion")
    if isinstance(position, int) and 0 <= position < len(candidates):
        return [text(candidates[position].get("text"))]
    return []


IMPORTER: Final = Importer(
    "prm800k",
    "PRM800K: people's ratings of the steps of solutions",
    _sniff,
    _read_records,
    is_log=True,
)
