"""Export a run's judgments: as one table, which `evalkit import generic` can read, and in other projects' formats."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from evalkit.core.annotations import annotation_classes, annotation_grades, choice_for
from evalkit.core.resources import optional
from evalkit.errors import ConfigError
from evalkit.interop.labeling import (
    LabelSample,
    Task,
    argilla_records,
    label_studio_tasks,
    label_tasks,
)
from evalkit.interop.otel import otel_lines
from evalkit.results import RunResult
from evalkit.runs.records import as_csv
from evalkit.types import Case, Judgment, Unit, Verdict
from evalkit.values import JsonObject

_CLOSE = 1e-9
_INT64 = 2**63
Row = JsonObject


def rows_of_run(result: RunResult) -> list[Row]:
    """Return a row for each judgment of responses or pairs, in order; all rows have the same columns."""
    cases = {case.id: case for case in result.cases}
    verdicts = {(verdict.case_id, verdict.unit): verdict for verdict in result.verdicts}
    rows = [
        _row(
            judgment,
            cases[judgment.case_id],
            verdicts.get((judgment.case_id, judgment.unit)),
        )
        for judgment in result.judgments
    ]
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def _row(judgment: Judgment, case: Case, verdict: Verdict | None) -> Row:
    return {
        "id": case.id,
        "prompt": case.prompt,
        "context": case.context,
        "reference": case.reference,
        **_responses(judgment, case),
        "judge": judgment.judge,
        "sample": judgment.sample,
        "status": judgment.status,
        **_said(judgment),
        "confidence": judgment.confidence,
        "error": judgment.error,
        "text": judgment.completion.text if judgment.completion else None,
        "verdict": (
            verdict
            and (
                verdict.winner or verdict.class_name
                if verdict.score is None
                else verdict.score
            )
        ),
        "verdict_reason": verdict and verdict.reason,
        **_labels(judgment, case, verdict),
    }


def _responses(judgment: Judgment, case: Case) -> Row:
    if len(judgment.unit) == 1:
        (index,) = judgment.unit
        return {
            "response": case.responses[index].text,
            "model": case.responses[index].model,
            "response_index": index,
        }
    if len(judgment.unit) > 2:
        return {
            "unit": json.dumps(list(judgment.unit)),
            "shown": json.dumps(list(judgment.shown)),
        }
    first, second = (case.responses[index] for index in judgment.unit)
    return {
        "response_a": first.text,
        "response_b": second.text,
        "model_a": first.model,
        "model_b": second.model,
        "unit": json.dumps(list(judgment.unit)),
        "order": "ab" if judgment.shown == judgment.unit else "ba",
    }


def _said(judgment: Judgment) -> Row:
    if judgment.class_name is not None:
        chances = judgment.weighted.classes if judgment.weighted is not None else {}
        return {
            "class": judgment.class_name,
            **{f"probability.{name}": chance for name, chance in chances.items()},
        }
    if len(judgment.unit) == 1:
        return {f"score.{name}": value for name, value in judgment.criteria.items()}
    if len(judgment.unit) > 2:
        return {"ranking": json.dumps(judgment.ranking)}
    margins = {f"margin.{name}": value for name, value in judgment.criteria.items()}
    value = judgment.value
    if value is None:
        return {"winner": None, "margin": None, **margins}
    winner = "A" if value > _CLOSE else "B" if value < -_CLOSE else "TIE"
    return {"winner": winner, "margin": value, **margins}


def _labels(judgment: Judgment, case: Case, verdict: Verdict | None) -> Row:
    if len(judgment.unit) == 1:
        (index,) = judgment.unit
        by_annotator = {
            name: annotation_grades(annotation) or annotation_classes(annotation)
            for name, annotation in case.labels.items()
        }
        response = case.responses[index]
        label = response.grade if response.class_name is None else response.class_name
        return {"label": label} | {
            f"label.{name}": values[index]
            for name, values in by_annotator.items()
            if values
        }
    choices = (
        (name, choice_for(label, judgment.unit)) for name, label in case.labels.items()
    )
    chosen = {name: choice for name, choice in choices if choice is not None}
    return {"label": verdict and verdict.label} | {
        f"label.{name}": choice for name, choice in chosen.items()
    }


def table_as_csv(rows: list[Row], *, raw: bool = False) -> bytes:
    """Return rows as CSV in UTF-8; unless `raw`, formulas are escaped."""
    return as_csv(list(rows[0]) if rows else [], rows, raw=raw).encode(
        "utf-8", "backslashreplace"
    )


def as_parquet(rows: list[Row]) -> bytes:
    """Return rows as Parquet; see `column`.

    Raises:
        ConfigError: If pyarrow is not installed.
    """
    arrow, parquet = (
        optional(name, "--to parquet") for name in ("pyarrow", "pyarrow.parquet")
    )
    columns = {
        name: column([row[name] for row in rows]) for name in (rows[0] if rows else {})
    }
    buffer = io.BytesIO()
    parquet.write_table(arrow.table(columns), buffer)
    return buffer.getvalue()


def column(values: list[Any]) -> list[Any]:
    """Return the values of a column of one type; unless all are numbers or all are true or false, they become texts."""
    kinds = {type(value) for value in values if value is not None}
    if (
        kinds <= {bool}
        or kinds <= {float}
        or (kinds == {int} and max(abs(value or 0) for value in values) < _INT64)
    ):
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    # An unpaired surrogate cannot be encoded.
    return [
        None if value is None else str(value).encode("utf-8", "replace").decode()
        for value in values
    ]


_PAIRS = "the run has no pairs"


def alpaca_eval(result: RunResult) -> list[Row]:
    """Return an annotation for each pair: the preference is 1 if output_1 is better, 2 if output_2 is better.

    It is interpolated by the verdict's margin, and null if that is missing. The baseline, if the
    case names one, is output_1, as in AlpacaEval, whose win rate is that of output_2.

    Raises:
        ConfigError: If the run has no pairs.
    """
    cases = {case.id: case for case in result.cases}
    rows = []
    for verdict in result.verdicts:
        if len(verdict.unit) != 2:
            continue
        case = cases[verdict.case_id]
        first, second = (case.responses[index] for index in verdict.unit)
        margin = verdict.margin
        if second.model is not None and second.model == case.metadata.get("baseline"):
            first, second = second, first
            margin = None if margin is None else -margin
        rows.append(
            {
                "instruction": case.prompt,
                "output_1": first.text,
                "generator_1": first.model or "first",
                "dataset": str(result.manifest.get("dataset", {}).get("name", "")),
                "output_2": second.text,
                "generator_2": second.model or "second",
                "annotator": str(result.manifest.get("judge", verdict.judge)),
                "preference": None if margin is None else (3 - margin) / 2,
                "raw_completion": None,
            }
        )
    if not rows:
        raise ConfigError(
            _PAIRS,
            where="evalkit export --to alpaca_eval",
            remedy="use --to csv or mt_bench",
        )
    return rows


def mt_bench(result: RunResult) -> list[Row]:
    """Return a line for each pair and sample with both games, or for each response with its score; -1 if missing.

    Raises:
        ConfigError: If the run has only rankings.
    """
    if result.config.rubric.classes:
        problem, where = (
            "the run has classes, and MT-bench's judgments have scores",
            "evalkit export --to mt_bench",
        )
        raise ConfigError(problem, where=where, remedy="use --to csv")
    cases = {case.id: case for case in result.cases}
    single = [
        _single(judgment, cases[judgment.case_id])
        for judgment in result.judgments
        if len(judgment.unit) == 1
    ]
    rows = single or list(_pairs(result, cases))
    if not rows:
        raise ConfigError(
            _PAIRS, where="evalkit export --to mt_bench", remedy="use --to csv"
        )
    return rows


def _turn(case: Case) -> Row:
    return {
        "question_id": case.metadata.get("question_id", case.id),
        "turn": int(case.metadata.get("turn", 1)),
        "tstamp": 0.0,
    }


def _single(judgment: Judgment, case: Case) -> Row:
    scores = list(judgment.criteria.values())
    (index,) = judgment.unit
    return {
        **_turn(case),
        "model": case.responses[index].model or f"response {index + 1}",
        "judge": [judgment.judge, "evalkit"],
        "user_prompt": f"[Question]\n{case.prompt}\n\n{_marked(case, index, '')}",
        "judgment": judgment.completion.text if judgment.completion else "",
        "score": sum(scores) / len(scores) if scores else -1,
    }


def _marked(case: Case, index: int, side: str) -> str:
    assistant = f"Assistant {side}".strip()
    return (
        f"[The Start of {assistant}'s Answer]\n{case.responses[index].text}\n[The End of"
        f" {assistant}'s Answer]"
    )


def _pairs(result: RunResult, cases: dict[str, Case]) -> Iterator[Row]:
    # (case, unit, sample, judge) -> the judgment of each game, by whether it showed the
    # responses in the unit's order
    games: dict[tuple[str, Unit, int, str], dict[bool, Judgment]] = {}
    for judgment in result.judgments:
        if len(judgment.unit) == 2 and judgment.arbiter is None:
            games.setdefault(
                (judgment.case_id, judgment.unit, judgment.sample, judgment.judge), {}
            )[judgment.shown == judgment.unit] = judgment
    for (name, unit, _, judge), by_order in games.items():
        case = cases[name]
        row = {**_turn(case), "judge": [judge, "evalkit"]}
        row |= {
            f"model_{position}": case.responses[index].model or f"response {index + 1}"
            for position, index in enumerate(unit, 1)
        }
        # game 1 shows the responses in the unit's order, game 2 in the other one
        for game, in_unit_order in (("g1", True), ("g2", False)):
            game_judgment = by_order.get(in_unit_order)
            order = unit if in_unit_order else unit[::-1]
            row[f"{game}_winner"] = (
                "error" if game_judgment is None else _winner(game_judgment)
            )
            texts = "\n\n".join(
                _marked(case, index, side)
                for index, side in zip(order, "AB", strict=True)
            )
            row[f"{game}_user_prompt"] = f"[User Question]\n{case.prompt}\n\n{texts}"
            row[f"{game}_judgment"] = (
                game_judgment.completion.text
                if game_judgment and game_judgment.completion
                else ""
            )
        yield row


def _winner(judgment: Judgment) -> str:
    if judgment.value is None:
        return "error"
    if abs(judgment.value) < 1e-9:
        return "tie"
    if judgment.value > 0:
        return "model_1"
    return "model_2"


def _listed(rows: list[dict[str, object]]) -> bytes:
    return (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def _lines(rows: list[dict[str, object]]) -> bytes:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return text.encode("utf-8", "backslashreplace")


def _tasks(result: RunResult, seed: int, sample: LabelSample | None) -> list[Task]:
    if sample is None:
        return label_tasks(result, seed=seed)
    return label_tasks(
        result, seed=seed, units=sample.units, probabilities=sample.probabilities
    )


CSV = "csv"
EXPORTS: Mapping[
    str, tuple[str, Callable[[RunResult, int, LabelSample | None], bytes]]
] = MappingProxyType(
    {
        CSV: ("csv", lambda result, *_: table_as_csv(rows_of_run(result))),
        "parquet": ("parquet", lambda result, *_: as_parquet(rows_of_run(result))),
        "alpaca_eval": ("json", lambda result, *_: _listed(alpaca_eval(result))),
        "mt_bench": ("jsonl", lambda result, *_: _lines(mt_bench(result))),
        "otel": ("jsonl", lambda result, *_: otel_lines(result)),
        "argilla": (
            "json",
            lambda *arguments: _listed(argilla_records(_tasks(*arguments))),
        ),
        "label_studio": (
            "json",
            lambda *arguments: _listed(label_studio_tasks(_tasks(*arguments))),
        ),
    }
)
"""Each format, with its file's suffix and its exporter."""


def export(
    result: RunResult,
    name: str,
    seed: int = 0,
    sample: LabelSample | None = None,
    *,
    raw: bool = False,
) -> bytes:
    """Return a run's judgments in a format of `EXPORTS`, as the content of one file.

    Labeling tasks are shuffled by `seed`; `sample` selects them. In CSV, texts that a spreadsheet
    would execute get a leading `'`, unless `raw`.

    Raises:
        ConfigError: If the run has nothing that the format can represent.
    """
    raw_csv = raw and name == CSV
    if raw_csv:
        content = table_as_csv(rows_of_run(result), raw=True)
    else:
        content = EXPORTS[name][1](result, seed, sample)
    if not result.judgments:
        raise ConfigError(
            "the run has no judgments",
            where=f"evalkit export --to {name}",
            remedy="use another run",
        )
    return content
