"""Cycles by criterion, and those that only the aggregation over criteria makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.scoring.bootstrap import Statistic
from evalkit.scoring.columns import Bools, Columns, Pairs, sign
from evalkit.scoring.conflict import Tournaments, case_rate
from evalkit.scoring.edges import Edges
from evalkit.scoring.resolve import by_criterion
from evalkit.types import Case

NONE_GIVEN = "no case has at least three responses and a winner or tie by this criterion for every pair"


@dataclass(frozen=True, slots=True)
class ByCriterion:
    """What was found in each criterion's own outcomes: the sign of its margin, samples combined, the orders' mean."""

    names: tuple[str, ...]
    found: tuple[Tournaments, ...]

    @classmethod
    def of(cls, columns: Columns, pairs: Pairs, how: str = "mean") -> ByCriterion:
        """Look at every criterion; at none where there is only one, which the verdict itself then is."""
        place = pairs.find(columns.case, columns.i, columns.j)
        names = columns.names if len(columns.names) > 1 else ()
        margins = by_criterion(columns, place, len(pairs), how)[: len(names)]
        return cls(names, tuple(Tournaments.of(Edges(pairs, sign(margin), margin)) for margin in margins))

    def listed(self, cases: Sequence[Case]) -> dict[str, list[str]]:
        """Return the ids of the cases in which each criterion's outcomes make a cycle."""
        return {
            name: [cases[k].id for k in np.flatnonzero(found.nodes > 0).tolist()]
            for name, found in zip(self.names, self.found, strict=True)
        }


def criteria_statistics(criteria: ByCriterion, verdicts: Tournaments) -> list[Statistic]:
    """Return `conflict/rate/<criterion>` for each criterion, and `conflict/condorcet`.

    The latter is the share of cases whose verdicts make a cycle though no criterion's outcomes do: Condorcet's paradox
    (Condorcet 1785, Essai), in which criteria stand for voters.
    """
    rates = [
        _rate(f"conflict/rate/{name}", found.nodes > 0, found.whole, found.lacking > 0)
        for name, found in zip(criteria.names, criteria.found, strict=True)
    ]
    return [*rates, _paradox(criteria, verdicts)] if rates else []


def _paradox(criteria: ByCriterion, verdicts: Tournaments) -> Statistic:
    whole = np.logical_and.reduce([verdicts.whole, *(found.whole for found in criteria.found)])
    consistent = np.logical_and.reduce([found.nodes == 0 for found in criteria.found])
    lost = (verdicts.whole | (verdicts.lacking > 0)) & ~whole
    return _rate("conflict/condorcet", consistent & (verdicts.nodes > 0), whole, lost)


def _rate(name: str, hit: Bools, among: Bools, lost: Bools) -> Statistic:
    return case_rate(name, hit, among, lost, why=NONE_GIVEN)
