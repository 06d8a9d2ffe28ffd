"""The tie threshold as a just-noticeable difference, estimated from repeats and from labels."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.columns.cases import TIE
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.metrics.ranking import Games, by_value, standing
from evalkit.scoring.stats.arrays import FUZZ, Bools, Codes, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.bounded_intervals import mixed
from evalkit.scoring.verdicts.pairs import at_threshold, useful_thresholds
from evalkit.scoring.verdicts.weighting import judgment_values

BINS = 20
STEPS = 50
ONCE = "no request was repeated: set mode.samples above 1"
RESCALED = "scores, and their noise, are rescaled within each case: use scoring.normalize=none or minmax"
THRESHOLDS = 21


def jnd_statistics(config: RunConfig, verdicts: VerdictColumns, cases: int) -> list[Statistic]:
    """Return `jnd/noise` and `jnd/labels`, both in units of `tie.threshold`."""
    return [_from_noise(config, verdicts, cases), _from_labels(verdicts, cases)]


def _from_noise(config: RunConfig, verdicts: VerdictColumns, cases: int) -> Statistic:
    """Return the margin that noise between repeats exceeds with probability 1 - `scoring.confidence`.

    It is z s sqrt(t / m), the coefficient of repeatability (Bland and Altman 1999, Stat. Methods Med. Res. 8, 135-160,
    section 4). s² is the mean variance of repeats of the same request, m the harmonic mean of the number of answers per
    margin, and t the number of terms of a margin: one for a pair, two for a difference of scores.
    """
    values, cell, unit = _asked(config, verdicts)
    scored = verdicts.passes is None
    span = config.rubric.max - config.rubric.min if scored and config.scoring.normalize == "minmax" else 1.0
    size = NormalDist().inv_cdf((1 + config.scoring.confidence) / 2) * (2**0.5 if scored else 1.0) / span
    columns, repeats = _noise_sums(values, cell, unit, verdicts.judgments.case, cases)
    rescaled = scored and config.scoring.normalize in ("zscore", "rank")

    def value(totals: Floats) -> Floats:
        return size * np.sqrt(divide(totals[:, 0], totals[:, 1]) * divide(totals[:, 2], totals[:, 3]))

    # Two answers at opposite ends add half of the squared range, and one degree of freedom.
    width = config.rubric.max - config.rubric.min if scored else 2.0
    totals = columns.sum(axis=0)
    rows = np.array([[width**2 / 2, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]) + totals * [0, 0, 1, 1] / max(1, repeats)
    return Statistic(
        "jnd/noise",
        columns * (0.0 if rescaled else 1.0),
        value,
        reach=mixed(value, totals, rows, repeats),
        n=repeats,
        covered=columns[:, 1] > 0,
        missing=int(np.isnan(values).sum()),
        note=f"repeat noise alone exceeds it in {1 - config.scoring.confidence:.0%} of comparisons",
        why=RESCALED if rescaled else ONCE,
    )


def _asked(config: RunConfig, verdicts: VerdictColumns) -> tuple[Floats, Ints, Ints]:
    """Return each judgment's value, its request (unit and order) and its unit, the latter two as group numbers."""
    judgments = verdicts.judgments
    unit = _numbered(judgments.case, judgments.i, judgments.j)
    return judgment_values(config, verdicts), 2 * unit + judgments.swapped, unit


def _numbered(*keys: Ints) -> Ints:
    """Return for each row the number of its distinct combination of keys."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        code = code * (int(key.max(initial=0)) + 1) + key
    return np.unique(code, return_inverse=True)[1].reshape(-1)


def _noise_sums(values: Floats, cell: Ints, unit: Ints, case: Ints, cases: int) -> tuple[Floats, int]:
    """Return per case the squares within requests, their degrees of freedom, and two sums over units for 1 / answers.

    Args:
        values: (n,) the values, NaN if missing.
        cell: (n,) the request of each.
        unit: (n,) the unit of each.
        case: (n,) the case of each.
        cases: the number of cases.

    Returns:
        (cases, 4) the sums, and the degrees of freedom.
    """
    finite = np.isfinite(values)
    cell, unit, case, values = cell[finite], unit[finite], case[finite], values[finite]
    counts = np.bincount(cell).astype(np.float64)
    mean = divide(np.bincount(cell, weights=values).astype(np.float64), counts)
    tally = Tally(case, cases)
    each = 1.0 / counts[cell] if len(cell) else np.zeros(0)
    judgments = np.bincount(unit)[unit].astype(np.float64)
    columns = (
        tally((values - mean[cell]) ** 2),
        tally(1.0 - each),
        tally(divide(np.ones(len(unit)), judgments**2)),
        tally(divide(np.ones(len(unit)), judgments)),
    )
    return np.stack(columns, axis=1), int(len(cell) - np.count_nonzero(counts))


def _from_labels(verdicts: VerdictColumns, cases: int) -> Statistic:
    """Return the margin at which the judge's choice equals the label three times out of four.

    With P(correct) = 1 / (1 + exp(-b |margin|)), fitted by maximum likelihood to labeled pairs with a nonzero margin
    and a label other than tie, it is ln 3 / b: the 75% point of a forced choice (Luce 1959, Individual Choice Behavior,
    section 2.B). Margins are grouped into at most 20 levels.
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
    tally = Tally(verdicts.pairs.case[decided], cases)
    hits = [tally(right & (level == k)) for k in range(len(levels))]
    tries = [tally(level == k) for k in range(len(levels))]
    columns = np.stack([*hits, *tries], axis=1) if len(levels) else np.zeros((cases, 0))
    return Statistic(
        "jnd/labels",
        columns,
        lambda totals: _three_in_four(totals, levels),
        limits=(0.0, float(sizes.max(initial=0.0))),
        n=len(sizes),
        missing=int((verdicts.labeled & ~verdicts.present).sum()),
        strict=True,
        note="margin at which the judge's choice equals the label three times out of four",
        why=_why_not(sizes, right),
    )


def _why_not(sizes: Floats, right: Bools) -> str:
    if not len(sizes):
        return "no labeled pair has a margin"
    if right.all():
        return "the judge's choice always equals the label: any margin is noticeable"
    return "the judge's choice does not equal the label more often than by chance at larger margins"


def _levels(sizes: Floats) -> tuple[Ints, Floats]:
    """Return the level of each margin, (n,), and the mean margin of each level, (levels,)."""
    distinct = np.unique(np.round(sizes, 9))
    if len(distinct) > BINS:
        distinct = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1)[1:-1]))
        level = np.searchsorted(distinct, sizes)
    else:
        level = np.searchsorted(distinct, np.round(sizes, 9))
    level = np.unique(level, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(level)
    return level, np.asarray(np.bincount(level, weights=sizes) / counts)


def _three_in_four(totals: Floats, levels: Floats) -> Floats:
    """Return ln 3 / b for each row by Newton's method from 0, NaN if b has no finite positive estimate."""
    hits, tries = totals[:, : len(levels)], totals[:, len(levels) :]
    b = np.zeros(len(totals))
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(b[:, None] * levels, -700.0, 700.0)))
        slope = (levels * (hits - tries * chance)).sum(axis=1)
        curve = (levels**2 * tries * chance * (1 - chance)).sum(axis=1)
        step = np.nan_to_num(divide(slope, curve))
        if not step.any():
            break
        b = b + step
    finite = (np.abs(step) < 1e-8 * np.maximum(1.0, np.abs(b))) & (hits.sum(axis=1) < tries.sum(axis=1)) & (b > 1e-9)
    return divide(np.full(len(b), np.log(3.0)), np.where(finite, b, 0.0))


def jnd_details(
    config: RunConfig, verdicts: VerdictColumns, games: Games, statistics: Sequence[Statistic]
) -> dict[str, Any]:
    """Return the content of jnd.json: both estimates, and the ranking of systems under each threshold."""
    estimates = {statistic.name.partition("/")[2]: round_metric(statistic.observed()) for statistic in statistics}
    return {
        "configured": config.tie.threshold,
        **estimates,
        "ranking": _sensitivity(config, verdicts, games, estimates.values()) if games.compared else [],
    }


def _sensitivity(config: RunConfig, verdicts: VerdictColumns, games: Games, estimates: Any) -> list[dict[str, Any]]:
    useful = useful_thresholds(verdicts.margin)
    chosen = useful[:: max(1, len(useful) // THRESHOLDS)]
    wanted = sorted({config.tie.threshold, *chosen, *(value for value in estimates if value is not None)})
    found = [_won(config, verdicts, games, threshold) for threshold in wanted]
    tables = [games.tables(won) for won in found]
    places = standing(np.stack([wins for wins, _ in tables]), np.stack([ties for _, ties in tables]))
    rated = np.where(np.isnan(places.rating), places.win_rate, places.rating)
    own = rated[wanted.index(config.tie.threshold)]
    return [
        {
            "threshold": threshold,
            "tie_rate": round_metric((won == TIE).mean()),
            "order": [games.names[k] for k in by_value(row).tolist()],
            "kendall": _tau(row, own),
            "by": "rating" if np.isfinite(rating).all() else "win rate",
        }
        for threshold, won, row, rating in zip(wanted, found, rated, places.rating, strict=True)
    ]


def _won(config: RunConfig, verdicts: VerdictColumns, games: Games, threshold: float) -> Codes:
    """Return the winner of each game under a threshold, with ties allowed."""
    winner, _ = at_threshold(verdicts, threshold, config.tie.min_confidence)
    return np.asarray(winner[games.pair] * games.side)


def _tau(row: Floats, own: Floats) -> float | None:
    from scipy.stats import kendalltau

    if np.ptp(row) < 1e-12 or np.ptp(own) < 1e-12:
        return None
    return round_metric(kendalltau(np.round(row, 9), np.round(own, 9)).statistic)
