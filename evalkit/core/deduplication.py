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

Said = TypeVar("Said", bound=Judgment | Verdict)


def _but_case(kind: type[Judgment | Verdict]) -> Callable[[object], tuple[Any, ...]]:
    """Return how to read all fields but the first one, which is the case."""
    return attrgetter(*[field.name for field in fields(kind)[1:]])


_BUT_CASE: Final = {kind: _but_case(kind) for kind in (Judgment, Verdict)}


class MaybeShared(LazySequence[Said]):
    """A sequence that may know which of its values say the same."""

    @abstractmethod
    def shared(self) -> Shared[Said] | None:
        """Return the same values by what they say; `None` if hardly any two say the same."""


class Shared(MaybeShared[Said]):
    """Values by what they say: a table has a few verdicts, and a row for each case.

    A value is made when it is asked for.

    Attributes:
        statements: values that differ in more than their case, each of the first case of
            which it is said.
        said: (n,) the index in `statements` of what each value says.
        case_ids: (n,) the case of each value.
    """

    def __init__(
        self, statements: Sequence[Said], said: array[int], case_ids: Sequence[str]
    ) -> None:
        """Initialize with what is said, in the order in which it is said first."""
        self.statements = statements
        self.said = said
        self.case_ids = case_ids

    def __len__(self) -> int:
        return len(self.said)

    def _make(self, index: int) -> Said:
        statement = self.statements[self.said[index]]
        case_id = self.case_ids[index]
        if statement.case_id == case_id:
            return statement
        kind: Any = type(statement)
        # By position: `replace` would take many times as long.
        changed_case: Said = kind(case_id, *_BUT_CASE[kind](statement))
        return changed_case

    def shared(self) -> Shared[Said]:
        """Return these values."""
        return self

    def by_case(self) -> Iterator[tuple[str, Said]]:
        """Yield the case of each value, and what is said of it."""
        said = map(self.statements.__getitem__, self.said)
        return zip(self.case_ids, said, strict=True)


SharedJudgments: TypeAlias = Shared[Judgment]


def shared_of(values: Iterable[Said]) -> Shared[Said] | None:
    """Return values by what they say; `None` if hardly any two are known to say the same."""
    if isinstance(values, MaybeShared):
        return values.shared()
    return None


def statements_of(judgments: Sequence[Judgment]) -> Sequence[Judgment]:
    """Return what judgments say, in order and at least once: for questions about all of them."""
    shared = shared_of(judgments)
    return judgments if shared is None else shared.statements


def by_case(values: Iterable[Said]) -> Iterator[tuple[str, Said]]:
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
    return Shared(statements, shared.said, shared.case_ids)
