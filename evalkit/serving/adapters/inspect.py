"""A judge as a scorer of Inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, stderr
from inspect_ai.scorer import scorer as as_scorer
from inspect_ai.solver import TaskState

from evalkit.serving import Judge
from evalkit.serving.rating import AdaptedJudge, Rating


def scorer(judge: Judge | str | Path, **options: Any) -> Scorer:
    """Return a scorer whose value is the score, 1, 0.5 or 0 for a pair won, tied or
    lost, or 1 for the class chosen.

    The prompt and response are the input and the completion. The target is the reference or, for a
    judge of pairs, the other response; the sample's metadata can name a context, reference or
    checklist. A sample without a verdict is unscored.

    Args:
        judge: A judge, or the folder of one.
        **options: The options of `evalkit.load_judge`.

    Raises:
        ConfigError: If the judge cannot be loaded.
    """
    adapted = AdaptedJudge(judge, **options)
    classes = list(adapted.judge.config.rubric.classes)
    metrics: Any = {"*": [mean(), stderr()]} if classes else [mean(), stderr()]

    def value(rating: Rating) -> Any:
        if classes:
            return {name: float(name == rating.value) for name in classes}
        if isinstance(rating.value, str):
            return rating.share
        return rating.value

    @as_scorer(metrics=metrics, name="judge")
    def evalkit_judge() -> Scorer:
        """Return the scorer, whose name Inspect shows."""

        async def score(state: TaskState, target: Target) -> Score:
            """Score the output of a sample; it remains unscored if the judge gives no verdict."""
            inputs = {**(state.metadata or {}), "prompt": state.input_text}
            rating = await adapted.rate(
                inputs, state.output.completion, target.text or None, state.metadata
            )
            details: dict[str, Any] = {
                "explanation": rating.rationale,
                "metadata": dict(rating.metadata),
            }
            if rating.error is not None:
                return Score.unscored(
                    reason="grader_failed", **details | {"explanation": rating.error}
                )
            return Score(value=value(rating), answer=str(rating.value), **details)

        return score

    return evalkit_judge()
