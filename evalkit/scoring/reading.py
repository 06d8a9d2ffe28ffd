"""Judgments into columns in one pass, none of them held."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evalkit.errors import ConfigError
from evalkit.scoring.answers import KINDS, Answers, Expected, Shape
from evalkit.scoring.columns import Ints
from evalkit.scoring.lists import is_list, list_pairs, list_scores
from evalkit.types import Case, Judgment, Weighted


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

    def _weigh(self, row: int, weighted: Weighted) -> None:
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

    def _spread(self, rows: Ints, count: int, width: int) -> Expected:
        found = Expected(*(np.full(shape, np.nan) for shape in (count, (count, width), count, count)))
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
