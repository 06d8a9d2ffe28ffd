"""A judge as a scorer of `mlflow.genai.evaluate`, and as a model of its registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.scorers import Scorer
from mlflow.genai.scorers import scorer as as_scorer

from evalkit.serving import Judge
from evalkit.serving.rating import JUDGE, SHARES, AdaptedJudge


def scorer(
    judge: Judge | str | Path,
    *,
    name: str = JUDGE,
    passing: Collection[str] = (),
    **options: Any,
) -> Scorer:
    """Return a scorer whose feedback is the verdict, with its rationale and what is
    known about the judge.

    The prompt, response and reference are the inputs, outputs and expectations of a row, or those
    of its trace (of several expectations, `expected_response`). A missing verdict is feedback with
    an error.

    MLflow has no mean of winners. So a judge of pairs has a second feedback, `NAME_wins`: 1 if the
    output wins, 0.5 for a tie, and 0 if it loses. Its mean is in `result.metrics`.

    Args:
        judge: A judge, or the folder of one.
        name: The name of the feedback.
        passing: Not used by MLflow, which shows classes by name.
        **options: The options of `evalkit.load_judge`.

    Raises:
        ConfigError: If the judge cannot be loaded.
    """
    adapted = AdaptedJudge(judge, passing, **options)
    source = AssessmentSource("LLM_JUDGE", adapted.label)

    def rate(
        inputs: Any = None,
        outputs: Any = None,
        expectations: Mapping[str, Any] | None = None,
    ) -> list[Feedback]:
        """Return the verdict as feedback, and of a comparison the share that A wins."""
        expected = (expectations or {}).get("expected_response", expectations or None)
        columns = inputs if isinstance(inputs, Mapping) else None
        rating = adapted.rate_sync(inputs, outputs, expected, columns)
        verdict = Feedback(
            name=name,
            value=rating.value,
            error=rating.error,
            source=source,
            rationale=rating.rationale,
            metadata=dict(rating.metadata),
        )
        if rating.value not in SHARES:
            return [verdict]
        wins = Feedback(name=f"{name}_wins", value=rating.share, source=source)
        return [verdict, wins]

    return as_scorer(rate, name=name)


class JudgeModel:
    """A registered judge as MLflow loads it: `mlflow.pyfunc.load_model("models:/NAME@champion")`.

    Args:
        folder: The folder of the judge.
    """

    def __init__(self, folder: str) -> None:
        self._adapted = AdaptedJudge(folder)

    def predict(self, model_input: Any) -> list[dict[str, Any]]:
        """Judge rows, and return for each its `value`, `rationale` and `error`.

        Args:
            model_input: A data frame or rows with `inputs` and `outputs`, and perhaps
                `expectations`, as `mlflow.genai.evaluate` takes them.
        """
        rows = (
            model_input.to_dict("records")
            if hasattr(model_input, "to_dict")
            else model_input
        )
        ratings = [
            self._adapted.rate_sync(
                row["inputs"], row["outputs"], row.get("expectations")
            )
            for row in rows
        ]
        return [
            {
                "value": rating.value,
                "rationale": rating.rationale,
                "error": rating.error,
            }
            for rating in ratings
        ]


def _load_pyfunc(data_path: str) -> JudgeModel:
    """Return the judge in a folder: MLflow calls this by name."""
    return JudgeModel(data_path)
