"""Means of a judge corrected by a labeled subset, and the interval widths that more
labels would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import TIE, A, B, ClassColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Floats, divide, round_metric
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import (
    SharedStatistic,
    Statistic,
    Table,
    Tabled,
    Tally,
    ratio,
)

RANDOM = "valid if the labels are a random subset"
"""In the note of a rate that is corrected because some answers have no label; reports look for
it."""
SAMPLED = (
    f"{RANDOM} of those sampled, which are weighted by 1 / the probability that their case was"
    " chosen"
)
SAME_ERRORS = "valid if the judge errs as often without labels"
NO_LABEL = "no answer has a label: the effect of the judge's errors is not identified"
FEW_LABELS = "fewer than two answers have a label"
ONE_CLASS = (
    "the labels all belong to one class: sensitivity or specificity is not identified"
)
UNRELATED = "sensitivity and specificity sum to 1 or less on the labels: not identified"
LEVELS = (
    "Rogan-Gladen's correction is for two levels. With more levels, each rate depends on a whole"
    " table of errors, which is not identified without assumptions. Prediction-powered inference"
    " needs only a random subset of labels."
)
GROWTH = (1, 2, 4, 8, 16)
_COLUMNS = 10
_BY_GROUP = 4
GROUP, MOST_GROUPS = 5, 20
"""Means of labels are poststratified by weight if each weight has this many labels, and there are
at most so many."""


@frozen
class Target:
    """A mean to correct.

    Attributes:
        name: the corrected metric's name.
        of: the name of the metric it corrects.
        tally: the case of each row.
        judged: (rows,) the judge's values, NaN if missing.
        labels: (rows,) the labels, NaN if missing.
        proportion: whether the values are 0 and 1.
        weights: (rows,) the weights of labels that were sampled with unequal probabilities.
    """

    name: str
    of: str
    tally: Tally
    judged: Floats
    labels: Floats
    proportion: bool
    weights: Floats | None = None

    @property
    def answered(self) -> Bools:
        """Which rows have an answer, (rows,)."""
        return np.isfinite(self.judged)

    @property
    def labeled(self) -> Bools:
        """Which rows have a label, with or without an answer, (rows,)."""
        return np.isfinite(self.labels)

    @property
    def unlabeled(self) -> Bools:
        """Which rows have no label, with or without an answer, (rows,)."""
        return np.isnan(self.labels)

    @property
    def read(self) -> Bools:
        """Which rows have both an answer and a label, (rows,)."""
        return self.answered & self.labeled

    @property
    def predicted(self) -> Floats:
        """The judge's values, and the mean label of unanswered rows where one is
        missing, (rows,).
        """
        missing = self.labeled & ~self.answered
        if not missing.any():
            return np.nan_to_num(self.judged)
        return np.where(self.answered, self.judged, self.labels[missing].mean())

    @property
    def weight(self) -> Floats:
        """The weight of each label, (rows,)."""
        if self.weights is None:
            return np.ones(len(self.judged))
        return self.weights

    @property
    def groups(self) -> list[tuple[Bools, float]]:
        """The labels of each weight, (rows,), with their share of all rows; empty
        without several large groups.
        """
        weights = np.round(np.where(self.labeled, self.weight, 0.0), 9)
        values, counts = np.unique(weights[self.labeled], return_counts=True)
        if not 2 <= len(values) <= MOST_GROUPS or counts.min() < GROUP:
            return []
        shares = values * counts / (values @ counts)
        return [
            (weights == value, float(share))
            for value, share in zip(values, shares, strict=True)
        ]

    @property
    def unanswered(self) -> int:
        """The number of labeled rows without an answer."""
        return int((self.labeled & ~self.answered).sum())


def weigh_targets(targets: Sequence[Target], weights: Floats | None) -> list[Target]:
    """Return targets whose labels have the weights of their cases, (cases,), if there
    are weights.
    """
    return [
        target
        if weights is None
        else replace(target, weights=weights[target.tally.case])
        for target in targets
    ]


def rate_targets(
    units: VerdictColumns | ClassColumns, rates: Mapping[str, tuple[str, int]]
) -> list[Target]:
    """Return the rates of verdicts to correct, over all units, with or without a verdict.

    Whether a verdict is missing, split or withheld can depend on what it would be, so the labels of
    such units count.

    Args:
        units: the verdicts.
        rates: by the name of the corrected metric, the name of the metric that it corrects, and the
            code.
    """
    return [
        Target(
            name,
            of,
            units.tally,
            np.where(units.present, units.codes == code, np.nan),
            np.where(units.labeled, units.truth == code, np.nan),
            proportion=True,
        )
        for name, (of, code) in rates.items()
    ]


def mean_corrections(
    config: RunConfig,
    verdicts: VerdictColumns,
    clusters: Clusters,
    weights: Floats | None = None,
) -> Tabled:
    """Return the rates of A, B and TIE, or the mean score in units of the annotators'
    grades, corrected by labels.

    All are corrected by prediction-powered inference, and those of two levels also by Rogan and
    Gladen.

    Args:
        config: the run's config.
        verdicts: the verdicts.
        clusters: the clusters of the cases.
        weights: (cases,) the weights of cases whose labels were sampled with unequal probabilities.

    Returns:
        The statistics, and the content of corrected.json: the three means of each target, and
        interval widths for more labels.
    """
    scored = verdicts.scores if verdicts.passes is None else None
    scale = Scale.of(config.rubric)
    if scored is None:
        rates = {"win_rate/a": A, "win_rate/b": B, "tie_rate": TIE}
        named = {f"corrected/{name}": (name, code) for name, code in rates.items()}
        targets = weigh_targets(rate_targets(verdicts, named), weights)
        two_level = targets[:2]
    else:
        names = "corrected/score_mean", "score/mean"
        target = Target(
            *names, scored.tally, scored.raw, scored.grade, proportion=False
        )
        targets = weigh_targets([target], weights)
        two_level = []
        if (
            not scale.real and len(scale) == 2
        ):  # the rate of the upper level; grades must be on the judge's scale
            judged, labels = (
                np.where(np.isnan(values), np.nan, values > (scale.min + scale.max) / 2)
                for values in (target.judged, target.labels)
            )
            name = "corrected/rogan_gladen"
            two_level = [
                replace(
                    targets[0], name=name, judged=judged, labels=labels, proportion=True
                )
            ]
    limits = None if scored is None else scale.ends
    statistics = [
        replace(statistic, limits=limits) for statistic in prediction_powered(targets)
    ]
    details = {
        "confidence": config.scoring.confidence,
        "targets": label_plans(
            targets, statistics, config.scoring.confidence, clusters
        ),
        "notes": [LEVELS] if scored is None or scale.real or len(scale) > 2 else [],
    }
    return [*statistics, *map(rogan_gladen, two_level)], {"corrected": details}


def prediction_powered(targets: Sequence[Target]) -> list[Statistic]:
    """Return for each target the mean label of all rows, estimated from labels and the
    judge's answers.

    Without missing answers, the estimate is mean_L(y) + k (mean_U(f) - mean_L(f)) for labels y,
    answers f, labeled rows L and unlabeled rows U. The k with the smallest variance is
    cov(y, f) / ((1 + |L|/|U|) var(f)) (Angelopoulos et al. 2023, arXiv 2301.09633, for k = 1;
    Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453, section 6, for this k). L and U are all
    rows, also those without an answer: there f is the constant that predicts the labels of
    unanswered rows best. So answers that are missing by label do not bias the estimate, and it
    needs no more than that labels are a random subset. If labels have weights, means over L are
    weighted, and U is all rows, because those without a label are not a random subset. Where there
    are a few weights, each of several labels, means over L are those of the labels of each weight,
    weighted by their share of all rows: poststratification (Holt and Smith 1979, J. R. Stat. Soc.
    A 142, 33-46). How many of the labels have which weight is then no source of error, as in the
    sampling by strata that chose them.

    Several targets are the shares of a whole: one k minimizes the sum of their variances, so that
    they sum to 1. Negative shares are then projected to the nearest point of the simplex (Duchi et
    al. 2008, Efficient projections).
    """
    of = tuple(share for _, share in targets[0].groups)
    table = Table.of([column for target in targets for column in _sum_columns(target)])

    def means(totals: Floats) -> Floats:
        parts = _parts(totals, _COLUMNS + _BY_GROUP * len(of))
        k = tuning(np.concatenate([part[:, :_COLUMNS] for part in parts], axis=1))
        # shape (rows, targets)
        estimates = np.stack([_corrected_means(part, k, of) for part in parts], axis=1)
        if len(targets) > 1:
            return onto_simplex(estimates)
        return np.clip(estimates, 0.0, 1.0) if targets[0].proportion else estimates

    shared = SharedStatistic(means)
    statistics = []
    for index, target in enumerate(targets):
        labels = target.labels[target.labeled]
        unlabeled = int(target.unlabeled.sum())
        statistic = Statistic(
            target.name,
            table,
            shared[index],
            n=int(target.read.sum()),
            covered=target.tally(target.labeled) > 0,
            missing=target.unanswered,
            # Equal labels do not vary between resamples, and have the exact interval.
            proportion=target.proportion
            and (not unlabeled or (len(labels) > 0 and bool(np.ptp(labels) == 0))),
            note=_note(target),
            why=NO_LABEL if not len(labels) else FEW_LABELS,
        )
        statistics.append(statistic)
    return statistics


def _note(target: Target) -> str:
    labels = int(target.labeled.sum())
    unanswered = target.unanswered
    lost = f", {unanswered} of them without an answer" if unanswered else ""
    unlabeled = int(target.unlabeled.sum())
    if not unlabeled:
        return f"every answer has a label: this is the mean of the labels{lost}"
    weighted = RANDOM if target.weights is None else SAMPLED
    unit_name = "units" if np.isnan(target.judged).any() else "answers"
    also = f"{lost}, and" if lost else " and"
    return f"{labels} labels{also} {unlabeled} {unit_name} without a label; {weighted}"


def _sum_columns(target: Target) -> list[Floats]:
    """Return the columns of `_corrected_means`: sums over all rows, and by group of weights."""
    labeled = target.labeled
    read = target.read
    # If labels have weights, the labeled rows are part of the population, not a random subset.
    population = target.unlabeled if target.weights is None else labeled | True
    answered = population & target.answered
    y = np.where(labeled, target.labels, 0.0)
    f = np.where(read, target.judged, 0.0)
    population_answers = np.where(answered, target.judged, 0.0)
    weight = target.weight
    columns = [
        labeled * weight,
        y * weight,
        read * weight,
        y * read * weight,
        f * weight,
        y * f * weight,
        population,
        answered,
        population_answers,
        f * f + population_answers * population_answers,
    ]
    columns += [
        column
        for rows, _ in target.groups
        for column in (1.0 * rows, y * rows, 1.0 * (rows & read), f * rows)
    ]
    return target.tally.columns(*columns)


def _corrected_means(totals: Floats, k: Floats, shares: Sequence[float] = ()) -> Floats:
    """Return the corrected mean label of each row of totals, (rows,).

    Args:
        totals: (rows, `_COLUMNS` + `_BY_GROUP` * groups) sums over the cases of a resample.
        k: (rows,) the weight of the judge's answers, 0 to ignore them.
        shares: (groups,) the share of each group in the population; empty without groups.
    """
    n, y, read, y_read, f, _, population, answered, population_answers, _ = totals.T[
        :_COLUMNS
    ]
    every_mean = divide(np.where(n > 1, y, np.nan), n)
    mean = every_mean
    share_read = divide(read, n)
    judged = divide(f, n)
    if shares:
        # shape (rows, groups)
        counts, labels, reads, answers = (
            totals[:, _COLUMNS + at :: _BY_GROUP] for at in range(_BY_GROUP)
        )
        mean, share_read, judged = (
            divide(sums, counts) @ np.array(shares) for sums in (labels, reads, answers)
        )
    # The prediction of a row is k f with an answer, and the mean label of unanswered rows without.
    by_read = np.where(read > 0, divide(y_read, read), every_mean)
    lost = n - read
    by_lost = np.where(lost > 1e-9, divide(y - y_read, lost), every_mean)
    center = np.nan_to_num(divide(f, read))
    at_random = divide(population, n + population)
    more_read = divide(answered, population) - share_read
    correction = divide(population_answers, population) - judged - center * more_read
    shift = k * correction + at_random * (by_read - by_lost) * more_read
    return mean + np.where(population > 0, shift, 0.0)


def onto_simplex(shares: Floats) -> Floats:
    """Return the nearest point of the simplex for each row: entries of at least 0 that sum to 1."""
    descending = -np.sort(-shares, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, shares.shape[1] + 1)
    last = np.maximum((descending > excess).sum(axis=1) - 1, 0)
    return np.maximum(shares - np.take_along_axis(excess, last[:, None], axis=1), 0.0)


def _parts(totals: Floats, width: int) -> list[Floats]:
    return [totals[:, at : at + width] for at in range(0, totals.shape[1], width)]


def tuning(totals: Floats) -> Floats:
    """Return the weight k of the judge's answers, (rows,); 0 if they do not vary or
    every row has a label.

    With the totals of several shares side by side, it is one k for all.
    """
    covariance = variance = np.zeros(len(totals))
    for part in _parts(totals, _COLUMNS):
        n, _, read, y, f, yf, population, answered, population_answers, ff = part.T
        every = read + answered
        share = divide(population, n + population)
        covariance = covariance + share * np.nan_to_num(
            divide(yf, read) - divide(y, read) * divide(f, read)
        )
        variance = variance + np.nan_to_num(
            divide(ff, every) - divide(f + population_answers, every) ** 2
        )
    return np.nan_to_num(divide(covariance, np.where(variance > 1e-12, variance, 0.0)))


def rogan_gladen(target: Target) -> Statistic:
    """Return a rate corrected for the judge's errors, clipped to [0, 1].

    It is (observed rate + specificity - 1) / (sensitivity + specificity - 1), with all terms
    resampled together (Rogan and Gladen 1978, Am. J. Epidemiol. 107, 71-76). A missing answer is
    one more answer, which the judge gives in each class with its own probability.
    """
    labeled = target.labeled
    answered = target.answered
    tally = target.tally
    weight = target.weight
    is_one = answered & (target.judged == 1)
    is_other = answered & ~is_one
    positive = labeled & (target.labels == 1)
    negative = labeled & ~positive
    cells = (
        positive,
        positive & is_one,
        positive & is_other,
        negative,
        negative & is_one,
        negative & is_other,
    )
    positives = int(positive.sum())
    n = int(labeled.sum())
    why = NO_LABEL
    if n:
        why = ONE_CLASS if positives in (0, n) else UNRELATED
    return Statistic(
        target.name.replace("corrected/win_rate", "corrected/rogan_gladen"),
        tally.columns(is_one, is_other, *(cell * weight for cell in cells)),
        _corrected_rate,
        n=int(answered.sum()),
        covered=tally(labeled) > 0,
        missing=target.unanswered,
        strict=True,
        note=(
            f"sensitivity from {positives}, specificity from {n - positives} labels; {SAME_ERRORS}"
        ),
        why=why,
    )


def _corrected_rate(totals: Floats) -> Floats:
    """Return the share of the positive class that gives the observed shares of answers."""
    is_one = totals[:, 0]
    is_other = totals[:, 1]
    hits, misses, alarms, rejections = (
        ratio(cell, of, totals) for cell, of in ((3, 2), (4, 2), (6, 5), (7, 5))
    )
    determinant = hits * rejections - misses * alarms
    positive = is_one * rejections - is_other * alarms
    negative = is_other * hits - is_one * misses
    usable = np.where(determinant > 1e-9, positive + negative, 0.0)
    return np.clip(divide(positive, usable), 0.0, 1.0)


def label_plans(
    targets: Sequence[Target],
    powered: Sequence[Statistic],
    confidence: float,
    clusters: Clusters,
) -> list[JsonObject]:
    """Return each target's means as judged, labeled and corrected, and the interval
    widths for more labels.
    """
    sums = _parts(
        powered[0].table.observed, len(powered[0].table.columns) // len(targets)
    )
    trust = float(
        tuning(np.concatenate([part[:, :_COLUMNS] for part in sums], axis=1))[0]
    )
    return [
        _label_plan(target, statistic.observed(), targets, trust, confidence, clusters)
        for target, statistic in zip(targets, powered, strict=True)
    ]


def _label_plan(
    target: Target,
    corrected: float,
    targets: Sequence[Target],
    trust: float,
    confidence: float,
    clusters: Clusters,
) -> JsonObject:
    """Return what was found for a target, and the widths of intervals that more labels would give.

    Without a plan, `note` says why.
    """
    labeled = target.labeled
    n = int(labeled.sum())
    unlabeled = int(target.unlabeled.sum())
    judge_mean = None
    if target.answered.any():
        judge_mean = round_metric(target.judged[target.answered].mean())
    label_mean = None
    if n:
        weights = target.weight[labeled]
        label_mean = round_metric(np.average(target.labels[labeled], weights=weights))
    plan: JsonObject = {
        "metric": target.name,
        "judge": judge_mean,
        "people": label_mean,
        "corrected": round_metric(corrected),
        "labelled": n,
        "unlabelled": unlabeled,
        "more_labels": [],
    }
    if target.weights is not None:
        return plan | {"note": SAMPLED}
    if n < 2 or not unlabeled:
        return plan | {"note": "every answer has a label" if n > 1 else NO_LABEL}
    # For several numbers of labels, with the number of rows unchanged.
    numbers = [n * factor for factor in GROWTH if n * factor <= n + unlabeled]
    plan["more_labels"] = [
        _widths_with_labels(target, targets, labels, confidence, clusters)
        for labels in numbers
    ]
    return plan | {"trust_in_judge": round_metric(trust)}


def _widths_with_labels(
    target: Target,
    targets: Sequence[Target],
    labels: int,
    confidence: float,
    clusters: Clusters,
) -> JsonObject:
    """Return the widths of the intervals that a number of labels would give, with and
    without the judge.

    The width follows from the variance of two means, with rows summed by cluster: that of y - k f
    over the labeled rows and k² times that of f over the others, with k tuned for the number of
    labels.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    labeled = target.labeled
    every_row = labeled | True
    remaining = max(1, len(labeled) - labels)
    k = _planned_tuning(targets, labels, remaining)
    of_labeled = _row_variance(target, labeled, k, 1.0, clusters) / labels
    of_judged = _row_variance(target, every_row, 1.0, 0.0, clusters) / remaining
    labels_only = _row_variance(target, labeled, 0.0, 1.0, clusters) / labels
    variance = of_labeled + k * k * of_judged
    return {
        "labels": labels,
        "width": round_metric(2 * z * np.sqrt(variance)),
        "without_judge": round_metric(2 * z * np.sqrt(labels_only)),
    }


def _planned_tuning(targets: Sequence[Target], labels: int, remaining: int) -> float:
    covariance = variance = 0.0
    for target in targets:
        y = target.labels[target.labeled]
        f = target.predicted[target.labeled]
        covariance += float(np.mean((y - y.mean()) * (f - f.mean())))
        variance += float(target.predicted.var())
    if variance > 1e-12:
        return covariance / (variance * (1 + labels / remaining))
    return 0.0


def _row_variance(
    target: Target, used: Bools, k: float, label: float, clusters: Clusters
) -> float:
    """Return the variance of label·y - k·f for one row, with rows summed by cluster.

    Args:
        target: the target.
        used: (rows,) which rows count.
        k: the weight of the judge's answers.
        label: the weight of the labels.
        clusters: the clusters of the cases.
    """
    values = label * np.where(used & (label > 0), target.labels, 0.0) - k * np.where(
        used, target.predicted, 0.0
    )
    centered = np.where(used, values - values[used].mean(), 0.0)
    sums = np.bincount(clusters.of_rows(target.tally.case), weights=centered)
    return float((sums**2).sum() / used.sum())
