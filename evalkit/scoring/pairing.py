"""The cases that runs share, and their verdicts side by side."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.lazy import Arranged
from evalkit.scoring.bootstrap import Bounds, Statistic, Tally, divide
from evalkit.scoring.clusters import Clusters
from evalkit.scoring.columns import CODES, NONE, Codes, Floats, Ints
from evalkit.types import Case, Judgment, Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entrant:
    """One run to be compared, by the name it goes by."""

    name: str
    config: RunConfig
    cases: Sequence[Case]
    judgments: Sequence[Judgment]


def pair_runs(entrants: Sequence[Entrant]) -> tuple[list[Entrant], dict[str, int]]:
    """Return the runs on the cases that all of them have, in the first one's order, and how many each has beside them.

    Raises:
        ConfigError: if there are fewer than two, two have one name, they share no case, or a case differs between them.
    """
    names = [entrant.name for entrant in entrants]
    if len(entrants) < 2 or len(set(names)) < len(names):
        raise ConfigError("at least two different runs are needed to compare", where=", ".join(names))
    known = [{case.id: place for place, case in enumerate(entrant.cases)} for entrant in entrants]
    shared = _kept(entrants[0].cases, lambda case: all(case.id in places for places in known))
    if not shared:
        raise ConfigError("share no case", where=", ".join(names), remedy="compare runs of one dataset")
    for entrant, places in zip(entrants[1:], known[1:], strict=True):
        _check_same(shared, Arranged(entrant.cases, [places[case.id] for case in shared]), entrants[0], entrant)
    kept = {case.id for case in shared}
    paired = [replace(e, cases=shared, judgments=_kept(e.judgments, lambda j: j.case_id in kept)) for e in entrants]
    return paired, {e.name: len(e.cases) - len(shared) for e in entrants}


def _kept(values: Sequence[T], holds: Callable[[T], bool]) -> Sequence[T]:
    """Return the values for which it holds, by their places: they may be too many to be held."""
    places = array("q", (place for place, value in enumerate(values) if holds(value)))
    return values if len(places) == len(values) else Arranged(values, places)


def _check_same(shared: Sequence[Case], others: Sequence[Case], first: Entrant, second: Entrant) -> None:
    for case, other in zip(shared, others, strict=True):
        contents = zip(("prompt", "responses", "label"), _content(case), _content(other), strict=True)
        for what, one, two in contents:
            if one != two:
                raise ConfigError(
                    f"its {what} is not the same in {first.name} and {second.name}",
                    where=f"case '{case.id}'",
                    remedy="compare runs of one dataset",
                )


def _content(case: Case) -> tuple[object, ...]:
    texts = [response.text for response in case.responses]
    return (case.prompt, case.context, case.reference), texts, (case.label, [r.grade for r in case.responses])


@dataclass(frozen=True, slots=True)
class Paired:
    """One run's verdicts: on pairs in their own order, which is the same in every run, and on responses if it has any.

    `label` and `winner` are codes, `case` each pair's case; `score` is in units of the judge's scale, NaN if missing.
    """

    case: Ints
    label: Codes
    winner: Codes
    cases: int
    response_case: Ints
    score: Floats
    grade: Floats

    @classmethod
    def of(cls, entrant: Entrant, verdicts: Sequence[Verdict]) -> Paired:
        """Read a run's verdicts."""
        places = {case.id: place for place, case in enumerate(entrant.cases)}
        pairs = [verdict for verdict in verdicts if len(verdict.unit) == 2]
        # Normalised scores, and places in rankings, are in no unit that two runs could share.
        in_units = entrant.config.scoring.normalize == "none" and all(len(j.unit) == 1 for j in entrant.judgments)
        single = [verdict for verdict in verdicts if len(verdict.unit) == 1 and in_units]
        return cls(
            np.array([places[v.case_id] for v in pairs], dtype=np.int64),
            np.array([CODES[v.label] if not isinstance(v.label, float) else NONE for v in pairs], dtype=np.int8),
            np.array([CODES[v.winner] for v in pairs], dtype=np.int8),
            len(entrant.cases),
            np.array([places[v.case_id] for v in single], dtype=np.int64),
            np.array([np.nan if v.score is None else v.score for v in single], dtype=np.float64),
            np.array([v.label if isinstance(v.label, float) else np.nan for v in single], dtype=np.float64),
        )

    def statistics(self) -> list[Statistic]:
        """Return `agreement/error` where responses have scores and grades: their mean absolute distance."""
        graded = np.isfinite(self.grade)
        if not graded.any():
            return []
        used = graded & np.isfinite(self.score)
        tally = Tally(self.response_case, self.cases)
        columns = np.stack([tally(np.where(used, np.abs(self.score - self.grade), 0.0)), tally(used)], axis=1)
        missing = int((graded & ~used).sum())
        why = "no graded response has a score"
        return [Statistic("agreement/error", columns, _ratio, int(used.sum()), missing, why=why)]

    def by_cluster(self, name: str, clusters: Clusters) -> Floats:
        """Return each cluster's mean score, or its mean absolute distance from the grades, NaN where it has none."""
        values = self.score if name == "score/mean" else np.abs(self.score - self.grade)
        there = np.isfinite(values)
        tally = Tally(clusters.of_rows(self.response_case), clusters.count)
        return divide(tally(np.where(there, values, 0.0)), tally(there))

    def right(self, other: Paired) -> tuple[Codes, Codes]:
        """Return for each pair whether this run, and the other, is right: 1, 0, or NONE where it has no verdict."""
        return self._right(), other._right()

    def _right(self) -> Codes:
        return np.where(self.winner == NONE, NONE, self.winner == self.label).astype(np.int8)

    def accuracy_lead(self, other: Paired) -> tuple[Statistic, tuple[int, int]]:
        """Return by how much this run is right more often, over labelled pairs that both read, and who was alone right.

        The worst cases are those of every missing verdict being wrong here and right there, and the reverse.
        """
        one, two = self.right(other)
        labelled = self.label != NONE
        used = labelled & (one != NONE) & (two != NONE)
        tally = Tally(self.case, self.cases)
        columns = np.stack([tally(np.where(used, one.astype(float) - two, 0.0)), tally(used)], axis=1)
        statistic = Statistic(
            "agreement/accuracy",
            columns,
            _ratio,
            n=int(used.sum()),
            missing=int((labelled & ~used).sum()),
            worst=_worst(one[labelled], two[labelled]),
            why="no labelled pair has a verdict in both",
        )
        return statistic, (int((used & (one > two)).sum()), int((used & (one < two)).sum()))

    @property
    def scored(self) -> bool:
        """Whether responses have scores in units of the judge's scale."""
        return bool(np.isfinite(self.score).any())

    def lead_by_cluster(self, other: Paired, clusters: Clusters) -> Ints:
        """Return for each cluster the labelled pairs that only this run had right, less those only the other had."""
        one, two = self.right(other)
        used = (self.label != NONE) & (one != NONE) & (two != NONE)
        lead = np.where(used, one.astype(np.int64) - two, 0)
        return np.bincount(clusters.of_rows(self.case), weights=lead, minlength=clusters.count).astype(np.int64)


def _ratio(totals: Floats) -> Floats:
    return divide(totals[:, 0], totals[:, 1])


def _worst(one: Codes, two: Codes) -> Bounds:
    n = len(one)
    hits = [float((side == 1).sum()) for side in (one, two)]
    open_ = [float((side == NONE).sum()) for side in (one, two)]
    return (hits[0] - hits[1] - open_[1]) / n, (hits[0] + open_[0] - hits[1]) / n
