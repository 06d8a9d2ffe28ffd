"""What is printed: at most 12 metrics and 100 columns, panels by judge, and hostile names as they are."""

from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from evalkit.cli.leaderboard import leaderboard_table, print_leaderboard
from evalkit.cli.progress import ProgressDisplay
from evalkit.cli.summary import (
    ROWS,
    judge_table,
    metric_table,
    print_summary,
)
from evalkit.config import RunConfig
from evalkit.core.types import Case, Judgment, Metric, Response
from evalkit.engine.progress import Progress
from evalkit.report.page import render_report
from evalkit.report.texts import metric_words
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import CATALOG, LEADERBOARD_COLUMNS, full_catalog
from evalkit.scoring.decision import Decision, decide
from evalkit.scoring.leaderboard import Leaderboard, Standing
from evalkit.scoring.pipeline import score_run


def board(jobs: int, same: str = "tie_rate") -> Leaderboard:
    rows = tuple(
        Standing(
            job + 1,
            str(job),
            f"judge=simulated/position_biased, swap=both, tie.threshold=0.{job}",
            "d",
            {
                name: Metric(
                    name,
                    value := 0.5 if name == same else 0.1 + job / 10,
                    value - 0.05,
                    value + 0.05,
                    n=9,
                )
                for name in LEADERBOARD_COLUMNS
            },
            decide({}, 0.95),
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


ODD = "x[/bold][red]y:warning:"


def test_a_summary(capsys):
    config = RunConfig(judge={"model": "m"}, criteria=[{"name": "q"}])
    manifest = {"mode": "pairwise", "judge": ODD, "dataset": {"name": f"d{ODD}", "rows": 1}}
    metrics = {"missing/failed": Metric("missing/failed", 1.0, n=2)}
    print_summary(RunResult(None, config, manifest, (), (), (), metrics))
    out = capsys.readouterr().out
    assert f"pairwise · {ODD} · d{ODD} (1 case)\n" in out
    assert out.count(ODD) == 2


def test_a_leaderboard_and_its_last_sentence(capsys, tmp_path):
    decision = Decision("unknown", "missing", "pair")
    board = Leaderboard(None, (), 0.95, (Standing(1, "0", f"judge.name={ODD}", "d", {}, decision),))
    print_leaderboard(board, [tmp_path / "leaderboard.csv"])
    out = capsys.readouterr().out
    assert out.count(f"judge.name={ODD}") == 3, (
        "in the table, as not decided, and in the last sentence"
    )
    assert " ".join(out.split()).endswith(f"fix the missing answers of judge.name={ODD} first.")


def test_progress_on_a_terminal():
    config = RunConfig(judge={"model": "m", "name": ODD}, criteria=[{"name": "q"}])
    display = ProgressDisplay(SimpleNamespace(config=config, sweep=None))  # type: ignore[arg-type]
    display._console, display._live = (
        Console(file=(out := StringIO()), force_terminal=True, width=200),
        True,
    )
    with display:
        display.update(Progress(1, 2, 0, 1, 0, 0, 10, 10, 0.0, 1.0))
    assert ODD in out.getvalue()


METRICS = {
    metric.name: metric
    for metric in (
        Metric("agreement/accuracy", 0.8, 0.6, 0.9, 10),
        Metric("panel/alpha", 0.4, 0.1, 0.7, 30),
        Metric("judge/x/agreement/accuracy", 0.7, 0.5, 0.8, 10),
        Metric("judge/x/tie_rate", 0.1, None, None, 10),
        Metric("judge/y/agreement/accuracy", None, n=0, missing=10),
        Metric("judge/y/tie_rate", 0.2, None, None, 10),
    )
}


@pytest.fixture
def make_panel():
    """A panel of a judge that is right in nine of ten pairs, and one that decides by the number of the case."""

    def make() -> RunResult:
        judges = [{"model": "openai/x", "name": name} for name in ("exact", "coin")]
        config = RunConfig.model_validate(
            {
                "judge": {"name": "panel", "model": None, "judges": judges},
                "criteria": [{"name": "quality"}],
                "scoring": {"bootstrap": 200},
            }
        )
        cases = [
            Case(str(n), "?", (Response("one"), Response("two")), label="AB"[n % 2])
            for n in range(200)
        ]
        judgments = []
        for n in range(200):
            right = {"exact": 1 if n % 20 < 18 else -1, "coin": 1 if n % 4 < 2 else -1}
            for name, sign in right.items():
                value = float(sign * (-1) ** n)
                judgments += [
                    Judgment(str(n), (0, 1), order, 0, name, "ok", value)
                    for order in ((0, 1), (1, 0))
                ]
        scores = score_run(config, cases, judgments)
        manifest = {"judge": "panel", "mode": "pairwise"}
        return RunResult(None, config, manifest, cases, judgments, scores.verdicts, scores.metrics)

    return make


def test_judges_stand_in_a_table_of_their_own():
    assert "judge/" not in printed(metric_table(METRICS, 0.95))
    assert "panel/alpha" in printed(metric_table(METRICS, 0.95))
    lines = [line.split() for line in printed(judge_table(METRICS)).splitlines()]
    assert lines == [
        ["judge", "decision", "accuracy", "tie_rate"],
        ["x", "not", "decided", "0.700", "[0.500,", "0.800]", "0.100"],
        ["y", "not", "decided", "–", "0.200"],
    ]


def test_each_judge_has_a_decision_of_its_own_in_the_terminal_and_in_the_report(make_panel):
    result = make_panel()
    uses = {name: decision.use for name, decision in result.decisions.items()}
    assert uses == {"exact": "single", "coin": "none"}
    lines = printed(judge_table(result.metrics)).splitlines()
    assert [name for name in ("exact", "coin") for line in lines if line.startswith(name)] == [
        "exact",
        "coin",
    ]
    words = {line.split()[0]: line for line in lines}
    assert "single verdicts" in words["exact"]
    assert "do not trust" in words["coin"]
    page = render_report(result)
    section = page[page.index("Judges of the panel") : page.index("All metrics")]
    assert "Trust this judge for single verdicts on pairs" in section
    assert "Do not trust this judge" in section


def test_a_single_judge_has_no_such_table():
    assert judge_table({"agreement/accuracy": METRICS["agreement/accuracy"]}) is None


def test_metrics_of_a_judge_are_named_after_it():
    assert metric_words("judge/x/tie_rate") == ("x: Ties", "x：平局率")
    assert metric_words("judge/x/other") == ("x: other", "x：other")
