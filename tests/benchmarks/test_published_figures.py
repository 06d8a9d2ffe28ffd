"""Figures that benchmarks were published with, from the judgments that were published beside them."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

pytestmark = pytest.mark.shared

HALLUQA = {
    "gpt-4-0613": (76.00, 57.97, 32.04, 53.11),
    "ernie_bot": (70.86, 46.38, 75.73, 69.33),
    "qwen-14b-chat": (75.43, 23.19, 30.58, 46.89),
    "chatglm-6b": (52.57, 20.29, 15.05, 30.44),
}


def test_halluqa(shared, measure):
    folder = shared / "data" / "halluqa"
    verdicts = defaultdict(list)
    for path in sorted(folder.glob("*_output*.json")):
        for row in json.loads(path.read_text()):
            said = row["is_hallucination"]
            verdicts[str(row["question_id"])].append(float(not said) if isinstance(said, bool) else None)
    found = measure("halluqa", dict(verdicts), "pointwise", path=folder, rubric={"min": 0, "max": 1})
    for model, published in HALLUQA.items():
        name = f"non_hallucination_rate_strict/{model}"
        kinds = ("/misleading", "/misleading_hard", "/knowledge", "")
        assert tuple(round(100 * found[name + kind].value, 2) for kind in kinds) == published
        loose = found[f"non_hallucination_rate/{model}"]
        assert loose.worst_low == pytest.approx(found[name].value)
        assert loose.missing == (4 if model == "ernie_bot" else 0)
