"""Which cases to label next: those whose labels narrow the rates corrected by labels most.

This is active inference (Zrnic and Candès 2024, arXiv 2403.03208): cases on which the judge is more
likely wrong are labeled more often, with known probabilities above 0, by which their labels are
weighted. The probabilities are those of a stratified sample (see `labeling`) with Neyman's (1934)
allocation: each next label goes to the stratum whose part of the variance it lowers most. How often
the judge is wrong in a stratum is estimated from the labels so far. Labels that the run has count
as a simple random sample, so those of a stratum are a random part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf, sqrt
from statistics import fmean
from typing import Final

from evalkit.core.annotations import UNKNOWN, inclusion
from evalkit.core.errors import ConfigError
from evalkit.core.types import Case, Metric, Unit, Verdict
from evalkit.core.values import frozen
from evalkit.datasets.labels import has_label, is_labeled
from evalkit.labels.sample import EACH, KINDS, LabelSample, strata_of
from evalkit.labels.tasks import labeled_size, units_to_label
from evalkit.runs.results import RunResult

PRIOR: Final = dict(zip(KINDS, (0.3, 0.3, 0.2, 0.05), strict=True))
"""The squared difference of label and verdict by kind of stratum, if there are no labels yet."""
PRIOR_LABELS: Final = 4
"""As many labels as the prior counts for, in each stratum."""
_CORRECTED: Final = (
    "corrected/win_rate/",
    "corrected/prediction_powered/",
    "corrected/score_mean",
)
"""The rates to narrow; the first that a run has is the one that counts."""


@frozen
class NextLabels:
    """Cases to label next.

    Attributes:
        sample: the sample, with the cases that have labels.
        labels: the number of labeled cases with those to label next.
        effective: the number of labels of a simple random sample that would be as precise, at most
            one for each case.
        metric: a rate of the run that labels correct, with an interval; `None` without labels.
        width: the expected width of that interval.
        at_random: the expected width if the next labels were a simple random sample.
    """

    sample: LabelSample
    labels: int
    effective: float
    metric: Metric | None = None
    width: float | None = None
    at_random: float | None = None


def next_labels(result: RunResult, count: int, seed: int = 0) -> NextLabels:
    """Sample about `count` cases to label next.

    Args:
        result: the run.
        count: the number of cases.
        seed: the seed of the order within strata.

    Raises:
        ConfigError: if nothing is left to label, or labels were picked with unknown probabilities.
    """
    metric = _metric_to_narrow(result)
    # The end of the name is the winner or class that the rate counts.
    target = (metric.name if metric else "a").rpartition("/")[2]
    if labeled_size(result) == 2:
        target = target.upper()
    residuals = _residuals(result, target)
    units = units_to_label(result)
    judged = [case for case in result.cases if case.id in units]
    labeled = {case.id for case in judged if has_label(case) or case.labels}
    weighted = _is_weighted(result)
    if not count or len(labeled) >= len(units):
        raise _nothing_to_label(result, judged, units)
    total = min(len(labeled) + count, len(units))
    levels = _apart(
        strata_of(result, [*units], seed), _of_unlabeled_systems(result, labeled)
    )
    members, before = next(_affordable_strata(levels, labeled, total))
    # From here on all are by the name of a stratum: sizes, labels before and after, and the
    # spread.
    sizes = {name: len(cases) for name, cases in members.items()}
    spread, single = _residual_variances(members, residuals)
    after = _allocate_labels(sizes, before, spread, total)
    chosen = dict[str, float]()
    new = list[str]()
    for name, cases in members.items():
        # In the random order of `strata_of`, so its first cases are a random sample.
        unlabeled = [case for case in cases if case not in labeled]
        added = unlabeled[: after[name] - before[name]]
        new += added
        # Labeled cases get the probability of the whole sample too: they and the new ones are one
        # simple random sample of the stratum.
        chance = after[name] / sizes[name]
        known = [case for case in cases if case in labeled]
        chosen |= dict.fromkeys([*known, *added], chance)
    strata = {name: (sizes[name], after[name]) for name in members}
    pairs = [(case, unit) for case in new for unit in units[case]]
    sample = LabelSample(pairs, chosen, strata, seed)
    # How much strata differ is a variance of the run's cases, whichever of them are labeled.
    within = sum(size / len(units) * spread[name] for name, size in sizes.items())
    between = (single - within) / len(units)
    variance = _variance(sizes, after, spread) + between
    effective = single / variance
    # The variance with the labels so far, which may be a simple random sample.
    old = inf
    if weighted:
        old = _variance(sizes, before, spread) + between
    elif labeled:
        old = single / len(labeled)
    # Without an interval so far, there is no width to scale.
    if metric is None or old == inf or metric.low is None or metric.high is None:
        return NextLabels(sample, total, effective)
    width = metric.high - metric.low
    # The labels so far are worth `single / old` labels at random.
    labels_at_random = single / old + total - len(labeled)
    variance_at_random = single / labels_at_random
    # A width goes with the root of the variance.
    return NextLabels(
        sample,
        total,
        effective,
        metric,
        width=width * sqrt(variance / old),
        at_random=width * sqrt(variance_at_random / old),
    )


def _metric_to_narrow(result: RunResult) -> Metric | None:
    """Return the first corrected rate of a run: labels should narrow its interval."""
    for name, metric in result.metrics.items():
        if _is_corrected(name, metric):
            return metric
    return None


def _is_weighted(result: RunResult) -> bool:
    """Return whether cases were sampled with unequal probabilities.

    Raises:
        ConfigError: if one is unknown, because then no weight makes the labels so far a random
            sample.
    """
    chances = [inclusion(case) for case in result.cases]
    if UNKNOWN in chances:
        remedy = "label more cases with --informative, which repairs that"
        raise ConfigError(
            "labels were picked with unknown probabilities",
            where=str(result.folder),
            remedy=remedy,
        )
    return any(isinstance(chance, float) for chance in chances)


def _nothing_to_label(
    result: RunResult, cases: Iterable[Case], units: Mapping[str, Sequence[Unit]]
) -> ConfigError:
    """Return the error for a run without an unlabeled case.

    Args:
        result: the run.
        cases: the cases with a verdict.
        units: the units of each of them, by the case's id.
    """
    problem = "has no unlabeled case with a verdict"
    remedy = "name another run"
    for case in cases:
        responses = [case.responses[index] for unit in units[case.id] for index in unit]
        if len(set(map(is_labeled, responses))) > 1:
            problem = (
                "each case has a label of some response, and --next samples whole cases"
            )
            remedy = "label the other responses in a file: evalkit label RUN FILE"
    return ConfigError(problem, where=str(result.folder), remedy=remedy)


def _of_unlabeled_systems(result: RunResult, labeled: Set[str]) -> set[str]:
    """Return the cases whose responses are of systems without labels, if other systems
    have labels.
    """
    models = {
        case.id: {response.model for response in case.responses if response.model}
        for case in result.cases
    }
    labeled_models = {model for case in labeled for model in models[case]}
    return {
        case
        for case, named in models.items()
        if labeled_models and named and not named & labeled_models
    }


def _apart(
    levels: Iterable[dict[str, list[str]]], new_systems: Set[str]
) -> Iterator[dict[str, list[str]]]:
    """Yield strata in which systems without labels are apart, because the labels of a stratum
    must be a random part of it.

    A stratum is a group of cases that is sampled by itself.

    Args:
        levels: Ways to divide the cases, finest first; each is the cases by the name of the
            stratum.
        new_systems: The cases with a response of a system that has no labels yet.
    """
    for members in levels:
        # A stratum of old and new systems becomes two.
        parts = {
            name: [case for case in cases if case not in new_systems]
            for name, cases in members.items()
        }
        parts |= {
            f"{name}, new system": [case for case in cases if case in new_systems]
            for name, cases in members.items()
        }
        yield {name: cases for name, cases in parts.items() if cases}


def _affordable_strata(
    levels: Iterable[dict[str, list[str]]], labeled: Set[str], total: int
) -> Iterator[tuple[dict[str, list[str]], dict[str, int]]]:
    """Yield each way to divide the cases for which `total` labels are enough, and the number of
    labels that each stratum has already.

    Each stratum needs at least one label. The last way, a single stratum, is always yielded.

    Args:
        levels: Ways to divide the cases, finest first; each is the cases by the name of the
            stratum.
        labeled: The cases that have labels.
        total: The number of labeled cases in the end.
    """
    ordered = list(levels)
    # the last level has one stratum with all cases, which always fits
    for position, members in enumerate(ordered, 1):
        before = {
            name: sum(case in labeled for case in cases)
            for name, cases in members.items()
        }
        empty = sum(not count for count in before.values())
        if position == len(ordered) or (
            len(members) <= total // EACH and empty <= total - len(labeled)
        ):
            yield members, before


def sample_next(result: RunResult, count: int, seed: int) -> LabelSample:
    """Return the sample of `next_labels`."""
    return next_labels(result, count, seed).sample


def _is_corrected(name: str, metric: Metric) -> bool:
    return (
        name.startswith(_CORRECTED)
        and metric.low is not None
        and metric.high is not None
    )


def _residuals(result: RunResult, target: str) -> dict[str, list[float]]:
    """Return label minus verdict of each case's labeled units, as the corrected rate
    counts them.
    """
    size = labeled_size(result)
    scale = result.config.rubric
    # Differences of scores are relative to the scale, so that the prior fits each of them.
    span = 1.0 if scale.classes or scale.real else scale.scale.span
    residuals = dict[str, list[float]]()
    for verdict in result.verdicts:
        if len(verdict.unit) == size and verdict.label is not None:
            residuals.setdefault(verdict.case_id, []).append(
                _residual(verdict, target, span)
            )
    return residuals


def _residual(verdict: Verdict, target: str, span: float) -> float:
    if isinstance(verdict.label, float):
        if verdict.score is None:
            return 0.0
        return (verdict.label - verdict.score) / span
    # 1, 0 or -1: the judge missed the target, was right, or saw it wrongly.
    return float(verdict.label == target) - float(
        target in (verdict.winner, verdict.class_name)
    )


def _residual_variances(
    members: Mapping[str, list[str]], residuals: Mapping[str, list[float]]
) -> tuple[dict[str, float], float]:
    """Return the variance of the residuals of each stratum, and that of all of them together.

    A residual is the difference between a label and what the judge predicts. The variance of a
    stratum is estimated with `PRIOR_LABELS` more labels of the usual variance, so that few labels
    do not make it 0.

    Args:
        members: The cases of each stratum.
        residuals: The residuals of each labeled case.
    """
    # stratum -> the residuals of its labeled units
    by_stratum = {
        name: [r for case in cases for r in residuals.get(case, ())]
        for name, cases in members.items()
    }
    cases = sum(map(len, members.values()))
    share = {name: len(ids) / cases for name, ids in members.items()}
    # Strata without labels have no mean; the overall one below is of the others.
    means = {
        name: fmean(stratum_residuals)
        for name, stratum_residuals in by_stratum.items()
        if stratum_residuals
    }
    share_labeled = sum(share[name] for name in means) or 1.0
    overall = sum(share[name] * mean for name, mean in means.items()) / share_labeled
    spread = dict[str, float]()
    between = 0.0
    for name, stratum_residuals in by_stratum.items():
        # a stratum with few labels is close to what is usual for its kind
        prior = next(
            (variance for kind, variance in PRIOR.items() if name.startswith(kind)),
            PRIOR["flip"],
        )
        mean = means.get(name, overall)
        squares = sum((residual - mean) ** 2 for residual in stratum_residuals)
        labels = len(stratum_residuals)
        spread[name] = (squares + PRIOR_LABELS * prior) / (labels + PRIOR_LABELS)
        # The law of total variance: within the strata, and between their means.
        between += share[name] * (mean - overall) ** 2
    within = sum(share[name] * variance for name, variance in spread.items())
    return spread, between + within


def _allocate_labels(
    sizes: Mapping[str, int],
    before: Mapping[str, int],
    spread: Mapping[str, float],
    total: int,
) -> dict[str, int]:
    """Return the number of labels of each stratum, at least as many as it has, with the
    smallest variance.
    """
    counts = dict(before)

    def gain(name: str) -> tuple[bool, float]:
        n = counts[name]
        # What one more label takes from size² · spread / n, since 1/n - 1/(n + 1) = 1 / (n (n +
        # 1)). A stratum without a label comes first.
        lowered = sizes[name] ** 2 * spread[name] / (n * (n + 1)) if n else inf
        # A full stratum is last whatever it would gain.
        return n < sizes[name], lowered

    for _ in range(total - sum(before.values())):
        counts[max(counts, key=gain)] += 1
    return counts


def _variance(
    sizes: Mapping[str, int], counts: Mapping[str, int], spread: Mapping[str, float]
) -> float:
    """Return the variance of the mean error, up to a factor; infinite if a stratum has no label."""
    if not all(counts.values()):
        return inf
    cases = sum(sizes.values())
    return sum(
        (size / cases) ** 2 * spread[name] / counts[name]
        for name, size in sizes.items()
    )
