"""Gives each test a server that judges, and the folder of a judge that was validated against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import evalkit
from evalkit.runs import read_run
from evalkit.serving.folder import write_judge
from tests.support.fake_provider import Provider, serving
from tests.support.judging import good_first, judging

CASES = [
    {
        "id": str(number),
        "prompt": f"Question {number}: is sport healthy?",
        "response_a": f"good: it strengthens the heart ({number})",
        "response_b": f"bad: you will look better ({number})",
        "label": "A",
    }
    for number in range(12)
]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.chdir(tmp_path)
    with serving() as provider:
        provider.rule = judging(good_first)
        yield provider


@pytest.fixture
def judge_folder(provider: Provider, tmp_path: Path) -> Path:
    """Return the folder of a judge of pairs."""
    words = ["judge=openai_compatible", "judge.model=openai/fake", f"judge.api_base={provider.api_base}"]
    config = evalkit.load_config(overrides=[*words, "tracking=none", "scoring.bootstrap=50"])
    evalkit.run(config, tmp_path / "run", cases=CASES)
    write_judge(read_run(tmp_path / "run"), tmp_path / "judge")
    return tmp_path / "judge"
