"""Tab completion: commands, studies, and what Hydra completes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Done

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> Complete:
    def ask(line: str) -> list[str]:
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        return call("-sc", "query=bash").out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("evalkit run judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit run swap=both judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit plan judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit doctor judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit run first_look judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit run experiments/first_look.yaml judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit run tie.thr", ["tie.threshold="]),
        ("evalkit run fir", ["first_look"]),
        ("evalkit pl", ["plan", "plugins"]),
        ("evalkit plan au", ["audit"]),
        ("evalkit plan audit judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit plan audit fir", ["first_look"]),
        ("evalkit sco", ["score"]),
        ("evalkit score out", []),
        ("evalkit batch w", ["write"]),
        ("evalkit batch write judge=gp", ["judge=gpt-4o", "judge=gpt-4o-mini"]),
        ("evalkit batch write fir", ["first_look"]),
        ("evalkit batch read --req", ["--requests"]),
        ("evalkit store prune --old", ["--older-than"]),
    ],
)
def test_a_line_goes_on(line: str, offered: list[str], complete: Complete) -> None:
    assert complete(line) == offered


def test_every_command_is_offered(complete: Complete) -> None:
    assert {"run", "plan", "score", "track", "ui", "doctor", "init"} <= {*complete("evalkit ")}


def test_what_is_ones_own_is_offered(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "conf" / "judge").mkdir(parents=True)
    (tmp_path / "conf" / "judge" / "gpt-mine.yaml").write_text("model: openai/mine\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mystudy.yaml").write_text("defaults: [config, _self_]\n")
    assert complete("evalkit run judge=gpt-m") == ["judge=gpt-mine"]
    assert complete("evalkit run mys") == ["mystudy"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, call: Callable[..., Done]) -> None:
    assert "complete" in call("-sc", f"install={shell}").out
