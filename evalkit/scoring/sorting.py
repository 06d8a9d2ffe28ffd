"""From judgments in their own order to columns in an order that does not depend on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evalkit.errors import ConfigError
from evalkit.scoring.answers import Answers
from evalkit.scoring.columns import Bools, Columns, Ints
from evalkit.types import Case, Unit


def read_columns(cases: Sequence[Case], answers: Answers, sizes: Ints, size: int) -> Columns:
    """Return judgments of units of `size` responses, sorted; `sizes` says how many responses each case has.

    Raises:
        ConfigError: if a judgment is of an unknown unit or order, is there twice, or if several judges made them.
    """
    _check(cases, answers, sizes, size)
    first, last, swapped = (
        np.array([read(*shape) for shape in answers.shapes], dtype=np.int64) for read in (_first_of, _last_of, _turned)
    )
    shape = answers.shape
    keys = np.stack([answers.case, first[shape], last[shape], swapped[shape], answers.sample])
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    _refuse_doubles(keys, cases)
    if len(answers.by) > 1:
        raise ConfigError(f"judgments of several judges ({', '.join(answers.by)}) are read as those of one")
    case, i, j, turned, _ = keys
    numbers = (answers.value[order], answers.confidence[order], answers.criteria[order])
    return Columns(case, i, j, turned.astype(bool), *numbers, answers.names, "".join(answers.by))


def _check(cases: Sequence[Case], answers: Answers, sizes: Ints, size: int) -> None:
    counted = [_is_unit(unit, size) for unit, _ in answers.shapes]
    last = np.array([_last_of(*shape) for shape in answers.shapes], dtype=np.int64)
    bad = _rows(answers, counted) | (last[answers.shape] >= sizes[answers.case])
    if bad.any():
        place, (unit, _) = _first(answers, bad)
        raise ConfigError(
            f"responses {list(unit)} were judged, and the case has {int(sizes[place])}, in units of {size}",
            where=f"case '{cases[place].id}'",
        )
    astray = _rows(answers, [tuple(sorted(shown)) == unit for unit, shown in answers.shapes])
    if astray.any():
        place, (unit, shown) = _first(answers, astray)
        raise ConfigError(f"unit {list(unit)} was shown as {list(shown)}", where=f"case '{cases[place].id}'")


def _is_unit(unit: Unit, size: int) -> bool:
    return len(unit) == len(set(unit)) == size and 0 <= unit[0] <= unit[-1]


def _first_of(unit: Unit, _: Unit) -> int:
    return unit[0] if unit else -1


def _last_of(unit: Unit, _: Unit) -> int:
    return unit[-1] if unit else -1


def _turned(unit: Unit, shown: Unit) -> int:
    return int(shown != unit)


def _rows(answers: Answers, holds: Sequence[bool]) -> Bools:
    """Return the rows for whose shape it does not hold."""
    return ~np.array(holds, dtype=bool)[answers.shape]


def _first(answers: Answers, rows: Bools) -> tuple[int, tuple[Unit, Unit]]:
    row = int(np.flatnonzero(rows)[0])
    return int(answers.case[row]), answers.shapes[answers.shape[row]]


def _refuse_doubles(keys: Ints, cases: Sequence[Case]) -> None:
    doubles = np.flatnonzero((keys[:, 1:] == keys[:, :-1]).all(axis=0))
    if len(doubles):
        place, i, j, _, sample = (int(part) for part in keys[:, doubles[0]])
        raise ConfigError(
            f"responses {sorted({i, j})} are judged twice in the same order as sample {sample}",
            where=f"case '{cases[place].id}'",
            remedy="keep one of the two judgments",
        )
