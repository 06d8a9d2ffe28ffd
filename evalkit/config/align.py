"""The settings of `evalkit align`, with their defaults."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from evalkit.config.sections import Name, Section

Knob: TypeAlias = Literal["threshold", "weights", "combine", "vote"]
KNOBS: Final[tuple[Knob, ...]] = ("threshold", "weights", "combine", "vote")
"""What `tune` can list."""


class AlignConfig(Section):
    """What an alignment searches, and how the labels are split for it."""

    tune: Annotated[
        tuple[Knob, ...],
        Field(min_length=1),
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ] = KNOBS
    """What to search: the tie `threshold`, the `weights` of criteria, how samples `combine`, and how a panel votes."""
    goal: Literal["rates_corrected", "rates", "single"] | None = None
    """Stop as soon as the judge is good for this on dev."""
    test: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the labels that prove the result, if the run did not hold them out."""
    seed: int = 0
    """Seed of the split, if the run did not hold labels out."""
    name: Annotated[Name, Field(pattern=r"^[\w-]+$")] = "aligned"
    """Name of the new file in `conf/method`; a number is added if it exists."""
