"""A judge as an evaluator of pydantic-evals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from evalkit.core.errors import EvalkitError
from evalkit.serving.rating import JUDGE, AdaptedJudge


@dataclass
class JudgeEvaluator(Evaluator):
    """A judge's verdict with its reason: a score, or a label for a winner or class; a
    missing verdict is a failure.

    The expected output is the reference or, for a judge of pairs, the other response.

    Attributes:
        judge: The folder of the judge.
        name: The name of the result.
        options: The options of `evalkit.load_judge`.

    Raises:
        ConfigError: If the judge cannot be loaded.
    """

    judge: str
    name: str = JUDGE
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._adapted = AdaptedJudge(self.judge, **self.options)

    def get_default_evaluation_name(self) -> str:
        """Return the name of the result."""
        return self.name

    async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> EvaluationReason:
        """Judge the output of a task.

        Raises:
            EvalkitError: If there is no verdict.
        """
        metadata = ctx.metadata if isinstance(ctx.metadata, Mapping) else None
        rating = await self._adapted.rate(
            ctx.inputs, ctx.output, ctx.expected_output, metadata
        )
        if rating.value is None:
            raise EvalkitError(str(rating.error))
        return EvaluationReason(rating.value, rating.rationale)
