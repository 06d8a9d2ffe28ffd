"""Two tables at the end of a test run: what became of the hostile outputs, and of the attacks on prompts and answers.

`--tables FILE.md` writes them with a row for each text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

READ = ("A", "B", "TIE")


def outputs(reports: Iterable[pytest.TestReport]) -> list[dict[str, str]]:
    """What each test of `tests/parsing/test_hostile_outputs.py` read, one row for each."""
    rows = [dict(report.user_properties) for report in reports if report.when == "call"]
    return [{name: str(value) for name, value in row.items()} for row in rows if "outcome" in row]


def attacks(
    passed: Iterable[pytest.TestReport], failed: Iterable[pytest.TestReport]
) -> dict[str, tuple[int, int]]:
    """For each kind of attack how many there were, and how many of them had no effect."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for held, reports in ((1, passed), (0, failed)):
        for report in reports:
            if report.when == "call" and "tests/attacks/" in report.nodeid:
                kind = (
                    report.nodeid.partition("::")[2]
                    .partition("[")[0]
                    .removeprefix("test_")
                    .replace("_", " ")
                )
                texts = dict(report.user_properties).get("texts", 1)
                counts[kind][0] += texts
                counts[kind][1] += texts * held
    return {kind: (total, held) for kind, (total, held) in sorted(counts.items())}


def short(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a line for each output format: how many texts, how many were read, what became of the others."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        outcome = row["outcome"]
        found[row["output"]]["read" if outcome in READ or outcome[:1].isdigit() else outcome] += 1
    return [
        f"{name:<12}{sum(kinds.values()):>5} texts: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        for name, kinds in sorted(found.items())
    ]


def write(
    path: Path, rows: Iterable[Mapping[str, str]], found: Mapping[str, tuple[int, int]]
) -> None:
    """Write both tables as Markdown."""
    lines = ["| output | text | outcome |", "| --- | --- | --- |"]
    lines += [f"| {row['output']} | {_cell(row['text'])} | {row['outcome']} |" for row in rows]
    lines += ["", "| attack | texts | without effect |", "| --- | --- | --- |"]
    lines += [f"| {kind} | {total} | {held} |" for kind, (total, held) in found.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _cell(text: str) -> str:
    return repr(text).replace("|", "\\|")


def summarise(reporter: Any, path: str | None) -> None:
    """Print both tables, if their tests were among those that ran, and write them to `path` if there is one."""
    passed, failed = reporter.stats.get("passed", []), reporter.stats.get("failed", [])
    rows, found = outputs([*passed, *failed]), attacks(passed, failed)
    if rows:
        reporter.section("hostile outputs", sep="-")
        for line in short(rows):
            reporter.write_line(line)
    if found:
        reporter.section("attacks", sep="-")
        for kind, (total, held) in found.items():
            reporter.write_line(f"{held:>5} of {total:<5}{kind}")
    if path and (rows or found):
        write(Path(path), rows, found)
        reporter.write_line(f"written to {path}")
