"""The printed summary of a run or sweep: its findings, then the main metrics with their intervals."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from evalkit.cli.console import (
    is_verbose,
    plain_console,
    print_heading,
    terminal_width,
    text_table,
)
from evalkit.core.display import counted, dollars, estimate, fixed, number, relative
from evalkit.core.regular_files import read_text
from evalkit.core.translation import in_every_language
from evalkit.core.types import Metric
from evalkit.core.values import Json
from evalkit.report.comparison import with_interval
from evalkit.report.findings import TABLES, conclusion, findings_of
from evalkit.report.findings.decisions import USES
from evalkit.report.findings.sweeps import choice_findings, dataset_name
from evalkit.report.sweep_names import folded_names, no_effect
from evalkit.runs import read_details
from evalkit.runs.layout import CAUSES, DATASHEET
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import CATALOG, JUDGE_COLUMNS, MAIN_COLUMNS, SHORT_TITLES
from evalkit.scoring.decision import decide_for_judges
from evalkit.scoring.leaderboard import CONTRADICTION, Leaderboard, Standing
from evalkit.workflows.gating import GATE, gate_lines


def interval(metric: Metric) -> str:
    """Return a metric's interval in brackets, or nothing if it has none."""
    if metric.low is None or metric.high is None:
        return ""
    return f"[{number(metric.low)}, {number(metric.high)}]"


ROWS = 12
"""The most metrics that a summary shows with `-v`."""
BRIEF_ROWS = 6
"""The most metrics that it shows without."""
BRIEF_NOTES = 2
"""The most notes that it shows without `-v`."""
BRIEF_FINDINGS = 5
"""The most findings that it shows without `-v`, in addition to the decision."""
WIDTH = 100
"""The characters of a line of the leaderboard, unless the terminal is wider."""
NEWLINE = "\n"
SYMBOLS = {"good": "✓", "bad": "✗", "warn": "!", "info": "•"}
STYLES = {"good": "green", "bad": "red", "warn": "yellow", "info": ""}


def _shown(metric: Metric) -> bool:
    spec = CATALOG.spec(metric.name)
    if metric.value is None or spec is None:
        return _undefined(metric)
    return CATALOG.is_headline(metric.name) and bool(
        metric.value or not spec.hidden_at_zero
    )


def _undefined(metric: Metric) -> bool:
    """Return whether a coefficient is undefined despite data: all labels are of one class, or all scores are equal."""
    spec = CATALOG.spec(metric.name)
    undefined = (
        metric.value is None and metric.n > 0 and CATALOG.is_headline(metric.name)
    )
    return (
        undefined
        and spec is not None
        and spec.group == "agreement"
        and spec.is_coefficient
    )


def _worst(metric: Metric) -> str:
    """Return the value of a metric if every missing answer had lowered or raised it."""
    if not metric.missing or metric.worst_low is None or metric.worst_high is None:
        return ""
    return f"{number(metric.worst_low)} to {number(metric.worst_high)}"


def metric_table(
    metrics: Mapping[str, Metric], confidence: float, limit: int = ROWS
) -> Table:
    """Return a table of the main metrics of a run, at most `limit`; its folder and report have all."""
    table = text_table(("metric",), ("value",))
    table.add_column(f"{confidence:.0%} interval")
    table.add_column("n", justify="right")
    table.add_column("missing", justify="right")
    names = [name for name, metric in metrics.items() if _shown(metric)]
    if limit < ROWS:
        # Metrics without a place among the main columns come after all of them, in their own
        # order.
        importance = {name: index for index, name in enumerate(MAIN_COLUMNS)}
        names.sort(key=lambda name: importance.get(name, len(importance)))
        names = names[:limit]
    main = CATALOG.main(names, limit)
    displayed = [metrics[name] for name in main]
    lacking = any(
        metric.missing and metric.worst_low is not None for metric in displayed
    )
    if lacking:
        table.add_column("worst case")
    for metric in displayed:
        missing = f"{metric.missing:,}" if metric.missing else ""
        value = "not defined" if _undefined(metric) else number(metric.value)
        cells = [metric.name, value, interval(metric), f"{metric.n:,}", missing]
        table.add_row(*cells, *([_worst(metric)] if lacking else []))
    return table


def judge_table(
    metrics: Mapping[str, Metric], confidence: float = 0.95
) -> Table | None:
    """Return the table of a panel's judges with the decision about each, or `None` if there is no panel."""
    judges = list(
        dict.fromkeys(
            name.split("/")[1] for name in metrics if name.startswith("judge/")
        )
    )
    columns = [
        name
        for name in JUDGE_COLUMNS
        if any(_of(metrics, judge, name) for judge in judges)
    ]
    if not judges:
        return None
    table = text_table(
        ("judge", "decision"), (name.removeprefix("agreement/") for name in columns)
    )
    decisions = decide_for_judges(metrics, confidence)
    for judge in judges:
        judge_metrics = [_of(metrics, judge, name) for name in columns]
        if judge in decisions:
            decision = in_every_language(USES[decisions[judge].use])[0]
        else:
            decision = "–"
        table.add_row(
            judge,
            decision,
            # Cells are in the order of `columns`; a judge without such a metric still needs its
            # cell.
            *(with_interval(metric) if metric else "–" for metric in judge_metrics),
        )
    return table


def subset_table(rows: Sequence[Json]) -> Table:
    """Return the subsets of a panel's judges that no cheaper one equals in accuracy, the chosen one and the whole."""
    table = text_table(("judges that vote",), ("accuracy", "interval", "$ per case"))
    best = -1.0
    whole = max(len(row["judges"]) for row in rows)
    for row in rows:
        # A row is shown if it is more accurate than all rows before it.
        if row["accuracy"] > best or row["chosen"] or len(row["judges"]) == whole:
            best = max(best, row["accuracy"])
            names = ", ".join(row["judges"]) + (" ★" if row["chosen"] else "")
            cost = "–" if row["cost_usd"] is None else dollars(row["cost_usd"])
            if row["low"] is None:
                span = ""
            else:
                span = f"[{number(row['low'])}, {number(row['high'])}]"
            table.add_row(names, number(row["accuracy"]), span, cost)
    return table


def _of(metrics: Mapping[str, Metric], judge: str, name: str) -> Metric | None:
    metric = metrics.get(f"judge/{judge}/{name}")
    if metric is not None and metric.value is not None:
        return metric
    return None


def print_summary(result: RunResult, noted: Collection[str] = ()) -> None:
    """Print a finished run on standard output, without the notes that the command has already printed.

    Without `-v`: the decision, at most five findings that change what one does, six metrics and
    where the report is.
    """
    console = plain_console()
    manifest = result.manifest
    rows = manifest["dataset"]["rows"]
    heading = (
        f"{manifest['mode']} · {manifest['judge']} · {manifest['dataset']['name']}"
    )
    console.print(print_heading(heading, f" ({rows} case{'s' * (rows != 1)})"))
    # Details are only in the files of a run folder.
    details = read_details(Path(result.folder), TABLES) if result.folder else {}
    _print_findings(console, result, details)
    limit = ROWS if is_verbose() else BRIEF_ROWS
    confidence = result.config.scoring.confidence
    main = metric_table(result.metrics, confidence, limit)
    console.print("", *([main, ""] if main.row_count else []))
    if judges := judge_table(result.metrics, confidence):
        console.print(judges, "")
    subsets = details.get("panel", {}).get("subsets")
    if subsets and is_verbose():
        console.print(subset_table(subsets), "")
    if result.config.probe.probes and result.folder:
        sheet = Path(result.folder) / f"{DATASHEET}.json"
        print_audit(console, json.loads(read_text(sheet)))
    if gate := manifest.get(GATE):
        console.print("\n".join([*gate_lines(gate), ""]))
    _print_calls(console, result)
    if CAUSES in details and result.folder:
        folder = shlex.quote(str(relative(Path(result.folder))))
        console.print(f"unusable answers: evalkit export {folder} --to csv")
    notes = [note for note in manifest.get("notes", []) if note not in noted]
    # What an import could not use is part of its result.
    everything = is_verbose() or "imported" in manifest
    shown_notes = notes if everything else notes[:BRIEF_NOTES]
    for note in shown_notes:
        console.print(f"note: {note}")
    _print_places(console, result, len(notes) - len(shown_notes))


def _print_findings(console: Console, result: RunResult, details: Json) -> None:
    """Print the decision, then the findings: all of them with `-v`, else those that change what one does."""
    decision = conclusion(result)
    findings = [
        # The decision is printed first, and must not be repeated as a finding.
        finding
        for finding in findings_of(result, details)
        if finding not in decision
    ]
    if not is_verbose():
        urgent = [finding for finding in findings if finding.tone == "bad"]
        urgent += [finding for finding in findings if finding.tone == "warn"]
        findings = urgent[:BRIEF_FINDINGS]
    for finding in (*decision, *findings):
        symbol = (SYMBOLS[finding.tone], STYLES[finding.tone])
        console.print(Text.assemble("  ", symbol, f" {finding.text}"))


def print_changes(before: RunResult, after: RunResult) -> None:
    """Print the decision and the main metrics that new labels have changed."""
    table = text_table(("changed by the labels", "before", "after"))
    if before.decision.use != after.decision.use:
        table.add_row(
            "decision", *(USES[run.decision.use].message for run in (before, after))
        )
    # A metric that one of the runs lacks: its cell is then a dash.
    none = Metric("", None)
    for name in CATALOG.main(
        [name for name, metric in after.metrics.items() if _shown(metric)], ROWS
    ):
        changed_metrics = [run.metrics.get(name, none) for run in (before, after)]
        cells = [with_interval(metric) for metric in changed_metrics]
        if cells[0] != cells[1]:
            table.add_row(name, *cells)
    if table.row_count:
        plain_console().print(table, "")


def print_audit(console: Console, sheet: Json) -> None:
    """Print what a datasheet says: in words what the judge falls for, else the names of the probes."""
    probes = sheet["probes"]
    console.print(f"Audit with {counted(len(probes), 'probe')}", style="bold")
    console.print(f"  • {sheet['noise']['text']}")
    for probe in probes:
        if probe["state"] in ("falls", "unstable"):
            tone = "bad" if probe["state"] == "falls" else "warn"
            sentences = " ".join(
                text["text"] for text in (probe["what"], *probe["sentences"])
            )
            console.print(
                Text.assemble(
                    "  ",
                    (SYMBOLS[tone], STYLES[tone]),
                    f" {probe['name']}: {sentences}",
                )
            )
    states = {
        "withstands": ("good", "No large effect, as far as these cases can show"),
        "open": ("info", "Not decided; more cases would tell"),
    }
    for state, (tone, words) in states.items():
        if names := [probe["name"] for probe in probes if probe["state"] == state]:
            console.print(
                Text.assemble(
                    "  ",
                    (SYMBOLS[tone], STYLES[tone]),
                    f" {words}: {', '.join(names)}.",
                )
            )
    console.print()


def link(path: Path) -> tuple[str, str]:
    """Return a path as a link that terminals can open."""
    return str(relative(path)), f"link {path.resolve().as_uri()}"


def _print_calls(console: Console, result: RunResult) -> None:
    if brought := result.manifest.get("imported"):
        layout = f" ({brought['format']})" if brought.get("format") else ""
        console.print(
            f"imported: {brought['judgments']} judgments from {brought['source']}{layout}"
        )
        return
    calls = result.calls
    cost = "price unknown" if result.cost_usd is None else dollars(result.cost_usd)
    counts = (
        f"{calls.planned:,} planned, {calls.stored:,} stored, {calls.sent:,} sent, {calls.failed:,}"
        " failed"
    )
    text = f"calls: {counts}; {cost}"
    console.print(text)


def _print_places(console: Console, result: RunResult, notes: int) -> None:
    """Print where the report is; `notes` is the number of notes that were not printed."""
    if result.folder:
        count = sum(metric.value is not None for metric in result.metrics.values())
        content = f"all {count} metrics"
        if notes:
            content += f" and {counted(notes, 'more note')}; -v prints them"
        page = link(Path(result.folder) / "report.html")
        console.print(Text.assemble("report: ", page, f" ({content})"))
        if result.config.probe.probes:
            page = link(Path(result.folder) / f"{DATASHEET}.html")
            console.print(Text.assemble("datasheet: ", page))
    if run_id := result.manifest.get("mlflow_run_id"):
        console.print(f"MLflow: run {run_id}; `evalkit ui` opens it")
    if tracked := result.manifest.get("tracked"):
        console.print(f"{tracked['tracker']}: run {tracked['id']}")


def print_job(result: RunResult) -> None:
    """Print one line about a finished job of a sweep: what differs, what its judge can be used for, calls and cost."""
    sweep = result.manifest["sweep"]
    name = ", ".join(sweep["overrides"]) or result.manifest["judge"]
    use = USES[result.decision.use].message
    calls = result.calls
    parts = [f"{calls.planned:,} calls", f"{calls.sent:,} sent"]
    if calls.failed:
        parts.append(f"{calls.failed:,} failed")
    parts.append(
        "price unknown" if result.cost_usd is None else dollars(result.cost_usd)
    )
    plain_console().print(f"job {sweep['job']}  {name}: {use}; {', '.join(parts)}")


SHOWN = 40
"""The most jobs that a leaderboard shows; the files hold all."""
NAME, DECISION = 26, 16
"""The widths at which the name of a job and its decision are wrapped, in characters."""


def print_leaderboard(board: Leaderboard, files: Sequence[Path]) -> None:
    """Print a leaderboard on standard output: a table for each dataset, the meaning of its marks, and what to use."""
    console = plain_console()
    console.print(
        print_heading(
            f"Leaderboard of {len(board.rows)} jobs",
            f", by {board.by or 'no common metric'}",
        )
    )
    names = folded_names(board)
    conclusions = []
    notes = _legend(board, names)
    for choice in board.choices:
        rows = [row for row in board.folded if row.dataset == choice.dataset]
        dataset = dataset_name(board, choice, {})
        console.print(*([f"\n{dataset}"] if dataset else []))
        table, omitted = leaderboard_table(
            board, rows[:SHOWN], max(WIDTH, terminal_width()), names
        )
        console.print(table)
        if len(rows) > SHOWN:
            console.print(f"and {len(rows) - SHOWN:,} more rows in {files[-1].name}")
        if omitted:
            console.print(f"{len(omitted)} more columns in {files[-1].name}")
        conclusion, *decided = choice_findings(board, choice, names, dataset)
        notes += [finding.text for finding in decided]
        conclusions.append(conclusion)
    console.print()
    for line in notes:
        console.print(line)
    # Without the last separator.
    links = [part for file in files for part in (link(file), ", ")][:-1]
    console.print(Text.assemble("leaderboard: ", *links))
    console.print()
    for finding in conclusions:
        console.print(
            Text.assemble(
                (SYMBOLS[finding.tone], STYLES[finding.tone]), f" {finding.text}"
            )
        )


def leaderboard_table(
    board: Leaderboard,
    rows: Sequence[Standing],
    width: int,
    names: Mapping[str, str] | None = None,
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
    decisions = [USES[row.decision.use].message for row in rows]
    sides = [
        max(map(cell_len, cells), default=0) for cells in (map(_rank, rows), marks)
    ]
    sides.append(min(DECISION, max(map(cell_len, ("decision", *decisions)))))
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
            line for row in rows for line in _cell(row.metrics.get(name)).split("\n")
        )
        lines = [SHORT_TITLES.get(name, name), *cells]
        remaining -= max(map(cell_len, lines)) + 2
        # at least one metric, even if it does not fit
        # Columns come by importance. After the first that does not fit, `remaining` stays
        # negative, so no less important column takes its place.
        if remaining >= 0 or not displayed:
            displayed.add(name)
            room = remaining
    # Chosen by importance, but shown in the order of the board.
    columns = [name for name in board.columns if name in displayed]
    table.add_column("job", max_width=max(NAME, NAME + room), overflow="fold")
    table.add_column("")
    table.add_column("decision", max_width=DECISION)
    for name in columns:
        table.add_column(SHORT_TITLES.get(name, name))
    for row, mark, decision in zip(rows, marks, decisions, strict=True):
        table.add_row(
            _rank(row),
            shown_names[row.job],
            mark,
            decision,
            *(_cell(row.metrics.get(name)) for name in columns),
        )
    return table, [name for name in board.columns if name not in displayed]


def _rank(row: Standing) -> str:
    """Return a rank, with its interval if that includes other ranks."""
    if row.rank_low == row.rank_high:
        return str(row.rank)
    return f"{row.rank} [{row.rank_low}, {row.rank_high}]"


def _cell(metric: Metric | None) -> str:
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


def _legend(board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    lines = [in_every_language(text)[0] for text in no_effect(board)]
    if board.contrasts:
        lines.append(
            "Jobs that share a letter do not differ significantly, which does not show that they"
            f" are equal (Holm, {1 - board.confidence:.2g})."
        )
    lines += [
        f"{names[contradiction.scores]} contradicts {names[contradiction.comparisons]} in "
        f"{_cell(contradiction.metrics[CONTRADICTION]).replace(NEWLINE, ' ')} of the pairs"
        " that both decide."
        for contradiction in board.contradictions[:SHOWN]
    ]
    if any(row.pareto for row in board.rows):
        lines.append(
            "* Useful, and no other useful job is shown to agree as well for less or better for no"
            f" more (within scoring.margin={board.margin:g})."
        )
    return lines
