"""A scale of scores: one object from which schema, check, text, distance and the prompt's words come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, Protocol

_MOST = 1_000_001
_LISTED = 101


class ScaleDefinition(Protocol):
    """What a scale is made of, as a rubric has it."""

    @property
    def min(self) -> float:
        """The lowest value."""

    @property
    def max(self) -> float:
        """The highest value."""

    @property
    def step(self) -> float:
        """The difference between neighbours."""

    @property
    def levels(self) -> Mapping[float, str]:
        """What some of the values mean."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `min` to `max` by `step`; `levels` says what some of them mean.

    Its values are the decimal numbers as written: 7.3 is one of 1 to 10 by 0.1 although no binary fraction is.
    """

    min: float
    max: float
    step: float
    levels: Mapping[float, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rubric: ScaleDefinition) -> Scale:
        """Make the scale a rubric describes."""
        return cls(rubric.min, rubric.max, rubric.step, dict(rubric.levels))

    @property
    def span(self) -> float:
        """The largest difference between two values."""
        return self.distance(self.min, self.max)

    @property
    def integral(self) -> bool:
        """Whether every value is a whole number."""
        return float(self.min).is_integer() and float(self.step).is_integer()

    @property
    def decimals(self) -> int:
        """How many decimals its values are written with."""
        return max(_places(self.min), _places(self.step))

    def __len__(self) -> int:
        return int((_exact(self.max) - _exact(self.min)) / _exact(self.step)) + 1

    def problem(self) -> str | None:
        """Return why this is no scale, in a clause; none if it is one."""
        if not (isfinite(self.min) and isfinite(self.max) and self.min < self.max):
            return f"min ({self.min:g}) must be below max ({self.max:g})"
        if (self.max - self.min) / self.step >= _MOST:
            return f"step {self.step:g} gives more than a million values: choose a larger one"
        if not self.contains(self.max):
            return f"step {self.step:g} does not lead from min {self.min:g} to max {self.max:g}"
        return None

    def values(self) -> tuple[float, ...]:
        """Return every value, ascending."""
        first, step = _exact(self.min), _exact(self.step)
        return tuple(float(first + i * step) for i in range(len(self)))

    def contains(self, value: float) -> bool:
        """Say whether `value` is one of the scale's values."""
        return self.min <= value <= self.max and (_exact(value) - _exact(self.min)) % _exact(self.step) == 0

    def text(self, value: float) -> str:
        """Return a value as a judge is to write it."""
        return f"{value:.{self.decimals}f}"

    def distance(self, first: float, second: float) -> float:
        """Return how far apart two values are, in scale units."""
        return float(abs(_exact(first) - _exact(second)))

    def to_unit(self, value: float) -> float:
        """Map a value to [0, 1]."""
        return self.distance(self.min, value) / self.span

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of one value; where no keyword says which are values, they are listed."""
        kind = "integer" if self.integral else "number"
        low, high = self._number(self.min), self._number(self.max)
        if self.integral and self.step == 1:
            return {"type": kind, "minimum": low, "maximum": high}
        # `multipleOf` counts from 0, and a scale from its lowest value.
        if _exact(self.min) % _exact(self.step) == 0:
            return {"type": kind, "minimum": low, "maximum": high, "multipleOf": self._number(self.step)}
        if len(self) <= _LISTED:
            return {"type": kind, "enum": [self._number(value) for value in self.values()]}
        return {"type": kind, "minimum": low, "maximum": high}

    def name(self) -> str:
        """Return it in short, as `1-5` or `1.0-10.0 by 0.1`."""
        between = "-" if self.min >= 0 else " to "
        bounds = f"{self.text(self.min)}{between}{self.text(self.max)}"
        return bounds if self.step == 1 else f"{bounds} by {_written(self.step)}"

    def words(self) -> dict[str, Any]:
        """Return what a prompt says of it, as texts, and whether its values are whole numbers."""
        return {
            "min": self.text(self.min),
            "max": self.text(self.max),
            "step": _written(self.step),
            "whole": self.integral,
            "name": self.name(),
        }

    def described(self, levels: Mapping[float, str] | None = None) -> list[dict[str, str]]:
        """Return what its values mean, ascending, by its own levels or by others, as a prompt lists them."""
        chosen = self.levels if levels is None else levels
        return [{"score": self.text(value), "text": text} for value, text in sorted(chosen.items())]

    def _number(self, value: float) -> float:
        return int(value) if self.integral else float(value)


@lru_cache(maxsize=4096, typed=True)
def _exact(value: float) -> Fraction:
    """Return the decimal number that a float is written as."""
    return Fraction(str(value))


def _places(value: float) -> int:
    exponent = Decimal(str(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _written(value: float) -> str:
    return f"{value:.{_places(value)}f}"
