"""Which of any number of hashes are new, and which repeat, in memory that does not grow with them."""

from __future__ import annotations

import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence
from typing import IO, Any

HELD = 2**15
_PART = 2**17
_MOST_PARTS = 64


class Hashes:
    """Hashes of 64 bits, each with a weight; of many, those before the last few thousand wait in a temporary file."""

    def __init__(self) -> None:
        self._held = array("q")
        self._file: IO[bytes] | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, hash_: int, weight: int = 0) -> None:
        """Take a hash, in the range of 64 bits with a sign."""
        self._held.append(hash_)
        self._held.append(weight)
        self._count += 1
        if len(self._held) >= 2 * HELD:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="evalkit-")  # noqa: SIM115 - it lives on, and is closed with this
                weakref.finalize(self, self._file.close)
            self._file.seek(0, 2)
            self._file.write(self._held.tobytes())
            del self._held[:]

    @property
    def is_small(self) -> bool:
        """Whether all are held."""
        return self._file is None

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield those that are held, as (hash, weight)."""
        return zip(self._held[::2], self._held[1::2], strict=True)

    def part(self, which: int, of: int) -> Any:
        """Return the hashes and weights of one part out of several, as two rows; equal hashes are in one part."""
        import numpy as np

        kept = [np.empty((0, 2), dtype=np.int64)]
        for raw in self._chunks():
            chunk = np.frombuffer(raw, dtype=np.int64).reshape(-1, 2)
            kept.append(chunk[chunk[:, 0] % of == which])
        return np.concatenate(kept).T

    def _chunks(self) -> Iterator[bytes]:
        if self._file is not None:
            self._file.seek(0)
            while raw := self._file.read(16 * HELD):
                yield raw
        if self._held:
            yield self._held.tobytes()


def repeated(hashes: Hashes) -> set[int]:
    """Return the hashes that stand more than once among `hashes`."""
    if hashes.is_small:
        seen: set[int] = set()
        return {one for one, _ in hashes.pairs() if one in seen or seen.add(one)}  # type: ignore[func-returns-value]
    import numpy as np

    found: set[int] = set()
    for part, parts in _parts(len(hashes)):
        ordered = np.sort(hashes.part(part, parts)[0])
        found.update(int(one) for one in ordered[1:][ordered[1:] == ordered[:-1]])
    return found


def new_among(hashes: Hashes, before: Sequence[Hashes] = ()) -> tuple[int, int]:
    """Return how many different hashes of `hashes` are in none of `before`, and the sum of their weights."""
    if hashes.is_small and all(other.is_small for other in before):
        fresh = dict(hashes.pairs())
        for other in before:
            for one, _ in other.pairs():
                fresh.pop(one, None)
        return len(fresh), sum(fresh.values())
    import numpy as np

    count = weight = 0
    for part, parts in _parts(max(len(hashes), *(len(other) for other in before), 1)):
        own, weights = hashes.part(part, parts)
        different, first = np.unique(own, return_index=True)
        kept = np.ones(len(different), dtype=bool)
        for other in before:
            kept &= ~np.isin(different, other.part(part, parts)[0])
        count += int(kept.sum())
        weight += int(weights[first][kept].sum())
    return count, weight


def _parts(count: int) -> Iterator[tuple[int, int]]:
    parts = min(-(-count // _PART), _MOST_PARTS)
    return ((part, parts) for part in range(parts))
