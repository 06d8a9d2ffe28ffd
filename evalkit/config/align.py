"""The settings of `evalkit align`, with their defaults."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from evalkit.config.sections import Name, Section

Knob: TypeAlias = Literal["threshold", "weights", "combine", "vote", "examples"]
KNOBS: Final[tuple[Knob, ...]] = ("threshold", "weights", "combine", "vote")
"""What is tuned without calls."""
EXAMPLES: Final = "examples"
"""What is tuned by calls."""


class AlignConfig(Section):
    """What an alignment searches, and how the labels are split for it."""

    tune: Annotated[
        tuple[Knob, ...],
        Field(min_length=1),
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ] = KNOBS
    """What to search: the tie `threshold`, the `weights` of criteria, how samples `combine`, and how a panel votes
    (`vote`), over stored answers; or `examples`, alone, with calls.
    """
    budget_usd: Annotated[float, Field(ge=0)] | None = None
    """The most that calls may cost, in US dollars; required for `examples`."""
    sets: Annotated[int, Field(gt=0)] = 6
    """Number of sets of examples to try."""
    examples: Annotated[int, Field(gt=0)] = 4
    """Number of examples in a set."""
    goal: Literal["rates_corrected", "rates", "single"] | None = None
    """Stop as soon as the judge is good for this on dev."""
    test: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the labels that prove the result, if the run did not hold them out."""
    seed: int = 0
    """Seed of the split, if the run did not hold labels out."""
    name: Annotated[Name, Field(pattern=r"^[\w-]+$")] = "aligned"
    """Name of the new file in `conf/method`; a number is added if it exists."""

    @model_validator(mode="after")
    def _calls(self) -> Self:
        if EXAMPLES not in self.tune:
            return self
        if len(self.tune) > 1:
            raise ValueError("examples are tuned alone: align again with the other settings")
        if self.budget_usd is None:
            raise ValueError("examples call the judge: set align.budget_usd")
        return self
