"""Sequences of values that are too many to be held: each is made when it is asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence whose values are made one at a time, by `_make`.

    It equals every sequence of equal values, and goes to other processes as a tuple.
    """

    @abstractmethod
    def _make(self, place: int) -> T:
        """Return the value at a place from 0 to below the length."""

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        if isinstance(place, slice):
            return tuple(self._make(one) for one in range(*place.indices(len(self))))
        return self._make(range(len(self))[place])

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
    """The values of another sequence in an order of its own, by their places there."""

    def __init__(self, values: Sequence[T], order: Sequence[int]) -> None:
        self._values, self._order = values, order

    def __len__(self) -> int:
        return len(self._order)

    def _make(self, place: int) -> T:
        return self._values[self._order[place]]
