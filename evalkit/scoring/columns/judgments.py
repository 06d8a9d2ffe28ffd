"""Judgments as columns, one pass over the objects, in an order that does not depend on theirs."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from evalkit.errors import ConfigError
from evalkit.scoring.columns.codes import KINDS, READABLE, kind_of
from evalkit.scoring.columns.rankings import is_list, list_pairs, list_scores
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints
from evalkit.types import Case, Judgment, Unit, WeightedJudgment


@dataclass(frozen=True, slots=True)
class Columns:
    """Judgments as columns, sorted by case, unit, order shown and sample; NaN where a judgment has no such number.

    `criteria` has a column for each of `names`; `swapped` says that the unit's second response was shown first.
    """

    case: Ints
    i: Ints
    j: Ints
    swapped: Bools
    value: Floats
    confidence: Floats
    criteria: Floats
    names: tuple[str, ...]
    judge: str

    def __len__(self) -> int:
        return len(self.case)


def join_columns(several: Sequence[Columns], judge: str) -> Columns:
    """Return the judgments of several judges as those of one, `judge`, in their order."""
    names = several[0].names

    def joined(name: str) -> Any:
        return np.concatenate([getattr(one, name) for one in several])

    parts = {name: joined(name) for name in ("case", "i", "j", "swapped", "value", "confidence", "criteria")}
    return Columns(**parts, names=names, judge=judge)


Shape: TypeAlias = tuple[Unit, Unit]


@dataclass(frozen=True, slots=True)
class Expectations:
    """What answers say when weighted by their probabilities; NaN in all of these where one has none."""

    value: Floats
    criteria: Floats
    mass: Floats
    open: Floats

    @property
    def there(self) -> Bools:
        """Which answers have probabilities."""
        return np.asarray(~np.isnan(self.mass))

    def where(self, rows: Bools) -> Expectations:
        """Return some of them."""
        return Expectations(self.value[rows], self.criteria[rows], self.mass[rows], self.open[rows])


@dataclass(frozen=True, slots=True)
class Answers:
    """Judgments as columns; NaN where a judgment has no such number.

    `case` is the place of its case. `shape` is the place in `shapes` of its unit and order shown, `judge` that in
    `judges` of who it is by, `arbiter` of who gave it if it is a third judgment, else -1; `kind` is a place in `KINDS`.
    `criteria` has a column for each of `names`. Answers that are rankings are `listed`; the judgments of pairs and of
    single responses that they imply are in `pairs` and `singles`. Judgments that rest on one completion have one number
    in `answer`; `cost` (US$) and `latency` (seconds) are that completion's.
    """

    case: Ints
    shape: Ints
    sample: Ints
    judge: Ints
    arbiter: Ints
    kind: Codes
    listed: Bools
    value: Floats
    confidence: Floats
    criteria: Floats
    answer: Ints
    cost: Floats
    latency: Floats
    shapes: tuple[Shape, ...]
    judges: tuple[str, ...]
    names: tuple[str, ...]
    expected: Expectations | None = None
    pairs: Answers | None = None
    singles: Answers | None = None

    def __len__(self) -> int:
        return len(self.case)

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the judges that these are by, sorted."""
        return tuple(sorted(self.judges[place] for place in np.unique(self.judge)))

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that these are of, each once."""
        return tuple({self.shapes[place][0] for place in np.unique(self.shape)})

    @property
    def readable(self) -> Bools:
        """Which of them could be read."""
        return np.asarray(self.kind >= READABLE)

    @property
    def giver(self) -> Ints:
        """Who gave each, as a place in `judges`."""
        return np.where(self.arbiter < 0, self.judge, self.arbiter)

    @property
    def of_pairs(self) -> Answers:
        """Those of pairs, rankings taken apart into what they say of each pair."""
        return self if self.pairs is None else _joined(self.where(~self.listed), self.pairs)

    def where(self, rows: Bools) -> Answers:
        """Return some of them, without what others imply."""
        kept: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        expected = None if self.expected is None else self.expected.where(rows)
        return replace(self, **kept, expected=expected, pairs=None, singles=None)

    def select(self, judge: str | None = None, *, third: bool | None = None) -> Answers:
        """Return those by one judge, or that are third judgments or not, with what they imply."""
        rows = np.ones(len(self), dtype=bool)
        if judge is not None:
            rows &= self.judge == (self.judges.index(judge) if judge in self.judges else -1)
        if third is not None:
            rows &= (self.arbiter >= 0) == third
        if rows.all():
            return self
        pairs, singles = (None if one is None else one.select(judge, third=third) for one in (self.pairs, self.singles))
        return replace(self.where(rows), pairs=pairs, singles=singles)


_COLUMNS = (
    *("case", "shape", "sample", "judge", "arbiter", "kind", "listed", "value", "confidence", "criteria"),
    *("answer", "cost", "latency"),
)


def _joined(one: Answers, two: Answers) -> Answers:
    """Return answers and what rankings beside them imply, as one; both are of one reading."""
    joined: dict[str, Any] = {n: np.concatenate([getattr(one, n), getattr(two, n)]) for n in _COLUMNS}
    return replace(two, **joined, expected=None)


def read_answers(cases: Sequence[Case], judgments: Iterable[Judgment], names: Sequence[str]) -> Answers:
    """Read judgments, each once and one at a time; `names` are the criteria wanted.

    Raises:
        ConfigError: if a judgment is of no known case, or a ranking is not of its own responses.
    """
    words = _Words({case.id: place for place, case in enumerate(cases)})
    every, pairs, singles = (_Rows(words, names) for _ in range(3))
    counts: Counter[tuple[str, str]] = Counter()
    for judgment in judgments:
        listed = is_list(judgment)
        every.add(judgment, listed=listed)
        if not listed:
            continue
        for pair in list_pairs(judgment):
            pairs.add(pair)
        # Both orders of a list score the same responses: numbered through, they are samples of one score.
        place = (judgment.judge, judgment.case_id)
        for single in list_scores(judgment, counts[place]):
            singles.add(single)
        counts[place] += 1
    answers = every.answers()
    return replace(answers, pairs=pairs.answers(), singles=singles.answers()) if counts else answers


class _Words:
    """What texts and units stand for in columns: cases by id, and the rest by when it was first seen."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places = places
        self.shapes: dict[Shape, int] = {}
        self.judges: dict[str, int] = {}

    def case(self, id_: str) -> int:
        place = self.places.get(id_)
        if place is None:
            raise ConfigError("judged, but not among the cases", where=f"case '{id_}'")
        return place


class _Rows:
    """Columns in the making: plain arrays, since a list would hold an object for every number."""

    def __init__(self, words: _Words, names: Sequence[str]) -> None:
        self._words, self._names = words, tuple(names)
        self._whole = {
            name: array("q") for name in ("case", "shape", "sample", "judge", "arbiter", "answer", "weighted")
        }
        self._small = {name: array("b") for name in ("kind", "listed")}
        self._numbers = {name: array("d") for name in ("value", "confidence", "criteria", "cost", "latency")}
        self._expected = {name: array("d") for name in ("value", "criteria", "mass", "open")}

    def add(self, judgment: Judgment, *, listed: bool = False) -> None:
        words, whole, small, numbers = self._words, self._whole, self._small, self._numbers
        judges, arbiter = words.judges, judgment.arbiter
        if judgment.weighted is not None and not listed:
            self._weigh(len(whole["case"]), judgment.weighted)
        whole["case"].append(words.case(judgment.case_id))
        whole["shape"].append(words.shapes.setdefault((judgment.unit, judgment.shown), len(words.shapes)))
        whole["sample"].append(judgment.sample)
        whole["judge"].append(judges.setdefault(judgment.judge, len(judges)))
        whole["arbiter"].append(-1 if arbiter is None else judges.setdefault(arbiter, len(judges)))
        whole["answer"].append(hash(judgment.keys[-1]) if judgment.keys else -1 - len(whole["answer"]))
        small["kind"].append(KINDS.index(kind_of(judgment)))
        small["listed"].append(listed)
        numbers["value"].append(_number(judgment.value))
        numbers["confidence"].append(_number(judgment.confidence))
        numbers["criteria"].extend(_number(judgment.criteria.get(name)) for name in self._names)
        completion = judgment.completion
        numbers["cost"].append(_number(completion.cost_usd if completion else None))
        numbers["latency"].append(_number(completion.latency if completion else None))

    def _weigh(self, row: int, weighted: WeightedJudgment) -> None:
        expected = self._expected
        self._whole["weighted"].append(row)
        expected["value"].append(_number(weighted.value))
        expected["criteria"].extend(_number(weighted.criteria.get(name)) for name in self._names)
        expected["mass"].append(weighted.mass)
        expected["open"].append(weighted.open)

    def answers(self) -> Answers:
        whole: dict[str, Any] = {name: np.array(column, dtype=np.int64) for name, column in self._whole.items()}
        rows, count, width = whole.pop("weighted"), len(self._whole["case"]), len(self._names)
        numbers = {name: np.array(column) for name, column in self._numbers.items()}
        return Answers(
            **whole,
            kind=np.array(self._small["kind"], dtype=np.int8),
            listed=np.array(self._small["listed"], dtype=bool),
            value=numbers["value"],
            confidence=numbers["confidence"],
            criteria=numbers["criteria"].reshape(count, width),
            shapes=tuple(self._words.shapes),
            judges=tuple(self._words.judges),
            cost=numbers["cost"],
            latency=numbers["latency"],
            names=self._names,
            expected=self._spread(rows, count, width) if len(rows) else None,
        )

    def _spread(self, rows: Ints, count: int, width: int) -> Expectations:
        found = Expectations(*(np.full(shape, np.nan) for shape in (count, (count, width), count, count)))
        for name, column in self._expected.items():
            values = np.array(column)
            getattr(found, name)[rows] = values.reshape(-1, width) if name == "criteria" else values
        return found


def _number(value: float | None) -> float:
    return np.nan if value is None else value


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
