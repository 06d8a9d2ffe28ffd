"""Judgments of which many say the same, each of its own case: what they say is held once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final

from evalkit.core.spool import LazySequence
from evalkit.core.types import Judgment

_ALL_BUT_CASE: Final = attrgetter(
    *[field.name for field in fields(Judgment) if field.name != "case_id"]
)


class SharedJudgments(LazySequence[Judgment]):
    """Judgments by what they say: a table has a few verdicts, and a row for each case.

    A judgment is made when it is asked for.

    Attributes:
        statements: judgments that differ in more than their case, each of the first case of
            which it is said.
        said: (n,) the index in `statements` of what each judgment says.
        case_ids: (n,) the case of each judgment.
    """

    def __init__(
        self, statements: Sequence[Judgment], said: array[int], case_ids: Sequence[str]
    ) -> None:
        """Initialize with what is said, in the order in which it is said first."""
        self.statements = statements
        self.said = said
        self.case_ids = case_ids

    def __len__(self) -> int:
        return len(self.said)

    def _make(self, index: int) -> Judgment:
        statement = self.statements[self.said[index]]
        case_id = self.case_ids[index]
        if statement.case_id == case_id:
            return statement
        # By position: `replace` would take many times as long.
        return Judgment(case_id, *_ALL_BUT_CASE(statement))

    def by_case(self) -> Iterator[tuple[str, Judgment]]:
        """Yield the case of each judgment, and what is said of it."""
        said = map(self.statements.__getitem__, self.said)
        return zip(self.case_ids, said, strict=True)


def statements_of(judgments: Sequence[Judgment]) -> Sequence[Judgment]:
    """Return what judgments say, in order and at least once: for questions about all of them."""
    if isinstance(judgments, SharedJudgments):
        return judgments.statements
    return judgments


def by_case(judgments: Iterable[Judgment]) -> Iterator[tuple[str, Judgment]]:
    """Yield the case of each judgment, and what is said of it: a judgment that may name
    another case.
    """
    if isinstance(judgments, SharedJudgments):
        return judgments.by_case()
    return ((judgment.case_id, judgment) for judgment in judgments)


def changed(
    judgments: Sequence[Judgment], change: Callable[[Judgment], Judgment]
) -> Sequence[Judgment]:
    """Return judgments changed by a function that does not read their case."""
    statements = tuple(map(change, statements_of(judgments)))
    if isinstance(judgments, SharedJudgments):
        return SharedJudgments(statements, judgments.said, judgments.case_ids)
    return statements
