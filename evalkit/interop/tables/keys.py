"""Which columns tell the units of a table apart, and which only tell repeats of a verdict apart.

Rows with one id are repeats if they are equal in every column but the verdict, the run, the seed
and the time. If another column tells them apart, they are units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import PAIR_ROLES
from evalkit.interop.tables.questions import Answer, OpenTableError
from evalkit.interop.tables.raters import base
from evalkit.interop.tables.words import begins, matches, tokens, word_group

CASE_ROLES: Final = ("response", "model", *PAIR_ROLES, "order")
"""Roles that tell responses to one question apart."""
_MOST_VALUES: Final = 20
_NEARLY_ALL: Final = 0.8
"""The share of different values from which a column tells rows apart."""
COPIES: Final = "rows that are equal to another in every column, not read: {}"
"""The note on copies of rows."""
_SETTINGS: Final = word_group("setting")
"""Words of settings, whose values tell units apart."""


_PARTS_OF_UNITS: Final = word_group("part_of_unit")
"""What there are several of for one question, as names of their ids say."""
_ID_WORDS: Final = word_group("id_word")


@dataclass(slots=True)
class Keys:
    """The columns of a unit: its id, what else tells units apart, and what
    distinguishes repeats.
    """

    unit: list[str] = field(default_factory=list)
    criterion: str | None = None
    sample: str | None = None
    duplicates: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_keys(
    typed: Mapping[str, TypedColumn],
    roles: Mapping[str, str],
    raters: Sequence[str],
    chosen: Sequence[str],
    where: str,
) -> Keys:
    """Return what tells the rows of a table apart.

    Args:
        typed: The columns.
        roles: The column of each role.
        raters: The columns of verdicts.
        chosen: The columns that the user named as keys.
        where: The table's name.

    Raises:
        OpenTableError: If a column may tell units or repeats apart.
    """
    keys = Keys(sample=roles.get("sample"))
    identity = roles.get("id")
    if identity is None:
        # Without an id, equal prompts are one question.
        identity = roles.get("prompt")
    if identity is None or not typed[identity].counts:
        keys.unit = [*chosen]
        _note_equal_rows(typed, keys)
        return keys
    keys.unit = [identity, *(name for name in chosen if name != identity)]
    within = [roles[role] for role in CASE_ROLES if role in roles]
    if not _repeated(typed, [*keys.unit, *within]):
        _drop_run_ids(typed, keys, within)
        _name_criterion(typed, keys, roles, raters)
        return keys
    # Words of the raters' names: a column that is named like a rater belongs to it.
    bases = {base(name) for name in raters}
    unsure = []
    for name, column in typed.items():
        used = {*keys.unit, *raters, *within, keys.sample}
        if name in used or column.kind in ("empty", "list", "time"):
            continue
        # A column that is constant within each unit tells nothing apart.
        if base(name) in bases - {()} or not _varies(
            typed, [*keys.unit, *within], name
        ):
            continue
        verdict = _tells(name, column, roles)
        if verdict == "unit":
            keys.unit.append(name)
        elif verdict == "repeat" and keys.sample is None:
            keys.sample = name
        # Open columns are asked about only if rows are still repeated.
        elif verdict == "open":
            unsure.append(name)
    repeated = _repeated(typed, [*keys.unit, *within])
    if repeated and keys.sample is None and unsure:
        _ask(unsure, where)
    _name_criterion(typed, keys, roles, raters)
    if repeated and keys.sample is None:
        _find_duplicates(typed, keys, within)
    elif keys.sample is not None and _repeated(
        typed, [*keys.unit, *within, keys.sample]
    ):
        _find_duplicates(typed, keys, [*within, keys.sample])
    return keys


def _tells(name: str, column: TypedColumn, roles: Mapping[str, str]) -> str:
    """Return whether a column that differs between rows of one id tells units or
    repeats apart, or neither.
    """
    # In order: the first rule that fits a name or its values decides.
    if matches(name, "criterion") or matches(name, "turn"):
        return "unit" if not matches(name, "text") else ""
    parts = {*tokens(name)}
    if parts & _PARTS_OF_UNITS and parts & _ID_WORDS:
        return "unit"
    if matches(name, "text") or matches(name, "doubt"):
        return ""
    if matches(name, "repeat"):
        return "repeat"
    if name in (roles.get("prompt"), roles.get("context"), roles.get("reference")):
        return "unit"
    if matches(name, "rater"):
        return ""
    if _SETTINGS.intersection(tokens(name)) and len(column.words) <= _MOST_VALUES:
        return "unit"
    if (
        matches(name, "measured")
        or matches(name, "computed")
        or begins(name, "criteria")
    ):
        return ""
    # A verdict differs between repeats, and does not make them units.
    if column.judges:
        return ""
    if matches(name, "system") or matches(name, "process") or name == "file":
        return "unit"
    # Numbers of few values may be conditions; measures have many.
    if column.kind in ("number", "flag", "percent", "fraction"):
        few = len(column.words) <= _MOST_VALUES and all(
            value.is_integer() for value in column.distinct_numbers
        )
        return "open" if few and column.is_numeric else ""
    if column.kind in ("class", "pair", "ordered"):
        return "unit"
    if column.kind == "id":
        return ""
    return "open"


def _ask(names: Sequence[str], where: str) -> None:
    name = names[0]
    answers = [
        Answer(f"'{name}' tells units apart", ("--key", name)),
        Answer(f"'{name}' tells repeated verdicts on a unit apart", ("--sample", name)),
        Answer("none of them does", ("--key", "NONE")),
    ]
    columns = ", ".join(f"'{name}'" for name in names)
    problem = f"rows with one id differ in {columns}: are they units, or repeats of a verdict?"
    raise OpenTableError(problem, where, answers)


def groups(typed: Mapping[str, TypedColumn], names: Sequence[str]) -> list[int]:
    """Return the number of the group of each row, where rows of a group are equal in columns."""
    # {values of the columns: number of the group}.
    numbers: dict[tuple[str | None, ...], int] = {}
    texts = [typed[name].texts for name in names]
    rows = len(next(iter(typed.values())).texts)
    # A column without two equal texts, or an empty one, tells all rows apart.
    tells_all = any(len(typed[name].counts) == rows for name in names)
    if not texts or tells_all:
        return list(range(rows))
    rows_of_groups = []
    for row, key in enumerate(zip(*texts, strict=True)):
        # a row without an id is like no other row
        unit = key if key[0] is not None else (None, str(row))
        rows_of_groups.append(numbers.setdefault(unit, len(numbers)))
    return rows_of_groups


def _repeated(typed: Mapping[str, TypedColumn], names: Sequence[str]) -> bool:
    units = groups(typed, names)
    return len(set(units)) < len(units)


def _varies(typed: Mapping[str, TypedColumn], keys: Sequence[str], name: str) -> bool:
    """Return whether a column has several values within a group of rows."""
    # {group: its first value}.
    first: dict[int, str | None] = {}
    for group, text in zip(groups(typed, keys), typed[name].texts, strict=True):
        if first.setdefault(group, text) != text:
            return True
    return False


def _drop_run_ids(
    typed: Mapping[str, TypedColumn], keys: Keys, within: Sequence[str]
) -> None:
    """Drop the repeat's column if no unit is repeated."""
    if keys.sample is not None and not _repeated(typed, [*keys.unit, *within]):
        keys.sample = None


def _name_criterion(
    typed: Mapping[str, TypedColumn],
    keys: Keys,
    roles: Mapping[str, str],
    raters: Sequence[str],
) -> None:
    """Set the column by which results are shown: one with the names of criteria."""
    used = {*roles.values(), *raters}
    for name, column in typed.items():
        if name in used and name not in keys.unit:
            continue
        if not matches(name, "criterion") or matches(name, "text"):
            continue
        few = 2 <= len(column.words) <= _MOST_VALUES and column.kind in (
            "class",
            "pair",
            "ordered",
            "flag",
        )
        # A column with the cells of a rater is its verdict again.
        copies = any(column.texts == typed[rater].texts for rater in raters)
        is_key = name in keys.unit or name.casefold() != "name"
        if few and is_key and not copies:
            keys.criterion = name
            return


def _note_equal_rows(typed: Mapping[str, TypedColumn], keys: Keys) -> None:
    """Note rows that are equal in every column, also in texts or numbers that hardly
    recur: they may be copies.
    """
    tell_apart = any(
        column.kind == "text" or len(column.counts) >= _NEARLY_ALL * column.total > 0
        for column in typed.values()
    )
    if not tell_apart:
        return
    if copies := equal_rows(typed):
        keys.notes.append(
            "rows that are equal to another in every column, kept because there is no id:"
            f" {len(copies)}"
        )


def equal_rows(typed: Mapping[str, TypedColumn]) -> list[int]:
    """Return the rows that are equal to an earlier one in every column."""
    hashes: set[int] = set()
    copies = []
    # Rows are compared by the number of their group, over all columns.
    for index, group in enumerate(groups(typed, list(typed))):
        if group in hashes:
            copies.append(index)
        hashes.add(group)
    return copies


def _find_duplicates(
    typed: Mapping[str, TypedColumn], keys: Keys, within: Sequence[str]
) -> None:
    """Note rows that are equal in every column, if only some units have several rows."""
    # Repeats of every unit are repeats on purpose; of some units, they may be copies.
    sizes = Counter(groups(typed, [*keys.unit, *within]))
    if len(set(sizes.values())) == 1:
        return
    keys.duplicates += equal_rows(typed)
    if keys.duplicates:
        keys.notes.append(COPIES.format(len(keys.duplicates)))
