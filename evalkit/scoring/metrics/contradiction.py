"""Contradictions between the verdicts implied by a judge's scores and its direct comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.scoring.columns.cases import CODES, NONE, TIE
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
    """Return the metrics of two runs' verdicts on the same pairs, and the case and unit of every contradiction.

    Pairs of only one run are ignored.

    Args:
        pointwise: the verdicts by scores.
        pairwise: the verdicts by comparison.
        scoring: the confidence and the number of resamples.
        cluster: the cluster of each case by its id; other cases are their own cluster.
    """
    others = {(verdict.case_id, verdict.unit): verdict for verdict in pairwise}
    shared = [v for v in pointwise if len(v.unit) == 2 and (v.case_id, v.unit) in others]
    places = {name: place for place, name in enumerate(dict.fromkeys(verdict.case_id for verdict in shared))}
    case = np.array([places[verdict.case_id] for verdict in shared], dtype=np.int64)
    by_score = np.array([CODES[verdict.winner] for verdict in shared], dtype=np.int8)
    by_comparison = np.array([CODES[others[v.case_id, v.unit].winner] for v in shared], dtype=np.int8)
    clusters = Clusters.by_key([cluster.get(name, -1) + 1 for name in places], "cluster")
    found = measure(contradiction_statistics(by_score, by_comparison, case, len(places)), scoring, clusters)
    opposite = np.flatnonzero((by_score * by_comparison == -1) & (by_score != NONE) & (by_comparison != NONE))
    return found, [(shared[k].case_id, shared[k].unit) for k in opposite.tolist()]


def contradiction_statistics(by_score: Codes, by_comparison: Codes, case: Ints, cases: int) -> list[Statistic]:
    """Return `between/contradiction` and `between/difference` of the winners of the same pairs.

    A contradiction is a pair whose lower-scored response wins the comparison (arXiv 2509.21117), as a share of pairs
    with a winner in both. The difference is the share of pairs read in both with different outcomes, ties included.

    Args:
        by_score: (pairs,) the winners by scores.
        by_comparison: (pairs,) the winners by comparison.
        case: (pairs,) the case of each pair.
        cases: the number of cases.
    """
    tally = Tally(case, cases)
    read = (by_score != NONE) & (by_comparison != NONE)
    decided = read & (by_score != TIE) & (by_comparison != TIE)
    # A pair missing on one side could be decided unless the other side is a tie.
    undecided = ~read & (by_score != TIE) & (by_comparison != TIE)
    opposite = by_score != by_comparison
    return [
        tally.rate("between/contradiction", opposite, decided, undecided, why="no pair has a winner in both"),
        tally.rate("between/difference", opposite, read, ~read, why="no pair was read in both"),
    ]
