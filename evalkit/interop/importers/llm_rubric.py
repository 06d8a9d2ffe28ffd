"""Import LLM-Rubric's distributions over answers (Hashemi et al. 2024, ACL, arXiv
2501.00274), and annotators' answers.

A row has the probability of each answer from 1 to 4 to one question about a dialogue. The score is
the most likely answer; with `scoring.weighted`, it is the expected one.
"""

from __future__ import annotations

from pathlib import Path

from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.types import WeightedJudgment
from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.judgment_files import Peek, number, peek, require, rows_of
from evalkit.interop.layouts.layouts import record_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_ANSWERS = {k: f"answer{k}_prob" for k in range(1, 5)}
_OVERALL = "Q0"
"""The question on overall satisfaction."""
_SUFFIXES = (".tsv", ".csv")


def _sniff(start: Peek) -> bool:
    if start.path.is_dir():
        return any(_sniff(peek(file)) for file in _tables(start.path))
    return start.has("text_id", "criterion", *_ANSWERS.values())


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each dialogue; grades are the annotators' answers to the same question.

    The metadata name its annotators and its system, which can be slices.

    Raises:
        ConfigError: If no row has the question that `dimension` selects.
        DatasetError: If a probability is missing.
    """
    tables = _tables(path if path.is_dir() else path.parent)
    if path.is_file():
        file = path
    else:
        file = next(table for table in tables if _sniff(peek(table)))
    question = options.dimension or _OVERALL
    rows = [(location, row) for location, row in rows_of(file)]
    questions = dict.fromkeys(
        str(require(row, "criterion", location)) for location, row in rows
    )
    if question not in questions:
        raise ConfigError(
            "no such question",
            where=f"--dimension {question}",
            remedy=did_you_mean(question, questions),
        )
    grades, systems = _grades(tables, question)
    records = []
    for location, row in rows:
        if row["criterion"] == question:
            dialogue = str(require(row, "text_id", location))
            answers = grades.get(dialogue, {})
            cells = {
                "id": dialogue,
                "judge": options.judge or file.name.partition("_")[0],
                "grade": sum(answers.values()) / len(answers) if answers else None,
                "metadata": {
                    **({"annotator": [*answers]} if answers else {}),
                    **systems.get(dialogue, {}),
                },
                **(
                    {f"label.{name}": grade for name, grade in answers.items()}
                    if len(answers) > 1
                    else {}
                ),
                **_score_cells(row, question, location),
            }
            records.append(record_of(cells, location, "response"))
    notes = (
        ()
        if grades
        else ("the annotators' answers are missing: responses have no grades",)
    )
    return ParsedFile(records, scale=(1.0, 4.0, 1.0), notes=notes)


def _score_cells(row: Json, question: str, location: str) -> JsonObject:
    """Return the most probable answer to a question, with the expected one; or an error.

    Raises:
        DatasetError: If a probability is missing or negative.
    """
    chances = {
        answer: number(require(row, column, location))
        for answer, column in _ANSWERS.items()
    }
    probabilities = {
        answer: chance for answer, chance in chances.items() if chance is not None
    }
    total = sum(probabilities.values())
    if len(probabilities) < len(chances) or min(probabilities.values()) < 0:
        raise DatasetError(
            "a probability is not a number of at least 0",
            where=location,
            remedy="correct the row",
        )
    if not total:
        return {"error": "no answer has a probability"}
    expected = sum(answer * chance for answer, chance in probabilities.items()) / total
    # the probabilities of answers may sum to less than 1: their sum is the mass
    weighted = WeightedJudgment(criteria={question: expected}, mass=min(total, 1.0))
    return {
        f"score.{question}": max(probabilities, key=probabilities.__getitem__),
        "weighted": weighted,
    }


def _grades(
    tables: list[Path], question: str
) -> tuple[dict[str, dict[str, float]], dict[str, JsonObject]]:
    """Return each annotator's answer to a question, and the system, by dialogue; 0
    stands for no answer.
    """
    grades: dict[str, dict[str, float]] = {}
    systems: dict[str, JsonObject] = {}
    for file in tables:
        if not peek(file).has("text_id", "annotator_id", question):
            continue
        for location, row in rows_of(file):
            dialogue = str(require(row, "text_id", location))
            if (system := row.get("dialogue_system")) is not None:
                systems[dialogue] = {"dialogue_system": system}
            if grade := number(row.get(question)):
                grades.setdefault(dialogue, {})[str(row["annotator_id"])] = grade
    return grades, systems


def _tables(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in _SUFFIXES)


IMPORTER = Importer(
    "llm_rubric",
    "LLM-Rubric's distributions over answers: the table, or the folder with the annotators'"
    " answers",
    _sniff,
    _read_records,
)
