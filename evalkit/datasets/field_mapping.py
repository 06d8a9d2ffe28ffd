"""Map canonical fields to columns, parts of columns, or sandboxed, strict Jinja
templates over columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, time
from functools import cache
from math import isfinite, isnan
from operator import itemgetter
from typing import Any, Final

from evalkit.core.checklists import MAX_DEPTH
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.values import frozen
from evalkit.datasets.located_rows import Row
from evalkit.datasets.text import ABSENT, conversation_text, is_conversation, is_message

WHOLE = "row"
"""The name of the row in an expression, for columns that are not identifiers:
`row["Question 1"]`."""
CONVERSATION = "conversation"
"""The filter that renders messages as text, as in `{{ messages[:-1] | conversation }}`."""
# An error names at most this many columns.
_MOST_NAMED = 12
# The last message is the response, and all before it are the prompt.
_TURNS = {"prompt": "[:-1]", "response": "[-1]"}
"""The usual part of a conversation for a field."""


class RowFault(Exception):  # noqa: N818 - internal: readers of rows convert it with the location
    """An expression cannot be evaluated for a row."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.what, self.remedy = problem, remedy
        super().__init__(problem)

    def at(self, location: str) -> DatasetError:
        """Return the error for the row at `location`."""
        return DatasetError(self.what, where=location, remedy=self.remedy)


def is_template(text: str) -> bool:
    """Return whether a text is a template and not a column name."""
    return "{{" in text or "{%" in text


def template(text: str, where: str) -> Callable[[Row], str]:
    """Return a function that fills a template from a row; it raises `RowFault` if a
    column is missing.

    Raises:
        ConfigError: If it is not a template; `where` is its config key.
    """
    # The row's names are found once; the template is compiled once for all rows.
    names = _names(text, where)
    fill = _environment().from_string(text).render
    return lambda row: str(
        _evaluate_template(lambda: fill({WHOLE: row, **row}), row, names, where)
    )


def condition(text: str, where: str) -> Callable[[Row], bool]:
    """Return a function that evaluates a condition for a row; it raises `RowFault` if a
    column is missing.

    Raises:
        ConfigError: If it is not an expression; `where` is its config key.
    """
    names = _names("{{ (" + text + ") }}", where)
    # An undefined name is an error in a condition: as None it would silently be false.
    holds = _environment().compile_expression(text, undefined_to_none=False)
    return lambda row: bool(
        _evaluate_template(lambda: bool(holds({WHOLE: row, **row})), row, names, where)
    )


def _names(text: str, where: str) -> frozenset[str]:
    """Return the names of the row's columns in a template."""
    from jinja2 import TemplateError, meta

    environment = _environment()
    try:
        variables = meta.find_undeclared_variables(environment.parse(text))
    except TemplateError as bad:
        problem = f"is not a Jinja expression ({' '.join(str(bad).split())})"
        raise ConfigError(
            problem, where=where, remedy="fix the expression; put texts in quotes"
        ) from None
    # Names that Jinja itself offers, such as `range`, are no columns.
    return frozenset(variables - {WHOLE} - set(environment.globals))


def _evaluate_template(
    evaluate: Callable[[], Any], row: Row, names: frozenset[str], where: str
) -> Any:
    """Return what a template or condition is for a row; its work is limited.

    Args:
        evaluate: Evaluates the expression.
        row: The row, for the names of its columns.
        names: The names that the expression uses.
        where: The setting that has the expression, for errors.

    Raises:
        RowFault: If it uses a missing column, or fails.
    """
    # Only data with templates needs the template engine.
    from jinja2 import TemplateError, UndefinedError

    from evalkit.evaluators.prompting.bounds import bounded

    try:
        # A template may come from elsewhere, so its work is limited.
        with bounded():
            return evaluate()
    except UndefinedError as bad:
        # A name that no column has is the usual cause, and gets a suggestion.
        if missing := sorted(names - row.keys()):
            raise RowFault(
                *missing_column_error(missing[0], row, f" for {where}")
            ) from None
        raise RowFault(f"{where}: {bad}", "fix the expression") from None
    except (
        TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as bad:
        raise RowFault(
            f"{where}: {type(bad).__name__}: {bad}", "fix the expression"
        ) from None


def missing_column_error(name: str, row: Row, purpose: str = "") -> tuple[str, str]:
    """Return the message and the remedy for a missing column.

    If a column has a similar name, the remedy suggests it.

    Args:
        name: The missing column.
        row: A row, for the names of its columns.
        purpose: What the column is for, as an end of the message that begins with a space.
    """
    columns = tuple(row)
    named = ", ".join(columns[:_MOST_NAMED]) + (
        ", ..." if len(columns) > _MOST_NAMED else ""
    )
    close = did_you_mean(name, columns)
    problem = f"no column '{name}'{purpose}; the columns are {named or 'none'}"
    messages = next(
        # A column of messages may hold the field that is missing, as its first or last turn.
        (
            column
            for column in columns
            # Only such a name can be written in an expression.
            if column.isidentifier() and is_conversation(row[column])
        ),
        None,
    )
    if messages is not None and name in _TURNS:
        turns = f"{messages}{_TURNS[name]} | {CONVERSATION}"
        return (
            problem,
            f"if it is in the conversation, set \"dataset.fields.{name}='{{{{ {turns} }}}}'\"",
        )
    return problem, close if close.startswith("did you mean") else "name one of them"


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined

    from evalkit.evaluators.prompting.bounds import BoundedEnvironment

    environment = BoundedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    environment.filters[CONVERSATION] = _conversation
    return environment


def _conversation(value: Any) -> str:
    # One message is a conversation of one.
    messages = [value] if is_message(value) else value
    if not is_conversation(messages):
        raise ValueError(
            "not a list of messages with role and content, or from and value"
        )
    return conversation_text(messages)


FIELDS: Final = (
    "id",
    "prompt",
    "context",
    "reference",
    "response",
    "response_a",
    "response_b",
    "responses",
    "model",
    "model_a",
    "model_b",
    "label",
    "labels",
    "checklist",
    "messages",
    "messages_a",
    "messages_b",
)
CHECKLIST: Final = "checklist"
MESSAGES: Final = "messages"
"""The column of a conversation, or of several, one for each response; in the metadata unless it is
a field."""
# In order of precedence: `responses` wins over a pair, a pair over a single response.
_SHAPES: Final = ("responses", "response_a", "response")
# By shape: the fields of the text and of the model of each response.
_ENDS: Final = {
    "response_a": (("response_a", "model_a"), ("response_b", "model_b")),
    "response": (("response", "model"),),
}
_OF_A_CASE: Final = frozenset({"id", "prompt", "context", "reference", "label"})
# The default of each field: absent.
_NONE: Final[Mapping[str, Callable[[Row], Any]]] = dict.fromkeys(
    FIELDS, lambda _: ABSENT
)
_LABEL_NAMES: Final = frozenset(
    {
        "class",
        "gold",
        "gold_label",
        "grade",
        "grades",
        "human",
        "human_label",
        "preference",
        "rating",
        "winner",
    }
)
# Rows may all have different columns; so many layouts are kept, and then all are dropped.
_MOST_LAYOUTS: Final = 1000
DEEPEST: Final = 2 * MAX_DEPTH + 20
"""Levels of a row: a checklist has two at each depth."""
# Types whose values are JSON already; a float may be NaN, so it is not one of them.
_KEPT: Final = frozenset({str, int, bool, type(None)})
Getter = Callable[[Row], Any]


@frozen
class Layout:
    """How to read rows with the same columns.

    `get` reads each field, and returns `ABSENT` if the rows do not have it or their `shape` does
    not use it; `present` are the other fields. `ends` are the fields of the text and model of each
    response, if each has its own columns. `metadata` are the columns not used by a field.
    """

    shape: str
    get: Mapping[str, Getter]
    present: frozenset[str]
    ends: tuple[tuple[str, str], ...]
    metadata: tuple[str, ...]


class Columns:
    """Find canonical fields in rows, by `dataset.fields` or by their own names.

    Args:
        fields: Field → column, path in a column, or template.
        added: Columns added by joins, which are not metadata.
        checklists: Whether a column `checklist` is a field even if it is not mapped.
        checked: The fields of columns that the caller misses itself, so that `check_seen` ignores
            them.
        call: The fields that a call needs, in words; empty if rows are those of a dataset.
    """

    def __init__(
        self,
        fields: Mapping[str, str],
        added: frozenset[str] = frozenset(),
        *,
        checklists: bool = False,
        checked: frozenset[str] = frozenset(),
        call: str = "",
    ) -> None:
        for field in fields:
            if field not in FIELDS:
                raise ConfigError(
                    "no such field",
                    where=f"dataset.fields.{field}",
                    remedy=did_you_mean(field, FIELDS),
                )
        self._mapped = dict(fields)
        self._added = added
        self._call = call
        self._checklist = frozenset(
            {CHECKLIST} if checklists or CHECKLIST in fields else ()
        )
        # Mapped columns that no row has shown yet; a template fails by itself.
        self._unseen = {
            field: name
            for field, name in fields.items()
            if not is_template(name) and field not in checked
        }
        # The columns of the last new layout, for the message about a missing one.
        self._last: Row = {}
        self._getters = {
            field: getter(fields.get(field, field), f"dataset.fields.{field}")
            for field in FIELDS
        }
        # {names of columns: layout}: most files have one layout for all rows.
        self._layouts: dict[tuple[str, ...], Layout] = {}

    def layout(self, row: Row) -> Layout:
        """Return the layout for rows with these columns."""
        # The order of columns is part of the key: metadata keep it.
        columns = tuple(row)
        layout = self._layouts.get(columns)
        if layout is None:
            if len(self._layouts) >= _MOST_LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[columns] = self._layout_of(row)
        return layout

    def need(self, row: Row, field: str, location: str) -> Any:
        """Return the value of a field in a row.

        Raises:
            DatasetError: If the row has no such column.
        """
        value = self.layout(row).get[field](row)
        if value is ABSENT:
            raise self._missing_column_error(field, location, row)
        return value

    def column(self, field: str) -> str:
        """Return the column, path or template of a field."""
        return self._mapped.get(field, field)

    def is_mapped(self, field: str) -> bool:
        """Return whether `dataset.fields` maps this field."""
        return field in self._mapped

    def label_columns(self) -> list[str]:
        """Return the columns of metadata whose names are those of labels."""
        columns = dict.fromkeys(
            column for layout in self._layouts.values() for column in layout.metadata
        )
        return [column for column in columns if column.lower() in _LABEL_NAMES]

    def check_seen(self, source: str) -> None:
        """Raise if a mapping was not used by any row.

        Raises:
            DatasetError: If there is one; names the first such field.
        """
        for field, column in self._unseen.items():
            # The column exists, so its shape is why the field is not used.
            if column in self._last:
                raise DatasetError(
                    f"{field} is not used, because the responses are in other columns",
                    where=f"dataset.fields.{field}",
                    remedy="remove it, or map the responses too",
                )
            raise self._missing_column_error(field, source, self._last)

    def _layout_of(self, row: Row) -> Layout:
        """Return how rows with the columns of this one are read."""
        # Names only: keeping the values would keep the row in memory.
        self._last = dict.fromkeys(row)
        shape = self._shape(row)
        ends = _ENDS.get(shape, ())
        # Fields that rows of this shape use; `labels` is read too but stays a column.
        used = (
            _OF_A_CASE
            | ({name for end in ends for name in end} or {"responses"})
            | self._checklist
        )
        # `None` means that the column is not in these rows.
        getters = {
            field: get
            for field in (*used, "labels")
            if (get := self._present(field, row)) is not None
        }
        # Columns of fields and joins are not metadata.
        taken = {self.column(field) for field in used} | self._added
        metadata = tuple(column for column in row if column not in taken)
        return Layout(shape, {**_NONE, **getters}, frozenset(getters), ends, metadata)

    def _present(self, field: str, row: Row) -> Getter | None:
        """Return the reader of a field for rows with these columns; `None` if they do not have
        it.

        A path to a part of a column may exist in some rows only, so its reader decides for each
        row.
        """
        column = self.column(field)
        get = self._getters[field]
        if is_template(column):
            # A template is read for every row, and fails where a column is missing.
            return get
        if column in row:
            self._unseen.pop(field, None)
            # A plain column: the fastest reader, because it runs for each row.
            return itemgetter(column)
        # A path may exist in some rows only, so each row is asked.
        if "." in column and column.split(".")[0] in row:
            return self._noting(field, get)
        return None

    def _noting(self, field: str, get: Getter) -> Getter:
        def seen(row: Row) -> Any:
            value = get(row)
            if value is not ABSENT and self._unseen:
                self._unseen.pop(field, None)
            return value

        return seen

    def _shape(self, row: Row) -> str:
        """Return which field says how responses are written: as a list, a pair, or one text."""
        # The mapping says which shape is meant, whatever other columns there are.
        for shape in _SHAPES:
            if shape in self._mapped or (
                shape == "response_a" and "response_b" in self._mapped
            ):
                return shape
        present = [shape for shape in _SHAPES if shape in row]
        if present:
            return present[0]
        # Only the second response of a pair: the first one is reported as missing.
        if "response_b" in row:
            return "response_a"
        return "response"

    def _missing_column_error(
        self, field: str, location: str, row: Row
    ) -> DatasetError:
        """Return the error for a row without the column of a field."""
        if self._call:
            return DatasetError(
                f"no field '{field}'", where=location, remedy=f"pass {self._call}"
            )
        # The remedy names the column as the user wrote it.
        column = self.column(field)
        problem, remedy = missing_column_error(
            column, row, f" for {field}" if column != field else ""
        )
        near = remedy.startswith(("did you mean", "if it is"))
        key = f"dataset.fields.{field}"
        # One response is the default shape, but two may be what the user has.
        if field == "response" and field not in self._mapped:
            key += ", or two for a pair in dataset.fields.response_a and dataset.fields.response_b"
        return DatasetError(
            problem, where=location, remedy=remedy if near else f"{remedy} in {key}"
        )


def getter(named: str, where: str) -> Getter:
    """Return a function that reads a column, a path such as `conversation.0.content`,
    or a template from a row.

    It returns `ABSENT` for a missing column or path; a template raises `RowFault` if a column is
    missing.

    Raises:
        ConfigError: If it is an invalid template; `where` is its config key.
    """
    if is_template(named):
        return template(named, where)
    if "." in named:
        return lambda row: column_value(row, named)
    return lambda row: row.get(named, ABSENT)


def needed(
    column: str, key: str, purpose: str = "", *, optional: bool = False
) -> Callable[[Row, str], Any]:
    """Return a function that reads a column, path or template from a row with its location.

    It raises `DatasetError` if the row has no such column, or returns `None` if it is `optional`.
    `purpose` is for the message, by default the config `key`.

    Raises:
        ConfigError: If it is an invalid template.
    """
    get = getter(column, key)

    def read(row: Row, location: str) -> Any:
        """Return the value of the column in a row; `None` if it is optional and missing."""
        try:
            value = get(row)
        except RowFault as fault:
            raise fault.at(location) from None
        if value is ABSENT and not optional:
            problem, remedy = missing_column_error(
                column, row, purpose or f" for {key}"
            )
            raise DatasetError(problem, where=location, remedy=remedy)
        if value is ABSENT:
            return None
        return value

    return read


def column_value(row: Row, path: str) -> Any:
    """Return the value of a column, or of a path such as `conversation.0.content`.

    `ABSENT` if there is none.
    """
    # A column may have a dot in its name, and wins over a path.
    if path in row:
        return row[path]
    value: Any = row
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif (
            isinstance(value, list)
            # A number is an index of a list, from the end if it is negative.
            and step.lstrip("-").isdigit()
            and -len(value) <= int(step) < len(value)
        ):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def plain_row(row: Row) -> Row:
    """Return a row with JSON values; the row itself if it has only such values, as most have."""
    # Most rows pass here, without a copy.
    if _KEPT.issuperset(map(type, row.values())):
        return row
    return {str(column): plain(value) for column, value in row.items()}


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON: NaN becomes null, and types that JSON does not have become text.

    Raises:
        RowFault: If it is nested too deeply.
    """
    if depth > DEEPEST:
        raise RowFault(f"nested deeper than {DEEPEST} levels", "flatten it")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if isfinite(value):
            return value
        # Infinity is not JSON, so it becomes a text.
        if isnan(value):
            return None
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, depth + 1) for part in value]
    if isinstance(value, date | time):
        return value.isoformat()
    # NumPy arrays and scalars both have `tolist`.
    if callable(listed := getattr(value, "tolist", None)):  # a NumPy array or number
        return plain(listed(), depth + 1)
    if isinstance(value, bytes):
        # Bytes that are not UTF-8 stay visible as escapes.
        return value.decode("utf-8", "backslashreplace")
    return str(value)
