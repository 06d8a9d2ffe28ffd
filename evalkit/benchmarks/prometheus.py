"""Prometheus (Kim et al. 2024, ICLR, arXiv 2310.08491): Feedback Bench and Vicuna Bench, scored by rubrics.

A row's instruction contains task, response, reference and rubric. Its scores are GPT-4's, or Prometheus's own if the
rows have them. GPT-4's mean is then the reference grade.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from evalkit.benchmarks.benchmark import (
    Benchmark,
    Importer,
    Source,
    benchmark_files,
    checked_rows,
    coefficient_row,
    listed,
    shape,
)
from evalkit.benchmarks.judgment_files import Peek, number, require
from evalkit.benchmarks.judgment_files import rows_of as judged_rows
from evalkit.benchmarks.records import (
    Answer,
    NumberedNames,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
    missing_record,
)
from evalkit.benchmarks.scoring_rules import NEEDS_SCORES, View, nothing, pooled
from evalkit.datasets.formats import Row
from evalkit.datasets.named import Placed
from evalkit.errors import DatasetError
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Metric

_VICUNA: Final = shape("instruction", "gpt4_score")

_FEEDBACK: Final = shape("orig_instruction", "orig_response", "orig_criteria", "orig_score")

_SECTIONS: Final = ("The instruction to evaluate", "Response to evaluate", "Reference Answer", "Score Rubrics")

_HEADING: Final = re.compile(rf"^###({'|'.join(_SECTIONS)}|Feedback)(?: \(Score 5\))?:[ ]*$", re.MULTILINE)

_PARTS = {
    "prompt": "The instruction to evaluate",
    "response": "Response to evaluate",
    "reference": "Reference Answer",
    "rubric": "Score Rubrics?",
}

_SCORE_COLUMNS, _WORDS = ("prometheus_score", "gpt4_score"), ("prometheus_output", "gpt4_feedback")

_JUDGES = ("prometheus", "gpt-4")

COEFFICIENTS = ("pearson", "spearman", "kendall")


def rubric_as_context(rubric: str) -> str:
    """Return the context of a case."""
    return "Score rubric\n" + rubric


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each instruction with its rubric, and all responses to it."""
    number = 0
    for file in benchmark_files(benchmark, source):
        together: dict[Any, tuple[str, Row]] = {}
        for place, row in checked_rows(benchmark, file):
            asked, response = _vicuna(row, place) if row.keys() >= _VICUNA else _feedback(row)
            key = (asked["prompt"], asked["context"], asked["reference"])
            if key not in together:
                number += 1
                together[key] = place, {"id": str(number), **asked, "responses": []}
            together[key][1]["responses"].append(response)
        yield from together.values()


def _feedback(row: Row) -> tuple[Row, Row]:
    levels = [(k, row.get(f"orig_score{k}_description")) for k in range(1, 6)]
    rubric = [f"[{row['orig_criteria']}]", *(f"Score {k}: {text}" for k, text in levels if text)]
    asked = {
        "prompt": row["orig_instruction"],
        "context": rubric_as_context("\n".join(rubric)),
        "reference": row.get("orig_reference_answer"),
    }
    return asked, {"text": row["orig_response"], "label": row["orig_score"]}


def _vicuna(row: Row, place: str) -> tuple[Row, Row]:
    found = _HEADING.split(str(row["instruction"]))
    sections = {name: text.strip() for name, text in zip(found[1::2], found[2::2], strict=True)}
    if missing := [name for name in _SECTIONS if name not in sections]:
        raise DatasetError(f"the instruction has no section '{missing[0]}'", where=place, remedy="fix the row")
    prompt, response, reference, rubric = (sections[name] for name in _SECTIONS)
    scores = listed(row["gpt4_score"], "gpt4_score", place)
    asked = {"prompt": prompt, "context": rubric_as_context(rubric), "reference": reference}
    # Three runs of one judge are not three annotators: their mean is the grade.
    grade = sum(map(float, scores)) / len(scores)
    return asked, {"text": response, "model": row.get("response_source"), "label": grade}


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `prometheus/pearson`, `prometheus/kendall` and `prometheus/spearman` of scores and reference scores.

    Over all responses together (Kim et al. 2024, arXiv 2310.08491, section 5.3); a judge's samples are averaged.
    """
    scored = view.outcome.scores
    names = ("pearson", "kendall", "spearman")
    if scored is None:
        return [nothing(f"prometheus/{name}", NEEDS_SCORES) for name in names]
    found = dict(zip(COEFFICIENTS, pooled(view, "prometheus", replace(scored, score=scored.raw)), strict=True))
    return [found[name] for name in names]


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows have an instruction and scores."""
    return start.has("instruction") and any(name in start.row for name in _SCORE_COLUMNS)


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each repeat of each response's score."""
    numbers = NumberedNames()
    records = [
        record
        for index, (place, row) in enumerate(judged_rows(path))
        for record in _records(row, index, place, options.judge, numbers)
    ]
    ungraded = all(record.shown[0].grade is None for record in records)
    notes = ("the scores are GPT-4's own: there is no other grade to compare with",) if ungraded else ()
    return ParsedFile(records, scale=(1.0, 5.0, 1.0), benchmark="prometheus", notes=notes)


def _records(
    row: Mapping[str, Any], index: int, place: str, named: str | None, numbers: NumberedNames
) -> Iterator[Record]:
    parts = _split(str(require(row, "instruction", place)))
    asked = [parts.get(name, "") for name in ("prompt", "rubric", "reference")]
    own = int(_SCORE_COLUMNS[0] not in row)
    judge = named or _JUDGES[own]
    scores, words = _listed(require(row, _SCORE_COLUMNS[own], place)), _listed(row.get(_WORDS[own]))
    system = row.get("response_source")
    grade = None if own else _mean(_listed(row.get(_SCORE_COLUMNS[1])))
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


_SOURCE = "Kim et al. 2024, arXiv 2310.08491, section 5.3"
_METRICS: Final = (
    coefficient_row(
        "prometheus/pearson",
        "Pearson correlation",
        "Pearson's r between scores (mean of the samples) and reference scores over all responses.",
        _SOURCE,
        headline=True,
    ),
    coefficient_row(
        "prometheus/kendall",
        "Kendall's tau",
        "Kendall's tau-b between scores (mean of the samples) and reference scores over all responses.",
        _SOURCE,
        headline=True,
    ),
    coefficient_row(
        "prometheus/spearman",
        "Spearman correlation",
        "Spearman's rho between scores (mean of the samples) and reference scores over all responses.",
        _SOURCE,
        headline=True,
    ),
)


PROMETHEUS: Final = Benchmark(
    "prometheus",
    "Prometheus (Feedback Bench, Vicuna Bench)",
    kind="Feedback Bench or a test set of Prometheus",
    license="Apache-2.0 (Vicuna Bench); none stated for Feedback Bench: see the authors' page",
    citation="Kim et al. 2024, ICLR, arXiv 2310.08491",
    homepage="https://github.com/prometheus-eval/prometheus-eval",
    expects="Feedback Bench, or a file of prometheus-eval's eval/benchmark/data such as vicuna_eval.json",
    shapes=(_FEEDBACK, _VICUNA),
    read=_read_cases,
    rule=_rule,
    importer=Importer("prometheus", "Prometheus: gpt4_score with repeats", _sniff, _read_judgments),
    metrics=_METRICS,
    short_title="Prometheus",
    main_metric="prometheus/pearson",
)

BENCHMARKS: Final = (PROMETHEUS,)
