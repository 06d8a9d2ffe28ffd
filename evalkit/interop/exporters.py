"""Export a run's judgments: as one table, which `evalkit import generic` can read, and
in other projects' formats.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from evalkit.core.errors import ConfigError
from evalkit.core.resources import optional
from evalkit.core.types import Case, Judgment, Unit
from evalkit.interop.otel import otel_lines
from evalkit.runs.records import as_csv
from evalkit.runs.results import RunResult
from evalkit.runs.rows import Row, column, judged_case, rows_of_run


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


_PAIRS = "the run has no pairs"


def alpaca_eval(result: RunResult) -> list[Row]:
    """Return an annotation for each pair.

    The preference is 1 if output_1 is better, 2 if output_2 is better.

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
        case = judged_case(verdict.case_id, cases)
        first, second = (case.responses[index] for index in verdict.unit)
        margin = verdict.margin
        # The baseline must be the first output, so both sides and the margin are exchanged.
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
                # From a margin of 1 to -1 to a preference from 1 to 2.
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
    """Return a line for each pair and sample with both games, or for each response.

    A response has its score; -1 if it is missing.

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
        _single_row(judgment, judged_case(judgment.case_id, cases))
        for judgment in result.judgments
        if len(judgment.unit) == 1
    ]
    # Judgments of single responses win over pairs.
    rows = single or list(_pair_rows(result, cases))
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


def _single_row(judgment: Judgment, case: Case) -> Row:
    """Return the row of a judgment of one response; a score of -1 means that there is none."""
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


def _pair_rows(result: RunResult, cases: dict[str, Case]) -> Iterator[Row]:
    """Yield a row for each pair, with two games: one for each order of its responses."""
    # (case, unit, sample, judge) -> the judgment of each game, by whether it showed the
    # responses in the unit's order
    games: dict[tuple[str, Unit, int, str], dict[bool, Judgment]] = {}
    for judgment in result.judgments:
        if len(judgment.unit) == 2 and judgment.arbiter is None:
            key = (judgment.case_id, judgment.unit, judgment.sample, judgment.judge)
            by_order = games.setdefault(key, {})
            by_order[judgment.shown == judgment.unit] = judgment
    for (case_id, unit, _, judge), by_order in games.items():
        case = cases[case_id]
        row = {**_turn(case), "judge": [judge, "evalkit"]}
        for position, index in enumerate(unit, 1):
            model = case.responses[index].model
            row[f"model_{position}"] = model or f"response {index + 1}"
        # Game 1 shows the responses in the unit's order, game 2 in the other one.
        row |= _game_cells("g1", case, unit, by_order.get(True))
        row |= _game_cells("g2", case, unit[::-1], by_order.get(False))
        yield row


def _game_cells(game: str, case: Case, order: Unit, judgment: Judgment | None) -> Row:
    """Return the columns of one game; one that was not judged is an error in that format."""
    texts = "\n\n".join(
        _marked(case, index, side) for index, side in zip(order, "AB", strict=True)
    )
    completion = None if judgment is None else judgment.completion
    return {
        f"{game}_winner": "error" if judgment is None else _winner(judgment),
        f"{game}_user_prompt": f"[User Question]\n{case.prompt}\n\n{texts}",
        f"{game}_judgment": completion.text if completion else "",
    }


def _winner(judgment: Judgment) -> str:
    if judgment.value is None:
        return "error"
    # The margin is of the unit's own order in both games.
    if abs(judgment.value) < 1e-9:
        return "tie"
    if judgment.value > 0:
        return "model_1"
    return "model_2"


def json_array(rows: list[dict[str, object]]) -> bytes:
    """Return rows as one JSON array."""
    return (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def json_lines(rows: list[dict[str, object]]) -> bytes:
    """Return rows as JSON lines."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return text.encode("utf-8", "backslashreplace")


CSV = "csv"
EXPORTS: Mapping[str, tuple[str, Callable[[RunResult], bytes]]] = MappingProxyType(
    {
        CSV: ("csv", lambda result: table_as_csv(rows_of_run(result))),
        "parquet": ("parquet", lambda result: as_parquet(rows_of_run(result))),
        "alpaca_eval": ("json", lambda result: json_array(alpaca_eval(result))),
        "mt_bench": ("jsonl", lambda result: json_lines(mt_bench(result))),
        "otel": ("jsonl", otel_lines),
    }
)
"""Each format, with its file's suffix and its exporter."""


def export(result: RunResult, name: str, *, raw: bool = False) -> bytes:
    """Return a run's judgments in a format of `EXPORTS`, as the content of one file.

    In CSV, texts that a spreadsheet would execute get a leading `'`, unless `raw`.

    Raises:
        ConfigError: If the run has nothing that the format can represent.
    """
    if raw and name == CSV:
        content = table_as_csv(rows_of_run(result), raw=True)
    else:
        content = EXPORTS[name][1](result)
    if not result.judgments:
        raise no_judgments(name)
    return content


def no_judgments(name: str) -> ConfigError:
    """Return the error that a run has nothing to export to a format."""
    return ConfigError(
        "the run has no judgments",
        where=f"evalkit export --to {name}",
        remedy="use another run",
    )
