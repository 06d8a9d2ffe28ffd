"""Ratings, win rates and ranks of systems with intervals from resampled clusters of cases."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from math import log, log10
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evalkit.config import ScoringConfig
from evalkit.scoring.columns.cases import TIE, A, B, flat, system_codes
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import FUZZ, Bools, Bounds, Codes, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, as_metric
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired_tests import holm
from evalkit.types import Case, Metric


@dataclass(frozen=True, slots=True)
class Games:
    """Comparisons of two systems, `i` < `j` by index into `names`.

    Attributes:
        names: the systems.
        cluster: (games,) the cluster of each game.
        i: (games,) the first system.
        j: (games,) the second system.
        winner: (games,) A if the first system won, B if the second did, or TIE.
        log_ratio: (games,) the log of the first response's characters plus one minus that of the second's.
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

    def codes(self) -> Ints:
        """Return each game's index into a flat table of wins (row beats column) followed by a flat table of ties."""
        size = len(self.names)
        own, other = self.i * size + self.j, self.j * size + self.i
        return np.select([self.winner == TIE, self.winner == A], [size * size + own, own], other)

    def tables(self, winner: Codes | None = None) -> tuple[Floats, Floats]:
        """Return wins (row beats column) and ties (symmetric) as (systems, systems) tables."""
        size = len(self.names)
        who = self.winner if winner is None else winner
        wins, ties = np.zeros((size, size)), np.zeros((size, size))
        for code, first, second in ((A, self.i, self.j), (B, self.j, self.i)):
            np.add.at(wins, (first[who == code], second[who == code]), 1.0)
        np.add.at(ties, (self.i[who == TIE], self.j[who == TIE]), 1.0)
        return wins, ties + ties.T


def games_of(cases: Sequence[Case], verdicts: VerdictColumns, clusters: Clusters) -> Games:
    """Return every comparison between two named systems; pairs of one system or of an unknown one are ignored."""
    names, system = system_codes(cases)
    lengths = np.log1p(flat(cases, lambda case: [len(response.text) for response in case.responses]))
    pairs = verdicts.pairs
    first, second = pairs.sides(system)
    rivals = (first >= 0) & (second >= 0) & (first != second)
    used = np.flatnonzero(rivals & verdicts.present)
    side = np.where(first < second, 1, -1)[used].astype(np.int8)
    log_ratio = np.subtract(*pairs.sides(lengths))[used] * side
    low, high = np.minimum(first, second)[used], np.maximum(first, second)[used]
    winner = (verdicts.winner[used] * side).astype(np.int8)
    missing = int((rivals & ~verdicts.present).sum())
    compared, places = np.unique(np.concatenate([low, high]), return_inverse=True)
    (low, high), kept = places.reshape(2, -1), tuple(names[k] for k in compared.tolist())
    return Games(kept, clusters.of_rows(pairs.case[used]), low, high, winner, log_ratio, used, side, clusters, missing)


_FIT_STEPS = 60
MAX_RATING = 12.0
"""Ratings beyond this (odds of 160,000) are diverging, because some system won or lost every game."""


def fit(wins: Floats, ties: Floats) -> tuple[Floats, Floats]:
    """Return ratings in natural units with mean 0, (rows, systems), and log v, (rows,), for stacks of tables.

    A row whose likelihood has no finite maximum, or whose systems are not connected by games, is NaN. Without any tie,
    log v is -inf.

    Args:
        wins: (rows, systems, systems) the wins of row over column.
        ties: (rows, systems, systems) the ties, symmetric.
    """
    rows, size, _ = wins.shape
    ratings, tie = np.zeros((rows, size)), np.zeros(rows)
    games = wins + np.swapaxes(wins, 1, 2) + ties
    tied = ties.sum(axis=(1, 2)) / 2
    tie[tied == 0] = -np.inf
    scores = wins.sum(axis=2) + ties.sum(axis=2) / 2
    active = np.arange(rows)[(wins.sum(axis=(1, 2)) > 0) & _connected(games)]
    converged = np.zeros(rows, dtype=bool)
    for _ in range(_FIT_STEPS):
        step = _newton(ratings[active], tie[active], games[active], scores[active], tied[active])
        ratings[active] += step[:, :size]
        tie[active] += np.where(tied[active] > 0, step[:, size], 0.0)
        diverged = (np.abs(ratings[active]) > MAX_RATING).any(axis=1)
        done = np.abs(step).max(axis=1, initial=0.0) < 1e-9
        converged[active[done & ~diverged]] = True
        active = active[~done & ~diverged]
        if not len(active):
            break
    ratings[~converged], tie[~converged] = np.nan, np.nan
    return ratings, tie


def _connected(games: Floats) -> Bools:
    """Return in which rows every system is connected to every other by games, (rows,)."""
    reach = games > 0
    for _ in range(max(1, int(np.ceil(np.log2(games.shape[1]))))):
        reach |= (reach.astype(np.float64) @ reach.astype(np.float64)) > 0
    size = games.shape[1]
    return np.asarray((reach | np.eye(size, dtype=bool)).all(axis=(1, 2)))


def chances(difference: Floats, tie: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the probabilities that the first wins, that they tie, and that the second wins.

    Args:
        difference: the rating of the first minus that of the second, in natural units.
        tie: log v of Davidson's model.
    """
    half = np.asarray(difference) / 2
    top = np.maximum(np.abs(half), tie)
    first, both, second = np.exp(half - top), np.exp(tie - top), np.exp(-half - top)
    total = first + both + second
    return first / total, both / total, second / total


def _newton(ratings: Floats, tie: Floats, games: Floats, scores: Floats, tied: Floats) -> Floats:
    """Return one Newton step of the concave log-likelihood, shortened to at most 2."""
    size = ratings.shape[1]
    difference = ratings[:, :, None] - ratings[:, None, :]
    first, both, second = chances(difference, np.broadcast_to(tie[:, None, None], difference.shape))
    gradient = np.concatenate(
        [scores - (games * (first + both / 2)).sum(axis=2), (tied - (games * both).sum(axis=(1, 2)) / 2)[:, None]],
        axis=1,
    )
    spread = games * ((first + second) / 4 - ((first - second) / 2) ** 2)
    mixed = (games * both * (first - second) / 2).sum(axis=2)
    curve = np.zeros((len(ratings), size + 1, size + 1))
    curve[:, :size, :size] = -spread
    index = np.arange(size)
    curve[:, index, index] += spread.sum(axis=2)
    # Ratings are identified up to a constant; this keeps their mean.
    curve[:, :size, :size] += 1.0 / size
    curve[:, :size, size] = curve[:, size, :size] = -mixed
    curve[:, size, size] = (games * both * (1 - both)).sum(axis=(1, 2)) / 2
    untied = tied == 0
    curve[untied, size, :] = curve[untied, :, size] = 0.0
    curve[untied, size, size], gradient[untied, size] = 1.0, 0.0
    step = np.linalg.solve(curve + 1e-12 * np.eye(size + 1), gradient[:, :, None])[:, :, 0]
    return np.asarray(step / np.maximum(1.0, np.abs(step).max(axis=1, initial=0.0) / 2)[:, None])


Places: TypeAlias = NDArray[np.integer[Any]]
STEP = 16.0
SCALE = 400.0
ORDERS = 200
WORK = 4_000_000
"""The maximum number of games over all orders; beyond it, each order is a random subset."""


def elo(systems: int, i: Places, j: Places, score: NDArray[Any], *, step: float = STEP) -> Floats:
    """Return Elo ratings with mean 0, (sequences, systems), after sequences of games from left to right.

    After each game, step × (score - expected) moves from one system to the other, with expected = 1/(1 + 10^((r_j -
    r_i)/400)) (Elo 1978, The Rating of Chessplayers, section 1.6).

    Args:
        systems: the number of systems.
        i: (sequences, games) the first systems.
        j: (sequences, games) the second systems.
        score: (sequences, games) 1 if the first system won, 0 if it lost, 0.5 for a tie, NaN for no game.
        step: the K-factor.
    """
    ratings = np.zeros((len(i), systems))
    row = np.arange(len(i))
    for first, second, result in zip(i.T, j.T, score.T, strict=True):
        expected = 1 / (1 + 10 ** ((ratings[row, second] - ratings[row, first]) / SCALE))
        move = np.where(np.isnan(result), 0.0, step * (result - expected))
        ratings[row, first] += move
        ratings[row, second] -= move
    return ratings


def elo_over_orders(games: Games, *, resampled: bool, seed: int, orders: int = ORDERS) -> Floats:
    """Return the ratings after each of many random orders of all games, or of the games of resampled clusters."""
    generator = np.random.default_rng(seed)
    replay = deepcopy(generator)
    clusters, place = np.unique(games.cluster, return_inverse=True)

    def sampled(source: np.random.Generator) -> Ints:
        """Return the games of clusters sampled with replacement, or all games."""
        if not resampled:
            return np.arange(len(games))
        times = np.bincount(source.integers(0, len(clusters), len(clusters)), minlength=len(clusters))
        return np.repeat(np.arange(len(games)), times[place])

    # Sampled twice, so that not all orders are held in memory at once.
    longest = max(len(sampled(generator)) for _ in range(orders))
    limit = min(longest, max(1, WORK // orders))
    table = np.full((orders, limit), -1, dtype=np.int32)
    for row in table:
        chosen = generator.permutation(sampled(replay))[:limit]
        row[: len(chosen)] = chosen
    score = np.where(table < 0, np.nan, (games.winner.astype(np.float32)[table] + 1) / 2)
    i, j = (side.astype(np.int32)[table] for side in (games.i, games.j))
    return elo(len(games.names), i, j, score)


_CONTROLLED_STEPS = 100


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class _Fit:
    """The likelihood of games under Davidson's model with a covariate.

    Attributes:
        design: (games, systems + 1) the sparse design matrix.
        outcome: (games,) 1/2 if the first system won, -1/2 if it lost, 0 for a tie.
        tied: (games,) 1 for a tie.
        ties: whether there are any ties.
    """

    design: Any
    outcome: Floats
    tied: Floats
    ties: bool

    def expected(self, at: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return each game's residuals of outcome and tie, and the variance and tie probability for the information."""
        tie = np.full(len(self.outcome), at[-1] if self.ties else -np.inf)
        first, both, second = chances(self.design @ at[:-1], tie)
        mean = (first - second) / 2
        return self.outcome - mean, self.tied - both, (first + second) / 4 - mean**2, both

    def information(self, residual: Floats, spread: Floats, both: Floats) -> Floats:
        """Return minus the second derivatives of the log-likelihood, regularized along the ratings' common constant."""
        size = self.design.shape[1]
        matrix = np.zeros((size + 1, size + 1))
        matrix[:size, :size] = (self.design.T @ self.design.multiply(spread[:, None])).toarray()
        matrix[: size - 1, : size - 1] += 1.0 / (size - 1)
        cross = self.design.T @ (-both * (self.outcome - residual))
        matrix[:size, size] = matrix[size, :size] = cross if self.ties else 0.0
        matrix[size, size] = (both * (1 - both)).sum() if self.ties else 1.0
        return matrix


def at_equal_length(games: Games) -> ControlledRatings | None:
    """Return ratings and the effect of length, estimated jointly, or `None` if the games do not determine them.

    The log odds of a game include the effect times the standardized difference of log lengths, the idea of AlpacaEval 2
    (arXiv 2404.04475) for any number of systems. Errors are sandwich estimates (White 1982, Econometrica 50, 1-25).
    """
    deviation = float(np.std(games.log_ratio))
    if deviation < 1e-9:
        return None
    model = _Fit(
        _design(games, games.log_ratio / deviation),
        np.select([games.winner == A, games.winner == B], [0.5, -0.5], 0.0),
        (games.winner == TIE).astype(np.float64),
        bool((games.winner == TIE).any()),
    )
    estimate = _maximize(model)
    return None if estimate is None else _controlled_ratings(games, model, estimate)


def _design(games: Games, length: Floats) -> Any:
    from scipy.sparse import csr_array

    rows = np.arange(len(games))
    values = np.concatenate([np.ones(len(games)), -np.ones(len(games)), length])
    columns = np.concatenate([games.i, games.j, np.full(len(games), len(games.names))])
    return csr_array((values, (np.tile(rows, 3), columns)), shape=(len(games), len(games.names) + 1))


def _maximize(model: _Fit) -> Floats | None:
    """Return the estimate (ratings, effect, log v), or `None` if it diverges or is not unique."""
    at = np.zeros(model.design.shape[1] + 1)
    for _ in range(_CONTROLLED_STEPS):
        residual, tied, spread, both = model.expected(at)
        information = model.information(residual, spread, both)
        gradient = np.append(model.design.T @ residual, tied.sum() if model.ties else 0.0)
        if np.linalg.cond(information) > 1e10 or np.abs(at).max() > MAX_RATING:
            return None
        step = np.linalg.solve(information, gradient)
        at = at + step / max(1.0, float(np.abs(step).max()) / 2)
        if np.abs(step).max() < 1e-9:
            return at
    return None


def _controlled_ratings(games: Games, model: _Fit, at: Floats) -> ControlledRatings:
    from scipy.sparse import csr_array

    residual, tied, spread, both = model.expected(at)
    bread = np.linalg.inv(model.information(residual, spread, both))
    shape = (games.clusters.count, len(games))
    cluster = csr_array((np.ones(len(games)), (games.cluster, np.arange(len(games)))), shape=shape)
    scores = np.column_stack(
        [(cluster @ model.design.multiply(residual[:, None])).toarray(), cluster @ tied * model.ties]
    )
    errors = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread))
    size = len(games.names)
    return ControlledRatings(at[:size] - at[:size].mean(), errors[:size], float(at[size]), float(errors[size]))


POINTS = SCALE / log(10)
"""Points per natural unit: ratings are reported on Elo's scale with mean 0, where 400 points are odds of ten to one."""
MAX_SYSTEMS = 20
"""Each system has its own metrics up to this number of systems; ranking.json always has all."""
BLOCK = 2**20
NO_MAXIMUM = "some system won or lost every game against the others: its rating has no finite estimate"
MODEL = "Bradley-Terry with ties (Davidson 1970), in Elo points: 400 points are ten wins to one loss"


@dataclass(frozen=True, slots=True)
class Standing:
    """The results of each system, (rows, systems): first the observed row, then one for each resample."""

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

    The win rate counts a tie as half. Copeland's score is the number of systems beaten more often than not, minus the
    number that beat this system more often (Copeland 1951, as in Saari and Merlin 1996, Econ. Theory 8, 51-76).

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
    from scipy.sparse import csr_array

    size = len(games.names)
    shape = (2 * size * size, games.clusters.count)
    counts = csr_array((np.ones(len(games)), (games.codes(), games.cluster)), shape=shape)
    totals = [np.asarray(counts.sum(axis=1)).reshape(1, -1)]
    totals += [(counts @ weights.T).T for _, weights in games.clusters.draw(scoring.bootstrap, scoring.seed)]
    every = np.concatenate(totals).reshape(-1, 2, size, size)
    ties = every[:, 1] + np.swapaxes(every[:, 1], 1, 2)
    step = max(1, BLOCK // (size * size))
    parts = [standing(every[k : k + step, 0], ties[k : k + step]) for k in range(0, len(every), step)]
    columns = ((getattr(part, name) for part in parts) for name in ("rating", "tie", "win_rate", "copeland"))
    return Standing(*(np.concatenate(list(column)) for column in columns))


def rank_systems(games: Games, scoring: ScoringConfig) -> tuple[list[Metric], dict[str, Any]]:
    """Return the metrics of the ranking and the content of ranking.json; empty if no two systems were compared."""
    if not games.compared:
        return [], {}
    found = resampled_standing(games, scoring)
    rows = [_row(games, scoring, found, place) for place in range(len(games.names))]
    elo = elo_over_orders(games, resampled=False, seed=scoring.seed).mean(axis=0)
    spread = elo_over_orders(games, resampled=True, seed=scoring.seed)
    for place, row in enumerate(rows):
        row["elo"] = _system_metric(games, scoring, "elo", place, float(elo[place]), spread[:, place])
    p_values = _pairwise_p_values(games, scoring, found)
    separated = _separated(games, scoring, found, p_values)
    metrics = (
        [metric for row in rows[:MAX_SYSTEMS] for metric in (row["rating"], row["win_rate"])]
        if len(rows) <= MAX_SYSTEMS
        else []
    )
    return [*metrics, separated], _details(games, scoring, found, rows, p_values)


def _row(games: Games, scoring: ScoringConfig, found: Standing, place: int) -> dict[str, Any]:
    rank = found.rank
    columns = {"rating": found.rating, "win_rate": found.win_rate, "copeland": found.copeland, "rank": rank}
    row = {
        name: _system_metric(games, scoring, name, place, float(c[0, place]), c[1:, place])
        for name, c in columns.items()
    }
    return row | {
        name: _integer_interval(row[name], columns[name][1:, place], scoring) for name in ("copeland", "rank")
    }


def _integer_interval(metric: Metric, draws: Floats, scoring: ScoringConfig) -> Metric:
    """Return an integer metric with integer ends of its interval, which may be equal to it."""
    defined = draws[np.isfinite(draws)]
    tail = (1 - scoring.confidence) / 2
    if metric.value is None or not len(defined) or 1 - len(defined) / len(draws) > tail:
        return metric
    low, high = np.quantile(defined, [tail, 1 - tail], method="inverted_cdf")
    return replace(metric, low=round_metric(low), high=round_metric(high), note=None)


def _system_metric(games: Games, scoring: ScoringConfig, what: str, place: int, value: float, draws: Floats) -> Metric:
    own_games = (games.i == place) | (games.j == place)
    statistic = Statistic(
        f"ranking/{what}/{games.names[place]}",
        np.zeros((games.clusters.count, 0)),
        lambda _: np.full(1, value),
        n=int(own_games.sum()),
        missing=games.missing,
        strict=True,
        covered=np.bincount(games.cluster[own_games], minlength=games.clusters.count) > 0,
        reach=partial(_rating_reach, value) if what == "rating" else None,
        limits=_standing_limits(what, len(games.names)),
        why=NO_MAXIMUM if own_games.any() else "this system was compared with no other",
    )
    return as_metric(statistic, value, draws, scoring, games.clusters.of_clusters())


def _standing_limits(what: str, systems: int) -> Bounds | None:
    """Return the lowest and highest Copeland score or rank; `None` where the catalog has them."""
    return {"copeland": (1.0 - systems, systems - 1.0), "rank": (1.0, float(systems))}.get(what)


def _rating_reach(value: float, share: float) -> Bounds:
    """Return the ratings if the share of the games were all lost, or all won, against an opponent of rating 0."""
    expected = 1 / (1 + 10 ** (-value / SCALE))
    low, high = (1 - share) * expected, (1 - share) * expected + share
    return SCALE * log10(low / (1 - low)), SCALE * log10(high / (1 - high))


def _pairwise_p_values(games: Games, scoring: ScoringConfig, found: Standing) -> Floats | None:
    """Return Holm's p-values of equal ratings as a symmetric (systems, systems) table, `None` without ratings.

    For each pair of systems it is a t-test of the difference by its standard error over resamples, with the degrees of
    freedom of the clusters. All pairs are one family (Holm 1979, Scand. J. Statist. 6, 65-70).
    """
    from scipy.special import stdtr

    rating = found.rating
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
    error = (rating[1:][complete][:, i] - rating[1:][complete][:, j]).std(axis=0) * (clusters / (clusters - 1)) ** 0.5
    size = np.abs(rating[0, i] - rating[0, j])
    t_values = np.divide(size, error, out=np.where(size > FUZZ, np.inf, 0.0), where=error > 1e-12)
    table = np.ones((len(games.names),) * 2)
    table[i, j] = table[j, i] = holm((2 * stdtr(clusters - 1, -t_values)).tolist())
    return table


def _separated(games: Games, scoring: ScoringConfig, found: Standing, p_values: Floats | None) -> Metric:
    """Return `ranking/separated`: the share of pairs of systems whose ratings differ by Holm's adjusted tests."""
    name, n = "ranking/separated", len(games.names) * (len(games.names) - 1) // 2
    if p_values is None:
        why = NO_MAXIMUM if np.isnan(found.rating[0]).any() else "too few resamples determine the ratings"
        return Metric(name, None, n=n, missing=games.missing, note=why)
    i, j = np.triu_indices(len(games.names), 1)
    share = round_metric((p_values[i, j] <= 1 - scoring.confidence).mean())
    return Metric(name, share, n=n, missing=games.missing, note="a count of tests, adjusted together (Holm)")


def by_value(values: Floats) -> Ints:
    """Return the indices of systems from the highest value to the lowest, NaN last; equal to 6 decimals, by name."""
    return np.argsort(-np.nan_to_num(np.round(values, 6), nan=-np.inf), kind="stable")


def _details(
    games: Games, scoring: ScoringConfig, found: Standing, rows: Sequence[dict[str, Any]], p_values: Floats | None
) -> dict[str, Any]:
    by = found.win_rate[0] if np.isnan(found.rating[0]).all() else found.rating[0]
    order = [int(k) for k in by_value(by)]
    wins, ties = games.tables()
    tables = {
        name: table[np.ix_(order, order)].astype(int).tolist() for name, table in (("wins", wins), ("ties", ties))
    }
    return {
        "model": MODEL,
        "confidence": scoring.confidence,
        "games": len(games),
        "missing": games.missing,
        "log_tie_parameter": round_metric(found.tie[0]),
        "systems": [
            {"system": games.names[k]}
            | {name: _interval_json(m) for name, m in rows[k].items()}
            | {"p_holm_of_first": None if p_values is None or k == order[0] else round_metric(p_values[k, order[0]])}
            for k in order
        ],
        **tables,
        "at_equal_length": _length_details(games, scoring, order),
    }


def _interval_json(metric: Metric) -> dict[str, Any]:
    kept = {"value": metric.value, "low": metric.low, "high": metric.high, "n": metric.n}
    return kept | ({"note": metric.note} if metric.note else {})


def _length_details(games: Games, scoring: ScoringConfig, order: Sequence[int]) -> dict[str, Any]:
    found = at_equal_length(games)
    if found is None:
        return {"note": "not determined: responses have equal length, or length is confounded with the system"}
    half = NormalDist().inv_cdf((1 + scoring.confidence) / 2)

    def numbers(value: float, error: float) -> dict[str, float | None]:
        return {
            "value": round_metric(value),
            "low": round_metric(value - half * error),
            "high": round_metric(value + half * error),
        }

    return {
        "effect_of_length": numbers(found.effect * POINTS, found.effect_error * POINTS),
        "unit": "points of rating for one standard deviation of the difference of log-lengths",
        "systems": [
            {"system": games.names[k], "rating": numbers(found.ratings[k] * POINTS, found.errors[k] * POINTS)}
            for k in order
        ],
    }
