"""Judgments as columns, read in one pass over the objects, in an order that does not depend on theirs."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import ConfigError
from evalkit.scoring.columns.codes import IMPLIED, KINDS, RANKING, READABLE, STATED, kind_of
from evalkit.scoring.columns.rankings import is_list, list_pairs, list_scores
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints
from evalkit.types import Case, Judgment, Unit

Shape: TypeAlias = tuple[Unit, Unit]
"""The responses judged, ascending, and the order in which they were shown."""
Places: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class JudgmentColumns:
    """Judgments, a row each, sorted by case, unit, order shown, sample and judge; NaN where one has no such number.

    A ranking (`RANKING` in `origin`) is followed by rows for what it says of each pair and each response of its unit
    (`IMPLIED`); every other judgment is `STATED`.

    Attributes:
        case: (n,) the place of the judgment's case.
        shape: (n,) the place in `shapes` of its unit and order shown.
        sample: (n,) its sample, from 0; for the implied scores of responses, numbered through all orders.
        judge: (n,) the place in `judges` of who it is by.
        arbiter: (n,) the place in `judges` of who gave it if it is a third judgment, else -1.
        kind: (n,) what became of the answer, a place in `KINDS`.
        origin: (n,) STATED, RANKING or IMPLIED.
        value: (n,) the overall value: a margin in [-1, 1] for a pair, scale units for a response.
        confidence: (n,) the probability stated, in [0, 1].
        criteria: (n, names) the value by each criterion, in the units of `value`.
        answer: (n,) a number of the completion it rests on: one number for all judgments of one completion.
        cost: (n,) US$ that this completion took.
        latency: (n,) seconds that it took; NaN where that is not known, as for answers of a batch.
        shapes: units and orders shown, in the order of the rows.
        judges: names of judges and arbiters, sorted.
        names: names of the criteria.
        expected: (n, 1 + names) value and criteria as expectations over the answer's probabilities; none if no
            judgment has probabilities.
        mass: (n,) the probability of all values of the scale together; none as above.
        open: (n,) the probability that was not among those returned; none as above.
    """

    case: Ints
    shape: Places
    sample: Places
    judge: Places
    arbiter: Places
    kind: Codes
    origin: Codes
    value: Floats
    confidence: Floats
    criteria: Floats
    answer: Ints
    cost: Floats
    latency: Floats
    shapes: tuple[Shape, ...]
    judges: tuple[str, ...]
    names: tuple[str, ...]
    expected: Floats | None = None
    mass: Floats | None = None
    open: Floats | None = None

    def __len__(self) -> int:
        return len(self.case)

    @property
    def i(self) -> Ints:
        """The lowest response of each unit, by its place in the case."""
        return self._by_shape(lambda unit, _: unit[0] if unit else -1)

    @property
    def j(self) -> Ints:
        """The highest response of each unit: the second of a pair."""
        return self._by_shape(lambda unit, _: unit[-1] if unit else -1)

    @property
    def swapped(self) -> Ints:
        """1 where the responses were shown in another order than the unit's own, else 0."""
        return self._by_shape(lambda unit, shown: int(shown != unit))

    def _by_shape(self, read: Callable[[Unit, Unit], int]) -> Ints:
        """Return a number of each row's unit and order shown."""
        return np.array([read(*shape) for shape in self.shapes], dtype=np.int64)[self.shape]

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the judges that these are by, sorted."""
        return tuple(self.judges[place] for place in np.unique(self.judge))

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that were judged, each once; not those that rankings imply."""
        return tuple({self.shapes[place][0] for place in np.unique(self.shape[self.origin != IMPLIED])})

    @property
    def readable(self) -> Bools:
        """Which of them could be read."""
        return np.asarray(self.kind >= READABLE)

    @property
    def giver(self) -> Places:
        """Who gave each, as a place in `judges`."""
        return np.where(self.arbiter < 0, self.judge, self.arbiter).astype(np.int32)

    @property
    def weighted(self) -> Bools:
        """Which have probabilities, and so an expectation."""
        return np.zeros(len(self), dtype=bool) if self.mass is None else np.asarray(~np.isnan(self.mass))

    @property
    def asked(self) -> JudgmentColumns:
        """Those that were asked for, without what rankings imply."""
        return self.where(self.origin != IMPLIED)

    def where(self, rows: Bools) -> JudgmentColumns:
        """Return some of them, in their order."""
        if rows.all():
            return self
        kept: dict[str, Any] = {}
        for name in _ARRAYS:
            column = getattr(self, name)
            kept[name] = None if column is None else column[rows]
        return replace(self, **kept)

    def select(self, judge: str | None = None, *, third: bool | None = None) -> JudgmentColumns:
        """Return those by one judge, or that are third judgments or not."""
        rows = np.ones(len(self), dtype=bool)
        if judge is not None:
            rows &= self.judge == (self.judges.index(judge) if judge in self.judges else -1)
        if third is not None:
            rows &= (self.arbiter >= 0) == third
        return self.where(rows)

    def of_units(self, size: int) -> JudgmentColumns:
        """Return those of units of so many responses, stated or implied by a ranking."""
        sizes = np.array([len(unit) for unit, _ in self.shapes], dtype=np.int64)
        return self.where((self.origin != RANKING) & (sizes[self.shape] == size))


_ARRAYS = tuple(
    field.name for field in fields(JudgmentColumns) if field.name not in ("shapes", "judges", "names")
)  # one row for each judgment


def read_judgments(cases: Sequence[Case], judgments: Iterable[Judgment], names: Sequence[str]) -> JudgmentColumns:
    """Read judgments, each once and one at a time; `names` are the criteria wanted.

    Raises:
        ConfigError: if a judgment is of no known case, or a ranking is not of its own responses.
    """
    rows = _Rows(cases, names)
    counts: Counter[tuple[str, str]] = Counter()
    for judgment in judgments:
        if not is_list(judgment):
            rows.add(judgment, STATED)
            continue
        rows.add(judgment, RANKING)
        for pair in list_pairs(judgment):
            rows.add(pair, IMPLIED)
        # Both orders of a list score the same responses: numbered through, they are samples of one score.
        place = (judgment.judge, judgment.case_id)
        for single in list_scores(judgment, counts[place]):
            rows.add(single, IMPLIED)
        counts[place] += 1
    return rows.columns()


class _Rows:
    """Columns in the making: plain arrays, since a list would hold an object for every number."""

    def __init__(self, cases: Sequence[Case], names: Sequence[str]) -> None:
        self._cases = {case.id: place for place, case in enumerate(cases)}
        self._names = tuple(names)
        self._shapes: dict[Shape, int] = {}
        self._judges: dict[str, int] = {}
        self._large = {name: array("q") for name in ("case", "answer")}
        self._places = {name: array("i") for name in ("shape", "sample", "judge", "arbiter")}
        self._codes = {name: array("b") for name in ("kind", "origin")}
        self._numbers = {name: array("d") for name in ("value", "confidence", "criteria", "cost", "latency")}
        self._weighted = array("q")
        self._expected = {name: array("d") for name in ("expected", "mass", "open")}

    def add(self, judgment: Judgment, origin: int) -> None:
        large, places, numbers = self._large, self._places, self._numbers
        case, judges, arbiter = self._cases.get(judgment.case_id), self._judges, judgment.arbiter
        if case is None:
            raise ConfigError("judged, but not among the cases", where=f"case '{judgment.case_id}'")
        if judgment.weighted is not None and origin != RANKING:
            self._weighted.append(len(large["case"]))
            stated = judgment.weighted.criteria
            self._expected["expected"].append(_number(judgment.weighted.value))
            self._expected["expected"].extend(_number(stated.get(name)) for name in self._names)
            self._expected["mass"].append(judgment.weighted.mass)
            self._expected["open"].append(judgment.weighted.open)
        large["case"].append(case)
        large["answer"].append(hash(judgment.keys[-1]) if judgment.keys else -1 - len(large["answer"]))
        places["shape"].append(self._shapes.setdefault((judgment.unit, judgment.shown), len(self._shapes)))
        places["sample"].append(judgment.sample)
        places["judge"].append(judges.setdefault(judgment.judge, len(judges)))
        places["arbiter"].append(-1 if arbiter is None else judges.setdefault(arbiter, len(judges)))
        self._codes["kind"].append(KINDS.index(kind_of(judgment)))
        self._codes["origin"].append(origin)
        numbers["value"].append(_number(judgment.value))
        numbers["confidence"].append(_number(judgment.confidence))
        numbers["criteria"].extend(_number(judgment.criteria.get(name)) for name in self._names)
        completion = judgment.completion
        numbers["cost"].append(_number(completion.cost_usd if completion else None))
        numbers["latency"].append(_number(completion.latency or None if completion else None))

    def columns(self) -> JudgmentColumns:
        """Return the columns, sorted; the arrays they are made from are given up one by one."""
        shapes, judges = sorted(self._shapes, key=_shape_order), sorted(self._judges)
        columns: dict[str, Any] = {}
        for group, kind in ((self._large, "q"), (self._places, "i"), (self._codes, "b"), (self._numbers, "d")):
            columns |= {
                name: np.frombuffer(column, kind) if column else np.zeros(0, kind) for name, column in group.items()
            }
            group.clear()
        count, width = len(columns["case"]), len(self._names)
        columns["criteria"] = columns["criteria"].reshape(count, width)
        columns["shape"] = _renumbered(columns["shape"], self._shapes, shapes)
        columns["judge"], columns["arbiter"] = (
            _renumbered(columns[name], self._judges, judges) for name in ("judge", "arbiter")
        )
        if self._weighted:
            columns |= self._spread(count, width)
        keys = [columns[name] for name in ("arbiter", "judge", "sample", "shape", "case")]
        order = np.lexsort(keys)
        if (np.diff(order) < 0).any():
            for name in columns:
                columns[name] = columns[name][order]
        return JudgmentColumns(**columns, shapes=tuple(shapes), judges=tuple(judges), names=self._names)

    def _spread(self, count: int, width: int) -> dict[str, Floats]:
        """Return the expectations as columns, NaN for judgments without probabilities."""
        rows = np.array(self._weighted)
        found = {"expected": np.full((count, 1 + width), np.nan)} | {
            n: np.full(count, np.nan) for n in ("mass", "open")
        }
        for name, column in found.items():
            column[rows] = np.array(self._expected[name]).reshape(-1, *column.shape[1:])
        return found


def _shape_order(shape: Shape) -> tuple[int, int, bool, Unit, Unit]:
    unit, shown = shape
    return (unit[0], unit[-1], shown != unit, unit, shown) if unit else (-1, -1, False, unit, shown)


def _renumbered(places: Places, known: Iterable[Any], ordered: Sequence[Any]) -> Places:
    """Return places among `known` as places among the same, ordered; -1 stays."""
    new = {one: place for place, one in enumerate(ordered)}
    table = np.array([*(new[one] for one in known), -1], dtype=np.int32)
    return table[places]


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def of_one_judge(cases: Sequence[Case], judgments: JudgmentColumns, sizes: Ints, size: int) -> JudgmentColumns:
    """Return the judgments of units of `size` responses; `sizes` says how many responses each case has.

    Raises:
        ConfigError: if a judgment is of an unknown unit or order, is there twice, or if several judges made them.
    """
    own = judgments.of_units(size)
    _check_units(cases, own, sizes, size)
    _check_once(cases, own)
    if len(own.by) > 1:
        raise ConfigError(f"judgments of several judges ({', '.join(own.by)}) are read as those of one")
    return own


def _check_units(cases: Sequence[Case], judgments: JudgmentColumns, sizes: Ints, size: int) -> None:
    known = [len(set(unit)) == size and 0 <= unit[0] <= unit[-1] for unit, _ in judgments.shapes]
    bad = ~np.array(known, dtype=bool)[judgments.shape] | (judgments.j >= sizes[judgments.case])
    if bad.any():
        place, (unit, _) = _first(judgments, bad)
        raise ConfigError(
            f"responses {list(unit)} were judged, and the case has {int(sizes[place])}, in units of {size}",
            where=f"case '{cases[place].id}'",
        )
    ordered = [tuple(sorted(shown)) == unit for unit, shown in judgments.shapes]
    astray = ~np.array(ordered, dtype=bool)[judgments.shape]
    if astray.any():
        place, (unit, shown) = _first(judgments, astray)
        raise ConfigError(f"unit {list(unit)} was shown as {list(shown)}", where=f"case '{cases[place].id}'")


def _first(judgments: JudgmentColumns, rows: Bools) -> tuple[int, Shape]:
    row = int(np.flatnonzero(rows)[0])
    return int(judgments.case[row]), judgments.shapes[judgments.shape[row]]


def _check_once(cases: Sequence[Case], judgments: JudgmentColumns) -> None:
    """Refuse two judgments of one unit, order and sample; sorted, they are neighbors."""
    same = np.ones(max(len(judgments) - 1, 0), dtype=bool)
    for column in (judgments.case, judgments.shape, judgments.sample):
        same &= column[1:] == column[:-1]
    if same.any():
        place, (unit, _) = _first(judgments, np.append(same, False))
        sample = int(judgments.sample[np.flatnonzero(same)[0]])
        raise ConfigError(
            f"responses {list(unit)} are judged twice in the same order as sample {sample}",
            where=f"case '{cases[place].id}'",
            remedy="keep one of the two judgments",
        )
