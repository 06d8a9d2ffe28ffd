"""FastChat's MT-bench judgments: single scores from 1 to 10, or pairs of models, each seen in both orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from evalkit.errors import DatasetError
from evalkit.exchange.files import Peek, beside, need, number, rows_of
from evalkit.exchange.records import TIE, Answer, Found, Options, Record, Said, lost
from evalkit.exchange.templates import answers_in, question_in, reference_in

BENCHMARK = "mt_bench"
Votes: TypeAlias = dict[tuple[str | int, ...], dict[str, str]]
_VOTES = ("human_judgments.jsonl", "human_judgments.json", "human.jsonl")
_GAMES = (("g1", ("model_1", "model_2")), ("g2", ("model_2", "model_1")))


def sniff(start: Peek) -> bool:
    """Say whether its rows are judgments of one answer, or of a pair of them."""
    return _is_pair(start.row) or start.has("question_id", "model", "judgment", "score")


def _is_pair(row: Mapping[str, Any]) -> bool:
    return all(key in row for key in ("question_id", "model_1", "model_2", "g1_winner", "g2_winner"))


def read(path: Path, options: Options) -> Found:
    """Return a record for each score, or two for each pair; each turn of a question is a case.

    Where people's votes stand beside the file (human_judgments.jsonl, or human-….parquet as on Hugging Face), each pair
    of models is a case, with their votes.

    Raises:
        DatasetError: if the file holds both kinds.
    """
    rows, kinds, votes = list(rows_of(path)), _categories(path), _votes(path)
    if len({_is_pair(row) for _, row in rows}) > 1:
        raise DatasetError("holds single scores and pairs", where=str(path), remedy="import each file by itself")
    if rows and _is_pair(rows[0][1]):
        records = [record for place, row in rows for record in _pairs(row, place, options, kinds, votes)]
        return Found(records, {"format": "bracket"}, benchmark=BENCHMARK)
    records = [_single(row, place, options, kinds) for place, row in rows]
    scores = [value for record in records for value in record.said.scores.values()]
    step = 1.0 if all(score.is_integer() for score in scores) else 0.1
    return Found(records, {"format": "rating"}, scale=(1.0, 10.0, step), benchmark=BENCHMARK)


def _judge(row: Mapping[str, Any], options: Options) -> str:
    return options.judge or _named(row.get("judge")) or "judge"


def _named(judge: Any) -> str:
    return str((judge[0] if isinstance(judge, list) and judge else judge) or "")


def _case(row: Mapping[str, Any], place: str, kinds: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name, turn = str(need(row, "question_id", place)), row.get("turn", 1)
    metadata = {"question_id": name, "turn": turn} | ({"category": kinds[name]} if name in kinds else {})
    return (name if turn == 1 else f"{name} turn {turn}"), metadata


def _single(row: Mapping[str, Any], place: str, options: Options, kinds: Mapping[str, Any]) -> Record:
    name, metadata = _case(row, place, kinds)
    prompt, judge, text = str(row.get("user_prompt", "")), _judge(row, options), row.get("judgment")
    score, model = number(need(row, "score", place)), str(need(row, "model", place))
    said = (
        Said(judge, scores={"quality": score}, text=text)
        if score is not None and score >= 1
        else lost(judge, f"score is {row['score']}", text=text)
    )
    answer = Answer(model, answers_in(prompt).get("", ""), model)
    return Record(name, question_in(prompt), (answer,), said, reference=reference_in(prompt), metadata=metadata)


def _pairs(
    row: Mapping[str, Any], place: str, options: Options, kinds: Mapping[str, Any], votes: Votes
) -> Iterator[Record]:
    name, metadata = _case(row, place, kinds)
    models = sorted((str(row["model_1"]), str(row["model_2"])))
    own = votes.get((str(row["question_id"]), int(metadata["turn"]), *models), {})
    if votes:  # people's votes are kept of a case's two responses
        name = f"{name}: {' / '.join(models)}"
    for game, order in _GAMES:
        prompt, winner = str(row.get(f"{game}_user_prompt", "")), row.get(f"{game}_winner")
        texts, text = answers_in(prompt), row.get(f"{game}_judgment")
        judge = _judge(row, options)
        values = {order[0]: 1.0, order[1]: -1.0, "tie": 0.0}
        said = (
            Said(judge, value=values[winner], text=text)
            if winner in values
            else lost(judge, f"{game}_winner is {winner}", text=text)
        )
        first, second = (
            Answer(str(row[side]), texts.get(letter, ""), str(row[side]))
            for side, letter in zip(order, "AB", strict=True)
        )
        reference = reference_in(prompt)
        yield Record(
            name, question_in(prompt), (first, second), said, reference=reference, metadata=metadata, labels=own
        )


def _votes(path: Path) -> Votes:
    """Return people's votes by question, turn and models, where a file of them stands beside the judgments."""
    file = beside(path, *_VOTES) or next(iter(sorted(path.parent.glob("human-*.parquet"))), None)
    found: Votes = {}
    for place, row in () if file is None else rows_of(file):
        models = str(need(row, "model_a", place)), str(need(row, "model_b", place))
        winners = {"model_a": models[0], "model_b": models[1], "tie": TIE, "tie (inconsistent)": TIE}
        voter, winner = _named(row.get("judge")), winners.get(str(row.get("winner")))
        if winner is not None and voter.startswith(("expert", "author")):
            own = found.setdefault((str(need(row, "question_id", place)), int(row.get("turn", 1)), *sorted(models)), {})
            again = sum(name.partition("#")[0] == voter for name in own)
            own[f"{voter}#{again + 1}" if again else voter] = winner
    return found


def _categories(path: Path) -> dict[str, Any]:
    file = beside(path, "question.jsonl")
    return {} if file is None else {str(row.get("question_id")): row.get("category") for _, row in rows_of(file)}
