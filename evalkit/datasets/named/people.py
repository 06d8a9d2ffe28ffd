"""Benchmarks of pairs that several people, or people at their leisure, compared: MT-Bench's votes and FairEval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.datasets.formats import Row
from evalkit.datasets.named.benchmark import (
    Benchmark,
    ForeignError,
    Source,
    benchmark_files,
    checked,
    choice,
    listed,
    shape,
)
from evalkit.datasets.named.files import Placed, first_row, rows_of
from evalkit.errors import DatasetError

PEOPLE: Final = ("expert", "author")
"""What the names of MT-Bench's voters begin with; other judges are models."""
_VOTES: Final = {"model_a": "A", "model_b": "B", "tie": "TIE", "tie (inconsistent)": "TIE"}
_TURNED: Final = {"A": "B", "B": "A", "TIE": "TIE"}
_FAIREVAL: Final = {"CHATGPT": "A", "VICUNA13B": "B", "TIE": "TIE"}
_FAIREVAL_MODELS: Final = ("gpt35", "vicuna-13b")
_REVIEW: Final = "review/review_gpt35_vicuna-13b_human.txt"


def _mt_bench(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each question, turn and pair of models that people voted on, with all their votes."""
    cases: dict[tuple[str, int, str, str], tuple[str, Row]] = {}
    for file in benchmark_files(benchmark, source):
        for place, row in checked(benchmark, file):
            judge = str(row["judge"])
            if not judge.startswith(PEOPLE):
                source.left_out["models' judgments among people's votes"] += 1
                continue
            _add_vote(cases, row, judge, place)
    if not cases:
        raise DatasetError(
            "holds no vote of a person", where=str(source.path), remedy="name the file of human votes, human-….parquet"
        )
    yield from cases.values()


def _add_vote(cases: dict[tuple[str, int, str, str], tuple[str, Row]], row: Row, judge: str, place: str) -> None:
    key, first, second = _key(row)
    if key not in cases:
        cases[key] = place, _pair(key, row, first, second, place)
    votes = cases[key][1]["labels"]
    voter = judge if judge not in votes else f"{judge}#{sum(name.partition('#')[0] == judge for name in votes) + 1}"
    votes[voter] = _winner(row, first, place)


def _key(row: Row) -> tuple[tuple[str, int, str, str], str, str]:
    """Return what tells a row's pair, its models in the order of their names, and which sides they are on."""
    first, second = ("b", "a") if str(row["model_a"]) > str(row["model_b"]) else ("a", "b")
    models = str(row[f"model_{first}"]), str(row[f"model_{second}"])
    return (str(row["question_id"]), int(row["turn"]), *models), first, second


def _winner(row: Row, first: str, place: str) -> str | None:
    vote = choice(row["winner"], _VOTES, place)
    return _TURNED[vote] if first == "b" and vote else vote


def pair_of(row: Row, place: str) -> Row:
    """Return the pair of responses that a row of MT-Bench compares, and the `winner` of the two."""
    key, first, second = _key(row)
    return {**_pair(key, row, first, second, place), "winner": _winner(row, first, place)}


def _pair(key: tuple[str, int, str, str], row: Row, first: str, second: str, place: str) -> Row:
    question, turn, model_a, model_b = key
    asked = _said(row[f"conversation_{first}"], "user", turn, place)
    return {
        "id": f"{question}/{turn}/{model_a}/{model_b}",
        "prompt": asked,
        "response_a": _said(row[f"conversation_{first}"], "assistant", turn, place),
        "response_b": _said(row[f"conversation_{second}"], "assistant", turn, place),
        "model_a": model_a,
        "model_b": model_b,
        "labels": {},
        "question_id": row["question_id"],
        "turn": turn,
    }


def _said(messages: Any, role: str, turns: int, place: str) -> str:
    """Return what one side said in the first turns: the one text, or all under their numbers."""
    texts = [str(message["content"]) for message in listed(messages, "conversation", place) if message["role"] == role]
    if len(texts) < turns:
        raise DatasetError(f"turn {turns} has no message of the {role}", where=place, remedy="mend the row")
    if turns == 1:
        return texts[0]
    return "\n\n".join(f"[Turn {number}]\n{text}" for number, text in enumerate(texts[:turns], 1))


def _holds_faireval(folder: Path) -> bool:
    return (folder / _REVIEW).is_file()


def _faireval(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield the pairs of FairEval: the answers of two models to each question, and people's choice in its line."""
    folder = source.path
    if not _holds_faireval(folder):
        row = None if folder.is_dir() else first_row(folder)
        raise ForeignError(benchmark, f"no {_REVIEW}", row, str(folder))
    review = folder / _REVIEW
    labels = [line.strip() for line in review.read_text(encoding="utf-8").splitlines() if line.strip()]
    questions = list(rows_of(folder / "question.jsonl"))
    answers = [_by_question(folder / "answer" / f"answer_{model}.jsonl") for model in _FAIREVAL_MODELS]
    if len(labels) != len(questions):
        what = f"holds {len(labels)} labels for {len(questions)} questions"
        raise DatasetError(what, where=str(review), remedy="write one label a line, in the order of question.jsonl")
    for number, ((place, row), label) in enumerate(zip(questions, labels, strict=True), 1):
        yield place, _faireval_case(row, answers, choice(label, _FAIREVAL, f"{review}:{number}"), place)


def _by_question(file: Path) -> dict[Any, Row]:
    return {row["question_id"]: row for _, row in rows_of(file)}


def _faireval_case(row: Row, answers: Sequence[Mapping[Any, Row]], label: str | None, place: str) -> Row:
    question = row["question_id"]
    for model, given in zip(_FAIREVAL_MODELS, answers, strict=True):
        if question not in given:
            raise DatasetError(f"question {question} has no answer of {model}", where=place, remedy="add it")
    return {
        "id": str(question),
        "prompt": row["text"],
        "response_a": answers[0][question]["text"],
        "response_b": answers[1][question]["text"],
        "model_a": _FAIREVAL_MODELS[0],
        "model_b": _FAIREVAL_MODELS[1],
        "label": label,
        "subset": row.get("category"),
    }


MT_BENCH: Final = Benchmark(
    "mt_bench",
    "MT-Bench human judgments",
    kind="MT-Bench judgments",
    licence="CC BY 4.0",
    citation="Zheng et al. 2023, NeurIPS, arXiv 2306.05685",
    homepage="https://huggingface.co/datasets/lmsys/mt_bench_human_judgments",
    expects="the file of human votes of lmsys/mt_bench_human_judgments, as Parquet or JSONL",
    shapes=(shape("question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "turn"),),
    read=_mt_bench,
)
FAIREVAL: Final = Benchmark(
    "faireval",
    "FairEval",
    kind="FairEval",
    licence="none stated: see the authors' page",
    citation="Wang et al. 2024, ACL, arXiv 2305.17926",
    homepage="https://github.com/i-Eval/FairEval",
    expects="FairEval's folder, with question.jsonl, answer/ and review/",
    shapes=(),
    read=_faireval,
    holds=_holds_faireval,
)
