"""Gives each test a folder of its own, and the server of stored judge texts."""

from functools import partial

import pytest

from tests.support.command_line import Commands, call_main
from tests.support.replaying import replaying


@pytest.fixture
def commands(tmp_path):
    """Runs evalkit's commands in an empty folder, with a store of the test's own."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Commands(folder)


@pytest.fixture
def within(commands, monkeypatch, capfd):
    """Runs a command as `commands` does, in this process."""
    monkeypatch.chdir(commands.folder)

    return partial(call_main, capfd)


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """Serves LLMBar's stored judge texts, for the tests of one module."""
    with replaying(tmp_path_factory.mktemp("llmbar")) as server:
        yield server
