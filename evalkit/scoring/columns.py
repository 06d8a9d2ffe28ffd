"""Judgments and cases as columns, one pass over the objects, in an order that does not depend on theirs."""

from __future__ import annotations

import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.core.annotations import FIRST, choices_in, majority
from evalkit.errors import ConfigError
from evalkit.scoring.listwise import is_list, list_pairs, list_scores
from evalkit.types import Annotation, Case, Judgment, Unit, WeightedJudgment, Winner

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int8]
Bools: TypeAlias = NDArray[np.bool_]

A, TIE, B, NONE = 1, 0, -1, -2
"""Winners as numbers: the sign of a margin, and a number that is no sign for a missing one."""
NAMES: dict[int, Winner] = {A: "A", TIE: "TIE", B: "B"}
CODES = {name: code for code, name in NAMES.items()} | {None: NONE}

FUZZ = 1e-9
"""Margins closer than this are equal: weights such as 0.1 + 0.2 leave dust of 1e-16."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Every pair of responses of every case: `case`, `i` < `j` are indices, `label` people's choice as a code.

    `longer` says which has more characters, and is NONE where a text is not there.
    """

    case: Ints
    i: Ints
    j: Ints
    label: Codes
    longer: Codes
    start: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.case)

    def place(self, case: int, i: int, j: int) -> int:
        """Return the place of one pair (i, j) of a case."""
        n = int(self.sizes[case])
        return int(self.start[case]) + i * n - i * (i + 1) // 2 + (j - i - 1)

    def find(self, case: Ints, i: Ints, j: Ints) -> Ints:
        """Return the place of each pair (i, j) of a case."""
        n = self.sizes[case]
        return np.asarray(self.start[case] + i * n - i * (i + 1) // 2 + (j - i - 1))


def all_pairs(cases: Sequence[Case]) -> Pairs:
    """Lay out the pairs of all cases, in case order and then by response index."""
    sizes = np.array([len(case.responses) for case in cases], dtype=np.int64)
    counts = sizes * (sizes - 1) // 2
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)[: len(cases)]
    triangles = {int(n): np.triu_indices(int(n), 1) for n in np.unique(sizes)}
    i, j = (
        np.concatenate([np.zeros(0, np.int64), *(triangles[int(n)][axis] for n in sizes)]).astype(np.int64)
        for axis in (0, 1)
    )
    case = np.repeat(np.arange(len(cases)), counts)
    offsets = np.cumsum(sizes) - sizes
    first, second = offsets[case] + i, offsets[case] + j
    lengths = flat(cases, lambda c: [len(r.text) or np.nan for r in c.responses])
    graded = grades(cases)
    label = sign(graded[first] - graded[second])
    choice, further = _choices(cases)
    own = (i == 0) & (j == 1) & (choice[case] != NONE)
    label[own] = choice[case[own]]
    pairs = Pairs(case, i, j, label, sign(lengths[first] - lengths[second]), start, sizes)
    for number, said in further.items():
        _choose(pairs, number, said)
    return pairs


def _choose(pairs: Pairs, case: int, said: Sequence[Annotation]) -> None:
    """Label a case's further pairs with what most people chose of each, where no grade says which is better."""
    votes: dict[Unit, list[Winner]] = {}
    for annotation in said:
        for unit, winner in choices_in(annotation):
            votes.setdefault(unit, []).append(winner)
    for unit, winners in votes.items():
        most = majority(winners)
        if unit != FIRST and unit[1] < pairs.sizes[case] and most is not None:
            place = pairs.place(case, *unit)
            if pairs.label[place] == NONE:
                pairs.label[place] = CODES[most]


def _choices(cases: Sequence[Case]) -> tuple[Codes, dict[int, list[Annotation]]]:
    """Return each case's label of its first pair, and by its number what people said of cases' further pairs."""
    codes, further = [], {}
    for number, case in enumerate(cases):
        codes.append(CODES[case.label])
        if case.labels and any(isinstance(said, Mapping) for said in case.labels.values()):
            further[number] = list(case.labels.values())
    return np.array(codes, dtype=np.int8), further


def flat(cases: Sequence[Case], read: Callable[[Case], Sequence[float]]) -> Floats:
    """Return one number for each response of each case, in order."""
    return np.fromiter(chain.from_iterable(read(case) for case in cases), dtype=np.float64)


def grades(cases: Sequence[Case]) -> Floats:
    """Return people's grade of each response, NaN where nobody graded it."""
    return flat(cases, lambda c: [np.nan if r.grade is None else r.grade for r in c.responses])


def sign(values: Floats) -> Codes:
    """Return A, TIE or B for margins above, at and below 0, and NONE for NaN."""
    codes = np.where(np.abs(values) <= FUZZ, TIE, np.where(values > 0, A, B))
    return np.where(np.isnan(values), NONE, codes).astype(np.int8)


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


KINDS = ("unparseable", "refused", "failed", "budget", "ok", "repaired")
"""What became of an answer; `budget` is a call that was never made, because the cap was reached."""
READABLE = KINDS.index("ok")

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


def kind_of(judgment: Judgment) -> str:
    """Return why a judgment has no value, or its status where it has one."""
    never_made = judgment.status == "failed" and judgment.error_kind == "budget"
    return "budget" if never_made else judgment.status


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
