"""Import votes of LMArena (33k, 140k): people's votes on pairs of conversations are
labels, other winners judges'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.core.values import Json, JsonObject
from evalkit.datasets.messages import json_value
from evalkit.interop.layouts.assessments import Assessed, read_assessed
from evalkit.interop.layouts.criteria import JUDGE, PERSON, assessment
from evalkit.interop.layouts.judgment_files import Peek, rows_of, text
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_WINNERS: Final = {
    **dict.fromkeys(("model_a", "a"), "A"),
    **dict.fromkeys(("model_b", "b"), "B"),
    **dict.fromkeys(
        ("tie", "tie (bothbad)", "both_bad", "bothbad", "tie (both bad)", "both bad"),
        "TIE",
    ),
}
_CRITERION: Final = "winner"
_OF_VOTE: Final = ("winner", "model_a", "model_b")
_METADATA: Final = ("turn", "language", "judge", "is_code", "anony", "category_tag")


def _sniff(start: Peek) -> bool:
    row = start.row
    if not start.has("model_a", "model_b", "winner"):
        return False
    conversations = "conversation_a" in row and "conversation_b" in row
    is_vote = any(
        key in row for key in ("tstamp", "anony", "evaluation_session_id", "language")
    )
    return conversations and is_vote


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each battle and judge; both kinds of ties are ties."""
    rows = [row for _, row in rows_of(path)]
    judges = _judges(rows, options)
    units = [
        Assessed(
            _cells(row, index),
            (
                assessment(
                    _CRITERION, "votes", PERSON, _winner(row, row.get("winner"))
                ),
                *(
                    assessment(_CRITERION, name, JUDGE, _winner(row, row.get(name)))
                    for name in judges
                ),
            ),
        )
        for index, row in enumerate(rows)
    ]
    bad = sum("bad" in str(row.get("winner")) for row in rows)
    if bad:
        notes = [f"votes that both are bad, read as ties: {bad} of {len(rows)}"]
    else:
        notes = []
    present = Options(answers=options.answers) if options.judge in judges else options
    return read_assessed(path, units, present, notes)


def _judges(rows: Sequence[Json], options: Options) -> list[str]:
    """Return the columns in which every value is a winner."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = []
    for name in names:
        winners = [
            _winner(row, row[name]) for row in rows if row.get(name) not in (None, "")
        ]
        # Every value names a winner: the verdicts of a judge.
        if name not in _OF_VOTE and winners and None not in winners:
            columns.append(name)
    if options.judge in columns:
        return [options.judge]
    return columns


def _winner(row: Json, value: Any) -> str | None:
    """Return the winner of a battle by its side or by the name of its model."""
    if value is None:
        return None
    if value in (row.get("model_a"), row.get("model_b")):
        # Two equal names do not say which side won.
        if row.get("model_a") == row.get("model_b"):
            return None
        if value == row.get("model_a"):
            return "A"
        return "B"
    return _WINNERS.get(str(value).strip().casefold())


def _answers(turns: Sequence[Json]) -> str:
    """Return all texts of the model in a conversation."""
    return "\n\n".join(
        text(turn.get("content")) for turn in turns if turn.get("role") == "assistant"
    )


def _cells(row: Json, index: int) -> JsonObject:
    """Return the texts of a battle: the last prompt, and all that each model answered."""
    sides = {side: _turns(row.get(f"conversation_{side}")) for side in "ab"}
    # The last turn of the user is what was voted on.
    user_turns = [turn for turn in sides["a"] if turn.get("role") == "user"]
    return {
        "id": str(row.get("question_id") or row.get("id") or index),
        "prompt": text(user_turns[-1].get("content")) if user_turns else "",
        "response_a": _answers(sides["a"]),
        "response_b": _answers(sides["b"]),
        "model_a": row.get("model_a"),
        "model_b": row.get("model_b"),
        "metadata": {key: row[key] for key in _METADATA if key in row},
    }


def _turns(conversation: Any) -> list[Json]:
    listed = json_value(conversation)
    turns = listed if isinstance(listed, list) else []
    return [turn for turn in turns if isinstance(turn, Mapping)]


IMPORTER: Final = Importer(
    "lmarena",
    "LMArena's votes on pairs of conversations: people's labels, with other winners as judges",
    _sniff,
    _read_records,
    is_log=True,
)
