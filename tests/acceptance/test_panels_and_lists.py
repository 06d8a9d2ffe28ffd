"""Panels and lists from the command line, with judges on loopback."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.command_line import BRIEF, pair, prefers
from tests.support.fake_provider import Reply, refused, said

RESPONSE = re.compile(r'^<response label="([A-Z])">\n(.*?)\n</response>$', re.DOTALL | re.MULTILINE)
THREE = """
name: three
vote: majority
judges:
{judges}
"""
ONE = "  - {{name: {name}, model: openai/{name}, api_base: '{base}'}}\n"


@pytest.fixture
def three(commands, provider, monkeypatch):
    """A panel of two that see the better response and one whose server fails."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    judges = "".join(
        ONE.format(name=name, base=provider.api_base) for name in ("one", "two", "broken")
    )
    commands.write("conf/judge/three.yaml", THREE.format(judges=judges))
    commands.write("cases.jsonl", *(pair(number) for number in range(8)))
    seeing = prefers()

    def rule(body: Mapping[str, Any]) -> Reply:
        return refused(400, "no such luck") if body["model"] == "broken" else seeing(body)

    provider.rule = rule
    data = ["dataset=file", "dataset.path=cases.jsonl", "output=bracket"]
    return ["judge=three", *data, "runner.retries=0", "runner.max_failure_rate=1", *BRIEF]


def test_a_panel_votes_and_its_votes_are_counted_again_at_no_cost(
    within, commands, provider, three
):
    done = within("run", *three, "hydra.run.dir=run")
    found = commands.metrics("run")["metrics"]
    assert (found["agreement/accuracy"]["value"], found["agreement/accuracy"]["missing"]) == (
        1.0,
        0,
    )
    assert found["judge/one/agreement/accuracy"]["value"] == 1.0
    assert found["judge/broken/agreement/accuracy"]["missing"] == 8
    assert found["missing/failed"]["value"] == pytest.approx(1 / 3)
    assert found["panel/unanimous"]["value"] == 1.0
    table = [
        line.split()[0]
        for line in done.out.splitlines()
        if line.startswith(("one ", "two ", "broken "))
    ]
    assert table == ["one", "two", "broken"]
    verdict = json.loads(
        (commands.folder / "run" / "verdicts.jsonl").read_text("utf-8").splitlines()[0]
    )
    assert verdict["votes"] == {"one": "A", "two": "A", "broken": None}
    assert verdict["judge"] == "three"

    sent = len(provider.requests)
    within("score", "run", "judge.quorum=3", "scoring.bootstrap=50")
    assert commands.metrics("run")["metrics"]["agreement/accuracy"]["missing"] == 8
    within("score", "run", "judge.quorum=null", "judge.vote=weighted", "judge.weights={one: 2}")
    assert commands.metrics("run")["metrics"]["agreement/accuracy"]["value"] == 1.0
    assert len(provider.requests) == sent
    line = within("score", "run", "judge.weights={ome: 2}", status=1).line()
    assert (
        line
        == "judge: weights has 'ome', which is not one of its judges; choose from one, two, broken"
    )


def test_a_panel_is_planned_for_all_its_judges(within, three):
    assert "48" in within("plan", *three).out


def ranks(body: Mapping[str, Any]) -> Reply:
    """A judge that ranks by the number each response ends with, and leaves out what has none."""
    shown = RESPONSE.findall(body["messages"][-1]["content"])
    quality = {label: int(text.rsplit(" ", 1)[-1]) for label, text in shown if text[-1].isdigit()}
    ranking = [
        {"response": label, "rank": 1 + sum(other > mine for other in quality.values())}
        for label, mine in quality.items()
    ]
    answer = {
        "analysis": [],
        "comparison": [{"criterion": "overall quality", "reasoning": "since", "ranking": ranking}],
        "result": {"reasoning": "so", "ranking": ranking, "confidence": 0.9},
    }
    return said(json.dumps(answer))


def test_lists_are_ranked_and_every_metric_of_pairs_follows(
    within, commands, provider, monkeypatch, tmp_path
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    responses = [{"text": f"response of quality {k}", "label": k} for k in (2, 4, 1, 2)]
    commands.write(
        "cases.jsonl",
        *({"id": f"c{n}", "prompt": f"Question {n}?", "responses": responses} for n in range(6)),
        {
            "id": "partial",
            "prompt": "?",
            "responses": [*responses[:2], {"text": "none", "label": 1}],
        },
    )
    provider.rule = ranks
    judge = [
        "judge=openai_compatible",
        "judge.model=openai/fake",
        f"judge.api_base={provider.api_base}",
    ]
    data = [
        "dataset=file",
        "dataset.path=cases.jsonl",
        "criteria=overall",
        "mode=listwise",
        "judge.response_format=text",
    ]
    within("run", *judge, *data, *BRIEF, "hydra.run.dir=run")
    assert len(provider.requests) == 14
    found = commands.metrics("run")["metrics"]
    assert (found["agreement/accuracy"]["value"], found["agreement/accuracy"]["missing"]) == (
        1.0,
        2,
    )
    assert found["agreement/spearman"]["value"] > 0.95
    assert found["position/consistency"]["value"] == 1.0
    assert found["tie_rate/judged"]["n"] == 37
    within("run", *judge, *data, *BRIEF, "swap=random", "hydra.run.dir=once")
    assert len(provider.requests) == 14  # its order is one of the two that were asked for already
    assert commands.metrics("once")["calls"]["stored"] == 7
    refused_here = within("run", *judge, *data, *BRIEF, "swap.resolve=third_pass", status=1)
    assert "swap.resolve: mode 'listwise' does not support third_pass" in refused_here.err
    assert not (tmp_path / "work" / "outputs").exists()
