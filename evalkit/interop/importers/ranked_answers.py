"""Import lists of answers to a prompt, each with its rank, as pairs: Nectar's by GPT-4, or
ranks whose names say who gave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.rater_names import is_judges, is_labels, words_of
from evalkit.interop.layouts.records import UNORDERED, Importer, Options, ParsedFile

_RANK: Final = "rank"
_NECTAR: Final = frozenset({"prompt", "answers", "num_responses", "good_natured"})
"""Columns as Nectar is published: its ranks are GPT-4's."""
_RANKER: Final = "gpt-4"
_LISTS: Final = ("answers", "responses", "completions", "candidates", "outputs")
_PROMPTS: Final = ("prompt", "question", "instruction", "query", "input")
_IDS: Final = ("id", "prompt_id")
_TEXTS: Final = ("answer", "response", "text", "output", "completion", "content")
_CRITERION: Final = "preference"
_MOST_ANSWERS: Final = 30
"""More answers of one prompt are not compared: they have too many pairs."""


def _sniff(start: Peek) -> bool:
    answers = _answers(start.row)
    names = _ranks(answers)
    if len(answers) < 2 or not names:
        return False
    if not any(map(_text, answers)):
        return False
    if names == [_RANK]:
        return start.row.keys() >= _NECTAR
    return all(is_labels(name) != is_judges(name) for name in names)


def _answers(row: Json) -> list[Json]:
    """Return the first list of objects in a row that may be answers."""
    for key in _LISTS:
        value = row.get(key)
        if not isinstance(value, list):
            continue
        answers = [answer for answer in value if isinstance(answer, Mapping)]
        # A list of other things has no answers with ranks.
        if answers and len(answers) == len(value):
            return answers
    return []


def _ranks(answers: Sequence[Json]) -> list[str]:
    """Return the keys of ranks, in the order of the file."""
    names: dict[str, None] = {}
    for answer in answers:
        for name in answer:
            if _RANK in words_of(str(name)):
                names[str(name)] = None
    return [*names]


def _text(answer: Json) -> str:
    return text(_first(answer, _TEXTS))


def _first(row: Json, keys: Sequence[str]) -> Any:
    """Return the first value of several keys that is there."""
    for key in keys:
        if row.get(key):
            return row[key]
    return None


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each two answers to a prompt and each judge that ranks.

    Every second pair is turned around: files list the best answer first, so that A would win each
    time.
    """
    units: list[Assessed] = []
    omitted = 0
    for index, (_, row) in enumerate(rows_of(path)):
        answers = _answers(row)
        omitted += len(answers[_MOST_ANSWERS:])
        pairs = combinations(enumerate(answers[:_MOST_ANSWERS]), 2)
        for first, second in pairs:
            sides = [first, second]
            if len(units) % 2:
                sides.reverse()
            units.append(_unit(row, index, sides))
    notes = [UNORDERED]
    if omitted:
        notes.append(
            f"answers after the first {_MOST_ANSWERS} of their prompt, omitted: {omitted:,}"
        )
    return read_assessed(path, units, options, notes)


def _unit(row: Json, index: int, sides: Sequence[tuple[int, Json]]) -> Assessed:
    (first, answer_a), (second, answer_b) = sides
    row_id = _first(row, _IDS) or index
    lower, higher = sorted((first, second))
    metadata = {
        key: value
        for key, value in row.items()
        if isinstance(value, str | int | float) and key not in _PROMPTS
    }
    cells: JsonObject = {
        "id": f"{row_id}/{lower}/{higher}",
        "prompt": text(_first(row, _PROMPTS)),
        "response_a": _text(answer_a),
        "response_b": _text(answer_b),
        "model_a": answer_a.get("model"),
        "model_b": answer_b.get("model"),
        "metadata": metadata,
    }
    entries = tuple(_assessments(answer_a, answer_b))
    return Assessed(cells, entries)


def _assessments(first: Json, second: Json) -> Iterator[Assessment]:
    """Yield which of two answers each ranker prefers: the one of the lower rank."""
    for name in _ranks([first, second]):
        source: Source = PERSON if is_labels(name) else JUDGE
        rater = _RANKER if name == _RANK else name
        winner = _winner(
            number(first.get(name)),
            number(second.get(name)),
        )
        yield assessment(_CRITERION, rater, source, winner)


def _winner(first: float | None, second: float | None) -> str | None:
    if first is None or second is None:
        return None
    if first == second:
        return "TIE"
    return "A" if first < second else "B"


IMPORTER: Final = Importer(
    "ranked_answers",
    "answers to a prompt with ranks, as pairs: Nectar's, or ranks named after their rater",
    _sniff,
    _read_records,
    is_log=True,
)
