"""PaperBench (Starace et al. 2025, arXiv 2504.01848): papers reproduced, graded by
trees of requirements.

Each paper has a tree as a JSON file; a graded tree has a score of 0 or 1 at each leaf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from evalkit.benchmarks.shared.benchmark import (
    Benchmark,
    Source,
    answers_of,
    benchmark,
    checklist_of,
    holds_object,
    json_objects,
)
from evalkit.core.checklists import MAX_DEPTH, leaves
from evalkit.core.errors import DatasetError
from evalkit.core.types import ItemAnswer, Metric
from evalkit.core.values import JsonObject
from evalkit.datasets.compression import bare_name
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
from evalkit.scoring.stats.statistic import Statistic
from evalkit.scoring.verdicts.checklists import ItemColumns, rescored

SCORE = "paperbench/replication_score"
_MET: dict[float, ItemAnswer] = {1.0: "met", 0.0: "not_met"}


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each paper, with grades as labels; reproductions are `response`
    or from `dataset.join`.
    """
    for tree in json_objects(benchmark, source):
        items, _, _ = _items(tree, tree.place, labeled=True)
        case = {
            "id": bare_name(tree.file),
            "prompt": tree["requirements"],
            **answers_of(tree),
            "checklist": items,
        }
        yield tree.place, case


def _items(
    tree: Row, location: str, *, labeled: bool
) -> tuple[list[JsonObject], dict[str, ItemAnswer | None], dict[str, str]]:
    """Return the items below the root, and the answer and the explanation of each leaf by id."""
    answers: dict[str, ItemAnswer | None] = {}
    reasons: dict[str, str] = {}

    def item_of(node: Any, depth: int) -> JsonObject:
        """Return a node of the rubric as an item with its parts, and note the answers of leaves."""
        children = _children(node, depth, location)
        name = str(require(node, "id", location))
        category = node.get("task_category")
        item = {
            "id": name,
            "criterion": require(node, "requirements", location),
            "weight": node.get("weight"),
            "tags": [category] if isinstance(category, str) else [],
        }
        # A node with parts has no answer of its own.
        if children:
            parts = [item_of(child, depth + 1) for child in children]
            return {**item, "parts": parts}
        answers[name] = _answer(node)
        reasons[name] = str(node.get("explanation") or "")
        if labeled:
            return {**item, "label": answers[name]}
        return item

    # The root is the paper itself, unless it is the only node.
    root = item_of(tree, 0)
    return root.get("parts") or [root], answers, reasons


def _children(node: Any, depth: int, location: str) -> list[Any]:
    """Return the parts of a node.

    Raises:
        DatasetError: If it has no list of parts, or is too deep.
    """
    if not isinstance(node, dict) or not isinstance(node.get("sub_tasks"), list):
        raise DatasetError(
            "a node of the tree has no list of sub_tasks",
            where=location,
            remedy="fix the file",
        )
    # Checked at each node, so that a tree that is too deep ends in one clear line.
    if depth > MAX_DEPTH:
        raise DatasetError(
            f"the tree is deeper than {MAX_DEPTH}",
            where=location,
            remedy="fix the file",
        )
    children: list[Any] = node["sub_tasks"]
    return children


def _answer(leaf: Row) -> ItemAnswer | None:
    """Return whether a leaf is met; `None` if its score is missing, unknown or marked
    as not valid.
    """
    score = leaf.get("score")
    if not isinstance(score, int | float) or leaf.get("valid_score") is False:
        return None
    return _MET.get(float(score))


def _sniff(start: Peek) -> bool:
    return {"sub_tasks", "requirements", "weight", "score"} <= start.top.keys()


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each graded tree; the judge is `expert`, unless `--judge` names it."""
    records = []
    for file in files_in(path):
        tree = load_object(file)
        location = str(file)
        raw, answers, reasons = _items(tree, location, labeled=False)
        items = checklist_of(raw, location)
        item_answers = [
            {"item": leaf.id, "reason": reasons[leaf.id], "answer": answers[leaf.id]}
            for leaf in leaves(items)
        ]
        judgment = RecordedJudgment(
            options.judge or "expert", items=answers, answer={"items": item_answers}
        )
        answer = Answer("reproduction")
        records.append(
            Record(
                bare_name(file),
                str(tree["requirements"]),
                (answer,),
                judgment,
                checklist=items,
            )
        )
    return ParsedFile(records, benchmark="paperbench", rule="weighted")


def _item_rule(items: ItemColumns) -> Sequence[Statistic | Metric]:
    """Return `paperbench/replication_score`: the mean over papers of the weighted mean up the tree.

    Starace et al. 2025, arXiv 2504.01848, section 2.2.
    """
    statistics = checklist_statistics(rescored(items, "weighted"), "weighted")
    return [
        replace(statistic, name=SCORE)
        for statistic in statistics
        if statistic.name == "score/mean"
    ]


BENCHMARKS: Final = (
    benchmark(
        "paperbench",
        read=_read_cases,
        item_rule=_item_rule,
        holds=holds_object("id", "requirements", "weight", "sub_tasks"),
        sniff=_sniff,
        judgments=_read_judgments,
    ),
)
