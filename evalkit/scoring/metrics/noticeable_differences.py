"""The smallest difference of scores that labels, or the noise of repeats, confirm."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case
from evalkit.core.values import JsonObject
from evalkit.scoring.columns import TIE, VerdictColumns
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.metrics.ranking import (
    Games,
    by_value,
    games_of,
    rank_systems,
    standing,
)
from evalkit.scoring.stats.arrays import (
    FUZZ,
    Floats,
    Ints,
    divide,
    round_metric,
)
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import (
    Statistic,
    Table,
    Tabled,
    ratio,
    undefined,
)
from evalkit.scoring.verdicts.pairs import (
    at_threshold,
    judgment_values,
    useful_thresholds,
)

BINS = 20
STEPS = 50
ONCE_ONLY = "no request was repeated: set mode.samples above 1"
RESCALED = (
    "scores, and their noise, are rescaled within each case: "
    "use scoring.normalize=none or minmax"
)


THRESHOLDS = 21


def ranking_results(
    config: RunConfig,
    cases: Sequence[Case],
    verdicts: VerdictColumns,
    clusters: Clusters,
    judgments: JudgmentColumns,
) -> Tabled:
    """Return the ranking of systems, and `jnd/noise` and `jnd/labels`, both in units of
    `tie.threshold`.

    The votes of several judges have no just-noticeable difference.

    Args:
        config: the run's config.
        cases: the cases.
        verdicts: the verdicts.
        clusters: the clusters of the cases.
        judgments: all judgments.
    """
    games = games_of(cases, verdicts, clusters)
    ranked, table = rank_systems(games, config.scoring)
    if len(judgments.by) > 1:
        return ranked, {"ranking": table}
    noticed = [_margin_of_noise(config, verdicts), _margin_by_labels(verdicts)]
    return [*ranked, *noticed], {
        "ranking": table,
        "jnd": jnd_details(config, verdicts, games, noticed),
    }


def _margin_of_noise(config: RunConfig, verdicts: VerdictColumns) -> Statistic:
    """Return the margin that noise between repeats exceeds with probability 1 -
    `scoring.confidence`.

    It is z s sqrt(t / m), the coefficient of repeatability (Bland and Altman 1999, Stat. Methods
    Med. Res. 8, 135-160, section 4). s² is the mean variance of repeats of the same request, m the
    harmonic mean of the number of answers per margin, and t the number of terms of a margin: one
    for a pair, two for a difference of scores.
    """
    judgments = verdicts.judgments
    scored = verdicts.passes is None
    scoring = config.scoring
    values = judgment_values(config, verdicts)
    finite = np.isfinite(values)
    judged = (judgments.case[finite], judgments.i[finite], judgments.j[finite])
    swapped = judgments.swapped[finite]
    read = values[finite]
    unit = _numbers(*judged)
    request = _numbers(*judged, swapped.astype(np.int64))
    width = Scale.of(config.rubric).span if scored else 2.0
    span = width if scored and scoring.normalize == "minmax" else 1.0
    size = (
        NormalDist().inv_cdf((1 + scoring.confidence) / 2)
        * (2**0.5 if scored else 1.0)
        / span
    )
    # Squares within requests, their degrees of freedom, and two sums over units for 1 / answers.
    counts = np.bincount(request).astype(np.float64)
    answers = np.bincount(unit)[unit].astype(np.float64)
    mean = np.bincount(request, weights=read) / counts
    repeats = len(read) - len(counts)
    rescaled = scored and (
        scoring.normalize in ("zscore", "rank") or config.rubric.real
    )
    table = Table.of(
        verdicts.tally.of(judged[0]).columns(
            (read - mean[request]) ** 2,
            1.0 - 1.0 / counts[request],
            1 / answers**2,
            1 / answers,
        )
    )

    def value(totals: Floats) -> Floats:
        return size * np.sqrt(ratio(0, 1, totals) * ratio(2, 3, totals))

    # Two answers at opposite ends add half of the squared range, and one degree of freedom.
    rows = np.array(
        [[0.0 if rescaled else width**2 / 2, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    )
    rows += table.sums * [0, 0, 1, 1] / max(1, repeats)
    return Statistic(
        "jnd/noise",
        table,
        undefined if rescaled else value,
        reach=rows,
        n=repeats,
        covered=np.asarray(table.columns[1] > 0),
        missing=int((~finite).sum()),
        note=f"repeat noise alone exceeds it in {1 - scoring.confidence:.0%} of comparisons",
        why=RESCALED if rescaled else ONCE_ONLY,
    )


def _margin_by_labels(verdicts: VerdictColumns) -> Statistic:
    """Return the margin at which the judge's choice equals the label three times out of four.

    With P(correct) = 1 / (1 + exp(-b |margin|)), fitted by maximum likelihood to labeled pairs with
    a nonzero margin and a label other than tie, it is ln 3 / b: the 75% point of a forced choice
    (Luce 1959, Individual Choice Behavior, section 2.B). Margins are grouped into at most 20
    levels.
    """
    decided = (
        verdicts.labeled
        & (verdicts.pairs.label != TIE)
        & verdicts.present
        & (np.abs(np.nan_to_num(verdicts.margin)) > FUZZ)
    )
    sizes = np.abs(verdicts.margin[decided])
    right = (verdicts.lean == verdicts.pairs.label)[decided]
    level, levels = _levels(sizes)
    inside = [level == k for k in range(len(levels))]
    tally = verdicts.tally.where(decided)
    columns = tally.columns(*(right & rows for rows in inside), *inside)
    why = "the judge's choice does not equal the label more often than by chance at larger margins"
    if not len(sizes):
        why = "no labeled pair has a margin"
    elif right.all():
        why = "the judge's choice always equals the label: any margin is noticeable"
    return Statistic(
        "jnd/labels",
        columns or np.zeros((tally.cases, 0)),
        lambda totals: _margin_of_three_in_four(totals, levels),
        limits=(0.0, float(sizes.max(initial=0.0))),
        n=len(sizes),
        missing=int((verdicts.labeled & verdicts.missing).sum()),
        strict=True,
        note="margin at which the judge's choice equals the label three times out of four",
        why=why,
    )


def _numbers(*keys: Ints) -> Ints:
    """Return the number of each row's distinct combination of keys."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        # The code is renumbered after each key, so that it cannot overflow.
        code = np.unique(
            code * (int(key.max(initial=0)) + 1) + key, return_inverse=True
        )[1].reshape(-1)
    return code


def _levels(sizes: Floats) -> tuple[Ints, Floats]:
    """Return the level of each margin, (n,), and the mean margin of each level, (levels,)."""
    distinct, level = np.unique(np.round(sizes, 9), return_inverse=True)
    if len(distinct) > BINS:
        ends = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)[1:-1]))
        level = np.unique(np.searchsorted(ends, sizes), return_inverse=True)[1]
    return level, np.asarray(np.bincount(level, weights=sizes) / np.bincount(level))


def _margin_of_three_in_four(totals: Floats, levels: Floats) -> Floats:
    """Return ln 3 / b for each row by Newton's method from 0, NaN if b has no finite
    positive estimate.
    """
    # shape (rows, levels)
    hits = totals[:, : len(levels)]
    tries = totals[:, len(levels) :]
    wrong = hits.sum(axis=1) < tries.sum(axis=1)
    hits = hits[wrong]
    tries = tries[wrong]
    b = np.zeros(int(wrong.sum()))
    for _ in range(STEPS):
        # shape (wrong rows, levels)
        chance = 1 / (1 + np.exp(-np.clip(b[:, None] * levels, -700.0, 700.0)))
        slope = (levels * (hits - tries * chance)).sum(axis=1)
        curve = (levels**2 * tries * chance * (1 - chance)).sum(axis=1)
        step = np.nan_to_num(divide(slope, curve))
        b = b + step
        converged = np.abs(step) < 1e-8 * np.maximum(1.0, np.abs(b))
        if converged.all():
            break
    crossings = np.full(len(totals), np.nan)
    crossings[wrong] = divide(
        np.full(len(b), np.log(3.0)), np.where(converged & (b > 1e-9), b, 0.0)
    )
    return crossings


def jnd_details(
    config: RunConfig,
    verdicts: VerdictColumns,
    games: Games,
    statistics: Sequence[Statistic],
) -> JsonObject:
    """Return the content of jnd.json: both estimates, and the ranking of systems under
    each threshold.
    """
    estimates = {
        statistic.name.partition("/")[2]: round_metric(statistic.observed())
        for statistic in statistics
    }
    return {
        "configured": config.tie.threshold,
        **estimates,
        "ranking": (
            _rankings_by_threshold(config, verdicts, games, estimates.values())
            if games.compared
            else []
        ),
    }


def _rankings_by_threshold(
    config: RunConfig, verdicts: VerdictColumns, games: Games, estimates: Any
) -> list[JsonObject]:
    """Return a row for each threshold: its ties, its ranking and how much that changes."""
    useful = useful_thresholds(verdicts.margin)
    configured = config.tie.threshold
    chosen = useful[:: max(1, len(useful) // THRESHOLDS)]
    thresholds = sorted(
        {configured, *chosen, *(value for value in estimates if value is not None)}
    )
    # The winner of each game under each threshold, with ties allowed: (games,) each.
    winners = [
        at_threshold(verdicts, threshold, config.tie.min_confidence)[0][games.pair]
        * games.side
        for threshold in thresholds
    ]
    standings = standing(
        *(np.stack(tables) for tables in zip(*map(games.tables, winners), strict=True))
    )
    # shape (thresholds, systems)
    rated = np.where(np.isnan(standings.rating), standings.win_rate, standings.rating)
    actual = rated[thresholds.index(configured)]
    has_ratings = np.asarray(np.isfinite(standings.rating).all(axis=1))
    return [
        {
            "threshold": threshold,
            "tie_rate": round_metric((winners[index] == TIE).mean()),
            "order": [games.names[k] for k in by_value(rated[index]).tolist()],
            "kendall": _tau(rated[index], actual),
            "by": "rating" if has_ratings[index] else "win rate",
        }
        for index, threshold in enumerate(thresholds)
    ]


def _tau(row: Floats, reference: Floats) -> float | None:
    # Imported late: SciPy takes long to load.
    from scipy.stats import kendalltau

    if np.ptp(row) < 1e-12 or np.ptp(reference) < 1e-12:
        return None
    return round_metric(kendalltau(np.round(row, 9), np.round(reference, 9)).statistic)
