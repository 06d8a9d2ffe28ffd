"""AlpacaEval's annotations: two outputs to an instruction, and a preference from 1 (the first) to 2 (the second)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.datasets.named.arena import GAMED, calibrations
from evalkit.interop.files import Peek, number, require, rows_of, sibling_file
from evalkit.interop.records import (
    UNORDERED,
    Answer,
    NumberedNames,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
    missing_record,
)

_DRAW = 0.0


def sniff(start: Peek) -> bool:
    """Say whether its rows are annotations."""
    return start.has("instruction", "output_1", "output_2", "preference")


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each annotation; its margin is what the weighted preference is beyond an even one."""
    records, numbers, rows = [], NumberedNames(), Counter[tuple[str, ...]]()
    gamed = sibling_file(path, GAMED)
    calibration = {} if gamed is None else calibrations(gamed)
    seen: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for place, row in rows_of(path):
        instruction = str(require(row, "instruction", place))
        outputs = str(require(row, "output_1", place)), str(require(row, "output_2", place))
        # An instruction that stands twice has outputs of its own each time: they are two questions.
        pairs = seen.setdefault((instruction, str(row.get("generator_1")), str(row.get("generator_2"))), [])
        if outputs not in pairs:
            pairs.append(outputs)
        number = numbers[f"{pairs.index(outputs)}:{instruction}"]
        judge = options.judge or str(row.get("annotator") or "annotator")
        shown = _answer(row, 1), _answer(row, 2)
        known = {key: row[key] for key in ("dataset", "datasplit") if row.get(key)}
        # An instruction's number is its place among the annotations of one model, as AlpacaEval counts.
        place_of = rows[judge, str(row.get("generator_2"))]
        rows[judge, str(row.get("generator_2"))] += 1
        if place_of in calibration:
            known["calibration"] = calibration[place_of]
        if row.get("generator_1"):
            known["baseline"] = row["generator_1"]
        records.append(Record(number, instruction, shown, _said(row, judge), metadata=known))
    return ParsedFile(records, benchmark="alpaca_eval", notes=(UNORDERED,))


def _answer(row: Mapping[str, Any], side: int) -> Answer:
    model = row.get(f"generator_{side}")
    return Answer(str(model or side), str(row[f"output_{side}"]), None if model is None else str(model))


def _said(row: Mapping[str, Any], judge: str) -> RecordedJudgment:
    preference, text = number(row.get("preference")), _words(row.get("raw_completion"))
    if preference == _DRAW:
        preference = 1.5
    if preference is None or not 1 <= preference <= 2:
        return missing_record(judge, f"preference is {row.get('preference')}", text=text)
    return RecordedJudgment(judge, value=3 - 2 * preference, text=text)


def _words(raw: Any) -> str | None:
    """Return a completion's text: it is one, or a chat completion's choice, or the arguments of a function's call."""
    if isinstance(raw, Mapping):
        message = raw.get("message")
        said = message.get("content") if isinstance(message, Mapping) else raw.get("text")
        raw = said if said or isinstance(message, Mapping) else json.dumps(raw, ensure_ascii=False)
    return raw if isinstance(raw, str) and raw else None
