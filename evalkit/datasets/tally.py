"""What should be said once of many rows, counted."""

from __future__ import annotations


class Tally:
    """Counts what should be said once, with the first place it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str]] = {}

    def add(self, what: str, place: str) -> None:
        """Count one."""
        count, first = self._seen.get(what, (0, place))
        self._seen[what] = (count + 1, first)

    def clear(self) -> None:
        """Begin anew."""
        self._seen.clear()

    def notes(self) -> tuple[str, ...]:
        """Return one line for each thing counted."""
        return tuple(f"{what}: {count} (first: {place})" for what, (count, place) in self._seen.items())
