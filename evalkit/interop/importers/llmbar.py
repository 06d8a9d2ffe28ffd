"""LLMBar: result.json of an evaluator, whose rows hold the pair, the gold label and both orders' texts and winners.

They are published as SET/evaluators/JUDGE/STRATEGY/result.json; cases are then named as `dataset=llmbar` names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.datasets.named.benchmark import choice
from evalkit.errors import ConfigError
from evalkit.interop.files import Peek, number, require, rows_of
from evalkit.interop.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record

BENCHMARK = "llmbar"
RESULTS, EVALUATORS = "result.json", "evaluators"
ORDERS = ("swap = False", "swap = True")
PATTERN = r"Output \((?P<winner>[ab])\)"
_SAID = {"a": "A", "b": "B"}


def sniff(start: Peek) -> bool:
    """Say whether its rows are LLMBar's results."""
    return RESULTS in start.names or start.has("output_1", "output_2", "results") or bool(_sets(start.path))


def read(path: Path, options: Options) -> ParsedFile:
    """Return two records for each row, one in each order, or with `--scores` one for each output that was rated.

    A folder stands for the result.json in it, or for all sets below it as one evaluator judged them.

    Raises:
        ConfigError: if a folder holds results of several evaluators, and `options.judge` names none of them.
    """
    files = _files(path, options)
    path = files[0]
    placed = [(file, index, place, row) for file in files for index, (place, row) in enumerate(rows_of(file))]
    strategy = path.parent.name if path.name == RESULTS else path.stem
    judge = options.judge or (path.parent.parent.name if path.name == RESULTS else path.stem)
    rated = "score_1" in _last(placed[0][3], placed[0][2]) if placed else False
    if options.scores and not rated:
        raise ConfigError("holds winners, and no scores", where=str(path), remedy="leave --scores out")
    judged = [order for order in ORDERS if any(_last(row, place).get(order) for *_, place, row in placed)] or ORDERS
    records = [
        replace(record, question=f"{of_set}/{index + 1}", metadata={"subset": of_set}) if of_set else record
        for file, index, place, row in placed
        for of_set in [_set(file)]
        for record in (_scores if options.scores else _pairs)(row, index, place, judge, judged)
    ]
    if options.scores:
        output = {"format": "regex", "pattern": r"(?P<score>\d+)", "take": "first"}
        return ParsedFile(records, output, scale=(0.0, 9.0, 1.0), benchmark=BENCHMARK, below=True)
    notes = ("winners made of two scores: equal ones were given to a side by order",) if rated else ()
    return ParsedFile(
        records, None if rated else _output(records, strategy), benchmark=BENCHMARK, notes=notes, below=True
    )


def _sets(folder: Path) -> dict[str, list[Path]]:
    """Return the results below a folder, by evaluator: JUDGE/STRATEGY."""
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.glob(f"**/{EVALUATORS}/*/*/{RESULTS}")) if folder.is_dir() else ():
        found.setdefault("/".join(file.parts[-3:-1]), []).append(file)
    return found


def _files(path: Path, options: Options) -> list[Path]:
    if not path.is_dir() or (path / RESULTS).is_file():
        return [path / RESULTS if path.is_dir() else path]
    found = _sets(path)
    if len(found) == 1:
        return next(iter(found.values()))
    if options.judge not in found:
        remedy = f"name one of them: --judge {' or '.join(found)}"
        raise ConfigError("holds results of several evaluators", where=str(path), remedy=remedy)
    return found[options.judge]


def _set(file: Path) -> str | None:
    """Return the set that a result is of, by the folder that it is published in."""
    parts = file.resolve().parts
    return parts[-5].lower() if len(parts) > 4 and parts[-4] == EVALUATORS else None


def _output(records: Sequence[Record], strategy: str) -> Mapping[str, Any]:
    texts = [record.said.text or "" for record in records]
    concluding = sum("is better" in text for text in texts)
    reasoned = strategy.startswith("CoT") or concluding > len(texts) / 2
    return {"format": "regex", "pattern": PATTERN + " is better" * reasoned, "map": _SAID}


def _last(row: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    results = require(row, "results", place)
    last: Mapping[str, Any] = results[-1] if results else {}
    return last


def _answers(row: Mapping[str, Any], place: str) -> tuple[Answer, Answer]:
    return Answer("1", str(require(row, "output_1", place))), Answer("2", str(require(row, "output_2", place)))


def _pairs(row: Mapping[str, Any], index: int, place: str, judge: str, orders: Sequence[str]) -> Iterator[Record]:
    one, two = _answers(row, place)
    better, last = _label(row, place), _last(row, place)
    for order in orders:
        entry = last.get(order) or {}
        shown = (one, two) if order == ORDERS[0] else (two, one)
        text = (entry.get("completion") or [None])[0]
        winner = str(entry.get("winner"))
        if winner in ("1", "2"):
            said = RecordedJudgment(judge, value=1.0 if winner == shown[0].key else -1.0, text=text)
        else:
            said = missing_record(judge, f"winner is {winner}", text=text)
        yield Record(str(index), str(row.get("input", "")), shown, said, better)


def _label(row: Mapping[str, Any], place: str) -> str | None:
    return choice(row.get("label"), {"1": "1", "2": "2"}, place)


def _scores(row: Mapping[str, Any], index: int, place: str, judge: str, _: Sequence[str]) -> Iterator[Record]:
    better, last = _label(row, place), _last(row, place)
    for answer in _answers(row, place):
        text = str((last.get(f"score_{answer.key}") or [""])[0])
        score = number(text.strip())
        said = (
            RecordedJudgment(judge, scores={"quality": score}, text=text)
            if score is not None
            else missing_record(judge, text, text=text)
        )
        grade = None if better is None else float(answer.key == better)
        shown = (Answer(answer.key, answer.text, None, grade),)
        yield Record(str(index), str(row.get("input", "")), shown, said)
