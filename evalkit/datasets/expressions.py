"""Sandboxed, strict Jinja templates and conditions over the columns of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from evalkit.datasets.conversations import conversation_text, is_conversation, is_message
from evalkit.errors import ConfigError, DatasetError, did_you_mean

Row = Mapping[str, Any]
WHOLE = "row"
"""The name of the row in an expression, for columns that are not identifiers: `row["Question 1"]`."""
CONVERSATION = "conversation"
"""The filter that renders messages as text, as in `{{ messages[:-1] | conversation }}`."""
_MOST_NAMED = 12
_TURNS = {"prompt": "[:-1]", "response": "[-1]"}
"""The usual part of a conversation for a field."""


class RowFault(Exception):  # noqa: N818 - internal: readers of rows convert it with the location
    """An expression cannot be evaluated for a row."""

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what, self.remedy = what, remedy
        super().__init__(what)

    def at(self, place: str) -> DatasetError:
        """Return the error for the row at `place`."""
        return DatasetError(self.what, where=place, remedy=self.remedy)


def is_template(text: str) -> bool:
    """Return whether a text is a template and not a column name."""
    return "{{" in text or "{%" in text


def template(text: str, where: str) -> Callable[[Row], str]:
    """Return a function that fills a template from a row; it raises `RowFault` if a column is missing.

    Raises:
        ConfigError: If it is not a template; `where` is its config key.
    """
    names, fill = _names(text, where), _environment().from_string(text).render
    return lambda row: str(_evaluated(lambda: fill({WHOLE: row, **row}), row, names, where))


def condition(text: str, where: str) -> Callable[[Row], bool]:
    """Return a function that evaluates a condition for a row; it raises `RowFault` if a column is missing.

    Raises:
        ConfigError: If it is not an expression; `where` is its config key.
    """
    names = _names("{{ (" + text + ") }}", where)
    holds = _environment().compile_expression(text, undefined_to_none=False)
    return lambda row: bool(_evaluated(lambda: bool(holds({WHOLE: row, **row})), row, names, where))


def _names(text: str, where: str) -> frozenset[str]:
    """Return the names of the row's columns in a template."""
    from jinja2 import TemplateError, meta

    environment = _environment()
    try:
        found = meta.find_undeclared_variables(environment.parse(text))
    except TemplateError as bad:
        what = f"is not a Jinja expression ({' '.join(str(bad).split())})"
        raise ConfigError(what, where=where, remedy="fix the expression; put texts in quotes") from None
    return frozenset(found - {WHOLE} - set(environment.globals))


def _evaluated(evaluate: Callable[[], Any], row: Row, names: frozenset[str], where: str) -> Any:
    from jinja2 import TemplateError, UndefinedError

    from evalkit.prompting.bounds import bounded

    try:
        with bounded():
            return evaluate()
    except UndefinedError as bad:
        if missing := sorted(names - row.keys()):
            raise RowFault(*missing_column_error(missing[0], row, f" for {where}")) from None
        raise RowFault(f"{where}: {bad}", "fix the expression") from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as bad:
        raise RowFault(f"{where}: {type(bad).__name__}: {bad}", "fix the expression") from None


def missing_column_error(name: str, row: Row, purpose: str = "") -> tuple[str, str]:
    """Return the message and remedy for a missing column, with a suggestion if a column has a similar name."""
    columns = tuple(row)
    named = ", ".join(columns[:_MOST_NAMED]) + (", ..." if len(columns) > _MOST_NAMED else "")
    close = did_you_mean(name, columns)
    what = f"no column '{name}'{purpose}; the columns are {named or 'none'}"
    messages = next((column for column in columns if column.isidentifier() and is_conversation(row[column])), None)
    if messages is not None and name in _TURNS:
        turns = f"{messages}{_TURNS[name]} | {CONVERSATION}"
        return what, f"if it is in the conversation, set \"dataset.fields.{name}='{{{{ {turns} }}}}'\""
    return what, close if close.startswith("did you mean") else "name one of them"


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined

    from evalkit.prompting.bounds import BoundedEnvironment

    made = BoundedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    made.filters[CONVERSATION] = _conversation
    return made


def _conversation(value: Any) -> str:
    messages = [value] if is_message(value) else value
    if not is_conversation(messages):
        raise ValueError("not a list of messages with role and content, or from and value")
    return conversation_text(messages)
