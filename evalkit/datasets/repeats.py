"""Whether an id stands twice among any number of cases, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import IO, Any

from evalkit.errors import DatasetError

HELD = 2**14
_PART = 2**18
_MOST_PARTS = 64


class Ids:
    """The ids of the cases read so far.

    The last few thousand are held with their places. Of those before, eight bytes each are in a temporary file, and are
    compared once all are read: in parts that fit into little memory, since equal ids fall into the same part.
    """

    def __init__(self) -> None:
        self._recent: dict[str, str] = {}
        self._file: IO[bytes] | None = None
        self._count = 0

    def add(self, id_: str, place: str) -> None:
        """Take the next id.

        Raises:
            DatasetError: if it is one of the last few thousand.
        """
        if id_ in self._recent:
            raise repeated(id_, self._recent[id_], place)
        self._recent[id_] = place
        if len(self._recent) >= HELD:
            self._write()

    def suspects(self) -> set[int]:
        """Return the hashes that occur more than once among all ids: nearly always none, and then no id is repeated."""
        if self._file is None:
            return set()
        import numpy as np

        self._write()
        parts = min(-(-self._count // _PART), _MOST_PARTS)
        found: set[int] = set()
        for part in range(parts):
            picked = np.sort(np.concatenate([chunk[chunk % parts == part] for chunk in self._chunks(np)]))
            found.update(int(one) for one in picked[1:][picked[1:] == picked[:-1]])
        self._file.close()
        return found

    def _write(self) -> None:
        import numpy as np

        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="evalkit-")  # noqa: SIM115 - it lives on
        hashes = np.fromiter(map(hash, self._recent), dtype=np.int64, count=len(self._recent))
        self._file.write(hashes.tobytes())
        self._count += len(self._recent)
        self._recent.clear()

    def _chunks(self, np: Any) -> Iterable[Any]:
        if self._file is None:
            return
        self._file.seek(0)
        while raw := self._file.read(8 * _PART):
            yield np.frombuffer(raw, dtype=np.int64)


def find_repeated(ids: Iterable[tuple[str, str]], suspects: set[int]) -> DatasetError | None:
    """Return the complaint of the first id, of (id, place), that stands twice, of those with `suspects` for hashes."""
    seen: dict[str, str] = {}
    for id_, place in ids:
        if hash(id_) not in suspects:
            continue
        if id_ in seen:
            return repeated(id_, seen[id_], place)
        seen[id_] = place
    return None


def repeated(id_: str, before: str, place: str) -> DatasetError:
    """Return the complaint that an id stands in two places."""
    file, _, first = before.rpartition(":")
    first = first if first.startswith("row") else f"line {first}"
    if file != place.rpartition(":")[0]:
        first = before
    return DatasetError(f"id '{id_}' is already that of {first}", where=place, remedy="make ids unique")
