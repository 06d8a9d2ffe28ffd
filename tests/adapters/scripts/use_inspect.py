"""An Inspect task whose scorers are judges; prints the scores of each sample, and the metrics."""

import json
import sys

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model

from evalkit.serving.adapters.inspect import scorer

pairs, scores, classes, api_base, asked, good, bad, down = sys.argv[1:]
options = {"api_base": api_base, "runner": {"retries": 0}}
answers = [bad, good, down]
model = get_model(
    "mockllm/model",
    custom_outputs=[ModelOutput.from_content("mockllm/model", text) for text in answers],
)
rows = zip(answers, [good, bad, bad], strict=True)
samples = [Sample(input=f"{asked} {text}", target=target) for text, target in rows]
task = Task(
    dataset=samples, scorer=[scorer(folder, **options) for folder in (pairs, scores, classes)]
)
(log,) = inspect_ai.eval(
    task, model=model, max_samples=1, display="none", log_dir="logs", log_format="json"
)
scored = [
    {
        name: [str(score.value), score.reason, score.explanation, score.metadata]
        for name, score in sample.scores.items()
    }
    for sample in sorted(log.samples, key=lambda sample: sample.id)
]
metrics = {
    f"{score.name}/{name}": [metric.value, score.scored_samples, score.unscored_samples]
    for score in log.results.scores
    for name, metric in score.metrics.items()
}
print(json.dumps({"status": log.status, "rows": scored, "metrics": metrics}))
