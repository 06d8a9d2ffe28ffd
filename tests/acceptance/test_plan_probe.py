"""From an empty store, with a pilot: what a plan expects of published judges, and what the run then really came to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import BRIEF, Commands, Done
from tests.support.replaying import Replay, replay_data

pytestmark = [pytest.mark.shared, pytest.mark.slow]

JUDGES = ("GPT-4", "ChatGPT", "PaLM2")
WITHIN = 0.15


def words(replay: Replay, subset: str) -> list[str]:
    return [
        "dataset=file",
        f"dataset.path={replay_data(subset)}",
        "dataset.fields={prompt: input, response_a: output_1, response_b: output_2}",
        "dataset.label_map={1: A, 2: B}",
        "judge=openai_compatible",
        "judge.model=" + ",".join(f"openai/{judge}-CoT" for judge in JUDGES),
        f"judge.api_base={replay.api_base}",
        "judge.transport=direct",
        "judge.price={input: 30, output: 60}",
        "output=regex",
        r"output.pattern='Output \((?P<winner>[ab])\)'",
        "swap=both",
        "-m",
    ]


@pytest.mark.parametrize("subset", ["Natural", "GPTInst"])
def test_a_pilot_tells_what_published_judges_cost_within_fifteen_percent(
    subset: str,
    within: Callable[..., Done],
    commands: Commands,
    replay: Replay,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("EVALKIT_STORE", str(tmp_path / "store.sqlite"))
    asked = replay.stat().get("requests", 0)
    told = within("plan", *words(replay, subset), "--pilot", "80").out
    assert replay.stat()["requests"] - asked == 240
    assert "pilot: 240 random requests, 240 calls sent, " in told
    lines = [re.split(r"\s{2,}", line.strip()) for line in told.splitlines()]
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:] if len(line) == len(lines[0])]
    within("run", *words(replay, subset), *BRIEF, "hydra.sweep.dir=runs")
    for number, judge in enumerate(JUDGES):
        assert rows[number]["job"] == f"judge.model=openai/{judge}-CoT"
        found = commands.metrics(f"runs/{number}")
        assert found["calls"]["stored"] == 80
        assert rows[number]["to send"] == str(found["calls"]["sent"])
        for column, paid in (
            ("prompt tokens, about", found["tokens"]["prompt"]),
            ("answer tokens, about", found["tokens"]["completion"]),
            ("cost, about", found["cost_usd"]),
        ):
            expected = float(rows[number][column].replace(",", "").removeprefix("$"))
            assert expected == pytest.approx(paid, rel=WITHIN), (judge, column)
