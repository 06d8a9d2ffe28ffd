"""Gives each test a folder of its own, and the server of stored judge texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.command_line import Commands, Done, call_main
from tests.support.replaying import Replay, replaying


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

    return partial(call_main, capfd)


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    """Serves LLMBar's stored judge texts, for the tests of one module."""
    with replaying(tmp_path_factory.mktemp("llmbar")) as server:
        yield server
