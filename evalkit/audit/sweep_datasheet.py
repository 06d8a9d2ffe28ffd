"""The datasheet of a sweep of audits: which judge falls for what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from evalkit.audit.datasheet import WORDS, quantity, written_pages
from evalkit.audit.metrics import (
    p_value,
)
from evalkit.core.display import dollars
from evalkit.core.display import p_value as p_text
from evalkit.core.regular_files import read_file, read_text
from evalkit.core.translation import Message, gettext, in_every_language
from evalkit.core.values import Json, JsonObject
from evalkit.report.findings.decisions import USES
from evalkit.report.page import filled, language_of
from evalkit.report.texts import PAGE
from evalkit.runs import read_cases, read_config
from evalkit.runs.layout import (
    DATASHEET,
    EFFECTS,
)
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import holm, letters


def sweep_datasheet(folder: Path, names: Mapping[str, str]) -> dict[str, str]:
    """Return the files of the datasheet of a sweep of audits, by name; empty if fewer
    than two jobs are audits.

    Args:
        folder: The sweep's folder.
        names: The name of each job, by its folder.
    """
    file_name = f"{DATASHEET}.json"
    jobs = [job for job in names if (folder / job / file_name).is_file()]
    if len(jobs) < 2:
        return {}
    sheets = {job: json.loads(read_file(folder / job / file_name)) for job in jobs}
    compared = _compare_jobs(folder, sheets)
    rows = [_job_row(job, names[job], sheets[job], compared) for job in jobs]
    rows.sort(key=lambda row: (row["worse"] - row["better"], len(row["falls"])))
    probes = list(
        dict.fromkeys(
            probe["name"] for sheet in sheets.values() for probe in sheet["probes"]
        )
    )
    config = read_config(folder / jobs[0])
    sheet = {
        "format": 1,
        "jobs": rows,
        "probes": probes,
        "tests": compared,
        "confidence": config.scoring.confidence,
    }
    return _pages(sheet, folder.name, language_of(config))


def _effects(folder: Path, job: str) -> dict[str, dict[str, float]]:
    effects: dict[str, dict[str, float]] = {}
    for line in read_text(folder / job / EFFECTS).splitlines():
        row = json.loads(line)
        # A noisier judge must not look less affected: what is wrong is wrong, without its own noise
        # taken off.
        value = row["shift"] if row["passed"] is None else row["passed"]
        if value is not None:
            # probe -> case -> its effect
            effects.setdefault(row["probe"], {})[row["case"]] = value
    return effects


def _compare_jobs(folder: Path, sheets: Json) -> list[JsonObject]:
    """Return the test of each pair of jobs in each probe that both have, as in the datasheet's
    JSON.

    P-values are adjusted for all of these tests (Holm's method).

    Args:
        folder: The folder of the sweep.
        sheets: The datasheet of each job; at least one.
    """
    effects = {job: _effects(folder, job) for job in sheets}
    tests: list[JsonObject] = []
    for first, second in combinations(sheets, 2):
        cases = read_cases(folder / first)
        clusters = Clusters.of(read_config(folder / first), cases)
        for probe in effects[first].keys() & effects[second].keys():
            mine = effects[first][probe]
            theirs = effects[second][probe]
            # shape (cases,); NaN where either job has no value
            differences = np.array(
                [
                    mine.get(case.id, np.nan) - theirs.get(case.id, np.nan)
                    for case in cases
                ]
            )
            p = p_value(differences, clusters, one_sided=False)
            mine_size = abs(float(np.mean([*mine.values()])))
            their_size = abs(float(np.mean([*theirs.values()])))
            worse = first
            if their_size > mine_size:
                worse = second
            count = int(np.isfinite(differences).sum())
            tests.append(
                {
                    "probe": probe,
                    "jobs": [first, second],
                    "n": count,
                    "p": p,
                    "worse": worse,
                }
            )
    # `keys() & keys()` has no order
    tests.sort(key=lambda test: (test["probe"], test["jobs"]))
    first_sheet = next(iter(sheets.values()))
    alpha = 1 - float(first_sheet["confidence"])
    p_values = holm([test["p"] for test in tests])
    for test, adjusted in zip(tests, p_values, strict=True):
        test |= {
            "p_adjusted": adjusted,
            "differ": adjusted is not None and adjusted <= alpha,
        }
    return tests


def _job_row(job: str, name: str, sheet: Json, tests: Sequence[Json]) -> JsonObject:
    """Return the row of a job: the probes that it falls for, and its significant differences."""
    differing = [test for test in tests if job in test["jobs"] and test["differ"]]
    worse = sum(test["worse"] == job for test in differing)
    return {
        "job": job,
        "name": name,
        "judge": sheet["judge"],
        "decision": (sheet.get("decision") or {}).get("use"),
        "falls": [
            probe["name"] for probe in sheet["probes"] if probe["state"] == "falls"
        ],
        "worse": worse,
        "better": len(differing) - worse,
        "cost_usd": sheet["cost_usd"],
        "metrics": {probe["name"]: probe["metrics"] for probe in sheet["probes"]},
    }


def _sentences(sheet: Json) -> list[tuple[str, str]]:
    """Return which judges differ in a probe, each sentence in English and Chinese; one sentence
    if none do.
    """
    names = {row["job"]: row["name"] for row in sheet["jobs"]}
    messages: list[Message] = []
    for test in sheet["tests"]:
        if test["differ"]:
            (better,) = (job for job in test["jobs"] if job != test["worse"])
            text = gettext(
                "{probe}: {worse} is affected more than {better} (p {p}, {n:,} cases)."
            )
            values = {
                "worse": names[test["worse"]],
                "better": names[better],
                "p": p_text(test["p_adjusted"], "= "),
                "n": test["n"],
            }
            messages.append(text.fill(probe=test["probe"], **values))
    return [
        in_every_language(text)
        for text in messages
        or [gettext("No two judges differ significantly in any probe.")]
    ]


def _letters(sheet: Json, probe: str) -> dict[str, str]:
    jobs = [row["job"] for row in sheet["jobs"] if probe in row["metrics"]]
    differ = [
        frozenset(test["jobs"])
        for test in sheet["tests"]
        if test["probe"] == probe and test["differ"]
    ]
    if differ:
        return letters(jobs, differ)
    return {}


def _pages(sheet: Json, title: str, language: str) -> dict[str, str]:
    """Return the files of a sweep's datasheet by name: its JSON and a page for each format."""
    level = f"{100 * sheet['confidence']:g}%"
    words = {key: filled(text, level=level) for key, text in WORDS.items()}
    costs = [row["cost_usd"] for row in sheet["jobs"]]
    cost = PAGE["unknown"]
    if None not in costs:
        cost = (dollars(sum(costs)),) * 2
    values = {
        "title": title,
        "start": language,
        "level": level,
        "words": words,
        "facts": [("jobs", (f"{len(sheet['jobs']):,}",) * 2), ("cost", cost)],
        "sheet": sheet,
        "findings": _sentences(sheet),
        "letters": {probe: _letters(sheet, probe) for probe in sheet["probes"]},
        "quantity": quantity,
        "uses": {use: in_every_language(text) for use, text in USES.items()},
    }
    return written_pages("datasheet_sweep", sheet, values)
