"""Pairs whose two responses are in columns named after who wrote them, as `gpt4_response`
and `claude_response`, with winners of these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import Choices, strength
from evalkit.interop.tables.questions import Role
from evalkit.interop.tables.words import (
    matches,
    pair_words,
    tie_kind,
    tokens,
    word_group,
)

_SIDES: Final = ("A", "B")
_VOTES: Final = word_group("vote")
_PAIR: Final = 2
_SHORTEST: Final = 2
"""The fewest letters of a writer's name."""


@dataclass(frozen=True, slots=True)
class NamedSides:
    """The columns of the two responses, and which word of a verdict names which."""

    columns: tuple[str, str]
    words: Mapping[str, str]

    def chosen(self, choices: Choices) -> Choices:
        """Return the choices that say so; what the user chose stays."""
        first, second = self.columns
        return replace(
            choices,
            columns={"response_a": first, "response_b": second, **choices.columns},
            words={**self.words, **choices.words},
        )

    def explained(self, roles: Sequence[Role]) -> list[Role]:
        """Return roles with the reason of those of the two responses."""
        return [
            replace(role, why="named as a winner")
            if role.column in self.columns
            else role
            for role in roles
        ]


def named_sides(
    typed: Mapping[str, TypedColumn], choices: Choices
) -> NamedSides | None:
    """Return which columns have the two responses of pairs; `None` if winners do not name them.

    Args:
        typed: The columns.
        choices: The user's choices.
    """
    if choices.reading is not None or any(
        role.startswith("response") for role in choices.columns
    ):
        return None
    # {name of the writer: the column of what it wrote}.
    columns = {
        writer: name
        for name, column in typed.items()
        for writer in _writers(name, column)
    }
    if not columns:
        columns = _named_as_winners(typed)
    if len(columns) != _PAIR:
        return None
    words: dict[str, str] = {}
    for name, column in typed.items():
        if _may_name_winners(name):
            words |= _winners(column, [*columns])
    if not words:
        return None
    first, second = columns.values()
    return NamedSides((first, second), words)


def _may_name_winners(name: str) -> bool:
    """Return whether a column may name who won; `model` and `last_speaker` name who wrote."""
    names_winner = strength(name)[1] > 0 or not _VOTES.isdisjoint(tokens(name))
    return names_winner and not matches(name, "system")


def _named_as_winners(typed: Mapping[str, TypedColumn]) -> dict[str, str]:
    """Return columns of texts by their names, if these are the words of winners."""
    winners = {
        "".join(tokens(word))
        for name, column in typed.items()
        if _may_name_winners(name)
        for word in column.words
    }
    columns = {}
    for name, column in typed.items():
        writer = "".join(tokens(name))
        is_side = len(writer) < _SHORTEST or writer in pair_words()
        if writer in winners and column.kind == "text" and not is_side:
            columns[writer] = name
    return columns


def _writers(name: str, column: TypedColumn) -> Iterator[str]:
    """Yield the writer that a column of responses is named after, if there is one."""
    if column.may_be_verdict or column.is_numeric or column.kind == "empty":
        return
    parts = tokens(name)
    responses = [part for part in parts if matches(part, "response")]
    words = [part for part in parts if part not in responses]
    # `expected_answer` was written by nobody who could win.
    other_role = any(
        matches(name, group) for group in ("reference", "label", "prompt", "human")
    )
    writer = "".join(words)
    # `a`, `1` and `left` are sides, whose words are asked about where they are open.
    is_side = len(writer) < _SHORTEST or writer in pair_words()
    if responses and not is_side and not other_role:
        yield writer


def _winners(column: TypedColumn, writers: list[str]) -> dict[str, str]:
    """Return the side of each word of a column of winners; nothing if it has other words
    than the names of both writers and ties.
    """
    sides: dict[str, str] = {}
    for text in column.words:
        name = "".join(tokens(text))
        if name in writers:
            sides[text] = _SIDES[writers.index(name)]
        elif tie_kind(text) is None:
            return {}
    return sides if {*sides.values()} == {*_SIDES} else {}
