"""DevAI (Zhuge et al. 2024, arXiv 2410.10934): tasks for coding agents, with
requirements judged by people and agents.

A system's folder has `human_as_a_judge` and `agent_as_a_judge`, each with a file for each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.shared.benchmark import (
    Benchmark,
    Source,
    answers_of,
    benchmark,
    checklist_of,
    holds_object,
    json_objects,
    listed,
)
from evalkit.benchmarks.shared.scoring_rules import nothing
from evalkit.core.errors import DatasetError
from evalkit.core.types import ItemAnswer, Metric
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.located_rows import Placed, Row
from evalkit.datasets.named_benchmarks import files_in
from evalkit.interop.layouts.judgment_files import Peek, load_object, require
from evalkit.interop.layouts.records import (
    Answer,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
)
from evalkit.scoring.metrics.checklists import checklist_statistics
from evalkit.scoring.stats.statistic import Measures, Statistic, Tally
from evalkit.scoring.verdicts.checklists import MET, NOT_MET, ItemColumns

AGREEMENT, MET_RATE, SOLVED = (
    "devai/agreement",
    "devai/requirements_met",
    "devai/solve_rate",
)
_AGENT, _PEOPLE = "agent_as_a_judge", "human_as_a_judge"
_MET: dict[Any, ItemAnswer | None] = {True: "met", False: "not_met", None: None}


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each task; the agents' outputs are a column `response` or come
    from `dataset.join`.
    """
    for task in json_objects(benchmark, source):
        items = _checklist_items(task, task.place)
        yield (
            task.place,
            {
                "id": str(task["name"]),
                "prompt": task["query"],
                **answers_of(task),
                "checklist": items,
            },
        )


def _requirements(task: Row, location: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the requirements of a task by id."""
    for requirement in listed(task.get("requirements"), "requirements", location):
        if not isinstance(requirement, dict):
            raise DatasetError(
                "a requirement is not an object", where=location, remedy="fix the file"
            )
        yield str(require(requirement, "requirement_id", location)), requirement


def _checklist_items(
    task: Row, location: str, labels: Json = MappingProxyType({})
) -> list[JsonObject]:
    """Return the requirements of a task as items of a checklist."""
    items: list[JsonObject] = []
    for name, requirement in _requirements(task, location):
        category = requirement.get("category")
        prerequisites = requirement.get("prerequisites") or []
        item: JsonObject = {
            "id": name,
            "criterion": require(requirement, "criteria", location),
            # One published requirement names itself.
            "after": [other for other in prerequisites if str(other) != name],
            "tags": [category] if isinstance(category, str) else [],
            "label": labels.get(name),
        }
        items.append(item)
    return items


def _sniff(start: Peek) -> bool:
    if start.path.is_dir() and (start.path / _AGENT).is_dir():
        return True
    requirements = start.top.get("requirements")
    return isinstance(requirements, list) and any(
        isinstance(requirement, dict) and isinstance(requirement.get("satisfied"), bool)
        for requirement in requirements
    )


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each task: the agent's answers, with the annotators' from the
    folder next to it as labels.
    """
    folder = _judged_folder(path)
    people = next(
        (
            parent / _PEOPLE
            # The annotators' folder is next to that of the agent, up to three levels above.
            for parent in folder.parents[:3]
            if (parent / _PEOPLE).is_dir()
        ),
        None,
    )
    system = people.parent.name if people is not None else "system"
    records = []
    for file in files_in(folder):
        task = load_object(file)
        location = str(file)
        label_file = people / file.name if people is not None else file
        if people is not None and label_file.is_file():
            labels = _answers(load_object(label_file), str(label_file))
        else:
            labels = {}
        items = checklist_of(_checklist_items(task, location, labels), location)
        judge = options.judge or (folder.name if folder.is_dir() else _AGENT)
        judgment = RecordedJudgment(
            judge,
            items={
                name: _MET[answer] for name, answer in _answers(task, location).items()
            },
        )
        name = str(require(task, "name", location))
        records.append(
            Record(
                name,
                str(task.get("query", "")),
                (Answer(system, "", system),),
                judgment,
                checklist=items,
            )
        )
    return ParsedFile(records, benchmark="devai", below=True)


def _judged_folder(path: Path) -> Path:
    """Return the folder or file with the judgments; in a system's folder, the only kind
    of agent's judgments.

    Raises:
        DatasetError: If there are several kinds.
    """
    if not (path / _AGENT).is_dir():
        return path
    kinds = sorted(child for child in (path / _AGENT).iterdir() if child.is_dir())
    if len(kinds) != 1:
        names = ", ".join(child.name for child in kinds) or "none"
        raise DatasetError(
            f"it has several kinds of judgments ({names})",
            where=str(path),
            remedy="import one of them",
        )
    return kinds[0]


def _answers(task: Row, location: str) -> dict[str, bool | None]:
    answers: dict[str, bool | None] = {}
    for name, requirement in _requirements(task, location):
        answers[name] = satisfied = requirement.get("satisfied")
        if not isinstance(satisfied, bool | None):
            raise DatasetError(
                f"satisfied is '{satisfied!s:.40}'",
                where=location,
                remedy="write true, false or null",
            )
    return answers


def _item_rule(items: ItemColumns) -> Sequence[Statistic | Metric]:
    """Return the agreement with annotators, the requirements met with and without
    prerequisites, and the solve rate.

    Zhuge et al. 2024, arXiv 2410.10934, section 4: agreement is the share of requirements with the
    same judgment; a task is solved if every requirement is met.
    """
    tally = Tally(items.case, items.cases)
    measures: Measures = []
    for name, codes in (
        # With prerequisites, then the judge's own answers.
        (MET_RATE, items.answer),
        (f"{MET_RATE}_independent", items.judged),
    ):
        read = np.asarray((codes == MET) | (codes == NOT_MET))
        measures.append(
            tally.rate(name, codes == MET, read, ~read, why="no requirement was judged")
        )
    statistics = {
        statistic.name: statistic
        for statistic in checklist_statistics(items, "required")
    }
    for base, name, why in (
        ("checklist/accuracy", AGREEMENT, "no requirement has a label"),
        ("checklist/required_rate", SOLVED, "no task was judged"),
    ):
        measures.append(
            replace(statistics[base], name=name)
            if base in statistics
            else nothing(name, why)
        )
    return measures


BENCHMARKS: Final = (
    benchmark(
        "devai",
        read=_read_cases,
        item_rule=_item_rule,
        holds=holds_object("name", "query", "requirements"),
        sniff=_sniff,
        judgments=_read_judgments,
    ),
)
