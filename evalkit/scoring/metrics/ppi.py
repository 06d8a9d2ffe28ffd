"""The judge's means beside what a labelled subset makes of them, and how many labels would make them how exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.scoring.columns.codes import TIE, A, B
from evalkit.scoring.columns.verdicts import ScoreColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.clusters import Clusters

RANDOM = "holds if the labelled ones were chosen at random"
SAME_ERRORS = "holds if the judge errs as often on the unlabelled ones"
NO_LABEL = "no answered one has a label: what the judge's errors do to it is not identified"
FEW_LABELS = "fewer than two have a label"
ONE_CLASS = "the labelled ones are all of one kind: sensitivity or specificity is not identified"
UNRELATED = "sensitivity and specificity sum to 1 or less on the labelled ones: not identified"
LEVELS = (
    "Rogan-Gladen's correction is for two levels. With more, the rate of each depends on a whole table of errors, "
    "which is not identified without assumptions on them; prediction-powered inference needs only a random subset."
)
GROWTH = (1, 2, 4, 8, 16)
_COLUMNS = 7


@dataclass(frozen=True, slots=True)
class Target:
    """One mean to correct: what the judge said of each row, NaN where nothing, and what people did, NaN likewise."""

    name: str
    of: str
    case: Ints
    said: Floats
    meant: Floats
    cases: int
    proportion: bool

    @property
    def labelled(self) -> Bools:
        """Which rows have both."""
        return np.isfinite(self.said) & np.isfinite(self.meant)

    @property
    def unlabelled(self) -> Bools:
        """Which rows have the judge's word only."""
        return np.isfinite(self.said) & np.isnan(self.meant)

    @property
    def lost(self) -> int:
        """How many labelled rows the judge left without an answer."""
        return int((np.isnan(self.said) & np.isfinite(self.meant)).sum())


def pair_targets(verdicts: VerdictColumns, cases: int) -> list[Target]:
    """Return the rates of A, B and TIE to correct."""
    names = {"win_rate/a": A, "win_rate/b": B, "tie_rate": TIE}
    return [
        Target(
            f"corrected/{name}",
            name,
            verdicts.pairs.case,
            np.where(verdicts.present, verdicts.winner == code, np.nan),
            np.where(verdicts.labelled, verdicts.pairs.label == code, np.nan),
            cases,
            proportion=True,
        )
        for name, code in names.items()
    ]


def score_target(scored: ScoreColumns, cases: int) -> Target:
    """Return the mean score to correct: people's grade is in the units of their own scale, and so is the result."""
    return Target("corrected/score_mean", "score/mean", scored.case, scored.raw, scored.grade, cases, proportion=False)


def corrected_statistics(config: RunConfig, targets: Sequence[Target]) -> list[Statistic]:
    """Return each target by prediction-powered inference, and those of two levels by Rogan and Gladen too."""
    found = [prediction_powered(target, together(targets)) for target in targets]
    if all(target.proportion for target in targets):
        return [*found, *(rogan_gladen(target) for target in targets if target.of != "tie_rate")]
    scale = Scale.of(config.rubric)
    return [*found, *(_binary(target, scale) for target in targets)] if len(scale) == 2 else found


def together(targets: Sequence[Target]) -> Sequence[Target]:
    """Return the targets whose true values sum to 1, since every row is of one of them; none of a single target."""
    return targets if len(targets) > 1 and all(target.proportion for target in targets) else ()


def prediction_powered(target: Target, shares: Sequence[Target] = ()) -> Statistic:
    """Return the mean label of all rows, the judge's word standing in where there is no label.

    mean_L(y) + k (mean_U(f) - mean_L(f)), L being the labelled and U the unlabelled rows, and k = cov(y, f) / ((1 +
    |L|/|U|) var(f)), which makes its variance least (Angelopoulos et al. 2023, arXiv 2301.09633, for k = 1;
    Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453, section 6, for this k).

    If the target is one of the `shares` of a whole, one k makes the sum of their variances least, so that they sum to
    1; shares below 0 are then moved to the nearest point at which none is (Duchi et al. 2008, Efficient projections).
    """
    place = next((at for at, share in enumerate(shares) if share.name == target.name), None)
    labelled, unlabelled = target.labelled, target.unlabelled
    n, others = int(labelled.sum()), int(unlabelled.sum())
    rest = "" if others else "every answered one has a label: this is people's own mean"
    return Statistic(
        target.name,
        _sums(target) if place is None else np.concatenate([_sums(share) for share in shares], axis=1),
        _value(target.proportion) if place is None else partial(_share, place=place),
        n=n,
        covered=Tally(target.case, target.cases)(labelled) > 0,
        missing=target.lost,
        # Labels that are all alike give the same in every resample, and the exact interval then.
        proportion=target.proportion and (not others or (n > 0 and bool(np.ptp(target.meant[labelled]) == 0))),
        note=rest or f"{n} labels beside {others} answers without; {RANDOM}",
        why=NO_LABEL if not n else FEW_LABELS,
    )


def _sums(target: Target) -> Floats:
    tally = Tally(target.case, target.cases)
    labelled, unlabelled = target.labelled, target.unlabelled
    y, f = np.where(labelled, target.meant, 0.0), np.where(labelled, target.said, 0.0)
    rest = np.where(unlabelled, target.said, 0.0)
    columns = (labelled, y, f, y * f, unlabelled, rest, f * f + rest * rest)
    return np.stack([tally(column.astype(np.float64)) for column in columns], axis=1)


def _value(proportion: bool) -> Callable[[Floats], Floats]:
    return (lambda totals: np.clip(_powered(totals, tuning(totals)), 0.0, 1.0)) if proportion else _mean


def _mean(totals: Floats) -> Floats:
    return _powered(totals, tuning(totals))


def _powered(totals: Floats, k: Floats) -> Floats:
    n, y, f, _, others, rest, _ = totals.T
    mean = divide(np.where(n > 1, y, np.nan), n)
    shift = np.where(others > 0, divide(rest, others) - divide(f, n), 0.0)
    return mean + k * shift


def _share(totals: Floats, place: int) -> Floats:
    k = tuning(totals)
    return _onto_simplex(np.stack([_powered(part, k) for part in _parts(totals)], axis=1))[:, place]


def _onto_simplex(shares: Floats) -> Floats:
    """Return, for each row, the nearest point whose entries are at least 0 and sum to 1."""
    descending = -np.sort(-shares, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, shares.shape[1] + 1)
    last = np.maximum((descending > excess).sum(axis=1) - 1, 0)
    return np.maximum(shares - np.take_along_axis(excess, last[:, None], axis=1), 0.0)


def _parts(totals: Floats) -> list[Floats]:
    return [totals[:, at : at + _COLUMNS] for at in range(0, totals.shape[1], _COLUMNS)]


def tuning(totals: Floats) -> Floats:
    """Return k: how far the judge's word is trusted, 0 where it never varies or labels are on every row.

    With the totals of several shares side by side, it is one k for all of them.
    """
    covariance = variance = np.zeros(len(totals))
    for part in _parts(totals):
        n, y, f, yf, others, rest, ff = part.T
        every = n + others
        covariance = covariance + np.nan_to_num(divide(yf, n) - divide(y, n) * divide(f, n)) * others
        variance = variance + np.nan_to_num(divide(ff, every) - divide(f + rest, every) ** 2) * every
    return np.nan_to_num(divide(covariance, np.where(variance > 1e-12, variance, 0.0)))


def rogan_gladen(target: Target) -> Statistic:
    """Return a rate with the judge's errors taken out: (said + specificity - 1) / (sensitivity + specificity - 1).

    Rogan and Gladen 1978 (Am. J. Epidemiol. 107, 71-76); cut to [0, 1]. All of it is resampled together.
    """
    labelled, there = target.labelled, np.isfinite(target.said)
    tally = Tally(target.case, target.cases)
    said, meant = there & (target.said == 1), labelled & (target.meant == 1)
    columns = (said, there, said & meant, meant, said & labelled & ~meant, labelled & ~meant)
    positives, n = int(meant.sum()), int(labelled.sum())
    one_class = positives in (0, n)
    return Statistic(
        target.name.replace("corrected/win_rate", "corrected/rogan_gladen"),
        np.stack([tally(column) for column in columns], axis=1),
        _unmixed,
        n=int(there.sum()),
        covered=tally(labelled) > 0,
        missing=target.lost,
        strict=True,
        note=f"sensitivity from {positives}, specificity from {n - positives} labels; {SAME_ERRORS}",
        why=NO_LABEL if not n else ONE_CLASS if one_class else UNRELATED,
    )


def _unmixed(totals: Floats) -> Floats:
    said, there, hits, positives, alarms, negatives = totals.T
    sensitivity, false = divide(hits, positives), divide(alarms, negatives)
    youden = sensitivity - false
    rate = divide(divide(said, there) - false, np.where(youden > 1e-9, youden, 0.0))
    return np.clip(rate, 0.0, 1.0)


def _binary(target: Target, scale: Scale) -> Statistic:
    """Return the rate of the upper of two levels; people's grades must be on the judge's scale."""
    said, meant = (np.where(np.isnan(v), np.nan, v > (scale.min + scale.max) / 2) for v in (target.said, target.meant))
    return rogan_gladen(replace(target, name="corrected/rogan_gladen", said=said, meant=meant, proportion=True))


def corrected_details(config: RunConfig, targets: Sequence[Target], clusters: Clusters) -> dict[str, Any]:
    """Return what corrected.json holds: the three means of each target, and the widths that more labels would buy."""
    scored = not all(target.proportion for target in targets)
    levels = len(Scale.of(config.rubric)) if scored else 3
    return {
        "confidence": config.scoring.confidence,
        "targets": [_plan(target, together(targets), config.scoring.confidence, clusters) for target in targets],
        "notes": [LEVELS] if levels > 2 else [],
    }


def _plan(target: Target, shares: Sequence[Target], confidence: float, clusters: Clusters) -> dict[str, Any]:
    totals = np.concatenate([_sums(one).sum(axis=0) for one in shares or (target,)])[None]
    n, others = int(totals[0, 0]), int(totals[0, 4])
    said = target.said[np.isfinite(target.said)]
    plan: dict[str, Any] = {
        "metric": target.name,
        "judge": round_metric(said.mean()) if len(said) else None,
        "people": round_metric(target.meant[target.labelled].mean()) if n else None,
        "corrected": round_metric(prediction_powered(target, shares).observed()),
        "labelled": n,
        "unlabelled": others,
    }
    if n < 2 or not others:
        return plan | {"more_labels": [], "note": "every answered one is labelled" if n > 1 else NO_LABEL}
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    widths = _widths(target, shares or (target,), z, clusters)
    return plan | {"trust_in_judge": round_metric(tuning(totals)[0]), "more_labels": widths}


def _widths(target: Target, shares: Sequence[Target], z: float, clusters: Clusters) -> list[dict[str, float | None]]:
    """Return the width of the interval if so many were labelled, the others' number staying as it is.

    From the variance of the two means, rows of one cluster together: that of y - k f over the labelled, and k² times
    that of f over the others; k is tuned anew to each number of labels. `without_judge` is the width of the labels' own
    mean.
    """
    n, others = int(target.labelled.sum()), int(target.unlabelled.sum())
    rows = []
    for labels in [n * factor for factor in GROWTH if n * factor <= n + others]:
        left = max(1, n + others - labels)
        k = _tuned(shares, labels, left)
        own = _spread(target, target.labelled, k, 1.0, clusters) / labels
        variance = own + k * k * _spread(target, None, 1.0, 0.0, clusters) / left
        alone = _spread(target, target.labelled, 0.0, 1.0, clusters) / labels
        rows.append(
            {
                "labels": labels,
                "width": round_metric(2 * z * np.sqrt(variance)),
                "without_judge": round_metric(2 * z * np.sqrt(alone)),
            }
        )
    return rows


def _tuned(shares: Sequence[Target], labels: int, left: int) -> float:
    covariance = variance = 0.0
    for target in shares:
        y, f = target.meant[target.labelled], target.said[target.labelled]
        covariance += float(np.mean((y - y.mean()) * (f - f.mean())))
        variance += float(target.said[np.isfinite(target.said)].var())
    return covariance / (variance * (1 + labels / left)) if variance > 1e-12 else 0.0


def _spread(target: Target, rows: Bools | None, k: float, own: float, clusters: Clusters) -> float:
    """Return the variance of own·y - k·f for one row, rows of one cluster being counted together."""
    used = np.isfinite(target.said) if rows is None else rows
    values = own * np.where(used & (own > 0), target.meant, 0.0) - k * np.where(used, target.said, 0.0)
    centred = np.where(used, values - values[used].mean(), 0.0)
    sums = np.bincount(clusters.of_rows(target.case), weights=centred)
    return float((sums**2).sum() / used.sum())
