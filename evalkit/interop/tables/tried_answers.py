"""Commands that lead on: answers of a question that were tried, and readings of a refused table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final

from evalkit.core.errors import ConfigError
from evalkit.interop.tables.associations import are_derived, association
from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.columns import Rows, columns_of
from evalkit.interop.tables.fixed_roles import Choices, names_no_verdict, strength
from evalkit.interop.tables.parts import typed_columns
from evalkit.interop.tables.questions import (
    Answer,
    OpenTableError,
    UnreadColumnsError,
)
from evalkit.interop.tables.rater_levels import UnknownWordError
from evalkit.interop.tables.rater_questions import OF_PEOPLE
from evalkit.interop.tables.table import read_table

MOST_ROWS: Final = 2000
"""The rows from the beginning of a table with which answers are tried."""
_MOST_COLUMNS: Final = 12
_MOST_ANSWERS: Final = 4
_CLEAR: Final = 0.3
"""The association from which two columns may be a judge and a label."""


def with_commands(
    error: ConfigError, rows: Rows, where: str, choices: Choices
) -> ConfigError:
    """Return an error whose commands lead on.

    Of a question, only answers stay with which the table is read or another question is asked. A
    refusal becomes a question if columns go together as verdicts of a judge and a label do.

    Args:
        error: A question about a table, or its refusal.
        rows: The first rows of the table, at most `MOST_ROWS`.
        where: Its name.
        choices: The user's choices.
    """
    is_open = isinstance(error, OpenTableError | UnreadColumnsError)
    if not is_open or choices.reading is not None or choices.answers:
        return error
    offered = error.answers if isinstance(error, OpenTableError) else ()
    try:
        answers = _tried(offered, error, rows, where, choices)
        if not answers:
            likely = _likely_answers(typed_columns(columns_of(rows)), choices)
            answers = _tried(likely, error, rows, where, choices)[:_MOST_ANSWERS]
    except UnknownWordError as unknown:
        return unknown
    if not answers:
        return error
    if isinstance(error, OpenTableError):
        return OpenTableError(error.what, error.where, answers, error.roles)
    problem = f"{error.what}; some columns go together as verdicts do: are these they?"
    return OpenTableError(problem, error.where, answers)


def _tried(
    answers: Iterable[Answer],
    error: ConfigError,
    rows: Rows,
    where: str,
    choices: Choices,
) -> list[Answer]:
    """Return the answers with which the table is read, or another question is asked.

    Raises:
        UnknownWordError: If the user mapped a word that no answer needs.
    """
    tried = []
    for answer in answers:
        answered = choices.with_options(answer.options)
        try:
            if _leads_on(error, rows, where, answered):
                tried.append(answer)
        except UnknownWordError as unknown:
            # A word of the answer itself only means that the answer is of no use.
            if unknown.word in choices.words:
                raise
    return tried


def _leads_on(error: ConfigError, rows: Rows, where: str, choices: Choices) -> bool:
    try:
        read_table(rows, where, choices)
    except OpenTableError as question:
        # An answer to which the same is asked again is none.
        return question.what != error.what
    except UnknownWordError:
        raise
    except ConfigError:
        return False
    return True


def _likely_answers(typed: Mapping[str, TypedColumn], choices: Choices) -> list[Answer]:
    """Return pairs of columns that go together, as a judge and a label, the closest first."""
    names = [name for name in typed if _may_rate(name, typed[name])][:_MOST_COLUMNS]
    strengths: dict[tuple[str, str], float] = {}
    for pair in combinations(names, 2):
        judge, label = sorted(pair, key=_likely_label)
        # People who agree with each other are no judge and label.
        if strength(judge) == OF_PEOPLE:
            continue
        fits = not choices.judges or judge in choices.judges
        fits = fits and (not choices.labels or label in choices.labels)
        if not fits or are_derived(typed[judge], typed[label]):
            continue
        value = abs(association(typed[judge], typed[label]))
        if value >= _CLEAR:
            strengths[judge, label] = value
    closest = sorted(strengths, key=lambda pair: -strengths[pair])
    return [
        Answer(
            f"'{judge}' is the judge, and '{label}' the label",
            ("--judge", judge, "--label", label),
        )
        for judge, label in closest[: 2 * _MOST_ANSWERS]
    ]


def _likely_label(name: str) -> float:
    """Return how likely a column is the label by its name, below 0 if it is a judge's."""
    role, clear = strength(name)
    return clear if role == "label" else -clear


def _may_rate(name: str, column: TypedColumn) -> bool:
    if names_no_verdict(name):
        return False
    return column.may_be_verdict and len(column.words) > 1
