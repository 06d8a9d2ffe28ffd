"""Read judgments of any layout: fields by path become cells, and a row of cells becomes a record.

A layout is a table of fields, each a path or a function of the row, or several of which the first
with a value counts. The names of cells imply how their values are read: texts, numbers, winners,
grades or classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.field_mapping import MESSAGES, column_value
from evalkit.datasets.labels import normalize_label
from evalkit.datasets.located_rows import Row
from evalkit.datasets.text import ABSENT, as_messages, is_more_than_text
from evalkit.interop.layouts.judgment_files import LocatedRow, number, spoken, text
from evalkit.interop.layouts.records import (
    NONE,
    NOTHING,
    TIE,
    Answer,
    Options,
    Record,
    RecordedJudgment,
    missing_record,
    parse_winner,
)

Unit = Literal["pair", "response", "class"]
Cells = Json
Getter = str | Callable[[Any], Any]
Field = Getter | tuple[Getter, ...]
MORE_THAN_TEXT: Final = (
    "cases with more than text, whose messages are in the metadata: "
)
"""Note on messages that cannot be shown as text."""
_NO_OPTIONS: Final = Options()
PREFIXES: Final = ("score.", "label.", "metadata.")
"""Beginnings of cells for the scores of criteria, the labels of annotators, and metadata."""
_ALL: Final = (
    "id",
    "prompt",
    "context",
    "reference",
    "text",
    "judge",
    "sample",
    "confidence",
    "label",
    "metadata",
)
CELLS: Final[Mapping[Unit, tuple[str, ...]]] = {
    "pair": (
        *_ALL,
        "response_a",
        "response_b",
        "model_a",
        "model_b",
        "winner",
        "margin",
        "order",
    ),
    "response": (*_ALL, "response", "model", "score", "grade"),
    "class": (*_ALL, "response", "model", "class"),
}
"""The cells of each unit that is judged: a pair, the score of one response, or its class."""
_NAMED: Final = 5
_SWAPPED: Final = {
    "ab": False,
    "ba": True,
    "a": False,
    "b": True,
    "false": False,
    "true": True,
    "0": False,
    "1": True,
}
MARGINS: Final = {"A": 1.0, "B": -1.0, "TIE": 0.0}
"""The margin of each winner."""
_LABELS: Final = {"pair": "labels", "response": "grades", "class": "classes"}


def value_of(row: Row, field: Field) -> Any:
    """Return the value of a field in a row; `None` if there is none.

    Of several, the first with a value counts.
    """
    paths = field if isinstance(field, tuple) else (field,)
    value = None
    # An absent field, an empty text and an empty list all leave the next field a chance.
    for path in paths:
        value = path(row) if callable(path) else column_value(row, path)
        if value is not ABSENT and value not in (None, "", []):
            return value
    # A field with an empty value stays empty: it is not the same as an absent one.
    if value is ABSENT:
        return None
    return value


def cells_of(row: Row, fields: Mapping[str, Field]) -> JsonObject:
    """Return the cells of a row; a cell without a value is absent."""
    values = {name: value_of(row, field) for name, field in fields.items()}
    return {
        name: value for name, value in values.items() if value not in (None, "", [])
    }


def log_cells(case: Row, fields: Mapping[str, Field]) -> JsonObject:
    """Return the cells of a case in a log, with messages if two texts cannot show it.

    Args:
        case: The case.
        fields: Those of `record_of`; also `labels` by annotator, and `messages` other than the
            prompt and the response.
    """
    cells = cells_of(case, fields)
    labels = cells.pop("labels", {})
    cells["prompt"] = spoken(cells.get("prompt"))
    question = as_messages("user", cells["prompt"])
    answer = as_messages("assistant", cells.get("response"))
    messages = cells.pop("messages", None) or [*question, *answer]
    # A conversation, a tool call or an image cannot be shown as two texts.
    has_turns = len(question) > 1 or len(answer) > 1
    if has_turns or is_more_than_text(messages) or _replies(messages) > 1:
        cells["messages"] = messages
    metadata = cells.get("metadata")
    if isinstance(metadata, Mapping) and MESSAGES in metadata:
        cells["metadata"] = _without_messages_key(metadata)
    for annotator, label in labels.items():
        cells[f"label.{annotator}"] = label
    return cells


def _without_messages_key(metadata: Mapping[str, Any]) -> JsonObject:
    """Return metadata with another name for the key under which evalkit writes messages."""
    return {
        f"log {key}" if key == MESSAGES else key: value
        for key, value in metadata.items()
    }


def _replies(messages: Sequence[Any]) -> int:
    return sum(
        isinstance(message, Mapping) and message.get("role") == "assistant"
        for message in messages
    )


def more_than_text(records: Sequence[Record]) -> list[str]:
    """Return a note on the cases with tool calls, images or other content that is not a text."""
    names = dict.fromkeys(
        record.question
        for record in records
        if any(is_more_than_text(response.messages) for response in record.shown)
    )
    if not names:
        return []
    listed = ", ".join([*names][:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return [f"{MORE_THAN_TEXT}{len(names)} ({listed})"]


def record_of(
    cells: Cells,
    location: str,
    unit: Unit,
    options: Options = _NO_OPTIONS,
    question: str = "",
    said: Sequence[RecordedJudgment] = (),
) -> Record:
    """Return the record of a row of cells.

    Args:
        cells: The cells of `CELLS`, with `score.NAME`, `label.ANNOTATOR` and `metadata.KEY`.
            `failure` is why the judge failed, and `error` why there is no verdict. `key`, or
            `key_a` and `key_b`, identify responses, by default by model or text; `grade_a` and
            `grade_b` are the grades of a pair; `answer` is the judge's answer as JSON.
        location: The location of the row.
        unit: What is judged.
        options: The spellings of winners and classes, and the judge of a row that names none.
        question: The name of its question; by default `id`.
        said: The judgments; by default the one in the cells.

    Raises:
        DatasetError: If a cell is not a winner, an order, a grade or a number in its range.
    """
    # A winner may be spelled as the name of a system.
    models = cells.get("model_a"), cells.get("model_b")
    if unit == "pair":
        answers = _pair_answers(cells)
    else:
        answers = (_single_answer(cells, unit, location, options),)
    swapped = unit == "pair" and is_swapped(cells.get("order"), location)

    # What a label is depends on the unit: a response's key, a class or a grade.
    def label(cell: Any) -> Any:
        """Return what a label means: the key of the better answer, a class, or a grade."""
        if unit == "pair":
            winner = parse_winner(cell, models, options.winners, location)
            if winner is None:
                return None
            if winner == "TIE":
                return TIE
            # Index 1 is response B.
            return answers[winner == "B"].key
        if unit == "class":
            return read_class(cell, options)
        return read_grade(cell, location)

    # {annotator: label}, of which those without one are dropped.
    people = {name: label(cell) for name, cell in below("label", cells).items()}
    labels: JsonObject = {
        _LABELS[unit]: {
            name: label for name, label in people.items() if label is not None
        }
    }
    metadata = cells.get("metadata")
    first, *further = said or [judgment_of(cells, unit, location, options)]
    return Record(
        question or str(cells["id"]),
        text(cells.get("prompt")),
        # in the order that the judge saw; labels name responses by key
        answers[::-1] if swapped else answers,
        first,
        better=label(cells.get("label")) if unit == "pair" else None,
        context=text(cells.get("context")) or None,
        reference=text(cells.get("reference")) or None,
        metadata=metadata
        # `type` first: a row of a table has a dict, and `Mapping` takes longer to ask.
        if type(metadata) is dict or isinstance(metadata, Mapping)
        else below("metadata", cells),
        others=tuple(further),
        **labels,
    )


def records_of(
    rows: Iterable[LocatedRow],
    cells: Mapping[str, Field] | Callable[[Any], Iterable[Cells]],
    unit: Unit,
    options: Options,
) -> list[Record]:
    """Return the records of the rows of a published file; the user's judge, if any, is that of all.

    Args:
        rows: The rows.
        cells: The fields of a row that is one judgment, or a function that yields the cells of each
            judgment in a row.
        unit: What is judged.
        options: The user's options.
    """
    judge = {"judge": options.judge} if options.judge else {}
    return [
        record_of({**judgment_cells, **judge}, row.place, unit, options)
        for row in rows
        for judgment_cells in (
            [cells_of(row, cells)] if isinstance(cells, Mapping) else cells(row)
        )
    ]


def decided(
    subject: str, value: Any, margins: Mapping[str, float] = MARGINS
) -> JsonObject:
    """Return the cells of a published decision on a pair: its margin, or that there is
    none for such a value.
    """
    text = str(value)
    if text in margins:
        return {"margin": margins[text]}
    return {"error": f"{subject} is {value}"}


def below(prefix: str, cells: Cells) -> JsonObject:
    """Return the cells of a prefix, such as `score.style`, by the rest of their names."""
    # The prefix ends at the first dot: criteria may contain dots.
    start = f"{prefix}."
    return {
        name.removeprefix(start): cell
        for name, cell in cells.items()
        if name.startswith(start)
    }


def _single_answer(cells: Cells, unit: Unit, location: str, options: Options) -> Answer:
    """Return the response of cells about one response, with its grade or class."""
    model = cells.get("model")
    # A response is identified by its model, or else by its text.
    response = text(cells.get("response"))
    key = str(cells.get("key") or model or response or "1")
    name = None if model is None else str(model)
    messages = cells.get("messages")
    if unit == "class":
        class_name = read_class(cells.get("label"), options)
        return Answer(key, response, name, class_name=class_name, messages=messages)
    grade = read_grade(cells.get("grade" if "grade" in cells else "label"), location)
    return Answer(key, response, name, grade, messages=messages)


def _pair_answers(cells: Cells) -> tuple[Answer, ...]:
    """Return the two responses of cells about a pair."""
    # Two values each: side a, then side b.
    texts = [text(cells.get(f"response_{side}")) for side in "ab"]
    models = [cells.get(f"model_{side}") for side in "ab"]
    keys = [
        str(cells.get(f"key_{side}") or model or response or side)
        for model, response, side in zip(models, texts, "ab", strict=True)
    ]
    # A key identifies a response of a question, so both sides need different ones, even if
    # both are of one model, or equal.
    if keys[0] == keys[1]:
        keys = [f"{key} ({side})" for key, side in zip(keys, "ab", strict=True)]
    return tuple(
        Answer(
            key,
            response,
            None if model is None else str(model),
            number(cells.get(f"grade_{side}")),
        )
        for key, response, model, side in zip(keys, texts, models, "ab", strict=True)
    )


def read_class(cell: Any, options: Options) -> str | None:
    """Return the class in a cell, by the user's spellings; `None` if it is empty or
    states that there is none.
    """
    if cell is None or (name := normalize_label(cell)) == "":
        return None
    # The user's words first: a class may be spelled `none`.
    if name in options.winners:
        if options.winners[name] == NONE:
            return None
        return options.winners[name]
    if name.casefold() in NOTHING:
        return None
    return name


def read_grade(cell: Any, location: str) -> float | None:
    """Return the grade in a cell; `None` if it is empty.

    Raises:
        DatasetError: If it is no number.
    """
    grade = None if cell is None or cell == "" else number(cell)
    if grade is None and cell not in (None, ""):
        raise DatasetError(
            f"'{str(cell)[:60]}' is not a grade",
            where=location,
            remedy="write a number",
        )
    return grade


def is_swapped(value: Any, location: str) -> bool:
    """Return whether a cell says that B was shown first.

    Raises:
        DatasetError: If it is no order.
    """
    # Without an order, A was shown first.
    if value is None or value == "":
        return False
    spelt = str(value).strip().casefold()
    if spelt not in _SWAPPED:
        raise DatasetError(
            f"'{value}' is not an order",
            where=location,
            remedy="write ab, or ba if B was shown first",
        )
    return _SWAPPED[spelt]


def judgment_of(
    cells: Cells,
    unit: Unit,
    location: str,
    options: Options = _NO_OPTIONS,
) -> RecordedJudgment:
    """Return the judgment of a row of cells; see `record_of`."""
    sample = number(cells.get("sample"))
    common: JsonObject = {
        "text": None if cells.get("text") is None else text(cells["text"]),
        "sample": None if sample is None else int(sample),
        "confidence": _within("confidence", cells, 0.0, location),
        "answer": cells.get("answer"),
    }
    # The row's judge, or else the user's.
    judge = str(cells.get("judge") or options.judge or "judge")
    verdict = cells.get("winner")
    if unit == "class":
        verdict = cells.get("class")
        if (name := read_class(verdict, options)) is not None:
            return RecordedJudgment(judge, class_name=name, **common)
    elif unit == "pair":
        if (margin := _margin(cells, location, options)) is not None:
            # The margin is positive for A; records are in the order shown, so a swap turns it.
            return RecordedJudgment(
                judge,
                # Adding 0.0 turns -0.0 into 0.0, which would be written differently.
                value=-margin + 0.0
                if is_swapped(cells.get("order"), location)
                else margin,
                **common,
            )
    else:
        scores = below("score", cells) or {"quality": cells.get("score")}
        valid = {
            name: score
            for name, cell in scores.items()
            if (score := number(cell)) is not None
        }
        # A judgment is valid only if it has all its scores: a mean of some would be another.
        if len(valid) == len(scores):
            return RecordedJudgment(
                judge, scores=valid, weighted=cells.get("weighted"), **common
            )
        verdict = ", ".join(
            str(value) for name, value in scores.items() if name not in valid
        )
    if failure := cells.get("failure"):
        return missing_record(judge, failure, status="failed", **common)
    error = cells.get("error") or (
        "no verdict" if verdict in (None, "") else f"the file says '{verdict}'"
    )
    return missing_record(judge, error, **common)


def _margin(cells: Cells, location: str, options: Options) -> float | None:
    """Return the margin of a pair in the order of its cells; the row's margin must not
    contradict its winner.
    """
    margin = _within("margin", cells, -1.0, location)
    models = (cells.get("model_a"), cells.get("model_b"))
    if (
        winner := parse_winner(cells.get("winner"), models, options.winners, location)
    ) is None:
        return margin
    # The winner decides, and the margin says how clearly, unless it is 0.
    if margin is None or MARGINS[winner] * margin == 0:
        return MARGINS[winner]
    if MARGINS[winner] * margin < 0:
        problem = f"winner {winner} and margin {margin:g} disagree"
        raise DatasetError(
            problem, where=location, remedy="fix the row, or map only one of them"
        )
    return margin


def _within(name: str, cells: Cells, low: float, location: str) -> float | None:
    """Return a number from `low` to 1, so that other scales are not misread."""
    value = number(cells.get(name))
    if value is not None and not low <= value <= 1:
        raise DatasetError(
            f"{name} {value:g} is out of range",
            where=location,
            remedy=f"write it from {low:g} to 1",
        )
    return value
