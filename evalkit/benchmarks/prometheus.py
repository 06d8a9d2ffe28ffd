"""Prometheus (Kim et al. 2024, ICLR, arXiv 2310.08491): Feedback Bench and Vicuna
Bench, scored by rubrics.

A row's instruction contains task, response, reference and rubric. Its scores are GPT-4's, or
Prometheus's own if the rows have them. GPT-4's mean is then the reference grade.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from evalkit.benchmarks.shared.benchmark import (
    Benchmark,
    Source,
    benchmark,
    listed,
    published_rows,
    shape,
)
from evalkit.benchmarks.shared.scoring_rules import NEEDS_SCORES, View, nothing, pooled
from evalkit.core.errors import DatasetError
from evalkit.datasets.located_rows import Placed, Row
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    Peek,
    located_rows,
    number,
)
from evalkit.interop.layouts.layouts import Cells, records_of
from evalkit.interop.layouts.records import NumberedNames, Options, ParsedFile
from evalkit.scoring.stats.statistic import Measures

_VICUNA: Final = shape("instruction", "gpt4_score")

_SECTIONS: Final = (
    "The instruction to evaluate",
    "Response to evaluate",
    "Reference Answer",
    "Score Rubric",
)

_HEADING: Final = re.compile(
    rf"^###\s*({'|'.join(_SECTIONS)}|Feedback)[^\n:]*:[ \t]*", re.MULTILINE
)

_SCORE_COLUMNS = ("prometheus_score", "gpt4_score")
_WORDS = ("prometheus_output", "gpt4_feedback")

_JUDGES = ("prometheus", "gpt-4")


def rubric_as_context(rubric: str) -> str:
    """Return the context of a case."""
    return "Score rubric\n" + rubric


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each instruction with its rubric, and all responses to it."""
    cases: dict[tuple[Any, ...], Placed] = {}
    for row in published_rows(benchmark, source):
        question, response = (
            _vicuna_parts(row) if row.keys() >= _VICUNA else _feedback_parts(row)
        )
        # Responses to one instruction with one rubric are one case.
        case = row.place, {"id": str(len(cases) + 1), **question, "responses": []}
        cases.setdefault((row.file, *question.values()), case)[1]["responses"].append(
            response
        )
    yield from cases.values()


def _feedback_parts(row: Row) -> tuple[Row, Row]:
    """Return a row of the Feedback Collection as a question and its graded response."""
    levels = [(k, row.get(f"orig_score{k}_description")) for k in range(1, 6)]
    rubric = [
        f"[{row['orig_criteria']}]",
        *(f"Score {k}: {text}" for k, text in levels if text),
    ]
    question = {
        "prompt": row["orig_instruction"],
        "context": rubric_as_context("\n".join(rubric)),
        "reference": row.get("orig_reference_answer"),
    }
    return question, {"text": row["orig_response"], "label": row["orig_score"]}


def _vicuna_parts(row: LocatedRow) -> tuple[Row, Row]:
    """Return a row of Vicuna Bench as a question and its graded response.

    Raises:
        DatasetError: if a section of the instruction is missing.
    """
    sections = _sections_of(str(row["instruction"]))
    if missing := [name for name in _SECTIONS if name not in sections]:
        raise DatasetError(
            f"the instruction has no section '{missing[0]}'",
            where=row.place,
            remedy="fix the row",
        )
    prompt, response, reference, rubric = (sections[name] for name in _SECTIONS)
    scores = listed(row["gpt4_score"], "gpt4_score", row.place)
    question = {
        "prompt": prompt,
        "context": rubric_as_context(rubric),
        "reference": reference,
    }
    # Three runs of one judge are not three annotators: their mean is the grade.
    grade = sum(map(float, scores)) / len(scores)
    return question, {
        "text": response,
        "model": row.get("response_source"),
        "label": grade,
    }


def _sections_of(instruction: str) -> dict[str, str]:
    # [before, name, text, name, text, ...].
    parts = _HEADING.split(instruction)
    return {
        name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _rule(view: View) -> Measures:
    """Return `prometheus/pearson`, `prometheus/kendall` and `prometheus/spearman` of
    scores and reference scores.

    Over all responses together (Kim et al. 2024, arXiv 2310.08491, section 5.3); a judge's samples
    are averaged.
    """
    scored = view.outcome.scores
    names = ("pearson", "kendall", "spearman")
    if scored is None:
        return [nothing(f"prometheus/{name}", NEEDS_SCORES) for name in names]
    statistics = {
        statistic.name.rpartition("/")[2]: statistic
        for statistic in pooled(view, "prometheus", replace(scored, score=scored.raw))
    }
    return [statistics[name] for name in names]


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows have an instruction and scores."""
    return start.has("instruction") and any(
        name in start.row for name in _SCORE_COLUMNS
    )


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each repeat of each response's score."""
    numbers = NumberedNames()
    records = records_of(
        located_rows(path),
        lambda row: _score_records(row, numbers),
        "response",
        options,
    )
    ungraded = all(record.shown[0].grade is None for record in records)
    notes = (
        ("the scores are GPT-4's own: there is no other grade to compare with",)
        if ungraded
        else ()
    )
    return ParsedFile(
        records, scale=(1.0, 5.0, 1.0), benchmark="prometheus", notes=notes
    )


def _score_records(row: LocatedRow, numbers: NumberedNames) -> Iterator[Cells]:
    """Yield a record for each repeat of a score; a row without scores is one missing judgment."""
    sections = _sections_of(str(row["instruction"]))
    prompt, response, reference, rubric = (sections.get(name, "") for name in _SECTIONS)
    # 0 if the row has Prometheus's scores, 1 if it has GPT-4's only.
    column_set = int(_SCORE_COLUMNS[0] not in row)
    words = _listed(row.get(_WORDS[column_set]))
    cells = {
        "id": numbers[f"{prompt}\0{rubric}\0{reference}"]
        if prompt
        else row.get("idx", row.number),
        "prompt": prompt,
        "context": rubric_as_context(rubric) if rubric else None,
        "reference": reference,
        "response": response,
        "model": row.get("response_source"),
        "key": row.get("response_source") or row.number,
        # GPT-4's own scores cannot be compared with themselves.
        "grade": None if column_set else _mean(_listed(row.get(_SCORE_COLUMNS[1]))),
        "judge": _JUDGES[column_set],
        "metadata": {"category": row["category"]} if row.get("category") else {},
    }
    # One record for each repeat; a row without scores is one missing judgment.
    for sample, score in enumerate(
        _listed(row.need(_SCORE_COLUMNS[column_set])) or [None]
    ):
        text = str(words[sample]) if sample < len(words) else None
        yield {
            **cells,
            "score": number(score),
            "text": text,
            "sample": sample,
            "error": f"score is {score}",
        }


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if value is None:
        return []
    return [value]


def _mean(scores: list[Any]) -> float | None:
    numbers = [score for score in map(number, scores) if score is not None]
    if numbers:
        return sum(numbers) / len(numbers)
    return None


BENCHMARKS: Final = (
    benchmark(
        "prometheus",
        read=_read_cases,
        rule=_rule,
        sniff=_sniff,
        judgments=_read_judgments,
    ),
)
