"""HalluQA (Cheng et al. 2023, arXiv 2310.03368): Chinese questions, correct answers, and models' answers to judge.

Each system has a file of judged answers: hallucination (0) or not (1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evalkit.benchmarks.benchmark import Benchmark, Importer, Source, benchmark_files, checked_rows, shape, share_row
from evalkit.benchmarks.judgment_files import Peek, load_json, peek, require, sibling_file
from evalkit.benchmarks.judgment_files import rows_of as judged_rows
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.benchmarks.scoring_rules import View, nothing, slug
from evalkit.core.scale import Scale
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.datasets.named import Placed, first_row
from evalkit.errors import DatasetError
from evalkit.scoring.stats.arrays import FUZZ, Bools
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.types import Metric

_QUESTION: Final = shape("Question", "Category", "Best Answer1")

_ANSWER: Final = shape("question_id", "question", "response")

QUESTIONS_FILE: Final = "HalluQA.json"

NEEDS_BINARY = "responses have no scores: set mode=pointwise rubric=binary"

STRICT = "an answer with an unreadable verdict counts as hallucinated"

_VERDICTS = {"true": 0.0, "false": 1.0}


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each question, with the answers of all models; categories come from HalluQA.json."""
    questions = _questions(benchmark, source.path)
    cases: dict[Any, tuple[str, Row]] = {}
    files = _answer_files(benchmark, source)
    models = models_of(files)
    for file in files:
        for place, row in checked_rows(benchmark, file, _ANSWER):
            number = row["question_id"]
            if number not in cases:
                cases[number] = place, _case(row, questions.get(number, {}))
            responses = cases[number][1]["responses"]
            responses.append({"model": models[file], "text": row["response"]})
    yield from cases.values()


def _answer_files(benchmark: Benchmark, source: Source) -> list[Path]:
    if not source.path.is_dir() and _is_questions(source.path):
        what = "has questions but no answers to judge"
        raise DatasetError(what, where=str(source.path), remedy="use a file of answers, or the folder with both")
    return benchmark_files(benchmark, source, _ANSWER)


def _is_questions(file: Path) -> bool:
    row = first_row(file)
    return row is not None and row.keys() >= _QUESTION


def _questions(benchmark: Benchmark, path: Path) -> dict[Any, Row]:
    """Return the questions by number, from the file next to the answers; empty if it is missing."""
    file = (path if path.is_dir() else path.parent) / QUESTIONS_FILE
    if not file.is_file():
        return {}
    return {row["question_id"]: row for _, row in checked_rows(benchmark, file, _QUESTION)}


def models_of(files: Iterable[Path]) -> dict[Path, str]:
    """Return the model of each file, as `m` in m_output_qa_prompt.json; duplicates are named by file."""
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
    """Return the correct answers, which are numbered in some files."""
    names = [name for name in row if name.replace("_", " ").startswith("Best Answer")]
    return [str(row[name]) for name in names if row[name] not in (None, "")]


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `halluqa/non_hallucination_rate` and its `_strict` reading, by model and by kind of question.

    The share of answers that score above the middle of the scale (rubric=binary: 1 is no hallucination). Cheng et al.
    2023, arXiv 2310.03368, section 3, with their script, count an answer with an invalid verdict as
    hallucinated: this is the strict metric. In the other metric it is missing, and the bounds cover both readings.
    """
    scored, name = view.outcome.scores, "halluqa/non_hallucination_rate"
    if scored is None or view.outcome.listed:
        return [nothing(name, NEEDS_BINARY), nothing(f"{name}_strict", NEEDS_BINARY)]
    scale = Scale.of(view.config.rubric)
    right = scored.raw > (scale.min + scale.max) / 2 + FUZZ
    there = np.isfinite(scored.raw)
    tally = Tally(scored.case, len(view.cases))
    models = np.array([r.model or "" for case in view.cases for r in case.responses], dtype=object)
    found: list[Statistic | Metric] = []
    for end, own in _by_model(models).items():
        for kind, cases in {"": np.ones(len(view.cases), dtype=bool), **_kinds(view)}.items():
            rows = own & cases[scored.case]
            found.append(tally.rate(f"{name}{end}{kind}", right, rows & there, rows & ~there, why="nothing was judged"))
            strict = tally.rate(f"{name}_strict{end}{kind}", right & there, rows, rows & False, note=STRICT)
            found.append(strict)
    return found


def _by_model(models: NDArray[np.object_]) -> dict[str, Bools]:
    names = sorted(set(models.tolist()) - {""})
    if len(names) < 2:
        return {"": np.ones(len(models), dtype=bool)}
    return {f"/{slug(name)}": np.asarray(models == name) for name in names}


def _kinds(view: View) -> dict[str, Bools]:
    return {f"/{name.replace('-', '_')}": cases for name, cases in view.subsets("subset", "Category").items()}


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows, or those of a file in a folder, are judged answers."""
    if QUESTIONS_FILE in start.names:
        others = (file for file in sorted(start.path.glob("*.json*")) if file.name != QUESTIONS_FILE)
        start = next((peek(file) for file in others), start)
    return start.has("question", "response", "is_hallucination")


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each answer; the file names the system, and HalluQA.json next to it has the categories."""
    kinds = _categories(path)
    judge = options.judge or "gpt-4"
    placed = [(Path(place.rpartition(":")[0]), place, row) for place, row in judged_rows(path)]
    models = models_of({file for file, _, _ in placed if file.name != QUESTIONS_FILE})
    records = []
    for file, place, row in placed:
        if file not in models:
            continue
        verdict = str(require(row, "is_hallucination", place))
        score = _VERDICTS.get(verdict.lower())
        said = (
            RecordedJudgment(judge, scores={"not_hallucinated": score})
            if score is not None
            else missing_record(judge, verdict)
        )
        name = str(require(row, "question_id", place))
        references = best_answers(row)
        answer = Answer(models[file], str(require(row, "response", place)), models[file])
        metadata = {"Category": kinds[name]} if name in kinds else {}
        reference = "\n".join(references) or None
        records.append(
            Record(name, str(require(row, "question", place)), (answer,), said, reference=reference, metadata=metadata)
        )
    return ParsedFile(records, scale=(0.0, 1.0, 1.0), benchmark="halluqa")


def _categories(path: Path) -> dict[str, Any]:
    file = sibling_file(path, QUESTIONS_FILE)
    rows = load_json(file) if file is not None else []
    return {str(row.get("question_id")): row.get("Category") for row in rows}


_SOURCE = "Cheng et al. 2023, arXiv 2310.03368, section 3"
_HALLUCINATION = "Share of answers judged free of hallucination"
_INVALID = "an unreadable verdict counting as hallucination"
_METRICS: Final = (
    share_row(
        "halluqa/non_hallucination_rate",
        "answers without hallucination",
        f"{_HALLUCINATION}.",
        _SOURCE,
        headline=True,
        better=None,
    ),
    share_row(
        "halluqa/non_hallucination_rate_strict",
        "answers without hallucination, invalid verdicts counted",
        f"{_HALLUCINATION}, {_INVALID}.",
        _SOURCE,
        headline=True,
        better=None,
    ),
    share_row(
        "halluqa/non_hallucination_rate/{part}",
        "answers without hallucination, {part}",
        f"{_HALLUCINATION}; for one model, or for one kind of question if there is only one model.",
        _SOURCE,
        better=None,
    ),
    share_row(
        "halluqa/non_hallucination_rate_strict/{part}",
        "answers without hallucination, invalid verdicts counted, {part}",
        f"{_HALLUCINATION}, {_INVALID}; for one model, or for one kind of question if there is only one model.",
        _SOURCE,
        better=None,
    ),
    share_row(
        "halluqa/non_hallucination_rate/{model}/{category}",
        "answers without hallucination, {model}, {category}",
        f"{_HALLUCINATION}; for one model and kind of question.",
        _SOURCE,
        better=None,
    ),
    share_row(
        "halluqa/non_hallucination_rate_strict/{model}/{category}",
        "answers without hallucination, invalid verdicts counted, {model}, {category}",
        f"{_HALLUCINATION}, {_INVALID}; for one model and kind of question.",
        _SOURCE,
        better=None,
    ),
)


HALLUQA: Final = Benchmark(
    "halluqa",
    "HalluQA",
    kind="HalluQA",
    license="Apache-2.0",
    citation="Cheng et al. 2023, arXiv 2310.03368",
    homepage="https://github.com/OpenMOSS/HalluQA",
    expects="a file of answers to HalluQA (question_id, question, response), or a folder of them with HalluQA.json",
    shapes=(_QUESTION, shape("question_id", "question", "response", "Best_Answer"), _ANSWER | {"Best_Answer1"}),
    read=_read_cases,
    rule=_rule,
    importer=Importer(
        "halluqa",
        "HalluQA: systems' answers with is_hallucination, a file or a folder of them",
        _sniff,
        _read_judgments,
    ),
    metrics=_METRICS,
    words={
        "misleading": gettext("misleading"),
        "misleading_hard": gettext("misleading, hard"),
        "knowledge": gettext("knowledge"),
    },
    main_metric="halluqa/non_hallucination_rate_strict",
)

BENCHMARKS: Final = (HALLUQA,)
