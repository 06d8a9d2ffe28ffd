"""DevAI (Zhuge et al. 2024, arXiv 2410.10934): tasks for coding agents, with requirements judged by people and agents.

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
from evalkit.datasets.formats import Placed, Row
from evalkit.datasets.named import files_in
from evalkit.errors import DatasetError
from evalkit.foreign_files.judgment_files import Peek, load_object, require
from evalkit.foreign_files.records import (
    Answer,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
)
from evalkit.scoring.metrics.checklists import checklist_statistics
from evalkit.scoring.stats.bootstrap import Measures, Statistic, Tally
from evalkit.scoring.verdicts.checklists import MET, NOT_MET, ItemColumns
from evalkit.types import ItemAnswer, Metric
from evalkit.values import Json, JsonObject

AGREEMENT, MET_RATE, SOLVED = (
    "devai/agreement",
    "devai/requirements_met",
    "devai/solve_rate",
)
_AGENT, _PEOPLE = "agent_as_a_judge", "human_as_a_judge"
_MET: dict[Any, ItemAnswer | None] = {True: "met", False: "not_met", None: None}


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each task; the agents' outputs are a column `response` or come from `dataset.join`."""
    for task in json_objects(benchmark, source):
        items = _items(task, task.place)
        yield (
            task.place,
            {
                "id": str(task["name"]),
                "prompt": task["query"],
                **answers_of(task),
                "checklist": items,
            },
        )


def _requirements(task: Row, place: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the requirements of a task by id."""
    for one in listed(task.get("requirements"), "requirements", place):
        if not isinstance(one, dict):
            raise DatasetError(
                "a requirement is not an object", where=place, remedy="fix the file"
            )
        yield str(require(one, "requirement_id", place)), one


def _items(
    task: Row, place: str, labels: Json = MappingProxyType({})
) -> list[JsonObject]:
    return [
        {
            "id": name,
            "criterion": require(one, "criteria", place),
            # One published requirement names itself.
            "after": [
                other for other in one.get("prerequisites") or [] if str(other) != name
            ],
            "tags": [one["category"]] if isinstance(one.get("category"), str) else [],
            "label": labels.get(name),
        }
        for name, one in _requirements(task, place)
    ]


def _sniff(start: Peek) -> bool:
    if start.path.is_dir() and (start.path / _AGENT).is_dir():
        return True
    requirements = start.top.get("requirements")
    return isinstance(requirements, list) and any(
        isinstance(one, dict) and isinstance(one.get("satisfied"), bool)
        for one in requirements
    )


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each task: the agent's answers, with the annotators' from the folder next to it as labels."""
    folder = _judged_folder(path)
    people = next(
        (one / _PEOPLE for one in folder.parents[:3] if (one / _PEOPLE).is_dir()), None
    )
    system = people.parent.name if people is not None else "system"
    records = []
    for file in files_in(folder):
        task = load_object(file)
        place = str(file)
        given = people / file.name if people is not None else file
        labels = (
            _answers(load_object(given), str(given))
            if people is not None and given.is_file()
            else {}
        )
        items = checklist_of(_items(task, place, labels), place)
        judge = options.judge or (folder.name if folder.is_dir() else _AGENT)
        said = RecordedJudgment(
            judge,
            items={name: _MET[one] for name, one in _answers(task, place).items()},
        )
        name = str(require(task, "name", place))
        records.append(
            Record(
                name,
                str(task.get("query", "")),
                (Answer(system, "", system),),
                said,
                checklist=items,
            )
        )
    return ParsedFile(records, benchmark="devai", below=True)


def _judged_folder(path: Path) -> Path:
    """Return the folder or file with the judgments; in a system's folder, the only kind of agent's judgments.

    Raises:
        DatasetError: If there are several kinds.
    """
    if not (path / _AGENT).is_dir():
        return path
    kinds = sorted(one for one in (path / _AGENT).iterdir() if one.is_dir())
    if len(kinds) != 1:
        names = ", ".join(one.name for one in kinds) or "none"
        raise DatasetError(
            f"it has several kinds of judgments ({names})",
            where=str(path),
            remedy="import one of them",
        )
    return kinds[0]


def _answers(task: Row, place: str) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for name, one in _requirements(task, place):
        found[name] = satisfied = one.get("satisfied")
        if not isinstance(satisfied, bool | None):
            raise DatasetError(
                f"satisfied is '{satisfied!s:.40}'",
                where=place,
                remedy="write true, false or null",
            )
    return found


def _item_rule(items: ItemColumns) -> Sequence[Statistic | Metric]:
    """Return the agreement with annotators, the requirements met with and without prerequisites, and the solve rate.

    Zhuge et al. 2024, arXiv 2410.10934, section 4: agreement is the share of requirements with the
    same judgment; a task is solved if every requirement is met.
    """
    tally = Tally(items.case, items.cases)
    found: Measures = []
    for name, codes in (
        (MET_RATE, items.answer),
        (f"{MET_RATE}_independent", items.judged),
    ):
        read = np.asarray((codes == MET) | (codes == NOT_MET))
        found.append(
            tally.rate(name, codes == MET, read, ~read, why="no requirement was judged")
        )
    known = {one.name: one for one in checklist_statistics(items, "required")}
    for own, name, why in (
        ("checklist/accuracy", AGREEMENT, "no requirement has a label"),
        ("checklist/required_rate", SOLVED, "no task was judged"),
    ):
        found.append(
            replace(known[own], name=name) if own in known else nothing(name, why)
        )
    return found


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
