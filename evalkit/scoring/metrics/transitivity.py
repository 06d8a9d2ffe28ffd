"""Conflicts among the responses of a case: cycles of wins, and ties that are not transitive.

`scoring.conflict_edges` defines what counts as an edge. A case counts if it has at least three
responses and every pair of them has an outcome under that rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import comb, exp, lgamma, log

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.display import visible
from evalkit.core.types import Case, Metric
from evalkit.core.values import frozen
from evalkit.scoring.columns import NONE, TIE, A, B, VerdictColumns, sign
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.metrics.preference_graphs import (
    Edges,
    edges_of,
    groups,
    in_cycle,
    matrices,
)
from evalkit.scoring.metrics.reversals import list_conflicts
from evalkit.scoring.stats.arrays import (
    Bools,
    Floats,
    Ints,
    divide,
    round_metric,
)
from evalkit.scoring.stats.statistic import (
    Measures,
    Statistic,
    Table,
    Tabled,
    Tally,
    mean_of,
    ratio,
)
from evalkit.scoring.verdicts.pairs import by_criterion

EXACT_SIZE = 5
"""Up to this number of responses every outcome is enumerated: 59,049 outcomes for 5."""
SIMULATION_WORK = 4 * 10**8


def chance_rate(n: int, tie_rate: Floats) -> Floats:
    """Return P(some cycle) among `n` responses if each pair is a tie with `tie_rate`
    and otherwise a fair coin toss.

    It is exact for n up to 5. Beyond, it comes from a seeded simulation of when the first cycle
    closes as random outcomes are added pair by pair, mixed exactly over the number of decided
    pairs, so that it is smooth in the tie rate.
    """
    # Imported late: SciPy takes long to load.
    from scipy.special import gammaln, xlogy

    cyclic = cyclic_shares(n)
    pairs = len(cyclic) - 1
    k = np.arange(pairs + 1)
    ways = gammaln(pairs + 1) - gammaln(k + 1) - gammaln(pairs - k + 1)
    ties = np.asarray(tie_rate, dtype=np.float64)[..., None]
    return np.asarray(
        np.exp(ways + xlogy(k, 1 - ties) + xlogy(pairs - k, ties)) @ cyclic
    )


def chance_rate_both_ways(n: int, tie_rate: Floats) -> Floats:
    """Return P(some cycle) among `n` responses if a tie is an edge in both directions:
    only the n! orders have none.
    """
    pairs = n * (n - 1) // 2
    orders = exp(lgamma(n + 1) - pairs * log(2))
    return np.asarray(
        1 - (1 - np.asarray(tie_rate, dtype=np.float64)) ** pairs * orders
    )


@cache
def cyclic_shares(n: int) -> Floats:
    """Return, for each number of decided pairs, the share of random outcomes among `n`
    responses with a cycle.
    """
    if n <= EXACT_SIZE:
        return enumerate_shares(n)
    return simulate_shares(n)


def enumerate_shares(n: int) -> Floats:
    """Return the shares by enumerating every outcome of every pair."""
    pairs = n * (n - 1) // 2
    # shape (outcomes, pairs)
    outcomes = np.array(list(product((A, TIE, B), repeat=pairs)), dtype=np.int8)
    # shape (outcomes,)
    cyclic = in_cycle(matrices(outcomes)[0]).any(axis=1)
    decided = np.count_nonzero(outcomes, axis=1)
    # decided pairs -> number of outcomes: which are decided, and who wins each
    every = [comb(pairs, k) * 2**k for k in range(pairs + 1)]
    return np.asarray(np.bincount(decided, weights=cyclic, minlength=pairs + 1) / every)


def simulate_shares(n: int) -> Floats:
    """Return the shares by adding random wins pair by pair until the first cycle, with
    a fixed seed.
    """
    i, j = np.triu_indices(n, 1)
    pairs = len(i)
    runs = max(200, min(20_000, SIMULATION_WORK // (n * n * pairs)))
    generator = np.random.default_rng(0)
    # shape (runs, pairs): a random order of the pairs
    order = np.argsort(generator.random((runs, pairs)), axis=1)
    flipped = generator.random((runs, pairs)) < 0.5
    winner = np.where(flipped, j[order], i[order])
    loser = np.where(flipped, i[order], j[order])
    # shape (runs, n, n): whether a path of wins leads from row to column, or they are equal
    reach = np.broadcast_to(np.eye(n, dtype=bool), (runs, n, n)).copy()
    cyclic = np.zeros(runs, dtype=bool)
    rows = np.arange(runs)
    shares = [0.0]
    for step in range(pairs):
        w = winner[:, step]
        v = loser[:, step]
        # The win closes a cycle if the loser already reaches the winner.
        cyclic |= reach[rows, v, w]
        reach |= reach[rows, :, w][:, :, None] & reach[rows, v, :][:, None, :]
        shares.append(float(cyclic.mean()))
    return np.array(shares)


AMONG = "over cases with at least three responses and a verdict on every pair"
NO_CASE = "no case has at least three responses and a verdict on every pair"
BY_RANKING = (
    "one ranking has no cycles: only rankings of different orders, samples or responses can"
    " form one"
)
BY_SCORE = "0 by construction: one score per response cannot make a cycle"


@frozen
class Tournaments:
    """What the edges of each case contain.

    Attributes:
        size: (cases,) the number of responses.
        complete: (cases,) whether it has at least three responses and an outcome for every pair.
        nodes: (cases,) the number of responses in cycles.
        triads: (cases,) the number of cyclic triples.
        weak: (cases,) whether its ties are intransitive.
        ties: (cases,) the number of ties.
        incomplete: (cases,) whether it has at least three responses and lacks an outcome, and none
            is withheld.
        both_ways: whether a tie is an edge in both directions.
    """

    size: Ints
    complete: Bools
    nodes: Ints
    triads: Ints
    weak: Bools
    ties: Ints
    incomplete: Bools
    both_ways: bool

    @classmethod
    def of(cls, edges: Edges) -> Tournaments:
        """Return the tournaments of the edges of every case."""
        sizes = edges.pairs.sizes
        complete, incomplete, weak = (
            np.zeros(len(sizes), dtype=bool) for _ in range(3)
        )
        nodes, triads, ties = (np.zeros(len(sizes), dtype=np.int64) for _ in range(3))
        for case, winners in groups(edges.pairs, edges.winner):
            decided = (winners != NONE).all(axis=1)
            # shape (cases of this size, pairs): rows of the pairs
            pairs = edges.pairs.start[case][:, None] + np.arange(winners.shape[1])
            complete[case] = decided
            incomplete[case] = ~decided & ~edges.withheld[pairs].any(axis=1)
            used = case[decided]
            wins, tied = matrices(winners[decided])
            beats = wins | tied if edges.both_ways else wins
            nodes[used] = in_cycle(beats).sum(axis=1)
            triads[used] = cyclic_triads(beats)
            weak[used] = weak_violation(wins, tied)
            ties[used] = (winners[decided] == TIE).sum(axis=1)
        return cls(
            sizes, complete, nodes, triads, weak, ties, incomplete, edges.both_ways
        )

    @property
    def pairs(self) -> Ints:
        """The number of pairs of responses of each case, (cases,)."""
        return self.size * (self.size - 1) // 2

    @property
    def triples(self) -> Ints:
        """The number of triples of responses of each case, (cases,)."""
        return self.pairs * (self.size - 2) // 3

    def rate(
        self, name: str, hit: Bools, note: str | None = None, why: str = NO_CASE
    ) -> Statistic:
        """Return the share of complete cases in `hit`."""
        return Tally.each(len(hit)).rate(
            name, hit, self.complete, self.incomplete, note=note, why=why
        )

    def total(self, name: str, counts: Ints, maximum: Ints) -> Statistic:
        """Return a count summed over cases.

        Args:
            name: the metric's name.
            counts: (cases,) the count of each case.
            maximum: (cases,) the largest possible count of each case.
        """
        n, missing = (
            int(maximum[rows].sum()) for rows in (self.complete, self.incomplete)
        )
        low = float(counts.sum())
        return Statistic(
            f"conflict/{name}",
            [counts, self.complete],
            lambda totals: np.where(totals[:, 1] > 0, totals[:, 0], np.nan),
            n=n,
            missing=missing,
            worst=(low, low + missing) if self.complete.any() else (None, None),
            limits=(0.0, float(n)),
            note="a total, not a share",
            why=NO_CASE,
        )


def cyclic_triads(beats: Bools) -> Ints:
    """Return the number of triples that beat one another in a cycle, for (cases, n, n) matrices.

    A third of the closed walks of length three are cycles; a triple with all edges in both
    directions contains two.
    """
    both = beats & np.swapaxes(beats, 1, 2)
    walks, there_and_back = (
        np.einsum("cij,cji->c", (m := edges.astype(np.int64)) @ m, m)
        for edges in (beats, both)
    )
    return np.asarray(walks // 3 - there_and_back // 6)


def weak_violation(wins: Bools, tied: Bools) -> Bools:
    """Return which cases have intransitive ties: A ~ B and B ~ C, but A > C."""
    violated = np.zeros(len(wins), dtype=bool)
    # wins and tied: shape (cases, n, n)
    for middle in range(wins.shape[-1]):
        violated |= (wins & tied[:, :, middle, None] & tied[:, None, middle, :]).any(
            axis=(1, 2)
        )
    return violated


def conflict_statistics(config: RunConfig, verdicts: VerdictColumns) -> Measures:
    """Return the `conflict/` metrics; for verdicts implied by scores, those on cycles
    of wins are 0.
    """
    edges = edges_of(config, verdicts)
    tournaments = Tournaments.of(edges)
    weak = tournaments.rate(
        "conflict/weak_rate", tournaments.weak, f"A ~ B and B ~ C, but A > C; {AMONG}"
    )
    if verdicts.passes is None and not edges.both_ways:
        maxima = {
            "rate": np.ones_like(tournaments.size),
            "nodes": tournaments.size,
            "triads": tournaments.triples,
        }
        zeros = []
        for name, maximum in maxima.items():
            n = int(maximum[tournaments.complete].sum())
            missing = int(maximum[tournaments.incomplete].sum())
            zero = Metric(
                name=f"conflict/{name}",
                value=0.0,
                low=0.0,
                high=0.0,
                n=n,
                missing=missing,
                worst_low=0.0,
                worst_high=0.0,
                note=BY_SCORE,
            )
            zeros.append(
                zero
                if n
                else Metric(f"conflict/{name}", None, missing=missing, note=NO_CASE)
            )
        return [*zeros, weak]
    if edges.both_ways:
        note = f"a tie is an edge in both directions, so every tie is a cycle; {AMONG}"
    else:
        note = AMONG
    note += f"; {BY_RANKING}" if verdicts.listed else ""
    return [
        tournaments.rate("conflict/rate", tournaments.nodes > 0, note),
        tournaments.total("nodes", tournaments.nodes, tournaments.size),
        tournaments.total("triads", tournaments.triads, tournaments.triples),
        _zeta(tournaments),
        *_against_chance(tournaments),
        weak,
    ]


def _zeta(tournaments: Tournaments) -> Statistic:
    """Return Kendall's coefficient of consistence, pooled over case sizes.

    It is 1 minus the number of cyclic triads divided by its maximum, (n³ - n)/24 for odd and (n³ -
    4n)/24 for even n (Kendall and Babington Smith 1940, Biometrika 31, 324-345). It is defined if
    every pair has a winner; cases with a tie are omitted.
    """
    maximum = (
        tournaments.size**3 - np.where(tournaments.size % 2, 1, 4) * tournaments.size
    ) // 24
    decided = tournaments.complete & (tournaments.ties == 0)
    tied = int((tournaments.complete & ~decided).sum())
    return Statistic(
        "conflict/zeta",
        [np.where(decided, tournaments.triads, 0), np.where(decided, maximum, 0)],
        lambda totals: 1 - mean_of(totals),
        n=int(decided.sum()),
        covered=decided,
        missing=int(tournaments.incomplete.sum()),
        proportion=True,
        note=(
            f"over cases with a winner in every pair; {tied} with a tie are omitted"
            if tied
            else None
        ),
        why=(
            f"every case has a tie, and zeta needs cases without ties ({tied} cases)"
            if tied
            else NO_CASE
        ),
    )


def _against_chance(tournaments: Tournaments) -> list[Statistic]:
    """Return the probability of a cycle at each case's size and the pooled tie rate,
    and the conflict rate over it.
    """
    sizes = [int(n) for n in np.unique(tournaments.size[tournaments.complete])]
    pairs = np.where(tournaments.complete, tournaments.pairs, 0)
    random = chance_rate_both_ways if tournaments.both_ways else chance_rate
    by_size = [tournaments.complete & (tournaments.size == n) for n in sizes]
    table = Table.of(
        [tournaments.nodes > 0, tournaments.ties, pairs, tournaments.complete, *by_size]
    )

    def chance(totals: Floats) -> Floats:
        # A resample without complete cases has no tie rate; its number of cases, 0, makes the
        # result undefined.
        tie_rate = np.nan_to_num(ratio(1, 2, totals))
        # Columns 4 and up count the complete cases of each size.
        expected = sum(
            (totals[:, 4 + k] * random(n, tie_rate) for k, n in enumerate(sizes)),
            np.zeros(len(totals)),
        )
        return divide(expected, totals[:, 3])

    def over_chance(totals: Floats) -> Floats:
        return divide(ratio(0, 3, totals), chance(totals))

    n = int(tournaments.complete.sum())
    missing = int(tournaments.incomplete.sum())
    tie_rate = round_metric(tournaments.ties.sum() / max(1, pairs.sum()))
    if n:
        note = (
            f"random outcomes among {', '.join(map(str, sizes))} responses at a tie rate of"
            f" {tie_rate:.3g}"
        )
    else:
        note = None
    why = "random outcomes would make no cycle either" if n else NO_CASE
    most = float(divide(np.ones(1), chance(table.sums[None]))[0])
    return [
        Statistic(
            "conflict/chance_rate",
            table,
            chance,
            n=n,
            missing=missing,
            note=note,
            why=NO_CASE,
        ),
        Statistic(
            "conflict/ratio",
            table,
            over_chance,
            n=n,
            missing=missing,
            limits=(0.0, most),
            why=why,
        ),
    ]


NO_CRITERION_CASE = (
    "no case has at least three responses and a "
    "winner or tie by this criterion for every pair"
)


def cycle_results(
    config: RunConfig,
    cases: Sequence[Case],
    compared: VerdictColumns,
    judgments: JudgmentColumns,
) -> Tabled:
    """Return the metrics of the verdicts to reverse and of cycles by criterion, and the
    content of conflicts.json.

    `conflict/reversals` is the minimum number of verdicts to reverse so that no case contains a
    cycle. With several criteria, `conflict/rate/<criterion>` is about the sign of each one's
    margin, samples combined and orders averaged, and `conflict/condorcet` is the share of cases
    whose verdicts contain a cycle although no criterion's outcomes do: Condorcet's paradox with
    criteria as voters (Condorcet 1785, Essai).

    Args:
        config: the run's config.
        cases: the cases.
        compared: the verdicts of a judge that compares; single scores have no cycles of wins.
        judgments: all judgments.
    """
    verdicts = compared
    rule = "mean" if len(judgments.by) > 1 else config.scoring.combine
    edges = edges_of(config, verdicts)
    judgments = verdicts.judgments
    pairs = verdicts.pairs
    counts, entries = list_conflicts(cases, edges)
    whole = Tournaments.of(edges)
    measures = [whole.total("reversals", counts, whole.pairs)]
    margins = by_criterion(judgments, pairs.rows(judgments), len(pairs), rule)
    criteria = {}  # a single criterion is the verdict itself
    for name, margin in (
        zip(judgments.names, margins, strict=False) if len(judgments.names) > 1 else ()
    ):
        criteria[name] = Tournaments.of(
            Edges(pairs, sign(margin), margin, verdicts.withheld)
        )
    listed = {
        name: [cases[k].id for k in np.flatnonzero(of.nodes > 0).tolist()]
        for name, of in criteria.items()
    }
    measures += [
        of.rate(f"conflict/rate/{visible(name)}", of.nodes > 0, why=NO_CRITERION_CASE)
        for name, of in criteria.items()
    ]
    if criteria:
        complete = np.logical_and.reduce(
            [of.complete for of in (whole, *criteria.values())]
        )
        consistent = np.logical_and.reduce([of.nodes == 0 for of in criteria.values()])
        every = replace(
            whole,
            complete=complete,
            incomplete=(whole.complete | whole.incomplete) & ~complete,
        )
        paradox = consistent & (whole.nodes > 0)
        measures.append(
            every.rate("conflict/condorcet", paradox, why=NO_CRITERION_CASE)
        )
    return measures, {
        "conflicts": {
            "edges": config.scoring.conflict_edges,
            "cases": entries,
            "criteria": listed,
        }
    }
