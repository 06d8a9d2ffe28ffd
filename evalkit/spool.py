"""Values that are too many to be held, in a temporary file until they are asked for."""

from __future__ import annotations

import io
import os
import pickle
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

from evalkit.errors import ConfigError
from evalkit.lazy import Arranged, Lazy

T = TypeVar("T")

HELD = 4 * 2**20
"""Bytes up to which values are held rather than written: most runs need no temporary file."""


class Spool(Lazy[T]):
    """Values that are appended and read back, equal to what was put in.

    While they are few they are held. Once they take more than `HELD` bytes all are in a temporary file without a name,
    which the system takes back when the process ends, however it does. What cannot be pickled is held all the same.
    It is for one thread at a time.
    """

    def __init__(self, values: Iterable[T] = (), *, folder: Path | None = None) -> None:
        """Take `values`; the file, if it comes to one, is in `folder` or the nearest folder above that there is."""
        self._folder = folder
        self._file: IO[bytes] = io.BytesIO()
        self._held: list[T] | None = []
        self._odd: dict[int, T] = {}
        self._ends = array("q", [0])
        self.extend(values)

    def append(self, value: T) -> None:
        """Add a value at the end.

        Raises:
            ConfigError: if the temporary file cannot be written.
        """
        try:
            content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
            self._odd[len(self)] = value
            content = b""
        end = self._ends[-1] + len(content)
        try:
            if self._held is not None and end > HELD:
                self._file = self._temporary(self._file)
                self._held = None
            self._file.seek(self._ends[-1])
            self._file.write(content)
        except OSError as bad:
            raise self._no_room(bad) from None
        self._ends.append(end)
        if self._held is not None:
            self._held.append(value)

    def extend(self, values: Iterable[T]) -> None:
        """Add values at the end, one by one."""
        for value in values:
            self.append(value)

    def arrange(self, order: Sequence[int]) -> Sequence[T]:
        """Return the values in another order, by their places in this one; nothing is copied."""
        return Arranged(self, order)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[T]:
        return super().__iter__() if self._held is None else iter(self._held)

    def _make(self, place: int) -> T:
        if self._held is not None:
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

    def _temporary(self, written: IO[bytes]) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._place())  # noqa: SIM115 - closed with the spool, whenever that goes
        weakref.finalize(self, _close, file)
        written.seek(0)
        file.write(written.read())
        return file

    def _place(self) -> Path | None:
        above = () if self._folder is None else (self._folder.absolute(), *self._folder.absolute().parents)
        return next((place for place in above if place.is_dir() and os.access(place, os.W_OK)), None)

    def _no_room(self, bad: OSError) -> ConfigError:
        return ConfigError(
            f"a temporary file cannot be kept ({bad.strerror or bad})",
            where=str(self._place() or tempfile.gettempdir()),
            remedy="make room there, or set TMPDIR or hydra.run.dir to another disk",
        )


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what could not be flushed is of no use to anybody now
        file.close()
