"""Numbers by case, held in as few bytes as lose nothing: what statistics are made of, many times over."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evalkit.scoring.columns import Floats

FLOATS = 2**20
"""So many numbers at most are made floats at once to be summed."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Table:
    """Columns with a number for each of `cases`: bytes where all are whole and small, as most counts are, else floats.

    One array makes one table, for as long as both are there.
    """

    columns: tuple[NDArray[Any], ...]
    cases: int

    _known: ClassVar[dict[int, tuple[weakref.ref[Any], weakref.ref[Table]]]] = {}

    @classmethod
    def of(cls, columns: Floats | Table) -> Table:
        """Return columns, given as an array of (cases, columns), as a table."""
        if isinstance(columns, Table):
            return columns
        array, table = cls._known.get(id(columns), (None, None))
        if array is not None and table is not None and array() is columns and (found := table()) is not None:
            return found
        made = cls(tuple(_least(column) for column in columns.T), len(columns))
        cls._known[id(columns)] = weakref.ref(columns), weakref.ref(made)
        weakref.finalize(columns, cls._known.pop, id(columns), None)
        return made

    def totals(self, weights: Floats) -> Floats:
        """Return the columns' sums under each row of weights."""
        return totals_of(self.columns, weights)


def _least(column: Floats) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):
        small = column.astype(np.uint8)
    return small if np.array_equal(small, column) else np.array(column, dtype=np.float64)


def totals_of(columns: Sequence[NDArray[Any]], weights: Floats) -> Floats:
    """Return the sums of columns, (rows, columns), under each row of weights, (rows, cases)."""
    width = max(1, FLOATS // max(1, weights.shape[1]))
    parts = [columns[start : start + width] for start in range(0, len(columns), width)]
    sums = [weights @ np.stack(part, axis=1, dtype=np.float64, casting="safe") for part in parts]
    return np.concatenate(sums, axis=1) if sums else np.zeros((len(weights), 0))
