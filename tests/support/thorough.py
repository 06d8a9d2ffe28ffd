"""Parameters and examples of which some run always, and all with `--thorough`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def some_of(values: Iterable[Any], every: int, *, rows: bool = False) -> list[Any]:
    """Return parameters, of which each n-th runs without `--thorough`: for a grid of many cells of one rule.

    With `rows`, each value holds those of several arguments.
    """
    marks = [() if number % every == 0 else pytest.mark.thorough for number in range(every)]
    return [
        pytest.param(*(value if rows else (value,)), marks=marks[number % every])
        for number, value in enumerate(values)
    ]


def examples(count: int) -> settings:
    """Return settings of a property that takes long: so many examples, more or fewer as the profile has."""
    usual = 20
    return settings(max_examples=max(1, count * settings.default.max_examples // usual))
