"""Ask about labels that may come from a judge: copies of its verdicts, or choices made
from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from evalkit.interop.tables.column_types import TypedColumn
from evalkit.interop.tables.fixed_roles import (
    NO_LABELS,
    Choices,
)
from evalkit.interop.tables.parts import (
    Parts,
    judge_columns,
)
from evalkit.interop.tables.questions import Answer, OpenTableError

# Rows that a copy, or a judge that chose the labels, must explain: fewer agree by chance.
_SAME_ROWS: Final = 20


def check_copies(
    parts: Parts, verdicts: Mapping[str, Sequence[Any]], choices: Choices, where: str
) -> None:
    """Ask whether a judge that equals the label in every row is a copy of it, in the
    same or in other words.

    Raises:
        OpenTableError: If so, unless the user named both.
    """
    for label in parts.raters.labels:
        for judge in judge_columns(parts.raters):
            # Whoever named both columns knows them.
            named = judge in choices.judges and label in choices.labels
            if named or choices.answers:
                continue
            both = [
                pair
                for pair in zip(verdicts[judge], verdicts[label], strict=True)
                if None not in pair
            ]
            # A judge that states its verdicts in texts of its own is no copy, and a user who mapped
            # words knows the columns.
            own_words = {*parts.typed[judge].words} != {*parts.typed[label].words}
            if own_words and (choices.words or not _has_few_words(parts.typed[judge])):
                continue
            equal = all(verdict == right for verdict, right in both)
            # One value in all rows is no sign of a copy: any two such columns are equal.
            values = {verdict for verdict, _ in both}
            if len(both) < _SAME_ROWS or not equal or len(values) < 2:
                continue
            others = [name for name in parts.raters.labels if name != label]
            labels_left = [
                word for name in others or [NO_LABELS] for word in ("--label", name)
            ]
            problem = (
                f"columns '{judge}' and '{label}' are identical in all {len(both)} rows:"
                " a copy is no evidence of agreement"
            )
            answers = [
                Answer("they are independent", ("--judge", judge, "--label", label)),
                Answer(f"'{label}' is a copy", ("--judge", judge, *labels_left)),
            ]
            raise OpenTableError(problem, where, answers)


def _has_few_words(column: TypedColumn) -> bool:
    return 2 * len(column.words) <= column.total


def check_chosen(
    parts: Parts, verdicts: Mapping[str, Sequence[Any]], choices: Choices, where: str
) -> None:
    """Ask whether responses were chosen by a judge that prefers the chosen one in every row.

    Raises:
        OpenTableError: If so, unless the user named the judge.
    """
    if "label" not in parts.constants:
        return
    for judge in judge_columns(parts.raters):
        winners = [winner for winner in verdicts[judge] if winner is not None]
        # A judge may have chosen the responses, which would make its accuracy 1 by design.
        always = set(winners) == {parts.constants["label"]}
        if judge in choices.judges or len(winners) < _SAME_ROWS or not always:
            continue
        problem = (
            f"'{judge}' prefers the chosen response in all {len(winners)} rows: was the"
            " choice made from it?"
        )
        answers = [
            Answer("yes, there are no labels", ("--judge", judge, "--label", "NONE")),
            Answer("no, they are independent", ("--judge", judge)),
        ]
        raise OpenTableError(problem, where, answers)
