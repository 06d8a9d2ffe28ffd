"""Whether a judge's probabilities are what they claim, and from which one on its
verdicts are right often enough.
"""

from __future__ import annotations

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Metric
from evalkit.scoring.columns import ClassColumns, VerdictColumns
from evalkit.scoring.metrics.calibration import StatedConfidence, stated
from evalkit.scoring.metrics.classes import stated_classes
from evalkit.scoring.stats.arrays import Bools, Ints, round_metric
from evalkit.scoring.stats.claims import claim_test
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Measures
from evalkit.scoring.verdicts.cascade import descending_test, thresholds

LEVELS = (0.9, 0.8, 0.7)
"""The stated probabilities from which on the accuracy is counted."""
TARGETS = (0.95, 0.9, 0.8)
"""The accuracies for which a threshold is looked for."""
FUZZ = 1e-9


def claim_statistics(
    config: RunConfig,
    verdicts: VerdictColumns,
    scale: Scale,
    clusters: Clusters | None = None,
) -> Measures:
    """Return the metrics of the claim of a judge that compares, or rewards, by its
    stated confidence.
    """
    if verdicts.passes is None and (verdicts.scores is None or not scale.real):
        return []
    return _claim_statistics(config, stated(verdicts), clusters)


def class_claim_statistics(
    config: RunConfig, classes: ClassColumns, clusters: Clusters | None = None
) -> Measures:
    """Return the metrics of the claim of a judge of classes, by the probability of its
    verdict, or what it states.
    """
    if classes.probabilities is None and classes.confidence is None:
        return []
    return _claim_statistics(config, stated_classes(classes), clusters)


def _claim_statistics(
    config: RunConfig,
    pairs: StatedConfidence,
    clusters: Clusters | None,
) -> Measures:
    """Return `calibration/claim`, `/excess`, `/right_at_N`, `/threshold_N` and `/covered_N`."""
    if not len(pairs.right):
        return []
    cases = pairs.tally.case
    cluster = cases if clusters is None else clusters.of_rows(cases)
    every = np.ones(len(pairs.right), dtype=bool)
    p = claim_test(pairs.confidence, pairs.right, cluster)
    assert p is not None  # there are outcomes
    measures: Measures = [
        Metric(
            "calibration/claim",
            round_metric(p),
            n=len(pairs.right),
            missing=pairs.missing,
        ),
        pairs.tally.mean(
            "calibration/excess",
            pairs.confidence - pairs.right,
            every,
            pairs.missing,
            span=(-1.0, 1.0),
        ),
    ]
    for level in LEVELS:
        sure = pairs.confidence >= level - FUZZ
        if sure.any():
            name = f"calibration/right_at_{100 * level:.0f}"
            measures.append(pairs.tally.rate(name, pairs.right > 0, sure))
    chosen = _of_each_cluster(cluster)
    for target in TARGETS:
        measures += _proved_threshold(
            pairs, chosen, target, 1 - config.scoring.confidence
        )
    return measures


def _of_each_cluster(cluster: Ints) -> Bools:
    """Return one row of each cluster, taken at random: a binomial bound needs independent rows."""
    order = np.random.default_rng(0).permutation(len(cluster))
    _, first = np.unique(cluster[order], return_index=True)
    chosen = np.zeros(len(cluster), dtype=bool)
    chosen[order[first]] = True
    return chosen


def _proved_threshold(
    pairs: StatedConfidence, chosen: Bools, target: float, level: float
) -> Measures:
    """Return the lowest threshold with a proved accuracy and the share of verdicts from
    it on; nothing without one.
    """
    step = descending_test(
        pairs.confidence[chosen],
        pairs.right[chosen] == 0,
        thresholds(pairs.confidence),
        1 - target,
        level,
    )
    end = f"{100 * target:.0f}"
    if step is None:
        return []
    above = pairs.confidence >= step - FUZZ
    every = np.ones(len(above), dtype=bool)
    return [
        Metric(
            f"calibration/threshold_{end}",
            round_metric(step),
            n=int(above.sum()),
            missing=pairs.missing,
        ),
        pairs.tally.rate(f"calibration/covered_{end}", above, every),
    ]
