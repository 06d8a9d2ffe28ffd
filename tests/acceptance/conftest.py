"""Makes `command_line` and `fake_provider` importable, and gives each test a folder and a server of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from command_line import Commands, Done
from fake_provider import Provider, serving
from replaying import Replay, replaying

from evalkit.cli import main


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """Runs evalkit's commands in an empty folder, with a store of the test's own."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Commands(folder)


@pytest.fixture
def within(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs a command as `commands` does, in this process."""
    monkeypatch.chdir(commands.folder)

    def run(*words: str, status: int = 0) -> Done:
        capfd.readouterr()
        ended = main(words)
        out, err = capfd.readouterr()
        assert ended == status, err + out
        return Done(words, ended, out, err)

    return run


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as provider:
        yield provider


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    """Serves LLMBar's stored judge texts, for the tests of one module."""
    with replaying(tmp_path_factory.mktemp("llmbar")) as server:
        yield server
