"""Whether the judge's confidence is worth what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evalkit.scoring.bootstrap import Bounds, Statistic, Tally, divide
from evalkit.scoring.columns import TIE, Floats, Ints
from evalkit.scoring.ties import FORCED, Resolved

BINS = 10
NOTHING = "no labelled pair has a winner with a stated confidence"


@dataclass(frozen=True, slots=True)
class Stated:
    """Labelled pairs with a winner and a stated confidence: their case, confidence, and whether they are right (0, 1).

    `missing` counts labelled pairs without a verdict, or won without confidence.
    """

    case: Ints
    confidence: Floats
    right: Floats
    missing: int

    def with_confidence(self, confidence: Floats) -> Stated:
        """Return the same pairs with other confidences."""
        return replace(self, confidence=confidence)

    def without(self) -> Stated:
        """Return no pairs."""
        return Stated(self.case[:0], self.confidence[:0], self.right[:0], self.missing)


def stated(resolved: Resolved) -> Stated:
    """Return the pairs that calibration rests on. A winner against a label TIE is wrong.

    A tie that was forced to a winner is left out as any tie is: no judge stated a confidence in that winner.
    """
    won = resolved.present & (resolved.winner != TIE) & (resolved.reason != FORCED)
    known = np.isfinite(resolved.confidence)
    used = resolved.labelled & won & known
    missing = int((resolved.labelled & (~resolved.present | (won & ~known))).sum())
    right = (resolved.winner == resolved.pairs.label)[used].astype(np.float64)
    return Stated(resolved.pairs.case[used], resolved.confidence[used], right, missing)


def calibration_statistics(resolved: Resolved, cases: int) -> list[Statistic]:
    """Return `calibration/ece` and `calibration/brier` over labelled pairs with a winner and a stated confidence."""
    found = stated(resolved)
    return [ece_statistic("calibration/ece", found, cases), brier_statistic("calibration/brier", found, cases)]


def brier_statistic(name: str, found: Stated, cases: int, why: str = "") -> Statistic:
    """Return the mean square of confidence less outcome (Brier 1950, Mon. Weather Rev. 78, 1-3)."""
    tally, n = Tally(found.case, cases), len(found.right)
    squared, every = (found.confidence - found.right) ** 2, n + found.missing
    worst = (squared.sum() / every, (squared.sum() + found.missing) / every) if every else (None, None)
    columns = np.stack([tally(squared), tally(np.ones(n))], axis=1)
    return _statistic(name, found, columns, lambda totals: divide(totals[:, 0], totals[:, 1]), worst, why)


def ece_statistic(name: str, found: Stated, cases: int, why: str = "") -> Statistic:
    """Return the mean distance of accuracy from mean confidence over ten equal bins, weighted by their size.

    Guo et al. 2017, arXiv 1706.04599, eq. 3; what chance alone adds to distances, which is most of them with few cases,
    is taken out, and the interval inverts a test (see `biased`), and out of the worst cases too.
    """
    columns = _bins(Tally(found.case, cases), found)
    worst = _ece_bounds(float(_ece(columns.sum(axis=0)[None])[0]), len(found.right), found.missing)
    one = _statistic(name, found, columns, _ece, worst, why)
    return replace(one, gaps=BINS, note="without the bias of small bins")


def _statistic(
    name: str, found: Stated, columns: Floats, value: Callable[[Floats], Floats], worst: Bounds, why: str
) -> Statistic:
    n, missing = len(found.right), found.missing
    return Statistic(name, columns, value, n, missing, (None, None) if why else worst, why=why or NOTHING)


def bin_numbers(confidence: Floats) -> Ints:
    """Return which of ten equal bins each confidence falls into, from 0; the last one holds 1."""
    return np.minimum((confidence * BINS + 1e-9).astype(np.int64), BINS - 1)


def _bins(tally: Tally, found: Stated) -> Floats:
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
