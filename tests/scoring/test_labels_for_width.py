"""How many labels make an interval narrow."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.proportion import samplesize_confint_proportion

from evalkit.config import ScoringConfig
from evalkit.scoring.labels import labels_for_width
from evalkit.scoring.stats.bootstrap import Tally, measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Metric


def accuracy(value: float, n: int, z: float = 1.959964) -> Metric:
    half = z * (value * (1 - value) / n) ** 0.5
    return Metric("agreement/accuracy", value, value - half, value + half, n)


@pytest.mark.parametrize("value", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("width", [0.02, 0.04])
def test_with_many_labels_at_hand_it_is_the_normal_sample_size_and_what_chance_adds(value: float, width: float):
    n = 100
    at_hand = accuracy(value, n, z=1.9842 * (n / (n - 1)) ** 0.5)
    normal = samplesize_confint_proportion(value, width / 2)
    total = n + labels_for_width(at_hand, width, 0.95)
    surplus = (1 + 0.8416 * (1 / n + 1 / total) ** 0.5) ** 2
    assert 0.999 <= total / (normal * surplus) <= 1.1  # rounded up to two digits


def test_a_narrow_interval_needs_none_and_a_narrower_one_more():
    at_hand = accuracy(0.8, 400)
    wide = at_hand.high - at_hand.low
    assert labels_for_width(at_hand, wide, 0.95) == 0
    needed = [labels_for_width(at_hand, wide * share, 0.95) for share in (0.99, 0.5, 0.25)]
    assert 0 < needed[0] < needed[1] < needed[2]


@pytest.mark.parametrize(
    "metric",
    [
        Metric("tie_rate", 0.5, 0.4, 0.6, 100),  # no labels
        Metric("corrected/win_rate/a", 0.5, 0.4, 0.6, 100),  # not labels alone
        Metric("agreement/accuracy", 0.5, None, None, 100),
        Metric("agreement/accuracy", 1.0, 0.0, 1.0, 1),
        Metric("nothing", 0.5, 0.4, 0.6, 100),
    ],
)
def test_no_number_where_labels_do_not_determine_the_interval(metric: Metric):
    assert labels_for_width(metric, 0.01, 0.95) is None


def test_the_promised_labels_reach_the_width():
    reached, scoring = [], ScoringConfig(bootstrap=200)
    for seed in range(60):
        generator = np.random.default_rng(seed)

        def simulated(n: int, generator: np.random.Generator = generator) -> Metric:
            rate = Tally.each(n).rate("agreement/accuracy", generator.random(n) < 0.75, np.ones(n, dtype=bool))
            return measure([rate], scoring, Clusters.each(n))[rate.name]

        more = labels_for_width(simulated(50), 0.1, 0.95)
        found = simulated(50 + more)
        reached.append(found.high - found.low <= 0.1)
    assert np.mean(reached) > 0.7
