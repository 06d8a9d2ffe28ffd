"""FastChat's MT-bench judgments: single scores from 1 to 10, or pairs of models, each seen in both orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from evalkit.datasets.named.people import PEOPLE, pair_of
from evalkit.errors import DatasetError
from evalkit.interop.files import Peek, number, require, rows_of, sibling_file
from evalkit.interop.judge_prompts import answers_in, question_in, reference_in
from evalkit.interop.records import (
    TIE,
    UNORDERED,
    Answer,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
    missing_record,
)

BENCHMARK = "mt_bench"
Votes: TypeAlias = dict[tuple[str | int, ...], dict[str, str]]
_VOTES = ("human_judgments.jsonl", "human_judgments.json", "human.jsonl")
_GAMES = (("g1", ("model_1", "model_2")), ("g2", ("model_2", "model_1")))


def sniff(start: Peek) -> bool:
    """Say whether its rows are judgments of one answer, or of a pair of them."""
    return _is_pair(start.row) or _is_joined(start.row) or start.has("question_id", "model", "judgment", "score")


def _is_pair(row: Mapping[str, Any]) -> bool:
    return all(key in row for key in ("question_id", "model_1", "model_2", "g1_winner", "g2_winner"))


def _is_joined(row: Mapping[str, Any]) -> bool:
    """Say whether a row is a judge's verdict over both orders, laid out as people's votes are on Hugging Face."""
    columns = ("question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "turn")
    return all(key in row for key in columns) and not _named(row["judge"]).startswith(PEOPLE)


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each score, or two for each pair; each turn of a question is a case.

    Where people's votes stand beside the file (human_judgments.jsonl, or human-….parquet as on Hugging Face), each pair
    of models is a case, with their votes.

    Raises:
        DatasetError: if the file holds both kinds.
    """
    rows, kinds = list(rows_of(path)), _categories(path)
    if rows and _is_joined(rows[0][1]):
        return ParsedFile(
            [_joined(row, place, options) for place, row in rows], benchmark=BENCHMARK, notes=(UNORDERED,)
        )
    votes, notes = _votes(path)
    if len({_is_pair(row) for _, row in rows}) > 1:
        raise DatasetError("holds single scores and pairs", where=str(path), remedy="import each file by itself")
    if rows and _is_pair(rows[0][1]):
        records = [record for place, row in rows for record in _pairs(row, place, options, kinds, votes)]
        judged = {_voted(row, place) for place, row in rows}
        if others := sum(len(own) for key, own in votes.items() if key not in judged):
            notes.append(f"people's votes on pairs that were not judged, left out: {others}")
        return ParsedFile(records, {"format": "bracket"}, benchmark=BENCHMARK, notes=tuple(notes))
    records = [_single(row, place, options, kinds) for place, row in rows]
    scores = [value for record in records for value in record.said.scores.values()]
    step = 1.0 if all(score.is_integer() for score in scores) else 0.1
    return ParsedFile(records, {"format": "rating"}, scale=(1.0, 10.0, step), benchmark=BENCHMARK)


def _judge(row: Mapping[str, Any], options: Options) -> str:
    return options.judge or _named(row.get("judge")) or "judge"


def _named(judge: Any) -> str:
    return str((judge[0] if isinstance(judge, list) and judge else judge) or "")


def _case(row: Mapping[str, Any], place: str, kinds: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name, turn = str(require(row, "question_id", place)), row.get("turn", 1)
    metadata = {"question_id": name, "turn": turn} | ({"category": kinds[name]} if name in kinds else {})
    return (name if turn == 1 else f"{name} turn {turn}"), metadata


def _single(row: Mapping[str, Any], place: str, options: Options, kinds: Mapping[str, Any]) -> Record:
    name, metadata = _case(row, place, kinds)
    prompt, judge, text = str(row.get("user_prompt", "")), _judge(row, options), row.get("judgment")
    score, model = number(require(row, "score", place)), str(require(row, "model", place))
    said = (
        RecordedJudgment(judge, scores={"quality": score}, text=text)
        if score is not None and score >= 1
        else missing_record(judge, f"score is {row['score']}", text=text)
    )
    answer = Answer(model, answers_in(prompt).get("", ""), model)
    return Record(name, question_in(prompt), (answer,), said, reference=reference_in(prompt), metadata=metadata)


def _pairs(
    row: Mapping[str, Any], place: str, options: Options, kinds: Mapping[str, Any], votes: Votes
) -> Iterator[Record]:
    name, metadata = _case(row, place, kinds)
    models = sorted((str(row["model_1"]), str(row["model_2"])))
    own = votes.get(_voted(row, place), {})
    if votes:  # people's votes are kept of a case's two responses
        name = f"{name}: {' / '.join(models)}"
    for game, order in _GAMES:
        prompt, winner = str(row.get(f"{game}_user_prompt", "")), row.get(f"{game}_winner")
        texts, text = answers_in(prompt), row.get(f"{game}_judgment")
        judge = _judge(row, options)
        values = {order[0]: 1.0, order[1]: -1.0, "tie": 0.0}
        said = (
            RecordedJudgment(judge, value=values[winner], text=text)
            if winner in values
            else missing_record(judge, f"{game}_winner is {winner}", text=text)
        )
        first, second = (
            Answer(str(row[side]), texts.get(letter, ""), str(row[side]))
            for side, letter in zip(order, "AB", strict=True)
        )
        reference = reference_in(prompt)
        yield Record(
            name, question_in(prompt), (first, second), said, reference=reference, metadata=metadata, labels=own
        )


def _voted(row: Mapping[str, Any], place: str) -> tuple[str | int, ...]:
    """Return the question, turn and models of a pair, by which people's votes on it are found."""
    models = sorted((str(row["model_1"]), str(row["model_2"])))
    return str(require(row, "question_id", place)), int(row.get("turn", 1)), *models


def _joined(row: Mapping[str, Any], place: str, options: Options) -> Record:
    case = pair_of(dict(row), place)
    first, second = (Answer(case[f"model_{side}"], case[f"response_{side}"], case[f"model_{side}"]) for side in "ab")
    values = {"A": 1.0, "B": -1.0, "TIE": 0.0}
    judge, winner = _judge(row, options), case["winner"]
    said = (
        RecordedJudgment(judge, value=values[winner]) if winner else missing_record(judge, f"winner is {row['winner']}")
    )
    metadata = {key: case[key] for key in ("question_id", "turn")}
    return Record(case["id"], case["prompt"], (first, second), said, metadata=metadata)


def _votes(path: Path) -> tuple[Votes, list[str]]:
    """Return people's votes by question, turn and models, where a file of them stands beside, and what is left out."""
    file = sibling_file(path, *_VOTES) or next(iter(sorted(path.parent.glob("human-*.parquet"))), None)
    found: Votes = {}
    void = machines = 0
    for place, row in () if file is None else rows_of(file):
        models = str(require(row, "model_a", place)), str(require(row, "model_b", place))
        winners = {"model_a": models[0], "model_b": models[1], "tie": TIE, "tie (inconsistent)": TIE}
        voter, winner = _named(row.get("judge")), winners.get(str(row.get("winner")))
        if not voter.startswith(PEOPLE):
            machines += 1
        elif winner is None:
            void += 1
        else:
            own = found.setdefault(
                (str(require(row, "question_id", place)), int(row.get("turn", 1)), *sorted(models)), {}
            )
            again = sum(name.partition("#")[0] == voter for name in own)
            own[f"{voter}#{again + 1}" if again else voter] = winner
    notes = [f"people's votes without a winner, left out: {void}"] if void else []
    return found, [*notes, f"models' judgments among people's votes, left out: {machines}"] if machines else notes


def _categories(path: Path) -> dict[str, Any]:
    file = sibling_file(path, "question.jsonl")
    return {} if file is None else {str(row.get("question_id")): row.get("category") for _, row in rows_of(file)}
