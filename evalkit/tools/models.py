"""What goes into the two tools and what comes out: snake_case in Python, camelCase by alias in JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from evalkit.types import Winner

SCALES = {"1-3": (1, 3), "1-5": (1, 5), "1-10": (1, 10)}


class ToolModel(BaseModel):
    """Base of the tools' inputs and results."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class PairwiseCompareInput(ToolModel):
    """Two responses to one prompt; `criteria` in order of importance."""

    response_a: str
    response_b: str
    prompt: str
    context: str | None = None
    criteria: Annotated[list[str], Field(min_length=1)]
    allow_tie: bool = True
    swap_positions: bool = True


class CriterionComparison(ToolModel):
    """One criterion: who wins it, why, and what speaks for each."""

    criterion: str
    winner: Winner
    reasoning: str
    a_strength: str
    b_strength: str


class Differentiators(ToolModel):
    """What each response has that the other has not."""

    a_advantages: list[str]
    b_advantages: list[str]


class PositionConsistency(ToolModel):
    """What each pass said, mapped back to the caller's A and B; none where a pass could not be read."""

    first_pass_winner: Winner | None
    second_pass_winner: Winner | None
    consistent: bool


class PairwiseMetadata(ToolModel):
    """How long it took (milliseconds) and whether both orders were judged."""

    evaluation_time_ms: float
    positions_swapped: bool


class PairwiseCompareResult(ToolModel):
    """The comparison. Without `success` there is no winner and no confidence, and `error` says why."""

    success: bool
    winner: Winner | None
    confidence: float | None
    comparison: list[CriterionComparison]
    overall_reasoning: str
    differentiators: Differentiators
    position_consistency: PositionConsistency | None
    metadata: PairwiseMetadata
    error: str | None = None


class ScoreCriterion(ToolModel):
    """A criterion, what it measures and its relative weight (0 to 1)."""

    name: str
    description: str = ""
    weight: Annotated[float, Field(ge=0, le=1)] = 1.0


class ScoreRubric(ToolModel):
    """The scale, and what its levels mean."""

    scale: Literal["1-3", "1-5", "1-10"] = "1-5"
    level_descriptions: dict[str, str] | None = None

    @model_validator(mode="after")
    def _levels_on_scale(self) -> ScoreRubric:
        low, high = SCALES[self.scale]
        for level in self.level_descriptions or {}:
            if not level.isdigit() or not low <= int(level) <= high:
                raise ValueError(f"levelDescriptions: {level!r} is not on the scale {self.scale}")
        return self


class DirectScoreInput(ToolModel):
    """One response to one prompt, and what to score it by."""

    response: str
    prompt: str
    context: str | None = None
    criteria: Annotated[list[ScoreCriterion], Field(min_length=1)]
    rubric: ScoreRubric = ScoreRubric()


class CriterionScore(ToolModel):
    """One criterion's score, why, and the passages of the response it rests on."""

    criterion: str
    score: float
    max_score: float
    justification: str
    examples: list[str]


class Summary(ToolModel):
    """What is good, what is not, and what would mend it."""

    strengths: list[str]
    weaknesses: list[str]
    suggestions: list[str]


class DirectMetadata(ToolModel):
    """How long it took (milliseconds), and what was scored on which scale."""

    evaluation_time_ms: float
    criteria_count: int
    rubric_scale: str


class DirectScoreResult(ToolModel):
    """The scores: `overall_score` is their plain mean, `weighted_score` their weighted mean, both in scale units.

    Without `success` there is no score at all, and `error` says why.
    """

    success: bool
    scores: list[CriterionScore]
    overall_score: float | None
    weighted_score: float | None
    summary: Summary
    metadata: DirectMetadata
    error: str | None = None
