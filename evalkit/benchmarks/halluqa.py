"""HalluQA (Cheng et al. 2023, arXiv 2310.03368): Chinese questions, correct answers,
and models' answers to judge.

Each system has a file of judged answers: hallucination (0) or not (1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from evalkit.benchmarks.shared.benchmark import (
    Benchmark,
    Source,
    benchmark,
    published_rows,
    shape,
)
from evalkit.benchmarks.shared.scoring_rules import View, by_model, nothing, with_all
from evalkit.core.errors import DatasetError
from evalkit.core.scale import Scale
from evalkit.datasets.located_rows import Placed, Row
from evalkit.datasets.named_benchmarks import first_row
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    Peek,
    grouped,
    located_rows,
    peek,
    sibling_file,
)
from evalkit.interop.layouts.layouts import Cells, records_of
from evalkit.interop.layouts.records import Options, ParsedFile
from evalkit.scoring.stats.arrays import FUZZ
from evalkit.scoring.stats.statistic import Measures

_QUESTION: Final = shape("Question", "Category", "Best Answer1")

_ANSWER: Final = shape("question_id", "question", "response")

QUESTIONS_FILE: Final = "HalluQA.json"

NEEDS_BINARY = "responses have no scores: set mode=pointwise rubric=binary"

STRICT = "an answer with an unreadable verdict counts as hallucinated"

# A judged answer is true if it hallucinates; the score is 1 if it does not.
_VERDICTS = {"true": 0.0, "false": 1.0}


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each question, with the answers of all models; categories come
    from HalluQA.json.
    """
    # Questions alone have nothing to judge.
    if not source.path.is_dir() and (first_row(source.path) or {}).keys() >= _QUESTION:
        problem = "has questions but no answers to judge"
        raise DatasetError(
            problem,
            where=str(source.path),
            remedy="use a file of answers, or the folder with both",
        )
    questions = _questions(source.path)
    answers = list(published_rows(benchmark, source, _ANSWER))
    models = models_of({row.file for row in answers})
    # One file for each model: the answers to one question are one case.
    for group in grouped(answers, lambda row: row["question_id"]):
        first = group[0]
        question = questions.get(str(group[0]["question_id"]))
        yield (
            first.place,
            {
                "id": str(first["question_id"]),
                "prompt": first["question"],
                "reference": "\n".join(
                    # The answers' file may have the correct ones, or else the file of questions.
                    best_answers(first) or best_answers(question or {})
                )
                or None,
                "responses": [
                    {"model": models[row.file], "text": row["response"]}
                    for row in group
                ],
                "subset": _subset_of(question),
            },
        )


def _subset_of(question: LocatedRow | None) -> str | None:
    """Return the category of a question; `None` without a question."""
    if not question:
        return None
    return str(question["Category"]).lower().replace("-", "_")


def _questions(path: Path) -> dict[str, LocatedRow]:
    """Return the questions by number, from the file next to the answers; empty if it is missing."""
    file = sibling_file(path, QUESTIONS_FILE)
    if file is None:
        return {}
    return {str(row["question_id"]): row for row in located_rows(file)}


def models_of(files: Iterable[Path]) -> dict[Path, str]:
    """Return the model of each file, as `m` in m_output_qa_prompt.json; duplicates are
    named by file.
    """
    stems = {file: file.name.partition(".json")[0] for file in files}
    models = {file: stem.partition("_output")[0] for file, stem in stems.items()}
    # Two files of one model, such as two runs, are named by file.
    counts = Counter(models.values())
    return {
        file: model if counts[model] == 1 else stems[file]
        for file, model in models.items()
    }


def best_answers(row: Row) -> list[str]:
    """Return the correct answers, which are numbered in some files."""
    # Best Answer1, Best_Answer2 and so on, in the order of the columns.
    names = [name for name in row if name.replace("_", " ").startswith("Best Answer")]
    return [str(row[name]) for name in names if row[name] not in (None, "")]


def _rule(view: View) -> Measures:
    """Return `halluqa/non_hallucination_rate` and its `_strict` reading, by model and
    by kind of question.

    The share of answers that score above the middle of the scale (rubric=binary: 1 is no
    hallucination). Cheng et al. 2023, arXiv 2310.03368, section 3, with their script, count an
    answer with an invalid verdict as hallucinated: this is the strict metric. In the other metric
    it is missing, and the bounds cover both readings.
    """
    scored = view.outcome.scores
    name = "halluqa/non_hallucination_rate"
    if scored is None or view.outcome.listed:
        return [nothing(name, NEEDS_BINARY), nothing(f"{name}_strict", NEEDS_BINARY)]
    scale = Scale.of(view.config.rubric)
    # Above the middle; FUZZ keeps a mean of samples at the middle out of it.
    right = scored.raw > (scale.min + scale.max) / 2 + FUZZ
    has_score = np.isfinite(scored.raw)
    tally = view.tally.of(scored.case)
    # `Misleading-hard` becomes part of a metric's name.
    kinds = {
        name.replace("-", "_"): cases
        for name, cases in view.subsets("subset", "Category").items()
    }
    measures: Measures = []
    for end, model_rows in by_model(view.systems).items():
        for kind, cases in with_all(len(view.cases), kinds).items():
            # (responses,) those of this model to questions of this kind.
            rows = model_rows & cases[scored.case]
            measures.append(
                tally.rate(
                    f"{name}{end}{kind}",
                    right,
                    rows & has_score,
                    rows & ~has_score,
                    why="nothing was judged",
                )
            )
            strict = tally.rate(
                f"{name}_strict{end}{kind}",
                # An unreadable verdict is not right, and no row is lost.
                right & has_score,
                rows,
                rows & False,
                note=STRICT,
            )
            measures.append(strict)
    return measures


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows, or those of a file in a folder, are judged answers."""
    if QUESTIONS_FILE in start.names:
        other_files = (
            file
            for file in sorted(start.path.glob("*.json*"))
            if file.name != QUESTIONS_FILE
        )
        # The questions are in the folder with the judged answers, of which one shows the format.
        start = next((peek(file) for file in other_files), start)
    return start.has("question", "response", "is_hallucination")


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each answer; the file names the system, and HalluQA.json next
    to it has the categories.
    """
    rows = [row for row in located_rows(path) if row.file.name != QUESTIONS_FILE]
    models = models_of({row.file for row in rows})
    questions = _questions(path)

    def cells(row: LocatedRow) -> Iterator[Cells]:
        """Yield a published judgment of a model's answer as a record."""
        name = str(row["question_id"])
        verdict = str(row["is_hallucination"])
        metadata = {}
        if name in questions:
            metadata["Category"] = questions[name].get("Category")
        yield {
            "id": name,
            "prompt": row["question"],
            "reference": "\n".join(best_answers(row)),
            "response": row["response"],
            "model": models[row.file],
            "judge": "gpt-4",
            "score.not_hallucinated": _VERDICTS.get(verdict.lower()),
            "error": verdict,
            "metadata": metadata,
        }

    return ParsedFile(
        records_of(rows, cells, "response", options),
        scale=(0.0, 1.0, 1.0),
        benchmark="halluqa",
    )


BENCHMARKS: Final = (
    benchmark(
        "halluqa", read=_read_cases, rule=_rule, sniff=_sniff, judgments=_read_judgments
    ),
)
