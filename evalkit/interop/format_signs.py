"""Which keys a file of each format has: only importers of formats that are possible are imported.

A sign is necessary, not enough: the importer's `sniff` decides. Folders have no signs, so all
importers look at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from evalkit.core.values import frozen
from evalkit.interop.layouts.judgment_files import Peek


@frozen
class Signs:
    """What a file of a format has at least one of.

    Attributes:
        keys: Keys of the first row or of the object.
        parts: Parts of such a key.
        suffix: The end of the file's name.
    """

    keys: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    suffix: str = ""

    def on(self, start: Peek) -> bool:
        """Return whether a file, or any folder, may be in the format."""
        if start.path.is_dir() or start.names:
            return True
        if self.suffix and start.path.suffix == self.suffix:
            return True
        names = [*start.row, *start.top]
        if not self.keys.isdisjoint(names):
            return True
        return any(part in str(name) for part in self.parts for name in names)


def _keys(*keys: str) -> Signs:
    return Signs(frozenset(keys))


NO_IMPORTER: Final = Signs()
BENCHMARK_SIGNS: Final[Mapping[str, Signs]] = {
    **dict.fromkeys(("auto_j", "faireval", "healthbench", "helpsteer"), NO_IMPORTER),
    **dict.fromkeys(("pandalm", "shared", "shp"), NO_IMPORTER),
    "alpaca_eval": _keys("output_1"),
    "arena_hard": _keys("games"),
    "devai": _keys("requirements"),
    "halluqa": _keys("is_hallucination"),
    "judgebench": _keys("response_A"),
    "llmbar": _keys("output_1"),
    "mt_bench": _keys("g1_winner", "judge", "judgment"),
    "paperbench": _keys("sub_tasks"),
    "prometheus": _keys("instruction"),
    "reward_bench": _keys("results", "scores_chosen"),
    "unieval": _keys("predict_scores"),
    "wildbench": _keys("model_test"),
}
"""The signs of modules of `evalkit.benchmarks`; those without are always imported."""

TOOL_SIGNS: Final[Mapping[str, Signs]] = {
    "anthropic_batch": _keys("custom_id"),
    "argilla": Signs(
        frozenset({"fields", "annotation_agent"}), (".responses", "-suggestion")
    ),
    "bedrock": _keys(
        *("automatedEvaluationResult", "humanEvaluationResult", "conversationTurns"),
        *("humanAnswers",),
    ),
    "bedrock_batch": _keys("recordId"),
    "braintrust": _keys("scores"),
    "deepeval": _keys(
        *("metricsData", "metrics_data", "testRunData", "testCases", "test_cases"),
        *("conversationalTestCases", "conversational_test_cases"),
        *("testResults", "test_results"),
    ),
    "gemini_batch": _keys("response"),
    "helm": _keys("request_states", "annotations"),
    "helpsteer2": _keys("helpfulness"),
    "helpsteer3": _keys("overall_preference", "preference_strength"),
    "icescore": Signs(parts=("grade-",)),
    "inspect": Signs(frozenset({"eval"}), suffix=".eval"),
    "inspect_frames": _keys("sample_id"),
    "judge_bench": _keys("instance"),
    "label_studio": _keys("data", "annotator"),
    "langfuse": _keys("scores", "source", "trace", "evaluations"),
    "langsmith": _keys("run_id", "evaluation_results", "feedback_stats", "run_type"),
    "llm_rubric": _keys("text_id"),
    "lm_eval": _keys("filtered_resps"),
    "lmarena": _keys("conversation_a"),
    "mlflow_traces": _keys("info", "assessments"),
    "oasst": _keys("message_tree_id", "message_id"),
    "openai_batch": _keys("custom_id"),
    "openai_evals": _keys("datasource_item", "spec", "event_id"),
    "openevals": _keys("outputs"),
    "opik": _keys("feedback_scores", "feedbackScores", "score_results"),
    "otel_spans": _keys("resourceSpans"),
    "phoenix": Signs(
        frozenset({"annotations"}), ("annotator_kind", "_execution_details")
    ),
    "preferences": _keys("chosen"),
    "prodigy": _keys("_task_hash", "_input_hash", "accept"),
    "published_pairs": _keys(
        *("human_ref_A", "answer_0", "summaries", "num_correct"),
        "better_response_id",
    ),
    "prm800k": _keys("labeler", "is_quality_control_question"),
    "promptfoo": _keys("results", "gradingResult"),
    "pydantic_evals": _keys("cases"),
    "qlora": _keys("review_id"),
    "ranked_answers": _keys(
        *("answers", "responses", "completions", "candidates", "outputs")
    ),
    "score_columns": Signs(parts=(".", "/", "_calls")),
    "ultrafeedback": _keys("completions"),
    "vertex": _keys("eval_case_results"),
    "weave": _keys("op_name"),
}
"""The signs of each module of `evalkit.interop.importers`, whose name is that of its format.

A module without signs is always imported.
"""
