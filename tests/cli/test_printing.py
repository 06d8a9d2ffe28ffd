"""What names and data hold is printed as it is, though it may look like the printing library's markup."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from evalkit.cli.progress import ProgressDisplay
from evalkit.cli.summary import print_leaderboard, print_summary
from evalkit.config import RunConfig
from evalkit.decision import Decision, decide
from evalkit.engine import Progress
from evalkit.results import RunResult
from evalkit.scoring.leaderboard import Leaderboard, Standing
from evalkit.types import Metric

ODD = "x[/bold][red]y:warning:"


def test_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    config = RunConfig(judge={"model": "m"}, criteria=[{"name": "q"}])
    manifest = {"mode": "pairwise", "judge": ODD, "dataset": {"name": f"d{ODD}", "rows": 1}}
    metrics = {"missing/failed": Metric("missing/failed", 1.0, n=2)}
    print_summary(RunResult(None, config, manifest, (), (), (), metrics))
    out = capsys.readouterr().out
    assert f"pairwise · {ODD} · d{ODD} (1 case)\n" in out
    assert out.count(ODD) == 2


def test_a_leaderboard(capsys: pytest.CaptureFixture[str], tmp_path) -> None:  # type: ignore[no-untyped-def]
    board = Leaderboard(None, (), 0.95, (Standing(1, "0", f"judge.name={ODD}", "d", {}, decide({})),))
    print_leaderboard(board, [tmp_path / "leaderboard.csv", tmp_path / "leaderboard.json"])
    assert f"judge.name={ODD}" in capsys.readouterr().out


def test_a_last_sentence(capsys: pytest.CaptureFixture[str], tmp_path) -> None:  # type: ignore[no-untyped-def]
    decision = Decision("unknown", "missing", "pair")
    board = Leaderboard(None, (), 0.95, (Standing(1, "0", f"judge.name={ODD}", "d", {}, decision),))
    print_leaderboard(board, [tmp_path / "leaderboard.csv"])
    out = capsys.readouterr().out
    assert out.count(f"judge.name={ODD}") == 3, "in the table, as not decided, and in the last sentence"
    assert " ".join(out.split()).endswith(f"fix the missing answers of judge.name={ODD} first.")


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(judge={"model": "m", "name": ODD}, criteria=[{"name": "q"}])
    display = ProgressDisplay(SimpleNamespace(config=config))  # type: ignore[arg-type]
    display._console, display._live = Console(file=(out := StringIO()), force_terminal=True, width=200), True
    with display:
        display.update(Progress(1, 2, 0, 1, 0, 0, 10, 10, 0.0, 1.0))
    assert ODD in out.getvalue()
