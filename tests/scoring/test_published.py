"""Figures that others published, from the texts and scores they published."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Response

pytestmark = pytest.mark.shared

LLMBAR = [
    ("Natural", "GPT-4", "Vanilla_NoRules", 92, 95, 92, 97, 0),
    ("Natural", "GPT-4", "Vanilla", 95, 96, 93, 95, 0),
    ("Natural", "GPT-4", "CoT", 94, 95, 90, 91, 0),
    ("Natural", "ChatGPT", "Vanilla_NoRules", 79, 79, 63, 68, 0),
    ("Natural", "ChatGPT", "CoT", 70, 78, 56, 64, 1),
    ("Adversarial/GPTInst", "GPT-4", "Vanilla_NoRules", 71, 70, 66, 83, 0),
    ("Adversarial/GPTInst", "GPT-4", "Vanilla", 78, 81, 77, 87, 0),
    ("Adversarial/GPTInst", "GPT-4", "CoT", 75, 78, 72, 83, 0),
    ("Adversarial/GPTInst", "ChatGPT", "Vanilla", 25, 24, 7, 57, 0),
    ("Adversarial/GPTInst", "ChatGPT", "CoT", 28, 26, 8, 54, 1),
    ("Natural", "PaLM2", "Vanilla", 78, 88, 73, 80, 4),
]


def llmbar(folder: Path, model: str, strategy: str) -> tuple[list[Case], list[Judgment]]:
    rows = json.loads((folder / "dataset.json").read_text())
    answers = json.loads((folder / "evaluators" / model / strategy / "result.json").read_text())
    pattern = re.compile(r"Output \((?P<winner>[ab])\)" + (r" is better" if strategy == "CoT" else ""))
    cases, judgments = [], []
    for number, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        texts = (Response(row["output_1"]), Response(row["output_2"]))
        cases.append(Case(str(number), row["input"], texts, label="AB"[row["label"] - 1]))
        for swapped in (False, True):
            found = pattern.findall(answer["results"][-1][f"swap = {swapped}"]["completion"][0])
            value = (1.0 if (found[-1] == "a") != swapped else -1.0) if found else None
            shown = (1, 0) if swapped else (0, 1)
            status = "ok" if found else "unparseable"
            judgments.append(Judgment(str(number), (0, 1), shown, 0, model, status, value))
    return cases, judgments


@pytest.mark.parametrize(("subset", "model", "strategy", "first", "second", "both", "agree", "lost"), LLMBAR)
def test_llmbar(shared, configure, subset, model, strategy, first, second, both, agree, lost):
    cases, judgments = llmbar(shared / "data" / "llmbar" / subset, model, strategy)
    metrics = score_run(configure(), cases, judgments).metrics
    n = len(cases)
    per_order = metrics["agreement/accuracy_per_order"]
    both_orders = metrics["agreement/accuracy_both_orders"]
    consistency = metrics["position/consistency"]
    assert per_order.worst_low == pytest.approx((first + second) / 2 / n, abs=1e-9)
    assert per_order.missing == lost
    assert metrics["missing/unparseable"].value == pytest.approx(lost / (2 * n))
    assert both_orders.worst_low == pytest.approx(both / n, abs=1e-9)
    assert consistency.worst_low - 1e-9 <= agree / n <= consistency.worst_high + 1e-9
    assert both_orders.value * both_orders.n == pytest.approx(both)
    if not lost:
        assert per_order.value == pytest.approx((first + second) / 2 / n, abs=1e-9)
        assert consistency.value == pytest.approx(agree / n, abs=1e-9)
        assert consistency.n == n
    if model == "PaLM2":
        assert consistency.value * consistency.n == pytest.approx(78)


VERDICTS = {1: 1.0, 2: -1.0, 3: 0.0}


def qlora(folder: Path) -> tuple[list[Case], list[Judgment]]:
    """Return 80 prompts with eight systems' answers, by system name, and every verdict, keyed on its answers' ids."""
    names = sorted(path.stem for path in (folder / "generations").glob("*.jsonl"))
    rows = []
    for path in sorted((folder / "pairwise").glob("*.jsonl")):
        sides = path.name.removesuffix("-gpt-4-reviewer-threeclass.jsonl").split("-vs-")
        places = [names.index(re.sub("^answer-", "answer_", side)) for side in sides]
        rows += [(places, json.loads(line)) for line in path.read_text().splitlines()]
    system = {row[f"answer{k + 1}_id"]: places[k] for places, row in rows for k in (0, 1)}
    judgments = []
    for _, row in rows:
        shown = system[row["answer1_id"]], system[row["answer2_id"]]
        value = VERDICTS.get(row["score"])
        if value is not None and shown[0] > shown[1]:
            value = -value
        unit = (min(shown), max(shown))
        status = "ok" if value is not None else "unparseable"
        judgments.append(Judgment(str(row["question_id"]), unit, shown, 0, "gpt-4", status, value))
    cases = [Case(str(number), "", tuple(Response("", name) for name in names)) for number in range(1, 81)]
    return cases, judgments


def read_in_full(cases: list[Case], judgments: list[Judgment]) -> tuple[list[Case], list[Judgment]]:
    broken = {judgment.case_id for judgment in judgments if judgment.value is None}
    return [c for c in cases if c.id not in broken], [j for j in judgments if j.case_id not in broken]


def test_qlora_orders(shared, configure):
    cases, judgments = qlora(shared / "data" / "qlora_vicuna")
    metrics = score_run(configure(), cases, judgments).metrics
    assert len(judgments) == 4480
    assert metrics["missing/unparseable"].value == pytest.approx(13 / 4480)
    assert round(metrics["position/consistency"].value, 4) == 0.6138
    first = metrics["position/first_rate"]
    assert first.value * first.n == pytest.approx(2512)
    assert first.n == 2512 + 1355
    assert first.missing == 13
    assert 0.6 < first.low < first.value < first.high < 0.7


@pytest.mark.parametrize(
    ("swap", "edges", "cycles", "triads"),
    [
        ({"resolve": "net_vote"}, "verdict", 3, 4),
        ({"resolve": "mean"}, "verdict", 3, 4),
        ({"resolve": "tie"}, "verdict", 1, 1),
        ({"policy": "none"}, "verdict", 26, 67),
        ({"resolve": "tie"}, "net", 3, 4),
        ({"resolve": "net_vote"}, "both", 1, 1),
        ({"resolve": "net_vote"}, "single", 26, 67),
        ({"resolve": "net_vote"}, "ties", 69, None),
    ],
)
def test_qlora_conflicts(shared, configure, swap, edges, cycles, triads):
    cases, judgments = read_in_full(*qlora(shared / "data" / "qlora_vicuna"))
    scores = score_run(configure(swap=swap, scoring={"conflict_edges": edges}), cases, judgments)
    rate = scores.metrics["conflict/rate"]
    assert rate.n == 69
    assert rate.value * 69 == pytest.approx(cycles)
    assert scores.metrics["conflict/ratio"].value == pytest.approx(
        rate.value / scores.metrics["conflict/chance_rate"].value
    )
    if triads is None:
        return
    assert scores.metrics["conflict/triads"].value == triads
    listed = scores.details["conflicts"]["cases"]
    assert len(listed) == cycles
    assert sum(len(cycle) == 3 for entry in listed for cycle in entry["cycles"]) == triads
    assert all(entry["fewest"] and not entry["more_cycles"] for entry in listed)
    assert scores.metrics["conflict/reversals"].value == sum(len(entry["reverse"]) for entry in listed)


def test_qlora_cases_with_a_missing_pass_are_left_out(shared, configure):
    metrics = score_run(configure(swap={"resolve": "mean"}), *qlora(shared / "data" / "qlora_vicuna")).metrics
    rate = metrics["conflict/rate"]
    assert (rate.n, rate.missing) == (69, 11)
    assert rate.value == pytest.approx(3 / 69)
    assert (rate.worst_low, rate.worst_high) == pytest.approx((3 / 80, 14 / 80))


UNIEVAL = {
    "naturalness": (0.443666, 0.513986, 0.373973),
    "coherence": (0.595143, 0.612942, 0.465915),
    "engagingness": (0.556510, 0.604739, 0.455941),
    "groundedness": (0.536209, 0.574954, 0.451533),
    "understandability": (0.380038, 0.467807, 0.360741),
    "overall": (0.632796, 0.662583, 0.487272),
}


@pytest.mark.parametrize("dimension", UNIEVAL)
def test_unieval_correlations(shared, pointwise, dimension):
    rows = json.loads((shared / "data" / "unieval_topical_chat" / "topical_chat_result.json").read_text())
    by_context: dict[str, list[dict]] = {}
    for row in rows:
        by_context.setdefault(row["source"], []).append(row)
    cases, judgments = [], []
    for number, group in enumerate(by_context.values()):
        grades = [row["scores"][dimension] for row in group]
        cases.append(Case(str(number), "", tuple(Response("", grade=grade) for grade in grades)))
        for k, row in enumerate(group):
            criteria = {"quality": row["predict_scores"][dimension]}
            judgments.append(Judgment(str(number), (k,), (k,), 0, "unieval", "ok", criteria=criteria))
    metrics = score_run(pointwise(), cases, judgments).metrics
    found = [metrics[f"agreement/{name}"] for name in ("pearson", "spearman", "kendall")]
    assert [round(metric.value, 6) for metric in found] == list(UNIEVAL[dimension])
    assert {metric.n for metric in found} == {360}
    assert all(metric.low < metric.value < metric.high for metric in found)
