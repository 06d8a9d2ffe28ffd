"""A sweep over `method`: how often scores say the opposite of comparisons, from the jobs' own folders."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evalkit.tracking.parent_runs import contradictions
from tests.support.command_line import Done, fake, pair
from tests.support.fake_provider import Provider, Reply, said

Call = Callable[..., Done]
CASES, AGAINST = 12, 3


def filled(schema: Mapping[str, Any], winner: str, score: int) -> Any:
    """Return an answer to a schema."""
    if "enum" in schema:
        return next((choice for choice in schema["enum"] if choice in (winner, score)), schema["enum"][0])
    if schema.get("type") == "object":
        return {name: filled(one, winner, score) for name, one in schema["properties"].items()}
    if schema.get("type") == "array":
        return [filled(schema["items"], winner, score)] if "items" in schema else []
    return "so" if schema["type"] == "string" else min(score, schema.get("maximum", score))


def judge(body: Mapping[str, Any]) -> Reply:
    """Compare rightly, and score three of the better responses below the others."""
    text = "\n".join(message["content"] for message in body["messages"])
    first = re.search(r"<response(?:_a)?>\n(\w+) (\d+)", text)
    kind, number = first[1], int(first[2])
    score = 3 if kind == "bad" else 1 if number < AGAINST else 4
    schema = body["response_format"]["json_schema"]["schema"]
    return said(json.dumps(filled(schema, "A" if kind == "good" else "B", score)))


@pytest.fixture
def sweep(call: Call, provider: Provider, tmp_path: Path) -> Call:
    provider.rule = judge
    (tmp_path / "cases.jsonl").write_text("\n".join(json.dumps(pair(n)) for n in range(CASES)))
    data = ["dataset=file", "dataset.path=cases.jsonl", "scoring.bootstrap=100", "tracking=none", "criteria=overall"]
    return lambda *more: call(
        "run", *fake(provider), "judge.transport=direct", *data, *more, "hydra.sweep.dir=jobs", "-m"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "methods", [pytest.param("method=pairwise,direct5", marks=pytest.mark.thorough), "method=[pairwise,direct5]"]
)
def test_scores_are_held_against_comparisons(sweep: Call, provider: Provider, tmp_path: Path, methods: str) -> None:
    done = sweep(methods)
    assert len(provider.requests) == 4 * CASES  # two orders of each pair, two responses: nothing more
    board = json.loads((tmp_path / "jobs" / "leaderboard.json").read_text())
    (found,) = board["contradictions"]
    names = {row["job"]: row["name"] for row in board["rows"]}
    assert ("method=direct5" in names[found["scores"]], "method=pairwise" in names[found["comparisons"]]) == (
        True,
        True,
    )
    metric = found["metrics"]["between/contradiction"]
    assert (metric["value"], metric["n"]) == (AGAINST / CASES, CASES)
    assert 0 <= metric["low"] < AGAINST / CASES < metric["high"] < 0.6
    for row in board["rows"]:
        assert row["metrics"]["between/contradiction"]["value"] == AGAINST / CASES
    assert contradictions(board) == {
        f"between/contradiction{end}": metric[key] for end, key in (("", "value"), ("/low", "low"), ("/high", "high"))
    }
    rows = list(csv.DictReader((tmp_path / "jobs" / "leaderboard.csv").read_text().splitlines()))
    assert {float(row["between/contradiction"]) for row in rows} == {AGAINST / CASES}
    assert "contradicts" in done.out
    assert "in which scores contradict comparisons" in (tmp_path / "jobs" / "report.html").read_text()


@pytest.mark.slow
def test_only_jobs_of_the_same_other_settings(sweep: Call, tmp_path: Path) -> None:
    sweep("method=pairwise,direct5", "tie.threshold=0,0.5")
    board = json.loads((tmp_path / "jobs" / "leaderboard.json").read_text())
    names = {row["job"]: row["name"] for row in board["rows"]}
    pairs = [(names[one["scores"]], names[one["comparisons"]]) for one in board["contradictions"]]
    assert len(pairs) == 2
    told = contradictions(board)
    assert len(told) == 6
    assert all(name.startswith("between/contradiction/") and " against " in name for name in told)
    for one, two in pairs:
        assert re.search(r"tie.threshold=[\d.]+", one)[0] == re.search(r"tie.threshold=[\d.]+", two)[0]
