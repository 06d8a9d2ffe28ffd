"""What the terminal shows of a leaderboard: the jobs of a sweep side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from evalkit.cli.console import plain_console, print_heading, terminal_width, text_table
from evalkit.cli.language import ENGLISH, Speaker
from evalkit.cli.summary import STYLES, SYMBOLS, link
from evalkit.core.display import estimate, fixed
from evalkit.core.translation import Message, gettext, ngettext
from evalkit.core.translation import Text as Translatable
from evalkit.core.types import Metric
from evalkit.report.findings.decisions import USES
from evalkit.report.findings.sweeps import choice_findings, dataset_name
from evalkit.report.sweep_names import folded_names, no_effect
from evalkit.scoring.catalog import SHORT_TITLES
from evalkit.scoring.leaderboard import CONTRADICTION, Leaderboard, Standing

WIDTH = 100
"""The characters of a line, unless the terminal is wider."""
SHOWN = 40
"""The most jobs that a leaderboard shows; the files hold all."""
NAME, DECISION = 26, 16
"""The widths at which the name of a job and its decision are wrapped, in characters."""


def print_leaderboard(
    board: Leaderboard,
    files: Sequence[Path],
    say: Speaker = ENGLISH,
    *,
    recorded: bool = False,
) -> None:
    """Print a leaderboard on standard output.

    A table for each dataset, the meaning of its marks, and what to use.

    Args:
        board: The leaderboard.
        files: The files that it was written to.
        say: What speaks the language.
        recorded: Whether MLflow has a run of a job.
    """
    console = plain_console()
    heading = ngettext(
        "Leaderboard of {n} job", "Leaderboard of {n} jobs", len(board.rows)
    )
    by = gettext(", by {metric}", metric=board.by or gettext("no common metric"))
    console.print(print_heading(say(heading), say(by)))
    names = folded_names(board)
    conclusions = []
    notes = _legend(board, names, say)
    for choice in board.choices:
        rows = [row for row in board.folded if row.dataset == choice.dataset]
        dataset = dataset_name(board, choice, {})
        console.print(*([f"\n{dataset}"] if dataset else []))
        table, omitted = leaderboard_table(
            board, rows[:SHOWN], max(WIDTH, terminal_width()), names, say
        )
        console.print(table)
        if len(rows) > SHOWN:
            text = ngettext(
                "and {n:,} more row in {file}",
                "and {n:,} more rows in {file}",
                len(rows) - SHOWN,
                file=files[-1].name,
            )
            console.print(say(text))
        if omitted:
            text = ngettext(
                "{n} more column in {file}",
                "{n} more columns in {file}",
                len(omitted),
                file=files[-1].name,
            )
            console.print(say(text))
        conclusion, *decided = choice_findings(board, choice, names, dataset)
        notes += [say.finding(finding) for finding in decided]
        conclusions.append(conclusion)
    console.print()
    for line in notes:
        console.print(line)
    # Without the last separator.
    links = [part for file in files for part in (link(file), ", ")][:-1]
    console.print(Text.assemble(say(gettext("leaderboard: ")), *links))
    if recorded:
        console.print(say(gettext("MLflow: `evalkit ui` opens the runs")))
    console.print()
    for finding in conclusions:
        console.print(
            Text.assemble(
                (SYMBOLS[finding.tone], STYLES[finding.tone]),
                f" {say.finding(finding)}",
            )
        )


def leaderboard_table(
    board: Leaderboard,
    rows: Sequence[Standing],
    width: int,
    names: Mapping[str, str] | None = None,
    say: Speaker = ENGLISH,
) -> tuple[Table, list[str]]:
    """Return the table of some jobs within `width` characters, and the metrics that do not fit.

    `names` has the names of jobs that are not shown under their own.

    Metrics that are equal in all jobs are omitted. Each interval is below its value.
    """
    shown_names = {row.job: (names or {}).get(row.job, row.name) for row in rows}
    table = text_table()
    table.add_column("", justify="right")
    marks = [
        " ".join(
            mark for mark in (row.letters or "", "*" if row.pareto else "") if mark
        )
        for row in rows
    ]
    decisions = [say(USES[row.decision.use]) for row in rows]
    decision_heading = say(gettext("decision"))
    titles = {
        name: say(Translatable(SHORT_TITLES.get(name, name), context="column"))
        for name in board.main_columns()
    }
    sides = [
        max(map(cell_len, cells), default=0) for cells in (map(_rank, rows), marks)
    ]
    sides.append(min(DECISION, max(map(cell_len, (decision_heading, *decisions)))))
    # the width for metrics; the last column has no gap of 2 after it
    # The columns before the metrics: rank, name, mark and decision, each with a gap of 2.
    remaining = (
        width
        + 2
        - sum(side + 2 for side in sides)
        - min(NAME, max(map(cell_len, shown_names.values())))
        - 2
    )
    displayed: set[str] = set()
    room = remaining
    for name in board.main_columns():
        cells = (
            line
            for row in rows
            for line in _metric_cell(row.metrics.get(name)).split("\n")
        )
        lines = [titles[name], *cells]
        remaining -= max(map(cell_len, lines)) + 2
        # at least one metric, even if it does not fit
        # Columns come by importance. After the first that does not fit, `remaining` stays
        # negative, so no less important column takes its place.
        if remaining >= 0 or not displayed:
            displayed.add(name)
            room = remaining
    # Chosen by importance, but shown in the order of the board.
    columns = [name for name in board.columns if name in displayed]
    table.add_column(
        say(gettext("job")), max_width=max(NAME, NAME + room), overflow="fold"
    )
    table.add_column("")
    table.add_column(decision_heading, max_width=DECISION)
    for name in columns:
        table.add_column(titles[name])
    for row, mark, decision in zip(rows, marks, decisions, strict=True):
        table.add_row(
            _rank(row),
            shown_names[row.job],
            mark,
            decision,
            *(_metric_cell(row.metrics.get(name)) for name in columns),
        )
    return table, [name for name in board.columns if name not in displayed]


def _rank(row: Standing) -> str:
    """Return a rank, with its interval if that includes other ranks."""
    if row.rank_low == row.rank_high:
        return str(row.rank)
    return f"{row.rank} [{row.rank_low}, {row.rank_high}]"


def _metric_cell(metric: Metric | None) -> str:
    """Return a metric with its interval on a second line; a dash if it has no value."""
    if metric is None or metric.value is None:
        return "–"
    text = estimate(
        metric.value,
        metric.low,
        metric.high,
        lambda value: (
            f"{value:.3g}" if metric.name == "cost/per_case" else fixed(value, 2)
        ),
    )
    return text.replace(" [", "\n[")


def _legend(board: Leaderboard, names: Mapping[str, str], say: Speaker) -> list[str]:
    """Return what the signs of a leaderboard mean, as far as they are used."""
    texts: list[Message] = [*no_effect(board)]
    if board.contrasts:
        texts.append(
            gettext(
                "Jobs that share a letter do not differ significantly, which does not show that"
                " they are equal (Holm, {level}).",
                level=f"{1 - board.confidence:.2g}",
            )
        )
    texts += [
        gettext(
            "{scores} contradicts {comparisons} in {share} of the pairs that both decide.",
            scores=names[contradiction.scores],
            comparisons=names[contradiction.comparisons],
            share=_metric_cell(contradiction.metrics[CONTRADICTION]).replace("\n", " "),
        )
        for contradiction in board.contradictions[:SHOWN]
    ]
    if any(row.pareto for row in board.rows):
        texts.append(
            gettext(
                "* Useful, and no other useful job is shown to agree as well for less or better for"
                " no more (within {margin}).",
                margin=f"scoring.margin={board.margin:g}",
            )
        )
    return [say(text) for text in texts]
