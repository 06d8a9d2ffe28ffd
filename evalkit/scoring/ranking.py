"""Which system is better: ratings, win rates and ranks with intervals, clusters of cases resampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import NormalDist
from typing import Any

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.scoring.bootstrap import Statistic, as_metric, divide
from evalkit.scoring.columns import FUZZ, Floats
from evalkit.scoring.davidson import fit
from evalkit.scoring.elo import SCALE, elo_over_orders
from evalkit.scoring.paired_tests import holm
from evalkit.scoring.style import at_equal_length
from evalkit.scoring.systems import Games
from evalkit.scoring.values import tidy
from evalkit.types import Metric

POINTS = SCALE / log(10)
"""Ratings are handed out on Elo's scale, on which 400 points are odds of ten to one; their mean is 0."""
NAMED = 20
"""Up to so many systems have metrics of their own; ranking.json always has all of them."""
BLOCK = 2**20
NO_MAXIMUM = "some system won, or lost, every game against the others: its rating has no finite estimate"
MODEL = "Bradley-Terry with ties (Davidson 1970), in points of Elo's scale: 400 are ten wins to one loss"


@dataclass(frozen=True, slots=True)
class Standing:
    """Numbers of each system (rows × systems): the observed row first, then one for each resample."""

    rating: Floats
    tie: Floats
    win_rate: Floats
    copeland: Floats

    @property
    def rank(self) -> Floats:
        """The rank by rating, 1 the best; equals share the better rank."""
        ahead = self.rating[:, None, :] > self.rating[:, :, None] + FUZZ
        return np.where(np.isnan(self.rating), np.nan, 1.0 + ahead.sum(axis=2))


def standing(wins: Floats, ties: Floats) -> Standing:
    """Return what stacks of tables of wins and (symmetric) ties come to.

    The win rate counts a tie as half; Copeland's score is the number of systems beaten more often than they won, less
    the number of those that won more often (Copeland 1951, as in Saari and Merlin 1996, Econ. Theory 8, 51-76).
    """
    rating, tie = fit(wins, ties)
    played = (wins + np.swapaxes(wins, 1, 2) + ties).sum(axis=2)
    rate = divide(wins.sum(axis=2) + ties.sum(axis=2) / 2, played)
    copeland = np.sign(wins - np.swapaxes(wins, 1, 2)).sum(axis=2)
    return Standing(rating * POINTS, tie, rate, np.where(played > 0, copeland, np.nan))


def resampled_standing(games: Games, scoring: ScoringConfig) -> Standing:
    """Return the standing as observed and in each resample of the clusters."""
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
    """Return the metrics of the ranking and what ranking.json holds; nothing where no two systems were compared."""
    if not games.met:
        return [], {}
    found = resampled_standing(games, scoring)
    rows = [_row(games, scoring, found, place) for place in range(len(games.names))]
    elo = elo_over_orders(games, resampled=False, seed=scoring.seed).mean(axis=0)
    spread = elo_over_orders(games, resampled=True, seed=scoring.seed)
    for place, row in enumerate(rows):
        row["elo"] = _with(games, scoring, "elo", place, float(elo[place]), spread[:, place])
    apart = _apart(games, scoring, found)
    separated = _separated(games, scoring, found, apart)
    metrics = (
        [metric for row in rows[:NAMED] for metric in (row["rating"], row["win_rate"])] if len(rows) <= NAMED else []
    )
    return [*metrics, separated], _details(games, scoring, found, rows, apart)


def _row(games: Games, scoring: ScoringConfig, found: Standing, place: int) -> dict[str, Any]:
    rank = found.rank
    columns = {"rating": found.rating, "win_rate": found.win_rate, "copeland": found.copeland, "rank": rank}
    row = {name: _with(games, scoring, name, place, float(c[0, place]), c[1:, place]) for name, c in columns.items()}
    return row | {name: _whole(row[name], columns[name][1:, place], scoring) for name in ("copeland", "rank")}


def _whole(metric: Metric, draws: Floats, scoring: ScoringConfig) -> Metric:
    """Return a metric in whole numbers with ends that are whole, and the same ones where it never varies."""
    defined = draws[np.isfinite(draws)]
    tail = (1 - scoring.confidence) / 2
    if metric.value is None or not len(defined) or 1 - len(defined) / len(draws) > tail:
        return metric
    low, high = np.quantile(defined, [tail, 1 - tail], method="inverted_cdf")
    return replace(metric, low=tidy(low), high=tidy(high), note=None)


def _with(games: Games, scoring: ScoringConfig, what: str, place: int, value: float, draws: Floats) -> Metric:
    mine = (games.i == place) | (games.j == place)
    statistic = Statistic(
        f"ranking/{what}/{games.names[place]}",
        np.zeros((games.clusters.count, 0)),
        lambda _: np.full(1, value),
        n=int(mine.sum()),
        missing=games.missing,
        strict=True,
        covered=np.bincount(games.cluster[mine], minlength=games.clusters.count) > 0,
        why=NO_MAXIMUM if mine.any() else "this system was compared with no other",
    )
    return as_metric(statistic, value, draws, scoring, games.clusters.themselves())


def _apart(games: Games, scoring: ScoringConfig, found: Standing) -> Floats | None:
    """Return Holm's p-values of "two systems have one rating", a symmetric table; none where ratings are not known.

    Of each pair a t-test of the difference by its standard error over the resamples, with the clusters' degrees of
    freedom; all pairs are one family (Holm 1979, Scand. J. Statist. 6, 65-70).
    """
    from scipy.special import stdtr

    rating = found.rating
    sure = np.asarray(np.isfinite(rating[1:]).all(axis=1))
    clusters = len(np.unique(games.cluster))
    if np.isnan(rating[0]).any() or clusters < 2 or not len(sure) or 1 - sure.mean() > (1 - scoring.confidence) / 2:
        return None
    i, j = np.triu_indices(len(games.names), 1)
    error = (rating[1:][sure][:, i] - rating[1:][sure][:, j]).std(axis=0) * (clusters / (clusters - 1)) ** 0.5
    size = np.abs(rating[0, i] - rating[0, j])
    steps = np.divide(size, error, out=np.where(size > FUZZ, np.inf, 0.0), where=error > 1e-12)
    table = np.ones((len(games.names),) * 2)
    table[i, j] = table[j, i] = holm((2 * stdtr(clusters - 1, -steps)).tolist())
    return table


def _separated(games: Games, scoring: ScoringConfig, found: Standing, apart: Floats | None) -> Metric:
    """Return `ranking/separated`: the share of pairs of systems whose ratings differ, by Holm's adjusted tests."""
    name, n = "ranking/separated", len(games.names) * (len(games.names) - 1) // 2
    if apart is None:
        why = NO_MAXIMUM if np.isnan(found.rating[0]).any() else "too few resamples determine the ratings"
        return Metric(name, None, n=n, missing=games.missing, note=why)
    i, j = np.triu_indices(len(games.names), 1)
    share = tidy((apart[i, j] <= 1 - scoring.confidence).mean())
    return Metric(name, share, n=n, missing=games.missing, note="a count of tests, adjusted together (Holm)")


def _details(
    games: Games, scoring: ScoringConfig, found: Standing, rows: Sequence[dict[str, Any]], apart: Floats | None
) -> dict[str, Any]:
    by = found.win_rate[0] if np.isnan(found.rating[0]).all() else found.rating[0]
    order = [int(k) for k in np.argsort(-np.nan_to_num(by, nan=-np.inf), kind="stable")]
    wins, ties = games.tables()
    tables = {
        name: table[np.ix_(order, order)].astype(int).tolist() for name, table in (("wins", wins), ("ties", ties))
    }
    return {
        "model": MODEL,
        "confidence": scoring.confidence,
        "games": len(games),
        "missing": games.missing,
        "log_tie_parameter": tidy(found.tie[0]),
        "systems": [
            {"system": games.names[k]}
            | {name: _numbers(m) for name, m in rows[k].items()}
            | {"p_holm_of_first": None if apart is None or k == order[0] else tidy(apart[k, order[0]])}
            for k in order
        ],
        **tables,
        "at_equal_length": _length(games, scoring, order),
    }


def _numbers(metric: Metric) -> dict[str, Any]:
    kept = {"value": metric.value, "low": metric.low, "high": metric.high, "n": metric.n}
    return kept | ({"note": metric.note} if metric.note else {})


def _length(games: Games, scoring: ScoringConfig, order: Sequence[int]) -> dict[str, Any]:
    found = at_equal_length(games)
    if found is None:
        return {"note": "not determined: responses are of equal length, or length and system cannot be told apart"}
    half = NormalDist().inv_cdf((1 + scoring.confidence) / 2)

    def numbers(value: float, error: float) -> dict[str, float | None]:
        return {"value": tidy(value), "low": tidy(value - half * error), "high": tidy(value + half * error)}

    return {
        "effect_of_length": numbers(found.effect * POINTS, found.effect_error * POINTS),
        "unit": "points of rating for one standard deviation of the difference of log-lengths",
        "systems": [
            {"system": games.names[k], "rating": numbers(found.ratings[k] * POINTS, found.errors[k] * POINTS)}
            for k in order
        ],
    }
