"""The datasheet of a sweep: which judge falls for less, by paired tests on the cases that both answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.audit.datasheet import WORDS, quantity
from evalkit.audit.metrics import p_value
from evalkit.core.display import dollars
from evalkit.core.translation import Message, gettext, in_every_language
from evalkit.report.counts import as_markdown
from evalkit.report.decisions import USES
from evalkit.report.page import filled, language_of, render
from evalkit.report.texts import PAGE
from evalkit.runs import read_cases, read_config
from evalkit.runs.layout import DATASHEET, EFFECTS
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired_tests import holm, letters


def sweep_datasheet(folder: Path, names: Mapping[str, str]) -> dict[str, str]:
    """Return the files of the datasheet of a sweep of audits, by name; empty if fewer than two jobs are audits.

    Args:
        folder: The sweep's folder.
        names: The name of each job, by its folder.
    """
    jobs = [job for job in names if (folder / job / f"{DATASHEET}.json").is_file()]
    if len(jobs) < 2:
        return {}
    sheets = {job: json.loads((folder / job / f"{DATASHEET}.json").read_bytes()) for job in jobs}
    compared = _compare(folder, sheets)
    rows = [_row(job, names[job], sheets[job], compared) for job in jobs]
    rows.sort(key=lambda row: (row["worse"] - row["better"], len(row["falls"])))
    probes = list(dict.fromkeys(one["name"] for sheet in sheets.values() for one in sheet["probes"]))
    config = read_config(folder / jobs[0])
    sheet = {"format": 1, "jobs": rows, "probes": probes, "tests": compared, "confidence": config.scoring.confidence}
    return _files(sheet, folder.name, language_of(config))


def _effects(folder: Path, job: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for line in (folder / job / EFFECTS).read_text("utf-8").splitlines():
        row = json.loads(line)
        # A noisier judge must not look less affected: what is wrong is wrong, without its own noise taken off.
        value = row["shift"] if row["passed"] is None else row["passed"]
        if value is not None:
            found.setdefault(row["probe"], {})[row["case"]] = value
    return found


def _compare(folder: Path, sheets: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the test of each pair of jobs in each probe that both have."""
    effects = {job: _effects(folder, job) for job in sheets}
    tests: list[dict[str, Any]] = []
    for one, two in combinations(sheets, 2):
        cases = read_cases(folder / one)
        clusters = Clusters.of(read_config(folder / one), cases)
        for probe in effects[one].keys() & effects[two].keys():
            mine, theirs = effects[one][probe], effects[two][probe]
            differences = np.array([mine.get(case.id, np.nan) - theirs.get(case.id, np.nan) for case in cases])
            p = p_value(differences, clusters, one_sided=False)
            sizes = [abs(float(np.mean([*values.values()]))) for values in (mine, theirs)]
            worse = (one, two)[sizes[1] > sizes[0]]
            known = int(np.isfinite(differences).sum())
            tests.append({"probe": probe, "jobs": [one, two], "n": known, "p": p, "worse": worse})
    tests.sort(key=lambda test: (test["probe"], test["jobs"]))
    alpha = 1 - float(next(iter(sheets.values()))["confidence"])
    for test, adjusted in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test |= {"p_adjusted": adjusted, "differ": adjusted is not None and adjusted <= alpha}
    return tests


def _row(job: str, name: str, sheet: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    own = [test for test in tests if job in test["jobs"] and test["differ"]]
    worse = sum(test["worse"] == job for test in own)
    return {
        "job": job,
        "name": name,
        "judge": sheet["judge"],
        "decision": (sheet.get("decision") or {}).get("use"),
        "falls": [one["name"] for one in sheet["probes"] if one["state"] == "falls"],
        "worse": worse,
        "better": len(own) - worse,
        "cost_usd": sheet["cost_usd"],
        "metrics": {one["name"]: one["metrics"] for one in sheet["probes"]},
    }


def _findings(sheet: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = {row["job"]: row["name"] for row in sheet["jobs"]}
    found: list[Message] = []
    for test in sheet["tests"]:
        if test["differ"]:
            (other,) = (job for job in test["jobs"] if job != test["worse"])
            text = gettext("{probe}: {worse} is affected more than {better} (p = {p:.2g}, {n:,} cases).")
            values = {"worse": names[test["worse"]], "better": names[other], "p": test["p_adjusted"], "n": test["n"]}
            found.append(text.fill(probe=test["probe"], **values))
    return [in_every_language(text) for text in found or [gettext("No two judges differ significantly in any probe.")]]


def _letters(sheet: Mapping[str, Any], probe: str) -> dict[str, str]:
    jobs = [row["job"] for row in sheet["jobs"] if probe in row["metrics"]]
    differ = [frozenset(test["jobs"]) for test in sheet["tests"] if test["probe"] == probe and test["differ"]]
    return letters(jobs, differ) if differ else {}


def _files(sheet: Mapping[str, Any], title: str, language: str) -> dict[str, str]:
    level = f"{100 * sheet['confidence']:g}%"
    words = {key: filled(text, level=level) for key, text in WORDS.items()}
    costs = [row["cost_usd"] for row in sheet["jobs"]]
    cost = PAGE["unknown"] if None in costs else (dollars(sum(costs)),) * 2
    values = {
        "title": title,
        "start": language,
        "level": level,
        "words": words,
        "facts": [("jobs", (f"{len(sheet['jobs']):,}",) * 2), ("cost", cost)],
        "sheet": sheet,
        "findings": _findings(sheet),
        "letters": {probe: _letters(sheet, probe) for probe in sheet["probes"]},
        "quantity": quantity,
        "uses": {use: in_every_language(text) for use, text in USES.items()},
    }
    return {
        f"{DATASHEET}.json": json.dumps(sheet, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        f"{DATASHEET}.md": _markdown(values, int(language == "zh")),
        f"{DATASHEET}.html": render("datasheet_sweep.html.j2", values, data={}),
    }


def _markdown(values: Mapping[str, Any], language: int) -> str:
    say = {name: as_markdown(text[language]) for name, text in values["words"].items()}
    decisions = {row["job"]: values["uses"].get(row["decision"], ("", ""))[language] for row in values["sheet"]["jobs"]}
    rows = [
        f"| {as_markdown(row['name']).replace('|', chr(92) + '|')} | {decisions[row['job']]} "
        f"| {row['worse']} / {row['better']} "
        f"| {', '.join(map(as_markdown, row['falls']))} |"
        for row in values["sheet"]["jobs"]
    ]
    columns = [say[key] for key in ("configuration", "decision", "lost", "count")]
    head = [f"| {' | '.join(columns)} |", "| --- | --- | --- | --- |"]
    lines = [f"- {as_markdown(text[language])}" for text in values["findings"]]
    return "\n".join([f"# {say['report']}: {as_markdown(values['title'])}", "", *lines, "", *head, *rows, ""])
