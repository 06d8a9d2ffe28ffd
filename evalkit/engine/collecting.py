"""What a run keeps of its judgments while it goes on: next to nothing, however many there are."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

from evalkit.engine.asking import Ask
from evalkit.spool import Spool
from evalkit.types import Completion, Failure, Judgment

MOST_AFTER = 2**20
"""More judgments than this never follow from one unit."""


class Collected:
    """Judgments in whatever order they are finished, each with its place in the run."""

    def __init__(self, folder: Path | None) -> None:
        """Spool to a file in or above `folder`, once they are too many."""
        self._judgments: Spool[Judgment] = Spool(folder=folder)
        self._places = array("q")

    def add(self, ask: Ask, judgment: Judgment) -> None:
        """Take the judgment that an ask came to.

        Raises:
            ConfigError: if it cannot be written.
        """
        self._judgments.append(judgment)
        self._places.append(ask.position * MOST_AFTER + ask.after)

    def in_order(self) -> Sequence[Judgment]:
        """Return them by position, those that follow from a unit behind it."""
        order = sorted(range(len(self._places)), key=self._places.__getitem__)
        return self._judgments.arrange(array("q", order))


class OpenGroups:
    """The judgments of those units of which some are still to come."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, Judgment]] = {}

    def complete(self, ask: Ask, judgment: Judgment) -> list[Judgment] | None:
        """Take a judgment, and return all of its unit in the order planned once it is the last of them, else none."""
        positions = ask.group.positions
        found = self._open.setdefault(positions[0], {})
        found[ask.position] = judgment
        if len(found) < len(positions):
            return None
        del self._open[positions[0]]
        return [found[position] for position in positions]


class Landed:
    """What requests came to, by content key, for equal ones that come later; a call that was never made is not kept."""

    def __init__(self, folder: Path | None) -> None:
        """Spool to a file in or above `folder`, once answers are too many."""
        self._outcomes: Spool[Completion | Failure] = Spool(folder=folder)
        self._places: dict[bytes, int] = {}

    def keep(self, key: str, outcome: Completion | Failure) -> None:
        """Keep what a request came to.

        Raises:
            ConfigError: if it cannot be written.
        """
        if isinstance(outcome, Completion) or outcome.attempts:
            self._places[bytes.fromhex(key)] = len(self._outcomes)
            self._outcomes.append(outcome)

    def get(self, key: str) -> Completion | Failure | None:
        """Return what an equal request came to, or none."""
        place = self._places.get(bytes.fromhex(key)) if self._places else None
        return None if place is None else self._outcomes[place]
