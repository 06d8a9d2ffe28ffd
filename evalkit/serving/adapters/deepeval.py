"""A judge as a metric of DeepEval."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase, SingleTurnParams

from evalkit.core.scale import PASSES
from evalkit.engine.event_loop import run_async
from evalkit.serving import Judge
from evalkit.serving.rating import JUDGE, AdaptedJudge, needed_share


class JudgeMetric(BaseMetric):
    """A judge's verdict from 0 to 1, with its reason; a missing verdict is an error.

    Args:
        judge: A judge, or the folder of one.
        threshold: The lowest score that passes.
        name: The name of the metric.
        passing: The classes that pass, for a judge of classes.
        **options: The options of `evalkit.load_judge`.

    Raises:
        ConfigError: If the judge cannot be loaded.
    """

    def __init__(
        self,
        judge: Judge | str | Path,
        *,
        threshold: float = PASSES,
        name: str = JUDGE,
        passing: Collection[str] = (),
        **options: Any,
    ) -> None:
        self._adapted = AdaptedJudge(judge, passing, **options)
        # DeepEval copies a metric for each test case from the attributes that are named as the
        # arguments.
        self.judge = self._adapted.judge
        self.threshold = threshold
        self.name = name
        self.passing = passing
        self.evaluation_model = self._adapted.label
        self._required_params = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT]

    @property
    def __name__(self) -> str:
        return self.name

    def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """Judge a test case; its expected output is the reference or, for a judge of
        pairs, the other response.

        Raises:
            EvalkitError: If there is no verdict.
        """
        return run_async(self.a_measure(test_case))

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """Judge a test case as `measure` does, and return its score from 0 to 1.

        The score, the reason and the error are also set as attributes. Other arguments of
        DeepEval have no meaning here.
        """
        self.score = self.reason = self.error = self.success = None
        inputs = {"prompt": test_case.input, "context": test_case.context}
        rating = await self._adapted.rate(
            inputs,
            test_case.actual_output,
            test_case.expected_output,
            getattr(test_case, "additional_metadata", None),
        )
        self.error = rating.error
        self.reason = rating.rationale
        self.score_breakdown = dict(rating.metadata)
        self.score = needed_share(rating)
        self.is_successful()
        return self.score
