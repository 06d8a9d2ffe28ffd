"""Figures that others published on scores and repeats, and conflicts as a run folder holds them."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from evalkit.api import rescore
from evalkit.results import RunResult
from evalkit.scoring import score_run
from evalkit.types import Case, Judgment, Response

pytestmark = pytest.mark.shared

BINARY = {"min": 0, "max": 1}
HALLUQA = {
    "gpt-4-0613_output_qa_prompt": (76.00, 57.97, 32.04, 53.11),
    "ernie_bot_output": (70.86, 46.38, 75.73, 69.33),
    "qwen-14b-chat_output_qa_prompt": (75.43, 23.19, 30.58, 46.89),
    "chatglm-6b_output_qa_prompt": (52.57, 20.29, 15.05, 30.44),
}
KINDS = ("Misleading", "Misleading-hard", "Knowledge", None)
SAID = {"True": 0.0, "False": 1.0, "Invalid_Judge": None}


def halluqa(folder: Path, system: str, kind: str | None) -> tuple[list[Case], list[Judgment]]:
    kinds = {row["question_id"]: row["Category"] for row in json.loads((folder / "HalluQA.json").read_text())}
    answers = json.loads((folder / f"{system}.json").read_text())
    cases, judgments = [], []
    for row in answers:
        name = row["question_id"]
        if kind is None or kinds[name] == kind:
            score = SAID[str(row["is_hallucination"])]
            cases.append(Case(name, row["question"], (Response(row["response"], system),)))
            status = "unparseable" if score is None else "ok"
            criteria = {} if score is None else {"quality": score}
            judgments.append(Judgment(name, (0,), (0,), 0, "gpt-4", status, criteria=criteria))
    return cases, judgments


@pytest.mark.parametrize("system", HALLUQA)
@pytest.mark.parametrize("kind", range(4))
def test_halluqa(shared, pointwise, system, kind):
    cases, judgments = halluqa(shared / "data" / "halluqa", system, KINDS[kind])
    mean = score_run(pointwise(rubric=BINARY), cases, judgments).metrics["score/mean"]
    # Theirs counts a verdict that could not be read as a hallucination: the lower end of what the answers allow.
    assert round(100 * mean.worst_low, 2) == HALLUQA[system][kind]
    assert mean.n + mean.missing == len(cases)
    assert mean.value == pytest.approx(mean.worst_low * len(cases) / mean.n)
    assert mean.worst_high == pytest.approx(mean.worst_low + mean.missing / len(cases))
    if system == "ernie_bot_output" and kind == 3:
        assert (mean.missing, round(100 * mean.value, 2), round(100 * mean.worst_high, 2)) == (4, 69.96, 70.22)


def test_prometheus_repeats(shared, pointwise):
    rows = json.loads((shared / "data" / "prometheus_vicuna" / "vicuna_eval.json").read_text())
    by_prompt: dict[str, list[list[int]]] = {}
    for row in rows:
        by_prompt.setdefault(row["idx"], []).append(json.loads(str(row["gpt4_score"])))
    cases = [Case(name, "", tuple(Response("") for _ in scores)) for name, scores in by_prompt.items()]
    judgments = [
        Judgment(name, (k,), (k,), sample, "gpt-4", "ok", criteria={"quality": float(score)})
        for name, scores in by_prompt.items()
        for k, repeats in enumerate(scores)
        for sample, score in enumerate(repeats)
    ]
    assert (len(cases), len(judgments)) == (80, 960)
    config = pointwise()
    thrice = config.model_copy(update={"mode": config.mode.model_copy(update={"samples": 3})})
    scores = score_run(thrice, cases, judgments)
    unanimous = scores.metrics["samples/unanimous"]
    assert unanimous.n == 320
    assert unanimous.value * 320 == pytest.approx(199)
    assert 0 < scores.metrics["variance/sample"].value < scores.metrics["variance/case"].value < 1
    noise = scores.metrics["jnd/noise"]
    assert 0 < noise.low < noise.value < noise.high < 1
    assert scores.details["variance"]["halve"]["samples"]["now"] == 3


def _conflicts_module():
    spec = spec_from_file_location("published", Path(__file__).with_name("test_published.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_conflicts_in_a_run_folder(shared, configure, tmp_path):
    published = _conflicts_module()
    cases, judgments = published.read_in_full(*published.qlora(shared / "data" / "qlora_vicuna"))
    config = configure(swap={"resolve": "net_vote"})
    manifest = {"mode": "pairwise", "judge": "gpt-4", "dataset": {"name": "vicuna", "rows": len(cases)}}
    result = RunResult(None, config, manifest, tuple(cases), tuple(judgments), (), {})
    found = {}
    for rule in ("net", "both", "single", "ties"):
        scoring = config.scoring.model_copy(update={"conflict_edges": rule})
        rescore(config.model_copy(update={"scoring": scoring}), result, tmp_path / rule)
        metrics = json.loads((tmp_path / rule / "metrics.json").read_text())["metrics"]
        rate = metrics["conflict/rate"]
        found[rule] = (round(rate["value"] * rate["n"]), rate["n"], metrics["conflict/triads"]["value"])
    assert found["ties"][:2] == (69, 69)
    assert found["net"] == (3, 69, 4)
    assert found["both"] == (1, 69, 1)
    assert found["single"] == (26, 69, 67)
    listed = json.loads((tmp_path / "net" / "conflicts.json").read_text())["cases"]
    assert len(listed) == 3
    assert {entry["models"][0] for entry in listed} == {cases[0].responses[0].model}
    ranking = json.loads((tmp_path / "net" / "ranking.json").read_text())
    assert ranking["systems"][0]["system"] == "answer_gpt4"
    assert ranking["systems"][0]["rank"] == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 69 * 7}
