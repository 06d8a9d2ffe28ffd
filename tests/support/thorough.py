"""Parameters of which some run always, and all with `--thorough`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some_of(values: Iterable[Any], every: int, *, rows: bool = False) -> list[Any]:
    """Return parameters, of which each n-th runs without `--thorough`: for a grid of many cells of one rule.

    With `rows`, each value holds those of several arguments.
    """
    marks = [() if number % every == 0 else pytest.mark.thorough for number in range(every)]
    return [
        pytest.param(*(value if rows else (value,)), marks=marks[number % every])
        for number, value in enumerate(values)
    ]
