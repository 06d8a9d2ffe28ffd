"""A gate for machines and people: gate.json, JUnit's XML, and a summary in Markdown."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from evalkit.errors import ConfigError
from evalkit.runs import remove_files, write_run, written_files
from evalkit.runs.layout import FILES
from evalkit.scoring.gate_rules import Gate, Ruling
from evalkit.types import RunResult

JSON, JUNIT, MARKDOWN = "gate.json", "gate.xml", "gate.md"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = {"held": "✅ held", "failed": "❌ failed", "undecided": "❔ undecided"}


def gate_files(gate: Gate, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a gate by name."""
    title = title_of(manifest)
    return {
        JSON: json.dumps(gate.json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        JUNIT: junit(gate, title),
        MARKDOWN: markdown(gate, title),
    }


def title_of(manifest: Mapping[str, Any]) -> str:
    """Return what a run goes by: mode, judge and data."""
    dataset = (manifest.get("dataset") or {}).get("name")
    return " · ".join(str(part) for part in (manifest.get("mode"), manifest.get("judge"), dataset) if part)


def junit(gate: Gate, title: str) -> str:
    """Return JUnit's XML: a test case for each rule; an undecided one is skipped, or failed where a gate is strict."""
    failed = [ruling for ruling in gate.rulings if _counts_as_failed(ruling, gate)]
    skipped = [ruling for ruling in gate.rulings if ruling.state == "undecided" and not gate.strict]
    counts = {"tests": len(gate.rulings), "failures": len(failed), "errors": 0, "skipped": len(skipped)}
    counted = {name: str(count) for name, count in counts.items()}
    root = Xml.Element("testsuites", {"name": "evalkit", **counted})
    suite = Xml.SubElement(root, "testsuite", {"name": _xml(title), **counted})
    for ruling in gate.rulings:
        case = Xml.SubElement(
            suite, "testcase", {"classname": _xml(f"evalkit.{title}"), "name": _xml(f"{ruling.metric} {ruling.rule}")}
        )
        said = _xml(f"{ruling.state}: {ruling.why}")
        if ruling in failed:
            Xml.SubElement(case, "failure", {"message": said, "type": ruling.state}).text = said
        elif ruling in skipped:
            Xml.SubElement(case, "skipped", {"message": said})
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _counts_as_failed(ruling: Ruling, gate: Gate) -> bool:
    return ruling.state == "failed" or (gate.strict and ruling.state == "undecided")


def _xml(text: str) -> str:
    return _NOT_XML.sub("�", text)


def markdown(gate: Gate, title: str) -> str:
    """Return a summary in GitHub's Markdown: the state, and a row for each rule."""
    strict = ", as `gate.undecided` is `fail`" if gate.strict and gate.state == "failed" else ""
    rows = [
        f"| {_MARKS[one.state]} | {' | '.join(map(_cell, (one.metric, one.rule, one.why)))} | {one.n} | {one.missing} |"
        for one in gate.rulings
    ]
    head = [
        f"### Gate {gate.state}: {_cell(title)}{strict}",
        "",
        "| | metric | rule | found | n | missing |",
        "| --- | --- | --- | --- | ---: | ---: |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def gate_lines(gate: Mapping[str, Any]) -> list[str]:
    """Return a gate, as the manifest has it, in lines of plain text: the state, and each rule under it."""
    rules = gate["rules"]
    rows = [(one["state"], one["metric"], one["rule"], one["why"]) for one in rules]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
    return [gate_title(gate), *("  " + "  ".join(_padded(row, widths)) for row in rows)]


def gate_title(gate: Mapping[str, Any]) -> str:
    """Return in a line what became of a gate, as the manifest has it."""
    states = [one["state"] for one in gate["rules"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in _MARKS if state in states)
    strict = ", and gate.undecided is fail" if gate["state"] == "failed" and "failed" not in states else ""
    return f"gate {gate['state']}: {counts}{strict}"


def gate_faults(gate: Mapping[str, Any]) -> str:
    """Return in a line which rules a gate failed by, as the manifest has it."""
    rules = gate["rules"]
    bad = [one for one in rules if one["state"] == "failed"] or [one for one in rules if one["state"] == "undecided"]
    return "; ".join(f"{one['metric']} {one['rule']} {one['state']}: {one['why']}" for one in bad)


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]]


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*_\[\]])", r"\\\1", text)


def write_with_gate(
    folder: Path,
    result: RunResult,
    files: Mapping[str, str],
    gate: Mapping[str, str],
    *,
    replace_run: bool = False,
) -> RunResult:
    """Write a run with its other files and its gate's, and remove the files of an earlier gate if there is none now.

    With `replace_run`, remove every file of the run that was in the folder before.

    Raises:
        ConfigError: if the folder cannot be written.
    """
    stale = written_files(folder) if replace_run else {JSON, JUNIT, MARKDOWN}
    names = {*files, *gate, *(() if replace_run else result.manifest.get("files") or ())}
    result = replace(result, manifest={**result.manifest, "files": sorted(name for name in names if "/" not in name)})
    written = write_run(folder, result, {**files, **gate})
    remove_files(folder, stale - {*FILES, *files, *gate})
    return written


def write_step_summary(folder: str | None) -> None:
    """Append a run's summary of its gate, if it has one, to the file that GitHub Actions shows, where it runs this.

    Raises:
        ConfigError: if the file cannot be written.
    """
    place = os.environ.get(STEP_SUMMARY)
    if not place or folder is None or not (written := Path(folder) / MARKDOWN).is_file():
        return
    try:
        text = written.read_text(encoding="utf-8")
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as bad:
        raise ConfigError(f"cannot be written ({bad.strerror or bad})", where=f"${STEP_SUMMARY} {place}") from None
