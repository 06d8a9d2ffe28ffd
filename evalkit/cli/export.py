"""`evalkit export RUN --to LAYOUT`: a run's judgments as a file for other tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from evalkit.cli.args import pop_options
from evalkit.cli.usage import USAGE
from evalkit.core.atomic_files import write_file
from evalkit.errors import ConfigError, did_you_mean
from evalkit.runs import read_run

RAW = "--raw"
TASKS = ("argilla", "label_studio")
LAYOUTS = ("csv", "parquet", "alpaca_eval", "mt_bench", *TASKS)


def main(words: Sequence[str]) -> int:
    """Write a run's judgments to a file, by default beside the run's own.

    Raises:
        ConfigError: if the words do not say what to write, or the file cannot be written.
    """
    raw = RAW in words
    words = [word for word in words if word != RAW]
    values, rest = pop_options("export", words, ("--to", "--output", "--n", "--seed"), USAGE["export"])
    if len(rest) != 1:
        raise ConfigError("needs a run folder", where="evalkit export", remedy=USAGE["export"])
    layout = values.get("--to", "")
    if layout not in LAYOUTS:
        remedy = did_you_mean(layout, LAYOUTS) if layout else USAGE["export"]
        where = f"--to {layout}" if layout else "evalkit export"
        raise ConfigError("no such layout" if layout else "needs a layout", where=where, remedy=remedy)
    folder, seed = Path(rest[0]), values.get("--seed", "0")
    for option in ("--seed", "--n"):
        if not values.get(option, "0").isdigit():
            where = f"{option} {values[option]}"
            raise ConfigError("is not a whole number", where=where, remedy=f"write {option} 50")
    if "--n" in values and layout not in TASKS:
        remedy = f"leave it out, or use --to {' or '.join(TASKS)}"
        raise ConfigError("holds every judgment, so that --n chooses nothing", where=f"--to {layout}", remedy=remedy)
    if raw and layout != "csv":
        raise ConfigError("is only for csv", where=RAW, remedy="leave it out: no other layout changes a text")
    result = read_run(folder)
    from evalkit.interop.exporters import EXPORTS, export

    file = Path(values.get("--output") or folder / _name(layout, EXPORTS[layout][0]))
    content = export(result, layout, int(seed), int(values["--n"]) if "--n" in values else None, raw=raw)
    _write(file, content)
    count = f"{len(json.loads(content))} tasks" if layout in TASKS else f"{len(result.judgments)} judgments"
    print(f"{count} of {len(result.cases)} cases written to {file}")
    return 0


def _name(layout: str, suffix: str) -> str:
    return f"judgments.{suffix}" if layout == suffix else f"{layout}.{suffix}"


def _write(file: Path, content: bytes) -> None:
    try:
        write_file(file, [content])
    except OSError as bad:
        remedy = "give another --output"
        raise ConfigError(f"cannot be written ({bad.strerror or bad})", where=str(file), remedy=remedy) from None
