import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalkit.config import RunConfig
from evalkit.core.types import Case, Completion, Judgment, Metric, Orders, Response, Usage, Verdict
from evalkit.runs.results import Calls, RunResult

ANSWER = {
    "comparison": [{"criterion": "accuracy", "reasoning": "Four is right."}],
    "result": {"winner": "A", "confidence": 0.8, "reasoning": "The first adds up."},
}
CONFIG = RunConfig(
    judge={
        "model": "openai/m",
        "temperature": 0.0,
        "api_base": "http://127.0.0.1:1/v1",
        "max_tokens": None,
    },
    criteria={"accuracy": {"weight": 1.0}},
    swap={"policy": "both"},
    rubric={"levels": {}},
    objective=("tie_rate", "cost_usd"),
)
FILES = (
    *("config.yaml", "manifest.json", "judgments.jsonl", "verdicts.jsonl", "metrics.json"),
    "report.html",
)

PROMPTS = {
    "en/pairwise.md.j2": "Which is better?\n{{ response_a }}\n{% if tie %}Or neither?{% endif %}"
}


def _judgment(case: int, shown: tuple[int, int], value: float | None) -> Judgment:
    read = value is not None
    return Judgment(
        case_id=f"c{case}",
        unit=(0, 1),
        shown=shown,
        sample=0,
        judge="m",
        status="ok" if read else "unparseable",
        value=value,
        confidence=0.8 if read else None,
        criteria={"accuracy": value} if value is not None else {},
        answer=ANSWER if read else None,
        read_by="json" if read else None,
        error=None if read else "no JSON object in the text",
        keys=(f"k{case}",),
        completion=Completion(
            text="{}" if read else "Hm.", model="m-1", usage=Usage(100, 20), latency=0.5
        ),
    )


def _verdict(case: int, passes: tuple[float | None, float | None]) -> Verdict:
    said = ["A" if p == 1 else "B" if p == -1 else None for p in passes]
    flipped = None if None in said else said[0] != said[1]
    winner = None if None in said else "TIE" if flipped else said[0]
    reason = "missing" if winner is None else "swap_disagreement" if flipped else "judged"
    orders = Orders(said[0], said[1], None if flipped is None else not flipped)
    margin = None if winner is None else 0.0 if flipped else passes[0]
    return Verdict(
        f"c{case}",
        (0, 1),
        winner,
        None,
        reason,
        margin,
        0.8,
        "B" if case % 4 == 3 else "A",
        {},
        orders,
        "m",
    )


def build(
    folder: Path,
    *,
    cases: int = 8,
    run_id: str = "run-1",
    prompts: Mapping[str, str] = PROMPTS,
    **manifest: Any,
) -> RunResult:
    """Cases go plain, missing, flipped, mislabelled, and again."""
    passes = [((1, 1), (None, 1), (1, -1), (1, 1))[i % 4] for i in range(cases)]
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_text(f"{name}\n", encoding="utf-8")
    (folder / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")
    texts = (Response("2 + 2 = 4.", "x"), Response("五。", "y"))
    return RunResult(
        folder=str(folder),
        config=CONFIG,
        manifest={
            "run_id": run_id,
            "evalkit": "0.1.0",
            "git_commit": "c0ffee",
            "config_hash": "0123456789abcdef" * 4,
            "prompt_hash": "fe" * 32,
            "prompt_hashes": {
                name: hashlib.sha256(text.encode()).hexdigest() for name, text in prompts.items()
            },
            "dataset": {
                "source": "data/sums.jsonl",
                "fingerprint": "ab" * 32,
                "rows": cases,
                "name": "sums",
            },
            "mode": "pairwise",
            "judge": "m",
            "started": "2026-11-20T10:00:00+00:00",
            "ended": "2026-11-20T10:00:30+00:00",
            "sweep": None,
            "notes": [],
        }
        | manifest,
        cases=tuple(Case(f"c{i}", "What is 2 + 2?", texts, label="A") for i in range(cases)),
        judgments=tuple(
            _judgment(i, shown, value)
            for i, both in enumerate(passes)
            for shown, value in zip(((0, 1), (1, 0)), both, strict=True)
        ),
        verdicts=tuple(_verdict(i, both) for i, both in enumerate(passes)),
        metrics={
            "agreement/accuracy": Metric("agreement/accuracy", 0.75, 0.5, 0.9, cases),
            "position/consistency": Metric("position/consistency", 0.5, None, None, cases),
            "agreement/kappa": Metric("agreement/kappa", None, n=0, note="no labels"),
        },
        calls=Calls(planned=2 * cases, sent=2 * cases),
        tokens={"prompt": 200 * cases, "completion": 40 * cases},
        cost_usd=0.25,
    )


@pytest.fixture
def make_result():
    return build


@pytest.fixture
def store(mlflow_store):
    """The URI of an empty store of its own."""
    return mlflow_store
