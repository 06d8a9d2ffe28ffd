"""Count new and repeated hashes among any number of them, in constant memory."""

from __future__ import annotations

import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence
from typing import IO, Any

MAX_IN_MEMORY = 2**15
_PART = 2**17
_BUCKET_BITS = 8
_BUCKETS = 2**_BUCKET_BITS
_SHIFT = 64 - _BUCKET_BITS


class HashSet:
    """64-bit hashes, each with a weight; beyond the last few thousand they are in a temporary file.

    The file consists of sorted pieces with an index of their buckets, so that a part of all hashes can be read without
    the others.
    """

    def __init__(self) -> None:
        self._hashes, self._weights = array("q"), array("q")
        self._file: IO[bytes] | None = None
        self._pieces: list[tuple[int, Any]] = []
        self._end = self._written = 0

    def __len__(self) -> int:
        return self._written + len(self._hashes)

    def add(self, hash_: int, weight: int = 0) -> None:
        """Add a hash, a signed 64-bit integer."""
        self._hashes.append(hash_)
        self._weights.append(weight)
        if len(self._hashes) >= MAX_IN_MEMORY:
            self._spill()

    def extend(self, hashes: Sequence[int]) -> None:
        """Add many hashes without weights."""
        self._hashes.extend(hashes)
        self._weights.frombytes(bytes(8 * len(hashes)))
        if len(self._hashes) >= MAX_IN_MEMORY:
            self._spill()

    @property
    def is_small(self) -> bool:
        """Whether all hashes are in memory."""
        return self._file is None

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the hashes in memory as (hash, weight)."""
        return zip(self._hashes, self._weights, strict=True)

    def part(self, which: int, of: int) -> Any:
        """Return one part of the hashes and weights; equal hashes are in the same part.

        Args:
            which: The index of the part.
            of: The number of parts: a power of 2, at most 256.

        Returns:
            An array of shape (2, n): hashes and weights.
        """
        import numpy as np

        each = _BUCKETS // of
        first, last = which * each, (which + 1) * each
        recent = np.array([self._hashes, self._weights], dtype=np.int64).reshape(2, -1)
        bucket = (recent[0] >> _SHIFT) + _BUCKETS // 2
        columns = [recent[:, (bucket >= first) & (bucket < last)]]
        for begin, starts in self._pieces:
            size, low, high = (int(starts[at]) for at in (-1, first, last))
            rows = [self._read(begin + 8 * (size * row + low), 8 * (high - low)) for row in (0, 1)]
            columns.append(np.stack([np.frombuffer(row, dtype=np.int64) for row in rows]))
        return np.concatenate(columns, axis=1)

    def _read(self, begin: int, size: int) -> bytes:
        assert self._file is not None  # there are pieces
        self._file.seek(begin)
        return self._file.read(size)

    def _spill(self) -> None:
        import numpy as np

        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="evalkit-")  # noqa: SIM115 - it stays open, and is closed with this object
            weakref.finalize(self, self._file.close)
        hashes, weights = np.array(self._hashes, dtype=np.int64), np.array(self._weights, dtype=np.int64)
        order = np.argsort(hashes)
        hashes = hashes[order]
        edges = (np.arange(_BUCKETS, dtype=np.int64) - _BUCKETS // 2) << _SHIFT
        starts = np.append(np.searchsorted(hashes, edges), len(hashes)).astype(np.int32)
        self._file.seek(self._end)
        self._file.write(hashes.tobytes())
        self._file.write(weights[order].tobytes())
        self._pieces.append((self._end, starts))
        self._end += 16 * len(hashes)
        self._written += len(hashes)
        del self._hashes[:], self._weights[:]


def count_repeats(hashes: HashSet) -> set[int]:
    """Return the hashes that occur more than once in `hashes`."""
    if hashes.is_small:
        seen: set[int] = set()
        return {one for one, _ in hashes.pairs() if one in seen or seen.add(one)}  # type: ignore[func-returns-value]
    import numpy as np

    repeated: set[int] = set()
    for part, parts in _parts(len(hashes)):
        ordered = np.sort(hashes.part(part, parts)[0])
        repeated.update(int(one) for one in ordered[1:][ordered[1:] == ordered[:-1]])
    return repeated


def find_new(hashes: HashSet, before: Sequence[HashSet] = ()) -> tuple[int, int]:
    """Return the number of distinct hashes of `hashes` that are not in `before`, and the sum of their weights."""
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
    parts = 1
    while parts < _BUCKETS and parts * _PART < count:
        parts *= 2
    return ((part, parts) for part in range(parts))
