"""HalluQA: Chinese questions, correct answers to compare with, and the answers of one or several models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from evalkit.datasets.formats import Row
from evalkit.datasets.named.benchmark import Benchmark, Source, benchmark_files, checked, shape
from evalkit.datasets.named.files import Placed, first_row
from evalkit.errors import DatasetError

_QUESTION: Final = shape("Question", "Category", "Best Answer1")
_ANSWER: Final = shape("question_id", "question", "response")
QUESTIONS_FILE: Final = "HalluQA.json"


def _halluqa(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each question, with the answers of all models; categories come from HalluQA.json."""
    questions = _questions(benchmark, source.path)
    cases: dict[Any, tuple[str, Row]] = {}
    files = _answer_files(benchmark, source)
    models = models_of(files)
    for file in files:
        for place, row in checked(benchmark, file, _ANSWER):
            number = row["question_id"]
            if number not in cases:
                cases[number] = place, _case(row, questions.get(number, {}))
            responses = cases[number][1]["responses"]
            responses.append({"model": models[file], "text": row["response"]})
    yield from cases.values()


def _answer_files(benchmark: Benchmark, source: Source) -> list[Path]:
    if not source.path.is_dir() and _is_questions(source.path):
        what = "holds the questions, and no answers to judge"
        raise DatasetError(what, where=str(source.path), remedy="name a file of answers, or the folder of both")
    return benchmark_files(benchmark, source, _ANSWER)


def _is_questions(file: Path) -> bool:
    row = first_row(file)
    return row is not None and row.keys() >= _QUESTION


def _questions(benchmark: Benchmark, path: Path) -> dict[Any, Row]:
    """Return the questions by their number, from the file beside the answers; none if it is not there."""
    file = (path if path.is_dir() else path.parent) / QUESTIONS_FILE
    if not file.is_file():
        return {}
    return {row["question_id"]: row for _, row in checked(benchmark, file, _QUESTION)}


def models_of(files: Iterable[Path]) -> dict[Path, str]:
    """Return the model of each file, as `m` of m_output_qa_prompt.json; models that are alike go by their files."""
    stems = {file: file.name.partition(".json")[0] for file in files}
    models = {file: stem.partition("_output")[0] for file, stem in stems.items()}
    counts = Counter(models.values())
    return {file: model if counts[model] == 1 else stems[file] for file, model in models.items()}


def _case(row: Row, question: Row) -> Row:
    best = best_answers(row) or best_answers(question)
    return {
        "id": str(row["question_id"]),
        "prompt": row["question"],
        "reference": "\n".join(best) or None,
        "responses": [],
        "subset": str(question["Category"]).lower().replace("-", "_") if question else None,
    }


def best_answers(row: Row) -> list[str]:
    """Return the correct answers, which some files number."""
    names = [name for name in row if name.replace("_", " ").startswith("Best Answer")]
    return [str(row[name]) for name in names if row[name] not in (None, "")]


HALLUQA: Final = Benchmark(
    "halluqa",
    "HalluQA",
    kind="HalluQA",
    licence="Apache-2.0",
    citation="Cheng et al. 2023, arXiv 2310.03368",
    homepage="https://github.com/OpenMOSS/HalluQA",
    expects="a file of answers to HalluQA (question_id, question, response), or a folder of them with HalluQA.json",
    shapes=(_QUESTION, shape("question_id", "question", "response", "Best_Answer"), _ANSWER | {"Best_Answer1"}),
    read=_halluqa,
)
