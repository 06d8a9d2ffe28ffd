"""Judgments and verdicts of which many say the same, each of its own case: what they say is
held once.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from evalkit.core.spool import LazySequence
from evalkit.core.types import Judgment, Verdict

Statement = TypeVar("Statement", bound=Judgment | Verdict)


def _but_case(kind: type[Judgment | Verdict]) -> Callable[[object], tuple[Any, ...]]:
    """Return how to read all fields but the first one, which is the case."""
    _, *other_fields = fields(kind)
    names = [field.name for field in other_fields]
    return attrgetter(*names)


_BUT_CASE: Final = {kind: _but_case(kind) for kind in (Judgment, Verdict)}


class MaybeShared(LazySequence[Statement]):
    """A sequence that may know which of its values say the same."""

    @abstractmethod
    def shared(self) -> Shared[Statement] | None:
        """Return the same values by what they say; `None` if hardly any two say the same."""


class Shared(MaybeShared[Statement]):
    """Values by what they say: a table has a few verdicts, and a row for each case.

    A value is made when it is asked for.

    Attributes:
        statements: values that differ in more than their case, each of the first case of
            which it is said.
        indices: (n,) the index in `statements` of what each value says.
        case_ids: (n,) the case of each value.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        indices: array[int],
        case_ids: Sequence[str],
    ) -> None:
        """Initialize with what is said, in the order in which it is said first."""
        self.statements = statements
        self.indices = indices
        self.case_ids = case_ids

    def __len__(self) -> int:
        return len(self.indices)

    def _make(self, index: int) -> Statement:
        statement = self.statements[self.indices[index]]
        case_id = self.case_ids[index]
        if statement.case_id == case_id:
            return statement
        kind: Any = type(statement)
        # By position: `replace` would take many times as long.
        other_fields = _BUT_CASE[kind](statement)
        changed_case: Statement = kind(case_id, *other_fields)
        return changed_case

    def shared(self) -> Shared[Statement]:
        """Return these values."""
        return self

    def by_case(self) -> Iterator[tuple[str, Statement]]:
        """Yield the case of each value, and what is said of it."""
        statements = map(self.statements.__getitem__, self.indices)
        return zip(self.case_ids, statements, strict=True)


SharedJudgments: TypeAlias = Shared[Judgment]


def shared_of(values: Iterable[Statement]) -> Shared[Statement] | None:
    """Return values by what they say; `None` if hardly any two are known to say the same."""
    if isinstance(values, MaybeShared):
        return values.shared()
    return None


def statements_of(judgments: Sequence[Judgment]) -> Sequence[Judgment]:
    """Return what judgments say, in order and at least once: for questions about all of them."""
    shared = shared_of(judgments)
    if shared is None:
        return judgments
    return shared.statements


def by_case(values: Iterable[Statement]) -> Iterator[tuple[str, Statement]]:
    """Yield the case of each value, and what is said of it: a value that may name another case."""
    shared = shared_of(values)
    if shared is not None:
        return shared.by_case()
    return ((value.case_id, value) for value in values)


def changed(
    judgments: Sequence[Judgment], change: Callable[[Judgment], Judgment]
) -> Sequence[Judgment]:
    """Return judgments changed by a function that does not read their case."""
    shared = shared_of(judgments)
    if shared is None:
        return tuple(map(change, judgments))
    statements = [*map(change, shared.statements)]
    return Shared(statements, shared.indices, shared.case_ids)
