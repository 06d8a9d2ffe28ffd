"""Judgments as columns, read in one pass and sorted independently of the input order.

Rankings are decomposed into pairs and scores; classes are codes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.core.deduplication import SharedJudgments, shared_of
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Classes
from evalkit.core.types import Case, Judgment, Unit
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.rankings import implied, is_list
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints
from evalkit.scoring.stats.statistic import Tally

KINDS = ("unparseable", "refused", "failed", "budget", "ok", "repaired")
"""Kinds of answers; `budget` is a call that was not made because the budget was used up."""
READABLE = KINDS.index("ok")
"""The first kind that is readable."""
_KIND_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}


STATED, RANKING, IMPLIED = range(3)
"""Origins of a row of judgments: a judgment of a pair or response, a ranking, or an implication of
a ranking."""


def answer_kind(judgment: Judgment) -> str:
    """Return the reason why a judgment has no value, or its status if it has one."""
    cut_off = judgment.status == "failed" and judgment.error_kind == "budget"
    if cut_off:
        return "budget"
    return judgment.status


MISSING: Final = -1
"""The code of a missing answer, label or annotation."""
ABSTAINED: Final = -2
"""The code of an answer that declines to choose a class (`rubric.abstain`)."""
SPLIT: Final = -3
"""The code of a vote of samples or judges that no class won: there are answers, and they contradict
each other."""


NO_CLASSES = "set rubric.classes to the classes of the run"
Shape: TypeAlias = tuple[Unit, Unit]
"""The judged responses, ascending, and the order in which they were shown."""
Places: TypeAlias = NDArray[np.int32]


@frozen
class JudgmentColumns:
    """Judgments as rows, sorted by case, unit, order shown, sample and judge; NaN for a
    missing number.

    A ranking (`RANKING` in `origin`) is followed by rows for the pairs and responses that it
    implies (`IMPLIED`). Every other judgment is `STATED`.

    Attributes:
        case: (n,) the index of the judgment's case.
        shape: (n,) the index in `shapes` of its unit and order shown.
        sample: (n,) its sample, from 0; implied scores of responses are numbered across orders.
        judge: (n,) the index in `judges` of the judge it counts for.
        arbiter: (n,) the index in `judges` of the author of a third judgment, otherwise -1.
        kind: (n,) the kind of answer, an index into `KINDS`.
        origin: (n,) STATED, RANKING or IMPLIED.
        value: (n,) the overall value: a margin in [-1, 1] for a pair, scale units for a response.
        confidence: (n,) the stated probability, in [0, 1].
        criteria: (n, names) the value by criterion, in the units of `value`.
        answer: (n,) a number that identifies the completion; judgments from one completion share
            it.
        cost: (n,) the cost of the completion in dollars.
        latency: (n,) the latency of the completion in seconds; NaN if unknown, as for answers of a
            batch.
        seen: (n,) the share of the prompt that the judge saw where the server cut it, else NaN.
        shapes: units and orders shown, in the order of the rows.
        judges: names of judges and arbiters, sorted.
        names: names of the criteria.
        cases: the number of cases of the run.
        expected: (n, 1 + names) value and criteria as expectations over the answer's probabilities;
            `None` if no judgment has probabilities.
        mass: (n,) the total probability of the values of the scale; `None` as above.
        open: (n,) the probability that was not returned; `None` as above.
        choice: (n,) the class, an index into the rubric's classes, or MISSING or ABSTAINED; `None`
            without classes.
        chances: (n, classes) the probability of each class among the classes, NaN if unknown;
            `None` without classes.
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
    seen: Floats
    shapes: tuple[Shape, ...]
    judges: tuple[str, ...]
    names: tuple[str, ...]
    cases: int
    expected: Floats | None = None
    mass: Floats | None = None
    open: Floats | None = None
    choice: Ints | None = None
    chances: Floats | None = None

    def __len__(self) -> int:
        return len(self.case)

    @property
    def tally(self) -> Tally:
        """Sums over the judgments of each case."""
        return Tally(self.case, self.cases)

    @property
    def i(self) -> Ints:
        """The lowest response index of each unit, (n,)."""
        return self._by_shape(lambda unit, _: unit[0] if unit else -1)

    @property
    def j(self) -> Ints:
        """The highest response index of each unit, (n,): the second response of a pair."""
        return self._by_shape(lambda unit, _: unit[-1] if unit else -1)

    @property
    def swapped(self) -> Ints:
        """1 if the responses were not shown in the unit's own order, else 0, (n,)."""
        return self._by_shape(lambda unit, order: int(order != unit))

    def _by_shape(self, read: Callable[[Unit, Unit], int]) -> Ints:
        """Return a number for each row from its unit and order shown."""
        # One number for each shape, then looked up for each row: shapes are few.
        return np.array([read(*shape) for shape in self.shapes], dtype=np.int64)[
            self.shape
        ]

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the judges of these judgments, sorted."""
        return tuple(self.judges[judge] for judge in np.unique(self.judge))

    @property
    def units(self) -> tuple[Unit, ...]:
        """The distinct units that were judged, without those implied by rankings."""
        return tuple(
            {
                # Indices of shapes that rows use; [0] is the unit without its order.
                self.shapes[shape][0]
                for shape in np.unique(self.shape[self.origin != IMPLIED])
            }
        )

    @property
    def readable(self) -> Bools:
        """Which judgments were readable, (n,)."""
        return np.asarray(self.kind >= READABLE)

    @property
    def giver(self) -> Places:
        """The author of each judgment, an index into `judges`, (n,)."""
        # Without an arbiter, the judge gave the judgment itself.
        return np.where(self.arbiter < 0, self.judge, self.arbiter).astype(np.int32)

    @property
    def weighted(self) -> Bools:
        """Which judgments have probabilities, and so an expectation, (n,)."""
        if self.mass is None:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(~np.isnan(self.mass))

    @property
    def asked(self) -> JudgmentColumns:
        """The requested judgments, without those implied by rankings."""
        return self.where(self.origin != IMPLIED)

    def where(self, rows: Bools) -> JudgmentColumns:
        """Return the selected rows in order."""
        # Columns are never changed, so all rows are the same object.
        if rows.all():
            return self
        count = int(np.count_nonzero(rows))
        kept: JsonObject = {}
        for name in _ARRAYS:
            column = getattr(self, name)
            kept[name] = None if column is None else _taken(column, rows, count)
        return replace(self, **kept)

    def select(
        self, judge: str | None = None, *, third: bool | None = None
    ) -> JudgmentColumns:
        """Return the judgments of one judge, or those that are third judgments or not."""
        rows = np.ones(len(self), dtype=bool)
        if judge is not None:
            rows &= self.judge == (
                # -1 matches no row: this judge made no judgments.
                self.judges.index(judge) if judge in self.judges else -1
            )
        if third is not None:
            rows &= (self.arbiter >= 0) == third
        return self.where(rows)

    def of_units(self, size: int) -> JudgmentColumns:
        """Return the judgments of units of `size` responses, stated or implied by a ranking."""
        # (shapes,) the number of responses of each.
        sizes = np.array([len(unit) for unit, _ in self.shapes], dtype=np.int64)
        # A ranking is a judgment of its whole list, so it is not one of a unit.
        return self.where((self.origin != RANKING) & (sizes[self.shape] == size))


def _without_copies(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column; one that is missing in all rows takes the memory of one number.

    No price, time or probability is known of the verdicts of most tables.
    """
    is_number = np.issubdtype(column.dtype, np.floating)
    if is_number and column.size and np.isnan(column).all():
        return np.broadcast_to(np.array(np.nan), column.shape)
    return column


def _taken(column: NDArray[Any], rows: Bools | Ints, count: int) -> NDArray[Any]:
    """Return the `count` selected rows of a column, without copies of a single number."""
    if column.size and not any(column.strides):
        return np.broadcast_to(np.array(np.nan), (count, *column.shape[1:]))
    return np.asarray(column[rows])


_ARRAYS = tuple(
    field.name
    for field in fields(JudgmentColumns)
    if field.name not in ("shapes", "judges", "names", "cases")
)  # one row for each judgment


def read_judgments(
    cases: Sequence[Case],
    judgments: Iterable[Judgment],
    names: Sequence[str],
    classes: Classes | None = None,
) -> JudgmentColumns:
    """Return judgments as columns.

    Args:
        cases: the cases.
        judgments: the judgments, each read once.
        names: the names of the criteria to keep.
        classes: the classes of the rubric; `None` if it is a scale.

    Raises:
        ConfigError: if a judgment is of an unknown case or class, or a ranking is not of its own
            responses.
    """
    rows = _ColumnBuilder(cases, names, classes)
    shared = shared_of(judgments)
    # A ranking becomes several rows, each of its own case.
    if shared is not None and not any(map(is_list, shared.statements)):
        rows.add_shared(shared)
        return rows.columns()
    # By judge and case: how many rankings were read, to number implied scores.
    counts: Counter[tuple[str, str]] = Counter()
    for judgment in judgments:
        if not is_list(judgment):
            rows.add(judgment, STATED)
            continue
        rows.add(judgment, RANKING)
        # Pairs keep the sample of their ranking: both orders are compared by sample.
        for pair in implied(judgment, 2, judgment.sample):
            rows.add(pair, IMPLIED)
        # Both orders of a list score the same responses, so they are samples of one score.
        key = (judgment.judge, judgment.case_id)
        for single in implied(judgment, 1, counts[key]):
            rows.add(single, IMPLIED)
        counts[key] += 1
    return rows.columns()


_TYPES: Final = {
    # Type codes of `array`: i 32 bits, b 8 bits, d a double, q 64 bits.
    **dict.fromkeys(("shape", "sample", "judge", "arbiter"), "i"),
    **dict.fromkeys(("kind", "origin"), "b"),
    **dict.fromkeys(("value", "confidence", "cost", "latency", "seen"), "d"),
}
"""The columns with one number for each judgment."""
_WIDE: Final = {
    **dict.fromkeys(("criteria", "expected", "mass", "open", "chances"), "d"),
    "weighted": "q",
    "choice": "q",
}
"""Columns with several numbers for each judgment, or for some; `weighted` are the rows that have
expectations."""


class _ColumnBuilder:
    """Builds columns in plain arrays, which take less memory than lists of objects."""

    def __init__(
        self, cases: Sequence[Case], names: Sequence[str], classes: Classes | None
    ) -> None:
        """Start with empty columns for these cases and criteria."""
        self._cases = {case.id: position for position, case in enumerate(cases)}
        self._names = tuple(names)
        self._classes = classes
        # {name of a class: its code}, with the codes of an abstention and of a missing answer.
        self._class_codes: dict[str | None, int] = {}
        if classes is not None:
            self._class_codes |= {classes.abstain: ABSTAINED, None: MISSING}
            self._class_codes |= {name: code for code, name in enumerate(classes.names)}
        self._shapes = dict[Shape, int]()
        self._judges = dict[str, int]()
        self._rows: dict[str, array[Any]] = {
            name: array(kind) for name, kind in (_TYPES | _WIDE).items()
        }
        # {content of a judgment: the row that holds it}.
        self._known = dict[tuple[Any, ...], int]()
        # These three have an entry for each judgment, the others one for each distinct content.
        self._case = array("q")
        self._answer = array("q")
        # The row of each judgment among the stored rows.
        self._source = array("q")

    def add_shared(self, judgments: SharedJudgments) -> None:
        """Add judgments whose statements become one row each, as the first rows."""
        for statement in judgments.statements:
            self._add_row(statement, STATED)
        self._source.extend(judgments.indices)
        self._case.extend(map(self._index_of, judgments.case_ids))
        stated = map(judgments.statements.__getitem__, judgments.indices)
        self._answer.extend(map(_answer_number, stated, count()))

    def add(self, judgment: Judgment, origin: int) -> None:
        """Add a judgment as a row; one that says the same of another case is stored once."""
        case = self._index_of(judgment.case_id)
        key = _repeatable_content(judgment) if origin == STATED else None
        source = None if key is None else self._known.get(key)
        if source is None:
            source = len(self._rows["sample"])
            self._add_row(judgment, origin)
            if key is not None and len(self._known) < _MOST_KNOWN:
                self._known[key] = source
        self._answer.append(_answer_number(judgment, len(self._case)))
        self._case.append(case)
        self._source.append(source)

    def _index_of(self, case_id: str) -> int:
        """Return the index of a case.

        Raises:
            ConfigError: if it is not in the dataset.
        """
        case = self._cases.get(case_id)
        if case is None:
            raise ConfigError(
                "this case was judged but is not in the dataset",
                where=f"case '{case_id}'",
            )
        return case

    def _add_row(self, judgment: Judgment, origin: int) -> None:
        """Append the content of a judgment to all columns.

        Args:
            judgment: the judgment.
            origin: the code of where its value came from.

        Raises:
            ConfigError: if it has a class and the rubric has none, or the reverse.
        """
        rows = self._rows
        judges = self._judges
        arbiter = judgment.arbiter
        if (weighted := judgment.weighted) is not None and origin != RANKING:
            # The rows with expectations; the arrays below have entries for these rows only.
            rows["weighted"].append(len(rows["sample"]))
            # 1 + names values for each row: the overall value first.
            rows["expected"].append(_number(weighted.value))
            rows["expected"].extend(
                [weighted.criteria.get(name, np.nan) for name in self._names]
            )
            rows["mass"].append(weighted.mass)
            rows["open"].append(weighted.open)
        if self._classes is not None:
            self._add_class(judgment, self._classes)
        elif judgment.class_name is not None:
            where = f"case '{judgment.case_id}'"
            raise ConfigError(
                "it was judged by class, and the rubric is a scale",
                where=where,
                remedy=NO_CLASSES,
            )
        rows["criteria"].extend(
            [judgment.criteria.get(name, np.nan) for name in self._names]
        )
        completion = judgment.completion
        rows["shape"].append(
            # A number for each new shape, in order of first occurrence; renumbered at the end.
            self._shapes.setdefault((judgment.unit, judgment.shown), len(self._shapes))
        )
        rows["sample"].append(judgment.sample)
        rows["judge"].append(judges.setdefault(judgment.judge, len(judges)))
        rows["arbiter"].append(
            # -1: no arbiter.
            -1 if arbiter is None else judges.setdefault(arbiter, len(judges))
        )
        rows["kind"].append(_KIND_CODES[answer_kind(judgment)])
        rows["origin"].append(origin)
        rows["value"].append(_number(judgment.value))
        rows["confidence"].append(_number(judgment.confidence))
        rows["cost"].append(_number(completion.cost_usd if completion else None))
        rows["latency"].append(
            # A latency of 0 is unknown, as for answers of a batch.
            _number(completion.latency or None if completion else None)
        )
        rows["seen"].append(_number(judgment.seen))

    def _add_class(self, judgment: Judgment, classes: Classes) -> None:
        """Append the class of a judgment and the probabilities of all classes.

        Raises:
            ConfigError: if the class is not one of the rubric, or missing in a readable judgment.
        """
        name = judgment.class_name
        where = f"case '{judgment.case_id}'"
        if name not in self._class_codes:
            problem = f"it was judged '{name}', which is not among {', '.join(classes.answers)}"
            raise ConfigError(problem, where=where, remedy="add the class")
        if judgment.readable and name is None:
            remedy = "set the rubric of the run, for example rubric=likert5"
            raise ConfigError(
                "it was not judged by class, and the rubric has classes",
                where=where,
                remedy=remedy,
            )
        self._rows["choice"].append(self._class_codes[name])
        # Probabilities of classes, normalized over the classes of the rubric.
        stated = judgment.weighted.classes if judgment.weighted is not None else {}
        total = sum(stated.get(class_name, 0.0) for class_name in classes.names)
        # classes values for each row; NaN if there are no probabilities.
        self._rows["chances"].extend(
            stated.get(class_name, 0.0) / total if total else np.nan
            for class_name in classes.names
        )

    def columns(self) -> JudgmentColumns:
        """Return the sorted columns, and free the arrays they are made from."""
        # Sorted, so that the columns do not depend on the order of the input.
        shapes = sorted(self._shapes, key=_shape_order)
        judges = sorted(self._judges)
        count = len(self._rows["sample"])
        names = [*_TYPES, "criteria"]
        classes = self._classes
        names += (
            ["weighted", "expected", "mass", "open"] if self._rows["weighted"] else []
        )
        names += ["choice", "chances"] if classes is not None else []
        # `pop` frees each plain array as soon as it is converted.
        columns: JsonObject = {name: np.array(self._rows.pop(name)) for name in names}
        # The flat array becomes (n, names).
        columns["criteria"] = columns["criteria"].reshape(count, len(self._names))
        columns["shape"] = _renumbered(columns["shape"], self._shapes, shapes)
        columns["judge"], columns["arbiter"] = (
            _renumbered(columns[name], self._judges, judges)
            for name in ("judge", "arbiter")
        )
        # From rows with expectations to all rows, NaN for the rest.
        if (weighted := columns.pop("weighted", None)) is not None:
            columns["expected"] = columns["expected"].reshape(-1, 1 + len(self._names))
            for name in ("expected", "mass", "open"):
                values = columns[name]
                columns[name] = np.full((count, *values.shape[1:]), np.nan)
                columns[name][weighted] = values
        if classes is not None:
            columns["chances"] = columns["chances"].reshape(-1, len(classes))
        # Fewer stored rows than judgments: each judgment takes the row of its content.
        if count < len(self._source):
            source = np.array(self._source)
            columns = {
                name: _taken(_without_copies(values), source, len(source))
                for name, values in columns.items()
            }
        columns["case"] = np.array(self._case)
        columns["answer"] = np.array(self._answer)
        # The last key sorts first: by case, then shape, sample, judge, arbiter.
        order = np.lexsort(
            [columns[name] for name in ("arbiter", "judge", "sample", "shape", "case")]
        )
        columns = {name: _without_copies(values) for name, values in columns.items()}
        # Judgments that were read in this order need no copy.
        if (np.diff(order) < 0).any():
            for name in columns:
                columns[name] = _taken(columns[name], order, len(order))
        return JudgmentColumns(
            **columns,
            shapes=tuple(shapes),
            judges=tuple(judges),
            names=self._names,
            cases=len(self._cases),
        )


_MOST_KNOWN: Final = 10_000
"""The most judgments that are looked up: of verdicts and short scales there are few that differ."""


def _repeatable_content(judgment: Judgment) -> tuple[Any, ...] | None:
    """Return what a judgment without a completion says, whatever its case; `None` if it
    says more.
    """
    # What identifies or weighs a single answer makes it unlike all others.
    if (
        judgment.completion is not None
        or judgment.weighted is not None
        or judgment.arbiter is not None
        or judgment.seen is not None
    ):
        return None
    return (
        judgment.judge,
        judgment.class_name,
        judgment.value,
        judgment.status,
        judgment.error_kind,
        judgment.confidence,
        judgment.sample,
        judgment.unit,
        judgment.shown,
        *judgment.criteria.items(),
    )


def _answer_number(judgment: Judgment, number: int) -> int:
    """Return what identifies the completion of a judgment, whose number in its run is given."""
    # Without keys, each judgment has a number of its own, below 0.
    if not judgment.keys:
        return -1 - number
    # The last key identifies the completion.
    return hash(judgment.keys[-1])


def _shape_order(shape: Shape) -> tuple[int, int, bool, Unit, Unit]:
    # Units by their first and last response; the unit's own order before the swapped one.
    unit, order = shape
    if unit:
        return (unit[0], unit[-1], order != unit, unit, order)
    return (-1, -1, False, unit, order)


def _renumbered(
    indices: Places, original: Iterable[Any], ordered: Sequence[Any]
) -> Places:
    """Return indices into `original` as indices into `ordered`, which holds the same
    items; -1 stays -1.
    """
    new = {entry: index for index, entry in enumerate(ordered)}
    # The last entry maps -1 to itself.
    table = np.array([*(new[entry] for entry in original), -1], dtype=np.int32)
    return table[indices]


def _number(value: float | None) -> float:
    if value is None:
        return np.nan
    return value


UNKNOWN_UNIT: Final = (
    "responses {unit} were judged, but the case has {n} responses, in units of {size}"
)
TWICE: Final = (
    "responses {unit} have two judgments in the same order and sample {sample}"
)


def of_one_judge(
    cases: Sequence[Case], judgments: JudgmentColumns, sizes: Ints, size: int
) -> JudgmentColumns:
    """Return one judge's judgments of units of `size` responses.

    Args:
        cases: the cases.
        judgments: the judgments.
        sizes: (cases,) the number of responses of each case.
        size: the number of responses of a unit.

    Raises:
        ConfigError: if a unit or order is unknown, a judgment is duplicated, or several judges made
            the judgments.
    """
    # Rankings count with the pairs or responses that they imply.
    selected = judgments.of_units(size)
    is_unit = [
        # By shape: a unit of distinct responses with valid indices.
        len(set(unit)) == size and 0 <= unit[0] <= unit[-1]
        for unit, _ in selected.shapes
    ]
    # By shape: the responses shown are those of the unit.
    is_order = [tuple(sorted(order)) == unit for unit, order in selected.shapes]
    # shape (judgments,)
    is_known, ordered = (
        np.array(valid, dtype=bool)[selected.shape] for valid in (is_unit, is_order)
    )
    twice = np.zeros(
        len(selected), dtype=bool
    )  # equal judgments are neighbors in sorted columns
    # Row k equals row k + 1 in all columns of the key.
    twice[:-1] = np.all(
        [
            column[1:] == column[:-1]
            for column in (selected.case, selected.shape, selected.sample)
        ],
        axis=0,
    )
    for rows, problem, remedy in (
        # `j` is the highest index of the unit.
        (~is_known | (selected.j >= sizes[selected.case]), UNKNOWN_UNIT, ""),
        (~ordered, "unit {unit} was shown as {shown}", ""),
        (twice, TWICE, "keep one of the two judgments"),
    ):
        if rows.any():
            # The first wrong row is named.
            row = int(np.flatnonzero(rows)[0])
            case = int(selected.case[row])
            unit, order = selected.shapes[selected.shape[row]]
            facts = {
                "n": int(sizes[case]),
                "size": size,
                "sample": int(selected.sample[row]),
            }
            text = problem.format(unit=list(unit), shown=list(order), **facts)
            raise ConfigError(text, where=f"case '{cases[case].id}'", remedy=remedy)
    if len(selected.by) > 1:
        raise ConfigError(
            f"expected the judgments of one judge, found several: {', '.join(selected.by)}"
        )
    return selected
