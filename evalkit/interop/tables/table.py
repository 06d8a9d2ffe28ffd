"""A table as records: typed columns, units and repeats, raters, and verdicts in one space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.foreign_files.judgment_files import text
from evalkit.foreign_files.layouts import Unit, judgment_of, record_of
from evalkit.foreign_files.records import (
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
    missing_record,
)
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Columns, Rows, cell_text, columns_of
from evalkit.interop.tables.fixed_roles import (
    Choices,
    fixed_roles,
    is_rank,
    sided_pairs,
    strength,
)
from evalkit.interop.tables.keys import COPIES, Keys, equal_rows, find_keys
from evalkit.interop.tables.known_verdicts import known_space
from evalkit.interop.tables.long_tables import LongForm, long_form, widened
from evalkit.interop.tables.questions import Answer, OpenTableError, Role
from evalkit.interop.tables.rater_levels import Space
from evalkit.interop.tables.rater_questions import EMPTY_CELL, ask_about_marks
from evalkit.interop.tables.raters import MAY_BE_VERDICT, NOT_USED, Raters, find_raters
from evalkit.interop.tables.stacked import (
    ALL_CRITERIA,
    COLUMN,
    Stack,
    stacked,
    stacked_again,
)
from evalkit.interop.tables.verdicts import verdict_space
from evalkit.interop.tables.words import EMPTY, fold, matches, tokens
from evalkit.values import Json, JsonObject, frozen

NO_LABELS: Final = "NONE"
_SAME_ROWS: Final = 20
_FEW: Final = 20
_NEAR_EMPTY: Final = 0.1
_MOST_SLICES: Final = 3
_SLICE_VALUES: Final = 8
_SLICE_ROWS: Final = 10
_CHOSEN: Final = frozenset({"chosen", "winner"})
_FIRST_SIDE: Final = ("a", "1", "left", "first", "chosen")
_ONE_HOT: Final = ("a", "b", "tie")
_CELLS: Final = (
    "prompt",
    "context",
    "reference",
    "response",
    "model",
    "response_a",
    "response_b",
    "model_a",
    "model_b",
    "order",
    "sample",
    "text",
)


@frozen
class Table:
    """A table as records, with the roles of its columns, warnings about its data, and settings that describe it."""

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


@dataclass(slots=True)
class _Parts:
    """What is known about a table while it is read."""

    columns: Columns
    typed: dict[str, TypedColumn]
    roles: list[Role]
    raters: Raters = field(default_factory=Raters)
    keys: Keys = field(default_factory=Keys)
    form: LongForm | None = None
    constants: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    slices: list[str] = field(default_factory=list)

    def by_role(self) -> dict[str, str]:
        """Return the column of each role."""
        return {role.role: role.column for role in self.roles}


def read_table(rows: Rows, where: str, choices: Choices) -> Table:
    """Return the records of a table.

    Args:
        rows: Its rows with their locations.
        where: Its name.
        choices: The user's choices.

    Raises:
        OpenTableError: If two readings differ in what would be concluded.
        DatasetError: If it has too few rows, or no verdicts.
    """
    if len(rows) < 2:
        what = (
            "has no rows"
            if not rows
            else "has only one row, which shows nothing about a judge"
        )
        remedy = "use a table with one row for each verdict"
        raise DatasetError(what, where=where, remedy=remedy)
    columns = columns_of(rows)
    choices = choices.on_one_line()
    if choices.reading is not None and choices.reading.stacked:
        columns = stacked_again(columns, choices.reading, choices.labels, where)
    parts = _Parts(columns, _typed(columns), [])
    without_labels = NO_LABELS in choices.labels and NO_LABELS not in parts.typed
    if without_labels:
        labels = tuple(name for name in choices.labels if name != NO_LABELS)
        choices = replace(choices, labels=labels, only=True, unlabeled=not labels)
    try:
        return _read(parts, where, choices)
    except OpenTableError as question:
        raise question.with_roles(_listed(parts)) from None


def _typed(columns: Columns) -> dict[str, TypedColumn]:
    return {name: TypedColumn(name, cells) for name, cells in columns.cells.items()}


def _read(parts: _Parts, where: str, choices: Choices) -> Table:
    _join_one_hot(parts)
    _check_named(parts, choices, where)
    parts.roles = fixed_roles(parts.typed, choices)
    _join_sided_scores(parts)
    _widen(parts, choices)
    _check_raters_named(parts, choices, where)
    if not choices.unlabeled:
        _name_chosen(parts)
    taken = [role.column for role in parts.roles]
    parts.raters.labels |= {
        role.column: role.why for role in parts.roles if role.role == "label"
    }
    find_raters(parts.typed, taken, choices, where, parts.raters)
    if parts.raters.stack is not None:
        return _read_stacked(parts, parts.raters.stack, where, choices)
    parts.roles += _rater_roles(parts)
    _read_empty_cells(parts, choices, where)
    _find_keys(parts, choices, where)
    judges = {name: parts.typed[name] for name in _judge_columns(parts.raters)}
    labels = {name: parts.typed[name] for name in parts.raters.labels}
    by_role = parts.by_role()
    compared = _compares(by_role)
    if choices.reading is not None:
        space = known_space({**judges, **labels}, choices.reading, where)
    else:
        space = verdict_space(
            judges,
            labels,
            choices.words,
            _systems(parts, by_role),
            compared=compared,
            where=where,
        )
    verdicts = _verdicts(parts, space, by_role)
    _check_copies(parts, choices, where)
    _check_chosen(parts, verdicts, choices, where)
    warnings = [*parts.columns.notes, *parts.notes, *parts.keys.notes, *space.notes]
    warnings += _warnings(parts, verdicts, space)
    records = list(_records(parts, verdicts, space, answers=choices.answers))
    parsed = ParsedFile(records, scale=space.scale)
    settings = _settings(parts, space)
    return Table(
        parsed,
        tuple(_listed(parts)),
        tuple(warnings),
        settings,
        choices,
        space,
    )


def _read_stacked(parts: _Parts, stack: Stack, where: str, choices: Choices) -> Table:
    """Read a table of columns by rater and criterion as rows by criterion."""
    has_id = not {"id", "prompt"}.isdisjoint(parts.by_role())
    columns = stacked(parts.columns, stack, has_id=has_id)
    listed = ", ".join(name for names in stack.raters.values() for name in names)
    columns.notes.append(f"read as rows by criterion: {listed}")
    keys = [name for name in choices.keys if name != ALL_CRITERIA]
    choices = replace(
        choices,
        judges=tuple(stack.judges),
        labels=tuple(stack.labels),
        keys=(*keys, COLUMN),
    )
    table = _read(_Parts(columns, _typed(columns), []), where, choices)
    return replace(table, stack=stack)


def _read_empty_cells(parts: _Parts, choices: Choices, where: str) -> None:
    """Read the empty cells of raters as the user mapped them, or ask what they mean next to marks."""
    raters = {name: parts.typed[name] for name in parts.raters.names}
    if EMPTY_CELL not in choices.words:
        ask_about_marks(raters, choices.words, where)
        return
    for name, column in raters.items():
        cells = [EMPTY_CELL if cell is None else cell for cell in column.cells]
        parts.typed[name] = TypedColumn(name, cells)


def _judge_columns(raters: Raters) -> list[str]:
    return [*raters.criteria] if raters.criteria else [*raters.judges]


def _compares(by_role: Mapping[str, str]) -> bool:
    texts = {"response_a", "response_b"} <= by_role.keys()
    return texts or {"model_a", "model_b"} <= by_role.keys()


def _check_named(parts: _Parts, choices: Choices, where: str) -> None:
    for name in choices.columns.values():
        if name not in parts.typed:
            remedy = did_you_mean(name, list(parts.typed))
            raise ConfigError(f"has no column '{name}'", where=where, remedy=remedy)


def _check_raters_named(parts: _Parts, choices: Choices, where: str) -> None:
    for name in (*choices.judges, *choices.labels):
        if name not in parts.typed:
            remedy = did_you_mean(name, list(parts.typed))
            raise ConfigError(f"has no column '{name}'", where=where, remedy=remedy)


def _join_one_hot(parts: _Parts) -> None:
    """Join columns of 0 and 1 for each winner, of which each row has one 1, to a column of winners."""
    found: dict[str, dict[str, str]] = {}
    for name, column in parts.typed.items():
        words = tokens(name)
        side = next((word for word in reversed(words) if word in _ONE_HOT), None)
        if side is None and words and words[-1] in ("draw", "ties", "same", "equal"):
            side = "tie"
        if side is None or not (column.is_binary or column.kind == "flag"):
            continue
        rest = " ".join(
            word
            for word in words
            if word not in (*_ONE_HOT, "model", "response", "draw")
        )
        if matches(rest, "value"):
            found.setdefault(rest, {}).setdefault(side, name)
    for rest, sides in found.items():
        if not {"a", "b"} <= sides.keys():
            continue
        winners = [
            _one_hot(parts.typed, sides, row) for row in range(len(parts.columns))
        ]
        if any(winner == "" for winner in winners):
            continue
        name = f"{rest}_*".replace(" ", "_")
        for part in sides.values():
            del parts.columns.cells[part]
            del parts.typed[part]
        parts.columns.cells[name] = winners
        parts.typed[name] = TypedColumn(name, winners)
        parts.notes.append(
            f"columns {', '.join(sides.values())} are read as one column of winners"
        )


def _join_sided_scores(parts: _Parts) -> None:
    """Join a rater's scores of the two responses of a row to a column of winners."""
    if not _compares(parts.by_role()):
        return
    taken = {role.column for role in parts.roles}
    for first, second in sided_pairs(parts.typed, taken):
        columns = (parts.typed[first], parts.typed[second])
        if not all(
            column.is_numeric and column.share(column.numbers) == 1
            for column in columns
        ):
            continue
        if matches(first, "measured") or matches(first, "computed"):
            continue
        if all(column.is_binary for column in columns):
            continue
        above, below = reversed(columns) if is_rank(first) else columns
        winners = [
            _higher(above.numbers.get(one or ""), below.numbers.get(other or ""))
            for one, other in zip(above.texts, below.texts, strict=True)
        ]
        words = [word for word in tokens(first) if word not in _FIRST_SIDE]
        name = f"{'_'.join(words)}_*"
        for part in (first, second):
            del parts.columns.cells[part]
            del parts.typed[part]
        parts.columns.cells[name] = winners
        parts.typed[name] = TypedColumn(name, winners)
        parts.notes.append(
            f"columns {first}, {second} are read as one column of winners"
        )


def _higher(first: float | None, second: float | None) -> str | None:
    if first is None or second is None:
        return None
    return "tie" if first == second else "A" if first > second else "B"


def _one_hot(
    typed: Mapping[str, TypedColumn], sides: Mapping[str, str], row: int
) -> str | None:
    """Return the winner of a row; `None` if it has no values, and empty if not exactly one is set."""
    texts = {
        side: (typed[name].texts[row] or "").strip() or None
        for side, name in sides.items()
    }
    if all(value is None for value in texts.values()):
        return None
    chosen = [
        side for side, value in texts.items() if value in ("1", "true", "True", "1.0")
    ]
    if len(chosen) != 1:
        return "tie" if not chosen and "tie" not in sides else ""
    return chosen[0]


def _widen(parts: _Parts, choices: Choices) -> None:
    """Give each rater of a long table a column."""
    by_role = parts.by_role()
    form = long_form(parts.typed, by_role, choices, len(parts.columns))
    if form is None:
        return
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
    keys = _long_keys(parts, form, by_role)
    is_vote = form.rater == form.value
    if form.kind == "people" and (is_vote or not _several(parts.typed, keys)):
        parts.roles.append(
            Role(form.rater, "annotator", "names the annotator of each row")
        )
        parts.roles.append(
            Role(form.value, "label", "given by the annotator of each row")
        )
        return
    parts.form = form
    copies = (
        set(equal_rows(parts.typed)) if {"id", "prompt"} & by_role.keys() else set()
    )
    if copies:
        kept = [row for row in range(len(parts.columns)) if row not in copies]
        parts.columns = parts.columns.take(kept)
        parts.notes.append(COPIES.format(len(copies)))
    wide, raters = widened(parts.columns, form, keys)
    parts.columns = wide
    del wide.cells[form.rater]
    typed = _typed(wide)
    parts.typed = typed
    sample = by_role.get("sample")
    if sample is not None and sample not in typed:
        parts.roles = [role for role in parts.roles if role.role != "sample"]
    parts.roles.append(Role(form.rater, "rater", f"{len(raters)} names"))
    parts.roles.append(Role(form.value, "value", "the rater's verdict"))
    if form.kind == "people" or (
        not any(strength(name)[1] > 1 for name in raters)
        and matches(form.rater, "human")
    ):
        parts.roles += [Role(name, "label", "an annotator") for name in raters]


def _several(typed: Mapping[str, TypedColumn], keys: Sequence[str]) -> bool:
    texts = [typed[name].texts for name in keys]
    rows = list(zip(*texts, strict=True))
    return len(set(rows)) < len(rows)


def _long_keys(parts: _Parts, form: LongForm, by_role: Mapping[str, str]) -> list[str]:
    """Return the columns of a long table that tell units apart: those that differ within an id and a rater."""
    keys = find_keys(
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


def _name_chosen(parts: _Parts) -> None:
    """Note that a table of preferences names the chosen response in its header."""
    by_role = parts.by_role()
    name = by_role.get("response_a", "")
    if not _CHOSEN.isdisjoint(tokens(name)):
        parts.constants["label"] = "A"
        parts.notes.append(
            f"the response in '{name}' is read as the label of each pair"
        )


def _rater_roles(parts: _Parts) -> list[Role]:
    raters = parts.raters
    known = {role.column for role in parts.roles if role.role == "label"}
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
        if name not in known
    ]
    return roles


def _find_keys(parts: _Parts, choices: Choices, where: str) -> None:
    by_role = parts.by_role()
    rated = [name for name, why in parts.raters.unused.items() if why != MAY_BE_VERDICT]
    names = [*parts.raters.names, *parts.raters.criteria, *rated]
    if parts.form is not None and parts.form.kind == "judges":
        names.append(parts.form.rater)
    chosen = [name for name in choices.keys if name != NO_LABELS]
    if identity := by_role.get("id"):
        column = parts.typed[identity]
        cells = [
            None if text is None or text in column.missing else cell
            for text, cell in zip(column.texts, column.cells, strict=True)
        ]
        parts.typed[identity] = TypedColumn(identity, cells)
        parts.columns.cells[identity] = cells
    if NO_LABELS in choices.keys:
        names += list(parts.typed)
    roles = dict(by_role)
    parts.keys = find_keys(parts.typed, roles, names, chosen, where)
    sample = parts.keys.sample
    if sample is None:
        parts.roles = [role for role in parts.roles if role.role != "sample"]
    elif "sample" not in by_role:
        parts.roles.append(Role(sample, "sample", "tells repeats apart"))
    known = {role.column for role in parts.roles}
    if parts.keys.criterion is not None and parts.keys.criterion not in known:
        parts.roles.append(
            Role(parts.keys.criterion, "criterion", "results are shown for each")
        )
        known.add(parts.keys.criterion)
    for name in parts.keys.unit:
        if name not in known:
            parts.roles.append(Role(name, "key", "tells units apart"))
    if parts.keys.duplicates:
        dropped = set(parts.keys.duplicates)
        kept = [row for row in range(len(parts.columns)) if row not in dropped]
        parts.columns = parts.columns.take(kept)
        parts.typed = _typed(parts.columns)


def _systems(parts: _Parts, by_role: Mapping[str, str]) -> list[str]:
    """Return the names of the systems that wrote two responses: the values of two columns, or their names."""
    names: list[str] = []
    for side in "ab":
        column = by_role.get(f"model_{side}")
        if column is not None:
            names += parts.typed[column].counts
        elif f"response_{side}" in by_role:
            names.append(by_role[f"response_{side}"])
    return names


def _verdicts(
    parts: _Parts, space: Space, by_role: Mapping[str, str]
) -> dict[str, list[Any]]:
    """Return the verdict of each rater in each row; `None` if it has none."""
    verdicts = {}
    for name, values in space.values.items():
        texts = parts.typed[name].texts
        verdicts[name] = [None if one is None else values.get(one) for one in texts]
        if space.by_row:
            _name_winners(verdicts[name], texts, parts, by_role)
    return verdicts


def _name_winners(
    verdicts: list[Any],
    texts: Sequence[str | None],
    parts: _Parts,
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
        sides[letter.upper()] = (
            [response] * len(texts) if column is None else parts.typed[column].texts
        )
    for row, verdict in enumerate(verdicts):
        if verdict != "SYSTEM":
            continue
        word = fold(texts[row] or "")
        winners = [
            side for side, names in sides.items() if fold(names[row] or "") == word
        ]
        if len(winners) != 1:
            what = f"names the winner '{texts[row]}', which is not one of the row's two systems"
            remedy = "fix the row, or name the systems' columns model_a and model_b"
            raise DatasetError(what, where=parts.columns.places[row], remedy=remedy)
        verdicts[row] = winners[0]


def _check_copies(parts: _Parts, choices: Choices, where: str) -> None:
    """Ask whether a judge that equals the label in every row is a copy of it.

    Raises:
        OpenTableError: If so, unless the user named both.
    """
    for label in parts.raters.labels:
        for judge in _judge_columns(parts.raters):
            named = judge in choices.judges and label in choices.labels
            if named or choices.answers:
                continue
            texts = zip(parts.typed[judge].texts, parts.typed[label].texts, strict=True)
            both = [pair for pair in texts if None not in pair]
            equal = all(given == right for given, right in both)
            values = {given for given, _ in both}
            if len(both) < _SAME_ROWS or not equal or len(values) < 2:
                continue
            what = (
                f"columns '{judge}' and '{label}' are identical in all {len(both)} rows:"
                " a copy is no evidence of agreement"
            )
            answers = [
                Answer("they are independent", ("--judge", judge, "--label", label)),
                Answer(
                    f"'{label}' is a copy", ("--judge", judge, "--label", NO_LABELS)
                ),
            ]
            raise OpenTableError(what, where, answers)


def _check_chosen(
    parts: _Parts, verdicts: Mapping[str, Sequence[Any]], choices: Choices, where: str
) -> None:
    """Ask whether responses were chosen by a judge that prefers the chosen one in every row.

    Raises:
        OpenTableError: If so, unless the user named the judge.
    """
    if "label" not in parts.constants:
        return
    for judge in _judge_columns(parts.raters):
        winners = [winner for winner in verdicts[judge] if winner is not None]
        always = set(winners) == {parts.constants["label"]}
        if judge in choices.judges or len(winners) < _SAME_ROWS or not always:
            continue
        what = (
            f"'{judge}' prefers the chosen response in all {len(winners)} rows: was the"
            " choice made from it?"
        )
        answers = [
            Answer("yes, there are no labels", ("--judge", judge, "--label", "NONE")),
            Answer("no, they are independent", ("--judge", judge)),
        ]
        raise OpenTableError(what, where, answers)


def _warnings(
    parts: _Parts, verdicts: Mapping[str, Sequence[Any]], space: Space
) -> Iterator[str]:
    rows = len(parts.columns)
    for name, column in parts.typed.items():
        if column.total < _NEAR_EMPTY * rows:
            yield f"column '{name}' is nearly empty ({column.total} of {rows} cells)"
    for name, missing in space.missing.items():
        counts: Counter[str] = Counter()
        for level, cause in missing.items():
            counts[cause] += parts.typed[name].counts[level]
        listed = ", ".join(f"{cause}: {count}" for cause, count in counts.most_common())
        if listed:
            yield f"cells of '{name}' without a verdict, by cause: {listed}"
    for label in parts.raters.labels:
        for judge in _judge_columns(parts.raters):
            pairs = zip(verdicts[judge], verdicts[label], strict=True)
            both = [pair for pair in pairs if None not in pair]
            equal = sum(given == right for given, right in both)
            if len(both) > 1 and equal == len(both):
                yield (
                    f"columns '{judge}' and '{label}' are identical: the labels may be copies of"
                    " the judge's verdicts"
                )
            elif both and space.unit == "response" and space.scale is not None:
                share = equal / len(both)
                yield (
                    f"scores of '{judge}' that equal the label '{label}': {equal} of {len(both)}"
                    f" ({share:.4f})"
                )
        yield from _label_warnings(parts, label, verdicts[label], space.unit)
        if space.by_row:
            yield from _kappas_by_name(parts, label)
    if space.rubric.get("real") and parts.raters.labels:
        yield from _thresholds(parts, verdicts)


def _kappas_by_name(parts: _Parts, label: str) -> Iterator[str]:
    """Yield Cohen's kappa over the names of the winners, next to that over the sides."""
    labels = parts.typed[label].texts
    for judge in _judge_columns(parts.raters):
        texts = zip(parts.typed[judge].texts, labels, strict=True)
        pairs = [(one, other) for one, other in texts if one and other]
        judged = Counter(one for one, _ in pairs)
        labeled = Counter(other for _, other in pairs)
        count = max(1, len(pairs))
        chance = sum(judged[name] * labeled[name] for name in judged) / count**2
        if chance < 1 and pairs:
            share = sum(one == other for one, other in pairs) / count
            kappa = (share - chance) / (1 - chance)
            yield f"kappa of '{judge}' and '{label}' over the names of the winners: {kappa:.4f}"


def _label_warnings(
    parts: _Parts, label: str, values: Sequence[Any], unit: Unit
) -> Iterator[str]:
    counts = Counter(value for value in values if value is not None)
    for value, count in sorted(counts.items(), key=str) if unit != "response" else ():
        if count < _FEW:
            yield (
                f"'{label}' has only {count} labels '{value}'; below {_FEW}, rates of a class are"
                " uncertain"
            )
    by_role = parts.by_role()
    within = ("response", "model", "response_a", "response_b")
    names = [*parts.keys.unit, *(by_role[role] for role in within if role in by_role)]
    if not parts.keys.unit:
        return
    given: dict[tuple[str | None, ...], set[Any]] = {}
    keys = zip(*(parts.typed[name].texts for name in dict.fromkeys(names)), strict=True)
    for key, value in zip(keys, values, strict=True):
        if value is not None:
            given.setdefault(key, set()).add(value)
    if conflicts := sum(len(labels) > 1 for labels in given.values()):
        yield f"cases with two different labels in '{label}': {conflicts}"


def _thresholds(parts: _Parts, verdicts: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Yield, for each judge of scores and labels of two classes, the score that separates them best."""
    for label in parts.raters.labels:
        grades = {value for value in verdicts[label] if value is not None}
        if len(grades) != 2:
            continue
        high = max(grades)
        for judge in _judge_columns(parts.raters):
            pairs = [
                (score, grade == high)
                for score, grade in zip(verdicts[judge], verdicts[label], strict=True)
                if score is not None and grade is not None
            ]
            scores = sorted({score for score, _ in pairs})
            if len(scores) < 3:
                continue
            right = {
                score: sum((one >= score) == upper for one, upper in pairs)
                for score in scores
            }
            best = max(scores, key=lambda score: right[score])
            yield (
                f"a threshold to choose: '{judge}' from {best:g} up equals the higher label in"
                f" {right[best]} of {len(pairs)} rows, on these rows"
            )


def _records(
    parts: _Parts,
    verdicts: Mapping[str, Sequence[Any]],
    space: Space,
    *,
    answers: bool = False,
) -> Iterator[Record]:
    """Yield a record for each row with verdicts, or for each row if they are answers to judge."""
    by_role = parts.by_role()
    unit = space.unit
    sides = (
        ("response", "model")
        if unit == "pair"
        else ("response_a", "response_b", "model_a", "model_b", "order")
    )
    plain = {
        role: by_role[role] for role in _CELLS if role in by_role and role not in sides
    }
    if parts.keys.sample is not None:
        plain["sample"] = parts.keys.sample
        _check_samples(parts)
    texts = {name: column.texts for name, column in parts.typed.items()}
    cells_by_role = {role: parts.columns.cells[name] for role, name in plain.items()}
    used = {
        *plain.values(),
        *parts.raters.judges,
        *parts.raters.labels,
        *parts.raters.criteria,
    }
    if "id" in by_role and len(parts.keys.unit) < 2:
        used.add(by_role["id"])
    # The case is what was rated: another verdict about it would tell who is right.
    used |= {name for name, why in parts.raters.unused.items() if why != MAY_BE_VERDICT}
    metadata = {
        name: cells for name, cells in parts.columns.cells.items() if name not in used
    }
    labels = list(parts.raters.labels)
    judges = list(parts.raters.judges)
    form = (
        parts.form if parts.form is not None and parts.form.kind == "judges" else None
    )
    options = _options(space)
    read = _Judgments(space, options)
    prompts: dict[str, str] = {}
    for row, place in enumerate(parts.columns.places):
        cells: JsonObject = {
            role: column[row]
            for role, column in cells_by_role.items()
            if column[row] is not None
        }
        cells["id"] = _id(parts, texts, row)
        _check_prompt(prompts, cells, place)
        cells["metadata"] = {
            name: column[row]
            for name, column in metadata.items()
            if column[row] is not None
        }
        for name in labels:
            key = "label" if len(labels) == 1 else f"label.{name}"
            cells[key] = verdicts[name][row]
        cells |= parts.constants
        said = []
        for name in judges[:1] if parts.raters.criteria else judges:
            judge = "judge" if _is_plain(name) or parts.raters.criteria else name
            if form is not None and texts[form.rater][row] is not None:
                judge = str(texts[form.rater][row])
            said += read(parts, verdicts, judge, name, row, cells, place)
        if answers:
            said = [UNJUDGED]
        if said:
            yield record_of(cells, place, unit, options, said=said)


UNJUDGED: Final = missing_record("none", "not judged")
"""The judgment of an answer to judge."""


def _is_plain(name: str) -> bool:
    return name.casefold() in ("winner", "score", "class")


def _options(space: Space) -> Options:
    if space.unit != "class":
        return Options()
    words = {value for levels in space.values.values() for value in levels.values()}
    return Options(winners={word: word for word in words})


class _Judgments:
    """The reading of a judge's verdicts; equal ones of rows that say nothing else of it are one object."""

    def __init__(self, space: Space, options: Options) -> None:
        self._space = space
        self._options = options
        self._known: dict[tuple[Any, ...], RecordedJudgment] = {}
        self._verdict = {"pair": "winner", "class": "class", "response": "score"}[
            space.unit
        ]

    def __call__(
        self,
        parts: _Parts,
        verdicts: Mapping[str, Sequence[Any]],
        judge: str,
        name: str,
        row: int,
        cells: Json,
        place: str,
    ) -> list[RecordedJudgment]:
        level = parts.typed[name].texts[row]
        if parts.raters.criteria:
            scores = {
                f"score.{criterion}": verdicts[column][row]
                for column, criterion in parts.raters.criteria.items()
                if verdicts[column][row] is not None
            }
            if not scores:
                scores = {"error": "no score"}
            more: JsonObject = {"judge": judge, **scores}
            return [
                judgment_of({**cells, **more}, self._space.unit, place, self._options)
            ]
        value = verdicts[name][row]
        cause = None if level is None else self._space.missing.get(name, {}).get(level)
        plain = not ({"text", "order", "sample", "model_a", "model_b"} & cells.keys())
        key = (judge, value, cause, level if cause else None)
        if plain and key in self._known:
            return [self._known[key]]
        more = {"judge": judge, self._verdict: value}
        if value is None and cause is not None and cause != EMPTY:
            more["failure" if cause != "mapped to NONE" else "error"] = (
                f"{cause}: {str(level)[:80]}"
            )
        said = judgment_of({**cells, **more}, self._space.unit, place, self._options)
        if plain:
            self._known[key] = said
        return [said]


def _id(parts: _Parts, texts: Mapping[str, Sequence[str | None]], row: int) -> str:
    values = [texts[name][row] for name in parts.keys.unit]
    named = [value for value in values if value is not None]
    if not named:
        return f"row {row + 1}" if parts.keys.unit else str(row + 1)
    return (
        "/".join(named) if len(named) < 2 else "/".join(value[:80] for value in named)
    )


def _check_prompt(prompts: dict[str, str], cells: Json, place: str) -> None:
    prompt = text(cells.get("prompt"))
    if prompts.setdefault(cells["id"], prompt) != prompt:
        raise DatasetError(
            f"id '{cells['id'][:60]}' is already used for another prompt",
            where=place,
            remedy="use a unique id for each question, or name its column: --id COLUMN",
        )


def _check_samples(parts: _Parts) -> None:
    """Number repeats that words tell apart."""
    name = parts.keys.sample
    if name is None or parts.typed[name].is_numeric:
        return
    numbers: dict[str, int] = {}
    column = parts.columns.cells[name]
    parts.columns.cells[name] = [
        None if cell is None else numbers.setdefault(cell_text(cell), len(numbers))
        for cell in column
    ]


def _settings(parts: _Parts, space: Space) -> JsonObject:
    """Return the settings of a run of the table: its rubric, and the columns by which it is sliced."""
    settings: JsonObject = {}
    if space.rubric:
        settings["rubric"] = dict(space.rubric)
    slices = parts.slices
    if parts.keys.criterion is not None:
        slices.append(parts.keys.criterion)
    used = {role.column for role in parts.roles if role.role != "key"}
    rows = len(parts.columns)
    for name, column in parts.typed.items():
        if name in used or name in slices or len(slices) >= _MOST_SLICES:
            continue
        few = 2 <= len(column.counts) <= _SLICE_VALUES
        if (
            not few
            or column.kind not in ("class", "pair", "ordered")
            or column.total < rows / 2
        ):
            continue
        if min(column.counts.values()) < _SLICE_ROWS or not parts.raters.labels:
            continue
        if name in parts.raters.unused or not matches(name, "process"):
            continue
        slices.append(name)
    if slices:
        settings["scoring"] = {"slices": slices}
    if len(parts.keys.unit) > 1 and parts.keys.unit[0] == parts.by_role().get("id"):
        settings.setdefault("scoring", {})["cluster"] = parts.keys.unit[0]
    return settings


_TEXT_ROLES: Final = (
    "prompt",
    "context",
    "reference",
    "response",
    "response_a",
    "response_b",
    "text",
)


def _listed(parts: _Parts) -> list[Role]:
    """Return the role of each column in the order of the table, and why a column is not used."""
    known = {role.column: role for role in parts.roles}
    for rater_role, raters in (
        ("judge", parts.raters.judges),
        ("label", parts.raters.labels),
    ):
        for name, why in raters.items():
            known.setdefault(name, Role(name, rater_role, why))
    names = [*parts.typed, *(name for name in known if name not in parts.typed)]
    listed = []
    for name in names:
        column = parts.typed.get(name)
        kind = "" if column is None else column.kind
        role = known.get(name)
        if role is not None and role.role in _TEXT_ROLES and kind == "id":
            kind = "text"
        if role is None and name in parts.slices:
            role = Role(name, "slice", "results are shown for each")
        if role is None:
            why = parts.raters.unused.get(name, _unused_why(name, kind))
            role = Role(name, NOT_USED, why)
        listed.append(replace(role, type=kind))
    return listed


def _unused_why(name: str, kind: str) -> str:
    if kind == "empty":
        return "empty"
    if matches(name, "computed"):
        return "computed by a program"
    if matches(name, "measured"):
        return "a measure"
    return kind
