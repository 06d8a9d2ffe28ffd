"""JudgeBench (Tan et al. 2025, ICLR, arXiv 2410.12784): hard pairs with a right and a wrong answer.

A judge's output has a pair with its label and one or two judgments; the second has the responses
exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.llmbar import PATTERN
from evalkit.benchmarks.shared.benchmark import (
    FACTS,
    benchmark,
    choice,
    one_of,
    row_by_row,
)
from evalkit.benchmarks.shared.scoring_rules import View, by_name, labeled_rates
from evalkit.core.values import Json
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    grouped,
    located_rows,
    with_columns,
)
from evalkit.interop.layouts.layouts import Cells, Field, records_of
from evalkit.interop.layouts.records import Options, ParsedFile
from evalkit.scoring.columns import NONE, TIE
from evalkit.scoring.stats.statistic import Measures

_LABELS: Final = {"A>B": "A", "B>A": "B", "A=B": "TIE"}

_DECISIONS: Final = {"A>B": 1.0, "B>A": -1.0, "A=B": 0.0}

_OUTPUTS: Mapping[str, Json] = {
    "arena_hard": {"format": "bracket"},
    "skywork_critic": {"format": "bracket"},
    "vanilla": {"format": "regex", "pattern": PATTERN, "map": {"a": "A", "b": "B"}},
}

_WORDS = ("response", "judgment", "output", "completion", "text")

_CASE: Final[Mapping[str, Field]] = {
    "id": "pair_id",
    "prompt": "question",
    "response_a": "response_A",
    "response_b": "response_B",
    "label": one_of("label", _LABELS),
    "source": "source",
    "response_model": "response_model",
}


def _rule(view: View) -> Measures:
    """Return `judgebench/net_vote_accuracy` for all pairs and each category.

    A right verdict counts +1 and its opposite -1, over both orders; a pair is right if the sum is
    positive, so that a tie in one order does not undo a right verdict in the other (Tan et al.
    2025, arXiv 2410.12784, section 4.1). If one order is unreadable, the other decides, as in their
    code. Pairs without any verdict are missing here, but wrong there.
    """
    # Unlabeled pairs and missing orders count 0, as a tie does.
    label = np.where(view.labeled, view.pairs.label, TIE)
    # (pairs, orders): 1 if right, -1 if opposite, 0 for a tie.
    votes = np.where(view.passes == NONE, TIE, view.passes) * label[:, None]
    read = (view.passes != NONE).any(axis=1)
    categories = view.subsets() or by_name(
        [_category(str(source or "")) for source in view.of_cases("source")]
    )
    return [
        *labeled_rates(
            view,
            "judgebench/net_vote_accuracy",
            votes.sum(axis=1) > 0,
            read,
            categories,
        )
    ]


def _category(source: str) -> str:
    categories = FACTS["judgebench"]["tables"]["categories"]
    return next(
        (name for start, name in categories.items() if source.startswith(start)), ""
    )


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each judgment of each pair."""
    rows = list(located_rows(path))
    # Several prompts of one model need the name of the judge to be separate.
    kinds = {str(row.get("judge_name")) for row in rows}
    judges = {
        group[0].file: _judge_of_file(group, several=len(kinds) > 1)
        for group in grouped(rows, lambda row: row.file)
    }
    records = records_of(
        rows, lambda row: _judgment_records(row, judges[row.file]), "pair", options
    )
    return ParsedFile(
        records,
        _OUTPUTS.get(kinds.pop()) if len(kinds) == 1 else None,
        benchmark="judgebench",
    )


def _judgment_records(row: LocatedRow, judge: str) -> Iterator[Cells]:
    """Yield a record for each judgment of a pair; a row without any is one missing judgment."""
    pair = {
        "id": row["pair_id"],
        "prompt": row.get("question"),
        **{f"response_{side}": row.need(f"response_{side.upper()}") for side in "ab"},
        "label": choice(row.get("label"), _LABELS, row.place),
        "metadata": {
            key: row[key]
            for key in ("source", "original_id", "response_model")
            if row.get(key)
        },
        "judge": judge,
    }
    # The second judgment shows the responses exchanged.
    for index, entry in enumerate(_entries(row) or [None]):
        yield {
            **pair,
            "order": "ba" if index % 2 else "ab",
            # The decision is about the responses as shown.
            **_decision_cells(entry, -1.0 if index % 2 else 1.0),
        }


def _entries(row: Json) -> Sequence[Any]:
    judgments = row.get("judgments")
    if isinstance(judgments, list):
        return judgments
    return []


def _judge_of_file(rows: Sequence[LocatedRow], *, several: bool) -> str:
    """Return the judge of a file: its model by the first judgment, or else the file's name.

    One model with several prompts counts as several judges.
    """
    entries = (
        entry for row in rows for entry in _entries(row) if isinstance(entry, Mapping)
    )
    judgments = (
        entry["judgment"]
        for entry in entries
        if isinstance(entry.get("judgment"), Mapping)
    )
    model = next(
        (
            str(judgment["judge_model"])
            for judgment in judgments
            if judgment.get("judge_model")
        ),
        None,
    )
    named = re.search(r"judge_model=([^,]+?)(?:\.jsonl)?\Z", rows[0].file.name)
    judge = model or (named[1] if named else str(rows[0].get("judge_name") or "judge"))
    if several:
        return f"{judge} {rows[0].get('judge_name')}"
    return judge


def _decision_cells(entry: Any, sign: float) -> Cells:
    """Return the decision and the text of one judgment, `sign` -1 if the responses are
    exchanged.
    """
    if not isinstance(entry, Mapping):
        return {"failure": "the judgment is null"}
    judgment = entry.get("judgment")
    decision = str(entry.get("decision"))
    if isinstance(judgment, Mapping):  # a reward model has no text
        judgment = next(
            (
                judgment[key]
                for key in _WORDS
                if isinstance(judgment.get(key), str) and judgment[key]
            ),
            None,
        )
    margin = (
        {"margin": sign * _DECISIONS[decision]}
        if decision in _DECISIONS
        else {"error": f"decision is {decision}"}
    )
    return {"text": judgment if isinstance(judgment, str) else None, **margin}


BENCHMARKS: Final = (
    benchmark(
        "judgebench",
        read=row_by_row(_CASE),
        rule=_rule,
        sniff=with_columns("pair_id", "response_A", "response_B", "judgments"),
        judgments=_read_judgments,
    ),
)
