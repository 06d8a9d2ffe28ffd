"""Intervals hold the truth about as often as they say, and planted effects are found: simulated judges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from evalkit.scoring import score_run
from tests.support.simulations import simulations


def test_what_is_planted_is_found():
    pairs, scores = simulations().judges(resamples=300)
    metrics = score_run(pairs.config, *pairs.make(np.random.default_rng(1), 400)).metrics
    for name in ("position/first_rate", "length/longer_rate"):
        assert metrics[name].low > 0.5
    ratings = [metrics[f"ranking/rating/{system}"] for system in ("weak", "middling", "strong")]
    assert all(worse.high < better.low for worse, better in pairwise(ratings))
    order = metrics["variance/order"]
    assert order.low > 0.05
    assert metrics["corrected/tie_rate"].low > metrics["tie_rate"].high
    found = score_run(scores.config, *scores.make(np.random.default_rng(1), 400)).metrics
    assert found["corrected/score_mean"].high < found["score/mean"].low
    assert found["variance/criterion"].low > 0.04


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_intervals_hold_the_truth(which, thorough):
    module = simulations()
    judge = module.judges(resamples=300)[which]
    true = module.truth(judge, 20_000 if thorough else 1_000)
    count = 100 if thorough else 8
    found = module.simulate(judge, true, count, 120)
    for name, hits in found.items():
        there = [hit for hit in hits if hit is not None]
        # Four standard errors of the simulations below 94 %, what resampling 120 cases comes to.
        assert name in module.BIASED or np.mean(there) > 0.94 - 4 * (0.94 * 0.06 / count) ** 0.5, name
        assert len(there) > 0.95 * count


@pytest.mark.slow
def test_intervals_of_a_rare_class_hold_the_truth(thorough):
    module = simulations()
    planted = module.CLASSES["two, one rare (5 %)"]
    judge = module.classes(planted)
    true = {name: value for name, value in module.truth(judge, 20_000).items() if name != "tie_rate"}
    count = 100 if thorough else 24
    found = module.simulate(judge, true, count, planted.cases)
    for name, hits in found.items():
        there = [hit for hit in hits if hit is not None]
        assert np.mean(there) > 0.94 - 4 * (0.94 * 0.06 / count) ** 0.5, name
        assert len(there) > 0.5 * count, name
