"""Whether the judge's confidence is worth what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalkit.core.hashing import digest
from evalkit.scoring.columns.codes import FORCED, TIE
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Bounds, Statistic, Tally, share_interval
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.logistic import expit, fit, logit, regression
from evalkit.types import Case

BINS = 10
NOTHING = "no labelled pair has a winner with a stated confidence"


@dataclass(frozen=True, slots=True)
class StatedConfidence:
    """Labelled pairs with a winner and a stated confidence: their case, confidence, and whether they are right (0, 1).

    `missing` counts labelled pairs without a verdict, or won without confidence.
    """

    case: Ints
    confidence: Floats
    right: Floats
    missing: int

    def with_confidence(self, confidence: Floats) -> StatedConfidence:
        """Return the same pairs with other confidences."""
        return replace(self, confidence=confidence)

    def without(self) -> StatedConfidence:
        """Return no pairs."""
        return StatedConfidence(self.case[:0], self.confidence[:0], self.right[:0], self.missing)


def stated(verdicts: VerdictColumns) -> StatedConfidence:
    """Return the pairs that calibration rests on. A winner against a label TIE is wrong.

    A tie that was forced to a winner is left out as any tie is: no judge stated a confidence in that winner.
    """
    won = verdicts.present & (verdicts.winner != TIE) & (verdicts.reason != FORCED)
    known = np.isfinite(verdicts.confidence)
    used = verdicts.labelled & won & known
    missing = int((verdicts.labelled & (~verdicts.present | (won & ~known))).sum())
    right = (verdicts.winner == verdicts.pairs.label)[used].astype(np.float64)
    return StatedConfidence(verdicts.pairs.case[used], verdicts.confidence[used], right, missing)


def calibration_statistics(verdicts: VerdictColumns, cases: int) -> list[Statistic]:
    """Return `calibration/ece` and `calibration/brier` over labelled pairs with a winner and a stated confidence."""
    found = stated(verdicts)
    return [ece_statistic("calibration/ece", found, cases), brier_statistic("calibration/brier", found, cases)]


def brier_statistic(name: str, found: StatedConfidence, cases: int, why: str = "") -> Statistic:
    """Return the mean square of confidence less outcome (Brier 1950, Mon. Weather Rev. 78, 1-3)."""
    tally, n = Tally(found.case, cases), len(found.right)
    squared, every = (found.confidence - found.right) ** 2, n + found.missing
    worst = (squared.sum() / every, (squared.sum() + found.missing) / every) if every else (None, None)
    columns = np.stack([tally(squared), tally(np.ones(n))], axis=1)
    return _statistic(name, found, columns, lambda totals: divide(totals[:, 0], totals[:, 1]), worst, why)


def ece_statistic(name: str, found: StatedConfidence, cases: int, why: str = "") -> Statistic:
    """Return the mean distance of accuracy from mean confidence over ten equal bins, weighted by their size.

    Guo et al. 2017, arXiv 1706.04599, eq. 3; what chance alone adds to distances, which is most of them with few cases,
    is taken out, and the interval inverts a test (see `biased`), and out of the worst cases too.
    """
    columns = _bins(Tally(found.case, cases), found)
    worst = _ece_bounds(float(_ece(columns.sum(axis=0)[None])[0]), len(found.right), found.missing)
    one = _statistic(name, found, columns, _ece, worst, why)
    return replace(one, gaps=BINS, note="without the bias of small bins")


def _statistic(
    name: str, found: StatedConfidence, columns: Floats, value: Callable[[Floats], Floats], worst: Bounds, why: str
) -> Statistic:
    n, missing = len(found.right), found.missing
    return Statistic(name, columns, value, n, missing, (None, None) if why else worst, why=why or NOTHING)


def bin_numbers(confidence: Floats) -> Ints:
    """Return which of ten equal bins each confidence falls into, from 0; the last one holds 1."""
    return np.minimum((confidence * BINS + 1e-9).astype(np.int64), BINS - 1)


def _bins(tally: Tally, found: StatedConfidence) -> Floats:
    """Return by case and bin how many fell there and by how much their confidence exceeds their outcome."""
    number = bin_numbers(found.confidence)
    excess = [tally(np.where(number == b, found.confidence - found.right, 0.0)) for b in range(BINS)]
    return np.stack([*excess, tally(np.ones(len(found.right)))], axis=1)


def _ece(totals: Floats) -> Floats:
    return divide(np.abs(totals[:, :BINS]).sum(axis=1), totals[:, BINS])


def _ece_bounds(ece: float, n: int, missing: int) -> Bounds:
    """Return bounds on the ECE: one further pair moves the sum over bins by at most 1."""
    if not n:
        return None, None
    return max(0.0, ece * n - missing) / (n + missing), min(1.0, (ece * n + missing) / (n + missing))


FOLDS = 5
LEAST = 20
"""Fewer cases with label and confidence are too few to fit on some and test on the others."""
EDGE = 1e-4
"""Confidences of 0 and 1 have no finite logit; they are moved by so much."""
Recalibrate = Callable[[Floats, Floats, Floats], Floats]


def recalibration_statistics(verdicts: VerdictColumns, cases: Sequence[Case], clusters: Clusters) -> list[Statistic]:
    """Return ECE and Brier score after recalibration out of fold, and `calibration/slope`.

    Clusters are dealt into five folds by the id of their first case; each fold's confidences are recalibrated by what
    the other four say. The folds stay as they are when clusters are resampled.
    """
    found = stated(verdicts)
    tally = Tally(found.case, len(cases))
    enough = len(np.unique(clusters.of_rows(found.case))) >= LEAST
    unit = "cases" if clusters.number is None else "clusters"
    why = "" if enough else f"fewer than {LEAST} {unit} have a label, a winner and a stated confidence"
    statistics = [_slope(found, tally, why)]
    folds = _folds(cases, clusters)[found.case]
    for name, recalibrate in METHODS.items():
        after = found.with_confidence(out_of_fold(found, folds, recalibrate)) if enough else found.without()
        statistics.append(ece_statistic(f"calibration/ece_{name}", after, len(cases), why))
        statistics.append(brier_statistic(f"calibration/brier_{name}", after, len(cases), why))
    return statistics


def _folds(cases: Sequence[Case], clusters: Clusters) -> Ints:
    own = np.array([int(digest(["fold", case.id])[:8], 16) % FOLDS for case in cases], dtype=np.int64)
    if clusters.number is None:
        return own
    first = np.unique(clusters.number, return_index=True)[1]
    return np.asarray(own[first][clusters.number])


def _slope(found: StatedConfidence, tally: Tally, why: str) -> Statistic:
    """Return `calibration/slope`: 1 / T of temperature scaling; below 1, confidence claims too much.

    The slope, without intercept, of being right on the logit of the confidence (Cox 1958, Biometrika 45, 562-565; Guo
    et al. 2017, arXiv 1706.04599, section 4.2).
    """
    x = _logits(found.confidence)[:, None]
    if not why and not x.any():
        why = "every confidence is 0.5"
    return regression("calibration/slope", x, found.right, tally, lambda b: b[:, 0], missing=found.missing, why=why)


def _logits(confidence: Floats) -> Floats:
    return logit(np.clip(confidence, EDGE, 1 - EDGE))


def out_of_fold(found: StatedConfidence, folds: Ints, recalibrate: Recalibrate) -> Floats:
    """Return each confidence as the folds that it is not in would set it."""
    after = found.confidence.copy()
    for fold in range(FOLDS):
        inside = folds == fold
        after[inside] = recalibrate(found.confidence[~inside], found.right[~inside], found.confidence[inside])
    return after


def by_temperature(confidence: Floats, right: Floats, new: Floats) -> Floats:
    """Scale logits by the one factor that fits best (Guo et al. 2017, arXiv 1706.04599, section 4.2).

    Where no finite factor does, because the others were all right or all on the right side, `new` stays as it is.
    """
    found = fit(_logits(confidence)[:, None], right).coefficients
    return new if found is None else expit(found[0] * _logits(new))


def by_isotonic(confidence: Floats, right: Floats, new: Floats) -> Floats:
    """Replace confidence by the non-decreasing accuracy that fits best, linear between the confidences seen.

    Zadrozny and Elkan 2002 (KDD, 694-699).
    """
    if not len(confidence):
        return new
    levels, place = np.unique(confidence, return_inverse=True)
    weight = np.bincount(place).astype(np.float64)
    hits = np.bincount(place, weights=right).astype(np.float64)
    return np.asarray(np.interp(new, levels, pooled(hits, weight)))


def pooled(hits: Floats, weight: Floats) -> Floats:
    """Return the non-decreasing rates closest to `hits` / `weight`, by pooling adjacent violators.

    Ayer et al. 1955, Ann. Math. Statist. 26, 641-647.
    """
    blocks: list[tuple[float, float, int]] = []
    for own_hits, own_weight in zip(hits.tolist(), weight.tolist(), strict=True):
        block = (own_hits, own_weight, 1)
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    return np.repeat([own_hits / own_weight for own_hits, own_weight, _ in blocks], [size for *_, size in blocks])


METHODS: dict[str, Recalibrate] = {"temperature": by_temperature, "isotonic": by_isotonic}


def reliability_table(
    verdicts: VerdictColumns, cases: Sequence[Case], confidence: float, clusters: Clusters
) -> dict[str, Any]:
    """Return the reliability curve before and after recalibration: accuracy by bin of confidence.

    Niculescu-Mizil and Caruana 2005 (ICML, 625-632). Each bin has its own interval, over clusters.
    """
    found = stated(verdicts)
    curves = {"stated": _curve(found, clusters, confidence)}
    if len(np.unique(clusters.of_rows(found.case))) >= LEAST:
        folds = _folds(cases, clusters)[found.case]
        for name, recalibrate in METHODS.items():
            after = found.with_confidence(out_of_fold(found, folds, recalibrate))
            curves[name] = _curve(after, clusters, confidence)
    return curves


def _curve(found: StatedConfidence, clusters: Clusters, level: float) -> list[dict[str, Any]]:
    numbers = bin_numbers(found.confidence)
    return [
        _bin(found, numbers == number, number, clusters, level) for number in range(BINS) if (numbers == number).any()
    ]


def _bin(found: StatedConfidence, inside: Any, number: int, clusters: Clusters, level: float) -> dict[str, Any]:
    accuracy = float(found.right[inside].mean())
    low, high = share_interval(accuracy, len(np.unique(clusters.of_rows(found.case[inside]))), level)
    return {
        "from": number / BINS,
        "to": (number + 1) / BINS,
        "n": int(inside.sum()),
        "cases": len(np.unique(found.case[inside])),
        "confidence": round_metric(float(found.confidence[inside].mean())),
        "accuracy": round_metric(accuracy),
        "low": round_metric(low),
        "high": round_metric(high),
    }
