"""Figures that benchmarks were published with, from the judgments that were published beside them."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest

pytestmark = pytest.mark.shared

ZERO_TO_THREE = {"min": 0, "max": 3, "step": 0.001}
LLMBAR = [
    ("Natural", "GPT-4", "Vanilla", 95.5, 95, 0),
    ("Natural", "ChatGPT", "CoT", 74.0, 64, 1),
    ("Natural", "PaLM2", "Vanilla", 83.0, 80, 4),
    ("Adversarial/GPTInst", "GPT-4", "CoT", 83.2, 83, 0),
    ("Adversarial/GPTInst", "ChatGPT", "Vanilla", 26.6, 57, 0),
]
TOPICAL_CHAT = {
    "naturalness": (0.443666, 0.513986, 0.373973),
    "coherence": (0.595143, 0.612942, 0.465915),
    "engagingness": (0.556510, 0.604739, 0.455941),
    "groundedness": (0.536209, 0.574954, 0.451533),
    "understandability": (0.380038, 0.467807, 0.360741),
    "overall": (0.632796, 0.662583, 0.487272),
}
HALLUQA = {
    "gpt-4-0613": (76.00, 57.97, 32.04, 53.11),
    "ernie_bot": (70.86, 46.38, 75.73, 69.33),
    "qwen-14b-chat": (75.43, 23.19, 30.58, 46.89),
    "chatglm-6b": (52.57, 20.29, 15.05, 30.44),
}


@pytest.mark.parametrize(("subset", "model", "strategy", "mean", "agree", "lost"), LLMBAR)
def test_llmbar(shared, measure, subset, model, strategy, mean, agree, lost):
    folder = shared / "data" / "llmbar" / subset
    pattern = re.compile(r"Output \(([ab])\)" + (r" is better" if strategy == "CoT" else ""))
    judged = {}
    answers = json.loads((folder / "evaluators" / model / strategy / "result.json").read_text())
    for number, answer in enumerate(answers, 1):
        margins = []
        for swapped in (False, True):
            found = pattern.findall(answer["results"][-1][f"swap = {swapped}"]["completion"][0])
            margins.append((1.0 if (found[-1] == "a") != swapped else -1.0) if found else None)
        judged[f"{folder.name.lower()}/{number}"] = tuple(margins)
    found = measure("llmbar", judged, path=folder / "dataset.json")
    accuracy, agreement = found["mean_accuracy"], found["agreement_rate"]
    assert round(100 * accuracy.worst_low, 1) == mean
    assert accuracy.missing == lost
    assert agreement.worst_low - 1e-9 <= agree / len(answers) <= agreement.worst_high + 1e-9
    if not lost:
        assert round(100 * accuracy.value, 1) == mean
        assert agreement.value == pytest.approx(agree / len(answers))


def test_topical_chat(shared, measure):
    path = shared / "data" / "unieval_topical_chat" / "topical_chat_result.json"
    groups = defaultdict(list)
    for row in json.loads(path.read_text()):
        groups[row["source"], row["context"]].append(row["predict_scores"])
    names = list(TOPICAL_CHAT)[:-1]
    judged = {str(k): [{d: row[d] for d in names} for row in rows] for k, rows in enumerate(groups.values(), 1)}
    criteria = [{"name": name} for name in names]
    found = measure("topical_chat", judged, "pointwise", path=path, criteria=criteria, rubric=ZERO_TO_THREE)
    for name, published in TOPICAL_CHAT.items():
        said = [found[f"{name}/{coefficient}"] for coefficient in ("pearson", "spearman", "kendall")]
        assert [round(metric.value, 6) for metric in said] == list(published)
        assert {(metric.n, metric.missing) for metric in said} == {(360, 0)}
        assert all(metric.low < metric.value < metric.high for metric in said)


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


def test_prometheus_grades_are_means_of_three_runs(shared, measure):
    path = shared / "data" / "prometheus_vicuna" / "vicuna_eval.json"
    groups = defaultdict(list)
    for row in json.loads(path.read_text()):
        task = re.split(r"###Response to evaluate:|###Reference Answer", row["instruction"])
        groups[task[0], task[2]].append(row["gpt4_score"][0])
    judged = {str(number): scores for number, scores in enumerate(groups.values(), 1)}
    found = measure("prometheus", judged, "pointwise", path=path)
    assert found["pearson"].n == 320
    assert 0.9 < found["pearson"].value < 1  # one of the three runs against the mean of all
