"""Long tables, with a row for each rater of a unit, as wide ones with a column for each rater."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import Choices, strength
from evalkit.interop.tables.keys import COPIES, equal_rows, find_keys
from evalkit.interop.tables.long_tables import LongForm, long_form, unit_column, widened
from evalkit.interop.tables.parts import Parts, typed_columns
from evalkit.interop.tables.words import matches

_ROLES_OF_UNITS: Final = (
    *("id", "prompt"),
    *("order", "response", "model", "response_a", "response_b", "sample"),
)
"""The roles of columns that tell units apart, in the order of the columns of a wide table."""


def widen(parts: Parts, choices: Choices, where: str) -> None:
    """Give each rater of a long table a column, or each row the name of its judge or annotator.

    Raises:
        DatasetError: If its rows are those of judges and people, and nothing tells units apart.
    """
    _find_unit(parts)
    by_role = parts.by_role()
    form = long_form(parts.typed, by_role, choices, len(parts.columns), where)
    if form is None:
        return
    if form.kind == "judges":
        # Judges stay in rows: each row is one judgment with its judge's name.
        parts.form = form
        _free(parts, form.rater)
        parts.add_role(form.rater, "judge's name", "names the judge of each row")
        return
    _free(parts, form.rater, form.value)
    by_role = parts.by_role()
    # The columns that identify a unit, without those of the rater and its verdict.
    keys = _long_keys(parts, form, by_role)
    is_vote = form.rater == form.value
    has_units = is_vote or not _several(parts.typed, keys)
    if form.kind == "people" and has_units:
        # One annotator for each unit: the rows are units already, and need not be widened.
        parts.add_role(form.rater, "annotator", "names the annotator of each row")
        parts.add_role(form.value, "label", "given by the annotator of each row")
        return
    parts.form = form
    if "id" in by_role or "prompt" in by_role:
        # Equal rows of one unit are copies, not repeated verdicts.
        _drop_copies(parts)
    parts.columns, raters = widened(parts.columns, form, keys)
    del parts.columns.cells[form.rater]
    # From here the table is wide: rows are units, and each rater has a column.
    parts.widened = tuple(raters)
    parts.typed = typed_columns(parts.columns)
    _add_roles(parts, form)


def _find_unit(parts: Parts) -> None:
    """Find what identifies a unit without an id: a column whose values occur once with each
    rater.
    """
    by_role = parts.by_role()
    if "id" in by_role or "prompt" in by_role:
        return
    unit = unit_column(parts.typed, len(parts.columns))
    if unit is not None:
        _free(parts, unit)
        parts.add_role(unit, "id", "occurs once with each rater")


def _free(parts: Parts, *columns: str) -> None:
    """Leave columns without a role."""
    parts.roles = [role for role in parts.roles if role.column not in columns]


def _add_roles(parts: Parts, form: LongForm) -> None:
    """Add the roles of a table that was widened, whose raters may be people."""
    sample = parts.by_role().get("sample")
    # The repeats of a long table may be dissolved into the columns of raters.
    if sample is not None and sample not in parts.typed:
        parts.drop_role("sample")
    names = f"{len(parts.widened)} names"
    parts.add_role(form.rater, "rater", names)
    parts.add_role(form.value, "value", "the rater's verdict")
    if form.kind == "people" or _are_people(parts.widened, form):
        for name in parts.widened:
            parts.add_role(name, "label", "an annotator")


def _drop_copies(parts: Parts) -> None:
    copies = set(equal_rows(parts.typed))
    if not copies:
        return
    rows = range(len(parts.columns))
    kept = [row for row in rows if row not in copies]
    count = len(copies)
    parts.columns = parts.columns.take(kept)
    parts.notes.append(COPIES.format(count))


def _are_people(raters: Iterable[str], form: LongForm) -> bool:
    """Return whether the column of raters is named after people, and none like a judge."""
    for name in raters:
        kind, _ = strength(name)
        if kind == "judge":
            return False
    return matches(form.rater, "human")


def _several(typed: Mapping[str, TypedColumn], keys: Sequence[str]) -> bool:
    # (columns, rows) to tuples by row: fewer distinct tuples than rows mean repeats.
    columns = [typed[name].texts for name in keys]
    rows = list(zip(*columns, strict=True))
    distinct_rows = set(rows)
    return len(distinct_rows) < len(rows)


def _long_keys(parts: Parts, form: LongForm, by_role: Mapping[str, str]) -> list[str]:
    """Return the columns of a long table that tell units apart: those that differ
    within an id and a rater.
    """
    # A repeat does not tell units apart, and the rater's column would otherwise be a key.
    roles_of_units = {**by_role}
    roles_of_units.pop("sample", None)
    roles_of_units.setdefault("model", form.rater)
    keys = find_keys(parts.typed, roles_of_units, [form.value], [form.rater], "")
    names = dict.fromkeys(keys.unit)
    for role in _ROLES_OF_UNITS:
        if role in by_role:
            name = by_role[role]
            names[name] = None
    for name in (form.rater, form.value):
        names.pop(name, None)
    return list(names)
