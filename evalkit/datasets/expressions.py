"""Jinja over a row's columns, in a sandbox and strict: templates that make a text, and conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from evalkit.datasets.conversations import conversation_text, is_conversation, is_message
from evalkit.errors import ConfigError, DatasetError, did_you_mean

Row = Mapping[str, Any]
WHOLE = "row"
"""The name by which an expression has the row itself, for columns whose names are not words: `row["Question 1"]`."""
CONVERSATION = "conversation"
"""The filter that renders messages as text: `{{ messages[:-1] | conversation }}`."""
_MOST_NAMED = 12
_TURNS = {"prompt": "[:-1]", "response": "[-1]"}
"""Which part of a conversation usually is what a field needs."""


class RowFault(Exception):  # noqa: N818 - it never leaves the package: whoever reads rows adds their place
    """An expression does not fit a row."""

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what, self.remedy = what, remedy
        super().__init__(what)

    def at(self, place: str) -> DatasetError:
        """Return the error for the row at `place`."""
        return DatasetError(self.what, where=place, remedy=self.remedy)


def is_template(text: str) -> bool:
    """Say whether a text is a template, and not a column's name."""
    return "{{" in text or "{%" in text


def template(text: str, where: str) -> Callable[[Row], str]:
    """Return what fills a template with a row's columns; it raises `RowFault` where one is missing.

    Raises:
        ConfigError: if it is not a template; `where` is the key that holds it.
    """
    names, fill = _names(text, where), _environment().from_string(text).render
    return lambda row: str(_evaluated(lambda: fill({WHOLE: row, **row}), row, names, where))


def condition(text: str, where: str) -> Callable[[Row], bool]:
    """Return what says whether an expression holds of a row; it raises `RowFault` where a column is missing.

    Raises:
        ConfigError: if it is not an expression; `where` is the key that holds it.
    """
    names = _names("{{ (" + text + ") }}", where)
    holds = _environment().compile_expression(text, undefined_to_none=False)
    return lambda row: bool(_evaluated(lambda: bool(holds({WHOLE: row, **row})), row, names, where))


def _names(text: str, where: str) -> frozenset[str]:
    """Return the names that a template takes from the row."""
    from jinja2 import TemplateError, meta

    environment = _environment()
    try:
        found = meta.find_undeclared_variables(environment.parse(text))
    except TemplateError as bad:
        what = f"is not a Jinja expression ({' '.join(str(bad).split())})"
        raise ConfigError(what, where=where, remedy="mend it; texts in it stand in quotes") from None
    return frozenset(found - {WHOLE} - set(environment.globals))


def _evaluated(evaluate: Callable[[], Any], row: Row, names: frozenset[str], where: str) -> Any:
    from jinja2 import TemplateError, UndefinedError

    try:
        return evaluate()
    except UndefinedError as bad:
        if missing := sorted(names - row.keys()):
            raise RowFault(*missing_column_error(missing[0], row, f" for {where}")) from None
        raise RowFault(f"{where}: {bad}", "mend the expression") from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as bad:
        raise RowFault(f"{where}: {type(bad).__name__}: {bad}", "mend the expression") from None


def missing_column_error(name: str, row: Row, purpose: str = "") -> tuple[str, str]:
    """Return what to say of a column that a row does not have, and the remedy if another is called almost so."""
    columns = tuple(row)
    named = ", ".join(columns[:_MOST_NAMED]) + (", ..." if len(columns) > _MOST_NAMED else "")
    close = did_you_mean(name, columns)
    what = f"no column '{name}'{purpose}; the columns are {named or 'none'}"
    spoken = next((column for column in columns if column.isidentifier() and is_conversation(row[column])), None)
    if spoken is not None and name in _TURNS:
        turns = f"{spoken}{_TURNS[name]} | {CONVERSATION}"
        return what, f"if it is in the conversation, set \"dataset.fields.{name}='{{{{ {turns} }}}}'\""
    return what, close if close.startswith("did you mean") else "name one of them"


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)
    made.filters[CONVERSATION] = _spoken
    return made


def _spoken(value: Any) -> str:
    messages = [value] if is_message(value) else value
    if not is_conversation(messages):
        raise ValueError("is no list of messages, each with role and content or from and value")
    return conversation_text(messages)
