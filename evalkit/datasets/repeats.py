"""Whether an id stands twice among any number of cases, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

from evalkit.distinct import Hashes
from evalkit.distinct import repeated as repeated_hashes
from evalkit.errors import DatasetError

HELD = 2**14


class Ids:
    """The ids of the cases read so far.

    The last few thousand are held with their places. Of those before there are hashes, compared once all are read.
    """

    def __init__(self) -> None:
        self._recent: dict[str, str] = {}
        self._before = Hashes()

    def add(self, id_: str, place: str) -> None:
        """Take the next id.

        Raises:
            DatasetError: if it is one of the last few thousand.
        """
        if id_ in self._recent:
            raise repeated(id_, self._recent[id_], place)
        self._recent[id_] = place
        if len(self._recent) >= HELD:
            self._forget()

    def suspects(self) -> set[int]:
        """Return the hashes that occur more than once among all ids: nearly always none, and then no id is repeated."""
        if not len(self._before):
            return set()
        self._forget()
        return repeated_hashes(self._before)

    def _forget(self) -> None:
        self._before.extend([hash(id_) for id_ in self._recent])
        self._recent.clear()


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
