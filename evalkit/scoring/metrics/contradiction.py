"""Scores against comparisons: how often what one judge's scores imply is not what it says when asked to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.scoring.columns.codes import CODES, NONE, TIE
from evalkit.scoring.stats.arrays import Codes, Ints
from evalkit.scoring.stats.bootstrap import Statistic, Tally, measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Metric, Unit, Verdict


def contradictions(
    pointwise: Sequence[Verdict],
    pairwise: Sequence[Verdict],
    scoring: ScoringConfig,
    cluster: Mapping[str, int] = MappingProxyType({}),
) -> tuple[dict[str, Metric], list[tuple[str, Unit]]]:
    """Return the metrics of two runs' verdicts on the same pairs, and the case and unit of every pair contradicted.

    Pairs that only one of the runs has are left out. `cluster` holds the cluster of each case by its id; a case that is
    not in it is its own.
    """
    others = {(verdict.case_id, verdict.unit): verdict for verdict in pairwise}
    shared = [v for v in pointwise if len(v.unit) == 2 and (v.case_id, v.unit) in others]
    places = {name: place for place, name in enumerate(dict.fromkeys(verdict.case_id for verdict in shared))}
    case = np.array([places[verdict.case_id] for verdict in shared], dtype=np.int64)
    by_score = np.array([CODES[verdict.winner] for verdict in shared], dtype=np.int8)
    compared = np.array([CODES[others[v.case_id, v.unit].winner] for v in shared], dtype=np.int8)
    clusters = Clusters.by_key([cluster.get(name, -1) + 1 for name in places], "cluster")
    found = measure(contradiction_statistics(by_score, compared, case, len(places)), scoring, clusters)
    opposite = np.flatnonzero((by_score * compared == -1) & (by_score != NONE) & (compared != NONE))
    return found, [(shared[k].case_id, shared[k].unit) for k in opposite.tolist()]


def contradiction_statistics(by_score: Codes, compared: Codes, case: Ints, cases: int) -> list[Statistic]:
    """Return `between/contradiction` and `between/difference` of winners of the same pairs, implied and said.

    A contradiction is a pair with a winner in both whose lower-scored response wins the comparison, as arXiv 2509.21117
    has it; the rate is over the pairs with a winner in both. The difference is the share of all pairs read in both in
    which the two do not say the same, a tie on one side only included.
    """
    tally = Tally(case, cases)
    read = (by_score != NONE) & (compared != NONE)
    decided = read & (by_score != TIE) & (compared != TIE)
    # A pair that is missing on one side could be decided unless the other side says that it is a tie.
    open_ = ~read & (by_score != TIE) & (compared != TIE)
    opposite = by_score != compared
    return [
        tally.rate("between/contradiction", opposite, decided, open_, why="no pair has a winner in both"),
        tally.rate("between/difference", opposite, read, ~read, why="no pair was read in both"),
    ]
