"""Define inputs, results and schemas of the two tools: snake_case in Python, camelCase
in JSON, fields described.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from evalkit.config.sections import Name
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.types import Reason, Winner
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.scoring.decision import Use

SCALES = {"1-3": (1, 3), "1-5": (1, 5), "1-10": (1, 10)}
_NULL = {"type": "null"}


class ToolModel(BaseModel):
    """Base of the tools' inputs and results; the docstring of a field is its
    description in the schema.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )


class ToolInput(ToolModel):
    """Base of the tools' inputs: `null` for an optional field is the same as omitting the field."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        """Return the values without optional ones that are null: clients mean "not set"."""
        if not isinstance(values, Mapping):
            return values
        # By both names: a client may send snake_case or camelCase.
        optional = {
            key
            for name, field in cls.model_fields.items()
            if not field.is_required()
            for key in (name, field.alias)
        }
        return {
            key: value
            for key, value in values.items()
            if value is not None or key not in optional
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        resolved = handler.resolve_ref_schema(schema)
        for name, field in cls.model_fields.items():
            described = resolved.get("properties", {}).get(field.alias or name)
            if described is not None and not field.is_required():
                _accept_null(described)
        return schema


def _accept_null(schema: JsonObject) -> None:
    """Make a property's schema accept null, and keep its description and default at the
    top level.
    """
    if _NULL in schema.get("anyOf", ()):
        return
    kept = [key for key in ("title", "description", "default") if key in schema]
    annotations: JsonObject = {key: schema.pop(key) for key in kept}
    inner = dict(schema)
    schema.clear()
    schema.update({"anyOf": [inner, _NULL], **annotations})


def _different(names: list[str]) -> list[str]:
    counts = Counter(names)
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"two criteria are named '{name}'; give each criterion a unique name"
        )
    return names


_METADATA = (
    "Values of columns of the validation's data, such as {'language': 'de'}: a validated judge may"
    " not be trusted for some of them. The judge does not see them."
)
_Plain: TypeAlias = str | int | float | bool | None
Metadata: TypeAlias = dict[str, _Plain | list[_Plain]]


class PairwiseCompareInput(ToolInput):
    """Two responses to one prompt, and the criteria to compare them by."""

    response_a: str
    """The first response, called A in the result."""
    response_b: str
    """The second response, called B in the result."""
    prompt: str
    """The task that both responses answer, exactly as the responding models received it."""
    context: str | None = None
    """Background that the judge needs, such as retrieved documents or the conversation so far."""
    criteria: Annotated[list[Name], Field(min_length=1), AfterValidator(_different)]
    """Names of the qualities to compare, most important first, for example ['accuracy',
    'clarity']."""
    allow_tie: bool = True
    """Whether TIE is a possible winner. If false, every tie is decided for A or B, also if the
    judge insists on it: by the mean difference, then by the more confident order, then by a hash of
    the texts."""
    swap_positions: bool = True
    """Whether to judge twice, with the responses in both orders, to cancel position bias."""
    metadata: Metadata | None = Field(None, description=_METADATA)


class CriterionComparison(ToolModel):
    """Both responses on one criterion."""

    criterion: str
    """The criterion's name."""
    winner: Winner | None
    """The better response on this criterion, over all orders, samples and judges; null if
    undecided."""
    reasoning: str
    """Why, in the judge's words."""
    a_strength: str
    """The judge's assessment of response A on this criterion."""
    b_strength: str
    """The judge's assessment of response B on this criterion."""


class Differentiators(ToolModel):
    """The advantages of each response."""

    a_advantages: list[str]
    """The advantages of response A."""
    b_advantages: list[str]
    """The advantages of response B."""


class PositionConsistency(ToolModel):
    """The winner in each order, in terms of the caller's A and B."""

    first_pass_winner: Winner | None
    """The winner when A was shown first; null if that order has no usable answer."""
    second_pass_winner: Winner | None
    """The winner when B was shown first; null if that order has no usable answer."""
    consistent: bool | None
    """Whether both orders have the same winner; null if an order has no usable answer."""


class PairwiseMetadata(ToolModel):
    """The duration and settings of the comparison."""

    evaluation_time_ms: float
    """The duration in milliseconds."""
    positions_swapped: bool
    """Whether both orders were judged."""


class TrustNote(ToolModel):
    """A reason why a result is not covered by the judge's validation."""

    kind: str
    """A stable name of the reason, such as length, script, model or criterion."""
    text: str
    """The reason in words."""


class ToolTrust(ToolModel):
    """What the validation of a judge says about a result."""

    use: Use
    """What the judge can be used for: single (single verdicts), rates (rates over many),
    rates_corrected (rates corrected by labels), none, or unknown."""
    sentence: str
    """The same in words."""
    warnings: list[TrustNote]
    """Why this result is not covered by the validation; empty if it is."""


_TRUST = (
    "What the validation of the judge says about this result; "
    "null if the judge was not validated."
)


class PairwiseCompareResult(ToolModel):
    """The outcome of a comparison."""

    success: bool
    """Whether there is a winner or a tie. If false, `error` has the reason."""
    winner: Winner | None
    """The better response, or TIE; null without success."""
    confidence: float | None
    """The judge's confidence in the winner, from 0 to 1; null without success, and for output
    formats without a confidence."""
    reason: Reason
    """Source of the winner: judged (the judge's choice), threshold (a tie, because the difference
    or the confidence is below the threshold), swap_disagreement (a tie, because the two orders
    disagree), split (a tie, because samples or judges cancel out), criteria_cancel (a tie, because
    weighted criteria cancel out), forced (a tie that was decided because ties are not allowed), or
    missing (no usable answer)."""
    comparison: list[CriterionComparison] | None
    """One entry per criterion; empty if no usable answer has them, null if the output format has
    none."""
    overall_reasoning: str | None
    """The judge's reasoning, from an answer that saw A first; null if there is no such answer."""
    differentiators: Differentiators | None
    """The advantages of each response; null if the output format does not ask for them."""
    position_consistency: PositionConsistency | None
    """The winner in each order; null if only one order was judged."""
    metadata: PairwiseMetadata
    """The duration and settings of the comparison."""
    error: str | None = None
    """The reason why there is no result; null with success."""
    trust: ToolTrust | None = Field(None, description=_TRUST)


class ScoreCriterion(ToolInput):
    """One criterion to score."""

    name: Name
    """The criterion's name, for example 'accuracy'."""
    description: str = ""
    """What the criterion measures."""
    weight: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Its relative importance, 0 to 1. Weights are normalized to sum to 1."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        """Read a text as the name of a criterion, as the criteria of comparisons are given."""
        if isinstance(value, str):
            return {"name": value}
        return value


class ScoreExample(ToolInput):
    """A scored response that shows the judge how to use the scale."""

    prompt: str | None = None
    """The task that the example response answers."""
    response: str
    """The example response."""
    scores: dict[str, float]
    """Its score by criterion name, on the rubric's scale."""
    justification: str
    """The reason for these scores."""


class ScoreRubric(ToolInput):
    """The scale of the scores and its use."""

    scale: Literal["1-3", "1-5", "1-10"] = "1-5"
    """The lowest and the highest score; all integers."""
    level_descriptions: dict[str, str] | None = None
    """The meaning of scores, by score, for example {'1': 'unusable', '5': 'excellent'}."""
    examples: list[ScoreExample] | None = None
    """Scored examples for calibration, ideally one per score."""

    @model_validator(mode="after")
    def _levels_on_scale(self) -> ScoreRubric:
        """Check that each description is of a score on the scale."""
        low, high = SCALES[self.scale]
        for level in self.level_descriptions or {}:
            on_scale = level.isdecimal() and low <= int(level) <= high
            if not (
                on_scale or (level.isdecimal() and "scale" not in self.model_fields_set)
            ):
                raise ValueError(
                    f"levelDescriptions: {level!r} is not on the scale {self.scale}; use its scores"
                    " only"
                )
        return self


class DirectScoreInput(ToolInput):
    """One response to one prompt, and the criteria to score it on."""

    response: str
    """The response to score."""
    prompt: str
    """The task that the response answers, exactly as the responding model received it."""
    context: str | None = None
    """Background that the judge needs, such as retrieved documents or the conversation so far."""
    criteria: Annotated[list[ScoreCriterion], Field(min_length=1)]
    """The criteria; the response gets one score per criterion."""
    rubric: ScoreRubric | None = None
    """The scale, its level descriptions and examples. Default: 1 to 5, or the configured rubric."""
    metadata: Metadata | None = Field(None, description=_METADATA)

    @model_validator(mode="after")
    def _criteria_of_weight(self) -> DirectScoreInput:
        _different([criterion.name for criterion in self.criteria])
        if not any(criterion.weight for criterion in self.criteria):
            raise ValueError(
                "criteria: every weight is 0; give at least one criterion a weight above 0"
            )
        return self


class CriterionScore(ToolModel):
    """The score on one criterion."""

    criterion: str
    """The criterion's name."""
    score: float
    """The score, aggregated over all samples and judges."""
    max_score: float
    """The highest possible score."""
    justification: str
    """The judge's reasons."""
    examples: list[str] | None
    """Passages of the response as evidence; null if the output format does not ask for them."""


class Summary(ToolModel):
    """The response as a whole."""

    strengths: list[str]
    """The strengths of the response."""
    weaknesses: list[str]
    """The weaknesses of the response."""
    suggestions: list[str]
    """Suggested improvements."""


class DirectMetadata(ToolModel):
    """The duration and settings of the scoring."""

    evaluation_time_ms: float
    """The duration in milliseconds."""
    criteria_count: int
    """The number of criteria that were scored."""
    rubric_scale: str
    """The scale, for example '1-5'."""


class DirectScoreResult(ToolModel):
    """The scores, in units of the scale."""

    success: bool
    """Whether there are scores. If false, `error` has the reason."""
    scores: list[CriterionScore]
    """One entry per criterion; empty without success."""
    overall_score: float | None
    """The score with equal weights: for one answer, the mean of its scores; null without
    success."""
    weighted_score: float | None
    """The score with the criteria's weights: for one answer, the weighted mean; null without
    success."""
    summary: Summary | None
    """Strengths, weaknesses and suggestions; null without success or if the output format has
    none."""
    metadata: DirectMetadata
    """The duration and settings of the scoring."""
    error: str | None = None
    """The reason why there is no result; null with success."""
    trust: ToolTrust | None = Field(None, description=_TRUST)


FORMATS = ("openai", "anthropic", "mcp", "json-schema")


@frozen
class Tool:
    """A tool: its name, its purpose, its arguments and its result."""

    name: str
    description: str
    arguments: type[ToolInput]
    result: type[ToolModel]


TOOLS = (
    Tool(
        "pairwise_compare",
        "Compare two responses to the same prompt and choose the better one. Use it for"
        " preferences, such as tone, persuasiveness or style, where a comparison is more reliable"
        " than a score. Judges the responses in both orders by default, to cancel position bias,"
        " and returns the winner with a comparison on each criterion.",
        PairwiseCompareInput,
        PairwiseCompareResult,
    ),
    Tool(
        "direct_score",
        "Score one response on weighted criteria by a rubric. Use it for qualities that can be"
        " checked on their own, such as accuracy, completeness or following instructions. Returns a"
        " score with a justification and evidence for each criterion.",
        DirectScoreInput,
        DirectScoreResult,
    ),
)


def tool_schemas(form: str = "json-schema") -> Any:
    """Return the schemas of both tools as JSON values.

    Args:
        form: `openai` and `anthropic` are lists for the `tools` of a request, `mcp` is the result
            of `tools/list`, and `json-schema` maps each tool's name to its description and the JSON
            schemas of its input and output.

    Raises:
        ConfigError: If there is no such format.
    """
    if form == "openai":
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": schema_of(tool.arguments),
                },
            }
            for tool in TOOLS
        ]
    if form == "anthropic":
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": schema_of(tool.arguments),
            }
            for tool in TOOLS
        ]
    if form == "mcp":
        return {
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": schema_of(tool.arguments),
                    "outputSchema": schema_of(tool.result),
                }
                for tool in TOOLS
            ]
        }
    if form == "json-schema":
        return {
            tool.name: {
                "description": tool.description,
                "input": schema_of(tool.arguments),
                "output": schema_of(tool.result),
            }
            for tool in TOOLS
        }
    raise ConfigError(
        f"there is no format '{form}'",
        where="tools --format",
        remedy=did_you_mean(form, FORMATS),
    )


def schema_of(model: Any) -> JsonObject:
    """Return the JSON schema of a model or a dataclass without `$ref`, which some
    clients cannot read.
    """
    mode: Literal["validation", "serialization"] = (
        "validation" if model.__name__.endswith("Input") else "serialization"
    )
    schema = TypeAdapter(model).json_schema(mode=mode)
    parts = schema.pop("$defs", {})
    inlined = _inline_references(schema, parts)
    assert isinstance(inlined, dict)
    return inlined


def _inline_references(node: Any, parts: Json) -> Any:
    """Return a JSON schema with references replaced by what they name, and without titles."""
    if isinstance(node, list):
        return [_inline_references(element, parts) for element in node]
    if not isinstance(node, Mapping):
        return node
    inlined = {
        key: _inline_references(value, parts)
        for key, value in node.items()
        if key != "$ref" and not _is_title(key, value)
    }
    if isinstance(description := inlined.get("description"), str):
        inlined["description"] = " ".join(description.split())
    if "$ref" not in node:
        return inlined
    # Keys next to a reference describe this use of it.
    # The models do not contain themselves, so inlining ends.
    return {
        **_inline_references(parts[str(node["$ref"]).rsplit("/", 1)[-1]], parts),
        **inlined,
    }


def _is_title(key: str, value: object) -> bool:
    """Return whether this is a generated title, not a property named `title`, whose
    schema is a mapping.
    """
    return key == "title" and isinstance(value, str)
