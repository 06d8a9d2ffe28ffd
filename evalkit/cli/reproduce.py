"""`evalkit reproduce RUN`: the run again from stored answers alone, and every metric compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from evalkit.cli.folders import with_settings
from evalkit.cli.printing import headed, plain_console
from evalkit.config import RunConfig, TrackingConfig
from evalkit.errors import ConfigError, ExitStatus
from evalkit.reproduction import Change, Reproduction, reproduce
from evalkit.tracking import find_run
from evalkit.types import RunResult

PLACES = ("store.url", "dataset.path", "judge.api_base", "tracking.uri")
"""Where things are to be found here: all that may be set, since it is no part of what was measured."""
SOURCES = {"frame": "a frame in Python", "stdin": "standard input"}
MOST_ROWS = 30


def main(words: Sequence[str]) -> int:
    """Do a run again and say whether every metric is the same to the last bit; exit with 4 where one is not.

    The run's folder is not touched, and nothing is sent. `folder=PATH` writes all that differs to reproduction.json.
    """
    run, overrides, folder = _asked(words)
    uri = next((word.partition("=")[2] for word in overrides if word.startswith("tracking.uri=")), None)
    tracking = TrackingConfig() if uri is None else TrackingConfig(uri=uri)
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        result = find_run(run, tracking, folder=Path.cwd(), scratch=Path(scratch))
        found = reproduce(result, with_settings(RunConfig.model_validate(result.config), overrides, PLACES))
    _print(run, result, found)
    if folder is not None:
        _write(folder, run, result, found)
    return int(ExitStatus.DONE if found.equal else ExitStatus.GATE_FAILED)


def _asked(words: Sequence[str]) -> tuple[str, list[str], Path | None]:
    if not words or words[0].startswith("-") or ("=" in words[0] and not Path(words[0]).is_dir()):
        raise ConfigError(
            "needs a run: its folder or MLflow run id",
            where="evalkit reproduce",
            remedy="evalkit reproduce outputs/DATE/RUN",
        )
    folders = [Path(word.partition("=")[2]) for word in words[1:] if word.startswith("folder=")]
    return words[0], [word for word in words[1:] if not word.startswith("folder=")], folders[-1] if folders else None


def _print(run: str, result: RunResult, found: Reproduction) -> None:
    console = plain_console()
    manifest = result.manifest
    dataset = (manifest.get("dataset") or {}).get("name", "")
    title = " · ".join(str(part) for part in (manifest.get("mode"), manifest.get("judge"), dataset) if part)
    console.print(headed(title, f" ({run}, {found.answers} answers)"))
    if manifest.get("imported"):
        console.print("note: imported, so that its own judgments were scored again: no store has them")
    if found.kept:
        text = f"note: its data came from {SOURCES.get(found.kept, found.kept)}, which is gone"
        console.print(f"{text}: the cases that the run kept (cases.jsonl) were judged again")
    if found.carried:
        text = f"note: {found.carried} requests that had failed or been refused are taken as they stood: none is stored"
        console.print(text)
    if found.equal:
        console.print(f"  • Reproduced: all {found.compared} metrics are equal to the last bit.")
    else:
        differing = len({change.what.split(" ")[0] for change in found.metrics})
        console.print(f"  • Not reproduced: {differing} of {found.compared} metrics differ.")
    if found.reasons:
        heading = "what differs, and made no difference" if found.equal else "what differs, and may be why"
        _print_table(console, heading, found.reasons)
    elif not found.equal:
        console.print("  • Data, prompts, versions and answers are the same: the numbers hang on something else.")
    if found.metrics:
        _print_table(console, "metric", found.metrics)


def _print_table(console: Console, heading: str, changes: Sequence[Change]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (heading, "was", "is"):
        table.add_column(column)
    for change in changes[:MOST_ROWS]:
        table.add_row(change.what, _short(change.was), _short(change.now))
    console.print()
    console.print(table)
    if len(changes) > MOST_ROWS:
        console.print(f"and {len(changes) - MOST_ROWS} more; folder=PATH writes them all")


def _short(value: Any) -> str:
    """Return a value for the table: a hash by its beginning, a number in full, since its last bit is the matter."""
    text = "–" if value is None else str(value)
    return text[:12] if len(text) >= 32 and text.isalnum() else text


def _write(folder: Path, run: str, result: RunResult, found: Reproduction) -> None:
    content = {"run": run, "run_id": result.manifest.get("run_id"), "equal": found.equal, **asdict(found)}
    place = folder / "reproduction.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / ".reproduction.json.tmp"
        written.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.replace(place)
    except OSError as bad:
        raise ConfigError(
            f"cannot be written ({bad.strerror or bad})", where=str(folder), remedy="choose another with folder=PATH"
        ) from None
    print(f"written: {place}")
