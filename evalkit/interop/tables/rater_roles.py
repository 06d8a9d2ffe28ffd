"""The judges and the labels of a table, and why other columns are neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from evalkit.interop.tables.stacked import Stack

NOT_USED: Final = "not used"
MAY_BE_VERDICT: Final = "may be a verdict"


@dataclass(slots=True)
class Raters:
    """The judges and the labels, each with the reason, and why columns that could be
    raters are not used.

    `criteria` are the columns of one judge's criteria, by the name of the criterion. `stack` is how
    columns by rater and criterion become rows by criterion. `people` are the columns of the
    annotators that a long table names in its rows.
    """

    judges: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    unused: dict[str, str] = field(default_factory=dict)
    criteria: dict[str, str] = field(default_factory=dict)
    stack: Stack | None = None
    people: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The columns of all raters."""
        return [*self.judges, *self.labels]

    def set_criteria(self, names: Sequence[str]) -> None:
        """Read columns of scores as criteria of one judge."""
        self.criteria = {name: name for name in names}
        self.judges = {names[0]: "criteria of one judge"}
