"""Texts that are counted while they exist: memory that no other thread disturbs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Self


class CountedText(str):
    """A text that counts those of its kind that exist, and the most that did at once."""

    alive: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def __new__(cls, text: str) -> Self:
        CountedText.alive += 1
        CountedText.most = max(CountedText.most, CountedText.alive)
        return super().__new__(cls, text)

    def __del__(self) -> None:
        CountedText.alive -= 1


@contextmanager
def most_texts() -> Iterator[list[int]]:
    """Give a list that holds at the end by how many more texts existed at once than at the beginning."""
    before = CountedText.most = CountedText.alive
    more: list[int] = []
    yield more
    more.append(CountedText.most - before)
