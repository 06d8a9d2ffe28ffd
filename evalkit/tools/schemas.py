"""Provide the tools' schemas in the formats of model providers and protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evalkit.errors import ConfigError, did_you_mean
from evalkit.tools.models import (
    DirectScoreInput,
    DirectScoreResult,
    PairwiseCompareInput,
    PairwiseCompareResult,
    ToolModel,
)

FORMATS = ("openai", "anthropic", "mcp", "json-schema")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name, its purpose, its arguments and its result."""

    name: str
    description: str
    arguments: type[ToolModel]
    result: type[ToolModel]


TOOLS = (
    Tool(
        "pairwise_compare",
        "Compare two responses to the same prompt and choose the better one. Use it for preferences, such as tone, "
        "persuasiveness or style, where a comparison is more reliable than a score. Judges the responses in both "
        "orders by default, to cancel position bias, and returns the winner with a comparison on each criterion.",
        PairwiseCompareInput,
        PairwiseCompareResult,
    ),
    Tool(
        "direct_score",
        "Score one response on weighted criteria by a rubric. Use it for qualities that can be checked on their own, "
        "such as accuracy, completeness or following instructions. Returns a score with a justification and evidence "
        "for each criterion.",
        DirectScoreInput,
        DirectScoreResult,
    ),
)


def tool_schemas(form: str = "json-schema") -> Any:
    """Return the schemas of both tools as JSON values.

    Args:
        form: `openai` and `anthropic` are lists for the `tools` of a request, `mcp` is the result of `tools/list`, and
            `json-schema` maps each tool's name to its description and the JSON schemas of its input and output.

    Raises:
        ConfigError: If there is no such format.
    """
    if form == "openai":
        return [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": schema_of(one.arguments)},
            }
            for one in TOOLS
        ]
    if form == "anthropic":
        return [
            {"name": one.name, "description": one.description, "input_schema": schema_of(one.arguments)}
            for one in TOOLS
        ]
    if form == "mcp":
        return {
            "tools": [
                {
                    "name": one.name,
                    "description": one.description,
                    "inputSchema": schema_of(one.arguments),
                    "outputSchema": schema_of(one.result),
                }
                for one in TOOLS
            ]
        }
    if form == "json-schema":
        return {
            one.name: {
                "description": one.description,
                "input": schema_of(one.arguments),
                "output": schema_of(one.result),
            }
            for one in TOOLS
        }
    raise ConfigError(f"there is no format '{form}'", where="tools --format", remedy=did_you_mean(form, FORMATS))


def schema_of(model: type[ToolModel]) -> dict[str, Any]:
    """Return a model's JSON schema without `$ref`, which some clients cannot read."""
    mode: Literal["validation", "serialization"] = "validation" if model.__name__.endswith("Input") else "serialization"
    schema = model.model_json_schema(mode=mode)
    parts = schema.pop("$defs", {})
    inlined = _inlined(schema, parts)
    assert isinstance(inlined, dict)
    return inlined


def _inlined(node: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(one, parts) for one in node]
    if not isinstance(node, Mapping):
        return node
    own = {key: _inlined(value, parts) for key, value in node.items() if key != "$ref" and not _is_title(key, value)}
    if "$ref" not in node:
        return own
    # Keys next to a reference describe this use of it.
    return {**_inlined(parts[str(node["$ref"]).rsplit("/", 1)[-1]], parts), **own}


def _is_title(key: str, value: object) -> bool:
    """Return whether this is a generated title, not a property named `title`, whose schema is a mapping."""
    return key == "title" and isinstance(value, str)
