"""UniEval's meta-evaluations: a machine's scores by dimension beside people's, as of Topical-Chat and SummEval."""

from __future__ import annotations

from pathlib import Path

from evalkit.errors import ConfigError, did_you_mean
from evalkit.exchange.files import Peek, need, number, rows_of
from evalkit.exchange.records import Answer, Found, Numbers, Options, Record, Said, lost

OVERALL = "overall"


def sniff(start: Peek) -> bool:
    """Say whether its rows have both kinds of scores."""
    return start.has("predict_scores", "scores", "system_output")


def read(path: Path, options: Options) -> Found:
    """Return a record for each output, scored on one dimension: `overall`, or the one that `--dimension` names.

    Raises:
        ConfigError: if there is no such dimension.
    """
    records, numbers = [], Numbers()
    dimension = options.dimension
    for place, row in rows_of(path):
        predicted, given = need(row, "predict_scores", place), need(row, "scores", place)
        both = [name for name in predicted if name in given]
        dimension = dimension or (OVERALL if OVERALL in both else both[0])
        if dimension not in both:
            raise ConfigError(
                "no such dimension", where=f"--dimension {dimension}", remedy=did_you_mean(dimension, both)
            )
        score, grade = number(predicted[dimension]), number(given[dimension])
        judge = options.judge or "unieval"
        said = Said(judge, scores={dimension: score}) if score is not None else lost(judge, "no score")
        system = str(row.get("system_id", ""))
        answer = Answer(system, str(row["system_output"]), system or None, grade)
        source = str(row.get("source") or row.get("reference") or "")
        context = str(row["context"]) if row.get("context") else None
        records.append(Record(numbers[source], source, (answer,), said, context=context))
    return Found(records, notes=(f"scores and people's grades of '{dimension}'",))
