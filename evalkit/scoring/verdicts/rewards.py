"""Margins of rewards: the probability that annotators prefer a response, by a sigmoid
fitted on labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.types import Case
from evalkit.scoring.columns import NONE, PairColumns, VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Floats
from evalkit.scoring.stats.clusters import FOLDS, Clusters
from evalkit.scoring.stats.logistic import expit, fit, penalized_fit, slope
from evalkit.scoring.stats.statistic import Statistic, Tally

MIN_CLUSTERS = 20
"""Minimum number of clusters with a labeled pair of rewards for fitting."""
REWARDS = "margins of rewards "
FITTED = (
    f"{REWARDS}are 2 P - 1, where P is the probability that annotators prefer the first response: a"
    " sigmoid of the difference, fitted on the labels of other folds of cases"
)
NO_UNIT = (
    f"{REWARDS}have no unit, and only equal rewards tie unless tie.threshold is set: "
)
FEW = f"fewer than {MIN_CLUSTERS} cases or clusters have a label and rewards"
REVERSED = "higher rewards do not go with the annotators' choices"


def labeled_differences(pairs: PairColumns, difference: Floats) -> tuple[Bools, Floats]:
    """Return which pairs have a label and two rewards, and the label of each of these:
    1 for A, 1/2 for TIE, 0 for B.

    Args:
        pairs: the pairs.
        difference: (pairs,) the first reward minus the second, NaN if one is missing.
    """
    used = (pairs.label != NONE) & np.isfinite(difference)
    return used, (1 + pairs.label[used].astype(np.float64)) / 2


def reward_margins(
    config: RunConfig, cases: Sequence[Case], pairs: PairColumns, difference: Floats
) -> tuple[Floats, Floats, str]:
    """Return the margin of each pair in [-1, 1], the probability of its winner, and a note on them.

    If nothing can be fitted, the margin is the difference, and the probability is NaN.

    The probability that annotators prefer the first response is the sigmoid of the difference of
    rewards divided by a temperature (Bradley and Terry 1952, Biometrika 39, 324-345). The
    temperature of each of five folds of clusters is that of a logistic regression without intercept
    on the other four; ties count half (Guo et al. 2017, arXiv 1706.04599, section 4.2).

    Args:
        config: the run's config.
        cases: the cases.
        pairs: their pairs.
        difference: (pairs,) the first reward minus the second, NaN if one is missing.
    """
    clusters = Clusters.of(config, cases)
    used, outcome = labeled_differences(pairs, difference)
    # shape (pairs,)
    folds = clusters.folds(cases)[pairs.case]
    log_odds = np.full(len(pairs), np.nan)
    labeled_cases = pairs.case[used]
    labeled_clusters = np.unique(clusters.of_rows(labeled_cases))
    if len(labeled_clusters) < MIN_CLUSTERS:
        return difference, log_odds, NO_UNIT + FEW
    for fold in range(FOLDS):
        held_out = folds == fold
        trained = folds[used] != fold
        # shape (labeled pairs of the other folds, 1)
        design = difference[used][trained][:, None]
        coefficients = fit(design, outcome[trained]).coefficients
        if coefficients is None:
            coefficients = penalized_fit(design, outcome[trained]).coefficients
        if coefficients is None or coefficients[0] <= 0:
            unknown = np.full(len(pairs), np.nan)
            return difference, unknown, NO_UNIT + REVERSED
        log_odds[held_out] = coefficients[0] * difference[held_out]
    margin = 2 * expit(log_odds) - 1
    confidence = expit(np.abs(log_odds))
    return margin, confidence, FITTED


def differences(verdicts: VerdictColumns) -> Floats:
    """Return the difference of the scores of each pair, (pairs,); NaN if one is missing."""
    assert verdicts.scores is not None
    return verdicts.pairs.differences(verdicts.scores.score)


def reward_slope(pairs: PairColumns, difference: Floats, cases: int) -> Statistic:
    """Return `calibration/reward_slope`: the log odds of the annotators' preference per
    unit of reward, 1 / T.

    Args:
        pairs: the pairs.
        difference: (pairs,) the first reward minus the second, NaN if one is missing.
        cases: the number of cases.
    """
    used, outcome = labeled_differences(pairs, difference)
    missing = int(((pairs.label != NONE) & ~np.isfinite(difference)).sum())
    x = difference[used][:, None]
    tally = Tally(pairs.case[used], cases)
    why = "" if x.any() else "no labeled pair has different rewards"
    return slope(
        "calibration/reward_slope", x, outcome, tally, 0, missing=missing, why=why
    )
