"""`evalkit reproduce RUN`: repeat a run, or every job of a sweep, from its files, and compare every metric."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from evalkit.cli.console import log, plain_console, print_heading
from evalkit.cli.finished_run import apply_settings, check_named
from evalkit.config import TrackingConfig
from evalkit.errors import ConfigError, EvalkitError, ExitStatus
from evalkit.reproduction import MetricChange, Reproduction, reproduce
from evalkit.results import RunResult
from evalkit.runs import write_files
from evalkit.runs.layout import JUDGMENTS
from evalkit.sweeps.journal import find_jobs
from evalkit.tracking import find_run

PLACES = ("store.url", "dataset.path", "judge.api_base", "tracking.uri")
"""The only keys that may be set: locations, which are not part of the measurement."""
REPORT = "reproduction.json"
FOLDER = "folder="
MOST_ROWS = 30


def main(arguments: Namespace) -> int:
    """Reproduce a run, or every job of a sweep; exit with 4 if a metric differs.

    The run folder is not changed and no judge is called.
    """
    check_named(arguments, "a run or a sweep: its folder or MLflow run id")
    run, folder = arguments.run_folder, arguments.output
    overrides = [word for word in arguments.overrides if not word.startswith(FOLDER)]
    if folder is None and (named := [word for word in arguments.overrides if word.startswith(FOLDER)]):
        folder = Path(named[-1].removeprefix(FOLDER))
    uri = next((word.partition("=")[2] for word in overrides if word.startswith("tracking.uri=")), None)
    tracking = TrackingConfig() if uri is None else TrackingConfig(uri=uri)
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        jobs = find_jobs(run, tracking, folder=Path.cwd(), scratch=Path(scratch))
        if jobs is not None:
            return _reproduce_jobs(run, jobs, overrides, folder)
        result = find_run(run, tracking, folder=Path.cwd(), scratch=Path(scratch))
        found = _reproduced(result, overrides)
    _print(run, result, found)
    if folder is not None:
        _write(folder, _content(run, result, found))
    return int(ExitStatus.DONE if found.equal else ExitStatus.GATE_FAILED)


def _reproduced(result: RunResult, overrides: Sequence[str]) -> Reproduction:
    config = apply_settings(result, overrides, PLACES)
    named = {word.partition("=")[0] for word in overrides}
    return reproduce(result, config, from_dataset="dataset.path" in named, from_store="store.url" in named)


def _reproduce_jobs(
    sweep: str, jobs: Mapping[str, Callable[[], RunResult]], overrides: Sequence[str], folder: Path | None
) -> int:
    """Reproduce each job of a sweep and print a line for it; a job that cannot be read does not stop the others."""
    status, contents, equal = ExitStatus.DONE, [], 0
    for name, fetch in jobs.items():
        try:
            result = fetch()
            found = _reproduced(result, overrides)
        except EvalkitError as error:
            log("error", f"{name}: {error}")
            status = max(status, error.status)
            continue
        contents.append(_content(name, result, found))
        equal += found.equal
        status = status if found.equal else max(status, ExitStatus.GATE_FAILED)
        print(f"{name}: {_in_one_line(found)}")
    print(f"{sweep}: {equal} of {len(jobs)} jobs reproduced")
    if folder is not None:
        _write(folder, {"run": sweep, "equal": equal == len(jobs), "jobs": contents})
    return int(status)


def _in_one_line(found: Reproduction) -> str:
    if found.equal:
        return f"reproduced, all {found.compared} metrics are equal{_added_metrics(found)} ({_what_was_checked(found)})"
    first = found.metrics[0]
    differing = len({change.what.split(" ")[0] for change in found.metrics})
    example = f"{first.what} was {_short(first.was)}, is {_short(first.now)}"
    return f"not reproduced, {differing} of {found.compared} metrics differ, for example {example}"


def _added_metrics(found: Reproduction) -> str:
    if not found.added:
        return ""
    count = len(found.added)
    return f", and this evalkit has {count} that the run lacks: {', '.join(found.added[:3])}{', …' * (count > 3)}"


def _what_was_checked(found: Reproduction) -> str:
    """Describe what was repeated, and from which sources."""
    if found.sources == (JUDGMENTS,):
        return f"its {found.answers} judgments were scored again"
    done = f"{found.prompts} of {found.answers} prompts have the same content keys"
    return f"from {', '.join(found.sources)}: {done}, answers were parsed and scored again"


def _print(run: str, result: RunResult, found: Reproduction) -> None:
    console = plain_console()
    manifest = result.manifest
    dataset = (manifest.get("dataset") or {}).get("name", "")
    title = " · ".join(str(part) for part in (manifest.get("mode"), manifest.get("judge"), dataset) if part)
    console.print(print_heading(title, f" ({run}, {found.answers} answers)"))
    if found.missing:
        console.print(f"note: {found.missing}, so the dataset and the store were read")
    if manifest.get("imported"):
        console.print("note: an imported run has no prompts to render and no answers to parse again")
    if found.carried:
        console.print(f"note: {found.carried} failed requests have no answer and are copied as failures")
    if found.equal:
        console.print(f"  • Reproduced: all {found.compared} metrics are equal to the last bit{_added_metrics(found)}.")
    else:
        differing = len({change.what.split(" ")[0] for change in found.metrics})
        console.print(f"  • Not reproduced: {differing} of {found.compared} metrics differ.")
    console.print(f"  • Checked {_what_was_checked(found)}. No judge was called.")
    if found.reasons:
        heading = "difference without effect on metrics" if found.equal else "difference that may be the reason"
        _print_table(console, heading, found.reasons)
    elif not found.equal:
        console.print("  • Data, prompts, versions and answers are the same: the cause is elsewhere.")
    if found.metrics:
        _print_table(console, "metric", found.metrics)


def _print_table(console: Console, heading: str, changes: Sequence[MetricChange]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (heading, "was", "is"):
        table.add_column(column)
    for change in changes[:MOST_ROWS]:
        table.add_row(change.what, _short(change.was), _short(change.now))
    console.print()
    console.print(table)
    if len(changes) > MOST_ROWS:
        console.print(f"and {len(changes) - MOST_ROWS} more; --output FOLDER writes them all")


def _short(value: Any) -> str:
    """Shorten a hash; keep all digits of a number, because its last bit matters."""
    text = "–" if value is None else str(value)
    return text[:12] if len(text) >= 32 and text.isalnum() else text


def _content(run: str, result: RunResult, found: Reproduction) -> dict[str, Any]:
    return {"run": run, "run_id": result.manifest.get("run_id"), "equal": found.equal, **asdict(found)}


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    try:
        write_files(folder, {REPORT: json.dumps(content, indent=1, ensure_ascii=False) + "\n"})
    except ConfigError as error:
        raise ConfigError(error.what, where=error.where, remedy="choose another --output") from None
    print(f"written: {folder / REPORT}")
