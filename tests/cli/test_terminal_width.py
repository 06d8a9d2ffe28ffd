"""What is printed fits: 12 metrics of a run, and a leaderboard of 100 columns that shows where jobs differ."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from evalkit.cli.summary import ROWS, leaderboard_table, metric_table
from evalkit.decision import decide
from evalkit.scoring.catalog import CATALOG, LEADERBOARD_COLUMNS, full_catalog
from evalkit.scoring.leaderboard import Leaderboard, Standing
from evalkit.types import Metric


def board(jobs: int, same: str = "tie_rate") -> Leaderboard:
    rows = tuple(
        Standing(
            job + 1,
            str(job),
            f"judge=simulated/position_biased, swap=both, tie.threshold=0.{job}",
            "d",
            {
                name: Metric(name, value := 0.5 if name == same else 0.1 + job / 10, value - 0.05, value + 0.05, n=9)
                for name in LEADERBOARD_COLUMNS
            },
            decide({}),
        )
        for job in range(jobs)
    )
    return Leaderboard("agreement/accuracy", LEADERBOARD_COLUMNS, 0.95, rows)


def printed(table: object) -> str:
    console = Console(file=(out := StringIO()), width=1000)
    console.print(table)
    return out.getvalue()


def test_a_leaderboard_fits_100_columns():
    table, omitted = leaderboard_table(board(3), board(3).rows, 100)
    lines = printed(table).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 100
    assert "accuracy" in lines[0]
    assert "ties" not in lines[0]  # equal in all jobs
    assert "tie_rate" in omitted
    assert len(omitted) < len(LEADERBOARD_COLUMNS) - 2


def test_a_wider_terminal_shows_more_columns():
    narrow, wide = (leaderboard_table(board(3), board(3).rows, width)[1] for width in (100, 200))
    assert len(wide) < len(narrow)


def test_a_summary_has_at_most_12_metrics():
    names = [row.name for row in full_catalog().rows if row.headline and not row.placeholders]
    many = [*names, *(f"rewardbench/subset-{number}" for number in range(30))]
    table = metric_table({name: Metric(name, 0.5, 0.4, 0.6, n=9) for name in many}, 0.95)
    assert table.row_count == ROWS == 12


def test_general_metrics_come_before_those_of_subsets():
    names = ["rewardbench/subset-1", "rewardbench/score", "tie_rate"]
    assert CATALOG.main(names, 2) == ["rewardbench/score", "tie_rate"]
