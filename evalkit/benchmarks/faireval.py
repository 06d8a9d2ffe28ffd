"""FairEval (Wang et al. 2024, ACL, arXiv 2305.17926): two models' answers to 80 questions, with human labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.benchmarks.benchmark import Benchmark, Source, choice, coefficient_row, share_row
from evalkit.benchmarks.scoring_rules import ONE_ORDER, UNREAD, View, nothing
from evalkit.datasets.formats import Row
from evalkit.datasets.named import ForeignError, Placed, first_row, rows_of
from evalkit.errors import DatasetError
from evalkit.scoring.catalog import MetricSpec
from evalkit.scoring.catalog.spec import BOTH
from evalkit.scoring.columns import NONE, sign
from evalkit.scoring.metrics.agreement import CLASSES
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.scoring.stats.confusion import Confusion, kappa
from evalkit.types import Metric

_LABELS: Final = {"CHATGPT": "A", "VICUNA13B": "B", "TIE": "TIE"}

_MODELS: Final = ("gpt35", "vicuna-13b")

_REVIEW: Final = "review/review_gpt35_vicuna-13b_human.txt"


def _holds(folder: Path) -> bool:
    return (folder / _REVIEW).is_file()


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield the pairs of FairEval: two models' answers to each question, with the human label in the same line."""
    folder = source.path
    if not _holds(folder):
        row = None if folder.is_dir() else first_row(folder)
        raise ForeignError(benchmark, f"no {_REVIEW}", row, str(folder))
    review = folder / _REVIEW
    labels = [line.strip() for line in review.read_text(encoding="utf-8").splitlines() if line.strip()]
    questions = list(rows_of(folder / "question.jsonl"))
    answers = [_by_question(folder / "answer" / f"answer_{model}.jsonl") for model in _MODELS]
    if len(labels) != len(questions):
        what = f"has {len(labels)} labels for {len(questions)} questions"
        raise DatasetError(what, where=str(review), remedy="write one label per line, in the order of question.jsonl")
    for number, ((place, row), label) in enumerate(zip(questions, labels, strict=True), 1):
        yield place, _case(row, answers, choice(label, _LABELS, f"{review}:{number}"), place)


def _by_question(file: Path) -> dict[Any, Row]:
    return {row["question_id"]: row for _, row in rows_of(file)}


def _case(row: Row, answers: Sequence[Mapping[Any, Row]], label: str | None, place: str) -> Row:
    question = row["question_id"]
    for model, given in zip(_MODELS, answers, strict=True):
        if question not in given:
            raise DatasetError(f"question {question} has no answer of {model}", where=place, remedy="add it")
    return {
        "id": str(question),
        "prompt": row["text"],
        "response_a": answers[0][question]["text"],
        "response_b": answers[1][question]["text"],
        "model_a": _MODELS[0],
        "model_b": _MODELS[1],
        "label": label,
        "subset": row.get("category"),
    }


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `faireval/accuracy`, `faireval/kappa` and `faireval/conflict_rate`.

    The verdict is the sign of the mean over all samples and both orders, a mean of 0 a tie (their multiple evidence and
    balanced position calibration); kappa is Cohen's over win, tie and lose. The conflict rate is the share of pairs
    whose two orders give different verdicts (Wang et al. 2024, arXiv 2305.17926, sections 2, 3 and 4).
    """
    winner, label, tally = sign(view.mean_margin()), view.pairs.label, view.tally
    used, lost = view.labeled & (winner != NONE), view.labeled & (winner == NONE)
    accuracy = tally.rate("faireval/accuracy", winner == label, used, lost, why=UNREAD)
    why = "all verdicts and labels are in one class" if used.any() else UNREAD
    table = Confusion.of(tally, label, winner, used, lost, CLASSES)
    agreement = table.statistic("faireval/kappa", kappa, why=why)
    if not view.both:
        return [accuracy, agreement, nothing("faireval/conflict_rate", ONE_ORDER)]
    passes = view.passes
    read = (passes != NONE).all(axis=1)
    conflict = tally.rate("faireval/conflict_rate", passes[:, 0] != passes[:, 1], read, ~read, why=UNREAD)
    return [accuracy, agreement, conflict]


_SOURCE = "Wang et al. 2024, arXiv 2305.17926, sections 2 to 4"
_METRICS: Final = (
    share_row(
        "faireval/accuracy",
        "accuracy",
        "Share of labeled pairs whose verdict equals the label; the verdict is the sign of the mean margin over "
        "all samples and both orders.",
        _SOURCE,
        headline=True,
    ),
    coefficient_row(
        "faireval/kappa",
        "Cohen's kappa",
        "Cohen's kappa between these verdicts and the labels over win, tie and lose.",
        _SOURCE,
        headline=True,
        modes=BOTH,
    ),
    MetricSpec(
        "faireval/conflict_rate",
        "orders that disagree",
        "Share of pairs whose two orders give different verdicts.",
        better="lower",
        headline=True,
        source=_SOURCE,
    ),
)


FAIREVAL: Final = Benchmark(
    "faireval",
    "FairEval",
    kind="FairEval",
    license="none stated: see the authors' page",
    citation="Wang et al. 2024, ACL, arXiv 2305.17926",
    homepage="https://github.com/i-Eval/FairEval",
    expects="FairEval's folder, with question.jsonl, answer/ and review/",
    shapes=(),
    read=_read_cases,
    holds=_holds,
    rule=_rule,
    metrics=_METRICS,
    main_metric="faireval/accuracy",
    human_labels=True,
)

BENCHMARKS: Final = (FAIREVAL,)
