"""Values that are too many to be held, in a temporary file until they are asked for."""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

from evalkit.core.sequences import LazySequence, ReorderedSequence
from evalkit.errors import ConfigError

T = TypeVar("T")

HELD = 4 * 2**20
"""Bytes up to which values are held rather than written: most runs need no temporary file."""
ONE_IN = 8
_GOLDEN = 0.6180339887498949


class Spool(LazySequence[T]):
    """Values that are appended and read back, equal to what was put in.

    While they are few they are held. Once they take more than `HELD` bytes all are in a temporary file without a name,
    which the system takes back when the process ends, however it does. What cannot be pickled is held all the same.
    What they take is what some of them would take in the file, the first and then one in `ONE_IN` of them, drawn.
    It is for one thread at a time.
    """

    def __init__(self, values: Iterable[T] = (), *, folder: Path | None = None) -> None:
        """Take `values`; the file, if it comes to one, is in `folder` or the nearest folder above that there is."""
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._held: list[T] = []
        self._weighed = self._weight = 0
        self._odd: dict[int, T] = {}
        self._ends = array("q", [0])
        self.extend(values)

    def append(self, value: T) -> None:
        """Add a value at the end.

        Raises:
            ConfigError: if the temporary file cannot be written.
        """
        if self._file is not None:
            self._write(self._file, value)
            return
        self._held.append(value)
        if self._is_drawn(len(self._held)):
            self._weighed += 1
            self._weight += len(_pickled(value) or b"")
        if self._weighed * HELD < self._weight * len(self._held):
            self._put_down()

    def extend(self, values: Iterable[T]) -> None:
        """Add values at the end, one by one."""
        for value in values:
            self.append(value)

    def arrange(self, order: Sequence[int]) -> Sequence[T]:
        """Return the values in another order, by their places in this one; nothing is copied."""
        return ReorderedSequence(self, order)

    def __len__(self) -> int:
        return len(self._held) if self._file is None else len(self._ends) - 1

    def __iter__(self) -> Iterator[T]:
        return iter(self._held) if self._file is None else super().__iter__()

    def _make(self, place: int) -> T:
        if self._file is None:
            return self._held[place]
        if place in self._odd:
            return self._odd[place]
        try:
            self._file.seek(self._ends[place])
            content = self._file.read(self._ends[place + 1] - self._ends[place])
        except OSError as bad:
            raise self._no_room(bad) from None
        value: T = pickle.loads(content)
        return value

    @staticmethod
    def _is_drawn(number: int) -> bool:
        # Multiples of the golden ratio fall everywhere in [0, 1): no order of values that repeats itself escapes.
        return number == 1 or number * _GOLDEN % 1 < 1 / ONE_IN

    def _put_down(self) -> None:
        """Put into a file all that is held, and from now on whatever comes."""
        try:
            file = tempfile.TemporaryFile(dir=self._place())  # noqa: SIM115 - closed with the spool, whenever that goes
        except OSError as bad:
            raise self._no_room(bad) from None
        weakref.finalize(self, _close, file)
        try:
            for value in self._held:
                self._write(file, value)
        except ConfigError:
            del self._ends[1:]
            raise
        self._file, self._held = file, []

    def _write(self, file: IO[bytes], value: T) -> None:
        content = _pickled(value)
        if content is None:
            self._odd[len(self._ends) - 1] = value
            content = b""
        try:
            file.seek(self._ends[-1])
            file.write(content)
        except OSError as bad:
            raise self._no_room(bad) from None
        self._ends.append(self._ends[-1] + len(content))

    def _place(self) -> Path | None:
        above = () if self._folder is None else (self._folder.absolute(), *self._folder.absolute().parents)
        return next((place for place in above if place.is_dir() and os.access(place, os.W_OK)), None)

    def _no_room(self, bad: OSError) -> ConfigError:
        return ConfigError(
            f"a temporary file cannot be kept ({bad.strerror or bad})",
            where=str(self._place() or tempfile.gettempdir()),
            remedy="make room there, or set TMPDIR or hydra.run.dir to another disk",
        )


def _pickled(value: object) -> bytes | None:
    """Return a value as it stands in the file, or none if it cannot."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return None


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what could not be flushed is of no use to anybody now
        file.close()
