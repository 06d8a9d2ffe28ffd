"""WildBench (Lin et al. 2024, arXiv 2406.04770): tasks of real users, with a checklist each, and scores from 1 to 10.

The tasks have `session_id`, `conversation_input` and `checklist`; the files of scores have the models' answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.benchmark import Benchmark, Importer, RowLocation, listed, row_by_row, shape
from evalkit.benchmarks.judgment_files import Peek, number, require, rows_of, text
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.benchmarks.scoring_rules import View, nothing
from evalkit.datasets.formats import Row
from evalkit.scoring.catalog import MetricSpec
from evalkit.scoring.stats.arrays import Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.types import Metric

_TASK: Final = shape("session_id", "conversation_input", "checklist")
SCORE, ADJUSTED = "wildbench/score", "wildbench/adjusted_score"
_LOW, _HIGH = 1.0, 10.0
NEEDS_SCORES = "responses have no scores from 1 to 10: set mode=pointwise rubric=likert10"


def _case(row: Row, at: RowLocation) -> Row:
    answers: dict[str, Any] = {key: row[key] for key in ("response", "responses", "model") if key in row}
    items = [str(one) for one in listed(row["checklist"], "checklist", at.place)]
    tag = row.get("primary_tag")
    return {
        "id": str(row["session_id"]),
        "prompt": text(row["conversation_input"]),
        **answers,
        "checklist": items,
        **({"subset": str(tag)} if tag else {}),
    }


def _sniff(start: Peek) -> bool:
    return start.has("session_id", "score", "model_test")


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each answer; the judge is named by the folder of the file."""
    records = []
    for place, row in rows_of(path):
        judge = options.judge or Path(place.rpartition(":")[0]).parent.name or "judge"
        score = number(row["score"]) if row.get("score") is not None else None
        parsed: Any = row.get("parsed_result")
        said = (
            RecordedJudgment(judge, scores={"quality": score}, answer=parsed if isinstance(parsed, dict) else None)
            if score is not None and _LOW <= score <= _HIGH
            else missing_record(judge, str(row.get("score")))
        )
        model = str(row["model_test"])
        answer = Answer(model, text(row.get("model_output")), model)
        records.append(Record(str(require(row, "session_id", place)), "", (answer,), said))
    return ParsedFile(records, scale=(_LOW, _HIGH, 0.5), benchmark="wildbench")


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `wildbench/score`, the mean score from 1 to 10, and `wildbench/adjusted_score`, twice its excess over 5.

    Lin et al. 2024, arXiv 2406.04770, section 3.2 (WB-Score), with the adjustment of their leaderboard.
    """
    scored, rubric = view.outcome.scores, view.config.rubric
    if scored is None or view.outcome.listed or (rubric.min, rubric.max) != (_LOW, _HIGH):
        return [nothing(SCORE, NEEDS_SCORES), nothing(ADJUSTED, NEEDS_SCORES)]
    there = np.isfinite(scored.raw)
    tally = Tally(scored.case, len(view.cases))
    columns = np.stack([tally(np.where(there, scored.raw, 0.0)), tally(there)], axis=1)
    n, missing = int(there.sum()), int((~there).sum())
    total, count = float(columns[:, 0].sum()), n + missing
    low, high = ((total + missing * end) / count if count else None for end in (_LOW, _HIGH))
    why = "no response has a score"
    shared: dict[str, Any] = {"n": n, "missing": missing, "why": why}
    adjusted = (None, None) if low is None or high is None else (2 * (low - 5), 2 * (high - 5))
    return [
        Statistic(SCORE, columns, _mean, worst=(low, high), **shared),
        Statistic(ADJUSTED, columns, lambda totals: 2 * (_mean(totals) - 5), worst=adjusted, **shared),
    ]


def _mean(totals: Floats) -> Floats:
    return divide(totals[:, 0], totals[:, 1])


_SOURCE = "Lin et al. 2024, arXiv 2406.04770, section 3.2"
_METRICS: Final = (
    MetricSpec(
        "wildbench/score",
        "score",
        "Mean score of the responses, from 1 to 10.",
        unit="units of the scale",
        low=1.0,
        high=10.0,
        headline=True,
        source=_SOURCE,
    ),
    MetricSpec(
        "wildbench/adjusted_score",
        "adjusted score",
        "Twice the excess of the mean score over 5.",
        unit="points",
        low=-8.0,
        high=10.0,
        source=_SOURCE,
    ),
)


BENCHMARKS: Final = (
    Benchmark(
        "wildbench",
        "WildBench",
        kind="WildBench",
        license="Apache-2.0",
        citation="Lin et al. 2024, arXiv 2406.04770",
        homepage="https://github.com/allenai/WildBench",
        expects="a file of WildBench tasks (session_id, conversation_input, checklist) with responses",
        shapes=(_TASK,),
        read=row_by_row(_case),
        rule=_rule,
        importer=Importer("wildbench", "WildBench: files of scores by task and model", _sniff, _read_judgments),
        metrics=_METRICS,
        main_metric="wildbench/score",
    ),
)
