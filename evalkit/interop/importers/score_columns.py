"""Import tables of metrics whose columns name evaluator and part: Azure, MLflow,
Vertex, TruLens.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    CODE,
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
    rater_of,
)
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of
from evalkit.interop.layouts.rater_names import is_code, is_persons
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_AZURE: Final = re.compile(r"outputs\.(?P<judge>[^.]+)\.(?P<part>.+)")
_SLASHED: Final = re.compile(
    r"(?P<judge>[^/]+(?:/v\d+)?)/(?P<part>score|value|justification|rationale|explanation|"
    r"pairwise_choice|error_message)"
)
_DOTTED: Final = re.compile(
    r"(?P<rater>eval|evals|annotation|annotations)\.(?P<judge>[^.]+)\."
    r"(?P<part>label|score|explanation)"
)
_BY_PEOPLE: Final = "annotation."
"""The prefix of what people said about a metric, next to an evaluator of its name."""
_ENDS: Final = {
    "_result": "word",
    "_label": "word",
    "_reason": "reason",
    "_score": "score",
}
"""The parts of Azure's metrics by the end of their columns."""
_GRADED: Final = {
    "score": "score",
    "passed": "word",
    "result": "word",
    "label": "word",
    "reason": "reason",
}
"""The parts of a grader by the last name of their columns, such as `outputs.NAME.passed`."""
_NO_GRADE: Final = ("sample", "threshold", "status", "properties", "details")
_EXPECTED: Final = "expected"
"""The beginning of what an answer should be: not a verdict."""
_NO_PARTS: Final = (
    *("_threshold", "_tokens", "_model", "_sample_input", "_sample_output"),
    *("_finish_reason", "_properties", "_details", "_status"),
)
_CALLS: Final = "_calls"
_CHOICES: Final = {"BASELINE": "A", "CANDIDATE": "B", "TIE": "TIE"}
_REASONS: Final = ("justification", "rationale", "explanation")
_INPUTS: Final = "inputs."
_CODE: Final = frozenset(
    {
        *(
            "bleu_score",
            "gleu_score",
            "rouge_score",
            "meteor_score",
            "f1_score",
            "bleu",
        ),
        *(
            "rouge",
            "exact_match",
            "toxicity",
            "flesch_kincaid_grade_level",
            "ari_grade_level",
        ),
        *("token_count", "latency", "rouge1", "rouge2", "rougeL", "rougeLsum"),
    }
)
"""Metrics of these tools that are code."""


def _sniff(start: Peek) -> bool:
    """Return whether columns are named as Azure, MLflow, Vertex or TruLens name scores."""
    names = [str(name) for name in start.row]
    return (
        any(map(_AZURE.fullmatch, names))
        or any(map(_DOTTED.fullmatch, names))
        or any(
            (match := _SLASHED.fullmatch(name))
            and match["part"] in ("score", "pairwise_choice", "value")
            for name in names
        )
        or (
            {"record_id", "input", "output"} <= {*names}
            and any(name.endswith(_CALLS) for name in names)
        )
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each row and evaluator, with its score, its result and its reason.

    Evaluators of code are counted. Columns of the data whose names say that people gave them are
    labels. Choices between a baseline and a candidate are pairs.
    """
    rows = [row for _, row in rows_of(path)]
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    parts = _columns_by_part(names)
    columns = {column for by_part in parts.values() for column in by_part.values()}
    units = []
    data = []
    for index, row in enumerate(rows):
        selected = {
            name.removeprefix(_INPUTS): _choice(value)
            for name, value in row.items()
            if name not in columns
            and not name.startswith("outputs.")
            and not name.endswith((_CALLS, "_direction"))
        }
        entries = [_assess(row, judge, by_part) for judge, by_part in parts.items()]
        cells: JsonObject = {
            **text_cells(selected),
            "id": str(_id(selected, index)),
            "metadata": _plain(selected),
        }
        _as_pair(cells, selected, parts)
        units.append(Assessed(cells, tuple(entries)))
        data.append(selected)
    # ids that are not unique cannot identify rows
    ids = [unit.cells["id"] for unit in units]
    if len(set(ids)) < len(ids):
        units = [
            Assessed({**unit.cells, "id": str(index)}, unit.entries)
            for index, unit in enumerate(units)
        ]
    return read_assessed(
        path, with_raters_in_data(units, data, options, {"id"}), options
    )


def _choice(value: Any) -> Any:
    """Return the side of a pair for a choice, and any other value unchanged."""
    if isinstance(value, str):
        return _CHOICES.get(value, value)
    return value


def _id(row: Json, index: int) -> Any:
    names = ("id", "record_id", "inputs.id", "request_id", "trace_id")
    return next((row[name] for name in names if row.get(name) is not None), index)


def _plain(row: Json) -> JsonObject:
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, str | int | float)
    }


def _as_pair(cells: JsonObject, row: Json, parts: Mapping[str, Json]) -> None:
    """Name the responses of a baseline and a candidate."""
    if not any("pairwise_choice" in by_part for by_part in parts.values()):
        return
    response = cells.pop("response", None)
    cells["response_a"] = row.get(
        "baseline_model_response", row.get("baseline_response")
    )
    # the candidate's response may have the plain name
    cells["response_b"] = row.get("candidate_model_response", response)
    cells["model_a"] = "baseline"
    cells["model_b"] = "candidate"


def _columns_by_part(names: list[str]) -> dict[str, dict[str, str]]:
    """Return the columns of each evaluator by part: `score`, `word` and `reason`."""
    by_evaluator: dict[str, dict[str, str]] = defaultdict(dict)
    for name in names:
        if match := _AZURE.fullmatch(name):
            _azure_part(by_evaluator, match["judge"], match["part"], name)
        elif match := _SLASHED.fullmatch(name):
            if match["judge"].startswith(_EXPECTED):
                continue
            part = "reason" if match["part"] in _REASONS else match["part"]
            part = "score" if part == "value" else part
            by_evaluator[match["judge"]][part] = name
        elif match := _DOTTED.fullmatch(name):
            part = {"label": "word", "explanation": "reason"}.get(
                match["part"], "score"
            )
            prefix = _BY_PEOPLE if match["rater"].startswith("annotation") else ""
            by_evaluator[prefix + match["judge"]][part] = name
        elif name.endswith(_CALLS) and name.removesuffix(_CALLS) in names:
            by_evaluator[name.removesuffix(_CALLS)]["score"] = name.removesuffix(_CALLS)
    return {
        judge: by_part
        for judge, by_part in by_evaluator.items()
        if by_part.keys() & {"score", "word", "pairwise_choice"}
    }


def _azure_part(
    by_evaluator: dict[str, dict[str, str]], judge: str, part: str, name: str
) -> None:
    """Note a column of Azure's metrics by its evaluator and part.

    Columns are `METRIC`, `METRIC_result`, `METRIC_reason`, and older `gpt_METRIC`.
    """
    if part.endswith(_NO_PARTS) or part in _NO_GRADE:
        return
    if part in _GRADED:
        by_evaluator[judge].setdefault(_GRADED[part], name)
        return
    for end, kind in _ENDS.items():
        if part.endswith(end):
            columns = by_evaluator[_azure_name(judge, part.removesuffix(end))]
            # the plain column came first, and this one has the number: the plain one
            # has the word
            if kind == "score" and "score" in columns:
                columns["word"] = columns["score"]
                columns["score"] = name
            else:
                columns.setdefault(kind, name)
            return
    by_evaluator[_azure_name(judge, part.removeprefix("gpt_"))].setdefault(
        "score", name
    )


def _azure_name(judge: str, metric: str) -> str:
    """Return the name of a metric, with that of its evaluator if it is another."""
    if judge == metric:
        return metric
    return f"{judge}.{metric}"


def _assess(row: Json, judge: str, by_part: Mapping[str, str]) -> Assessment:
    """Return the assessment of a judge in a row.

    `by_part` has the columns of its score, word, reason and error.
    """
    values = {part: row.get(column) for part, column in by_part.items()}
    # without the version of a metric
    name = re.sub(r"/v\d+$", "", judge.removeprefix(_BY_PEOPLE))
    choice = values.get("pairwise_choice")
    if isinstance(choice, str):
        values["word"] = _choice(choice)
    source: Source = JUDGE
    if judge.startswith(_BY_PEOPLE) or is_persons(name):
        source = PERSON
    elif name.casefold() in _CODE or any(map(is_code, name.split("."))):
        source = CODE
    score = values.get("score")
    word = values.get("word")
    return assessment(
        name,
        rater_of(name, source),
        source,
        word if score is None else score,
        word=word,
        reason=values.get("reason"),
        failure=values.get("error_message") or "",
    )


IMPORTER: Final = Importer(
    "score_columns",
    "results of Azure's, Vertex's, MLflow's or TruLens' evaluation: columns by evaluator",
    _sniff,
    _read_records,
    is_log=True,
)
