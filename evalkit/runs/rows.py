"""A run's judgments as rows of one table, and the types of its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evalkit.core.annotations import annotation_classes, annotation_grades, choice_for
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Judgment, Verdict, Winner
from evalkit.core.values import JsonObject
from evalkit.runs.results import RunResult

_CLOSE = 1e-9
_INT64 = 2**63


Row = JsonObject


def rows_of_run(result: RunResult) -> list[Row]:
    """Return a row for each judgment of responses or pairs, in order; all rows have the
    same columns.

    Raises:
        ConfigError: if a judgment is of an unknown case, as in a folder that was changed.
    """
    # Indexes of responses in a judgment are positions in the case's list of responses.
    cases = {case.id: case for case in result.cases}
    verdicts = {(verdict.case_id, verdict.unit): verdict for verdict in result.verdicts}
    rows = [
        _judgment_row(
            judgment,
            judged_case(judgment.case_id, cases),
            verdicts.get((judgment.case_id, judgment.unit)),
        )
        for judgment in result.judgments
    ]
    # In the order in which they first occur; all rows then have all of them.
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def judged_case(case_id: str, cases: Mapping[str, Case]) -> Case:
    """Return the case of a judgment or verdict.

    Raises:
        ConfigError: if there is none, as in a folder that was changed.
    """
    case = cases.get(case_id)
    if case is None:
        raise ConfigError(
            "this case was judged but is not in the dataset", where=f"case '{case_id}'"
        )
    return case


def _judgment_row(judgment: Judgment, case: Case, verdict: Verdict | None) -> Row:
    """Return a judgment with its case and its verdict, if it has one, as a row."""
    return {
        "id": case.id,
        "prompt": case.prompt,
        "context": case.context,
        "reference": case.reference,
        **_response_columns(judgment, case),
        "judge": judgment.judge,
        "sample": judgment.sample,
        "status": judgment.status,
        **_answer_columns(judgment),
        "confidence": judgment.confidence,
        "error": judgment.error,
        "text": judgment.completion.text if judgment.completion else None,
        "verdict": None if verdict is None else _decided_value(verdict),
        "verdict_reason": None if verdict is None else verdict.reason,
        **_label_columns(judgment, case, verdict),
    }


def _decided_value(verdict: Verdict) -> Winner | float | str | None:
    """Return the score of a verdict, or else its winner or class; `None` if it is missing."""
    if verdict.score is not None:
        return verdict.score
    return verdict.winner or verdict.class_name


def _response_columns(judgment: Judgment, case: Case) -> Row:
    """Return the columns of the judged responses: one, a pair, or the indices of a list."""
    if len(judgment.unit) == 1:
        (index,) = judgment.unit
        return {
            "response": case.responses[index].text,
            "model": case.responses[index].model,
            "response_index": index,
        }
    if len(judgment.unit) > 2:
        return {
            "unit": json.dumps(list(judgment.unit)),
            "shown": json.dumps(list(judgment.shown)),
        }
    # In the order of the case, whatever order the judge saw; `order` says which that was.
    first, second = (case.responses[index] for index in judgment.unit)
    return {
        "response_a": first.text,
        "response_b": second.text,
        "model_a": first.model,
        "model_b": second.model,
        "unit": json.dumps(list(judgment.unit)),
        "order": "ab" if judgment.shown == judgment.unit else "ba",
    }


def _answer_columns(judgment: Judgment) -> Row:
    """Return the columns of what the judge answered: a class, scores, a ranking or a winner."""
    if judgment.class_name is not None:
        chances = judgment.weighted.classes if judgment.weighted is not None else {}
        return {
            "class": judgment.class_name,
            **{f"probability.{name}": chance for name, chance in chances.items()},
        }
    if len(judgment.unit) == 1:
        return {f"score.{name}": value for name, value in judgment.criteria.items()}
    if len(judgment.unit) > 2:
        return {"ranking": json.dumps(judgment.ranking)}
    margins = {f"margin.{name}": value for name, value in judgment.criteria.items()}
    value = judgment.value
    if value is None:
        return {"winner": None, "margin": None, **margins}
    # A margin near 0 is a tie, since sums of weights are not exact.
    winner = "TIE"
    if value > _CLOSE:
        winner = "A"
    elif value < -_CLOSE:
        winner = "B"
    return {"winner": winner, "margin": value, **margins}


def _label_columns(judgment: Judgment, case: Case, verdict: Verdict | None) -> Row:
    """Return the label of the judged unit, and each annotator's as `label.NAME`.

    A single response has a grade or a class as its label; a pair or a list has the choice between
    its responses. An annotator without a choice has no column here.
    """
    if len(judgment.unit) == 1:
        (index,) = judgment.unit
        by_annotator = {
            name: annotation_grades(annotation) or annotation_classes(annotation)
            for name, annotation in case.labels.items()
        }
        response = case.responses[index]
        label = response.grade if response.class_name is None else response.class_name
        return {"label": label} | {
            f"label.{name}": values[index]
            for name, values in by_annotator.items()
            if values
        }
    choices = (
        (name, choice_for(label, judgment.unit)) for name, label in case.labels.items()
    )
    chosen = {name: choice for name, choice in choices if choice is not None}
    return {"label": verdict and verdict.label} | {
        f"label.{name}": choice for name, choice in chosen.items()
    }


def column(values: list[Any]) -> list[Any]:
    """Return the values of a column of one type; unless all are numbers or all are true
    or false, they become texts.
    """
    # Types and not `isinstance`, because a bool is an int.
    kinds = {type(value) for value in values if value is not None}
    if (
        kinds <= {bool}
        or kinds <= {float}
        or (kinds == {int} and max(abs(value or 0) for value in values) < _INT64)
    ):
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    # An unpaired surrogate cannot be encoded.
    return [
        None if value is None else str(value).encode("utf-8", "replace").decode()
        for value in values
    ]
