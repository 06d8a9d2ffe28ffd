"""Import preference data with scores: the chosen response is the label, and scores of
both a judge of the pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, TypeGuard

from evalkit.core.values import Json, JsonObject
from evalkit.datasets.text import is_conversation
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import (
    JUDGE,
    PERSON,
    Assessment,
    Source,
    assessment,
)
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.rater_names import is_persons
from evalkit.interop.layouts.records import UNORDERED, Importer, Options, ParsedFile

_CHOSEN: Final = "chosen"
_REJECTED: Final = "rejected"
_OF_PAIR: Final = frozenset(
    {
        *(_CHOSEN, _REJECTED, "chosen_model", "rejected_model"),
        *("prompt", "instruction", "question", "input", "system", "history"),
        *("id", "prompt_id", "source", "subset", "domain", "language", "category"),
    }
)
"""Columns of a pair without verdicts."""
_PROMPTS: Final = ("prompt", "instruction", "question", "input", "history")
"""Columns of the prompt, in order."""
_TURN: Final = "\n\nAssistant:"
"""What is before each answer in a transcript, as in HH-RLHF."""
_CRITERION: Final = "preference"
_VERDICTS: Final = {
    **dict.fromkeys(("chosen", "good", "right"), 1),
    **dict.fromkeys(("rejected", "bad", "wrong"), -1),
    **dict.fromkeys(("tie", "both", "same", "equal"), 0),
}
_DERIVED: Final = (
    "scores that prefer the chosen response in every row, "
    "omitted: it may have been chosen by them"
)


def _score_columns(names: Sequence[str]) -> dict[str, str]:
    """Return the column of the chosen response's scores, with that of the rejected one's."""
    present = {*names}
    pairs = {}
    for name in names:
        if name != _CHOSEN and _CHOSEN in name:
            partner = name.replace(_CHOSEN, _REJECTED)
            if partner in present:
                pairs[name] = partner
    return pairs


def _pairs_in(row: JsonObject) -> list[JsonObject]:
    """Return the pairs of a row: one, or one for each position of lists of responses."""
    chosen = row.get(_CHOSEN)
    rejected = row.get(_REJECTED)
    if not _are_texts(chosen) or not _are_texts(rejected):
        return [_with_own_scores(row)]
    size = len(chosen)
    if len(rejected) != size:
        return [_with_own_scores(row)]
    pairs = []
    for position in range(size):
        pair: JsonObject = {}
        for name, value in row.items():
            by_position = isinstance(value, list) and len(value) == size
            pair[name] = value[position] if by_position else value
        name_of_row = row.get("prompt_id") or row.get("id")
        if name_of_row is not None:
            pair["prompt_id"] = f"{name_of_row}/{position}"
        pairs.append(pair)
    return pairs


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _with_own_scores(row: JsonObject) -> JsonObject:
    """Return a row in which scores in a list are those of the chosen and the rejected response.

    They are in the order of another list with both, such as `generations`.
    """
    answers = [_answer(row.get(_CHOSEN)), _answer(row.get(_REJECTED))]
    order = []
    for value in row.values():
        if _are_texts(value) and sorted(value) == sorted(answers):
            order = [value.index(answer) for answer in answers]
    added: JsonObject = {}
    if not order:
        return row
    chosen, rejected = order
    for name, value in row.items():
        if not isinstance(value, list) or len(value) != len(order):
            continue
        if all(number(score) is not None for score in value):
            added[f"{name}_{_CHOSEN}"] = value[chosen]
            added[f"{name}_{_REJECTED}"] = value[rejected]
    return {**row, **added}


def _sniff(start: Peek) -> bool:
    if not start.has(_CHOSEN, _REJECTED):
        return False
    # The first pair of a row with lists, or the row.
    pairs = _pairs_in(dict(start.row))
    row = pairs[0] if pairs else start.row
    columns = _score_columns([str(name) for name in row])
    is_scored = any(_sign(row, *names) is not None for names in columns.items())
    if is_scored:
        return True
    words = [str(value).casefold() for value in row.values()]
    is_judged = _CHOSEN in words or _REJECTED in words
    return is_judged or _is_bare(row)


def _is_bare(row: Json) -> bool:
    """Return whether a row has both responses, and no column that could be a verdict."""
    responses = (row.get(_CHOSEN), row.get(_REJECTED))
    are_texts = all(
        bool(response) and (isinstance(response, str) or is_conversation(response))
        for response in responses
    )
    return are_texts and {*map(str, row)} <= _OF_PAIR


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each pair and judge.

    Scores of both responses are a judge that prefers the higher one. Columns that say chosen or
    rejected are judges too. Every second pair is turned around, so that the chosen response is not
    always the first.
    """
    rows = [pair for _, row in rows_of(path) for pair in _pairs_in(row)]
    distinct_names = dict.fromkeys(name for row in rows for name in row)
    names = [str(name) for name in distinct_names]
    scores = {
        chosen: rejected
        for chosen, rejected in _score_columns(names).items()
        # Other columns of both responses, such as their models, are no scores.
        if any(_sign(row, chosen, rejected) is not None for row in rows)
    }
    derived = [name for name in scores if _is_derived(rows, name, scores[name])]
    judges = [name for name in scores if name not in derived or name == options.judge]
    columns = [name for name in names if _is_verdicts(rows, name)]
    people = [name for name in columns if is_persons(name)]
    verdicts = {_CHOSEN, _REJECTED, *scores, *scores.values(), *columns}
    units = []
    for index, row in enumerate(rows):
        turned = index % 2 == 1
        entries = [
            _preferred(name, _word_sign(row, name), PERSON, turned=turned)
            for name in people
        ]
        # People who judge the pair were not those who chose.
        if not people:
            entries.append(_preferred(_CHOSEN, 1, PERSON, turned=turned))
        entries += [
            _preferred(name, _sign(row, name, scores[name]), JUDGE, turned=turned)
            for name in judges
        ]
        entries += [
            _preferred(name, _word_sign(row, name), JUDGE, turned=turned)
            for name in columns
            if name not in people
        ]
        cells = _cells(row, index, verdicts, turned=turned)
        units.append(Assessed(cells, tuple(entries)))
    omitted = [name for name in derived if name not in judges]
    notes = [f"{_DERIVED}: {', '.join(omitted)}"] if omitted else []
    needs = "a judge's verdicts"
    if omitted:
        listed = ", ".join(f"'{name}'" for name in omitted)
        needs += f" other than {listed}, by which the responses may have been chosen"
    return read_assessed(path, units, options, [UNORDERED, *notes], needs=needs)


def _preferred(
    name: str, sign: int | None, source: Source, *, turned: bool
) -> Assessment:
    value = None if sign is None else _side(sign, turned=turned)
    return assessment(_CRITERION, name, source, value)


def _word_sign(row: Json, name: str) -> int | None:
    return _VERDICTS.get(str(row.get(name)).casefold())


def _side(sign: int, *, turned: bool) -> str:
    """Return the side of a pair that is preferred: 1 is the chosen response, -1 the
    rejected one.
    """
    if sign == 0:
        return "TIE"
    if (sign > 0) != turned:
        return "A"
    return "B"


def _sign(row: Json, chosen: str, rejected: str) -> int | None:
    first = number(row.get(chosen))
    second = number(row.get(rejected))
    if first is None or second is None:
        return None
    return (first > second) - (first < second)


def _is_derived(rows: Sequence[Json], chosen: str, rejected: str) -> bool:
    signs = {_sign(row, chosen, rejected) for row in rows} - {None}
    # Of equal scores, either one may have been chosen.
    return -1 not in signs


def _is_verdicts(rows: Sequence[Json], name: str) -> bool:
    cells = [row.get(name) for row in rows]
    words = {str(cell).casefold() for cell in cells if cell not in (None, "")}
    return bool(words) and words <= _VERDICTS.keys()


def _cells(row: Json, index: int, verdicts: Set[str], *, turned: bool) -> JsonObject:
    """Return the texts of a preference, with the chosen response as A.

    Args:
        row: The row.
        index: The id, if the row has none.
        verdicts: The columns that are not metadata.
        turned: Whether the chosen response is B instead: A would win each time.
    """
    responses = [_answer(row.get(_CHOSEN)), _answer(row.get(_REJECTED))]
    prompt: Any = next((row[key] for key in _PROMPTS if key in row), None)
    if prompt is None and (transcript := _shared_transcript(*responses)):
        prompt = transcript
        responses = [response[len(transcript) :].strip() for response in responses]
    if turned:
        responses.reverse()
    # Without a prompt, it is what the chosen conversation has before its last message.
    messages = row.get(_CHOSEN)
    if prompt is None and is_conversation(messages) and isinstance(messages, list):
        prompt = messages[:-1]
    return {
        "id": str(row.get("prompt_id") or row.get("id") or index),
        "prompt": text(prompt),
        "response_a": responses[0],
        "response_b": responses[1],
        "metadata": {
            name: value
            for name, value in row.items()
            if isinstance(value, str | int | float) and name not in verdicts
        },
    }


def _shared_transcript(first: str, second: str) -> str:
    """Return what two transcripts share before their last answers; "" for other texts."""
    # What is after the last mark is an answer, equal or not.
    *turns, _ = first.split(_TURN)
    *turns_of_second, _ = second.split(_TURN)
    shared = ""
    for turn, other in zip(turns, turns_of_second, strict=False):
        if turn != other:
            break
        shared += turn + _TURN
    return shared


def _answer(value: Any) -> str:
    """Return the last message of a conversation, or the text."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        return text(value[-1].get("content"))
    return text(value)


IMPORTER: Final = Importer(
    "preferences",
    "chosen and rejected responses with scores of both",
    _sniff,
    _read_records,
    is_log=True,
)
