"""Write a gate's outcome for machines and people: gate.json, JUnit XML, and a Markdown summary."""

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
from evalkit.results import RunResult
from evalkit.runs import remove_files, write_run, written_files
from evalkit.runs.layout import files_of
from evalkit.scoring.gate_rules import Gate, Ruling

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
    """Return a run's title: its mode, judge and data."""
    dataset = (manifest.get("dataset") or {}).get("name")
    return " · ".join(str(part) for part in (manifest.get("mode"), manifest.get("judge"), dataset) if part)


def junit(gate: Gate, title: str) -> str:
    """Return JUnit XML with a test case per rule; an undecided rule is skipped, or failed if the gate is strict."""
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
        message = _xml(f"{ruling.state}: {ruling.why}")
        if ruling in failed:
            Xml.SubElement(case, "failure", {"message": message, "type": ruling.state}).text = message
        elif ruling in skipped:
            Xml.SubElement(case, "skipped", {"message": message})
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _counts_as_failed(ruling: Ruling, gate: Gate) -> bool:
    return ruling.state == "failed" or (gate.strict and ruling.state == "undecided")


def _xml(text: str) -> str:
    return _NOT_XML.sub("�", text)


def markdown(gate: Gate, title: str) -> str:
    """Return a summary in GitHub's Markdown: the state, and a row per rule."""
    strict = ", because `gate.undecided` is `fail`" if gate.strict and gate.state == "failed" else ""
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
    """Return a gate from a manifest as lines of plain text: the state, then one line per rule."""
    rules = gate["rules"]
    rows = [(one["state"], one["metric"], one["rule"], one["why"]) for one in rules]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
    return [gate_title(gate), *("  " + "  ".join(_padded(row, widths)) for row in rows)]


def gate_title(gate: Mapping[str, Any]) -> str:
    """Return the outcome of a gate from a manifest, on one line."""
    states = [one["state"] for one in gate["rules"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in _MARKS if state in states)
    strict = ", because gate.undecided is fail" if gate["state"] == "failed" and "failed" not in states else ""
    return f"gate {gate['state']}: {counts}{strict}"


def gate_faults(gate: Mapping[str, Any]) -> str:
    """Return the rules that made a gate fail, on one line, from a manifest."""
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
    """Write a run with its files and its gate's files, and remove the files of an earlier gate.

    Args:
        folder: The run folder.
        result: The run.
        files: Additional files by name.
        gate: The gate's files by name; empty without a gate.
        replace_run: Whether to also remove all other files of the run that was in the folder.

    Raises:
        ConfigError: If the folder cannot be written.
    """
    stale = written_files(folder) if replace_run else {JSON, JUNIT, MARKDOWN}
    names = {*files, *gate, *(() if replace_run else result.manifest.get("files") or ())}
    result = replace(result, manifest={**result.manifest, "files": sorted(name for name in names if "/" not in name)})
    written = write_run(folder, result, {**files, **gate})
    remove_files(folder, stale - {*files_of(result.config), *files, *gate})
    return written


def write_step_summary(folder: str | None) -> None:
    """Append the summary of a run's gate, if it has one, to GitHub Actions' step summary, if there is one.

    Raises:
        ConfigError: If the file cannot be written.
    """
    target = os.environ.get(STEP_SUMMARY)
    if not target or folder is None or not (summary := Path(folder) / MARKDOWN).is_file():
        return
    try:
        text = summary.read_text(encoding="utf-8")
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as bad:
        raise ConfigError(
            f"cannot be written ({bad.strerror or bad})",
            where=f"${STEP_SUMMARY} {target}",
            remedy="check its permissions",
        ) from None
