"""A table as records: typed columns, units and repeats, raters, and verdicts in one space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.interop.layouts.layouts import Unit, is_swapped
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
    strength,
)
from evalkit.interop.tables.joined_columns import (
    join_classes,
    join_one_hot,
    join_sided_scores,
    join_votes,
)
from evalkit.interop.tables.judging_command import judging_command
from evalkit.interop.tables.keys import CASE_ROLES, COPIES, equal_rows, find_keys
from evalkit.interop.tables.known_verdicts import known_space
from evalkit.interop.tables.label_origins import check_chosen, check_copies
from evalkit.interop.tables.long_tables import (
    LongForm,
    long_form,
    unit_column,
    widened,
    with_columns_of_people,
)
from evalkit.interop.tables.mixed_scales import check_scales
from evalkit.interop.tables.named_sides import named_sides
from evalkit.interop.tables.other_readings import check_other_readings
from evalkit.interop.tables.pair_verdicts import POSITIONS, SYSTEM
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
)
from evalkit.interop.tables.rater_levels import EMPTY_CELL, Space, check_mapped
from evalkit.interop.tables.rater_questions import ask_about_marks
from evalkit.interop.tables.rater_roles import MAY_BE_VERDICT
from evalkit.interop.tables.rater_rows import name_raters
from evalkit.interop.tables.raters import find_raters
from evalkit.interop.tables.repeated_columns import stack_of_repeats, sums_of
from evalkit.interop.tables.role_list import listed_roles
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
from evalkit.interop.tables.table_records import table_records
from evalkit.interop.tables.table_warnings import table_warnings
from evalkit.interop.tables.verdicts import verdict_space
from evalkit.interop.tables.words import fold, is_model, matches, tokens, word_group

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
    # From here on, `parts` holds the state of the reading: each step narrows it.
    parts = Parts(columns, typed_columns(columns), [])
    # A column that is really named NONE is a column, not the word for no labels.
    without_labels = NO_LABELS in choices.labels and NO_LABELS not in parts.typed
    if without_labels:
        labels = tuple(name for name in choices.labels if name != NO_LABELS)
        only = bool(choices.judges or labels)
        choices = replace(choices, labels=labels, only=only, unlabeled=not labels)
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
    if sides is not None:
        choices = sides.chosen(choices)
    parts.roles = fixed_roles(parts.typed, choices)
    if sides is not None:
        parts.roles = sides.explained(parts.roles)
    # `model_1` and `model_2` name systems, and are no verdicts in two orders.
    of_sides = [role.column for role in parts.roles if role.role in PAIR_ROLES]
    other_columns = {
        name: column for name, column in parts.typed.items() if name not in of_sides
    }
    repeats = stack_of_repeats(
        other_columns, choices, where, compares=compares(parts.by_role())
    )
    if repeats is not None:
        return _read_repeats(parts, repeats, where, choices)
    join_sided_scores(parts, choices, where)
    # A long table gets a column for each rater, which changes the columns and their roles.
    _widen(parts, choices, where)
    choices = with_columns_of_people(choices, parts.form, parts.roles)
    keys = [name for name in choices.keys if name not in _NO_COLUMNS]
    _check_named(parts, (*choices.judges, *choices.labels, *keys), where)
    if not choices.unlabeled:
        _name_chosen(parts)
    taken = [role.column for role in parts.roles]
    # Roles may include labels, such as the votes of a long table.
    parts.raters.people = [role.column for role in parts.roles if role.role == "label"]
    find_raters(parts.typed, taken, choices, where, parts.raters)
    # One judge and one annotator by criterion: rows by criterion are read from the beginning.
    if parts.raters.stack is not None:
        return _read_stacked(parts, parts.raters.stack, where, choices)
    if parts.raters.criteria:
        # `--key CRITERION` said what the columns are, and names none.
        keys = [name for name in choices.keys if name != ALL_CRITERIA]
        choices = replace(choices, keys=tuple(keys))
    if not choices.keys and choices.reading is None:
        raters = [*judge_columns(parts.raters), *parts.raters.labels]
        check_counts(parts.typed, raters, taken, where)
    if choices.reading is None and not choices.answers:
        check_other_readings(parts.typed, parts.raters, taken, choices, where)
    parts.roles += _rater_roles(parts)
    # Empty cells are read before keys and verdicts, which both depend on what is missing.
    _read_empty_cells(parts, choices, where)
    _find_keys(parts, choices, where)
    judges = {name: parts.typed[name] for name in judge_columns(parts.raters)}
    labels = {name: parts.typed[name] for name in parts.raters.labels}
    by_role = parts.by_role()
    compared = compares(by_role)
    if compared and choices.reading is None:
        # `first` may name what was shown first only if a column gives the order.
        order = by_role.get("order")
        check_positions(
            judges,
            None if order is None else parts.typed[order],
            choices.words,
            where,
        )
    if choices.reading is not None:
        space = known_space({**judges, **labels}, choices.reading, where)
    else:
        check_mapped({**judges, **labels}, choices.words, where)
        space = verdict_space(
            judges,
            labels,
            choices.words,
            _systems(parts, by_role),
            compared=compared,
            where=where,
        )
    # {rater: its verdicts by row}; the rows are those of `parts.columns`.
    verdicts = _verdicts(parts, space, by_role)
    # Checks of the data come last: each compares verdicts, so it needs all columns read.
    check_copies(parts, verdicts, choices, where)
    _check_contradictions(parts, verdicts, space, choices, where)
    check_chosen(parts, verdicts, choices, where)
    warnings = [*parts.columns.notes, *parts.notes, *parts.keys.notes, *space.notes]
    warnings += table_warnings(parts, verdicts, space)
    find_confidence(parts, space)
    records = list(table_records(parts, verdicts, space, answers=choices.answers))
    parsed = ParsedFile(records, scale=space.scale)
    settings = _settings(parts, space)
    return Table(
        parsed,
        tuple(listed_roles(parts)),
        tuple(warnings),
        settings,
        choices,
        space,
    )


def _read_stacked(parts: Parts, stack: Stack, where: str, choices: Choices) -> Table:
    """Read a table of columns by rater and criterion as rows by criterion."""
    # Rows without an id need one before they are split by criterion, or they would come apart.
    has_id = not {"id", "prompt"}.isdisjoint(parts.by_role())
    columns = stacked(parts.columns, stack, has_id=has_id)
    listed = ", ".join(name for names in stack.raters.values() for name in names)
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
    listed = ", ".join(name for names in stack.raters.values() for name in names)
    columns.notes.append(f"read as rows by {stack.column}: {listed}")
    keys = [name for name in choices.keys if name not in (ALL_RUNS, ALL_ORDERS)]
    roles = {ROLES[stack.column]: stack.column}
    choices = replace(choices, keys=tuple(keys), columns={**choices.columns, **roles})
    table = _read(Parts(columns, typed_columns(columns), []), where, choices)
    judges = [role.column for role in table.roles if role.role == "judge"]
    single = [name for name in judges if name not in stack.judges]
    if single:
        problem = f"'{single[0]}' has no verdicts by {stack.column}, and other judges have some"
        remedy = f"name the judges' columns: --judge {single[0]}"
        raise DatasetError(problem, where=where, remedy=remedy)
    return replace(table, stack=stack)


def _read_empty_cells(parts: Parts, choices: Choices, where: str) -> None:
    """Read the empty cells of raters as the user mapped them, or ask what they mean
    next to marks.
    """
    raters = {name: parts.typed[name] for name in parts.raters.names}
    if EMPTY_CELL not in choices.words:
        # Next to marks such as x, an empty cell may mean no or not rated: only the user knows.
        ask_about_marks(raters, choices.words, where)
        return
    for name, column in raters.items():
        # An empty cell becomes a level that the user's `--map` gives a meaning.
        cells = [EMPTY_CELL if cell is None else cell for cell in column.cells]
        parts.typed[name] = TypedColumn(name, cells)


def _check_named(parts: Parts, names: Iterable[str], where: str) -> None:
    for name in names:
        if name not in parts.typed:
            remedy = did_you_mean(name, list(parts.typed))
            raise ConfigError(f"has no column '{name}'", where=where, remedy=remedy)


def _widen(parts: Parts, choices: Choices, where: str) -> None:
    """Give each rater of a long table a column.

    Raises:
        DatasetError: If its rows are those of judges and people, and nothing tells units apart.
    """
    by_role = parts.by_role()
    if not {"id", "prompt"} & by_role.keys():
        # Without an id, a column whose values occur once with each rater identifies the units.
        unit = unit_column(parts.typed, len(parts.columns))
        if unit is not None:
            parts.roles = [role for role in parts.roles if role.column != unit]
            parts.roles.append(Role(unit, "id", "occurs once with each rater"))
            by_role = parts.by_role()
    form = long_form(parts.typed, by_role, choices, len(parts.columns), where)
    if form is None:
        return
    # Judges stay in rows: each row is one judgment with its judge's name.
    if form.kind == "judges":
        parts.form = form
        parts.roles = [role for role in parts.roles if role.column != form.rater]
        parts.roles.append(
            Role(form.rater, "judge's name", "names the judge of each row")
        )
        return
    parts.roles = [
        role for role in parts.roles if role.column not in (form.rater, form.value)
    ]
    by_role = parts.by_role()
    # The columns that identify a unit, without those of the rater and its verdict.
    keys = _long_keys(parts, form, by_role)
    is_vote = form.rater == form.value
    # One annotator for each unit: the rows are units already, and need not be widened.
    if form.kind == "people" and (is_vote or not _several(parts.typed, keys)):
        parts.roles.append(
            Role(form.rater, "annotator", "names the annotator of each row")
        )
        parts.roles.append(
            Role(form.value, "label", "given by the annotator of each row")
        )
        return
    parts.form = form
    # Equal rows of one unit are copies, not repeated verdicts.
    copies = (
        set(equal_rows(parts.typed)) if {"id", "prompt"} & by_role.keys() else set()
    )
    if copies:
        kept = [row for row in range(len(parts.columns)) if row not in copies]
        parts.columns = parts.columns.take(kept)
        parts.notes.append(COPIES.format(len(copies)))
    wide, raters = widened(parts.columns, form, keys)
    parts.columns = wide
    parts.widened = tuple(raters)
    del wide.cells[form.rater]
    # From here the table is wide: rows are units, and each rater has a column.
    typed = typed_columns(wide)
    parts.typed = typed
    sample = by_role.get("sample")
    # The repeats of a long table may be dissolved into the columns of raters.
    if sample is not None and sample not in typed:
        parts.roles = [role for role in parts.roles if role.role != "sample"]
    parts.roles.append(Role(form.rater, "rater", f"{len(raters)} names"))
    parts.roles.append(Role(form.value, "value", "the rater's verdict"))
    named_people = matches(form.rater, "human") and not any(
        strength(name)[0] == "judge" for name in raters
    )
    if form.kind == "people" or named_people:
        parts.roles += [Role(name, "label", "an annotator") for name in raters]


def _several(typed: Mapping[str, TypedColumn], keys: Sequence[str]) -> bool:
    # (columns, rows) to tuples by row: fewer distinct tuples than rows mean repeats.
    texts = [typed[name].texts for name in keys]
    rows = list(zip(*texts, strict=True))
    return len(set(rows)) < len(rows)


def _long_keys(parts: Parts, form: LongForm, by_role: Mapping[str, str]) -> list[str]:
    """Return the columns of a long table that tell units apart: those that differ
    within an id and a rater.
    """
    keys = find_keys(
        # A repeat does not tell units apart, and the rater's column would otherwise be a key.
        parts.typed,
        {role: name for role, name in by_role.items() if role != "sample"}
        | ({"model": form.rater} if "model" not in by_role else {}),
        [form.value],
        [form.rater],
        "",
    )
    within = ("order", "response", "model", "response_a", "response_b", "sample")
    roles = [by_role[role] for role in within if role in by_role]
    ids = [by_role[role] for role in ("id", "prompt") if role in by_role]
    names = dict.fromkeys([*keys.unit, *ids, *roles])
    return [name for name in names if name not in (form.rater, form.value)]


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
    by_role = parts.by_role()
    # A column that may be a verdict is not a rater yet, but may tell units apart.
    rated = [name for name, why in parts.raters.unused.items() if why != MAY_BE_VERDICT]
    names = [*parts.raters.names, *parts.raters.criteria, *rated]
    if parts.form is not None and parts.form.kind == "judges":
        names.append(parts.form.rater)
    chosen = [name for name in choices.keys if name != NO_LABELS]
    if identity := by_role.get("id"):
        # An id such as `n/a` is missing: rows with it are not one unit.
        column = parts.typed[identity]
        cells = [
            None if text is None or text in column.missing else cell
            for text, cell in zip(column.texts, column.cells, strict=True)
        ]
        parts.typed[identity] = TypedColumn(identity, cells)
        parts.columns.cells[identity] = cells
    # `--key NONE`: no column tells units apart, so none is searched for keys.
    if NO_LABELS in choices.keys:
        names += list(parts.typed)
    if EACH_ROW in chosen and EACH_ROW not in parts.typed:
        _number_rows(parts)
    roles = dict(by_role)
    parts.keys = find_keys(parts.typed, roles, names, chosen, where)
    if not choices.keys and parts.keys.sample is None and parts.keys.unit:
        # Labels of one annotator that differ within a unit show that rows are not repeats.
        within = [by_role[role] for role in CASE_ROLES if role in by_role]
        units = dict.fromkeys((*parts.keys.unit, *within))
        check_labels_of_units(parts.typed, [*units], parts.raters.labels, where)
    sample = parts.keys.sample
    if sample is None:
        parts.roles = [role for role in parts.roles if role.role != "sample"]
    elif "sample" not in by_role:
        parts.roles.append(Role(sample, "sample", "tells repeats apart"))
    used = {role.column for role in parts.roles}
    if parts.keys.criterion is not None and parts.keys.criterion not in used:
        parts.roles.append(
            Role(parts.keys.criterion, "criterion", "results are shown for each")
        )
        used.add(parts.keys.criterion)
    for name in parts.keys.unit:
        if name not in used:
            parts.roles.append(Role(name, "key", "tells units apart"))
    if parts.keys.duplicates:
        # The rows of exact copies, by index; every column loses the same rows.
        dropped = set(parts.keys.duplicates)
        kept = [row for row in range(len(parts.columns)) if row not in dropped]
        parts.columns = parts.columns.take(kept)
        parts.typed = typed_columns(parts.columns)


def _number_rows(parts: Parts) -> None:
    """Add a column with the number of each row, which makes it a unit."""
    # Numbers from 1, as a reader of the file counts rows.
    numbers = [row + 1 for row in range(len(parts.columns))]
    parts.columns.cells[EACH_ROW] = numbers
    parts.typed[EACH_ROW] = TypedColumn(EACH_ROW, numbers)


def _systems(parts: Parts, by_role: Mapping[str, str]) -> list[str]:
    """Return the names of the systems that wrote two responses: the values of two
    columns, or their names.

    A system that is on both sides is named twice.
    """
    names: list[str] = []
    for side in "ab":
        column = by_role.get(f"model_{side}")
        if column is not None:
            names += parts.typed[column].counts
        # Without names of systems, a verdict may name the column of the response.
        elif f"response_{side}" in by_role:
            names.append(by_role[f"response_{side}"])
    return names


def _verdicts(
    parts: Parts, space: Space, by_role: Mapping[str, str]
) -> dict[str, list[Any]]:
    """Return the verdict of each rater in each row; `None` if it has none."""
    verdicts = {}
    for name, values in space.values.items():
        texts = parts.typed[name].texts
        verdicts[name] = [None if text is None else values.get(text) for text in texts]
        if space.by_row:
            _name_winners(verdicts[name], texts, parts, by_role)
        # Words such as `first` depend on what was shown first in their row.
        if not set(POSITIONS).isdisjoint(values.values()):
            order = parts.columns.cells[by_role["order"]]
            verdicts[name] = [
                _at_position(verdict, order_of_row, location)
                for verdict, order_of_row, location in zip(
                    verdicts[name], order, parts.columns.places, strict=True
                )
            ]
    return verdicts


def _at_position(verdict: Any, order: Any, location: str) -> Any:
    """Return the response that was shown first or second, if a verdict names it so."""
    if verdict not in POSITIONS:
        return verdict
    sides = "BA" if is_swapped(order, location) else "AB"
    return sides[POSITIONS.index(verdict)]


def _name_winners(
    verdicts: list[Any],
    texts: Sequence[str | None],
    parts: Parts,
    by_role: Mapping[str, str],
) -> None:
    """Replace the names of systems by the side on which they are in the row.

    Raises:
        DatasetError: If a row names a system that it does not have.
    """
    sides = {}
    for letter in "ab":
        column = by_role.get(f"model_{letter}")
        response = by_role.get(f"response_{letter}", "")
        # (rows,) the name of the system on each side, the same in all rows if the column is it.
        sides[letter.upper()] = (
            [response] * len(texts) if column is None else parts.typed[column].texts
        )
    for row, verdict in enumerate(verdicts):
        # Which side a word that names a system is on varies by row.
        if verdict != SYSTEM:
            continue
        # Both sides may have one system, or neither: then the winner is unknown.
        word = fold(texts[row] or "")
        winners = [
            side for side, names in sides.items() if fold(names[row] or "") == word
        ]
        if len(winners) != 1:
            problem = f"names the winner '{texts[row]}', which is not one of the row's two systems"
            remedy = "fix the row, or name the systems' columns model_a and model_b"
            raise DatasetError(problem, where=parts.columns.places[row], remedy=remedy)
        verdicts[row] = winners[0]


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
        OpenTableError: If verdicts are opposite.
        DatasetError: If criteria have different scales.
    """
    if choices.answers or choices.reading is not None:
        return
    criterion = parts.keys.criterion
    check_criteria(
        None if criterion is None else parts.typed[criterion], verdicts, space, where
    )
    judges = judge_columns(parts.raters)
    # The user chose all raters, so their directions are settled.
    if {*judges} <= {*choices.judges} and {*parts.raters.labels} <= {*choices.labels}:
        return
    if space.unit == "response":
        labels = [*parts.raters.labels]
        check_scales((judges, labels), parts.typed, verdicts, choices.words, where)
    check_opposite(
        (judges, [*parts.raters.labels]), verdicts, space, choices.words, where
    )


def _settings(parts: Parts, space: Space) -> JsonObject:
    """Return the settings of a run of the table: its rubric, and the columns by which
    it is sliced.
    """
    settings: JsonObject = {}
    if space.rubric:
        settings["rubric"] = dict(space.rubric)
    slices = parts.slices
    criterion = parts.keys.criterion
    if criterion is not None and criterion != parts.by_role().get("id"):
        slices.append(criterion)
    # A key may be a slice too, such as a criterion; all other roles are not.
    used = {role.column for role in parts.roles if role.role != "key"}
    rows = len(parts.columns)
    for name, column in parts.typed.items():
        if name in used or name in slices or len(slices) >= _MOST_SLICES:
            continue
        # Few values, each in enough rows, or an interval of a slice says nothing.
        few = 2 <= len(column.counts) <= _SLICE_VALUES
        if (
            not few
            or column.kind not in ("class", "pair", "ordered")
            or column.total < rows / 2
        ):
            continue
        if min(column.counts.values()) < _SLICE_ROWS or not parts.raters.labels:
            continue
        # Only columns about the kind of a case or answer, such as language or category.
        if name in parts.raters.unused or not matches(name, "process"):
            continue
        slices.append(name)
    if slices:
        settings["scoring"] = {"slices": slices}
    if parts.raters.labels and all(map(is_model, parts.raters.labels)):
        # Two models may share mistakes, which agreement cannot show.
        settings["dataset"] = {"label_source": "model"}
    # Units of one id, such as turns of one conversation, are not independent.
    if len(parts.keys.unit) > 1 and parts.keys.unit[0] == parts.by_role().get("id"):
        settings.setdefault("scoring", {})["cluster"] = parts.keys.unit[0]
    return settings
