"""The embedded judge: processor time of a call of the default run, with and without its
settings that save time.

uv run python benchmarks/embedded.py
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from evalkit import load_config
from evalkit.core.values import JsonObject
from evalkit.datasets.load import load_cases
from evalkit.evaluators.factory import make_evaluator
from evalkit.judges.smollm2_transport import SmolLM2

LIMIT = 0.40
"""The largest share of the earlier time."""
BEFORE = {
    "instructions_first": False,
    "answer_fields": [
        *("scores", "comparison", "ranking", "result", "criterion", "response"),
        *("justification", "reasoning", "winner", "score", "rank", "confidence"),
    ],
}


def requests() -> Iterator[JsonObject]:
    """Yield one order of each pair of the default run."""
    config = load_config()
    evaluator = make_evaluator(config)
    for case in load_cases(config.dataset, mode=config.mode.name).cases:
        request = evaluator.plan(case)[0]
        assert request.answer is not None
        schema = {"name": request.answer.name, "schema": request.answer.schema}
        yield {
            "messages": list(request.messages),
            "temperature": config.judge.temperature,
            "max_tokens": config.judge.max_tokens,
            "response_format": {"type": "json_schema", "json_schema": schema},
            **config.judge.params,
        }


def main() -> int:
    ways = {"before": BEFORE, "now": {}}
    seconds = dict.fromkeys(ways, 0.0)
    read = dict.fromkeys(ways, 0)
    written = dict.fromkeys(ways, 0)
    # One model for each way: each has its own system message, which is read once in a run.
    models = {way: SmolLM2() for way in ways}
    calls = list(requests())
    for number, call in enumerate(calls):
        for way, changes in ways.items():
            started = time.process_time()
            answer = models[way].answer({**call, **changes})
            taken = time.process_time() - started
            # The first call loads the model.
            if number:
                seconds[way] += taken
                read[way] += answer["timings"]["prompt_n"]
                written[way] += answer["timings"]["predicted_n"]
    count = len(calls) - 1
    for way in ways:
        print(
            f"{way:<8}{seconds[way] / count:6.2f} s a call, {read[way] / count:5.0f} tokens read,"
            f" {written[way] / count:4.0f} written"
        )
    share = seconds["now"] / seconds["before"]
    print(f"share   {share:6.2f} (at most {LIMIT:g})")
    return int(share > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
