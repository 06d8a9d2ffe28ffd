"""What the jobs of a sweep have alike, kept from one to the next: as long as it is not too much."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")

ROOM = 64 * 2**20
"""Bytes that are kept at most, as those who keep something estimate it: what six judgings of 1,000 pairs take."""


class SweepCache:
    """Values by what they are known by; the one that was asked for longest ago goes first when there is no more room.

    It is for one thread, and for values that nobody changes.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room, self._taken = room, 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable) -> Any | None:
        """Return the value known by a key, or none."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def keep(self, key: Hashable, value: T, size: int) -> T:
        """Keep a value of about `size` bytes, unless it would take a quarter of the room, and return it."""
        if not self.takes(size):
            return value
        self._taken += size - self._kept.pop(key, (None, 0))[1]
        self._kept[key] = value, size
        while self._taken > self._room:
            self._taken -= self._kept.popitem(last=False)[1][1]
        return value

    def takes(self, size: int) -> bool:
        """Say whether a value of so many bytes would be kept."""
        return 4 * size <= self._room

    def of(self, thing: object, what: str, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return what is made of a thing, as it was made of this very one before if that is kept."""
        known = self.get((what, id(thing)))
        if known is not None and known[0] is thing:  # else another thing has its place by now
            return cast(T, known[1])
        made = make()
        self.keep((what, id(thing)), (thing, made), size(made))
        return made
