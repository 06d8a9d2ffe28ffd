"""Import Argilla records as JSON, of version 1 or 2, nested or flat: responses are
labels, suggestions judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject, mapping_of
from evalkit.datasets.messages import json_value
from evalkit.datasets.text import written_value
from evalkit.interop.layouts.assessments import Assessed, merged, read_assessed
from evalkit.interop.layouts.criteria import (
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.free_columns import text_cells, with_raters_in_data
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_RESPONSES: Final = ".responses"
_SUGGESTION: Final = ".suggestion"
_OLD_SUGGESTION: Final = "-suggestion"
_OF_OLD_RECORDS: Final = {
    *("prediction", "prediction_agent"),
    *("annotation", "annotation_agent"),
}
"""Keys of records of text classification before feedback datasets."""
_OF_ENTRY: Final = frozenset(
    {"values", "status", "user_id", "question_name", "question"}
)
"""Keys of a response or a suggestion in a list, at least one of which it has."""
_SUBMITTED: Final = (None, "submitted")
_OMITTED: Final = "responses that are drafts or discarded, omitted"
_UNREAD: Final = "responses that are not one word or number, omitted"
_OWN: Final = frozenset(
    {
        *("id", "_server_id", "external_id", "metadata", "vectors", "status", "fields"),
        *("responses", "suggestions", "inserted_at", "updated_at"),
        *("inputs", "prediction", "prediction_agent", "annotation", "multi_label"),
        *("annotation_agent", "explanation", "event_timestamp", "metrics"),
    }
)


def _sniff(start: Peek) -> bool:
    row = start.row
    if isinstance(row.get("fields"), Mapping):
        given = [row[name] for name in ("responses", "suggestions") if name in row]
        return bool(given) and all(map(_are_answers, given))
    if row.keys() >= _OF_OLD_RECORDS:
        return True
    return any(
        key.endswith((_RESPONSES, ".responses.users"))
        or (key.endswith(_OLD_SUGGESTION) and f"{key}-metadata" in row)
        for key in map(str, row)
    )


def _are_answers(given: Any) -> bool:
    """Return whether responses or suggestions are lists, or objects by question, as Argilla
    writes them: `{"human": "good"}` is of another tool.
    """
    if given is None:
        return True
    if isinstance(given, list):
        entries = [entry for entry in given if isinstance(entry, Mapping)]
        return not any(_OF_ENTRY.isdisjoint(map(str, entry)) for entry in entries)
    return isinstance(given, Mapping) and all(
        isinstance(answers, list | Mapping | None) for answers in given.values()
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each record and judge.

    Submitted responses are labels by their user; drafts and discarded ones are counted. A
    suggestion is the verdict of its agent. Without any, fields and metadata can be judges.
    """
    tally: Counter[str] = Counter()
    units = []
    data = []
    for index, (_, row) in enumerate(rows_of(path)):
        fields = _fields(row)
        metadata = dict(mapping_of(json_value(row.get("metadata"))))
        entries = tuple(_given(row, tally))
        cells: JsonObject = {
            **text_cells(fields),
            "id": str(row.get("id") or row.get("external_id") or index),
            "metadata": metadata,
        }
        units.append(Assessed(cells, entries))
        data.append({**fields, **metadata})
    notes = [f"{note}: {count}" for note, count in tally.items()]
    units = with_raters_in_data(units, data, options)
    return read_assessed(path, merged(units), options, notes)


def _fields(row: Json) -> JsonObject:
    """Return the texts under judgment: `fields`, or the columns that are not about a question."""
    fields = row.get("fields")
    if isinstance(fields, Mapping):
        return dict(fields)
    questions = _questions(row)
    return {
        name: value
        for name, value in row.items()
        if name not in _OWN
        and name not in questions
        and not any(name.startswith((f"{item}.", f"{item}-")) for item in questions)
    }


def _questions(row: Json) -> list[str]:
    """Return the questions of a flat record."""
    ends = (".responses", ".responses.users", ".suggestion", _OLD_SUGGESTION)
    return [
        name.removesuffix(end)
        for end in ends
        for name in map(str, row)
        if name.endswith(end)
    ]


def _given(row: Json, tally: Counter[str]) -> Iterator[Assessment]:
    if row.keys() >= _OF_OLD_RECORDS:
        yield from _of_old_record(row, tally)
        return
    yield from _annotator_verdicts(row, tally)
    yield from _judge_verdicts(row)


def _of_old_record(row: Json, tally: Counter[str]) -> Iterator[Assessment]:
    """Yield the annotation of a record of text classification, and the most likely
    label of its prediction.
    """
    user = str(row.get("annotation_agent") or "annotator")
    status = row.get("status")
    if status == "Discarded":
        tally[_OMITTED] += 1
    else:
        yield from _read_value("label", user, PERSON, row.get("annotation"), tally)
    agent = str(row.get("prediction_agent") or "prediction")
    likely = [
        (number(score) or 0.0, label)
        for label, score in map(_likely, _list(row.get("prediction")))
    ]
    # The first of equally likely labels, as in Argilla.
    best = max(likely, key=lambda pair: pair[0], default=(0.0, None))
    yield from _read_value("label", agent, JUDGE, best[1], tally)


def _likely(item: Any) -> tuple[Any, Any]:
    """Return a predicted label with its probability: an object, or a pair."""
    if isinstance(item, Mapping):
        return item.get("label"), item.get("score")
    if isinstance(item, list | tuple) and len(item) == 2:
        return item[0], item[1]
    return None, None


def _annotator_verdicts(row: Json, tally: Counter[str]) -> Iterator[Assessment]:
    """Yield what annotators answered to each question, in any of the three layouts of Argilla."""
    responses = row.get("responses")
    # Version 2: answers by question.
    if isinstance(responses, Mapping):
        for question, answers in responses.items():
            for answer in answers if isinstance(answers, list) else []:
                if isinstance(answer, Mapping):
                    yield from _response(question, answer, tally)
    # Version 1: a list of annotators, each with values by question.
    for response in responses if isinstance(responses, list) else []:
        values = response.get("values") if isinstance(response, Mapping) else None
        for question, value in mapping_of(values).items():
            inner = value.get("value") if isinstance(value, Mapping) else value
            yield from _response(question, {**response, "value": inner}, tally)
    # Exports for data sets: columns such as `quality.responses`.
    for question in dict.fromkeys(_questions(row)):
        yield from _flat_responses(row, question, tally)


def _flat_responses(
    row: Json, question: str, tally: Counter[str]
) -> Iterator[Assessment]:
    """Yield the responses in the columns of a question: lists of values, users and statuses."""
    name = f"{question}{_RESPONSES}"
    values = row.get(name)
    users = row.get(f"{name}.users")
    statuses = row.get(f"{name}.status")
    old = row.get(question)
    if isinstance(old, Mapping) and "value" in old:
        values = old["value"]
        users = old.get("user_id")
        statuses = old.get("status")
    elif isinstance(old, list):
        for answer in old:
            if isinstance(answer, Mapping):
                yield from _response(question, answer, tally)
    for value, user, status in zip_longest(*map(_list, (values, users, statuses))):
        answer = {"value": value, "user_id": user, "status": status}
        yield from _response(question, answer, tally)


def _list(value: Any) -> list[Any]:
    """Return a list, or what a cell of a table has of it: a text of a list, or its only value."""
    if isinstance(value, str):
        return _listed(value)
    if isinstance(value, list):
        return value
    return []


def _listed(text: str) -> list[Any]:
    if not text.strip().startswith("["):
        return [text] if text.strip() else []
    try:
        value = written_value(text)
    except ValueError:
        return []
    if isinstance(value, list):
        return value
    return []


def _response(question: Any, answer: Json, tally: Counter[str]) -> Iterator[Assessment]:
    if answer.get("status") not in _SUBMITTED:
        tally[_OMITTED] += 1
        return
    user = answer.get("user_id") or "annotator"
    yield from _read_value(str(question), str(user), PERSON, answer.get("value"), tally)


def _judge_verdicts(row: Json) -> Iterator[Assessment]:
    """Yield what models suggested for each question, in any layout of Argilla."""
    # What suggestions omit is not reported: annotators decide.
    tally: Counter[str] = Counter()
    suggestions = row.get("suggestions")
    if isinstance(suggestions, Mapping):
        suggestions = [
            {
                "question_name": name,
                **(item if isinstance(item, Mapping) else {"value": item}),
            }
            for name, item in suggestions.items()
        ]
    for item in _list(suggestions):
        if isinstance(item, Mapping):
            name = str(item.get("question_name"))
            agent = str(item.get("agent") or "suggestion")
            yield from _read_value(name, agent, JUDGE, item.get("value"), tally)
    for question in dict.fromkeys(_questions(row)):
        for end in (_SUGGESTION, _OLD_SUGGESTION):
            value = row.get(f"{question}{end}")
            metadata = row.get(f"{question}{end}-metadata")
            named: Any = row.get(f"{question}{end}.agent")
            if isinstance(metadata, Mapping):
                named = metadata.get("agent")
            if value is not None:
                name = str(named or "suggestion")
                yield from _read_value(question, name, JUDGE, value, tally)


def _read_value(
    question: str, rater: str, source: Source, value: Any, tally: Counter[str]
) -> Iterator[Assessment]:
    entry = assessment(question, rater, source, value)
    if entry.word is not None or entry.score is not None:
        yield entry
    elif value is not None:
        tally[_UNREAD] += 1


IMPORTER: Final = Importer(
    "argilla",
    "Argilla's records as JSON, nested or flat: responses are labels, suggestions judges",
    _sniff,
    _read_records,
    is_log=True,
)
