"""The two tools `pairwise_compare` and `direct_score`: judge one case from Python with one call.

`tool_schemas` returns their schemas for model providers and MCP.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from evalkit.config import RunConfig
from evalkit.core.plain_errors import awaits_plainly, raises_plainly
from evalkit.core.types import Case, Response
from evalkit.engine.event_loop import run_async
from evalkit.serving.sessions import judge_one
from evalkit.serving.tools.input_errors import input_error
from evalkit.serving.tools.models import (
    TOOLS,
    CriterionComparison,
    CriterionScore,
    Differentiators,
    DirectMetadata,
    DirectScoreInput,
    DirectScoreResult,
    PairwiseCompareInput,
    PairwiseCompareResult,
    PairwiseMetadata,
    PositionConsistency,
    ScoreCriterion,
    ScoreExample,
    ScoreRubric,
    Summary,
    Tool,
    ToolModel,
    tool_schemas,
)
from evalkit.serving.tools.results import compared, scored
from evalkit.serving.tools.settings import direct_settings, pairwise_settings

__all__ = [
    "TOOLS",
    "CriterionComparison",
    "CriterionScore",
    "Differentiators",
    "DirectMetadata",
    "DirectScoreInput",
    "DirectScoreResult",
    "PairwiseCompareInput",
    "PairwiseCompareResult",
    "PairwiseMetadata",
    "PositionConsistency",
    "ScoreCriterion",
    "ScoreExample",
    "ScoreRubric",
    "Summary",
    "Tool",
    "direct_score",
    "direct_score_sync",
    "pairwise_compare",
    "pairwise_compare_sync",
    "tool_schemas",
]

T = TypeVar("T", bound=ToolModel)


@awaits_plainly
async def pairwise_compare(
    request: PairwiseCompareInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> PairwiseCompareResult:
    """Compare two responses and choose the better one, in both orders by default.

    Args:
        request: The input as a model or a mapping; or pass its fields as keywords.
        config: The judge, prompt, swap, tie, output, store and runner settings; the defaults if not
            given. Its criteria, dataset and tracking are not used.
        overrides: Hydra overrides, such as `judge=gpt-4o`, of `config` or the defaults.
        **fields: The fields of `PairwiseCompareInput`.

    Raises:
        ConfigError: If the input or the config is invalid, the tool cannot honor an override, or
            the judge cannot be called.
    """
    parsed = _input(PairwiseCompareInput, request, fields)
    started = time.perf_counter()
    settings = pairwise_settings(parsed, config, overrides)
    responses = (Response(parsed.response_a), Response(parsed.response_b))
    case = Case("pairwise_compare", parsed.prompt, responses, parsed.context)
    judgments, verdicts = await judge_one(settings, case)
    return compared(
        settings, case, judgments, verdicts[0], (time.perf_counter() - started) * 1000
    )


@awaits_plainly
async def direct_score(
    request: DirectScoreInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> DirectScoreResult:
    """Score one response on weighted criteria with a rubric; for arguments and errors
    see `pairwise_compare`.
    """
    parsed = _input(DirectScoreInput, request, fields)
    started = time.perf_counter()
    settings = direct_settings(parsed, config, overrides)
    case = Case(
        "direct_score", parsed.prompt, (Response(parsed.response),), parsed.context
    )
    judgments, verdicts = await judge_one(settings, case)
    return scored(
        settings, case, judgments, verdicts[0], (time.perf_counter() - started) * 1000
    )


@raises_plainly
def pairwise_compare_sync(
    request: PairwiseCompareInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> PairwiseCompareResult:
    """Call `pairwise_compare` and wait for its result; the arguments and errors are the same."""
    return run_async(
        pairwise_compare(request, config=config, overrides=overrides, **fields)
    )


@raises_plainly
def direct_score_sync(
    request: DirectScoreInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> DirectScoreResult:
    """Call `direct_score` and wait for its result; the arguments and errors are the same."""
    return run_async(
        direct_score(request, config=config, overrides=overrides, **fields)
    )


def _input(model: type[T], request: Any, fields: Mapping[str, Any]) -> T:
    if isinstance(request, model):
        return request
    try:
        return model.model_validate({**(request or {}), **fields})
    except ValidationError as error:
        raise input_error(error, model) from None
