"""A pydantic-evals data set whose evaluators are judges; prints scores, labels and failures of each case."""

import json
import sys

from pydantic_evals import Case, Dataset

from evalkit.serving.adapters.pydantic_evals import JudgeEvaluator

pairs, scores, classes, api_base, asked, good, bad, down = sys.argv[1:]
options = {"api_base": api_base, "runner": {"retries": 0}}
dataset = Dataset(
    name="answers",
    cases=[
        Case(name=text, inputs={"question": f"{asked} {text}"}, expected_output=other)
        for text, other in zip([bad, good, down], [good, bad, bad], strict=True)
    ],
    evaluators=[
        JudgeEvaluator(pairs, "preferred", options),
        JudgeEvaluator(scores, "grade", options),
    ],
)
report = dataset.evaluate_sync(
    lambda inputs: inputs["question"].removeprefix(f"{asked} "), progress=False
)
rows = {
    case.name: {
        "scores": {name: [one.value, one.reason] for name, one in case.scores.items()},
        "labels": {name: [one.value, one.reason] for name, one in case.labels.items()},
        "failures": {one.name: one.error_message for one in case.evaluator_failures},
    }
    for case in report.cases
}
print("\n" + json.dumps([rows[text] for text in (bad, good, down)]))
