"""A scale of scores: its JSON schema, checks, texts, distances and prompt variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, Protocol

_MAX_VALUES = 1_000_001
_MAX_LISTED = 101


class ScaleDefinition(Protocol):
    """The definition of a scale, as in a rubric."""

    @property
    def min(self) -> float:
        """The lowest value."""

    @property
    def max(self) -> float:
        """The highest value."""

    @property
    def step(self) -> float:
        """The difference between neighboring values."""

    @property
    def levels(self) -> Mapping[float, str]:
        """The meanings of some values."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `min` to `max` by `step`; `levels` has the meanings of some of them.

    Values are decimal numbers as written: 7.3 is on the scale 1 to 10 by 0.1, although it has no exact binary fraction.
    """

    min: float
    max: float
    step: float
    levels: Mapping[float, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rubric: ScaleDefinition) -> Scale:
        """Return the scale of a rubric."""
        return cls(rubric.min, rubric.max, rubric.step, dict(rubric.levels))

    @property
    def span(self) -> float:
        """The largest difference between two values."""
        return self.distance(self.min, self.max)

    @property
    def integral(self) -> bool:
        """Whether every value is an integer."""
        return float(self.min).is_integer() and float(self.step).is_integer()

    @property
    def decimals(self) -> int:
        """The number of decimals of its values."""
        return max(_decimals(self.min), _decimals(self.step))

    def __len__(self) -> int:
        return int((_exact(self.max) - _exact(self.min)) / _exact(self.step)) + 1

    def problem(self) -> str | None:
        """Return why this is not a valid scale, as a clause; `None` if it is."""
        if not (isfinite(self.min) and isfinite(self.max) and self.min < self.max):
            return f"min ({self.min:g}) must be below max ({self.max:g})"
        if (self.max - self.min) / self.step >= _MAX_VALUES:
            return f"step {self.step:g} gives more than a million values: choose a larger step"
        if not self.contains(self.max):
            return f"step {self.step:g} does not lead from min {self.min:g} to max {self.max:g}"
        return None

    def values(self) -> tuple[float, ...]:
        """Return every value, in ascending order."""
        first, step = _exact(self.min), _exact(self.step)
        return tuple(float(first + i * step) for i in range(len(self)))

    def contains(self, value: float) -> bool:
        """Return whether `value` is on the scale."""
        return self.min <= value <= self.max and (_exact(value) - _exact(self.min)) % _exact(self.step) == 0

    def text(self, value: float) -> str:
        """Return a value in the form that a judge must write."""
        return f"{value:.{self.decimals}f}"

    def distance(self, first: float, second: float) -> float:
        """Return the difference of two values, in scale units."""
        return float(abs(_exact(first) - _exact(second)))

    def to_unit(self, value: float) -> float:
        """Map a value to [0, 1]."""
        return self.distance(self.min, value) / self.span

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of one value; it lists the values if no keyword can describe them."""
        kind = "integer" if self.integral else "number"
        low, high = self._number(self.min), self._number(self.max)
        if self.integral and self.step == 1:
            return {"type": kind, "minimum": low, "maximum": high}
        # `multipleOf` counts from 0, but a scale counts from its lowest value.
        if _exact(self.min) % _exact(self.step) == 0:
            return {"type": kind, "minimum": low, "maximum": high, "multipleOf": self._number(self.step)}
        if len(self) <= _MAX_LISTED:
            return {"type": kind, "enum": [self._number(value) for value in self.values()]}
        return {"type": kind, "minimum": low, "maximum": high}

    def name(self) -> str:
        """Return a short name, such as `1-5` or `1.0-10.0 by 0.1`."""
        between = "-" if self.min >= 0 else " to "
        bounds = f"{self.text(self.min)}{between}{self.text(self.max)}"
        return bounds if self.step == 1 else f"{bounds} by {_written(self.step)}"

    def words(self) -> dict[str, Any]:
        """Return the variables of a prompt: texts, and whether all values are integers."""
        return {
            "min": self.text(self.min),
            "max": self.text(self.max),
            "step": _written(self.step),
            "whole": self.integral,
            "name": self.name(),
        }

    def described(self, levels: Mapping[float, str] | None = None) -> list[dict[str, str]]:
        """Return the meanings of values in ascending order, by `levels` or its own, as listed in a prompt."""
        chosen = self.levels if levels is None else levels
        return [{"score": self.text(value), "text": text} for value, text in sorted(chosen.items())]

    def _number(self, value: float) -> float:
        return int(value) if self.integral else float(value)


@lru_cache(maxsize=4096, typed=True)
def _exact(value: float) -> Fraction:
    """Return the decimal number that a float is written as."""
    return Fraction(str(value))


def _decimals(value: float) -> int:
    exponent = Decimal(str(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _written(value: float) -> str:
    return f"{value:.{_decimals(value)}f}"
