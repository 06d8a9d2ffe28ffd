"""Parameters of which some run always, and all with `--thorough`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some_of(values: Iterable[Any], every: int) -> list[Any]:
    """Return parameters, of which each n-th runs without `--thorough`: for a grid of many cells of one rule."""
    marks = [() if number % every == 0 else pytest.mark.thorough for number in range(every)]
    return [pytest.param(value, marks=marks[number % every]) for number, value in enumerate(values)]
