"""FairEval (Wang et al. 2024, ACL, arXiv 2305.17926): two models' answers to 80
questions, with human labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from evalkit.benchmarks.shared.benchmark import Benchmark, Source, benchmark, choice
from evalkit.benchmarks.shared.scoring_rules import (
    UNREAD,
    View,
    labeled_rates,
    orders_agree,
)
from evalkit.core.errors import DatasetError
from evalkit.core.regular_files import read_text
from evalkit.datasets.located_rows import Placed
from evalkit.datasets.named_benchmarks import ForeignError, first_row
from evalkit.interop.layouts.judgment_files import located_rows
from evalkit.scoring.columns import NONE, sign
from evalkit.scoring.metrics.agreement import CLASSES
from evalkit.scoring.stats.agreement_formulas import kappa
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.statistic import Measures

_LABELS: Final = {"CHATGPT": "A", "VICUNA13B": "B", "TIE": "TIE"}

_MODELS: Final = ("gpt35", "vicuna-13b")

_REVIEW: Final = "review/review_gpt35_vicuna-13b_human.txt"


def _holds(folder: Path) -> bool:
    return (folder / _REVIEW).is_file()


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield the pairs of FairEval: two models' answers to each question, with the human
    label in the same line.
    """
    folder = source.path
    if not _holds(folder):
        row = None if folder.is_dir() else first_row(folder)
        raise ForeignError(benchmark, f"no {_REVIEW}", row, str(folder))
    review = folder / _REVIEW
    labels = [line.strip() for line in read_text(review).splitlines() if line.strip()]
    questions = list(located_rows(folder / "question.jsonl"))
    answers = [
        {
            row["question_id"]: row
            for row in located_rows(folder / "answer" / f"answer_{model}.jsonl")
        }
        for model in _MODELS
    ]
    if len(labels) != len(questions):
        problem = f"has {len(labels)} labels for {len(questions)} questions"
        raise DatasetError(
            problem,
            where=str(review),
            remedy="write one label per line, in the order of question.jsonl",
        )
    # Labels have no ids: line k is about question k.
    for number, (row, line) in enumerate(zip(questions, labels, strict=True), 1):
        question = row["question_id"]
        case = {"id": str(row["question_id"]), "prompt": row["text"]}
        for side, model, model_answers in zip("ab", _MODELS, answers, strict=True):
            if question not in model_answers:
                raise DatasetError(
                    f"question {question} has no answer of {model}",
                    where=row.place,
                    remedy="add it",
                )
            case |= {
                f"response_{side}": model_answers[question]["text"],
                f"model_{side}": model,
            }
        label = choice(line, _LABELS, f"{review}:{number}")
        yield row.place, {**case, "label": label, "subset": row.get("category")}


def _rule(view: View) -> Measures:
    """Return `faireval/accuracy`, `faireval/kappa` and `faireval/conflict_rate`.

    The verdict is the sign of the mean over all samples and both orders, a mean of 0 a tie (their
    multiple evidence and balanced position calibration); kappa is Cohen's over win, tie and lose.
    The conflict rate is the share of pairs whose two orders give different verdicts (Wang et al.
    2024, arXiv 2305.17926, sections 2, 3 and 4).
    """
    winner = sign(view.mean_margin())
    label = view.pairs.label
    used = view.labeled & (winner != NONE)
    lost = view.labeled & view.lost(winner != NONE)
    table = Confusion.of(view.tally, label, winner, used, lost, CLASSES)
    why = "all verdicts and labels are in one class" if used.any() else UNREAD
    return [
        *labeled_rates(view, "faireval/accuracy", winner == label, winner != NONE),
        table.statistic("faireval/kappa", kappa, why=why),
        *orders_agree(view, "faireval/conflict_rate", agree=False),
    ]


BENCHMARKS: Final = (benchmark("faireval", read=_read_cases, holds=_holds, rule=_rule),)
