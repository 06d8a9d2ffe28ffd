"""The verdicts of several runs on the same cases, next to each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from evalkit.core.display import letter
from evalkit.core.types import Unit, Verdict
from evalkit.runs import records
from evalkit.runs.read import read_outcome

LARGEST: Final = 20_000
"""The most verdicts of a run that are compared; `verdicts.jsonl` has all."""
PAGE: Final = "cases.html"
"""The page with the same verdicts, and texts and reasons."""
SAME: Final = "same"
COLUMNS: Final = ("case", "responses", "label", SAME)


def side_by_side(folder: Path, names: Mapping[str, str]) -> str:
    """Return as CSV what each run decided about each case, the cases on which they differ first.

    A row has the case, its responses by letter, the label, whether all verdicts are the same (1 or
    0), and the verdict of each run in a column with its name. A missing verdict is `missing`; where
    a run has no such case, the cell is empty.

    Args:
        folder: The folder of the runs, as of a sweep.
        names: The name of each run by its subfolder.

    Raises:
        ConfigError: If a file of a run is missing or damaged.
    """
    # (data set, case, unit) -> the verdict of each run by its subfolder
    verdicts_by_unit: dict[tuple[str, str, Unit], dict[str, Verdict]] = {}
    for job in names:
        outcome = read_outcome(folder / job)
        dataset = (outcome.manifest.get("dataset") or {}).get("fingerprint")
        for verdict in islice(outcome.verdicts, LARGEST):
            unit = (str(dataset), verdict.case_id, verdict.unit)
            verdicts_by_unit.setdefault(unit, {})[job] = verdict
    titles = unique_names(names)
    rows = [
        _unit_row(case, unit, verdicts, titles)
        for (_, case, unit), verdicts in verdicts_by_unit.items()
    ]
    rows.sort(key=lambda row: row[SAME] == 1)  # stable: otherwise in the order of cases
    return records.as_csv([*COLUMNS, *titles.values()], rows)


def unique_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each job; one that jobs share, or that a column has, is
    followed by the job.
    """
    job_names = list(names.values())
    return {
        job: name
        if job_names.count(name) == 1 and name not in COLUMNS
        else f"{name} ({job})"
        for job, name in names.items()
    }


def _unit_row(
    case: str,
    unit: Unit,
    verdicts: Mapping[str, Verdict],
    titles: Mapping[str, str],
) -> dict[str, object]:
    """Return a row for a unit: its label, the answer of each job under the job's title, and
    whether all answers are the same (1) or not (0).

    Args:
        case: The id of the case.
        unit: The indices of the responses that the verdicts are about.
        verdicts: The verdict of each job, at least one; all have the same label.
        titles: The title of each job.
    """
    answers = {titles[job]: _answer(verdict) for job, verdict in verdicts.items()}
    labels = [verdict.label for verdict in verdicts.values()]
    return {
        "case": case,
        "responses": letters(unit),
        "label": labels[0],
        SAME: int(len(set(answers.values())) == 1),
        **answers,
    }


def _answer(verdict: Verdict) -> str | float:
    for answer in (verdict.winner, verdict.score, verdict.class_name):
        if answer is not None:
            return answer
    return "missing"


def letters(indices: Unit) -> str:
    """Return responses by their letters: (0, 1) is AB; from the 27th on they are numbered."""
    names = map(letter, indices)
    return "".join(name if name.isalpha() else f"({name})" for name in names)
