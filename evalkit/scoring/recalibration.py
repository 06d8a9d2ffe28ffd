"""Confidence set right out of fold: what temperature or isotonic recalibration would make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evalkit.hashing import digest
from evalkit.scoring.bootstrap import Statistic, Tally, of_share
from evalkit.scoring.calibration import BINS, Stated, bin_numbers, brier_statistic, ece_statistic, stated
from evalkit.scoring.clusters import Clusters
from evalkit.scoring.columns import Floats, Ints
from evalkit.scoring.logistic import expit, fit, logit, regression
from evalkit.scoring.ties import Resolved
from evalkit.scoring.values import tidy
from evalkit.types import Case

FOLDS = 5
LEAST = 20
"""Fewer cases with label and confidence are too few to fit on some and test on the others."""
EDGE = 1e-4
"""Confidences of 0 and 1 have no finite logit; they are moved by so much."""

Recalibrate = Callable[[Floats, Floats, Floats], Floats]


def recalibration_statistics(resolved: Resolved, cases: Sequence[Case], clusters: Clusters) -> list[Statistic]:
    """Return ECE and Brier score after recalibration out of fold, and `calibration/slope`.

    Clusters are dealt into five folds by the id of their first case; each fold's confidences are recalibrated by what
    the other four say. The folds stay as they are when clusters are resampled.
    """
    found = stated(resolved)
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


def _slope(found: Stated, tally: Tally, why: str) -> Statistic:
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


def out_of_fold(found: Stated, folds: Ints, recalibrate: Recalibrate) -> Floats:
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
    resolved: Resolved, cases: Sequence[Case], confidence: float, clusters: Clusters
) -> dict[str, Any]:
    """Return the reliability curve before and after recalibration: accuracy by bin of confidence.

    Niculescu-Mizil and Caruana 2005 (ICML, 625-632). Each bin has its own interval, over clusters.
    """
    found = stated(resolved)
    curves = {"stated": _curve(found, clusters, confidence)}
    if len(np.unique(clusters.of_rows(found.case))) >= LEAST:
        folds = _folds(cases, clusters)[found.case]
        for name, recalibrate in METHODS.items():
            after = found.with_confidence(out_of_fold(found, folds, recalibrate))
            curves[name] = _curve(after, clusters, confidence)
    return curves


def _curve(found: Stated, clusters: Clusters, level: float) -> list[dict[str, Any]]:
    numbers = bin_numbers(found.confidence)
    return [
        _bin(found, numbers == number, number, clusters, level) for number in range(BINS) if (numbers == number).any()
    ]


def _bin(found: Stated, inside: Any, number: int, clusters: Clusters, level: float) -> dict[str, Any]:
    accuracy = float(found.right[inside].mean())
    low, high = of_share(accuracy, len(np.unique(clusters.of_rows(found.case[inside]))), level)
    return {
        "from": number / BINS,
        "to": (number + 1) / BINS,
        "n": int(inside.sum()),
        "cases": len(np.unique(found.case[inside])),
        "confidence": tidy(float(found.confidence[inside].mean())),
        "accuracy": tidy(accuracy),
        "low": tidy(low),
        "high": tidy(high),
    }
