"""The settings of `evalkit align`, with their defaults."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from evalkit.config.kinds import ReadPath
from evalkit.config.section_base import Section
from evalkit.config.sections import JudgeConfig, Name
from evalkit.core.redaction import remedy_for, secrets_of

Knob: TypeAlias = Literal[
    "threshold", "weights", "combine", "vote", "examples", "prompt", "criteria"
]
KNOBS: Final[tuple[Knob, ...]] = ("threshold", "weights", "combine", "vote")
"""What is tuned without calls."""
EXAMPLES: Final = "examples"
PROMPT: Final = "prompt"
CRITERIA: Final = "criteria"
CALLS: Final[tuple[Knob, ...]] = (EXAMPLES, PROMPT, CRITERIA)
"""What is tuned by calls, each alone."""
WRITTEN: Final[tuple[Knob, ...]] = (PROMPT, CRITERIA)
"""What `align.model` writes."""


def _named(value: Any) -> Any:
    if isinstance(value, str):
        return {"model": value}
    return value


class AlignConfig(Section):
    """What an alignment searches, and how the labels are split for it."""

    tune: Annotated[
        tuple[Knob, ...],
        Field(min_length=1),
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ] = KNOBS
    """What to search: the tie `threshold`, the `weights` of criteria, how samples `combine`, and
    how a panel votes (`vote`), over stored answers; or `examples`, `prompt` or `criteria`, each
    alone, with calls.
    """
    budget_usd: Annotated[float, Field(ge=0)] | None = None
    """The most that calls may cost, in US dollars; required if calls are made."""
    model: Annotated[JudgeConfig | None, BeforeValidator(_named)] = None
    """The model that writes texts: a LiteLLM name, or the keys of `judge`, such as
    `align.model.api_base`."""
    sets: Annotated[int, Field(gt=0, le=100)] = 6
    """Number of sets of examples to try."""
    examples: Annotated[int, Field(gt=0)] = 4
    """Number of examples in a set."""
    prompts: Annotated[int, Field(gt=0, le=100)] = 8
    """Most prompts that `model` writes."""
    cases: Annotated[int, Field(gt=0)] = 8
    """Number of train cases that a prompt or criteria are written from."""
    proposals: Annotated[int, Field(gt=0, le=20)] = 6
    """Most criteria or checklist items that `model` proposes."""
    criteria: ReadPath | None = None
    """File of criteria or checklist items to prove, as written by `tune=criteria` and edited;
    `null` proposes some."""
    goal: Literal["rates_corrected", "rates", "single"] | None = None
    """Stop as soon as the judge is good for this on dev."""
    test: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the labels that prove the result, if the run did not hold them out."""
    seed: int = 0
    """Seed of the split, if the run did not hold labels out."""
    name: Annotated[Name, Field(pattern=r"^[\w-]+$")] = "aligned"
    """Name of the new file in `conf/method`; a number is added if it exists."""

    @model_validator(mode="after")
    def _check_calls(self) -> Self:
        """Check that what needs calls is tuned alone, in a budget, and with a model to write."""
        if self.criteria is not None and CRITERIA not in self.tune:
            raise ValueError("criteria is a file to prove: set tune=criteria")
        costly_knob = next((knob for knob in self.tune if knob in CALLS), None)
        if costly_knob is None:
            return self
        if len(self.tune) > 1:
            raise ValueError(
                f"tune {costly_knob} alone: align again for the other settings"
            )
        if self.budget_usd is None:
            raise ValueError(f"tuning {costly_knob} makes calls: set align.budget_usd")
        # A file needs no writer.
        needs_writer = costly_knob in WRITTEN and self.criteria is None
        if needs_writer and self.model is None:
            raise ValueError(
                f"a model writes the candidates for {costly_knob}: set align.model"
            )
        return self

    @model_validator(mode="after")
    def _secrets(self) -> Self:
        # The settings are written into the run folder.
        for key, secret in secrets_of(self.model_dump(mode="json")):
            raise ValueError(f"{key}: {secret}: {remedy_for(key)}")
        return self

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.model is not None and (
            self.model.judges is not None or self.model.simulated or self.model.rewards
        ):
            raise ValueError(
                "model writes no texts: choose a single model that answers in words"
            )
        return self
