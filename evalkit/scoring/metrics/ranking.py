"""Ratings, win rates and ranks of systems with intervals from resampled clusters of cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from math import log, log10
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.config import ScoringConfig
from evalkit.core.types import Case, Metric
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import TIE, A, B, VerdictColumns, flat, system_codes
from evalkit.scoring.stats.arrays import (
    FUZZ,
    Bounds,
    Codes,
    Floats,
    Ints,
    divide,
    round_metric,
)
from evalkit.scoring.stats.bootstrap import metric_of_draws
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.davidson import Davidson, fit
from evalkit.scoring.stats.paired import holm


@frozen
class Games:
    """Comparisons of two systems, `i` < `j` by index into `names`.

    Attributes:
        names: the systems.
        cluster: (games,) the cluster of each game.
        i: (games,) the first system.
        j: (games,) the second system.
        winner: (games,) A if the first system won, B if the second did, or TIE.
        log_ratio: (games,) the log of the first response's characters plus one minus that of the
            second's.
        pair: (games,) the index of the game among the pairs of all cases.
        side: (games,) -1 if the two sides are reversed in that pair, otherwise 1.
        clusters: the clusters of the cases.
        missing: the number of comparisons without a verdict.
    """

    names: tuple[str, ...]
    cluster: Ints
    i: Ints
    j: Ints
    winner: Codes
    log_ratio: Floats
    pair: Ints
    side: Codes
    clusters: Clusters
    missing: int

    def __len__(self) -> int:
        return len(self.cluster)

    @property
    def compared(self) -> bool:
        """Whether any two systems were compared."""
        return len(self) > 0

    def codes(self, winner: Codes) -> Ints:
        """Return each game's index into a flat table of wins (row beats column)
        followed by a flat table of ties.
        """
        size = len(self.names)
        # Flat indices into a (systems, systems) table: row * systems + column.
        won = self.i * size + self.j
        lost = self.j * size + self.i
        return np.select([winner == TIE, winner == A], [size * size + won, won], lost)

    def tables(self, winner: Codes | None = None) -> tuple[Floats, Floats]:
        """Return wins (row beats column) and ties (symmetric) as (systems, systems) tables."""
        size = len(self.names)
        # The first half of the codes counts wins, the second half ties.
        codes = self.codes(self.winner if winner is None else winner)
        wins, ties = (
            np.bincount(codes, minlength=2 * size * size)
            .reshape(2, size, size)
            .astype(np.float64)
        )
        return wins, ties + ties.T


def games_of(
    cases: Sequence[Case], verdicts: VerdictColumns, clusters: Clusters
) -> Games:
    """Return every comparison between two named systems; pairs of one system or of an
    unknown one are ignored.
    """
    names, system = system_codes(cases)
    lengths = np.log1p(
        flat(cases, lambda case: [len(response.text) for response in case.responses])
    )
    pairs = verdicts.pairs
    # (pairs,) the system of each side, -1 if it has no name.
    first, second = pairs.sides(system)
    rivals = (first >= 0) & (second >= 0) & (first != second)
    used = np.flatnonzero(rivals & verdicts.present)
    # 1 if the system with the lower code is the first response, -1 if it is the second
    side = np.where(first < second, 1, -1)[used].astype(np.int8)
    # Above 0 where the response of the system with the lower code is the longer one.
    log_ratio = np.subtract(*pairs.sides(lengths))[used] * side
    low = np.minimum(first, second)[used]
    high = np.maximum(first, second)[used]
    winner = (verdicts.winner[used] * side).astype(np.int8)
    missing = int((rivals & verdicts.missing).sum())
    # systems that were compared, and the codes of both sides among them
    compared, codes = np.unique(np.concatenate([low, high]), return_inverse=True)
    # The first row of the inverse belongs to `low`, the second to `high`.
    low, high = codes.reshape(2, -1)
    kept = tuple(names[k] for k in compared.tolist())
    return Games(
        names=kept,
        cluster=clusters.of_rows(pairs.case[used]),
        i=low,
        j=high,
        winner=winner,
        log_ratio=log_ratio,
        pair=used,
        side=side,
        clusters=clusters,
        missing=missing,
    )


Places: TypeAlias = NDArray[np.integer[Any]]
STEP = 16.0
"""The K-factor."""
SCALE = 400.0
_GAMES = 1024
"""So many games of all orders are looked up at once."""
ORDERS = 200
WORK = 4_000_000
"""The maximum number of games over all orders; beyond it, each order is a random subset."""


def elo(systems: int, i: Places, j: Places, score: NDArray[Any]) -> Floats:
    """Return Elo ratings with mean 0, (sequences, systems), after sequences of games
    from left to right.

    After each game, 16 × (score - expected) moves from one system to the other, with expected =
    1/(1 + 10^((r_j - r_i)/400)) (Elo 1978, The Rating of Chessplayers, section 1.6).

    Args:
        systems: the number of systems.
        i: (sequences, games) the first systems.
        j: (sequences, games) the second systems.
        score: (sequences, games) 1 if the first system won, 0 if it lost, 0.5 for a tie, NaN for no
            game.
    """
    ratings = np.zeros(len(i) * systems)
    # sequence -> its first rating; one index finds a rating in half the time of two
    row = np.arange(len(i)) * systems
    for start in range(0, i.shape[1], _GAMES):
        block = slice(start, start + _GAMES)
        # shape (games, sequences)
        result = score[:, block].T
        played = ~np.isnan(result)
        step = np.where(played, STEP, 0.0)
        games = zip(
            row + i[:, block].T,
            row + j[:, block].T,
            np.where(played, result, 0.0),
            step,
            strict=True,
        )
        # Game by game, in all sequences at once: a rating depends on every game before.
        for first, second, points, most in games:
            of_first = ratings[first]
            of_second = ratings[second]
            expected = 1 / (1 + 10 ** ((of_second - of_first) / SCALE))
            move = most * (points - expected)
            ratings[first] = of_first + move
            ratings[second] -= move
    return ratings.reshape(len(i), systems)


def elo_over_orders(
    games: Games, *, resampled: bool, seed: int, orders: int = ORDERS
) -> Floats:
    """Return the ratings after each of many random orders of all games, or of the games
    of resampled clusters.
    """
    generator = np.random.default_rng(seed)
    replay = deepcopy(generator)
    clusters, cluster_of_game = np.unique(games.cluster, return_inverse=True)

    def sampled(source: np.random.Generator) -> Ints:
        """Return the games of clusters sampled with replacement, or all games."""
        if not resampled:
            return np.arange(len(games))
        times = np.bincount(
            source.integers(0, len(clusters), len(clusters)), minlength=len(clusters)
        )
        return np.repeat(np.arange(len(games)), times[cluster_of_game])

    # Sampled twice, so that not all orders are held in memory at once.
    longest = max(len(sampled(generator)) for _ in range(orders))
    limit = min(longest, max(1, WORK // orders))
    # shape (orders, games): index of the game; -1 after the last one
    table = np.full((orders, limit), -1, dtype=np.int32)
    for row in table:
        chosen = generator.permutation(sampled(replay))[:limit]
        row[: len(chosen)] = chosen
    score = np.where(
        table < 0, np.nan, (games.winner.astype(np.float32)[table] + 1) / 2
    )
    i, j = (side.astype(np.int32)[table] for side in (games.i, games.j))
    return elo(len(games.names), i, j, score)


@frozen
class ControlledRatings:
    """Ratings at equal length, in natural units with mean 0.

    Attributes:
        ratings: (systems,) the ratings.
        errors: (systems,) their cluster-robust standard errors.
        effect: the effect of one standard deviation of the difference in log length.
        effect_error: its standard error.
    """

    ratings: Floats
    errors: Floats
    effect: float
    effect_error: float


def at_equal_length(games: Games) -> ControlledRatings | None:
    """Return ratings and the effect of length, estimated jointly, or `None` if the
    games do not determine them.

    The log odds of a game include the effect times the standardized difference of log lengths, the
    idea of AlpacaEval 2 (arXiv 2404.04475) for any number of systems. Errors are sandwich estimates
    (White 1982, Econometrica 50, 1-25).
    """
    # Imported late: SciPy takes long to load.
    from scipy.sparse import csr_array

    deviation = float(np.std(games.log_ratio))
    size = len(games.names)
    if deviation < 1e-9 or (games.winner == TIE).all():
        return None
    count = len(games)
    ones = np.ones(count)
    # (games, 3) the effects of a game and their factors: its two systems, and length.
    effects = np.stack([games.i, games.j, np.full(count, size)], axis=1)
    factors = np.stack([ones, -ones, games.log_ratio / deviation], axis=1)
    model = Davidson(effects, factors, size)
    # (3, 1, games): each game is a kind of its own, in one table.
    by_outcome = [games.winner == code for code in (A, TIE, B)]
    results = np.stack(by_outcome).astype(np.float64)[:, None]
    at = model.fit(results, np.array([0]))
    _, informations = model.derivatives(at, results)
    information = informations[0]
    residual, tied, *_ = model.residuals(at, results)
    if np.isnan(at).any() or np.linalg.cond(information) > 1e10:
        return None
    # The sandwich: (clusters, effects + 1) sums of the scores of all games of a cluster, which
    # are not independent.
    bread = np.linalg.inv(information)
    shape = (games.clusters.count, count)
    entries = (ones, (games.cluster, np.arange(count)))
    cluster = csr_array(entries, shape=shape)
    scores_of_games = model.design.multiply(residual[0][:, None])
    outcomes = (cluster @ scores_of_games).toarray()
    # Without ties, log v is at its limit and has no score.
    has_ties = np.isfinite(at[0, -1])
    scores = np.column_stack([outcomes, cluster @ tied[0] * has_ties])
    meat = scores.T @ scores
    errors = np.sqrt(np.diag(bread @ meat @ bread))
    # (effects + 1,) the ratings, the effect of length, and log v.
    estimates = at[0]
    ratings = estimates[:size] - estimates[:size].mean()
    effect = float(estimates[size])
    return ControlledRatings(ratings, errors[:size], effect, float(errors[size]))


POINTS = SCALE / log(10)
"""Points per natural unit: ratings are reported on Elo's scale with mean 0, where 400 points are
odds of ten to one."""
MAX_SYSTEMS = 20
"""Each system has its own metrics up to this number of systems; ranking.json always has all."""
BLOCK = 2**20
NO_MAXIMUM = (
    "some system won or lost every game against the others: "
    "its rating has no finite estimate"
)
MODEL = (
    "Bradley-Terry with ties (Davidson 1970), "
    "in Elo points: 400 points are ten wins to one loss"
)


@frozen
class Standing:
    """The results of each system, (rows, systems): first the observed row, then one for
    each resample.
    """

    rating: Floats
    tie: Floats
    win_rate: Floats
    copeland: Floats

    @property
    def rank(self) -> Floats:
        """The rank by rating, 1 for the best; equal ratings share the better rank."""
        ahead = self.rating[:, None, :] > self.rating[:, :, None] + FUZZ
        return np.where(np.isnan(self.rating), np.nan, 1.0 + ahead.sum(axis=2))


def standing(wins: Floats, ties: Floats) -> Standing:
    """Return the results of stacks of tables.

    The win rate counts a tie as half. Copeland's score is the number of systems beaten more often
    than not, minus the number that beat this system more often (Copeland 1951, as in Saari and
    Merlin 1996, Econ. Theory 8, 51-76).

    Args:
        wins: (rows, systems, systems) the wins of row over column.
        ties: (rows, systems, systems) the ties, symmetric.
    """
    rating, tie = fit(wins, ties)
    played = (wins + np.swapaxes(wins, 1, 2) + ties).sum(axis=2)
    rate = divide(wins.sum(axis=2) + ties.sum(axis=2) / 2, played)
    copeland = np.sign(wins - np.swapaxes(wins, 1, 2)).sum(axis=2)
    return Standing(rating * POINTS, tie, rate, np.where(played > 0, copeland, np.nan))


def resampled_standing(games: Games, scoring: ScoringConfig) -> Standing:
    """Return the observed results and those of each resample of the clusters."""
    # Imported late: SciPy takes long to load.
    from scipy.sparse import csr_array

    size = len(games.names)
    shape = (2 * size * size, games.clusters.count)
    counts = csr_array(
        (np.ones(len(games)), (games.codes(games.winner), games.cluster)), shape=shape
    )
    totals = [np.asarray(counts.sum(axis=1)).reshape(1, -1)]
    totals += [
        (counts @ weights.T).T
        for _, weights in games.clusters.draw(scoring.bootstrap, scoring.seed)
    ]
    every = np.concatenate(totals).reshape(-1, 2, size, size)
    ties = every[:, 1] + np.swapaxes(every[:, 1], 1, 2)
    step = max(1, BLOCK // (size * size))
    parts = [
        standing(every[k : k + step, 0], ties[k : k + step])
        for k in range(0, len(every), step)
    ]
    columns = (
        (getattr(part, name) for part in parts)
        for name in ("rating", "tie", "win_rate", "copeland")
    )
    return Standing(*(np.concatenate(list(column)) for column in columns))


def rank_systems(
    games: Games, scoring: ScoringConfig
) -> tuple[list[Metric], JsonObject]:
    """Return the metrics of the ranking and the content of ranking.json; empty if no
    two systems were compared.
    """
    if not games.compared:
        return [], {}
    resampled = resampled_standing(games, scoring)
    elo_mean = elo_over_orders(games, resampled=False, seed=scoring.seed).mean(axis=0)
    elo_draws = elo_over_orders(games, resampled=True, seed=scoring.seed)
    # (1 + resamples, systems) each: row 0 is the observed value, the others are resamples.
    columns = {
        "rating": resampled.rating,
        "win_rate": resampled.win_rate,
        "copeland": resampled.copeland,
        "rank": resampled.rank,
        "elo": np.vstack([elo_mean, elo_draws]),
    }

    def metrics_of_system(system: int) -> dict[str, Metric]:
        return {
            name: _system_metric(games, scoring, name, system, column[:, system])
            for name, column in columns.items()
        }

    rows = [metrics_of_system(system) for system in range(len(games.names))]
    p_values = _pairwise_p_values(games, scoring, resampled)
    few = rows if len(rows) <= MAX_SYSTEMS else []
    metrics = [row[name] for row in few for name in ("rating", "win_rate")]
    metrics.append(_separated_share(games, scoring, resampled, p_values))
    return metrics, _ranking_content(games, scoring, resampled, rows, p_values)


def _system_metric(
    games: Games, scoring: ScoringConfig, column: str, system: int, values: Floats
) -> Metric:
    """Return a system's metric from its observed value and those of the resamples, (1 +
    resamples,).
    """
    played = (games.i == system) | (games.j == system)
    value = float(values[0])
    draws = values[1:]
    # The lowest and highest Copeland score and rank; the catalog has the others.
    limits = {
        "copeland": (1.0 - len(games.names), len(games.names) - 1.0),
        "rank": (1.0, float(len(games.names))),
    }
    metric = metric_of_draws(
        f"ranking/{column}/{games.names[system]}",
        value,
        draws,
        np.bincount(games.cluster[played], minlength=games.clusters.count) > 0,
        scoring,
        games.clusters.of_clusters(),
        n=int(played.sum()),
        missing=games.missing,
        strict=True,
        reach=partial(_rating_reach, value) if column == "rating" else None,
        limits=limits.get(column),
        why=NO_MAXIMUM if played.any() else "this system was compared with no other",
    )
    defined = draws[np.isfinite(draws)]
    tail = (1 - scoring.confidence) / 2
    if (
        column not in limits
        or metric.value is None
        or not len(defined)
        or 1 - len(defined) / len(draws) > tail
    ):
        return metric
    # Integers have integer ends, which may be equal to the value.
    low, high = np.quantile(defined, [tail, 1 - tail], method="inverted_cdf")
    return replace(metric, low=round_metric(low), high=round_metric(high), note=None)


def _rating_reach(value: float, share: float) -> Bounds:
    """Return the ratings if the share of the games were all lost, or all won, against
    an opponent of rating 0.
    """
    expected = 1 / (1 + 10 ** (-value / SCALE))
    low = (1 - share) * expected
    high = low + share
    low_odds = low / (1 - low)
    high_odds = high / (1 - high)
    return SCALE * log10(low_odds), SCALE * log10(high_odds)


def _pairwise_p_values(
    games: Games, scoring: ScoringConfig, resampled: Standing
) -> Floats | None:
    """Return Holm's p-values of equal ratings as a symmetric (systems, systems) table,
    `None` without ratings.

    For each pair of systems it is a t-test of the difference by its standard error over resamples,
    with the degrees of freedom of the clusters. All pairs are one family (Holm 1979, Scand. J.
    Statist. 6, 65-70).
    """
    # Imported late: SciPy takes long to load.
    from scipy.special import stdtr

    rating = resampled.rating
    complete = np.asarray(np.isfinite(rating[1:]).all(axis=1))
    clusters = len(np.unique(games.cluster))
    if (
        np.isnan(rating[0]).any()
        or clusters < 2
        or not len(complete)
        or 1 - complete.mean() > (1 - scoring.confidence) / 2
    ):
        return None
    i, j = np.triu_indices(len(games.names), 1)
    # shape (pairs of systems,)
    resamples = rating[1:][complete]
    differences = resamples[:, i] - resamples[:, j]
    few_clusters = (clusters / (clusters - 1)) ** 0.5
    error = differences.std(axis=0) * few_clusters
    size = np.abs(rating[0, i] - rating[0, j])
    t_values = np.divide(
        size, error, out=np.where(size > FUZZ, np.inf, 0.0), where=error > 1e-12
    )
    p_values = 2 * stdtr(clusters - 1, -t_values)
    adjusted = holm(p_values.tolist())
    table = np.ones((len(games.names),) * 2)
    table[i, j] = adjusted
    table[j, i] = adjusted
    return table


def _separated_share(
    games: Games, scoring: ScoringConfig, resampled: Standing, p_values: Floats | None
) -> Metric:
    """Return `ranking/separated`: the share of pairs of systems whose ratings differ by
    Holm's adjusted tests.
    """
    name = "ranking/separated"
    n = len(games.names) * (len(games.names) - 1) // 2
    if p_values is None:
        if np.isnan(resampled.rating[0]).any():
            why = NO_MAXIMUM
        else:
            why = "too few resamples determine the ratings"
        return Metric(name, None, n=n, missing=games.missing, note=why)
    i, j = np.triu_indices(len(games.names), 1)
    share = round_metric((p_values[i, j] <= 1 - scoring.confidence).mean())
    return Metric(
        name,
        share,
        n=n,
        missing=games.missing,
        note="a count of tests, adjusted together (Holm)",
    )


def by_value(values: Floats) -> Ints:
    """Return the indices of systems from the highest value to the lowest, NaN last;
    equal to 6 decimals, by name.
    """
    return np.argsort(-np.nan_to_num(np.round(values, 6), nan=-np.inf), kind="stable")


def _ranking_content(
    games: Games,
    scoring: ScoringConfig,
    resampled: Standing,
    metrics_by_system: Sequence[Mapping[str, Metric]],
    p_values: Floats | None,
) -> JsonObject:
    """Return the content of ranking.json: the systems from best to worst, and their games.

    Args:
        games: the comparisons.
        scoring: the level of the intervals.
        resampled: (1 + resamples, systems) the results; row 0 is observed, the others resampled.
        metrics_by_system: the metrics of each system by name, by index into `games.names`.
        p_values: (systems, systems) Holm's p-values of equal ratings, `None` without ratings.
    """
    ratings = resampled.rating[0]
    has_ratings = not np.isnan(ratings).all()
    ranked_by = ratings if has_ratings else resampled.win_rate[0]
    # Indices into `games.names`, the best system first.
    order = by_value(ranked_by).tolist()
    wins, ties = games.tables()
    return {
        "model": MODEL,
        "confidence": scoring.confidence,
        "games": len(games),
        "missing": games.missing,
        "log_tie_parameter": round_metric(resampled.tie[0]),
        "systems": [
            {
                "system": games.names[system],
                **_metric_fields(metrics_by_system[system]),
                "p_holm_of_first": _p_value_of_first(p_values, system, order[0]),
            }
            for system in order
        ],
        "wins": _in_order(wins, order),
        "ties": _in_order(ties, order),
        "at_equal_length": _ratings_at_equal_length(games, scoring, order),
    }


def _metric_fields(metrics: Mapping[str, Metric]) -> JsonObject:
    """Return a system's metrics as fields of ranking.json; `note` only where there is one."""
    fields: JsonObject = {}
    for name, metric in metrics.items():
        fields[name] = {
            "value": metric.value,
            "low": metric.low,
            "high": metric.high,
            "n": metric.n,
        }
        if metric.note:
            fields[name]["note"] = metric.note
    return fields


def _p_value_of_first(p_values: Floats | None, system: int, first: int) -> float | None:
    """Return the p-value of equal ratings with the first system, `None` for itself or
    without ratings.
    """
    if p_values is None or system == first:
        return None
    return round_metric(p_values[system, first])


def _in_order(table: Floats, order: Sequence[int]) -> list[list[int]]:
    """Return a (systems, systems) table of counts, rows and columns in the order of the ranking."""
    counts: list[list[int]] = table[np.ix_(order, order)].astype(int).tolist()
    return counts


def _ratings_at_equal_length(
    games: Games, scoring: ScoringConfig, order: Sequence[int]
) -> JsonObject:
    """Return the effect of length and ratings without it, or a note if they are not determined."""
    adjusted = at_equal_length(games)
    if adjusted is None:
        return {
            "note": (
                "not determined: responses have equal length, or length is confounded with the"
                " system"
            )
        }
    # The half-width of an interval in standard errors.
    half_width = NormalDist().inv_cdf((1 + scoring.confidence) / 2)

    def in_points(value: float, error: float) -> dict[str, float | None]:
        ends = {
            "value": value,
            "low": value - half_width * error,
            "high": value + half_width * error,
        }
        return {name: round_metric(end * POINTS) for name, end in ends.items()}

    return {
        "effect_of_length": in_points(adjusted.effect, adjusted.effect_error),
        "unit": "points of rating for one standard deviation of the difference of log-lengths",
        "systems": [
            {
                "system": games.names[system],
                "rating": in_points(adjusted.ratings[system], adjusted.errors[system]),
            }
            for system in order
        ],
    }
