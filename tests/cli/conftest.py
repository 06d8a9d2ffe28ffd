"""Makes `command_line` and `fake_provider` importable, and runs the command line within the test's process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "acceptance"))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from command_line import Done

from evalkit.cli import main


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Calls a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, status: int = 0) -> Done:
        capfd.readouterr()
        ended = main(words)
        out, err = capfd.readouterr()
        assert ended == status, err + out
        return Done(words, ended, out, err)

    return run
