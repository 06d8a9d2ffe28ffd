"""A run's cases, judgments, verdicts and metrics as data frames of pandas or polars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.resources import optional
from evalkit.core.types import Case, Response, Verdict
from evalkit.runs.records import encode_line, metric_values
from evalkit.runs.results import RunResult
from evalkit.runs.rows import Row, column, rows_of_run


def frame(result: RunResult, table: str, library: str) -> Any:
    """Return a table of a run as a data frame of a library; lists and mappings are JSON.

    Raises:
        ConfigError: If there is no such table, or the library is not installed.
    """
    if table not in _ROWS:
        raise ConfigError(
            f"a run has no table '{table}'",
            where=f"to_{library}",
            remedy=did_you_mean(table, _ROWS),
        )
    rows = _ROWS[table](result)
    # Rows may have different keys, such as metadata of some cases.
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: column([_cell(row.get(name)) for row in rows]) for name in names}
    return optional(library, f"to_{library}").DataFrame(columns)


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple | Mapping):
        return encode_line(value).decode().strip()
    return value


def _case_row(case: Case) -> Row:
    """Return a case as a row of the frame; labels and checklist only if it has some."""
    # The case's own fields come last, so that metadata of the same name cannot hide them.
    row = {
        **case.metadata,
        "id": case.id,
        "prompt": case.prompt,
        "context": case.context,
        "reference": case.reference,
        **_response_columns(case),
    }
    optional_fields = {
        "labels": case.labels,
        "checklist": [asdict(item) for item in case.checklist],
    }
    return row | {name: value for name, value in optional_fields.items() if value}


def _response_columns(case: Case) -> Row:
    """Return the columns of a case's responses: of one, of a pair, or a list."""
    # Two graded responses are listed, since columns for a pair have no grades.
    graded = any(_label(response) is not None for response in case.responses)
    match case.responses:
        case (response,):
            return {
                "response": response.text,
                "model": response.model,
                "label": _label(response),
            }
        case (first, second) if not graded:
            texts = {"response_a": first.text, "response_b": second.text}
            return {
                **texts,
                "model_a": first.model,
                "model_b": second.model,
                "label": case.label,
            }
    listed = [
        {"text": response.text, "model": response.model, "label": _label(response)}
        for response in case.responses
    ]
    return {"responses": listed, "label": case.label}


def _label(response: Response) -> float | str | None:
    if response.class_name is None:
        return response.grade
    return response.class_name


def _verdict_row(verdict: Verdict) -> Row:
    """Return a verdict as a row of the frame.

    Each criterion and each judge's vote has a column of its own; a verdict on a checklist has a
    column with its items. `consistent` is `None` if only one order was asked.
    """
    return {
        "id": verdict.case_id,
        "unit": verdict.unit,
        "judge": verdict.judge,
        "winner": verdict.winner,
        "score": verdict.score,
        "class": verdict.class_name,
        "reason": verdict.reason,
        "margin": verdict.margin,
        "confidence": verdict.confidence,
        "label": verdict.label,
        "consistent": verdict.orders and verdict.orders.consistent,
        **{f"criteria.{name}": value for name, value in verdict.criteria.items()},
        **{f"votes.{name}": value for name, value in verdict.votes.items()},
        **(
            {"items": [asdict(item) for item in verdict.items]} if verdict.items else {}
        ),
    }


_ROWS: Final[Mapping[str, Callable[[RunResult], list[Row]]]] = {
    "cases": lambda result: [_case_row(case) for case in result.cases],
    "judgments": rows_of_run,
    "verdicts": lambda result: [_verdict_row(verdict) for verdict in result.verdicts],
    "metrics": lambda result: [
        {"metric": name, **metric_values(metric)}
        for name, metric in result.metrics.items()
    ],
}
