"""The judge's means corrected by a labeled subset, and the interval widths that more labels would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.columns.cases import TIE, A, B
from evalkit.scoring.columns.verdicts import ScoreColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.clusters import Clusters

RANDOM = "valid if the labels are a random subset"
"""In the note of a rate that is corrected because some answers have no label; reports look for it."""
SAMPLED = f"{RANDOM} of those sampled, which are weighted by 1 / the probability that their case was chosen"
SAME_ERRORS = "valid if the judge errs as often without labels"
NO_LABEL = "no answer has a label: the effect of the judge's errors is not identified"
FEW_LABELS = "fewer than two answers have a label"
ONE_CLASS = "the labels all belong to one class: sensitivity or specificity is not identified"
UNRELATED = "sensitivity and specificity sum to 1 or less on the labels: not identified"
LEVELS = (
    "Rogan-Gladen's correction is for two levels. With more levels, each rate depends on a whole table of errors, "
    "which is not identified without assumptions. Prediction-powered inference needs only a random subset of labels."
)
GROWTH = (1, 2, 4, 8, 16)
_COLUMNS = 7


@dataclass(frozen=True, slots=True)
class Target:
    """A mean to correct.

    Attributes:
        name: the corrected metric's name.
        of: the name of the metric it corrects.
        case: (rows,) the case of each row.
        judged: (rows,) the judge's values, NaN if missing.
        labels: (rows,) the labels, NaN if missing.
        cases: the number of cases.
        proportion: whether the values are 0 and 1.
        weights: (rows,) the weights of labels that were sampled with unequal probabilities.
    """

    name: str
    of: str
    case: Ints
    judged: Floats
    labels: Floats
    cases: int
    proportion: bool
    weights: Floats | None = None

    @property
    def labeled(self) -> Bools:
        """Which rows have both an answer and a label, (rows,)."""
        return np.isfinite(self.judged) & np.isfinite(self.labels)

    @property
    def unlabeled(self) -> Bools:
        """Which rows have an answer without a label, (rows,)."""
        return np.isfinite(self.judged) & np.isnan(self.labels)

    @property
    def unanswered(self) -> int:
        """The number of labeled rows without an answer."""
        return int((np.isnan(self.judged) & np.isfinite(self.labels)).sum())


def pair_targets(verdicts: VerdictColumns, cases: int) -> list[Target]:
    """Return the rates of A, B and TIE to correct."""
    names = {"win_rate/a": A, "win_rate/b": B, "tie_rate": TIE}
    return [
        Target(
            f"corrected/{name}",
            name,
            verdicts.pairs.case,
            np.where(verdicts.present, verdicts.winner == code, np.nan),
            np.where(verdicts.labeled, verdicts.pairs.label == code, np.nan),
            cases,
            proportion=True,
        )
        for name, code in names.items()
    ]


def score_target(scored: ScoreColumns, cases: int) -> Target:
    """Return the mean score to correct; the result is in units of the annotators' grades."""
    return Target("corrected/score_mean", "score/mean", scored.case, scored.raw, scored.grade, cases, proportion=False)


def weigh_targets(targets: Sequence[Target], weights: Floats | None) -> list[Target]:
    """Return targets whose labels have the weights of their cases, (cases,), if there are weights."""
    return [one if weights is None else replace(one, weights=weights[one.case]) for one in targets]


def corrected_statistics(config: RunConfig, targets: Sequence[Target]) -> list[Statistic]:
    """Return each target corrected by prediction-powered inference, and two-level targets also by Rogan and Gladen."""
    found = [prediction_powered(target, share_targets(targets)) for target in targets]
    if all(target.proportion for target in targets):
        return [*found, *(rogan_gladen(target) for target in targets if target.of != "tie_rate")]
    scale = Scale.of(config.rubric)
    found = [replace(one, limits=(scale.min, scale.max)) for one in found]
    return [*found, *(_binary(target, scale) for target in targets)] if len(scale) == 2 else found


def share_targets(targets: Sequence[Target]) -> Sequence[Target]:
    """Return the targets if their true values sum to 1, because every row belongs to one of them, otherwise nothing."""
    return targets if len(targets) > 1 and all(target.proportion for target in targets) else ()


def prediction_powered(target: Target, shares: Sequence[Target] = ()) -> Statistic:
    """Return the mean label of all rows, estimated from labels and the judge's answers.

    The estimate is mean_L(y) + k (mean_U(f) - mean_L(f)) for labels y, answers f, labeled rows L and unlabeled rows U.
    The k with the smallest variance is cov(y, f) / ((1 + |L|/|U|) var(f)) (Angelopoulos et al. 2023, arXiv 2301.09633,
    for k = 1; Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453, section 6, for this k). If labels have weights,
    means over L are weighted, and U is all rows, because those without a label are not a random subset.

    If the target is one of the `shares` of a whole, one k minimizes the sum of their variances, so that they sum to 1.
    Negative shares are then projected to the nearest point of the simplex (Duchi et al. 2008, Efficient projections).
    """
    index = next((at for at, share in enumerate(shares) if share.name == target.name), None)
    labeled, unlabeled = target.labeled, target.unlabeled
    n, others = int(labeled.sum()), int(unlabeled.sum())
    rest = "" if others else "every answer has a label: this is the mean of the labels"
    return Statistic(
        target.name,
        _sums(target) if index is None else np.concatenate([_sums(share) for share in shares], axis=1),
        _value(target.proportion) if index is None else partial(_share, index=index),
        n=n,
        covered=Tally(target.case, target.cases)(labeled) > 0,
        missing=target.unanswered,
        # Equal labels do not vary between resamples, and have the exact interval.
        proportion=target.proportion and (not others or (n > 0 and bool(np.ptp(target.labels[labeled]) == 0))),
        note=rest
        or f"{n} labels and {others} answers without a label; {RANDOM if target.weights is None else SAMPLED}",
        why=NO_LABEL if not n else FEW_LABELS,
    )


def _sums(target: Target) -> Floats:
    tally, weighted = Tally(target.case, target.cases), target.weights is not None
    labeled, others = target.labeled, np.isfinite(target.judged) if weighted else target.unlabeled
    y, f = np.where(labeled, target.labels, 0.0), np.where(labeled, target.judged, 0.0)
    rest, weights = np.where(others, target.judged, 0.0), 1.0 if target.weights is None else target.weights
    columns = (labeled * weights, y * weights, f * weights, y * f * weights, others, rest, f * f + rest * rest)
    return np.stack([tally(column.astype(np.float64)) for column in columns], axis=1)


def _value(proportion: bool) -> Callable[[Floats], Floats]:
    return (lambda totals: np.clip(_estimate(totals, tuning(totals)), 0.0, 1.0)) if proportion else _mean


def _mean(totals: Floats) -> Floats:
    return _estimate(totals, tuning(totals))


def _estimate(totals: Floats, k: Floats) -> Floats:
    n, y, f, _, others, rest, _ = totals.T
    mean = divide(np.where(n > 1, y, np.nan), n)
    shift = np.where(others > 0, divide(rest, others) - divide(f, n), 0.0)
    return mean + k * shift


def _share(totals: Floats, index: int) -> Floats:
    k = tuning(totals)
    return onto_simplex(np.stack([_estimate(part, k) for part in _parts(totals)], axis=1))[:, index]


def onto_simplex(shares: Floats) -> Floats:
    """Return the nearest point of the simplex for each row: entries of at least 0 that sum to 1."""
    descending = -np.sort(-shares, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, shares.shape[1] + 1)
    last = np.maximum((descending > excess).sum(axis=1) - 1, 0)
    return np.maximum(shares - np.take_along_axis(excess, last[:, None], axis=1), 0.0)


def _parts(totals: Floats) -> list[Floats]:
    return [totals[:, at : at + _COLUMNS] for at in range(0, totals.shape[1], _COLUMNS)]


def tuning(totals: Floats) -> Floats:
    """Return the weight k of the judge's answers, (rows,); 0 if they do not vary or every row has a label.

    With the totals of several shares side by side, it is one k for all.
    """
    covariance = variance = np.zeros(len(totals))
    for part in _parts(totals):
        n, y, f, yf, others, rest, ff = part.T
        every = n + others
        covariance = covariance + np.nan_to_num(divide(yf, n) - divide(y, n) * divide(f, n)) * others
        variance = variance + np.nan_to_num(divide(ff, every) - divide(f + rest, every) ** 2) * every
    return np.nan_to_num(divide(covariance, np.where(variance > 1e-12, variance, 0.0)))


def rogan_gladen(target: Target) -> Statistic:
    """Return a rate corrected for the judge's errors, clipped to [0, 1].

    It is (observed rate + specificity - 1) / (sensitivity + specificity - 1), with all terms resampled together (Rogan
    and Gladen 1978, Am. J. Epidemiol. 107, 71-76).
    """
    labeled, answered = target.labeled, np.isfinite(target.judged)
    tally = Tally(target.case, target.cases)
    judged, labels = answered & (target.judged == 1), labeled & (target.labels == 1)
    cells = (judged & labels, labels, judged & labeled & ~labels, labeled & ~labels)
    weights = 1.0 if target.weights is None else target.weights
    columns = (judged, answered, *(cell * weights for cell in cells))
    positives, n = int(labels.sum()), int(labeled.sum())
    one_class = positives in (0, n)
    return Statistic(
        target.name.replace("corrected/win_rate", "corrected/rogan_gladen"),
        np.stack([tally(column) for column in columns], axis=1),
        _corrected_rate,
        n=int(answered.sum()),
        covered=tally(labeled) > 0,
        missing=target.unanswered,
        strict=True,
        note=f"sensitivity from {positives}, specificity from {n - positives} labels; {SAME_ERRORS}",
        why=NO_LABEL if not n else ONE_CLASS if one_class else UNRELATED,
    )


def _corrected_rate(totals: Floats) -> Floats:
    judged, answered, hits, positives, alarms, negatives = totals.T
    sensitivity, false = divide(hits, positives), divide(alarms, negatives)
    youden = sensitivity - false
    rate = divide(divide(judged, answered) - false, np.where(youden > 1e-9, youden, 0.0))
    return np.clip(rate, 0.0, 1.0)


def _binary(target: Target, scale: Scale) -> Statistic:
    """Return the rate of the upper of two levels; grades must be on the judge's scale."""
    judged, labels = (
        np.where(np.isnan(v), np.nan, v > (scale.min + scale.max) / 2) for v in (target.judged, target.labels)
    )
    return rogan_gladen(replace(target, name="corrected/rogan_gladen", judged=judged, labels=labels, proportion=True))


def corrected_details(config: RunConfig, targets: Sequence[Target], clusters: Clusters) -> dict[str, Any]:
    """Return the content of corrected.json: the three means of each target, and interval widths for more labels."""
    scored = not all(target.proportion for target in targets)
    levels = len(Scale.of(config.rubric)) if scored else 3
    return {
        "confidence": config.scoring.confidence,
        "targets": [
            label_plan(target, share_targets(targets), config.scoring.confidence, clusters) for target in targets
        ],
        "notes": [LEVELS] if levels > 2 else [],
    }


def label_plan(target: Target, shares: Sequence[Target], confidence: float, clusters: Clusters) -> dict[str, Any]:
    """Return a target's means as judged, labeled and corrected, and the interval widths for more labels."""
    totals = np.concatenate([_sums(one).sum(axis=0) for one in shares or (target,)])[None]
    n, others = int(target.labeled.sum()), int(target.unlabeled.sum())
    judged = target.judged[np.isfinite(target.judged)]
    plan: dict[str, Any] = {
        "metric": target.name,
        "judge": round_metric(judged.mean()) if len(judged) else None,
        "people": round_metric(np.average(target.labels[target.labeled], weights=_label_weights(target)))
        if n
        else None,
        "corrected": round_metric(prediction_powered(target, shares).observed()),
        "labelled": n,
        "unlabelled": others,
    }
    if target.weights is not None:
        return plan | {"more_labels": [], "note": SAMPLED}
    if n < 2 or not others:
        return plan | {"more_labels": [], "note": "every answer has a label" if n > 1 else NO_LABEL}
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    widths = _widths(target, shares or (target,), z, clusters)
    return plan | {"trust_in_judge": round_metric(tuning(totals)[0]), "more_labels": widths}


def _label_weights(target: Target) -> Floats | None:
    return None if target.weights is None else target.weights[target.labeled]


def _widths(target: Target, shares: Sequence[Target], z: float, clusters: Clusters) -> list[dict[str, float | None]]:
    """Return the width of the interval for several numbers of labels, with the number of rows unchanged.

    It follows from the variance of the two means, with rows summed by cluster: that of y - k f over the labeled rows
    and k² times that of f over the others, with k tuned for each number of labels. `without_judge` is the width for the
    mean of the labels.

    Args:
        target: the target.
        shares: the targets that share k.
        z: the normal quantile of the confidence.
        clusters: the clusters of the cases.
    """
    n, others = int(target.labeled.sum()), int(target.unlabeled.sum())
    rows = []
    for labels in [n * factor for factor in GROWTH if n * factor <= n + others]:
        remaining = max(1, n + others - labels)
        k = _planned_tuning(shares, labels, remaining)
        own = _row_variance(target, target.labeled, k, 1.0, clusters) / labels
        variance = own + k * k * _row_variance(target, None, 1.0, 0.0, clusters) / remaining
        labels_only = _row_variance(target, target.labeled, 0.0, 1.0, clusters) / labels
        rows.append(
            {
                "labels": labels,
                "width": round_metric(2 * z * np.sqrt(variance)),
                "without_judge": round_metric(2 * z * np.sqrt(labels_only)),
            }
        )
    return rows


def _planned_tuning(shares: Sequence[Target], labels: int, remaining: int) -> float:
    covariance = variance = 0.0
    for target in shares:
        y, f = target.labels[target.labeled], target.judged[target.labeled]
        covariance += float(np.mean((y - y.mean()) * (f - f.mean())))
        variance += float(target.judged[np.isfinite(target.judged)].var())
    return covariance / (variance * (1 + labels / remaining)) if variance > 1e-12 else 0.0


def _row_variance(target: Target, rows: Bools | None, k: float, own: float, clusters: Clusters) -> float:
    """Return the variance of own·y - k·f for one row, with rows summed by cluster.

    Args:
        target: the target.
        rows: (rows,) which rows count; `None` for all answered rows.
        k: the weight of the judge's answers.
        own: the weight of the labels.
        clusters: the clusters of the cases.
    """
    used = np.isfinite(target.judged) if rows is None else rows
    values = own * np.where(used & (own > 0), target.labels, 0.0) - k * np.where(used, target.judged, 0.0)
    centered = np.where(used, values - values[used].mean(), 0.0)
    sums = np.bincount(clusters.of_rows(target.case), weights=centered)
    return float((sums**2).sum() / used.sum())
