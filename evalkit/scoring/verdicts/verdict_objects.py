"""Verdict objects made from columns; each is created when it is accessed."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from evalkit.core.deduplication import MaybeShared, Shared
from evalkit.core.types import Case, ItemVerdict, Orders, Verdict
from evalkit.scoring.columns import (
    ABSTENTION,
    JUDGED,
    MISSING,
    NAMES,
    REASONS,
    SPLIT,
    ClassColumns,
    ScoreColumns,
    VerdictColumns,
)
from evalkit.scoring.judgments import ABSTAINED
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, Ints, round_metric
from evalkit.scoring.verdicts.cascade import Cascade
from evalkit.scoring.verdicts.pairs import by_criterion

T = TypeVar("T")
Read: TypeAlias = Callable[[Ints], list[Any]]
"""Returns a field of the units with these indices."""
Fields: TypeAlias = Mapping[str, Read]
"""The fields of `Verdict` that units of one size have."""
Column: TypeAlias = Ints | Codes | Floats
_LEAST_SHARED: Final = 4
"""Verdicts are shared if so many say the same on average."""
_BLOCK: Final = 1024
"""So many verdicts are read from the columns at once: element by element, NumPy takes most of the
time."""


class Verdicts(MaybeShared[Verdict]):
    """One Verdict for each unit, case by case: first each response's, then each pair's.

    Attributes:
        each: the verdicts of each judge of a panel, by the judge's name.
    """

    def __init__(
        self,
        judge: str,
        tables: Sequence[tuple[Ints, Fields]],
        each: Mapping[str, Verdicts] | None = None,
        contents: Sequence[Column] = (),
    ) -> None:
        """Initialize with the case (units,) and the fields of the units of each size.

        Args:
            judge: the name of the judge or the panel.
            tables: the units of each size.
            each: the verdicts of each judge of a panel.
            contents: (units,) each: all that the fields but the case depend on, if there is one
                table and this is known.
        """
        self.each: Mapping[str, Verdicts] = each or {}
        self._judge = judge
        self._tables = tables
        self._contents = contents
        # A stable sort keeps the tables' order within a case.
        cases_of_tables = [case for case, _ in tables]
        every_case = np.concatenate(cases_of_tables)
        self._order = np.argsort(every_case, kind="stable")

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Verdict]:
        for start in range(0, len(self), _BLOCK):
            block = slice(start, start + _BLOCK)
            yield from self._read_units(block, self._verdicts)

    def shared(self) -> Shared[Verdict] | None:
        """Return the verdicts by what they say; `None` if hardly any two say the same."""
        return self._shared

    @cached_property
    def _shared(self) -> Shared[Verdict] | None:
        if not self._contents:
            return None
        ordered = [column[self._order] for column in self._contents]
        said = number_alike(ordered)
        # (statements,) the first verdict with each number.
        _, first = np.unique(said, return_index=True)
        if len(first) * _LEAST_SHARED > len(said):
            return None
        statements = [self._make(index) for index in first.tolist()]
        return Shared(statements, array("q", said.tolist()), self.values("case_id"))

    def values(self, name: str) -> list[Any]:
        """Return a field of each verdict, without making the verdicts.

        It is `None` where the units do not have the field.
        """
        if name == "judge":
            return [self._judge] * len(self)

        def field(fields: Fields, units: Ints) -> list[Any]:
            read = fields.get(name, _missing)
            return list(read(units))

        return self._read_units(slice(None), field)

    def _make(self, index: int) -> Verdict:
        [verdict] = self._read_units(slice(index, index + 1), self._verdicts)
        return verdict

    def _verdicts(self, fields: Fields, units: Ints) -> list[Verdict]:
        # Values by position: names would double the time.
        columns = [
            self._column(field, fields, units) for field in dataclasses.fields(Verdict)
        ]
        return [*map(Verdict, *columns)]

    def _column(
        self, field: dataclasses.Field[Any], fields: Fields, units: Ints
    ) -> Iterable[Any]:
        """Return the value of a field for each unit; the field's default where units do
        not have it.
        """
        if field.name == "judge":
            return repeat(self._judge, len(units))
        if field.name in fields:
            return fields[field.name](units)
        if field.default_factory is not dataclasses.MISSING:
            return [field.default_factory() for _ in units]
        return repeat(field.default, len(units))

    def _read_units(
        self, part: slice, read: Callable[[Fields, Ints], list[T]]
    ) -> list[T]:
        """Return what is read of the units in a part of the order."""
        # index into the units of all tables; those of the first table come first
        rows = self._order[part]
        (case, first), *later_tables = self._tables
        if not later_tables:
            return read(first, rows)
        # There are two tables at most: one of responses, and one of pairs.
        [(_, second)] = later_tables
        size_of_first = len(case)
        is_first = rows < size_of_first
        rows_of_first = rows[is_first]
        rows_of_second = rows[~is_first] - size_of_first
        from_first = iter(read(first, rows_of_first))
        from_second = iter(read(second, rows_of_second))
        # The parts were read table by table; this restores the order of cases.
        return [
            next(from_first if in_first else from_second)
            for in_first in is_first.tolist()
        ]


def field_values(verdicts: Sequence[Verdict], *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the named fields of each verdict; `Verdicts` are read without making the verdicts."""
    if isinstance(verdicts, Verdicts):
        return zip(*map(verdicts.values, names), strict=True)
    return (tuple(getattr(verdict, name) for name in names) for verdict in verdicts)


def verdict_objects(
    cases: Sequence[Case],
    rule: str,
    items: Sequence[tuple[ItemVerdict, ...]],
    verdicts: VerdictColumns,
    judge_verdicts: Mapping[str, VerdictColumns],
    cascade: Cascade | None = None,
) -> Verdicts:
    """Return a Verdict for each pair, preceded by one for each response if responses have scores.

    They come case by case, are created when accessed, and do not hold the judgments.

    Args:
        cases: the cases.
        rule: how a judge's samples of values by criterion are combined; for panels and
            rankings they are averaged.
        items: the checklist items of each response.
        verdicts: their verdicts.
        judge_verdicts: the verdicts of each judge of a panel, by the judge's name.
        cascade: what decides each pair, if the judges are a cascade.
    """
    ids = [case.id for case in cases]
    pair_fields = _pair_fields(ids, rule, verdicts, judge_verdicts)
    pair_fields |= _deciders(cascade)
    tables: list[tuple[Ints, Fields]] = [(verdicts.pairs.case, pair_fields)]
    contents: list[Column] = []
    if verdicts.scores is not None:
        responses = verdicts.scores
        score_fields, score_contents = _score_fields(
            ids, rule, responses, verdicts, judge_verdicts
        )
        if items:
            score_fields["items"] = _items(items)
        # Without pairs and items, a verdict depends on these columns only.
        elif not len(verdicts.pairs):
            contents = score_contents
        # Responses come first.
        tables.insert(0, (responses.case, score_fields))
    by_judge = {
        name: verdict_objects(cases, rule, (), columns, {})
        for name, columns in judge_verdicts.items()
    }
    return Verdicts(verdicts.judge, tables, by_judge, contents)


def _pair_fields(
    ids: Sequence[str],
    rule: str,
    verdicts: VerdictColumns,
    judge_verdicts: Mapping[str, VerdictColumns],
) -> dict[str, Read]:
    """Return the fields of the verdict of each pair; the arguments are of `verdict_objects`."""
    pairs = verdicts.pairs
    passes = verdicts.passes
    judge_winners = {
        name: _winner(columns.winner) for name, columns in judge_verdicts.items()
    }
    fields = {
        **_unit_fields(ids, pairs.case, pairs.i, pairs.j),
        "winner": _winner(verdicts.winner),
        "reason": _reason(verdicts.reason),
        "margin": _number(verdicts.margin),
        "confidence": _number(verdicts.confidence),
        "label": _winner(pairs.label),
        **_votes(judge_winners),
    }
    # Without passes, winners are implied by scores.
    if passes is None:
        return fields
    judgments = verdicts.judgments
    # (judgments,) the pair of each.
    unit = pairs.rows(judgments)
    pair_rule = "mean" if judge_verdicts else rule
    criteria = by_criterion(judgments, unit, len(pairs), pair_rule)
    single_pass = passes.read.sum(axis=1) == 1
    # (pairs,) which have a verdict of one order only.
    alone = passes.both & verdicts.present & single_pass
    fields["criteria"] = _criteria_reader(judgments.names, criteria)
    fields["orders"] = _orders_reader(passes.winner, passes.third, verdicts.withheld)
    fields["incomplete"] = lambda units: alone[units].tolist()
    return fields


def _score_fields(
    ids: Sequence[str],
    rule: str,
    responses: ScoreColumns,
    verdicts: VerdictColumns,
    judge_verdicts: Mapping[str, VerdictColumns],
) -> tuple[dict[str, Read], list[Column]]:
    """Return the fields of the verdict of each response, and the columns that they depend on."""
    judgments = verdicts.ranks or verdicts.judgments
    # (judgments,) the response of each.
    unit = responses.offset[judgments.case] + judgments.i
    averaged = judge_verdicts or verdicts.ranks
    score_rule = "mean" if averaged else rule
    criteria = by_criterion(judgments, unit, len(responses.case), score_rule)
    is_missing = np.isnan(responses.score)
    reasons = np.where(is_missing, MISSING, JUDGED)
    votes = {
        name: columns.scores.score
        for name, columns in judge_verdicts.items()
        if columns.scores is not None
    }
    judge_scores = {name: _number(score) for name, score in votes.items()}
    fields = {
        **_unit_fields(ids, responses.case, responses.index),
        "score": _number(responses.score),
        "reason": _reason(reasons),
        "confidence": _number(responses.confidence),
        "label": _number(responses.grade),
        "criteria": _criteria_reader(judgments.names, criteria),
        **_votes(judge_scores),
    }
    contents: list[Column] = [
        responses.index,
        responses.score,
        responses.confidence,
        responses.grade,
        *criteria,
        *votes.values(),
    ]
    return fields, contents


def class_verdict_objects(
    cases: Sequence[Case],
    columns: ClassColumns,
    judge_verdicts: Mapping[str, ClassColumns] | None = None,
    cascade: Cascade | None = None,
) -> Verdicts:
    """Return a Verdict for each response, in order, and those of each judge of a panel."""
    chosen = columns.verdicts
    chances = columns.probabilities
    classes = dict(enumerate(columns.names))
    # (units,) each: why a unit has no class
    reasons = np.select(
        (columns.split, columns.abstained, columns.missing),
        (SPLIT, ABSTENTION, MISSING),
        JUDGED,
    )
    stated = np.full(len(columns), np.nan)
    if chances is not None:
        # (units, classes) -> (units,): the probability of the chosen class
        every_unit = np.arange(len(columns))
        of_chosen = chances[every_unit, chosen]
        stated = np.where(columns.present, of_chosen, np.nan)
    answers = classes | {ABSTAINED: columns.abstain}
    votes = {judge: _name(cast, answers) for judge, cast in columns.votes.items()}
    ids = [case.id for case in cases]
    fields = {
        **_unit_fields(ids, columns.case, columns.index),
        "reason": _reason(reasons),
        "confidence": _number(stated),
        "label": _name(columns.labels, classes),
        **_votes(votes),
        "class_name": _name(chosen, classes),
        **_deciders(cascade),
    }
    by_judge = {}
    if judge_verdicts is not None:
        by_judge = {
            name: class_verdict_objects(cases, judge_columns)
            for name, judge_columns in judge_verdicts.items()
        }
    contents = [columns.index, reasons, stated, columns.labels, chosen]
    contents += columns.votes.values()
    if cascade is not None:
        contents.append(cascade.decider)
    table = (columns.case, fields)
    return Verdicts(columns.judge, [table], by_judge, contents)


def number_alike(columns: Sequence[Column]) -> Ints:
    """Return a number for each row of columns, (n,): the same for rows with the same content.

    Numbers are in the order of the rows that have them first.
    """
    alike = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        # By their bits: 0.0 and -0.0 are written in two ways, and NaN is equal to itself.
        bits = column.view(np.int64) if column.dtype == np.float64 else column
        _, codes = np.unique(bits, return_inverse=True)
        # A pair of numbers as one number; both are below the number of rows.
        both = alike * (1 + codes.max(initial=0)) + codes
        _, alike = np.unique(both, return_inverse=True)
    _, first, codes = np.unique(alike, return_index=True, return_inverse=True)
    # (numbers,) the rank of each by its first row.
    rank = np.argsort(np.argsort(first))
    return np.asarray(rank[codes], dtype=np.int64)


def _missing(units: Ints) -> list[None]:
    return [None] * len(units)


def _unit_fields(ids: Sequence[str], case: Ints, *unit: Ints) -> dict[str, Read]:
    """Return the fields that every unit has; those that a size of units does not have are missing.

    Args:
        ids: the ID of each case.
        case: (units,) the case of each unit.
        unit: (units,) each: the first response of each unit, and the second one of a pair.
    """

    def case_ids(units: Ints) -> list[str]:
        rows = case[units]
        return [ids[row] for row in rows.tolist()]

    def responses(units: Ints) -> list[tuple[int, ...]]:
        columns = [index[units].tolist() for index in unit]
        return list(zip(*columns, strict=True))

    return {
        "case_id": case_ids,
        "unit": responses,
        "winner": _missing,
        "score": _missing,
    }


def _items(items: Sequence[tuple[ItemVerdict, ...]]) -> Read:
    def read(units: Ints) -> list[tuple[ItemVerdict, ...]]:
        return [items[unit] for unit in units.tolist()]

    return read


def _deciders(cascade: Cascade | None) -> dict[str, Read]:
    if cascade is None:
        return {}
    judges = {position: step.judge for position, step in enumerate(cascade.steps)}
    return {"decided_by": _name(cascade.decider, judges)}


def _name(codes: Codes | Ints, names: Mapping[int, Any]) -> Read:
    def read(units: Ints) -> list[Any]:
        chosen = codes[units]
        return [names.get(code) for code in chosen.tolist()]

    return read


def _winner(codes: Codes) -> Read:
    return _name(codes, NAMES)


def _reason(codes: Codes | Ints) -> Read:
    def read(units: Ints) -> list[Any]:
        chosen = codes[units]
        return [REASONS[code] for code in chosen.tolist()]

    return read


def _number(values: Floats) -> Read:
    def read(units: Ints) -> list[Any]:
        chosen = values[units]
        return [round_metric(value) for value in chosen.tolist()]

    return read


def _votes(reads: Mapping[str, Read]) -> dict[str, Read]:
    """Return the field of the votes of each judge of a panel, if there are any."""
    if not reads:
        return {}
    return {"votes": lambda units: _by_name(reads, units)}


def _by_name(reads: Mapping[str, Read], units: Ints) -> list[dict[str, Any]]:
    """Return a dict of several values for each unit."""
    if not reads:
        return [{} for _ in units]
    columns = [read(units) for read in reads.values()]
    by_unit = []
    for row in zip(*columns, strict=True):
        values = dict(zip(reads, row, strict=True))
        by_unit.append(values)
    return by_unit


def _criteria_reader(names: Sequence[str], columns: Sequence[Floats]) -> Read:
    """Return how to read each unit's values by criterion, without missing ones.

    Args:
        names: the names of the criteria.
        columns: (units,) each: the values by criterion.
    """
    by_name = zip(names, columns, strict=True)
    reads = {name: _number(column) for name, column in by_name}

    def read(units: Ints) -> list[dict[str, Any]]:
        rows = _by_name(reads, units)
        return [_without_missing(row) for row in rows]

    return read


def _without_missing(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _orders_reader(passes: Codes, third: Codes, withheld: Bools) -> Read:
    """Return how to read the winners in both orders of each pair, `None` of withheld ones.

    Args:
        passes: (pairs, 2) the winner in each order.
        third: (pairs,) the winner of the third judgment.
        withheld: (pairs,) which pairs have none.
    """

    def orders(codes: Sequence[int], third_code: int) -> Orders:
        first, second = map(NAMES.get, codes)
        is_complete = first is not None and second is not None
        consistent = first == second if is_complete else None
        return Orders(first, second, consistent, NAMES.get(third_code))

    def read(units: Ints) -> list[Orders | None]:
        rows = zip(
            passes[units].tolist(),
            third[units].tolist(),
            withheld[units].tolist(),
            strict=True,
        )
        return [
            None if is_withheld else orders(codes, third_code)
            for codes, third_code, is_withheld in rows
        ]

    return read
