"""Import Bedrock's evaluation jobs as JSONL: each metric of the evaluator model is a
judge's score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_at, mapping_of
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, PERSON, Assessment, assessment
from evalkit.interop.layouts.free_columns import with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, rows_of, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_RESULTS: Final = "automatedEvaluationResult", "humanEvaluationResult"
_TURNS: Final = "conversationTurns"
_ANSWERS: Final = "humanAnswers"


def _sniff(start: Peek) -> bool:
    return any(key in start.row for key in (*_RESULTS, _ANSWERS)) or (
        _TURNS in start.row and isinstance(start.row[_TURNS], list)
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each prompt, or turn of a retrieval job, and evaluator model."""
    units: list[Assessed] = []
    data: list[Json] = []
    for index, (_, row) in enumerate(rows_of(path)):
        turns = row.get(_TURNS)
        for part in turns if isinstance(turns, list) else [row]:
            if isinstance(part, Mapping):
                units.append(_assessed_row(part, len(units) if turns else index))
                data.append(_columns(part))
    return read_assessed(path, with_raters_in_data(units, data, options), options)


def _columns(part: Json) -> Json:
    """Return the columns of the input record, and those that were added to the row."""
    record = part.get("inputRecord")
    added = {
        key: value
        for key, value in part.items()
        if isinstance(value, str | int | float)
    }
    return {**added, **mapping_of(record)}


def _assessed_row(part: Json, index: int) -> Assessed:
    """Return the texts of a row, and what judges or annotators said about them."""
    record = mapping_at(part, "inputRecord")
    responses = part.get("modelResponses")
    response: Any = {}
    if isinstance(responses, list) and responses:
        response = responses[0]
    output = part.get("output")
    if isinstance(output, Mapping):
        response = {"response": output.get("text"), **output}
    response = mapping_of(response)
    cells: JsonObject = {
        "id": str(record.get("id", index)),
        "prompt": text(record.get("prompt")),
        "response": text(response.get("response")),
        "reference": text(
            record.get("referenceResponse") or record.get("referenceResponses")
        ),
        "model": response.get("modelIdentifier"),
        "metadata": {
            key: value
            for key, value in record.items()
            if isinstance(value, str | int | float)
        },
    }
    return Assessed(cells, tuple(_given(part)))


def _given(part: Json) -> Iterator[Assessment]:
    listed: list[tuple[Any, bool]] = [(part.get("results"), False)]
    for key in _RESULTS:
        result = part.get(key)
        if isinstance(result, Mapping):
            listed.append((result.get("scores"), key.startswith("human")))
    yield from _by_workers(part)
    for scores, by_people in listed:
        for score in scores if isinstance(scores, list) else []:
            if isinstance(score, Mapping):
                yield _assess(score, by_people=by_people)


def _by_workers(part: Json) -> Iterator[Assessment]:
    """Yield what each worker of a human evaluation said about the first response."""
    evaluated = part.get("humanEvaluationResult")
    holder = evaluated if isinstance(evaluated, Mapping) else part
    answers = holder.get(_ANSWERS)
    for answer in answers if isinstance(answers, list) else []:
        content = answer.get("answerContent") if isinstance(answer, Mapping) else None
        results = (
            content.get("evaluationResults") if isinstance(content, Mapping) else None
        )
        for given in results.values() if isinstance(results, Mapping) else ():
            for entry in given if isinstance(given, list) else []:
                is_first = isinstance(entry, Mapping) and (
                    str(entry.get("modelResponseId", "0")) == "0"
                )
                if is_first:
                    worker = answer.get("workerId") or "annotator"
                    name = str(entry.get("metricName")).removeprefix("Builtin.")
                    yield assessment(name, worker, PERSON, entry.get("result"))


def _assess(score: Json, *, by_people: bool) -> Assessment:
    """Return the assessment of a score; its first evaluator names the rater."""
    details = score.get("evaluatorDetails")
    detail: Any = {}
    if isinstance(details, list) and details:
        detail = details[0]
    detail = mapping_of(detail)
    name = str(score.get("metricName") or score.get("name")).removeprefix("Builtin.")
    rater = detail.get("modelIdentifier") or detail.get("workerId")
    return assessment(
        name,
        rater or ("annotator" if by_people else "evaluator"),
        PERSON if by_people else JUDGE,
        score.get("result"),
        reason=detail.get("explanation"),
    )


IMPORTER: Final = Importer(
    "bedrock",
    "the output of Bedrock's evaluation jobs, JSONL",
    _sniff,
    _read_records,
    is_log=True,
)
