"""Inputs and results of the two tools: snake_case in Python, camelCase by alias in JSON; every field described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from evalkit.config.sections import Name
from evalkit.types import Reason, Winner

SCALES = {"1-3": (1, 3), "1-5": (1, 5), "1-10": (1, 10)}
_NULL = {"type": "null"}


class ToolModel(BaseModel):
    """Base of the tools' inputs and results."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class ToolInput(ToolModel):
    """Base of what callers give: `null` for an optional field is the same as leaving the field out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        optional = {
            key for name, field in cls.model_fields.items() if not field.is_required() for key in (name, field.alias)
        }
        return {key: value for key, value in given.items() if value is not None or key not in optional}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        resolved = handler.resolve_ref_schema(schema)
        for name, field in cls.model_fields.items():
            described = resolved.get("properties", {}).get(field.alias or name)
            if described is not None and not field.is_required():
                _accept_null(described)
        return schema


def _accept_null(schema: dict[str, Any]) -> None:
    """Let a property's schema accept null too, keeping its description and default beside it."""
    if _NULL in schema.get("anyOf", ()):
        return
    kept = [key for key in ("title", "description", "default") if key in schema]
    beside: dict[str, Any] = {key: schema.pop(key) for key in kept}
    inner = dict(schema)
    schema.clear()
    schema.update({"anyOf": [inner, _NULL], **beside})


def _different(names: list[str]) -> list[str]:
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"'{repeated[0]}' is named twice: give each criterion its own name")
    return names


class PairwiseCompareInput(ToolInput):
    """Two responses to one prompt, and the criteria to compare them by."""

    response_a: str = Field(description="The first response, called A in the result.")
    response_b: str = Field(description="The second response, called B in the result.")
    prompt: str = Field(description="The task that both responses answer, as it was given to them.")
    context: str | None = Field(
        None, description="Background that the judge needs, such as retrieved documents or the conversation so far."
    )
    criteria: Annotated[list[Name], Field(min_length=1), AfterValidator(_different)] = Field(
        description="Names of what to compare, the most important first, for example ['accuracy', 'clarity']."
    )
    allow_tie: bool = Field(
        True, description="Whether TIE is a possible winner. If false, every tie is decided for A or B."
    )
    swap_positions: bool = Field(
        True, description="Whether to judge twice, with the responses in both orders, to cancel position bias."
    )


class CriterionComparison(ToolModel):
    """Both responses on one criterion."""

    criterion: str = Field(description="The criterion's name.")
    winner: Winner | None = Field(
        description="Which response is better on it, over all passes, samples and judges; null if they leave it open."
    )
    reasoning: str = Field(description="Why, in the judge's words.")
    a_strength: str = Field(description="How response A does on it.")
    b_strength: str = Field(description="How response B does on it.")


class Differentiators(ToolModel):
    """What speaks for each response."""

    a_advantages: list[str] = Field(description="What speaks for response A.")
    b_advantages: list[str] = Field(description="What speaks for response B.")


class PositionConsistency(ToolModel):
    """What each pass decided, in terms of the caller's A and B."""

    first_pass_winner: Winner | None = Field(
        description="The winner when A was shown first; null if that pass has no usable answer."
    )
    second_pass_winner: Winner | None = Field(
        description="The winner when B was shown first; null if that pass has no usable answer."
    )
    consistent: bool | None = Field(
        description="Whether both passes have the same winner; null if a pass has no usable answer."
    )


class PairwiseMetadata(ToolModel):
    """How the comparison was made."""

    evaluation_time_ms: float = Field(description="How long it took, in milliseconds.")
    positions_swapped: bool = Field(description="Whether both orders were judged.")


class PairwiseCompareResult(ToolModel):
    """The outcome of a comparison."""

    success: bool = Field(description="Whether there is a winner or a tie. If false, `error` says why there is none.")
    winner: Winner | None = Field(description="The better response, or TIE; null without success.")
    confidence: float | None = Field(
        description="How sure the judge is of the winner, 0 to 1; null without success, and for output formats that "
        "state no confidence."
    )
    reason: Reason = Field(
        description="How the winner came about: judged (the judge said so), threshold (too close or too unsure, so a "
        "tie), swap_disagreement (the two orders disagree, so a tie), split (samples or judges cancel out, so a tie), "
        "forced (a tie that had to be decided), or missing (no usable answer)."
    )
    comparison: list[CriterionComparison] | None = Field(
        description="One entry per criterion; empty if no readable answer has them, null if the output format has none."
    )
    overall_reasoning: str | None = Field(
        description="Why, in the judge's words, from a pass that shows A first; null if there is no such answer."
    )
    differentiators: Differentiators | None = Field(
        description="What speaks for each response; null if the output format does not ask for it."
    )
    position_consistency: PositionConsistency | None = Field(
        description="What each pass decided; null if only one order was judged."
    )
    metadata: PairwiseMetadata = Field(description="How the comparison was made.")
    error: str | None = Field(None, description="Why there is no result; null with success.")


class ScoreCriterion(ToolInput):
    """One thing to score."""

    name: Name = Field(description="The criterion's name, for example 'accuracy'.")
    description: str = Field("", description="What the criterion measures.")
    weight: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="Its relative importance, 0 to 1. Weights are normalized to sum to 1."
    )


class ScoreExample(ToolInput):
    """A scored response that shows the judge how to use the scale."""

    prompt: str | None = Field(None, description="The task that the example response answers.")
    response: str = Field(description="The example response.")
    scores: dict[str, float] = Field(description="Its score by criterion name, on the rubric's scale.")
    justification: str = Field(description="Why it has these scores.")


class ScoreRubric(ToolInput):
    """The scale of the scores, and how to use it."""

    scale: Literal["1-3", "1-5", "1-10"] = Field("1-5", description="The lowest and the highest score; all integers.")
    level_descriptions: dict[str, str] | None = Field(
        None, description="What scores mean, by score, for example {'1': 'unusable', '5': 'excellent'}."
    )
    examples: list[ScoreExample] | None = Field(
        None, description="Scored examples for calibration, at best one for each score."
    )

    @model_validator(mode="after")
    def _levels_on_scale(self) -> ScoreRubric:
        low, high = SCALES[self.scale]
        for level in self.level_descriptions or {}:
            on_scale = level.isdecimal() and low <= int(level) <= high
            if not (on_scale or (level.isdecimal() and "scale" not in self.model_fields_set)):
                raise ValueError(f"levelDescriptions: {level!r} is not on the scale {self.scale}")
        return self


class DirectScoreInput(ToolInput):
    """One response to one prompt, and what to score it by."""

    response: str = Field(description="The response to score.")
    prompt: str = Field(description="The task that the response answers, as it was given to it.")
    context: str | None = Field(
        None, description="Background that the judge needs, such as retrieved documents or the conversation so far."
    )
    criteria: Annotated[list[ScoreCriterion], Field(min_length=1)] = Field(
        description="What to score; the response gets one score per criterion."
    )
    rubric: ScoreRubric | None = Field(
        None, description="The scale, its level descriptions and examples. Default: 1 to 5, or as configured."
    )

    @model_validator(mode="after")
    def _criteria_of_weight(self) -> DirectScoreInput:
        _different([one.name for one in self.criteria])
        if not any(one.weight for one in self.criteria):
            raise ValueError("criteria: every weight is 0: give at least one criterion a weight above 0")
        return self


class CriterionScore(ToolModel):
    """The score on one criterion."""

    criterion: str = Field(description="The criterion's name.")
    score: float = Field(description="The score, over all samples and judges.")
    max_score: float = Field(description="The highest possible score.")
    justification: str = Field(description="Why, in the judge's words.")
    examples: list[str] | None = Field(
        description="Passages of the response as evidence; null if the output format does not ask for them."
    )


class Summary(ToolModel):
    """The response as a whole."""

    strengths: list[str] = Field(description="What is good.")
    weaknesses: list[str] = Field(description="What is not.")
    suggestions: list[str] = Field(description="What would improve it.")


class DirectMetadata(ToolModel):
    """How the score was made."""

    evaluation_time_ms: float = Field(description="How long it took, in milliseconds.")
    criteria_count: int = Field(description="How many criteria were scored.")
    rubric_scale: str = Field(description="The scale, for example '1-5'.")


class DirectScoreResult(ToolModel):
    """The scores, in units of the scale."""

    success: bool = Field(description="Whether there are scores. If false, `error` says why there are none.")
    scores: list[CriterionScore] = Field(description="One entry per criterion; empty without success.")
    overall_score: float | None = Field(
        description="The score with equal weights: of one answer, the mean of its scores; null without success."
    )
    weighted_score: float | None = Field(
        description="The score by the criteria's weights: of one answer, its weighted mean; null without success."
    )
    summary: Summary | None = Field(
        description="Strengths, weaknesses and suggestions; null without success or if the output format has none."
    )
    metadata: DirectMetadata = Field(description="How the score was made.")
    error: str | None = Field(None, description="Why there is no result; null with success.")
