"""The printed summary of a run or sweep: its findings, then the main metrics with their
intervals.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evalkit.cli.console import (
    is_verbose,
    plain_console,
    print_heading,
    text_table,
)
from evalkit.cli.language import ENGLISH, Speaker, speaker
from evalkit.core.display import dollars, number, relative, with_interval
from evalkit.core.regular_files import read_text
from evalkit.core.translation import Message, gettext, joined, ngettext, pgettext
from evalkit.core.types import Metric
from evalkit.core.values import Json, frozen
from evalkit.report.findings import TABLES, Finding, conclusion, findings_of
from evalkit.report.findings.decisions import USES
from evalkit.report.texts import note_text
from evalkit.runs import read_config, read_details
from evalkit.runs.layout import CAUSES, DATASHEET
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import CATALOG, JUDGE_COLUMNS, MAIN_COLUMNS
from evalkit.scoring.decision import decide_for_judges
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
LINES = 20
"""The most lines that it has without `-v`, unless there is a datasheet, many judges or
a long gate.
"""
LEAST_FINDINGS = 2
"""The findings that are shown before any metric."""
HEADING, FRAME = 2, 3
"""The lines of a heading, and of a table in addition to its rows, with the empty lines."""
BRIEF_FINDINGS = 5
"""The most findings that it shows without `-v`, in addition to the decision."""
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
    """Return whether a coefficient is undefined despite data: all labels are of one
    class, or all scores are equal.
    """
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


def _worst(metric: Metric, say: Speaker) -> str:
    """Return the value of a metric if every missing answer had lowered or raised it."""
    if not metric.missing or metric.worst_low is None or metric.worst_high is None:
        return ""
    low = number(metric.worst_low)
    high = number(metric.worst_high)
    return say(gettext("{low} to {high}", low=low, high=high))


def metric_table(
    metrics: Mapping[str, Metric],
    confidence: float,
    limit: int = ROWS,
    say: Speaker = ENGLISH,
) -> Table:
    """Return a table of the main metrics of a run, at most `limit`; its folder and
    report have all.
    """
    table = text_table((say(gettext("metric")),), (say(gettext("value")),))
    table.add_column(say(gettext("{level} interval", level=f"{confidence:.0%}")))
    table.add_column("n", justify="right")
    table.add_column(say(gettext("missing")), justify="right")
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
        table.add_column(say(gettext("worst case")))
    for metric in displayed:
        missing = f"{metric.missing:,}" if metric.missing else ""
        value = number(metric.value)
        if _undefined(metric):
            value = say(gettext("not defined"))
        cells = [metric.name, value, interval(metric), f"{metric.n:,}", missing]
        table.add_row(*cells, *([_worst(metric, say)] if lacking else []))
    return table


def judge_table(
    metrics: Mapping[str, Metric], confidence: float = 0.95, say: Speaker = ENGLISH
) -> Table | None:
    """Return the table of a panel's judges with the decision about each; `None` without a panel."""
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
        (say(gettext("judge")), say(gettext("decision"))),
        (name.removeprefix("agreement/") for name in columns),
    )
    decisions = decide_for_judges(metrics, confidence)
    for judge in judges:
        judge_metrics = [_of(metrics, judge, name) for name in columns]
        if judge in decisions:
            decision = say(USES[decisions[judge].use])
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


def subset_table(rows: Sequence[Json], say: Speaker = ENGLISH) -> Table:
    """Return the table of subsets of a panel's judges that could vote instead.

    These are the subsets that no cheaper one equals in accuracy, the chosen one, and the whole.
    """
    headings = (
        gettext("accuracy"),
        gettext("interval"),
        gettext("$ per case"),
    )
    table = text_table((say(gettext("judges that vote")),), map(say, headings))
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
    """Print a finished run on standard output, without the notes that the command has
    already printed.

    Without `-v`: the decision, at most five findings that change what one does, six metrics and
    where the report is.
    """
    console = plain_console()
    say = speaker(result.config)
    manifest = result.manifest
    # Details are only in the files of a run folder.
    details = read_details(Path(result.folder), TABLES) if result.folder else {}
    decision = conclusion(result)
    findings = [
        # The decision is printed first, and must not be repeated as a finding.
        finding
        for finding in findings_of(result, details)
        if finding not in decision
    ]
    judges = judge_table(result.metrics, result.config.scoring.confidence, say)
    gate = gate_lines(manifest[GATE]) if manifest.get(GATE) else []
    calls = _calls(result, details, say)
    notes = [note for note in manifest.get("notes", []) if note not in noted]
    fixed = len(decision) + len(calls) + len(_places(result, 0, say))
    fixed += judges.row_count + FRAME - 1 if judges else 0
    # After the gate's rules comes an empty line, and at the end how many of them passed.
    fixed += len(gate) + 2 if gate else 0
    sizes = _sizes(result, findings, len(notes), LINES - HEADING - fixed)

    heading = (
        f"{manifest['mode']} · {manifest['judge']} · {manifest['dataset']['name']}"
    )
    rows = ngettext("{n} case", "{n} cases", manifest["dataset"]["rows"])
    console.print(print_heading(heading, f" ({say(rows)})"))
    for finding in (*decision, *sizes.findings):
        symbol = (SYMBOLS[finding.tone], STYLES[finding.tone])
        console.print(Text.assemble("  ", symbol, f" {say.finding(finding)}"))
    console.print()
    main = metric_table(
        result.metrics, result.config.scoring.confidence, sizes.metrics, say
    )
    if main.row_count:
        console.print(main, "")
    if judges:
        console.print(judges, "")
    subsets = details.get("panel", {}).get("subsets")
    if subsets and is_verbose():
        console.print(subset_table(subsets, say), "")
    if result.config.probe.probes and result.folder:
        sheet = Path(result.folder) / f"{DATASHEET}.json"
        print_audit(console, json.loads(read_text(sheet)), say)
    if gate:
        console.print("\n".join([*gate, ""]))
    for line in calls:
        console.print(line)
    for note in notes[: sizes.notes]:
        console.print(say(gettext("note: {note}", note=note_text(note))))
    for place in _places(result, max(0, len(notes) - sizes.notes), say):
        console.print(place)


@frozen
class _Sizes:
    """What a summary shows: which findings, and how many metrics and notes."""

    findings: Sequence[Finding]
    metrics: int
    notes: int


def _sizes(
    result: RunResult, findings: Sequence[Finding], notes: int, room: int
) -> _Sizes:
    """Return what of a run fits into `room` lines: all of it with `-v`, else what
    changes what one does.
    """
    if is_verbose():
        return _Sizes(findings, ROWS, notes)
    urgent = [finding for finding in findings if finding.tone == "bad"]
    urgent += [finding for finding in findings if finding.tone == "warn"]
    # A datasheet has findings of its own below.
    if result.config.probe.probes:
        room = LINES
    kept = max(LEAST_FINDINGS, room - BRIEF_ROWS - FRAME)
    shown = urgent[: min(BRIEF_FINDINGS, kept)]
    metrics = min(BRIEF_ROWS, max(0, room - len(shown) - FRAME))
    remaining = max(0, room - len(shown) - metrics - FRAME)
    # What an import could not use is part of its result.
    brief = notes if "imported" in result.manifest else min(BRIEF_NOTES, remaining)
    return _Sizes(shown, metrics, brief)


def print_changes(before: RunResult, after: RunResult) -> None:
    """Print the decision and the main metrics that new labels have changed."""
    say = speaker(after.config)
    headings = (
        gettext("changed by the labels"),
        pgettext("labels", "before"),
        pgettext("labels", "after"),
    )
    table = text_table(map(say, headings))
    if before.decision.use != after.decision.use:
        uses = [say(USES[run.decision.use]) for run in (before, after)]
        table.add_row(say(gettext("decision")), *uses)
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


def print_audit(console: Console, sheet: Json, say: Speaker) -> None:
    """Print what a datasheet says the judge falls for, or else the names of the probes."""
    probes = sheet["probes"]
    heading = ngettext("Audit with {n} probe", "Audit with {n} probes", len(probes))
    console.print(say(heading), style="bold")
    console.print(f"  • {say.of(sheet['noise'])}")
    for probe in probes:
        if probe["state"] in ("falls", "unstable"):
            tone = "bad" if probe["state"] == "falls" else "warn"
            sentences = " ".join(
                say.of(text) for text in (probe["what"], *probe["sentences"])
            )
            console.print(
                Text.assemble(
                    "  ",
                    (SYMBOLS[tone], STYLES[tone]),
                    f" {probe['name']}: {sentences}",
                )
            )
    states = {
        "withstands": (
            "good",
            gettext("No large effect, as far as these cases can show: {names}."),
        ),
        "open": ("info", gettext("Not decided; more cases would tell: {names}.")),
    }
    for state, (tone, text) in states.items():
        if names := [probe["name"] for probe in probes if probe["state"] == state]:
            console.print(
                Text.assemble(
                    "  ",
                    (SYMBOLS[tone], STYLES[tone]),
                    f" {say(text.fill(names=joined(names)))}",
                )
            )
    console.print()


def link(path: Path) -> tuple[str, str]:
    """Return a path as a link that terminals can open."""
    return str(relative(path)), f"link {path.resolve().as_uri()}"


def _calls(result: RunResult, details: Json, say: Speaker) -> list[str]:
    """Return the lines about what a run has asked, or from where its judgments come."""
    if imported := result.manifest.get("imported"):
        layout = f" ({imported['format']})" if imported.get("format") else ""
        text = ngettext(
            "imported: {n} judgment from {source}",
            "imported: {n} judgments from {source}",
            imported["judgments"],
            source=f"{imported['source']}{layout}",
        )
        lines = [say(text)]
    else:
        calls = result.calls
        text = gettext(
            "calls: {planned} planned, {stored} stored, {sent} sent, {failed} failed; {cost}",
            planned=f"{calls.planned:,}",
            stored=f"{calls.stored:,}",
            sent=f"{calls.sent:,}",
            failed=f"{calls.failed:,}",
            cost=_cost(result),
        )
        lines = [say(text)]
    if CAUSES in details and result.folder:
        folder = shlex.quote(str(relative(Path(result.folder))))
        command = f"evalkit export {folder} --to csv"
        lines.append(say(gettext("unusable answers: {command}", command=command)))
    return lines


def _cost(result: RunResult) -> Message:
    """Return what a run has cost in words."""
    if result.cost_usd is None:
        return gettext("price unknown")
    return dollars(result.cost_usd)


def _places(result: RunResult, notes: int, say: Speaker) -> list[Text]:
    """Return the lines that say where the report is; `notes` is the number of notes
    that were not printed.
    """
    lines: list[Text] = []
    if result.folder:
        count = sum(metric.value is not None for metric in result.metrics.values())
        content = gettext("all {count} metrics", count=count)
        if notes:
            content = ngettext(
                "all {count} metrics and {n} more note; -v prints it",
                "all {count} metrics and {n} more notes; -v prints them",
                notes,
                count=count,
            )
        page = link(Path(result.folder) / "report.html")
        heading = say(gettext("report: {path}", path=""))
        lines.append(Text.assemble(heading, page, f" ({say(content)})"))
        if result.config.probe.probes:
            page = link(Path(result.folder) / f"{DATASHEET}.html")
            lines.append(Text.assemble(say(gettext("datasheet: ")), page))
    if run_id := result.manifest.get("mlflow_run_id"):
        text = gettext("MLflow: run {run}; `evalkit ui` opens it", run=run_id)
        lines.append(Text(say(text)))
    if tracked := result.manifest.get("tracked"):
        text = gettext(
            "{tracker}: run {run}", tracker=tracked["tracker"], run=tracked["id"]
        )
        lines.append(Text(say(text)))
    return lines


def print_job(result: RunResult) -> None:
    """Print one line about a finished job of a sweep.

    What differs from the other jobs, what its judge can be used for, calls and cost.
    """
    say = speaker(result.config)
    sweep = result.manifest["sweep"]
    calls = result.calls
    parts: list[Message] = [
        ngettext("{n:,} call", "{n:,} calls", calls.planned),
        gettext("{n} sent", n=f"{calls.sent:,}"),
    ]
    if calls.failed:
        parts.append(gettext("{n} failed", n=f"{calls.failed:,}"))
    parts.append(_cost(result))
    text = gettext(
        "job {job}  {name}: {use}; {parts}",
        job=sweep["job"],
        name=", ".join(sweep["overrides"]) or result.manifest["judge"],
        use=USES[result.decision.use],
        parts=joined(parts),
    )
    plain_console().print(say(text))


def print_report(folder: Path) -> None:
    """Print where the report of the only job of a sweep is."""
    say = speaker(read_config(folder))
    heading = say(gettext("report: {path}", path=""))
    plain_console().print(Text.assemble(heading, link(folder / "report.html")))


def print_recording(manifest: Json, say: Speaker) -> None:
    """Print under which id a tracker has recorded a job of a sweep; nothing if it has no id."""
    tracked = manifest.get("tracked") or {
        "tracker": "MLflow",
        "id": manifest.get("mlflow_run_id"),
    }
    if tracked["id"]:
        text = gettext(
            "{tracker}: run {run} is job {job}",
            tracker=tracked["tracker"],
            run=tracked["id"],
            job=(manifest.get("sweep") or {}).get("job"),
        )
        print(say(text), flush=True)
