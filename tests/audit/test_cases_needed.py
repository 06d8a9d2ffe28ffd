"""How many more cases decide an undecided probe: by the function that says how many labels decide."""

from __future__ import annotations

from math import ceil, floor, log10, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

from evalkit.audit.datasheet import LARGE, _cases_needed
from evalkit.scoring.labels import labels_for, units_for
from evalkit.types import Metric


def outcome(*, directed: bool = True, expects: str = "same") -> Any:
    return SimpleNamespace(
        contrast=SimpleNamespace(probe=SimpleNamespace(directed=directed, expects=expects)), span=2.0
    )


def needed(distance: float, sd: float, at_hand: int) -> int:
    """The smallest number with power 0.8, by its definition, rounded up to two digits."""
    n = 2
    while distance * sqrt(n) / sd < sqrt(n / (n - 1)) * t.ppf(0.975, n - 1) + norm.ppf(0.8):
        n += 1
    unit = 10 ** max(floor(log10(n)) - 1, 0)
    return max(1, ceil(n / unit) * unit - at_hand)


def interval(name: str, value: float, sd: float, n: int) -> Metric:
    half = sqrt(n / (n - 1)) * t.ppf(0.975, n - 1) * sd / sqrt(n)
    return Metric(f"audit/x/{name}", value, value - half, value + half, n)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("n", [12, 30, 200])
@pytest.mark.parametrize("value", [-0.7, -0.3, 0.0, 0.1, 0.45, 0.7])
def test_the_nearer_of_two_decisions_is_planned(value: float, n: int, directed: bool) -> None:
    """An effect is decided when its interval excludes none, or a large one; without a direction, only above 0."""
    largest, sd = LARGE * 2.0, 0.9
    distances = [abs(value)] if value > 0 or (value and directed) else []
    if abs(value) < largest:
        distances.append(largest - abs(value) if value > 0 or directed else largest - value)
    expected = min((needed(distance, sd, n) for distance in distances), default=None) if n >= 30 else None
    assert _cases_needed(outcome(directed=directed), {"shift": interval("shift", value, sd, n)}, 0.95) == expected


@pytest.mark.parametrize(("value", "known"), [(0.05, True), (0.2, True), (0.25, False), (0.6, False)])
@pytest.mark.parametrize("expects", ["loses", "fails"])
def test_a_share_of_planted_responses_is_decided_below_a_quarter(value: float, known: bool, expects: str) -> None:
    found = _cases_needed(outcome(expects=expects), {"passed": interval("passed", value, 0.4, 40)}, 0.95)
    assert found == (needed(LARGE - value, 0.4, 40) if known else None)


@pytest.mark.parametrize("metric", [None, Metric("audit/x/shift", None), Metric("audit/x/shift", 0.1, None, None, 9)])
def test_without_an_interval_there_is_no_number(metric: Metric | None) -> None:
    assert _cases_needed(outcome(), {} if metric is None else {"shift": metric}, 0.95) is None
    assert _cases_needed(outcome(), {"shift": Metric("audit/x/shift", 0.1, 0.1, 0.1, 9)}, 0.95) is None


def test_it_is_the_number_for_labels_where_the_metric_is_about_labels() -> None:
    metric = Metric("agreement/accuracy", 0.7, 0.6, 0.8, 80)
    assert units_for(metric, 0.65, 0.95) == labels_for(metric, 0.65, 0.95)
    assert labels_for(Metric("audit/x/shift", 0.7, 0.6, 0.8, 80), 0.65, 0.95) is None


def test_so_many_cases_decide_in_four_of_five_audits() -> None:
    generator, decided = np.random.default_rng(7), []
    first = interval("shift", 0.1, 0.9, 30)
    total = 30 + (_cases_needed(outcome(), {"shift": first}, 0.95) or 0)
    for _ in range(400):
        sample = generator.normal(0.1, 0.9, total)
        low, high = (sample.mean() + z * sample.std(ddof=1) / sqrt(total) for z in (-1.96, 1.96))
        decided.append(low > 0 or max(high, -low) <= LARGE * 2.0)
    assert 0.75 <= np.mean(decided) <= 0.95
