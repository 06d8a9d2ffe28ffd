"""Tables with a row for each verdict: which column names who judged, and a column for
each rater.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from evalkit.core.errors import DatasetError
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns, cell_text
from evalkit.interop.tables.fixed_roles import Choices, shares_words, strength
from evalkit.interop.tables.questions import (
    Answer,
    OpenTableError,
    Role,
    named_options,
)
from evalkit.interop.tables.rater_columns import candidates
from evalkit.interop.tables.words import (
    fold,
    is_first_name,
    is_model,
    matches,
    names_rater,
    polarity,
    tokens,
    word_group,
    words_in,
)

_PEOPLE: Final = words_in("numbered_people")
_MOST_RATERS: Final = 200
_USERS: Final = words_in("user")
_NAMED_JUDGES: Final = (("judge", 3), ("judge", 4))
"""The strength of names that say that a judge judged."""
_NAME: Final = re.compile(
    r"(?:[A-Z][^\W\d_]+\.?[ '-]?)+|[\u3040-\u30ff\u4e00-\u9fff]{2,5}"
)
"""A name as Rossi, Mary-Jane Smith or 张三."""


@dataclass(slots=True)
class LongForm:
    """How a table names raters in rows.

    `rater` is the column with their names and `value` the one with their verdicts. `kind` is
    `judges` if it names the judge of each row, `people` if it names the annotator of each row, and
    `raters` if it names all of them.
    """

    rater: str
    value: str
    kind: str


def names_raters(
    name: str, column: TypedColumn, rows: int, typed: Mapping[str, TypedColumn]
) -> bool:
    """Return whether a column names who judged."""
    # `annotator_age` is about a person, and `reviewer_notes` are what one writes.
    if matches(name, "demographic") or matches(name, "text"):
        return False
    # Verdicts of two raters share words, and names of raters do not.
    if shares_words(name, typed):
        return False
    # A name in every row is an id and not a rater.
    if not column.total or len(column.words) > min(_MOST_RATERS, max(1, rows - 1)):
        return False
    values = list(column.words)
    raters = [value for value in values if names_rater(value)]
    # Every value names a model, a person or a judge.
    by_value = len(raters) == len(values) and not matches(name, "system")
    # A metric and the same metric by people, as `Tone` and `Human Tone`.
    if _are_twins(values):
        return True
    # A column `type` names raters only if all of its values do, and one of any name if they name
    # judges and people: `variable` of a table that pandas melted.
    melted = by_value and (matches(name, "kind") or _has_both(values))
    if not matches(name, "rater") and not melted:
        return False
    meanings, _ = polarity()
    # Words that judge, such as pass and fail, are verdicts.
    if any(fold(value) in meanings and not value.isdigit() for value in values):
        return False
    if column.share(column.pairs) > 0 and not by_value:
        return False
    if column.kind in ("stated", "ordered", "percent", "stars", "fraction"):
        return False
    # Numbers name raters only if the column says so: `annotator_id`.
    if column.is_numeric:
        whole = all(value.is_integer() for value in column.distinct_numbers)
        return whole and any(
            matches(name, "id") or part in name.casefold() for part in _PEOPLE
        )
    exact = any(
        word in name.casefold() for word in ("source", "author", "scorer", "type")
    )
    # `source` may be that of a text, so its values decide.
    return by_value if exact else True


def _are_twins(values: Sequence[str]) -> bool:
    """Return whether names are in pairs that differ only in a word for people."""
    by_people = [value for value in values if strength(value) == ("label", 4)]
    named = {
        tuple(part for part in tokens(value) if not matches(part, "human"))
        for value in by_people
    }
    plain = {tokens(value) for value in values if value not in by_people}
    return bool(by_people) and named == plain


def are_people(values: Sequence[str]) -> bool:
    """Return whether names are those of people: users, annotators, or first names."""
    return all(
        fold(value).startswith(_USERS)
        or is_first_name(value)
        or strength(value)[0] == "label"
        for value in values
    )


def long_form(
    typed: Mapping[str, TypedColumn],
    taken: Mapping[str, str],
    choices: Choices,
    rows: int,
    where: str,
) -> LongForm | None:
    """Return how rows name raters; `None` if they do not.

    Args:
        typed: The columns.
        taken: The columns with other roles, by role.
        choices: The user's choices.
        rows: The number of rows.
        where: The table's name.

    Raises:
        DatasetError: If rows are those of judges and people, and nothing tells units apart.
    """
    used = {*taken.values()}
    votes = _votes_of_people(typed, taken, choices)
    if votes is not None:
        return votes
    # The column of systems may name raters; columns with other roles do not.
    excluded = {*choices.judges, *choices.labels} | (used - {taken.get("model")})
    naming = [
        name
        for name, column in typed.items()
        if name not in excluded and names_raters(name, column, rows, typed)
    ]
    # Columns whose values name judges and people come before those of their ids.
    # Of the others, those whose values are models come first, wherever they are.
    ranked = sorted(naming, key=lambda name: _rank(list(typed[name].words)))
    for name in ranked:
        column = typed[name]
        used_columns = used - {taken.get("sample")}
        verdicts = [
            candidate
            for candidate in candidates(typed, {*used_columns, name}, choices)
            if candidate != name
            and not names_raters(candidate, typed[candidate], rows, typed)
        ]
        form = _form(name, column, verdicts, typed, taken, choices, where)
        if form is not None:
            return form
    return None


def unit_column(typed: Mapping[str, TypedColumn], rows: int) -> str | None:
    """Return the column that names the unit of each row, by its values; `None` if none
    or several do.

    Each of its values occurs with several raters, and once with each.
    """
    raters = [
        name
        for name, column in typed.items()
        if names_raters(name, column, rows, typed)
        and (_has_both(list(column.words)) or matches(name, "rater"))
    ]
    if not raters:
        return None
    # Rows that are equal in every column are copies.
    texts = (column.texts for column in typed.values())
    distinct_rows = len(set(zip(*texts, strict=True)))
    units = set()
    for rater in raters:
        has_judges = _has_both(list(typed[rater].words))
        for name, column in typed.items():
            if name in raters or None in column.texts:
                continue
            # Each unit has two rows or more on average.
            if not 1 < len(column.counts) <= rows / 2:
                continue
            # Each pair of unit and rater is in one row only.
            pairs = set(zip(column.texts, typed[rater].texts, strict=True))
            if len(pairs) != distinct_rows:
                continue
            # Next to people alone, a few levels may be verdicts or kinds.
            may_be_kind = column.may_be_verdict or column.kind == "time"
            if has_judges or not may_be_kind:
                units.add(name)
    # Several such columns leave it open.
    if len(units) != 1:
        return None
    [unit] = units
    return unit


def _rank(values: Sequence[str]) -> int:
    if _has_both(values):
        return 0
    return 1 if values and all(map(is_model, values)) else 2


def _has_both(values: Sequence[str]) -> bool:
    """Return whether names are those of judges and of people."""
    return {"judge", "label"} <= {strength(value)[0] for value in values}


_ARENA: Final = word_group("arena")
"""Columns of the votes of LMArena."""


def _votes_of_people(
    typed: Mapping[str, TypedColumn], taken: Mapping[str, str], choices: Choices
) -> LongForm | None:
    """Return the column of votes in a table of pairs that users voted on; `None` if a
    judge is named.
    """
    # A judge or label that the user named is not a user's vote.
    if not {"model_a", "model_b"} <= taken.keys() or choices.judges or choices.labels:
        return None
    voters = [
        name
        for name, column in typed.items()
        if matches(name, "rater") and column.words and are_people(list(column.words))
    ]
    judges = [
        name
        for name, column in typed.items()
        if matches(name, "rater") and _has_both(list(column.words))
    ]
    if judges:
        return None
    used = {*taken.values(), *voters}
    verdicts = candidates(typed, used, choices)
    winners = [
        name
        for name in verdicts
        if "winner" in name.casefold() and strength(name)[1] < 2
    ]
    labels = [name for name in verdicts if strength(name)[0] == "label"]
    if len(winners) != 1 or labels:
        return None
    # Columns of LMArena say that users voted, even if none is named.
    if not voters and not _ARENA.intersection(typed):
        return None
    return LongForm(voters[0] if voters else winners[0], winners[0], "people")


def _form(
    name: str,
    column: TypedColumn,
    verdicts: Sequence[str],
    typed: Mapping[str, TypedColumn],
    taken: Mapping[str, str],
    choices: Choices,
    where: str,
) -> LongForm | None:
    values = list(column.words)
    ids = taken.get("id") or taken.get("prompt")
    # Rows repeat an id or a prompt, so several raters judged one unit.
    repeats = ids is not None and len(typed[ids].counts) < len(column.cells)
    if ids is not None and repeats:
        form = _people_next_to_judge(name, verdicts, typed, ids, choices, where)
        if form is not None:
            return form
    named = {*choices.judges, *choices.labels}
    clear = [column for column in verdicts if strength(column)[1] > 2]
    main = [
        column for column in verdicts if strength(column)[1] > 0 or len(verdicts) == 1
    ]
    # Several raters of repeated units, and no column that clearly names another rater.
    if len(values) > 1 and repeats and not clear and not named & set(verdicts):
        # Unnamed columns of two types may be anything: only one by itself is the verdict.
        value = _one_value(main, typed) if main else None
        if value is not None:
            return LongForm(name, value, "raters")
    # The user's choices overrule names.
    roles = {column: strength(column)[0] for column in verdicts}
    roles |= dict.fromkeys(choices.judges, "judge") | dict.fromkeys(
        choices.labels, "label"
    )
    judges = [column for column in verdicts if roles[column] == "judge"]
    labels = [column for column in verdicts if roles[column] == "label"]
    people = are_people(values) or any(part in name.casefold() for part in _PEOPLE)
    if people and (matches(name, "human") or column.is_numeric):
        # With labels, they are what people gave; otherwise a verdict that is no judge's.
        candidates = labels or [
            column
            for column in verdicts
            if column not in judges or strength(column)[1] < 2
        ]
        strong = [
            column
            for column in judges
            if strength(column)[1] > 1 or column in choices.judges
        ]
        if len(candidates) == 1 and (strong or len(verdicts) == 1):
            return LongForm(name, candidates[0], "people")
        return None
    if people or not verdicts:
        return None
    # Columns of a judge and of people, which need no column of raters.
    both = {strength(verdict) for verdict in verdicts} >= {("judge", 3), ("label", 4)}
    if both and not matches(name, "rater"):
        return None
    if _has_both(values):
        _refuse_units(name, verdicts, ids, where)
    # One judge for each row, whose name is in this column.
    value = _one_value([column for column in judges if column not in labels], typed)
    if value is not None:
        return LongForm(name, value, "judges")
    return None


def _people_next_to_judge(
    name: str,
    verdicts: Sequence[str],
    typed: Mapping[str, TypedColumn],
    ids: str,
    choices: Choices,
    where: str,
) -> LongForm | None:
    """Return the column of people and the one of their verdicts, next to a judge whose verdict
    is the same in all rows of a unit; `None` if there is no such judge.

    Raises:
        OpenTableError: If the names may be those of people or of judges.
    """
    values = list(typed[name].words)
    about_people = strength(name)[0] == "label"
    if not matches(name, "rater") or len(values) < 2:
        return None
    if any(is_model(value) or strength(value)[0] == "judge" for value in values):
        return None
    judges = [column for column in verdicts if strength(column) in _NAMED_JUDGES]
    of_rows = [column for column in verdicts if column not in judges]
    if not judges or len(of_rows) != 1:
        return None
    [value] = of_rows
    unit = typed[ids]
    if not all(_depends_on(typed[judge], unit) for judge in judges):
        return None
    if _depends_on(typed[value], unit):
        return None
    if value in choices.judges:
        return LongForm(name, value, "judges")
    chosen = value in choices.labels or about_people
    if chosen or all(map(_may_be_person, values)):
        return LongForm(name, value, "people")
    if choices.judges or choices.labels:
        return None
    judged = named_options("--judge", judges)
    answers = [
        Answer("people", (*judged, "--label", value)),
        Answer("judges", ("--judge", value, "--label", "NONE")),
    ]
    problem = (
        f"'{name}' names who gave '{value}' in each row, and '{judges[0]}' is a judge's:"
        f" does '{name}' name people or judges?"
    )
    raise OpenTableError(problem, where, answers)


def _depends_on(column: TypedColumn, unit: TypedColumn) -> bool:
    """Return whether a column has one value for each unit."""
    pairs = set(zip(unit.texts, column.texts, strict=True))
    return len(pairs) == len({text for text, _ in pairs})


def _may_be_person(value: str) -> bool:
    """Return whether a name looks like that of a person: a capitalized name, or one in
    characters without capitals.
    """
    if is_first_name(value):
        return True
    return _NAME.fullmatch(value.strip()) is not None


def _refuse_units(
    name: str, verdicts: Sequence[str], ids: str | None, where: str
) -> NoReturn:
    """Refuse rows of judges and people whose verdicts or units are unknown.

    Raises:
        DatasetError: Always.
    """
    if len(verdicts) > 1:
        columns = ", ".join(f"'{verdict}'" for verdict in verdicts)
        problem = (
            f"'{name}' names judges and people, and several columns may be their verdicts:"
            f" {columns}"
        )
        remedy = "rename the column of their verdicts to verdict"
    elif ids is not None:
        problem = (
            f"'{name}' names judges and people, and no case in '{ids}' has verdicts of both:"
            " nothing can be compared"
        )
        remedy = (
            "add rows with the judges' verdicts on the cases that people labeled, with the same"
            f" '{ids}'; if another column says which case it is, name it: --id COLUMN"
        )
    else:
        problem = (
            f"'{name}' names judges and people, and no column says which rows are about the same"
            " case"
        )
        remedy = "name it: --id COLUMN"
    raise DatasetError(problem, where=where, remedy=remedy)


def with_columns_of_people(
    choices: Choices, form: LongForm | None, roles: Sequence[Role]
) -> Choices:
    """Return the user's choices with the columns of people that the labels which the
    user named became.
    """
    if form is None or form.value not in choices.labels:
        return choices
    kept = [name for name in choices.labels if name != form.value]
    people = [role.column for role in roles if role.role == "label"]
    return replace(choices, labels=(*kept, *people))


def _one_value(names: Sequence[str], typed: Mapping[str, TypedColumn]) -> str | None:
    """Return the only column with verdicts, or the word next to its score."""
    if len(names) == 1:
        return names[0]
    words = [name for name in names if not typed[name].is_numeric]
    return words[0] if len(words) == 1 and len(names) == 2 else None


def widened(
    columns: Columns, form: LongForm, keys: Sequence[str]
) -> tuple[Columns, dict[str, str]]:
    """Return a table with a row for each unit and repeat and a column for each rater,
    and the rater of each new column.

    Args:
        columns: The long table.
        form: Its columns of raters and values.
        keys: The columns that tell units apart.
    """
    # (rows,) the rater and the verdict of each row of the long table.
    raters = columns.cells[form.rater]
    verdicts = columns.cells[form.value]
    names: dict[str, str] = {}
    # {(key, repeat): row of the wide table}.
    rows: dict[tuple[Any, ...], int] = {}
    # (row, column) that have a verdict; another one makes a repeat.
    taken: set[tuple[int, str]] = set()
    # For each row of the wide table, the first row of the long one, with its other columns.
    first: list[int] = []
    # {column: {row: verdict}}, because most raters judge some units only.
    filled: dict[str, dict[int, Any]] = {}
    for index, rater in enumerate(raters):
        if rater is None:
            continue
        name = names.setdefault(
            cell_text(rater), _column_name(cell_text(rater), form, columns)
        )
        key = tuple(cell_text(columns.cells[key_column][index]) for key_column in keys)
        repeat = 0
        # The first repeat in which this rater has no verdict yet.
        while True:
            row = rows.setdefault((*key, repeat), len(first))
            if row == len(first):
                first.append(index)
            if (row, name) not in taken:
                break
            repeat += 1
        taken.add((row, name))
        filled.setdefault(name, {})[row] = verdicts[index]
    wide = columns.take(first)
    del wide.cells[form.value]
    for name in names.values():
        values = filled[name]
        # (rows of the wide table,); empty for raters who did not judge the unit.
        wide.cells[name] = [values.get(row) for row in range(len(first))]
    return wide, {column: rater for rater, column in names.items()}


def _column_name(rater: str, form: LongForm, columns: Columns) -> str:
    name = (
        # Numbers, and people's names, get the name of the column: `annotator 3`.
        f"{form.rater} {rater}" if rater.isdigit() or form.kind == "people" else rater
    )
    return name if name not in columns.cells else f"{form.rater} {rater}"
