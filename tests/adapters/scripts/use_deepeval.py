"""A DeepEval evaluation whose metrics are judges; prints the score and the error of each."""

import json
import sys

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.test_case import LLMTestCase

from evalkit.serving.adapters.deepeval import JudgeMetric

pairs, scores, classes, api_base, asked, good, bad, down = sys.argv[1:]
options = {"api_base": api_base, "runner": {"retries": 0}}
metrics = [
    JudgeMetric(pairs, name="preferred", **options),
    JudgeMetric(scores, name="grade", threshold=0.7, **options),
    JudgeMetric(classes, name="class", passing=["good"], **options),
    JudgeMetric(classes, name="no number", **options),
]
cases = [
    LLMTestCase(input=f"{asked} {text}", actual_output=text, expected_output=other)
    for text, other in zip([bad, good, down], [good, bad, bad], strict=True)
]
result = evaluate(
    cases,
    metrics,
    async_config=AsyncConfig(run_async=True),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False),
    error_config=ErrorConfig(ignore_errors=True),
)
rows = {
    one.input.removeprefix(f"{asked} "): {
        data.name: [data.score, data.success, data.error, data.reason] for data in one.metrics_data
    }
    for one in result.test_results
}
measured = metrics[0].measure(cases[1]), metrics[0].is_successful()
print("\n" + json.dumps({"rows": [rows[text] for text in (bad, good, down)], "measured": measured}))
