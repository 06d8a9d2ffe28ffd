"""A table as records: typed columns, units and repeats, raters, and verdicts in one space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.interop.layouts.layouts import Unit
from evalkit.interop.layouts.records import ParsedFile
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns, Rows, columns_of_table
from evalkit.interop.tables.confidences import find_confidence
from evalkit.interop.tables.contradictions import (
    EACH_ROW,
    check_criteria,
    check_labels_of_units,
    check_opposite,
    check_positions,
)
from evalkit.interop.tables.fixed_roles import (
    NO_JUDGES,
    NO_LABELS,
    PAIR_ROLES,
    Choices,
    fixed_roles,
)
from evalkit.interop.tables.joined_columns import (
    join_classes,
    join_one_hot,
    join_sided_scores,
    join_votes,
)
from evalkit.interop.tables.judging_command import judging_command
from evalkit.interop.tables.keys import CASE_ROLES, find_keys
from evalkit.interop.tables.known_verdicts import known_space
from evalkit.interop.tables.label_origins import check_chosen, check_copies
from evalkit.interop.tables.long_tables import (
    with_columns_of_people,
)
from evalkit.interop.tables.merged_cells import fill_merged
from evalkit.interop.tables.mixed_scales import check_scales
from evalkit.interop.tables.named_sides import named_sides
from evalkit.interop.tables.other_readings import check_other_readings
from evalkit.interop.tables.parts import (
    Parts,
    compares,
    judge_columns,
    typed_columns,
)
from evalkit.interop.tables.questions import (
    NoJudgeError,
    OpenTableError,
    Role,
    command,
    named_options,
    without_people,
)
from evalkit.interop.tables.rater_levels import EMPTY_CELL, Space, check_mapped
from evalkit.interop.tables.rater_questions import ask_about_marks
from evalkit.interop.tables.rater_roles import MAY_BE_VERDICT
from evalkit.interop.tables.rater_rows import name_raters
from evalkit.interop.tables.raters import find_raters
from evalkit.interop.tables.repeated_columns import stack_of_repeats, sums_of
from evalkit.interop.tables.repeated_headers import join_repeated
from evalkit.interop.tables.role_list import listed_roles
from evalkit.interop.tables.row_verdicts import systems_of, verdicts_by_row
from evalkit.interop.tables.selected_rows import select_rows
from evalkit.interop.tables.stacked import (
    ALL_CRITERIA,
    ALL_ORDERS,
    ALL_RUNS,
    COLUMN,
    ROLES,
    Stack,
    stacked,
    stacked_again,
)
from evalkit.interop.tables.summaries import check_counts, check_results
from evalkit.interop.tables.system_columns import rows_by_system
from evalkit.interop.tables.table_records import table_records
from evalkit.interop.tables.table_warnings import table_warnings
from evalkit.interop.tables.verdicts import verdict_space
from evalkit.interop.tables.widening import widen
from evalkit.interop.tables.words import is_model, matches, tokens, word_group

_NO_COLUMNS: Final = frozenset(
    {NO_LABELS, EACH_ROW, ALL_CRITERIA, ALL_RUNS, ALL_ORDERS}
)
"""What `--key` takes besides columns."""
_MOST_SLICES: Final = 3
# A column by which results are sliced has at most this many values, each in enough rows.
_SLICE_VALUES: Final = 8
_SLICE_ROWS: Final = 10
_CHOSEN: Final = word_group("chosen")


@frozen
class Table:
    """A table as records, with the roles of its columns, warnings about its data, and
    settings that describe it.
    """

    parsed: ParsedFile
    roles: tuple[Role, ...]
    warnings: tuple[str, ...]
    settings: Json = field(default_factory=dict)
    choices: Choices = Choices()
    space: Space = field(default_factory=lambda: Space("class"))
    stack: Stack | None = None

    @property
    def unit(self) -> Unit:
        """What is judged."""
        return self.space.unit

    @property
    def values(self) -> Mapping[str, Mapping[str, Any]]:
        """The verdict of each level of each rater."""
        return self.space.values


def read_table(rows: Rows, where: str, choices: Choices) -> Table:
    """Return the records of a table; see `read_columns`.

    Raises:
        OpenTableError: If two readings differ in what would be concluded.
        DatasetError: If it has too few rows, or no verdicts.
    """
    return read_columns(columns_of_table(rows, where), where, choices)


def read_columns(columns: Columns, where: str, choices: Choices) -> Table:
    """Return the records of a table.

    Args:
        columns: Its columns.
        where: Its name.
        choices: The user's choices.

    Raises:
        OpenTableError: If two readings differ in what would be concluded.
        DatasetError: If it has no verdicts.
    """
    # Names in the table are on one line, so names with line breaks could not match.
    choices = choices.on_one_line()
    if choices.reading is not None and choices.reading.stacked:
        columns = stacked_again(columns, choices.reading, choices.labels, where)
    columns = join_repeated(columns, choices, where)
    columns, choices = select_rows(columns, choices, where)
    columns = fill_merged(columns)
    columns = rows_by_system(columns, choices.named_columns())
    # From here on, `parts` holds the state of the reading: each step narrows it.
    parts = Parts(columns, typed_columns(columns), [])
    # A column that is really named NONE is a column, not the word for no labels.
    without_labels = NO_LABELS in choices.labels and NO_LABELS not in parts.typed
    if without_labels:
        labels = tuple(name for name in choices.labels if name != NO_LABELS)
        choices = replace(
            choices,
            labels=labels,
            only=bool(choices.judges or labels),
            unlabeled=not labels,
        )
    if NO_JUDGES in choices.judges and NO_JUDGES not in parts.typed:
        choices = choices.without_judges()
    try:
        return _read(parts, where, choices)
    except OpenTableError as question:
        # Roles are listed up to where the question arose, so that it shows what was understood.
        raise question.with_roles(listed_roles(parts)) from None
    except NoJudgeError as refused:
        raise refused.judged_by(judging_command(parts, where)) from None


def _read(parts: Parts, where: str, choices: Choices) -> Table:
    """Read a table in steps: its columns' roles, its raters, its units, and its verdicts."""
    choices = _join_columns(parts, where, choices)
    has_pairs = compares(parts.by_role())
    # `model_1` and `model_2` name systems, and are no verdicts in two orders.
    of_sides = [role.column for role in parts.roles if role.role in PAIR_ROLES]
    other_columns = {
        name: column for name, column in parts.typed.items() if name not in of_sides
    }
    repeats = stack_of_repeats(other_columns, choices, where, compares=has_pairs)
    if repeats is not None:
        return _read_repeats(parts, repeats, where, choices)
    choices = _find_raters(parts, where, choices)
    # One judge and one annotator by criterion: rows by criterion are read from the beginning.
    if parts.raters.stack is not None:
        return _read_stacked(parts, parts.raters.stack, where, choices)
    if parts.raters.criteria:
        # `--key CRITERION` said what the columns are, and names none.
        keys = [name for name in choices.keys if name != ALL_CRITERIA]
        choices = replace(choices, keys=tuple(keys))
    _check_raters(parts, where, choices)
    parts.roles += _rater_roles(parts)
    # Empty cells are read before keys and verdicts, which both depend on what is missing.
    _read_empty_cells(parts, choices, where)
    _find_keys(parts, choices, where)
    space = _space(parts, where, choices)
    # {rater: its verdicts by row}; the rows are those of `parts.columns`.
    verdicts = verdicts_by_row(parts, space, parts.by_role())
    # Checks of the data come last: each compares verdicts, so it needs all columns read.
    check_copies(parts, verdicts, choices, where)
    _check_contradictions(parts, verdicts, space, choices, where)
    check_chosen(parts, verdicts, choices, where)
    warnings = [*parts.columns.notes, *parts.notes, *parts.keys.notes, *space.notes]
    warnings += table_warnings(parts, verdicts, space)
    find_confidence(parts, space)
    records = table_records(parts, verdicts, space, answers=choices.answers)
    parsed = ParsedFile(list(records), scale=space.scale)
    settings = _settings(parts, space)
    return Table(
        parsed,
        tuple(listed_roles(parts)),
        tuple(warnings),
        settings,
        choices,
        space,
    )


def _join_columns(parts: Parts, where: str, choices: Choices) -> Choices:
    """Join columns that are one, and find those whose role their names or the user fix.

    Returns:
        The choices, with the columns of both sides of a pair.
    """
    if choices == Choices():
        check_results(parts.typed, where)
    if choices.reading is None:
        name_raters(parts)
    # Columns are joined first: a one-hot verdict or two scores of a pair are one rater's.
    join_one_hot(parts)
    join_classes(parts)
    join_votes(parts)
    _check_named(parts, choices.columns.values(), where)
    sides = named_sides(parts.typed, choices)
    if sides is None:
        parts.roles = fixed_roles(parts.typed, choices)
        return choices
    choices = sides.chosen(choices)
    roles = fixed_roles(parts.typed, choices)
    parts.roles = sides.explained(roles)
    return choices


def _find_raters(parts: Parts, where: str, choices: Choices) -> Choices:
    """Find the judges and the labels, after a long table got a column for each rater.

    Returns:
        The choices, with the columns of people.

    Raises:
        UnreadColumnsError: If no judge is wanted, and no annotator judged.
    """
    join_sided_scores(parts, choices, where)
    # Widening changes the columns and their roles.
    widen(parts, choices, where)
    choices = with_columns_of_people(choices, parts.form, parts.roles)
    keys = [name for name in choices.keys if name not in _NO_COLUMNS]
    _check_named(parts, (*choices.judges, *choices.labels, *keys), where)
    if not choices.unlabeled:
        _name_chosen(parts)
    # Roles may include labels, such as the votes of a long table.
    parts.raters.people = [role.column for role in parts.roles if role.role == "label"]
    taken = [role.column for role in parts.roles]
    find_raters(parts.typed, taken, choices, where, parts.raters)
    # Without a judge, people must have judged; a reading may be of answers alone.
    people = [*parts.raters.labels, *parts.raters.people]
    if choices.answers and choices.reading is None and not people:
        raise without_people(where)
    return choices


def _check_raters(parts: Parts, where: str, choices: Choices) -> None:
    """Check that the raters are not counts, and that no other reading is as likely.

    Raises:
        OpenTableError: If one is.
    """
    if choices.reading is not None:
        return
    taken = [role.column for role in parts.roles]
    if not choices.keys:
        raters = [*judge_columns(parts.raters), *parts.raters.labels]
        check_counts(parts.typed, raters, taken, where)
    if not choices.answers:
        check_other_readings(parts.typed, parts.raters, taken, choices, where)


def _space(parts: Parts, where: str, choices: Choices) -> Space:
    """Return what the verdicts of judges and labels are, as a reading has it or as they show."""
    judges = {name: parts.typed[name] for name in judge_columns(parts.raters)}
    labels = {name: parts.typed[name] for name in parts.raters.labels}
    raters = {**judges, **labels}
    if choices.reading is not None:
        return known_space(raters, choices.reading, where)
    by_role = parts.by_role()
    has_pairs = compares(by_role)
    if has_pairs:
        # `first` may name what was shown first only if a column gives the order.
        name_of_order = by_role.get("order")
        order = None if name_of_order is None else parts.typed[name_of_order]
        check_positions(judges, order, choices.words, where)
    check_mapped(raters, choices.words, where)
    systems = systems_of(parts, by_role)
    return verdict_space(
        judges, labels, choices.words, systems, compared=has_pairs, where=where
    )


def _read_stacked(parts: Parts, stack: Stack, where: str, choices: Choices) -> Table:
    """Read a table of columns by rater and criterion as rows by criterion."""
    # Rows without an id need one before they are split by criterion, or they would come apart.
    has_id = not {"id", "prompt"}.isdisjoint(parts.by_role())
    columns = stacked(parts.columns, stack, has_id=has_id)
    listed = _listed(stack)
    note = f"read as rows by criterion: {listed}"
    if not (choices.keys or choices.judges or choices.labels):
        judges = [name for names in stack.judges.values() for name in names[:1]]
        labels = [name for names in stack.labels.values() for name in names[:1]]
        options = named_options("--judge", judges)
        options += named_options("--label", labels)
        note += f"; to check '{stack.criteria[0]}' alone: {command(options)}"
    columns.notes.append(note)
    keys = [name for name in choices.keys if name != ALL_CRITERIA]
    named_by_user = bool(choices.judges or choices.labels)
    choices = replace(
        choices,
        judges=tuple(stack.judges),
        labels=tuple(stack.labels),
        # The column of criteria tells the new rows apart; the answer that led here is used up.
        keys=(*keys, COLUMN),
    )
    table = _read(Parts(columns, typed_columns(columns), []), where, choices)
    if named_by_user:
        return replace(table, stack=stack)
    roles = tuple(
        replace(role, why="the columns of this rater")
        if role.column in stack.raters
        else role
        for role in table.roles
    )
    return replace(table, stack=stack, roles=roles)


def _read_repeats(parts: Parts, stack: Stack, where: str, choices: Choices) -> Table:
    """Read columns of runs or of both orders as rows by run or order.

    Raises:
        DatasetError: If there are judges without them.
    """
    for name in sums_of(stack, parts.typed):
        del parts.columns.cells[name]
        parts.columns.notes.append(f"'{name}' sums up the runs, and is not used")
    has_id = not {"id", "prompt"}.isdisjoint(parts.by_role())
    columns = stacked(parts.columns, stack, has_id=has_id)
    note = f"read as rows by {stack.column}: {_listed(stack)}"
    columns.notes.append(note)
    keys = [name for name in choices.keys if name not in (ALL_RUNS, ALL_ORDERS)]
    roles = {**choices.columns}
    roles[ROLES[stack.column]] = stack.column
    choices = replace(choices, keys=tuple(keys), columns=roles)
    table = _read(Parts(columns, typed_columns(columns), []), where, choices)
    judges = [role.column for role in table.roles if role.role == "judge"]
    for name in judges:
        if name not in stack.judges:
            problem = f"'{name}' has no verdicts by {stack.column}, and other judges have some"
            remedy = f"name the judges' columns: --judge {name}"
            raise DatasetError(problem, where=where, remedy=remedy)
    return replace(table, stack=stack)


def _listed(stack: Stack) -> str:
    """Return the names of all columns that become one."""
    listed: list[str] = []
    for names in stack.raters.values():
        listed += names
    return ", ".join(listed)


def _read_empty_cells(parts: Parts, choices: Choices, where: str) -> None:
    """Read the empty cells of raters as the user mapped them, or ask what they mean
    next to marks.
    """
    raters = {name: parts.typed[name] for name in parts.raters.names}
    if EMPTY_CELL not in choices.words:
        # Next to marks such as x, an empty cell may mean no or not rated: only the user knows.
        ask_about_marks(raters, choices.words, where)
        return
    # An empty cell becomes a level that the user's `--map` gives a meaning.
    for name, column in raters.items():
        cells = list(column.cells)
        for row, cell in enumerate(cells):
            if cell is None:
                cells[row] = EMPTY_CELL
        parts.typed[name] = TypedColumn(name, cells)


def _check_named(parts: Parts, names: Iterable[str], where: str) -> None:
    for name in names:
        if name not in parts.typed:
            remedy = did_you_mean(name, list(parts.typed))
            raise ConfigError(f"has no column '{name}'", where=where, remedy=remedy)


def _name_chosen(parts: Parts) -> None:
    """Note that a table of preferences names the chosen response in its header."""
    by_role = parts.by_role()
    name = by_role.get("response_a", "")
    if not _CHOSEN.isdisjoint(tokens(name)):
        # The label is the same in each row, so it is a constant and not a column.
        parts.constants["label"] = "A"
        parts.notes.append(
            f"the response in '{name}' is read as the label of each pair"
        )


def _rater_roles(parts: Parts) -> list[Role]:
    raters = parts.raters
    # A column with a fixed role of label is not a judge too.
    label_columns = {role.column for role in parts.roles if role.role == "label"}
    for role in parts.roles:
        if role.role == "label":
            raters.labels[role.column] = role.why
            raters.judges.pop(role.column, None)
    roles = [Role(name, "judge", why) for name, why in raters.judges.items()]
    if raters.criteria:
        why = "a criterion of one judge"
        roles = [Role(name, "criterion's score", why) for name in raters.criteria]
    roles += [
        Role(name, "label", why)
        for name, why in raters.labels.items()
        if name not in label_columns
    ]
    return roles


def _find_keys(parts: Parts, choices: Choices, where: str) -> None:
    """Find the columns that tell units, repeats and criteria apart, and drop copies of rows.

    Raises:
        OpenTableError: If it is open which columns do.
    """
    by_role = parts.by_role()
    if identity := by_role.get("id"):
        _read_missing_ids(parts, identity)
    not_keys = _columns_without_keys(parts)
    # `--key NONE`: no column tells units apart, so none is searched for keys.
    if NO_LABELS in choices.keys:
        not_keys += list(parts.typed)
    chosen = [name for name in choices.keys if name != NO_LABELS]
    if EACH_ROW in chosen and EACH_ROW not in parts.typed:
        _number_rows(parts)
    parts.keys = find_keys(parts.typed, dict(by_role), not_keys, chosen, where)
    keys = parts.keys
    if not choices.keys and keys.sample is None and keys.unit:
        # Labels of one annotator that differ within a unit show that rows are not repeats.
        within = [by_role[role] for role in CASE_ROLES if role in by_role]
        units = dict.fromkeys((*keys.unit, *within))
        check_labels_of_units(parts.typed, [*units], parts.raters.labels, where)
    _add_roles_of_keys(parts)
    if keys.duplicates:
        # The rows of exact copies, by index; every column loses the same rows.
        dropped = set(keys.duplicates)
        kept = [row for row in range(len(parts.columns)) if row not in dropped]
        parts.columns = parts.columns.take(kept)
        parts.typed = typed_columns(parts.columns)


def _columns_without_keys(parts: Parts) -> list[str]:
    """Return the columns that cannot tell units apart: those of raters and of their names."""
    # A column that may be a verdict is not a rater yet, but may tell units apart.
    names = [*parts.raters.names, *parts.raters.criteria]
    for name, why in parts.raters.unused.items():
        if why != MAY_BE_VERDICT:
            names.append(name)
    if parts.form is not None and parts.form.kind == "judges":
        names.append(parts.form.rater)
    return names


def _read_missing_ids(parts: Parts, name: str) -> None:
    """Empty the cells of ids such as `n/a`, which are missing: their rows are not one unit."""
    column = parts.typed[name]
    if not column.missing:
        return
    cells = list(column.cells)
    for row, text in enumerate(column.texts):
        if text is not None and text in column.missing:
            cells[row] = None
    parts.typed[name] = TypedColumn(name, cells)
    parts.columns.cells[name] = cells


def _add_roles_of_keys(parts: Parts) -> None:
    """Add the roles of the columns that were found to tell repeats, criteria and units apart."""
    keys = parts.keys
    by_role = parts.by_role()
    if keys.sample is None:
        parts.drop_role("sample")
    elif "sample" not in by_role:
        parts.add_role(keys.sample, "sample", "tells repeats apart")
    used = {role.column for role in parts.roles}
    if keys.criterion is not None and keys.criterion not in used:
        parts.add_role(keys.criterion, "criterion", "results are shown for each")
        used.add(keys.criterion)
    for name in keys.unit:
        if name not in used:
            parts.add_role(name, "key", "tells units apart")


def _number_rows(parts: Parts) -> None:
    """Add a column with the number of each row, which makes it a unit."""
    # Numbers from 1, as a reader of the file counts rows.
    numbers = [row + 1 for row in range(len(parts.columns))]
    parts.columns.cells[EACH_ROW] = numbers
    parts.typed[EACH_ROW] = TypedColumn(EACH_ROW, numbers)


def _check_contradictions(
    parts: Parts,
    verdicts: Mapping[str, Sequence[Any]],
    space: Space,
    choices: Choices,
    where: str,
) -> None:
    """Ask about data that contradict their reading, unless a reading or the user says
    what they are.

    Raises:
        OpenTableError: If verdicts are opposite, or criteria have different scales.
    """
    if choices.answers:
        return
    name = parts.keys.criterion
    criterion = None if name is None else parts.typed[name]
    check_criteria(criterion, verdicts, space, where)
    if choices.reading is not None:
        return
    judges = judge_columns(parts.raters)
    labels = [*parts.raters.labels]
    # The user chose all raters, so their directions are settled.
    if {*judges} <= {*choices.judges} and {*labels} <= {*choices.labels}:
        return
    raters = (judges, labels)
    if space.unit == "response":
        check_scales(raters, parts.typed, verdicts, choices.words, where)
    check_opposite(raters, verdicts, space, choices.words, where)


def _settings(parts: Parts, space: Space) -> JsonObject:
    """Return the settings of a run of the table: its rubric, and the columns by which
    it is sliced.
    """
    settings: JsonObject = {}
    if space.rubric:
        settings["rubric"] = dict(space.rubric)
    scoring: JsonObject = {}
    slices = _slices(parts)
    if slices:
        scoring["slices"] = slices
    # Units of one id, such as turns of one conversation, are not independent.
    unit = parts.keys.unit
    if len(unit) > 1 and unit[0] == parts.by_role().get("id"):
        scoring["cluster"] = unit[0]
    if scoring:
        settings["scoring"] = scoring
    labels = parts.raters.labels
    if labels and all(map(is_model, labels)):
        # Two models may share mistakes, which agreement cannot show.
        settings["dataset"] = {"label_source": "model"}
    return settings


def _slices(parts: Parts) -> list[str]:
    """Return the columns by which results are sliced, up to a few."""
    slices = parts.slices
    criterion = parts.keys.criterion
    if criterion is not None and criterion != parts.by_role().get("id"):
        slices.append(criterion)
    # Without labels there is nothing to slice.
    if not parts.raters.labels:
        return slices
    # A key may be a slice too, such as a criterion; all other roles are not.
    used = {role.column for role in parts.roles if role.role != "key"}
    for name, column in parts.typed.items():
        if len(slices) >= _MOST_SLICES:
            break
        if name in used or name in slices or name in parts.raters.unused:
            continue
        if _is_slice(column, len(parts.columns)):
            slices.append(name)
    return slices


def _is_slice(column: TypedColumn, rows: int) -> bool:
    """Return whether a column is about the kind of a case, with enough rows of each kind."""
    # Few values, each in enough rows, or an interval of a slice says nothing.
    if not 2 <= len(column.counts) <= _SLICE_VALUES:
        return False
    if column.kind not in ("class", "pair", "ordered"):
        return False
    if column.total < rows / 2:
        return False
    if min(column.counts.values()) < _SLICE_ROWS:
        return False
    # Such as its language or category.
    return matches(column.name, "process")
