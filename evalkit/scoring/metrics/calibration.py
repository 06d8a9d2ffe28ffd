"""Calibration of the judge's stated confidence, before and after recalibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import FORCED, TIE, ScoreColumns, VerdictColumns
from evalkit.scoring.metrics.correlation import auc_statistic
from evalkit.scoring.stats.arrays import Floats, Ints, divide, round_metric
from evalkit.scoring.stats.clusters import FOLDS, Clusters
from evalkit.scoring.stats.logistic import expit, fit, logit, slope
from evalkit.scoring.stats.share_intervals import share_interval
from evalkit.scoring.stats.statistic import Statistic, Table, Tabled, Tally
from evalkit.scoring.verdicts.rewards import differences, reward_slope

BINS = 10
EMPTY = "no labeled pair has a winner with a stated confidence"


@frozen
class StatedConfidence:
    """Labeled pairs with a winner and a stated confidence.

    Attributes:
        tally: the case of each pair.
        confidence: (pairs,) the stated confidence.
        right: (pairs,) whether the winner is correct, 0 or 1.
        missing: the number of labeled pairs without a verdict, or with a winner without a
            confidence.
    """

    tally: Tally
    confidence: Floats
    right: Floats
    missing: int


def stated(verdicts: VerdictColumns) -> StatedConfidence:
    """Return the pairs with a stated confidence; a winner is wrong if the label is TIE.

    A tie forced to a winner is omitted like any tie, because no judge stated a confidence in that
    winner.
    """
    won = verdicts.present & (verdicts.winner != TIE) & (verdicts.reason != FORCED)
    is_stated = np.isfinite(verdicts.confidence)
    used = verdicts.labeled & won & is_stated
    missing = int((verdicts.labeled & (verdicts.missing | (won & ~is_stated))).sum())
    right = (verdicts.winner == verdicts.pairs.label)[used].astype(np.float64)
    return StatedConfidence(
        verdicts.tally.where(used), verdicts.confidence[used], right, missing
    )


def calibration_statistics(verdicts: VerdictColumns, scale: Scale) -> list[Statistic]:
    """Return `calibration/ece` and `calibration/brier`, which scores on a scale of
    levels do not have.
    """
    if verdicts.passes is None and (verdicts.scores is None or not scale.real):
        return []
    pairs = stated(verdicts)
    return [
        ece_statistic("calibration/ece", pairs),
        brier_statistic("calibration/brier", pairs),
    ]


def reward_statistics(
    verdicts: VerdictColumns, responses: ScoreColumns, scale: Scale
) -> list[Statistic]:
    """Return `calibration/reward_slope` and `agreement/auc`, which only rewards have."""
    if not scale.real:
        return []
    slope = reward_slope(verdicts.pairs, differences(verdicts), verdicts.tally.cases)
    return [slope, auc_statistic(responses)]


def brier_statistic(name: str, pairs: StatedConfidence, why: str = "") -> Statistic:
    """Return the mean squared difference of confidence and outcome.

    Brier 1950, Mon. Weather Rev. 78, 1-3.

    Args:
        name: the metric's name.
        pairs: the pairs with a stated confidence.
        why: why the value is undefined; empty if it is defined.
    """
    squared = (pairs.confidence - pairs.right) ** 2
    every = np.ones(len(pairs.right), dtype=bool)
    span = None if why else (0.0, 1.0)
    return pairs.tally.mean(
        name, squared, every, pairs.missing, span=span, why=why or EMPTY
    )


def ece_statistic(name: str, pairs: StatedConfidence, why: str = "") -> Statistic:
    """Return the mean distance of accuracy from mean confidence over ten bins of equal
    width, weighted by bin size.

    Guo et al. 2017, arXiv 1706.04599, eq. 3. The value and its bounds are corrected for the bias of
    noise, which dominates with few cases, and the interval inverts a test (see
    `bounded_intervals`).

    Args:
        name: the metric's name.
        pairs: the pairs with a stated confidence.
        why: why the value is undefined; empty if it is defined.
    """
    number = bin_numbers(pairs.confidence)
    n = len(pairs.right)
    missing = pairs.missing
    excess = [
        np.where(number == b, pairs.confidence - pairs.right, 0.0) for b in range(BINS)
    ]
    table = Table.of(pairs.tally.columns(*excess, np.ones(n)))
    total = float(np.abs(table.sums[:BINS]).sum())
    # One more pair changes the sum over bins by at most 1.
    if n:
        worst = (
            max(0.0, total - missing) / (n + missing),
            min(1.0, (total + missing) / (n + missing)),
        )
    else:
        worst = None
    return Statistic(
        name,
        table,
        lambda totals: divide(np.abs(totals[:, :BINS]).sum(axis=1), totals[:, BINS]),
        n,
        missing,
        (None, None) if why or worst is None else worst,
        gaps=BINS,
        note="corrected for the bias of small bins",
        why=why or EMPTY,
    )


def bin_numbers(confidence: Floats) -> Ints:
    """Return the bin of each confidence, 0 to 9; the last bin includes 1."""
    return np.minimum((confidence * BINS + 1e-9).astype(np.int64), BINS - 1)


MIN_CASES = 20
"""Minimum number of clusters with label and confidence for cross-fitting."""
EDGE = 1e-4
"""Confidences are clipped to [EDGE, 1 - EDGE], because 0 and 1 have no finite logit."""
Recalibrate = Callable[[Floats, Floats, Floats], Floats]
"""Maps (confidence, right, new confidence) to recalibrated new confidences."""


def recalibration(
    config: RunConfig,
    cases: Sequence[Case],
    compared: VerdictColumns,
    clusters: Clusters,
) -> Tabled:
    """Return `calibration/slope`, ECE and Brier score after out-of-fold recalibration,
    and reliability curves.

    Clusters are assigned to five folds by the id of their first case. Each fold's confidences are
    recalibrated on the other four. The folds are not resampled. The curves, before and after
    recalibration, are the accuracy by bin of confidence (Niculescu-Mizil and Caruana 2005, ICML,
    625-632), each with an interval over clusters.

    The slope is 1 / T of temperature scaling; below 1, the judge is overconfident. It is that,
    without intercept, of a penalized logistic regression of correctness on the logit of the
    confidence (Cox 1958, Biometrika 45, 562-565; Guo et al. 2017, arXiv 1706.04599, section 4.2).

    Args:
        config: the run's config.
        cases: the cases.
        compared: the verdicts of a judge that compares.
        clusters: the clusters of the cases.
    """
    pairs = stated(compared)
    confidence = config.scoring.confidence
    enough = len(np.unique(clusters.of_rows(pairs.tally.case))) >= MIN_CASES
    unit = "cases" if clusters.number is None else "clusters"
    if enough:
        why = ""
    else:
        why = f"fewer than {MIN_CASES} {unit} have a label, a winner and a stated confidence"
    x = _logits(pairs.confidence)[:, None]
    constant = "" if why or x.any() else "every confidence is 0.5"
    statistics = [
        slope(
            "calibration/slope",
            x,
            pairs.right,
            pairs.tally,
            0,
            missing=pairs.missing,
            why=why or constant,
        )
    ]
    curves = {"stated": _bin_rows(pairs, clusters, confidence)}
    # shape (pairs,)
    folds = clusters.folds(cases)[pairs.tally.case]
    for name, recalibrate in METHODS.items():
        after = replace(
            pairs,
            tally=pairs.tally.of(pairs.tally.case[:0]),
            confidence=pairs.confidence[:0],
            right=pairs.right[:0],
        )
        if enough:
            after = replace(pairs, confidence=out_of_fold(pairs, folds, recalibrate))
            curves[name] = _bin_rows(after, clusters, confidence)
        statistics.append(ece_statistic(f"calibration/ece_{name}", after, why))
        statistics.append(brier_statistic(f"calibration/brier_{name}", after, why))
    return statistics, {"reliability": curves} if curves["stated"] else {}


def _logits(confidence: Floats) -> Floats:
    return logit(np.clip(confidence, EDGE, 1 - EDGE))


def out_of_fold(
    pairs: StatedConfidence, folds: Ints, recalibrate: Recalibrate
) -> Floats:
    """Return each confidence as recalibrated on the other folds."""
    after = pairs.confidence.copy()
    for fold in range(FOLDS):
        inside = folds == fold
        after[inside] = recalibrate(
            pairs.confidence[~inside], pairs.right[~inside], pairs.confidence[inside]
        )
    return after


def by_temperature(confidence: Floats, right: Floats, new: Floats) -> Floats:
    """Scale logits by the optimal factor (Guo et al. 2017, arXiv 1706.04599, section 4.2).

    If no finite factor is optimal, because all verdicts were correct or confidence separates them,
    `new` is unchanged.

    Args:
        confidence: (n,) the confidences to fit on.
        right: (n,) their outcomes, 0 or 1.
        new: (m,) the confidences to recalibrate.
    """
    pairs = fit(_logits(confidence)[:, None], right).coefficients
    if pairs is None:
        return new
    return expit(pairs[0] * _logits(new))


class _Pool(NamedTuple):
    """Adjacent levels of confidence that share one accuracy."""

    hits: float
    answers: int
    levels: int


def by_isotonic(confidence: Floats, right: Floats, new: Floats) -> Floats:
    """Map confidence to the optimal non-decreasing accuracy, interpolated between the
    confidences seen.

    Zadrozny and Elkan 2002, KDD, 694-699; by pooling adjacent violators (Ayer et al. 1955, Ann.
    Math. Statist. 26, 641-647).

    Args:
        confidence: (n,) the confidences to fit on.
        right: (n,) their outcomes, 0 or 1.
        new: (m,) the confidences to recalibrate.
    """
    if not len(confidence):
        return new
    # answer -> its level of confidence
    levels, level = np.unique(confidence, return_inverse=True)
    hits_by_level = np.bincount(level, weights=right).tolist()
    answers_by_level = np.bincount(level).tolist()
    # Importing SciPy's regression takes longer than this loop.
    pools: list[_Pool] = []
    for hits, answers in zip(hits_by_level, answers_by_level, strict=True):
        pool = _Pool(hits, answers, levels=1)
        # A pool with a higher accuracy than the next violates the order: they become one.
        while pools and pools[-1].hits * pool.answers >= pool.hits * pools[-1].answers:
            before = pools.pop()
            pool = _Pool(
                before.hits + pool.hits,
                before.answers + pool.answers,
                before.levels + pool.levels,
            )
        pools.append(pool)
    rates = [pool.hits / pool.answers for pool in pools]
    sizes = [pool.levels for pool in pools]
    return np.asarray(np.interp(new, levels, np.repeat(rates, sizes)))


METHODS: dict[str, Recalibrate] = {
    "temperature": by_temperature,
    "isotonic": by_isotonic,
}


def _bin_rows(
    pairs: StatedConfidence, clusters: Clusters, level: float
) -> list[JsonObject]:
    """Return a row for each bin of confidence with pairs: its mean confidence and its accuracy."""
    numbers = bin_numbers(pairs.confidence)
    curve = []
    for number in np.unique(numbers).tolist():
        inside = numbers == number
        case = pairs.tally.case[inside]
        accuracy = float(pairs.right[inside].mean())
        low, high = share_interval(
            accuracy, len(np.unique(clusters.of_rows(case))), level
        )
        row = {
            "from": number / BINS,
            "to": (number + 1) / BINS,
            "n": len(case),
            "cases": len(np.unique(case)),
            "confidence": round_metric(float(pairs.confidence[inside].mean())),
            "accuracy": round_metric(accuracy),
            "low": round_metric(low),
            "high": round_metric(high),
        }
        curve.append(row)
    return curve
