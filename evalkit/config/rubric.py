"""The criteria, the rubric and its examples: what the judge judges by, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from evalkit.config.kinds import ReadPath, Text
from evalkit.config.section_base import Section
from evalkit.config.sections import Levels, Name, Spelling, Weight
from evalkit.core.errors import did_you_mean
from evalkit.core.scale import Classes, Scale

_SHORT_SCALE = 10


class Criterion(Section):
    """One criterion; a text alone is its description."""

    description: Spelling = ""
    """What the criterion means, as the judge reads it."""
    weight: Weight = 1.0
    """Weight among the criteria; weights are normalized to sum to 1."""
    levels: Levels = {}  # noqa: RUF012 - pydantic copies it
    """Meaning of each score on this criterion, instead of the rubric's."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Return settings as a mapping; a text alone is the description.

        Raises:
            ValueError: If it is a number alone.
        """
        # Before texts: a number alone is likely meant as the weight.
        if isinstance(value, int | float):
            raise ValueError(
                "is neither a description nor settings: write a text, or {weight: NUMBER}"
            )
        if isinstance(value, str):
            return {"description": value}
        if value is None:
            return {}
        return value


def criteria_by_name(value: Any) -> Any:
    """Return criteria as a mapping by name, from a mapping or from a list as in older configs.

    Raises:
        ValueError: If two criteria have the same name.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        inner = value.get("criteria")
        # A file in conf/criteria may start with `criteria:`.
        # A criterion may itself be named `criteria`; then its value has the keys of a criterion.
        nested = isinstance(inner, list) or (
            isinstance(inner, Mapping) and not set(inner) <= set(Criterion.model_fields)
        )
        named = {
            str(name): part
            for name, part in value.items()
            if not (nested and name == "criteria")
        }
        if nested:
            return {**named, **criteria_by_name(inner)}
        return named
    if not isinstance(value, list | tuple) or not all(
        isinstance(entry, Mapping) and "name" in entry for entry in value
    ):
        return value
    names = [str(entry["name"]) for entry in value]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"two criteria are named '{repeated[0]}': give each criterion a unique name"
        )
    settings = (
        {key: part for key, part in entry.items() if key != "name"} for entry in value
    )
    return dict(zip(names, settings, strict=True))


Criteria = Annotated[dict[Name, Criterion], BeforeValidator(criteria_by_name)]


class Example(Section):
    """A scored response, or a compared pair, that calibrates the judge."""

    response: Text
    """The response that was scored; of a pair, response A."""
    justification: Text
    """The reason for its scores."""
    prompt: Text | None = None
    """The task that it answers."""
    scores: dict[str, float] = {}  # noqa: RUF012
    """Its score by criterion."""
    score: float | None = None
    """Its score as a whole, instead of `scores`."""
    class_name: Spelling | None = None
    """Its class, instead of a score."""
    response_b: Text | None = None
    """Response B, if a pair was compared."""
    winner: Literal["A", "B", "TIE"] | None = None
    """The better response of a pair, instead of a score."""

    @model_validator(mode="after")
    def _check_grade(self) -> Self:
        """Check that an example has one grade, and a second response only with a winner.

        Raises:
            ValueError: If not.
        """
        # The four forms of an answer; exactly one is set.
        answers = [self.scores or None, self.score, self.class_name, self.winner]
        if sum(answer is not None for answer in answers) != 1:
            alternatives = (
                "class_name, if the rubric has classes; or winner, if a pair was"
                " compared"
            )
            raise ValueError(
                f"set either scores (one per criterion) or score; or {alternatives}"
            )
        if (self.winner is None) != (self.response_b is None):
            raise ValueError(
                "set winner and response_b together: a winner is one of response and response_b"
            )
        return self

    def scored(self) -> list[tuple[str, float]]:
        """Return each score with its key, such as `scores.accuracy`."""
        if self.score is not None:
            return [("score", self.score)]
        return [(f"scores.{name}", score) for name, score in self.scores.items()]


def _named_classes(value: Any) -> Any:
    """Read a mapping, also as JSON.

    Names that YAML reads as true or false are refused, such as an unquoted yes.
    """
    if isinstance(value, str):
        try:
            # A text if it was set on the command line.
            value = json.loads(value)
        except ValueError:
            raise ValueError(
                "is not a mapping: write {NAME: MEANING, NAME: MEANING}"
            ) from None
    if isinstance(value, list | tuple):
        raise ValueError("is a list: write {NAME: MEANING, NAME: MEANING}")
    if isinstance(value, Mapping):
        for name in value:
            # YAML 1.1 reads the word yes as true; the name would be lost.
            if isinstance(name, bool):
                raise ValueError(
                    "a class name is true or false, as YAML reads yes, no, on and off: put it in"
                    " quotes"
                )
        return {
            name: "" if meaning is None else meaning for name, meaning in value.items()
        }
    return value


NamedClasses = Annotated[dict[Spelling, Spelling], BeforeValidator(_named_classes)]


class RubricConfig(Section):
    """What the judge answers: a score from `min` to `max` by `step`, any number
    (`real`), or one of several classes.
    """

    min: float = 1
    """Lowest score."""
    max: float = 5
    """Highest score."""
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1
    """Difference between neighboring scores."""
    real: bool = False
    """Whether a score is any number, as that of a reward model: there is no scale, and so there are
    no worst cases."""
    levels: Levels = {}  # noqa: RUF012
    """Meaning of scores, as the judge reads it."""
    examples: tuple[Example, ...] = ()
    """Scored responses that are shown to the judge."""
    examples_path: ReadPath | None = None
    """JSONL file of more examples; composing the config moves them to `examples`."""
    classes: NamedClasses = {}  # noqa: RUF012
    """Classes that the judge chooses from instead of a scale: the meaning of each by its name."""
    ordered: bool = False
    """Whether the classes are ordered, lowest first."""
    positive: Spelling | None = None
    """The class that counts as positive in true and false positive rates."""
    abstain: Spelling | None = None
    """An additional answer for a judge that cannot tell; `null` for none."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        without_scale = self.classes or self.real
        if problem := (
            self._classes_problem()
            if without_scale
            else self.scale.problem() or self._scale_problem()
        ):
            raise ValueError(problem)
        return self

    def _classes_problem(self) -> str | None:
        """Return what is wrong with classes or conflicting settings; `None` if nothing is."""
        if self.classes and (problem := Classes.of(self).problem()):
            return problem
        if self.positive is not None and self.positive not in self.classes:
            return (
                f"positive is '{self.positive}', which is not a class:"
                f" {did_you_mean(self.positive, self.classes)}"
            )
        fields = type(self).model_fields
        # Compared with the defaults, since pydantic fills in what was not set.
        conflicting = [
            key
            for key in ("min", "max", "step", "levels")
            if getattr(self, key) != fields[key].default
        ]
        if self.real:
            conflicting += [
                key for key in ("classes", "examples") if getattr(self, key)
            ]
        if conflicting and self.real:
            return (
                f"it is real and has {conflicting[0]}: any number is a score, so remove"
                f" {conflicting[0]}, or"
                " set real=false"
            )
        if conflicting:
            return (
                f"it has both classes and {conflicting[0]}: a rubric has either a scale or"
                " classes, so"
                " start from rubric=own"
            )
        if self.real:
            return self._scale_problem()
        return None

    def _scale_problem(self) -> str | None:
        for key in ("ordered", "positive", "abstain"):
            if getattr(self, key) != type(self).model_fields[key].default:
                return f"{key} needs classes: set rubric.classes, for example rubric=pass_fail"
        return None

    @property
    def scale(self) -> Scale:
        """The scale of the rubric."""
        return Scale.of(self)

    @property
    def named_classes(self) -> Classes | None:
        """The classes of the rubric; `None` if it is a scale."""
        if self.classes:
            return Classes.of(self)
        return None

    def calibrated_levels(self) -> list[float]:
        """Return the levels that examples should cover: the described ones, or else
        every value of a short scale.
        """
        # A long scale has too many values for an example of each, so its ends are enough.
        if len(self.scale) <= _SHORT_SCALE:
            values = self.scale.values()
        else:
            values = (self.min, self.max)
        return sorted(self.levels) or list(values)
