"""JudgeBench (Tan et al. 2025, ICLR, arXiv 2410.12784): hard pairs with a right and a wrong answer.

A judge's output has a pair with its label and one or two judgments; the second has the responses exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.benchmark import Benchmark, Importer, RowLocation, choice, row_by_row, shape, share_row
from evalkit.benchmarks.judgment_files import Peek, require
from evalkit.benchmarks.judgment_files import rows_of as judged_rows
from evalkit.benchmarks.llmbar import PATTERN
from evalkit.benchmarks.records import TIE as TIED
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.benchmarks.scoring_rules import UNREAD, View, by_name, rates
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.scoring.columns import NONE, TIE
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Metric

CATEGORIES = {
    "mmlu-pro": "knowledge",
    "livebench-reasoning": "reasoning",
    "livebench-math": "math",
    "livecodebench": "coding",
}
"""Category by the prefix of a question's source."""

_DECISIONS = {"A>B": 1.0, "B>A": -1.0, "A=B": 0.0}

_OUTPUTS: Mapping[str, Mapping[str, Any]] = {
    "arena_hard": {"format": "bracket"},
    "skywork_critic": {"format": "bracket"},
    "vanilla": {"format": "regex", "pattern": PATTERN, "map": {"a": "A", "b": "B"}},
}

_WORDS = ("response", "judgment", "output", "completion", "text")


def _read_case(row: Row, at: RowLocation) -> Row:
    return {
        "id": row["pair_id"],
        "prompt": row["question"],
        "response_a": row["response_A"],
        "response_b": row["response_B"],
        "label": choice(row["label"], {"A>B": "A", "B>A": "B", "A=B": "TIE"}, at.place),
        "source": row.get("source"),
        "response_model": row.get("response_model"),
    }


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `judgebench/net_vote_accuracy` for all pairs and each category.

    A right verdict counts +1 and its opposite -1, over both orders; a pair is right if the sum is positive, so that a
    tie in one order does not undo a right verdict in the other (Tan et al. 2025, arXiv 2410.12784, section 4.1). If
    one order is unreadable, the other decides, as in their code. Pairs without any verdict are missing here, but wrong
    there.
    """
    label = np.where(view.labeled, view.pairs.label, TIE)
    votes = np.where(view.passes == NONE, TIE, view.passes) * label[:, None]
    read = (view.passes != NONE).any(axis=1)
    hit = votes.sum(axis=1) > 0
    name, wanted = "judgebench/net_vote_accuracy", view.labeled
    categories = view.subsets() or by_name([_category(str(source or "")) for source in view.of_cases("source")])
    return [*rates(name, view.tally, hit, wanted & read, wanted & ~read, categories, why=UNREAD)]


def _category(source: str) -> str:
    return next((name for start, name in CATEGORIES.items() if source.startswith(start)), "")


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows are judged pairs."""
    return start.has("pair_id", "response_A", "response_B", "judgments")


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each judgment of each pair."""
    rows = list(judged_rows(path))
    kinds = {str(row.get("judge_name")) for _, row in rows}
    by_file: dict[str, list[Mapping[str, Any]]] = {}
    for place, row in rows:
        by_file.setdefault(place.rpartition(":")[0], []).append(row)
    judges = {file: options.judge or _judge(Path(file), own) for file, own in by_file.items()}
    if len(kinds) > 1 and not options.judge:  # one model with several prompts counts as several judges
        judges = {file: f"{judge} {by_file[file][0].get('judge_name')}" for file, judge in judges.items()}
    records = [record for place, row in rows for record in _records(row, place, judges[place.rpartition(":")[0]])]
    return ParsedFile(records, _OUTPUTS.get(kinds.pop()) if len(kinds) == 1 else None, benchmark="judgebench")


def _records(row: Mapping[str, Any], place: str, judge: str) -> Iterator[Record]:
    one, two = Answer("A", str(require(row, "response_A", place))), Answer("B", str(require(row, "response_B", place)))
    better = choice(row.get("label"), {"A>B": "A", "B>A": "B", "A=B": TIED}, place)
    metadata = {key: row[key] for key in ("source", "original_id", "response_model") if row.get(key)}
    name, question = str(require(row, "pair_id", place)), str(row.get("question", ""))
    for index, entry in enumerate(_entries(row) or [None]):
        shown = (one, two) if index % 2 == 0 else (two, one)
        yield Record(name, question, shown, _said(entry, judge), better, metadata=metadata)


def _entries(row: Mapping[str, Any]) -> Sequence[Any]:
    given = row.get("judgments")
    return given if isinstance(given, list) else []


def _judge(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the judge's model, from the first judgment or else the file's name."""
    entries = (entry for row in rows for entry in _entries(row) if isinstance(entry, Mapping))
    judgments = (entry["judgment"] for entry in entries if isinstance(entry.get("judgment"), Mapping))
    said = next((str(judgment["judge_model"]) for judgment in judgments if judgment.get("judge_model")), None)
    named = re.search(r"judge_model=([^,]+?)(?:\.jsonl)?\Z", path.name)
    return said or (named[1] if named else str(rows[0].get("judge_name") or "judge") if rows else "judge")


def _said(entry: Any, judge: str) -> RecordedJudgment:
    if not isinstance(entry, Mapping):
        return missing_record(judge, "the judgment is null", status="failed")
    judgment, decision = entry.get("judgment"), entry.get("decision")
    text = judgment if isinstance(judgment, str) else None
    if isinstance(judgment, Mapping):  # a reward model has no text
        text = next((judgment[key] for key in _WORDS if isinstance(judgment.get(key), str) and judgment[key]), None)
    if decision not in _DECISIONS:
        return missing_record(judge, f"decision is {decision}", text=text)
    return RecordedJudgment(judge, value=_DECISIONS[decision], text=text)


_SOURCE = "Tan et al. 2025, arXiv 2410.12784, section 4.1"
_NET = "Share of labeled pairs whose votes over both orders have a positive sum: +1 for the label, -1 against it"
_METRICS: Final = (
    share_row(
        "judgebench/net_vote_accuracy",
        "accuracy by net votes",
        f"{_NET}.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "judgebench/net_vote_accuracy/{category}",
        "accuracy by net votes, {category}",
        f"{_NET}; for one category.",
        _SOURCE,
    ),
)


JUDGEBENCH: Final = Benchmark(
    "judgebench",
    "JudgeBench",
    kind="JudgeBench pairs",
    license="MIT",
    citation="Tan et al. 2025, ICLR, arXiv 2410.12784",
    homepage="https://github.com/ScalerLab/JudgeBench",
    expects="a data/dataset=judgebench,response_model=….jsonl of JudgeBench, or its Hugging Face file",
    shapes=(shape("pair_id", "question", "response_A", "response_B", "label"),),
    read=row_by_row(_read_case),
    rule=_rule,
    importer=Importer("judgebench", "JudgeBench's outputs/….jsonl", _sniff, _read_judgments),
    metrics=_METRICS,
    extra_values={"category": tuple(CATEGORIES.values())},
    words={
        "coding": gettext("coding"),
        "knowledge": gettext("knowledge"),
        "math": gettext("math"),
        "reasoning": gettext("reasoning"),
    },
    main_metric="judgebench/net_vote_accuracy",
)

BENCHMARKS: Final = (JUDGEBENCH,)
