"""RewardBench's results: a chosen and a rejected response, whether the chosen one won, and a reward model's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, DatasetError
from evalkit.interop.files import Peek, load_object, number, rows_of, text
from evalkit.interop.records import UNORDERED, Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record

BENCHMARK = "rewardbench"
_SIDES = ("chosen", "rejected")


def sniff(start: Peek) -> bool:
    """Say whether its rows, or columns, are results on chosen and rejected responses."""
    keys = start.row or start.top
    scored = all(f"scores_{side}" in keys for side in _SIDES)
    texts = any(f"{name}chosen" in keys for name in ("text_", ""))
    return ("results" in keys and (scored or texts)) or (scored and ("subset" in keys or texts))


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each pair, or with `--scores` one for each response; in a folder each file is a judge's."""
    files = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    rows = [
        (options.judge or str(row.get("model") or file.stem), index, row)
        for file in files
        for index, row in enumerate(_rows(file))
    ]
    if options.scores:
        if not all(f"scores_{side}" in row for _, _, row in rows[:1] for side in _SIDES):
            raise ConfigError("holds winners, and no scores", where=str(path), remedy="leave --scores out")
        records = [record for judge, index, row in rows for record in _scores(row, index, judge)]
        return ParsedFile(records, benchmark=BENCHMARK)
    records = [_pair(row, index, judge) for judge, index, row in rows]
    return ParsedFile(records, benchmark=BENCHMARK, notes=(UNORDERED,))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield rows, also of one object that holds columns."""
    if path.is_file() and path.suffix == ".json" and path.read_bytes()[:64].lstrip().startswith(b"{"):
        whole = load_object(path)
        columns = {key: value for key, value in whole.items() if isinstance(value, list)}
        if len({len(column) for column in columns.values()}) > 1:
            raise DatasetError("its columns are of different lengths", where=str(path), remedy="mend the file")
        common = {key: value for key, value in whole.items() if key not in columns}
        for cells in zip(*columns.values(), strict=True):
            yield {**common, **dict(zip(columns, cells, strict=True))}
        return
    for _, row in rows_of(path):
        yield row


def _answer(row: Mapping[str, Any], side: str) -> Answer:
    grade = 1.0 if side == "chosen" else 0.0
    model = row.get(f"{side}_model")
    said = text(row.get(f"text_{side}", row.get(side)))
    return Answer(side, said, None if model is None else str(model), grade)


def _case(row: Mapping[str, Any], index: int) -> tuple[str, str, dict[str, Any]]:
    name = row.get("id", index)
    metadata = {"subset": row["subset"]} if row.get("subset") else {}
    named = f"{row['subset']}/{name}" if row.get("subset") else str(name)
    return named, text(row.get("prompt")), metadata


def _score(row: Mapping[str, Any], side: str) -> float | None:
    value = row.get(f"scores_{side}")
    return number(value[0] if isinstance(value, list) and len(value) == 1 else value)


def _pair(row: Mapping[str, Any], index: int, judge: str) -> Record:
    name, prompt, metadata = _case(row, index)
    result = number(row.get("results"))
    if result is None and None not in (both := [_score(row, side) for side in _SIDES]):
        first, second = both
        result = 0.5 if first == second else float((first or 0.0) > (second or 0.0))
    said = (
        RecordedJudgment(judge, value=2 * result - 1)
        if result is not None and 0 <= result <= 1
        else missing_record(judge, "no result")
    )
    return Record(name, prompt, (_answer(row, "chosen"), _answer(row, "rejected")), said, "chosen", metadata=metadata)


def _scores(row: Mapping[str, Any], index: int, judge: str) -> Iterator[Record]:
    name, prompt, metadata = _case(row, index)
    for side in _SIDES:
        score = _score(row, side)
        said = (
            RecordedJudgment(judge, scores={"reward": score})
            if score is not None
            else missing_record(judge, "no score")
        )
        yield Record(name, prompt, (_answer(row, side),), said, metadata=metadata)
