"""Gives each test a server that judges, and the folder of a judge that was validated against it."""

from pathlib import Path
from typing import Any

import pytest

import evalkit
from evalkit.runs import read_run
from evalkit.serving.folder import write_judge
from tests.support.command_line import fake
from tests.support.fake_provider import Provider, Reply, serving
from tests.support.judging import good_first, judging
from tests.support.serving import served

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


def validated(body: dict[str, Any]) -> Reply:
    """Answer as in the validation."""
    reply = judging(good_first)(body)
    reply.body["system_fingerprint"] = "fp_validated"
    return reply


def make_judge(provider: Provider, folder: Path, *words: str, cases: Any = CASES) -> Path:
    """Return the folder of a judge of pairs."""
    judge = [*fake(provider), "judge.transport=direct"]
    config = evalkit.load_config(
        overrides=[*judge, "tracking=none", "scoring.bootstrap=50", *words]
    )
    evalkit.run(config, folder / "run", cases=cases)
    write_judge(read_run(folder / "run"), folder / "judge")
    return folder / "judge"


@pytest.fixture
def provider(module_provider, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.delenv("EVALKIT_SERVE_KEY", raising=False)  # of `shared`
    monkeypatch.chdir(tmp_path)
    module_provider.rule = validated
    module_provider.requests.clear()
    return module_provider


@pytest.fixture
def judge_folder(finished, provider, tmp_path):
    finished("judge", lambda: make_judge(provider, tmp_path))
    provider.requests.clear()
    return tmp_path / "judge"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A judge over HTTP and MCP that asks for a key, for all tests of a module."""
    folder = tmp_path_factory.mktemp("shared")
    store = f"store.url={folder / 'store.db'}"
    with pytest.MonkeyPatch.context() as patch, serving() as provider:
        patch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        patch.setenv("EVALKIT_SERVE_KEY", "first-key-0123, second-key-4567")
        patch.setattr("evalkit.cli.serve._BODY_SECONDS", 1.0)
        provider.rule = validated
        judge = make_judge(provider, folder, store)
        provider.requests.clear()
        words = (str(judge), "--api-base", provider.api_base, store)
        with served(*words, "--mcp", "http") as server:
            server.key, server.provider, server.words = "second-key-4567", provider, words
            yield server
