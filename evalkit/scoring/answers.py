"""Judgments as plain columns in their own order: whatever scoring wants of them is in here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from evalkit.scoring.columns import Bools, Codes, Floats, Ints
from evalkit.types import Unit

KINDS = ("unparseable", "refused", "failed", "budget", "ok", "repaired")
"""What became of an answer; `budget` is a call that was never made, because the cap was reached."""
READABLE = KINDS.index("ok")

Shape: TypeAlias = tuple[Unit, Unit]


@dataclass(frozen=True, slots=True)
class Expected:
    """What answers say when weighted by their probabilities; NaN in all of these where one has none."""

    value: Floats
    criteria: Floats
    mass: Floats
    open: Floats

    @property
    def there(self) -> Bools:
        """Which answers have probabilities."""
        return np.asarray(~np.isnan(self.mass))

    def where(self, rows: Bools) -> Expected:
        """Return some of them."""
        return Expected(self.value[rows], self.criteria[rows], self.mass[rows], self.open[rows])


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
    expected: Expected | None = None
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
