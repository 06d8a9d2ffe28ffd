"""Labels: the weights of those sampled with unequal probabilities, and how many more
would decide about a judge.

Each labeled case stands for 1 / p cases, where p is the probability that it was chosen for labeling
(Horvitz and Thompson 1952, J. Am. Stat. Assoc. 47, 663-685). Ratios of weighted sums are Hájek's
(1971): shares, and through the weighted confusion matrix or weighted moments every coefficient of
agreement. A labeled case without a probability was labeled anyway, and has weight 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, log, log10, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from evalkit.core.annotations import UNKNOWN, inclusion
from evalkit.core.splits import is_labeled
from evalkit.core.types import Case, Metric
from evalkit.core.values import frozen
from evalkit.scoring.catalog import CATALOG, MetricSpec
from evalkit.scoring.decision import (
    FEW,
    FEW_LABELS,
    FLOOR,
    LABELS_NEEDED,
    LEAN,
    Reason,
    beyond_chance,
    decide,
    kind_of,
    known,
    labels,
    labels_at_hand,
    open_leans,
)
from evalkit.scoring.stats.arrays import Bounds, Floats, fewest, round_metric
from evalkit.scoring.stats.quantiles import student_quantile
from evalkit.scoring.stats.statistic import Statistic, share

GROUPS: Final = frozenset({"agreement", "human", "calibration", "corrected"})
"""Groups of metrics that compare the judge with labels; rows of other groups say so by `labels`."""
ONLY_LABELED: Final = "not weighted: about the labeled cases only"
"""Note of a metric that compares with labels and has no weights."""


@frozen
class LabelWeights:
    """How the labeled cases of a run were chosen.

    Attributes:
        weights: (cases,) the weight of each case, whose mean over the labeled cases is 1.
        labeled: the number of labeled cases.
        unknown: how many of them were picked with an unknown probability, so that nothing can be
            weighted.
    """

    weights: Floats
    labeled: int
    unknown: int = 0

    @property
    def effective(self) -> float:
        """The number of labels of a simple random sample that would be as precise (Kish
        1965, section 11.7).
        """
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())


def label_weights(cases: Sequence[Case]) -> LabelWeights | None:
    """Return the weights of a run's labeled cases; `None` if they are equal, or nothing
    says how cases were chosen.

    Raises:
        ConfigError: if a probability is invalid.
    """
    # Most cases have no metadata, and are asked for nothing.
    inclusions = [
        (inclusion(case) if case.metadata else None, is_labeled(case)) for case in cases
    ]
    labeled = np.array([use for _, use in inclusions], dtype=bool)
    if not labeled.any() or labeled.all():
        return None
    chosen = [probability for probability, use in inclusions if use]
    shares = np.array(
        [
            probability if isinstance(probability, float) else 1.0
            for probability in chosen
        ]
    )
    if any(isinstance(probability, float) for probability in chosen):
        if np.ptp(shares) == 0:
            return None
        weights = np.zeros(len(cases))
        weights[labeled] = 1 / shares
        return LabelWeights(weights / weights[labeled].mean(), len(chosen))
    unknown = chosen.count(UNKNOWN)
    if unknown:
        return LabelWeights(labeled.astype(np.float64), len(chosen), unknown)
    return None


def given_weights(cases: Sequence[Case]) -> Floats | None:
    """Return the weights of cases by which comparisons with labels are weighted; `None`
    if there are none.
    """
    return known_weights(label_weights(cases))


def known_weights(chosen: LabelWeights | None) -> Floats | None:
    """Return the weights of cases by which comparisons with labels are weighted; `None`
    if there are none.
    """
    if chosen is None or chosen.unknown:
        return None
    return chosen.weights


def weigh_labels(
    measures: Sequence[Statistic | Metric], chosen: LabelWeights
) -> Iterator[Statistic | Metric]:
    """Yield metrics with those that compare with labels weighted, after those on the
    sample of labels.
    """
    yield from _sample_metrics(chosen)
    scaled: dict[int, Floats] = {}
    for metric in measures:
        spec = CATALOG.spec(metric.name)
        if chosen.unknown or spec is None or not _compares(spec):
            yield metric
        elif isinstance(metric, Metric) or spec.labels == "unweighted":
            yield replace(
                metric,
                note="; ".join(note for note in (metric.note, ONLY_LABELED) if note),
            )
        elif (
            spec.group == "corrected"
        ):  # its labels are weighted already, and its other columns have no weights
            yield replace(metric, weights=chosen.weights)
        else:
            yield _with_weights(metric, chosen.weights, scaled)


def _compares(spec: MetricSpec) -> bool:
    return spec.group in GROUPS or bool(spec.labels) or spec.name.startswith(LEAN)


def _sample_metrics(chosen: LabelWeights) -> Iterator[Metric]:
    n = chosen.labeled
    if chosen.unknown:
        note = (
            "labels picked with unknown probabilities: comparisons with labels are not about the"
            " data set"
        )
        yield Metric("labels/picked", round_metric(chosen.unknown / n), n=n, note=note)
    else:
        note = "labels weighted by 1 / the probability that their case was chosen"
        yield Metric("labels/effective", round_metric(chosen.effective), n=n, note=note)


def _with_weights(
    statistic: Statistic, weights: Floats, scaled: dict[int, Floats]
) -> Statistic:
    """Return a statistic under weights of cases; its bounds over missing answers too,
    if it is a rate.

    Args:
        statistic: the statistic.
        weights: (cases,) the weights.
        scaled: the weighted columns by table, which statistics share.
    """
    table = statistic.table
    if id(table) not in scaled:
        if table.columns:
            columns = np.stack(table.columns, axis=1, dtype=np.float64)
        else:
            columns = np.zeros((table.cases, 0))
        # shape (cases, columns)
        scaled[id(table)] = columns * weights[:, None]
    value = statistic.value
    weighted = replace(
        statistic,
        columns=scaled[id(table)],
        value=(lambda rows: value(rows * weights)) if statistic.weighted else value,
        weights=weights,
    )
    return replace(weighted, worst=_worst(weighted, weights))


def _worst(statistic: Statistic, weights: Floats) -> Bounds:
    if statistic.worst == (None, None):
        return None, None
    if statistic.unread is not None:
        hits, read = (float(column.sum()) for column in statistic.table.columns)
        unknown = float((statistic.unread * weights).sum())
        return share(hits, read + unknown, unknown)
    if statistic.missing:
        return None, None
    return statistic.observed(), statistic.observed()


POWER: Final = 0.8
"""The probability that so many labels decide, if the truth is the estimate."""
LEAST_POWER: Final = 0.5
MOST_POWER: Final = 0.95
"""The same for the ends of the range of labels needed."""
ASSUMED: Final = 0.4
"""Without labels, agreement beyond chance of the judge: right in 70% of pairs, or a correlation of
0.40."""
MOST: Final = 10**9
CROWDED: Final = 3
"""So many labels of a cluster on average, and fewer than `FEW_LABELS` clusters, mean that new
labels must be of other clusters."""
SKEW: Final = 7
"""So many more clusters than by normal errors decide if a few do: a coefficient near 1 is skewed
(by simulation)."""


def labels_needed(
    metrics: Mapping[str, Metric], clusters: Mapping[str, int], confidence: float
) -> Metric:
    """Return `decision/labels_needed`, without a value where labels decide, or no
    number of them would.

    The interval of N clusters reaches as far as that of the clusters at hand, times their ratio of
    q / sqrt(n), where q is the quantile of the interval. N is the smallest number for which an
    estimate with that error is on one side of the floor, by its whole interval, with probability
    `POWER` (Chow et al. 2008, Sample Size Calculations in Clinical Research, 1.3). The length of an
    interval from fewer than `FEW_LABELS` clusters is uncertain, and N would grow with the labels at
    hand: then the error follows from the estimates. Where no verdict is wrong, or none right, the
    interval is an exact bound and decides without an estimation error.

    Args:
        metrics: the metrics of a judge.
        clusters: the number of clusters behind each metric.
        confidence: the confidence of intervals.
    """
    decision = decide(metrics, confidence)
    at_hand = labels_at_hand(metrics)
    if decision.reason == "lean_unclear":
        return _labels_for_leans(metrics, clusters, at_hand, confidence)
    if decision.reason in NOT_BY_LABELS or decision.use not in ("none", "unknown"):
        note = NOT_BY_LABELS.get(decision.reason, DECIDED_BY_LABELS)
        return Metric(LABELS_NEEDED, None, n=at_hand, note=note)
    if decision.use == "none":
        return Metric(LABELS_NEEDED, None, n=at_hand, note=DECIDED_BY_LABELS)
    if 0 < at_hand < FEW:
        return Metric(LABELS_NEEDED, None, n=at_hand, note=TOO_FEW)
    metric = None if decision.metric is None else beyond_chance(decision.metric)
    if (
        metric is None
        or metric.value is None
        or metric.low is None
        or metric.high is None
    ):
        spread = _spread(ASSUMED, metrics)
        totals = _totals(ASSUMED - FLOOR, spread, confidence)
        return _more_labels(totals, at_hand, ASSUMPTION)
    n = clusters.get(metric.name, metric.n)
    above = metric.value > FLOOR
    reach = metric.value - metric.low if above else metric.high - metric.value
    distance = abs(metric.value - FLOOR)
    if abs(metric.value) == 1:
        exact = _clusters_without_error(distance, reach, n, confidence)
        totals = (exact, exact, exact)
    elif n >= FEW_LABELS:
        spread = reach * sqrt(n) / _quantile(n, confidence)
        totals = _totals(distance, spread, confidence)
    else:
        spread = _spread(metric.value, metrics)
        fewest_clusters, probable, most = _totals(distance, spread, confidence)
        totals = (fewest_clusters + SKEW, probable + SKEW, most + SKEW)
    per_cluster = labels(metric) / max(n, 1)
    low, total, high = totals
    scaled = (low * per_cluster, total * per_cluster, high * per_cluster)
    note = "assumes that the agreement is as estimated"
    return _more_labels(scaled, at_hand, note + _few_clusters(metric, n))


def _few_clusters(metric: Metric, clusters: int) -> str:
    """Return the end of a note on labels of few clusters, which more labels of the same
    would not help.
    """
    if 0 < CROWDED * clusters <= metric.n and clusters < FEW_LABELS:
        return f"; labels of {clusters} clusters"
    return ""


def _totals(
    distance: float, spread: float, confidence: float
) -> tuple[float, float, float]:
    """Return how many clusters decide with a probability of 50%, of `POWER` and of 95%."""
    low, total, high = (
        _clusters_needed(distance, spread, confidence, power)
        for power in (LEAST_POWER, POWER, MOST_POWER)
    )
    return low, total, high


def _more_labels(totals: tuple[float, float, float], at_hand: int, note: str) -> Metric:
    """Return how many labels to add to those at hand, with the range, each with two
    significant digits.
    """
    low, total, high = (
        float(_rounded(max(1.0, min(max(count, FEW), MOST) - at_hand)))
        for count in totals
    )
    return Metric(LABELS_NEEDED, total, low, high, n=at_hand, note=note)


def _labels_for_leans(
    metrics: Mapping[str, Metric],
    clusters: Mapping[str, int],
    at_hand: int,
    confidence: float,
) -> Metric:
    """Return how many labels decide whether open leans are within their margin, if they
    are as estimated.
    """
    # For each lean: the labels it needs, between a lower and an upper estimate.
    totals = list[tuple[float, float, float]]()
    few = ""
    for lean in open_leans(metrics):
        metric = lean.metric
        spread = _spread_at_hand(metric, confidence)
        if at_hand < FEW_LABELS or not spread or metric.value is None:
            return Metric(LABELS_NEEDED, None, n=at_hand, note=TOO_FEW)
        # At its margin, no number of labels decides: the largest number is reported.
        distance = max(abs(lean.margin - abs(metric.value)), 1e-6)
        clusters_at_hand = clusters.get(metric.name, metric.n)
        few = few or _few_clusters(metric, clusters_at_hand)
        per_cluster = metric.n / max(clusters_at_hand, 1)
        # The spread is that of one unit, so clusters are those units.
        low, total, high = _totals(distance, spread, confidence)
        scale = 1.0 if per_cluster >= 1 else per_cluster
        totals.append((low * scale, total * scale, high * scale))
    # Scores without a scale have no lean of a rate that labels could settle.
    if not totals:
        return Metric(LABELS_NEEDED, None, n=at_hand, note=TOO_FEW)

    def estimate(counts: tuple[float, float, float]) -> float:
        _, total, _ = counts
        return total

    # The lean that needs the most labels.
    most_demanding = max(totals, key=estimate)
    return _more_labels(most_demanding, at_hand, LEAN_AS_ESTIMATED + few)


def labels_for(metric: Metric, limit: float, confidence: float) -> int | None:
    """Return how many more labels would probably put a metric's interval on one side of
    a limit that lies within it.

    As in `labels_needed`, from half the length of the interval, with the metric's units as
    clusters. `None` if the metric is not about labels alone, if there are fewer than `FEW_LABELS`,
    whose interval does not show how much one label varies, or if no number of labels would, because
    its value is the limit.

    Args:
        metric: a metric with an interval.
        limit: the limit.
        confidence: the confidence of the interval.
    """
    if _is_by_labels(metric):
        return units_for(metric, limit, confidence)
    return None


def units_for(metric: Metric, limit: float, confidence: float) -> int | None:
    """Return as `labels_for` how many more units, such as cases of an audit, would
    probably decide a metric.
    """
    spread = _spread_at_hand(metric, confidence)
    if (
        not spread
        or metric.value is None
        or metric.value == limit
        or metric.n < FEW_LABELS
    ):
        return None
    return max(
        1, labels_to_decide(abs(metric.value - limit), spread, confidence) - metric.n
    )


def labels_for_width(metric: Metric, width: float, confidence: float) -> int | None:
    """Return how many more labels would probably make a metric's interval this narrow; 0 if it is.

    The spreads of n labels at hand and of all N labels have relative standard errors of at most
    about 1 / sqrt(n) and 1 / sqrt(N) (by simulation: benchmarks/labels.py). N is the smallest
    number whose interval has the width with probability `POWER`. `None` as for `labels_for`.

    Args:
        metric: a metric with an interval.
        width: the width, from the lower to the upper end.
        confidence: the confidence of the interval.
    """
    spread = _spread_at_hand(metric, confidence) if _is_by_labels(metric) else None
    if spread is None or metric.low is None or metric.high is None:
        return None
    if metric.high - metric.low <= width:
        return 0
    z = NormalDist().inv_cdf(POWER)
    at_hand = metric.n

    def reaches(n: int) -> bool:
        surplus = 1 + z * sqrt(1 / at_hand + 1 / n)
        return 2 * _quantile(n, confidence) * surplus * spread <= width * sqrt(n)

    return max(1, _rounded(fewest(reaches, MOST)) - at_hand)


def _is_by_labels(metric: Metric) -> bool:
    """Return whether labels alone determine a metric."""
    spec = CATALOG.spec(metric.name)
    return spec is not None and spec.group != "corrected" and _compares(spec)


def _spread_at_hand(metric: Metric, confidence: float) -> float | None:
    """Return the standard deviation of one unit's part in a metric; `None` without an
    interval of two units.
    """
    if metric.n < 2 or metric.low is None or metric.high is None:
        return None
    return (
        (metric.high - metric.low)
        / 2
        * sqrt(metric.n)
        / _quantile(metric.n, confidence)
    )


def labels_to_decide(distance: float, spread: float, confidence: float) -> int:
    """Return how many labels probably put an interval on one side of a limit at a
    distance from the estimate.

    Args:
        distance: the distance.
        spread: the standard deviation of one label's part in the estimate.
        confidence: the confidence of the interval.
    """
    return _rounded(_clusters_needed(distance, spread, confidence))


def _spread(agreement: float, metrics: Mapping[str, Metric]) -> float:
    """Return the standard deviation of one label's part in a correlation or kappa
    (Cohen 1960), from estimates alone.

    The share of correct verdicts is taken to be at least that of labels that are half A and half B.
    """
    kind = kind_of(metrics)
    if kind.share is None:
        return 1 - agreement**2
    share = known(metrics, kind.share)
    correct = max(
        (1 + agreement) / 2,
        0.0 if share is None or share.value in (None, 1) else share.value,
    )
    return (1 - agreement) * sqrt(correct / (1 - correct))


NOT_BY_LABELS: Final[Mapping[Reason, str]] = {
    "missing": "missing answers come first",
    "one_class": "labels of another class are needed",
    "picked": "labels of cases sampled at random are needed",
    "split": "split votes come first",
    "label_source": "labels that are not the judge's own word are needed",
    "copied_labels": "labels that are not the judge's own word are needed",
    "units": "labels on the scale of the scores are needed",
}
DECIDED_BY_LABELS: Final = "the labels decide"
TOO_FEW: Final = "too few labels to say how many decide"
LEAN_AS_ESTIMATED: Final = "assumes that the lean is as estimated"
ASSUMPTION: Final = (
    "assumes a judge that is right in 70%, or whose scores have a correlation of 0.40"
)


def _clusters_needed(
    distance: float, spread: float, confidence: float, power: float = POWER
) -> float:
    """Return the smallest number of clusters that decides with a probability, the power."""
    z = NormalDist().inv_cdf(power)

    return fewest(
        lambda n: distance * sqrt(n) / spread >= _quantile(n, confidence) + z, MOST
    )


def _clusters_without_error(
    distance: float, reach: float, n: int, confidence: float
) -> float:
    """Return how many clusters decide if none has an error, from the reach of the
    interval of n of them.

    The reach is in proportion to the largest rate of errors that n clusters without any do not
    exclude (Clopper and Pearson 1934, Biometrika 26, 404-413).
    """
    tail = (1 - confidence) / 2
    loss = reach / (1 - tail ** (1 / n))
    return log(tail) / log(1 - distance / loss) if distance < loss else 1.0


def _quantile(n: int, confidence: float) -> float:
    return -sqrt(n / (n - 1)) * student_quantile((1 - confidence) / 2, n - 1)


def _rounded(count: float) -> int:
    """Return an estimated count, rounded up to two digits."""
    unit: int = 10 ** max(floor(log10(max(count, 1))) - 1, 0)
    return ceil(count / unit) * unit
