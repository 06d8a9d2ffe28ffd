"""Sequences that create each value on demand, for values that exceed memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence that creates its values one at a time with `_make`.

    It equals every sequence of equal values, and is pickled as a tuple.
    """

    @abstractmethod
    def _make(self, index: int) -> T:
        """Return the value at an index from 0 to below the length."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._make(one) for one in range(*index.indices(len(self))))
        return self._make(range(len(self))[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self[:3]))
        return f"{type(self).__name__}([{first}{', …' if len(self) > 3 else ''}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)


class ReorderedSequence(LazySequence[T]):
    """The values of another sequence, in the order of a list of its indices."""

    def __init__(self, values: Sequence[T], order: Sequence[int]) -> None:
        self._values, self._order = values, order

    def __len__(self) -> int:
        return len(self._order)

    def _make(self, index: int) -> T:
        return self._values[self._order[index]]
