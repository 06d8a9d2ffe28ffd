"""Which cases a gate is limited to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.types import Case
from evalkit.scoring.decision import USES, Use, Where
from evalkit.scoring.search.cells import (
    COMPUTED,
    ITEM,
    PLACE,
    TAG,
    cell_of,
    is_empty,
)
from evalkit.scoring.slices import NO_VALUE, is_named

Choices = Mapping[str, Mapping[Any, Sequence[str]]]
_PLAIN: Final = re.compile(r"[A-Za-z_][\w.-]*")


def selected(cases: Iterable[Case], choices: Choices) -> list[bool]:
    """Return which cases have the chosen values.

    A case without a value has one only if `(no value)` is chosen.

    Args:
        cases: the cases.
        choices: by column, the values that are in, or not.
    """
    return [
        all(
            _is_chosen(_cell(case, number, column), choice)
            for column, choice in choices.items()
        )
        for number, case in enumerate(cases, 1)
    ]


def _cell(case: Case, number: int, column: str) -> Any:
    """Return the value of a case in a column, given its number in the data."""
    value = cell_of(case, column)
    if value is None and column == PLACE:
        return number
    return value


def _is_chosen(value: Any, choice: Mapping[Any, Sequence[str]]) -> bool:
    listed = choice.get("in")
    excluded = choice.get("not", ())
    if is_empty(value) and NO_VALUE not in (listed or ()):
        return False
    if listed is not None:
        is_listed = any(is_named(value, name) for name in listed)
        if not is_listed:
            return False
    return not any(is_named(value, name) for name in excluded)


def check_choices(cases: Iterable[Case], choices: Choices) -> None:
    """Check that the cases have the columns of a choice, and some case the values that must be in.

    Raises:
        ConfigError: if they do not.
    """
    if not choices:
        return
    every_case = list(cases)
    for column, choice in choices.items():
        cells = [
            _cell(case, number, column) for number, case in enumerate(every_case, 1)
        ]
        where = f"gate.where.{column}"
        if all(is_empty(value) for value in cells):
            names = dict.fromkeys(name for case in every_case for name in case.metadata)
            remedy = did_you_mean(column, [*COMPUTED, *names])
            raise ConfigError("no case has this column", where=where, remedy=remedy)
        for name in choice.get("in", ()):
            if not any(is_named(value, name) for value in cells):
                values = dict.fromkeys(str(value) for value in cells)
                remedy = did_you_mean(name, list(values))
                raise ConfigError(f"no case has '{name}'", where=where, remedy=remedy)
    if every_case and not any(selected(every_case, choices)):
        where = "gate.where"
        remedy = "choose values that cases have"
        raise ConfigError("no case is left", where=where, remedy=remedy)


def choices_text(choices: Choices) -> str:
    """Return the cases that a gate is limited to, in words; empty for all of them."""
    parts = []
    for column, choice in choices.items():
        if "in" in choice:
            parts.append(f"{column} is {' or '.join(choice['in'])}")
        if "not" in choice:
            parts.append(f"{column} is not {' or '.join(choice['not'])}")
    return " and ".join(parts)


def limited_to_rest(where: Iterable[Where], demanded: Use, choices: Choices) -> str:
    """Return the setting that limits a gate to the cases in which a judge can be used
    as wanted; empty if none does.

    A gate is limited to cases, so it cannot leave items of their checklists out.

    Args:
        where: the slices in which it allows less.
        demanded: what it must be good for.
        choices: what the gate is limited to already.
    """
    weak = [
        slice_ for slice_ in where if USES.index(slice_.allows) < USES.index(demanded)
    ]
    if any(slice_.column in (ITEM, TAG) for slice_ in weak):
        return ""
    merged: dict[str, dict[str, list[str]]] = {
        column: {str(key): [*values] for key, values in choice.items()}
        for column, choice in choices.items()
    }
    for slice_ in weak:
        excluded = merged.setdefault(slice_.column, {}).setdefault("not", [])
        excluded.append(slice_.value)
    parts = [
        f"{_word(column)}: {{{', '.join(_listed(key, values) for key, values in choice.items())}}}"
        for column, choice in merged.items()
    ]
    return f"gate.where={{{', '.join(parts)}}}"


def _listed(key: str, values: Sequence[str]) -> str:
    return f"{key}: [{', '.join(map(_word, values))}]"


def _word(text: str) -> str:
    """Return a text as an override has it."""
    if _PLAIN.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)
