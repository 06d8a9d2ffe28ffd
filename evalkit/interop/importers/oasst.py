"""Import OpenAssistant conversations: people's ranks of the replies to one message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import PERSON, assessment
from evalkit.interop.layouts.judgment_files import Peek, number, rows_of, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_MESSAGE: Final = frozenset({"message_id", "parent_id", "text", "role", "rank"})
_MORE: Final = frozenset(
    {
        *(
            "user_id",
            "created_date",
            "lang",
            "review_count",
            "review_result",
            "deleted",
        ),
        *("synthetic", "model_name", "detoxify", "message_tree_id", "tree_state"),
        *("emojis", "labels", "events", "__index_level_0__"),
    }
)
"""Columns as published. Another could be a judge's, so that rows with one are a table."""
_TREE: Final = frozenset({"message_tree_id", "prompt"})
_ASSISTANT: Final = "assistant"
_MOST_REPLIES: Final = 200
"""A message with more replies is no message of people, and its pairs would be too many."""


def _sniff(start: Peek) -> bool:
    row = start.row
    prompt = row.get("prompt")
    if isinstance(prompt, Mapping):
        is_tree = _TREE <= row.keys() <= _TREE | {"tree_state", "origin"}
        return is_tree and "replies" in prompt and "text" in prompt
    return _MESSAGE <= row.keys() <= _MESSAGE | _MORE


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each two ranked replies to a message, in the order of the file."""
    rows = [row for _, row in rows_of(path)]
    messages = [message for row in rows for message in _messages(row)]
    texts = {
        str(message.get("message_id")): message.get("text") for message in messages
    }
    replies: dict[str, list[Json]] = {}
    for message in messages:
        if message.get("role") == _ASSISTANT and message.get("parent_id") is not None:
            replies.setdefault(str(message["parent_id"]), []).append(message)
    units: list[Assessed] = []
    for parent, answers in replies.items():
        units += _pairs(parent, texts.get(parent), answers, len(units))
    unranked = _unranked(replies)
    notes = []
    if unranked:
        notes.append(
            f"replies without a rank, or without another ranked one: {unranked}"
        )
    return read_assessed(path, units, options, notes)


def _messages(row: Json) -> Iterator[Json]:
    """Yield the messages of a row, which is a message or a tree of them."""
    prompt = row.get("prompt")
    # A stack, and no recursion: a tree may be deeper than Python's.
    waiting: list[tuple[Json, str | None]] = [(row, None)]
    if isinstance(prompt, Mapping):
        waiting = [(prompt, None)]
    while waiting:
        message, parent = waiting.pop()
        stated = message.get("parent_id")
        yield {**message, "parent_id": parent if stated is None else stated}
        answers = message.get("replies")
        if isinstance(answers, list):
            message_id = str(message.get("message_id"))
            children = [reply for reply in answers if isinstance(reply, Mapping)]
            waiting += [(reply, message_id) for reply in reversed(children)]


def _pairs(
    parent: str, prompt: object, answers: Sequence[Json], before: int
) -> Iterator[Assessed]:
    """Yield each two ranked replies. Every second pair is turned around: files list the best
    reply first, so that A would win each time.
    """
    ranked = _ranked(answers)
    for index, (first_rank, first) in enumerate(ranked):
        for second_rank, second in ranked[index + 1 :]:
            sides = [(first_rank, first), (second_rank, second)]
            if before % 2:
                sides.reverse()
            before += 1
            yield _unit(parent, prompt, sides)


def _ranked(answers: Sequence[Json]) -> list[tuple[float, Json]]:
    ranks = [(number(answer.get("rank")), answer) for answer in answers]
    return [(rank, answer) for rank, answer in ranks if rank is not None][
        :_MOST_REPLIES
    ]


def _unranked(replies: Mapping[str, Sequence[Json]]) -> int:
    total = 0
    for answers in replies.values():
        ranked = len(_ranked(answers))
        total += len(answers) - (ranked if ranked > 1 else 0)
    return total


def _unit(parent: str, prompt: object, sides: Sequence[tuple[float, Json]]) -> Assessed:
    (first_rank, first), (second_rank, second) = sides
    winner = "TIE"
    if first_rank != second_rank:
        winner = "A" if first_rank < second_rank else "B"
    cells: JsonObject = {
        "id": f"{first.get('message_id')}/{second.get('message_id')}",
        "prompt": text(prompt),
        "response_a": text(first.get("text")),
        "response_b": text(second.get("text")),
        "metadata": {"message": parent, "lang": first.get("lang")},
    }
    return Assessed(cells, (assessment("rank", "annotators", PERSON, winner),))


IMPORTER: Final = Importer(
    "oasst",
    "OpenAssistant messages or trees: people's ranks of replies, as pairs",
    _sniff,
    _read_records,
    is_log=True,
)
