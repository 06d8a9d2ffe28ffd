"""`evalkit doctor`: what it says of the store and the tracker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evalkit.store.sqlite import SqliteStore
from tests.support.command_line import Done

Call = Callable[..., Done]
JUDGE = ("doctor", "judge=simulated/good", "dataset=quick")


def test_the_store_is_named_and_opened(call: Call, tmp_path: Path) -> None:
    assert "off: every run pays for all its calls" in call(*JUDGE, "store.mode=off", "tracking=none").out
    url = f"store.url={tmp_path}/answers.sqlite"
    assert "answers.sqlite (the first run creates it)" in call(*JUDGE, url, "tracking=none").out
    SqliteStore(tmp_path / "answers.sqlite").close()
    assert "(the first run creates it)" not in call(*JUDGE, url, "tracking=none").out
    (tmp_path / "answers.sqlite").write_bytes(b"not a database" * 100)
    assert "answers.sqlite" in call(*JUDGE, url, "tracking=none", status=1).out


def test_another_tracker_is_named(call: Call) -> None:
    done = call(*JUDGE, "tracking.tracker=no_such_tracker", status=1)
    assert "no_such_tracker" in done.out + done.err
