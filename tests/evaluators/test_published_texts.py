"""Texts that real judges wrote, read again: the same verdict every time."""

import json
from collections import Counter

import pytest

from evalkit.config import Criterion, JudgeConfig, OutputConfig, RunConfig
from evalkit.core.types import Case, Completion, Judgment, Response
from evalkit.evaluators.pairwise import Pairwise
from evalkit.evaluators.prompting import Prompts

pytestmark = pytest.mark.shared

ROWS = {"Natural": 100, "Adversarial/GPTInst": 92}
UNREADABLE = {"ChatGPT/CoT": 1}
STRATEGIES = ["Vanilla", "Vanilla_NoRules", "CoT"]


def evaluator(pattern: str, **table: str) -> Pairwise:
    output = OutputConfig.model_validate({"format": "regex", "pattern": pattern, "map": table})
    config = RunConfig(
        judge=JudgeConfig(model="a/b"), criteria={"overall": Criterion()}, output=output
    )
    return Pairwise(config, Prompts("en"))


def read(judge: Pairwise, case: Case, texts: tuple[str, str]) -> list[Judgment]:
    asked = zip(judge.plan(case), texts, strict=True)
    judgments = [judge.read(request, Completion(text)) for request, text in asked]
    assert all(isinstance(one, Judgment) for one in judgments)
    return [one for one in judgments if isinstance(one, Judgment)]


@pytest.mark.parametrize("subset", ROWS)
@pytest.mark.parametrize("model", ["GPT-4", "ChatGPT"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_llmbar(shared, subset, model, strategy):
    pattern = r"Output \((?P<winner>[ab])\)" + (" is better" if strategy == "CoT" else "")
    judge = evaluator(pattern, a="A", b="B")
    path = shared / "data/llmbar" / subset / "evaluators" / model / strategy / "result.json"
    rows = json.loads(path.read_text("utf-8"))
    stored: list[float | None] = []
    reread: list[float | None] = []
    for number, row in enumerate(rows):
        last = row["results"][-1]
        passes = last["swap = False"], last["swap = True"]
        case = Case(
            str(number), row["input"], (Response(row["output_1"]), Response(row["output_2"]))
        )
        stored += [{"1": 1.0, "2": -1.0, None: None}[one["winner"]] for one in passes]
        reread += [
            one.value
            for one in read(judge, case, (passes[0]["completion"][0], passes[1]["completion"][0]))
        ]
    assert reread == stored
    assert len(reread) == 2 * ROWS[subset]
    assert reread.count(None) == UNREADABLE.get(f"{model}/{strategy}", 0)


def test_qlora(shared):
    judge = evaluator(r"(?m)^\s*(?P<winner>[123])\s*\Z", **{"1": "A", "2": "B", "3": "TIE"})
    request = judge.plan(Case("c", "q", (Response("a"), Response("b"))))[0]
    counts: Counter[int] = Counter()
    for path in sorted((shared / "data/qlora_vicuna/pairwise").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            judgment = judge.read(request, Completion(row["text"]))
            assert isinstance(judgment, Judgment)
            assert judgment.value == {1: 1.0, 2: -1.0, 3: 0.0, -1: None}[row["score"]]
            assert judgment.status == ("unparseable" if row["score"] == -1 else "ok")
            counts[row["score"]] += 1
    assert counts == {1: 2512, 2: 1355, 3: 600, -1: 13}
