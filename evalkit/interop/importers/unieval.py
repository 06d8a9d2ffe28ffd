"""UniEval's meta-evaluations: a machine's scores by dimension beside people's, as of Topical-Chat and SummEval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.datasets.named.graded import for_a_summary, for_the_next_turn
from evalkit.errors import ConfigError, did_you_mean
from evalkit.interop.files import Peek, number, require, rows_of
from evalkit.interop.records import Answer, NumberedNames, Options, ParsedFile, Record, RecordedJudgment, missing_record

OVERALL = "overall"
_BENCHMARKS = {
    "topical_chat": {"naturalness", "coherence", "engagingness", "groundedness", "understandability"},
    "summeval": {"coherence", "consistency", "fluency", "relevance"},
}
_SUMMARIES = "summeval"
_ASKED = {"topical_chat": for_the_next_turn, _SUMMARIES: for_a_summary}
_DOCUMENT = "doc_id"


def sniff(start: Peek) -> bool:
    """Say whether its rows have both kinds of scores."""
    return start.has("predict_scores", "scores", "system_output")


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each output, scored on every dimension that both kinds of scores have.

    The dimension `overall`, or the one that `--dimension` names, is the output's score and its grade: the others have
    no weight. People's grades by dimension are kept, too.

    Raises:
        ConfigError: if there is no such dimension.
    """
    rows = list(rows_of(path))
    names = _dimensions(rows[0]) if rows else []
    chosen = options.dimension or (OVERALL if OVERALL in names else names[0] if names else OVERALL)
    if rows and chosen not in names:
        raise ConfigError("no such dimension", where=f"--dimension {chosen}", remedy=did_you_mean(chosen, names))
    benchmark = next((name for name, own in _BENCHMARKS.items() if own <= set(names)), None)
    summaries = benchmark == _SUMMARIES
    records, numbers, grades = [], NumberedNames(), _Grades(names)
    for place, row in rows:
        source = str(row.get("source") or row.get("reference") or "")
        context = str(row["context"]) if row.get("context") else None
        named = row.get(_DOCUMENT)
        question = str(named) if named is not None else numbers[f"{source}\0{context or ''}"]
        given, system = require(row, "scores", place), str(row.get("system_id", ""))
        output = str(require(row, "system_output", place))
        answer = Answer(system or output, output, system or None, number(given.get(chosen)))
        reference = str(row["reference"]) if summaries and row.get("reference") else None
        said = _said(require(row, "predict_scores", place), names, options.judge or "unieval")
        known = grades.add(question, system or output, given)
        asked = _ASKED[benchmark](source) if benchmark else source
        records.append(Record(question, asked, (answer,), said, context=context, reference=reference, metadata=known))
    return ParsedFile(
        records,
        weights={name: float(name == chosen) for name in names},
        benchmark=benchmark,
        notes=(f"scores and people's grades of '{chosen}'",),
    )


def _dimensions(first: tuple[str, Mapping[str, Any]]) -> list[str]:
    place, row = first
    given = require(row, "scores", place)
    return [name for name in require(row, "predict_scores", place) if name in given]


def _said(predicted: Mapping[str, Any], names: Sequence[str], judge: str) -> RecordedJudgment:
    scores = {name: score for name in names if (score := number(predicted.get(name))) is not None}
    return RecordedJudgment(judge, scores=scores) if scores else missing_record(judge, "no score")


class _Grades:
    """People's grades by dimension, of each question's outputs in the order in which they are first seen."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._seen: set[tuple[str, str]] = set()
        self._of: dict[str, dict[str, list[float | None]]] = {}

    def add(self, question: str, system: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add an output's grades, and return the metadata that all records of its question share."""
        grades = self._of.setdefault(question, {name: [] for name in self._names})
        if (question, system) not in self._seen:
            self._seen.add((question, system))
            for name in self._names:
                grades[name].append(number(given.get(name)))
        return {"grades": grades}
