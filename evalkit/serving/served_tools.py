"""The tools of a served judge: the two tools, with the validated criteria where a
question names none.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, cast

from pydantic import create_model

from evalkit.config import RunConfig
from evalkit.serving.tools import TOOLS, PairwiseCompareInput, ScoreCriterion, Tool
from evalkit.serving.tools.models import ToolInput


def served_tools(config: RunConfig) -> dict[str, Tool]:
    """Return the tools for verdicts of a judge's kind, by name.

    Args:
        config: The config of the judge; a question without criteria is judged by its criteria.
    """
    mode = config.mode.name
    kinds = {
        "pairwise_compare": mode == "pairwise",
        "direct_score": mode == "pointwise" and not config.rubric.classes,
    }
    return {
        tool.name: _with_optional_criteria(config, tool)
        for tool in TOOLS
        if kinds[tool.name]
    }


def _with_optional_criteria(config: RunConfig, tool: Tool) -> Tool:
    """Return a tool whose criteria are optional."""
    names = [*config.criteria]
    compares = issubclass(tool.arguments, PairwiseCompareInput)

    def validated() -> list[Any]:
        # A name alone stands for the validated criterion, with its description and weight.
        if compares:
            return names[:]
        return [ScoreCriterion(name=name) for name in names]

    field = copy(tool.arguments.model_fields["criteria"])
    field.default_factory = validated
    field.description = (
        f"{field.description} By default the validated ones: {', '.join(names)}."
    )
    fields: dict[str, Any] = {"criteria": (field.annotation, field)}
    arguments = create_model(
        tool.arguments.__name__,
        __base__=tool.arguments,
        __doc__=tool.arguments.__doc__,
        **fields,
    )
    return replace(tool, arguments=cast("type[ToolInput]", arguments))
