"""Panels and lists from the command line, with judges on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from command_line import BRIEF, Commands, Done, pair, prefers
from fake_provider import Provider, Reply, refused

RESPONSE = re.compile(r'^<response label="([A-Z])">\n(.*?)\n</response>$', re.DOTALL | re.MULTILINE)
THREE = """
name: three
vote: majority
judges:
{judges}
"""
ONE = "  - {{name: {name}, model: openai/{name}, api_base: '{base}'}}\n"


@pytest.fixture
def three(commands: Commands, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A panel of two that see the better response and one whose server fails."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    judges = "".join(ONE.format(name=name, base=provider.api_base) for name in ("one", "two", "broken"))
    commands.write("conf/judge/three.yaml", THREE.format(judges=judges))
    commands.write("cases.jsonl", *(pair(number) for number in range(8)))
    seeing = prefers()

    def rule(body: Mapping[str, Any]) -> Reply:
        return refused(400, "no such luck") if body["model"] == "broken" else seeing(body)

    provider.rule = rule
    data = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket"]
    return ["judge=three", *data, "runner.retries=0", "runner.max_failure_rate=1", *BRIEF]


def test_a_panel_votes_and_its_votes_are_counted_again_at_no_cost(
    within: Callable[..., Done], commands: Commands, provider: Provider, three: list[str]
) -> None:
    done = within("run", *three, "hydra.run.dir=run")
    found = commands.metrics("run")["metrics"]
    assert (found["agreement/accuracy"]["value"], found["agreement/accuracy"]["missing"]) == (1.0, 0)
    assert found["judge/one/agreement/accuracy"]["value"] == 1.0
    assert found["judge/broken/agreement/accuracy"]["missing"] == 8
    assert found["missing/failed"]["value"] == pytest.approx(1 / 3)
    assert found["panel/unanimous"]["value"] == 1.0
    table = [line.split()[0] for line in done.out.splitlines() if line.startswith(("one ", "two ", "broken "))]
    assert table == ["one", "two", "broken"]
    verdict = json.loads((commands.folder / "run" / "verdicts.jsonl").read_text("utf-8").splitlines()[0])
    assert verdict["votes"] == {"one": "A", "two": "A", "broken": None}
    assert verdict["judge"] == "three"

    sent = len(provider.requests)
    within("score", "run", "judge.quorum=3", "scoring.bootstrap=50")
    assert commands.metrics("run")["metrics"]["agreement/accuracy"]["missing"] == 8
    within("score", "run", "judge.quorum=null", "judge.vote=weighted", "judge.weights={one: 2}")
    assert commands.metrics("run")["metrics"]["agreement/accuracy"]["value"] == 1.0
    assert len(provider.requests) == sent
    line = within("score", "run", "judge.weights={ome: 2}", status=1).line()
    assert line == "judge: weights has 'ome', which is no judge of it; choose from one, two, broken"


def test_a_panel_is_planned_for_all_its_judges(within: Callable[..., Done], three: list[str]) -> None:
    assert "48" in within("plan", *three).out
