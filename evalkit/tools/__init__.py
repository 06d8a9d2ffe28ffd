"""The two tools, `pairwise_compare` and `direct_score`: one judgment from Python, as one call."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from evalkit.app import judge_one
from evalkit.compose import load_config
from evalkit.config import RubricConfig, RunConfig, SwapConfig, TieConfig
from evalkit.engine.blocking import run_async
from evalkit.errors import ConfigError
from evalkit.scales import Scale
from evalkit.tools.models import (
    SCALES,
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
    Summary,
    ToolModel,
)
from evalkit.types import Case, Judgment, Response, Verdict, Winner

__all__ = ["direct_score", "direct_score_sync", "pairwise_compare", "pairwise_compare_sync"]

T = TypeVar("T", bound=ToolModel)
ORDERS = ((0, 1), (1, 0))


async def pairwise_compare(
    request: PairwiseCompareInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> PairwiseCompareResult:
    """Compare two responses and choose the better one, in both orders unless told otherwise.

    Args:
        request: the input as a model or mapping; or give its fields as keywords.
        config: judge, prompt, store and runner settings; composed from the defaults and `overrides` if not given.
        overrides: Hydra overrides such as `judge=gpt-4o`.
        **fields: the fields of `PairwiseCompareInput`.

    Raises:
        pydantic.ValidationError: if the input is not valid.
        ConfigError: if the configuration is not, or the judge cannot be called at all.
    """
    asked = _input(PairwiseCompareInput, request, fields)
    started = time.perf_counter()
    settings = _settings(config, overrides, "mode=pairwise").model_copy(
        update={
            "swap": SwapConfig(policy="both" if asked.swap_positions else "none", resolve="tie"),
            "tie": TieConfig(allow=asked.allow_tie),
        }
    )
    settings = RunConfig.model_validate({**settings.dump(), "criteria": [{"name": one} for one in asked.criteria]})
    responses = (Response(asked.response_a), Response(asked.response_b))
    judgments, verdicts = await judge_one(settings, Case("pairwise_compare", asked.prompt, responses, asked.context))
    elapsed = (time.perf_counter() - started) * 1000
    return _compared(asked, judgments, verdicts[0], elapsed)


async def direct_score(
    request: DirectScoreInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> DirectScoreResult:
    """Score one response on weighted criteria by a rubric; arguments and errors as `pairwise_compare`."""
    asked = _input(DirectScoreInput, request, fields)
    started = time.perf_counter()
    low, high = SCALES[asked.rubric.scale]
    levels = {float(k): v for k, v in (asked.rubric.level_descriptions or {}).items()}
    settings = _settings(config, overrides, "mode=pointwise").model_copy(
        update={
            "rubric": RubricConfig(min=low, max=high, step=1, levels=levels),
        }
    )
    settings = RunConfig.model_validate({**settings.dump(), "criteria": [one.model_dump() for one in asked.criteria]})
    case = Case("direct_score", asked.prompt, (Response(asked.response),), asked.context)
    judgments, verdicts = await judge_one(settings, case)
    elapsed = (time.perf_counter() - started) * 1000
    return _scored(asked, settings, judgments[0], verdicts[0], elapsed)


def pairwise_compare_sync(
    request: PairwiseCompareInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> PairwiseCompareResult:
    """Call `pairwise_compare` and wait for it; arguments and errors as there."""
    return run_async(pairwise_compare(request, config=config, overrides=overrides, **fields))


def direct_score_sync(
    request: DirectScoreInput | Mapping[str, Any] | None = None,
    /,
    *,
    config: RunConfig | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> DirectScoreResult:
    """Call `direct_score` and wait for it; arguments and errors as there."""
    return run_async(direct_score(request, config=config, overrides=overrides, **fields))


def _input(model: type[T], request: Any, fields: Mapping[str, Any]) -> T:
    if isinstance(request, model):
        return request
    return model.model_validate({**(request or {}), **fields})


def _settings(config: RunConfig | None, overrides: Sequence[str], mode: str) -> RunConfig:
    settings = config or load_config(overrides=[mode, *overrides])
    if f"mode={settings.mode.name}" != mode:
        raise ConfigError(f"is '{settings.mode.name}'", where="mode.name", remedy=f"this tool needs {mode}")
    return settings


def _compared(
    asked: PairwiseCompareInput, judgments: Sequence[Judgment], verdict: Verdict, elapsed: float
) -> PairwiseCompareResult:
    first, second = (_read(judgments, shown, said) for shown, said in zip(ORDERS, _said(verdict), strict=True))
    result, analysis = first.get("result", {}), first.get("analysis", {})
    orders = verdict.orders
    others = {row["criterion"]: row["winner"] for row in second.get("comparison", [])}
    return PairwiseCompareResult(
        success=verdict.winner is not None,
        winner=verdict.winner,
        confidence=verdict.confidence,
        comparison=[_criterion(row, others.get(row["criterion"])) for row in first.get("comparison", [])],
        overall_reasoning=_reasoning(result, second.get("result", {}).get("winner")),
        differentiators=Differentiators(
            a_advantages=analysis.get("responseA", {}).get("strengths", []),
            b_advantages=analysis.get("responseB", {}).get("strengths", []),
        ),
        position_consistency=PositionConsistency(
            first_pass_winner=orders.first, second_pass_winner=orders.second, consistent=bool(orders.consistent)
        )
        if asked.swap_positions and orders
        else None,
        metadata=PairwiseMetadata(evaluation_time_ms=elapsed, positions_swapped=asked.swap_positions),
        error=None if verdict.winner else _why(judgments),
    )


def _said(verdict: Verdict) -> tuple[Winner | None, Winner | None]:
    return (verdict.orders.first, verdict.orders.second) if verdict.orders else (verdict.winner, None)


def _read(judgments: Sequence[Judgment], shown: tuple[int, ...], winner: Winner | None) -> Mapping[str, Any]:
    """Return the answer of one pass, of several samples one that says what the pass came to."""
    answers = [j.answer for j in judgments if j.answer and j.shown == shown]
    agreeing = [a for a in answers if a.get("result", {}).get("winner") == winner]
    return next(iter([*agreeing, *answers]), {})


def _reasoning(result: Mapping[str, Any], other: Winner | None) -> str:
    """Return the first pass's reasoning: only there do A and B stand in the text for the caller's A and B."""
    return _with_other(result.get("reasoning", ""), result.get("winner"), other)


def _criterion(row: Mapping[str, Any], other: Winner | None) -> CriterionComparison:
    """Return a criterion's row of the first pass; a tie where the second pass found otherwise."""
    return CriterionComparison(
        criterion=row["criterion"],
        winner=row["winner"] if other in (row["winner"], None) else "TIE",
        reasoning=_with_other(row["reasoning"], row["winner"], other),
        a_strength=row["aAssessment"],
        b_strength=row["bAssessment"],
    )


def _with_other(reasoning: str, winner: Winner | None, other: Winner | None) -> str:
    if winner is None or other in (winner, None):
        return reasoning
    return f"{reasoning} [Shown in the other order, the judge's choice was {other}, not {winner}.]".lstrip()


def _scored(
    asked: DirectScoreInput, settings: RunConfig, judgment: Judgment, verdict: Verdict, elapsed: float
) -> DirectScoreResult:
    answer = judgment.answer or {}
    scores = [
        CriterionScore(
            criterion=row["criterion"],
            score=row["score"],
            max_score=settings.rubric.max,
            justification=row["justification"],
            examples=row["examples"],
        )
        for row in answer.get("scores", [])
    ]
    success = verdict.score is not None
    return DirectScoreResult(
        success=success,
        scores=scores,
        overall_score=sum(s.score for s in scores) / len(scores) if success and scores else None,
        weighted_score=verdict.score,
        summary=Summary(**{k: answer.get("summary", {}).get(k, []) for k in Summary.model_fields}),
        metadata=DirectMetadata(
            evaluation_time_ms=elapsed,
            criteria_count=len(asked.criteria),
            rubric_scale=Scale.of(settings.rubric).name(),
        ),
        error=None if success else _why([judgment]),
    )


def _why(judgments: Sequence[Judgment]) -> str:
    reasons = [f"{j.status}: {j.error}" for j in judgments if j.status not in ("ok", "repaired")]
    return "; ".join(reasons) or "the judge gave no answer that could be read"
