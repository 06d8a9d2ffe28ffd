"""WildBench (Lin et al. 2024, arXiv 2406.04770): tasks of real users, with a checklist
each, and scores from 1 to 10.

The tasks have `session_id`, `conversation_input`, `checklist` and tags; the files of scores have
the models' answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from evalkit.benchmarks.shared.benchmark import (
    RowLocation,
    answers_of,
    benchmark,
    listed,
    row_by_row,
)
from evalkit.benchmarks.shared.scoring_rules import View, nothing
from evalkit.core.values import Json
from evalkit.datasets.located_rows import Row
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    located_rows,
    number,
    peek,
    sibling_file,
    text,
    with_columns,
)
from evalkit.interop.layouts.layouts import Field, records_of
from evalkit.interop.layouts.records import Options, ParsedFile
from evalkit.scoring.stats.arrays import Floats
from evalkit.scoring.stats.statistic import Measures, mean_of

SCORE, ADJUSTED = "wildbench/score", "wildbench/adjusted_score"
_LOW, _HIGH = 1.0, 10.0
NEEDS_SCORES = (
    "responses have no scores from 1 to 10: set mode=pointwise rubric=likert10"
)


def _read_case(row: Row, at: RowLocation) -> Row:
    """Return a row as a case with its checklist, and its main tag as the subset."""
    tag = row.get("primary_tag")
    return {
        "id": str(row["session_id"]),
        "prompt": text(row["conversation_input"]),
        **answers_of(row),
        "checklist": [
            str(item) for item in listed(row["checklist"], "checklist", at.place)
        ],
        **({"subset": str(tag)} if tag else {}),
        **_tags(row),
    }


def _tags(row: Json) -> dict[str, list[str]]:
    """Return the tags of a task, the primary one first; nothing if it has none."""
    secondary = row.get("secondary_tags")
    tags = [
        row.get("primary_tag"),
        *(secondary if isinstance(secondary, list) else [secondary]),
    ]
    distinct = [*dict.fromkeys(str(tag) for tag in tags if tag)]
    if distinct:
        return {"tags": distinct}
    return {}


def _score(row: Row) -> float | None:
    score = number(row.get("score"))
    if score is not None and _LOW <= score <= _HIGH:
        return score
    return None


_JUDGMENT: Final[Mapping[str, Field]] = {
    "id": lambda row: row["session_id"],
    "response": "model_output",
    "model": "model_test",
    "judge": lambda row: row.file.parent.name,
    "score": _score,
    "error": lambda row: str(row.get("score")),
    "answer": lambda row: (
        row["parsed_result"] if isinstance(row.get("parsed_result"), dict) else None
    ),
}


def _metadata(tags: Mapping[str, Json], row: LocatedRow) -> Json:
    return _tags(row) or tags.get(str(row.get("session_id")), {})


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each answer; the judge is named by the folder of the file.

    Tags are those of a row, or of the tasks in `tasks.jsonl` in the folder of the file or above it.
    """
    tasks = sibling_file(path, "tasks.jsonl")
    tags = {}
    if tasks is not None and peek(tasks).has("session_id", "primary_tag"):
        tags = {str(row.get("session_id")): _tags(row) for row in located_rows(tasks)}
    scores = (
        # In a folder with tasks, their rows have tags and no score.
        row
        for row in located_rows(path)
        if not (tags and "score" not in row and "primary_tag" in row)
    )
    records = records_of(
        scores, {**_JUDGMENT, "metadata": partial(_metadata, tags)}, "response", options
    )
    return ParsedFile(records, scale=(_LOW, _HIGH, 0.5), benchmark="wildbench")


def _rule(view: View) -> Measures:
    """Return `wildbench/score`, the mean score from 1 to 10, and
    `wildbench/adjusted_score`, twice its excess over 5.

    Lin et al. 2024, arXiv 2406.04770, section 3.2 (WB-Score), with the adjustment of their
    leaderboard.
    """
    scored = view.outcome.scores
    rubric = view.config.rubric
    if (
        scored is None
        or view.outcome.listed
        or (rubric.min, rubric.max) != (_LOW, _HIGH)
    ):
        return [nothing(SCORE, NEEDS_SCORES), nothing(ADJUSTED, NEEDS_SCORES)]
    has_score = np.isfinite(scored.raw)
    score = view.tally.of(scored.case).mean(
        SCORE,
        scored.raw,
        has_score,
        ~has_score,
        span=(_LOW, _HIGH),
        why="no response has a score",
    )

    def adjusted(totals: Floats) -> Floats:
        # Twice the excess over 5, as on their leaderboard.
        return 2 * (mean_of(totals) - 5)

    # The bounds of the mean, changed in the same way.
    low, high = (None if end is None else 2 * (end - 5) for end in score.worst)
    return [score, replace(score, name=ADJUSTED, value=adjusted, worst=(low, high))]


BENCHMARKS: Final = (
    benchmark(
        "wildbench",
        read=row_by_row(_read_case),
        rule=_rule,
        sniff=with_columns("session_id", "score", "model_test"),
        judgments=_read_judgments,
    ),
)
