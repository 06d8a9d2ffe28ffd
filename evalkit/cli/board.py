"""The leaderboard at a sweep's end: printed, written to the sweep's folder, and sent to where its runs are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from evalkit.cli.printing import headed, plain_console
from evalkit.cli.summary import number
from evalkit.cli.voice import manner, say
from evalkit.errors import ExitStatus, TrackingError
from evalkit.scoring.leaderboard import CONTRADICTION, Leaderboard, Standing
from evalkit.sweeps.board import leaderboard_of, track_leaderboard, write_leaderboard
from evalkit.types import Metric

SHOWN = 40  # rows; the files hold all
HEADINGS = {
    "agreement/accuracy": "accuracy",
    "agreement/accuracy_per_order": "per order",
    "agreement/accuracy_decided": "decided",
    "agreement/accuracy_both_orders": "both orders",
    "agreement/kappa": "kappa",
    "agreement/spearman": "Spearman",
    "position/consistency": "consistency",
    "position/first_rate": "first shown",
    "length/longer_rate": "longer",
    "length/slope_at_label": "length slope",
    "tie_rate": "ties",
    "conflict/ratio": "conflicts",
    "between/contradiction": "contradicts",
    "cost/per_case": "US$ a case",
    "latency/per_case": "s a case",
}


def show_leaderboard(folder: Path, jobs: Sequence[str]) -> int:
    """Compare a sweep's runs, print and write the leaderboard, and record it; return the exit status of that.

    Raises:
        ConfigError: if a run's file is damaged, or the leaderboard cannot be written.
    """
    board = leaderboard_of(folder, jobs)
    if board is None:
        return int(ExitStatus.DONE)
    files = write_leaderboard(folder, board)
    if manner():
        say("leaderboard", f"written to {files[0]}", by=board.by, best=board.rows[0].name, path=str(files[0]))
    else:
        print_leaderboard(board, files)
    try:
        track_leaderboard(folder, jobs, files)
    except TrackingError as error:
        say("error", str(error))
        return int(ExitStatus.NOT_TRACKED)
    return int(ExitStatus.DONE)


def print_leaderboard(board: Leaderboard, files: Sequence[Path]) -> None:
    """Print a leaderboard on standard output: a table for each dataset, and what its marks say."""
    console = plain_console()
    console.print(headed(f"Leaderboard of {len(board.rows)} jobs", f", by {board.by or 'nothing they all have'}"))
    for dataset in dict.fromkeys(row.dataset for row in board.rows):
        rows = [row for row in board.rows if row.dataset == dataset]
        console.print()
        console.print(_table(board, rows[:SHOWN]))
        if len(rows) > SHOWN:
            console.print(f"and {len(rows) - SHOWN} more in {files[1].name}")
    console.print()
    for line in _legend(board):
        console.print(line)
    console.print(f"leaderboard: {', '.join(map(_short, files))}")


def _table(board: Leaderboard, rows: Sequence[Standing]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", justify="right")
    table.add_column("job")
    table.add_column("")
    for name in board.columns:
        table.add_column(HEADINGS.get(name, name))
    for row in rows:
        marks = " ".join(mark for mark in (row.letters or "", "*" if row.pareto else "") if mark)
        table.add_row(_rank(row), row.name, marks, *(_cell(row.metrics.get(name)) for name in board.columns))
    return table


def _rank(row: Standing) -> str:
    """Return a rank with its interval, where that holds other ranks."""
    return str(row.rank) if row.rank_low == row.rank_high else f"{row.rank} [{row.rank_low}, {row.rank_high}]"


def _cell(metric: Metric | None) -> str:
    if metric is None or metric.value is None:
        return "–"
    if metric.low is None or metric.high is None:
        return _number(metric.name, metric.value)
    low, high = _number(metric.name, metric.low), _number(metric.name, metric.high)
    return f"{_number(metric.name, metric.value)} [{low}, {high}]"


def _number(name: str, value: float) -> str:
    return f"{value:.3g}" if name == "cost/per_case" else number(value)


def _legend(board: Leaderboard) -> list[str]:
    lines = []
    if board.contrasts:
        told = sum(c.p_holm is not None and c.p_holm <= 1 - board.confidence for c in board.contrasts)
        lines.append(
            f"jobs that share a letter do not differ significantly, which does not show that they are equal; {told} of "
            f"{len(board.contrasts)} pairs do (Holm, {1 - board.confidence:.2g}); ranks have simultaneous intervals"
        )
    names = {row.job: row.name for row in board.rows}
    lines += [
        f"{names[one.scores]} contradicts {names[one.comparisons]}: {_cell(one.metrics[CONTRADICTION])} of the pairs "
        "that both decide"
        for one in board.contradictions[:SHOWN]
    ]
    if any(row.pareto for row in board.rows):
        lines.append(
            "* better than chance, and no other job is shown to agree as well for less, or better for no more "
            f"(within {board.margin:g}, scoring.margin)"
        )
    if lost := [row for row in board.rows if row.chance is not None and row.chance != "above"]:
        lines.append(f"not shown to be better than chance: {len(lost)} of {len(board.rows)} jobs")
    return lines


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
