"""What a rubric lets a judge answer: a scale of scores, or classes; their schemas,
checks and texts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, isfinite
from typing import Final, Protocol

from evalkit.core.values import JsonObject, frozen

_MAX_VALUES = 1_000_001
_MAX_LISTED = 101
PASSES: Final = 0.5
"""The lowest score that passes, by default, as a share of the scale."""


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

    @property
    def real(self) -> bool:
        """Whether every number is a value."""


@frozen
class Scale:
    """Values from `min` to `max` by `step`; `levels` has the meanings of some of them.

    Values are decimal numbers as written: 7.3 is on the scale 1 to 10 by 0.1, although it has no
    exact binary fraction. The scale of a `real` rubric has infinite ends and no step.
    """

    min: float
    max: float
    step: float
    levels: Mapping[float, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rubric: ScaleDefinition) -> Scale:
        """Return the scale of a rubric."""
        if rubric.real:
            return cls(-inf, inf, 0.0)
        return cls(rubric.min, rubric.max, rubric.step, dict(rubric.levels))

    @property
    def real(self) -> bool:
        """Whether every number is a value."""
        return not self.step

    @property
    def ends(self) -> tuple[float, float] | None:
        """The lowest and the highest value; `None` if there are none."""
        if self.real:
            return None
        return (self.min, self.max)

    @property
    def span(self) -> float:
        """The largest difference between two values."""
        if self.real:
            return inf
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
        # In fractions: 0.1 has no exact float, and a scale by 0.1 would lose its last value.
        return int((_exact(self.max) - _exact(self.min)) / _exact(self.step)) + 1

    def problem(self) -> str | None:
        """Return why this is not a valid scale, as a clause; `None` if it is."""
        if not (isfinite(self.min) and isfinite(self.max) and self.min < self.max):
            return f"min ({self.min:g}) must be below max ({self.max:g})"
        # Before any list of values is made: a tiny step would fill the memory.
        if (self.max - self.min) / self.step >= _MAX_VALUES:
            return f"step {self.step:g} gives more than a million values: choose a larger step"
        if not self.contains(self.max):
            return f"step {self.step:g} does not lead from min {self.min:g} to max {self.max:g}"
        return None

    def values(self) -> tuple[float, ...]:
        """Return every value, in ascending order."""
        first = _exact(self.min)
        step = _exact(self.step)
        # Multiplied and not added up, so that no error accumulates.
        return tuple(float(first + i * step) for i in range(len(self)))

    def contains(self, value: float) -> bool:
        """Return whether `value` is on the scale."""
        if self.real:
            return isfinite(value)
        return self.min <= value <= self.max and _is_step(value, self.min, self.step)

    def text(self, value: float) -> str:
        """Return a value in the form that a judge must write."""
        if self.real:
            return f"{value:g}"
        return f"{value:.{self.decimals}f}"

    def distance(self, first: float, second: float) -> float:
        """Return the difference of two values, in scale units."""
        return float(abs(_exact(first) - _exact(second)))

    def schema(self) -> JsonObject:
        """Return the JSON schema of one value.

        It lists the values if no keyword can describe them.
        """
        kind = "integer" if self.integral else "number"
        low = self._number(self.min)
        high = self._number(self.max)
        if self.integral and self.step == 1:
            return {"type": kind, "minimum": low, "maximum": high}
        # `multipleOf` counts from 0, but a scale counts from its lowest value.
        if _exact(self.min) % _exact(self.step) == 0:
            return {
                "type": kind,
                "minimum": low,
                "maximum": high,
                "multipleOf": self._number(self.step),
            }
        # Providers limit the length of an enum; the value is checked after parsing anyway.
        if len(self) <= _MAX_LISTED:
            return {
                "type": kind,
                "enum": [self._number(value) for value in self.values()],
            }
        return {"type": kind, "minimum": low, "maximum": high}

    def name(self) -> str:
        """Return a short name, such as `1-5` or `1.0-10.0 by 0.1`."""
        if self.real:
            return "any number"
        between = "-" if self.min >= 0 else " to "
        bounds = f"{self.text(self.min)}{between}{self.text(self.max)}"
        if self.step == 1:
            return bounds
        return f"{bounds} by {_written(self.step)}"

    def words(self) -> JsonObject:
        """Return the variables of a prompt: texts, and whether all values are integers."""
        return {
            "min": self.text(self.min),
            "max": self.text(self.max),
            "step": _written(self.step),
            "whole": self.integral,
            "name": self.name(),
        }

    def described(
        self, levels: Mapping[float, str] | None = None
    ) -> list[dict[str, str]]:
        """Return the meanings of values in ascending order, by `levels` or its own, as
        listed in a prompt.
        """
        chosen = self.levels if levels is None else levels
        return [
            {"score": self.text(value), "text": text}
            for value, text in sorted(chosen.items())
        ]

    def _number(self, value: float) -> float:
        if self.integral:
            return int(value)
        return float(value)


@lru_cache(maxsize=4096, typed=True)
def _exact(value: float) -> Fraction:
    """Return the decimal number that a float is written as."""
    return Fraction(str(value))


@lru_cache(maxsize=1024, typed=True)
def _is_step(value: float, first: float, step: float) -> bool:
    """Return whether a value is a number of steps from the first one; judges repeat few values."""
    return (_exact(value) - _exact(first)) % _exact(step) == 0


def _decimals(value: float) -> int:
    exponent = Decimal(str(value)).normalize().as_tuple().exponent
    if isinstance(exponent, int):
        return max(0, -exponent)
    return 0


def _written(value: float) -> str:
    return f"{value:.{_decimals(value)}f}"


_LONGEST: Final = 40
_MOST: Final = 100
_RESERVED: Final = '[]<>{}"\\【】〔〕'
_EDGES: Final = " \t*_#`~.。'“”‘’「」『』«»:："
"""Characters around an answer that are not part of it."""
_NOT_FINITE: Final = ("nan", "infinity", "-infinity")


class ClassDefinition(Protocol):
    """The definition of classes, as in a rubric."""

    @property
    def classes(self) -> Mapping[str, str]:
        """The meaning of each class by its name."""

    @property
    def ordered(self) -> bool:
        """Whether the classes are ordered, lowest first."""

    @property
    def positive(self) -> str | None:
        """The positive class."""

    @property
    def abstain(self) -> str | None:
        """The answer that declines to choose a class."""


def fold_class(text: str) -> str:
    """Return a text in the form in which answers and names are compared: without case,
    width and decoration.
    """
    # Models escape underscores for Markdown renderers, and no name has a backslash.
    plain = unicodedata.normalize("NFKC", text.replace("\\", "")).strip(_EDGES)
    return " ".join(plain.casefold().split())


@dataclass(frozen=True)
class Classes:
    """The classes in the order of the config, with their meanings, and the answer that
    declines to choose one.
    """

    meanings: Mapping[str, str]
    ordered: bool = False
    positive: str | None = None
    abstain: str | None = None

    @classmethod
    def of(cls, rubric: ClassDefinition) -> Classes:
        """Return the classes of a rubric."""
        return cls(
            dict(rubric.classes), rubric.ordered, rubric.positive, rubric.abstain
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(self.meanings)

    @property
    def answers(self) -> tuple[str, ...]:
        """Everything that a judge may answer: the classes, then the abstention if it is allowed."""
        if self.abstain is None:
            return self.names
        return (*self.names, self.abstain)

    def __len__(self) -> int:
        return len(self.meanings)

    def find(self, text: str) -> str | None:
        """Return the answer that a text spells, in any case; `None` for anything else,
        never the nearest.
        """
        return self._folded.get(fold_class(text))

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        return {fold_class(name): name for name in self.answers}

    def problem(self) -> str | None:
        """Return what is wrong with the names, as `WHAT: REMEDY`; `None` if nothing is."""
        if len(self) < 2:
            return (
                "classes has fewer than two classes: add another, such as {pass: MEANING, fail:"
                " MEANING}"
            )
        if len(self) > _MOST:
            return f"classes has {len(self)} classes: use at most {_MOST}"
        for name in self.answers:
            if fault := _class_name_fault(name):
                return f"the class name {name!r:.60} {fault}"
        by_folded: dict[str, str] = {}
        # Two names that are compared as equal would be one and the same in an answer.
        for name in self.names:
            earlier = by_folded.setdefault(fold_class(name), name)
            if earlier != name:
                return (
                    f"the classes '{earlier}' and '{name}' differ only in case or width: rename one"
                    " of them"
                )
        if self.abstain is not None and (
            same := by_folded.get(fold_class(self.abstain))
        ):
            return (
                f"abstain is '{self.abstain}', which is also the class '{same}': give the"
                " abstention its own name"
            )
        return None


def _class_name_fault(name: str) -> str | None:
    """Return why a name cannot be a class, as a clause and a remedy."""
    if not name.strip():
        return "is empty: name the class"
    if bad := next(
        (
            char
            for char in unicodedata.normalize("NFKC", name) + name
            if _is_reserved(char)
        ),
        None,
    ):
        return (
            f"contains {bad!r}, which an answer cannot hold: "
            "use letters, digits, spaces, - and _"
        )
    if name != name.strip(_EDGES):
        return "begins or ends with a space or a mark: begin and end it with a letter or digit"
    if len(name) > _LONGEST:
        return (
            f"is longer than {_LONGEST} characters: "
            "shorten it, and put the details in its meaning"
        )
    if name.casefold() in _NOT_FINITE:
        return "is a number: use another name"
    return None


def _is_reserved(char: str) -> bool:
    return char in _RESERVED or unicodedata.category(char) in (
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    )
