"""A judge in `mlflow.genai.evaluate`, with rows and with traces."""

import warnings
from typing import Any

import pandas as pd
import pytest

from tests.adapters.conftest import ASKED, BAD, DOWN, GOOD

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def mlflow(mlflow_store, monkeypatch):
    for name in ("MLFLOW_DISABLE_TELEMETRY", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"):
        monkeypatch.setenv(name, "true" if "DISABLE" in name else "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow

        mlflow.set_tracking_uri(mlflow_store)
        mlflow.set_experiment("app")
        yield mlflow


def feedback(mlflow: Any, result: Any, name: str) -> list[Any]:
    """Return the feedback on each trace in the store, in the order of the answers."""
    traces = mlflow.search_traces(run_id=result.run_id, return_type="list")
    traces.sort(key=lambda trace: str(trace.data.response))
    return [one for trace in traces for one in trace.info.assessments if one.name == name]


def test_rows(mlflow, judges):
    from evalkit.serving.adapters.mlflow import scorer

    rows = pd.DataFrame(
        {
            "inputs": [{"question": ASKED}] * 3,
            "outputs": [BAD, GOOD, DOWN],
            "expectations": [{"response_b": GOOD}, {"response_b": BAD}, {"response_b": BAD}],
        }
    )
    options = {"api_base": judges.api_base, "runner": {"retries": 0}}
    result = mlflow.genai.evaluate(
        data=rows,
        scorers=[
            scorer(judges.pairs, name="preferred", **options),
            scorer(judges.scores, name="grade", **options),
        ],
    )
    worse, better, missing = feedback(mlflow, result, "preferred")
    assert (worse.value, better.value, missing.value) == ("B", "A", None)
    assert "down" in missing.feedback.error.error_message
    assert better.source.source_type == "LLM_JUDGE"
    assert better.rationale
    assert better.metadata["evalkit.use"] in (
        *("single", "rates", "rates_corrected", "unknown", "none"),
    )
    assert better.metadata["evalkit.trust"]
    low, high, none = feedback(mlflow, result, "grade")
    assert (low.value, high.value, none.value) == (2, 4, None)
    # MLflow has no mean of winners; the missing verdict counts as nothing here, too.
    assert result.metrics["preferred_wins/mean"] == 0.5
    assert result.metrics["grade/mean"] == 3  # the missing verdict is not counted as 0


def test_traces(mlflow, judges):
    from evalkit.serving.adapters.mlflow import scorer

    @mlflow.trace
    def app(question: str) -> str:
        return GOOD if question == ASKED else BAD

    for question in (ASKED, "And for the knees?"):
        app(question)
    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces()
    grade = scorer(judges.classes, api_base=judges.api_base)
    result = mlflow.genai.evaluate(data=traces, scorers=[grade])
    assert [one.value for one in feedback(mlflow, result, "judge")] == ["bad", "good"]
