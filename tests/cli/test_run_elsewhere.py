"""A finished run's config, run in another folder: its cases are those beside it, exactly as they were judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalkit.runs import read_config, read_run
from tests.support.command_line import Done

Call = Callable[..., Done]

KINDS: dict[str, tuple[list[str], list[dict[str, Any]]]] = {
    "pairs": (
        ["dataset.limit=2", "dataset.sample={n: 2, seed: 1}", "dataset.label_map={left: A}", "scoring.cluster=topic"],
        [
            {"id": "1", "prompt": "p", "response_a": "x", "response_b": "yy", "label": "left", "topic": "t"},
            {"id": "2", "prompt": "p", "response_a": "x", "response_b": "yy", "labels": {"a": "A", "b": "B"}},
            {"id": "3", "prompt": "p", "response_a": "z", "response_b": "yy", "topic": {"a": [1, None]}},
        ],
    ),
    "columns": (
        [
            "dataset.fields={prompt: q, response_a: one, response_b: two}",
            "dataset.filter='n > 1'",
            "dataset.max_chars=9",
        ],
        [{"id": str(n), "q": f"p{n}", "one": "x" * 20, "two": "y", "label": "B", "n": n} for n in range(4)],
    ),
    "scores": (
        ["mode=pointwise"],
        [{"id": "1", "prompt": "p", "response": "x", "label": 3}, {"id": "2", "prompt": "p", "response": "y"}],
    ),
    "classes": (
        ["mode=pointwise", "rubric=pass_fail"],
        [
            {"id": "1", "prompt": "p", "response": "x", "label": "pass"},
            {"id": "2", "prompt": "p", "response": "y", "labels": {"a": "pass", "b": "fail"}},
        ],
    ),
    "turns": (
        ["mode=pointwise", "dataset.unit=turn", "dataset.after=true", "dataset.fields={messages: chat}"],
        [
            {
                "id": name,
                "chat": [{"role": role, "content": f"{role} {n}"} for n in (1, 2) for role in ("user", "assistant")],
                "label": [1, 5],
            }
            for name in ("a", "b")
        ],
    ),
    "checklists": (
        ["mode=checklist"],
        [
            {
                "id": "1",
                "prompt": "p",
                "response": "x",
                "checklist": ["one", {"criterion": "two", "labels": {"a": "met"}}],
            }
        ],
    ),
}


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "data.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere"


COMMON = ("judge=simulated/good", "tracking=none", "dataset=file", "dataset.path=data.jsonl", "scoring.bootstrap=20")


@pytest.mark.parametrize("kind", KINDS)
def test_it_judges_the_same_cases(
    call: Call, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    words, rows = KINDS[kind]
    write(tmp_path, rows)
    call("run", *COMMON, *words, "hydra.run.dir=first")
    monkeypatch.chdir(elsewhere)
    call("run", "../first/config.yaml", "hydra.run.dir=second")
    first, second = read_run(tmp_path / "first"), read_run(elsewhere / "second")
    assert list(second.cases) == list(first.cases)
    assert second.metrics == first.metrics
    assert second.manifest["dataset"]["fingerprint"] == first.manifest["dataset"]["fingerprint"]
    planned = call("plan", "../first/config.yaml").out
    assert planned.splitlines()[1].split()[2:5] == [str(len(first.judgments)), str(len(first.judgments)), "0"]


def test_an_override_applies_to_these_cases(
    call: Call, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, rows = KINDS["pairs"]
    write(tmp_path, rows)
    call("run", *COMMON, *words, "hydra.run.dir=first")
    monkeypatch.chdir(elsewhere)
    call("run", "../first/config.yaml", "dataset.limit=1", "hydra.run.dir=second")
    assert len(read_run(elsewhere / "second").cases) == 1
    line = call("run", "../first/config.yaml", "dataset.path=none.jsonl", status=1).line()
    assert line == "none.jsonl: no such file; set dataset.path to a data file"
    write(elsewhere, rows[:1])
    call("run", "../first/config.yaml", "dataset.sample=null", "hydra.run.dir=third")
    assert read_config(elsewhere / "third").dataset.path == "data.jsonl"  # a dataset that is found is used


def test_only_the_config_of_a_run_has_cases_beside_it(
    call: Call, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, KINDS["pairs"][1])
    call("run", *COMMON, "dataset.label_map={left: A}", "hydra.run.dir=first")
    monkeypatch.chdir(elsewhere)
    file = tmp_path / "first" / "config.yaml"
    config = yaml.safe_load(file.read_text("utf-8"))
    file.write_text(yaml.safe_dump({**config, "defaults": ["config", "_self_"]}), "utf-8")
    assert "data.jsonl: no such file" in call("run", "../first/config.yaml", status=1).line()
    file.write_text(yaml.safe_dump(config), "utf-8")
    cases = tmp_path / "first" / "cases.jsonl"
    cases.write_text(cases.read_text("utf-8").replace('"prompt"', '"promt"'), "utf-8")
    line = call("run", "../first/config.yaml", status=1).line()
    assert line.endswith("cases.jsonl:1: unknown key 'promt', did you mean 'prompt'?; restore the file of the run")
    cases.unlink()
    assert "data.jsonl: no such file" in call("run", "../first/config.yaml", status=1).line()
