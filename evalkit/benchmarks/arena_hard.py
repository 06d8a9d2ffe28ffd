"""Arena-Hard (Li et al. 2024, arXiv 2406.11939): models' answers compared with a
baseline by category.

A judgment consists of two games; the first one shows the baseline first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.shared.baseline import (
    NO_MODEL,
    Answers,
    contests,
    find_baseline,
)
from evalkit.benchmarks.shared.benchmark import (
    FACTS,
    Benchmark,
    Source,
    benchmark,
    published_rows,
    shape,
)
from evalkit.benchmarks.shared.scoring_rules import View, mean
from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, mapping_of
from evalkit.datasets.located_rows import Placed, Row
from evalkit.datasets.named_benchmarks import ForeignError, first_row
from evalkit.evaluators.parsing import (
    AnswerTask,
    Reply,
    UnreadableError,
    read_marks,
)
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    Peek,
    located_rows,
    pair_in,
    text,
)
from evalkit.interop.layouts.layouts import Cells, records_of
from evalkit.interop.layouts.records import Options, ParsedFile
from evalkit.scoring.stats.arrays import FUZZ
from evalkit.scoring.stats.statistic import Measures

_QUESTION: Final = (
    shape("uid", "category", "prompt"),
    shape("question_id", "category", "cluster", "turns"),
)

_ANSWER: Final = (
    shape("uid", "model", "messages"),
    shape("question_id", "model_id", "choices"),
)

# Margins are 1 for much better and 1/3 for better: two thirds divides them.
STRONG = 2 / 3
"""The smallest margin of "much better", if verdicts have strengths."""

STRONG_WEIGHT = 3.0

BASELINE = "baseline"


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield every model's answer to each question with the answer of the category's baseline."""
    folder = source.path
    if not folder.is_dir():
        raise ForeignError(benchmark, "it is a file", first_row(folder), str(folder))
    questions = list(published_rows(benchmark, source, *_QUESTION))
    answers: Answers = {}
    for row in published_rows(benchmark, source, *_ANSWER):
        # {model: {question: its answer}}.
        model_answers = answers.setdefault(
            str(row.get("model", row.get("model_id"))), {}
        )
        if _uid(row) in model_answers:
            problem = f"question {_uid(row)} is answered twice by one model"
            raise DatasetError(problem, where=row.place, remedy="remove one of them")
        model_answers[_uid(row)] = row
    baselines = _baseline_by_category(answers, source, questions)
    # The baseline's own answers are what models are compared with.
    models = [model for model in answers if model not in baselines.values()]
    if not models:
        problem = f"has only answers of {', '.join(answers)}"
        raise DatasetError(
            problem,
            where=str(folder),
            remedy="add the answers of a model to compare with it",
        )
    question_ids = {_uid(row) for row in questions}
    # Both counts before the first row, as the counts of a source must be complete.
    for model in models:
        if absent := len(question_ids - answers[model].keys()):
            source.left_out[f"questions that {model} has no answer to"] = absent
        if strange := len(answers[model].keys() - question_ids):
            source.left_out[f"answers of {model} to no question of the file"] = strange
    for model in models:
        for row in questions:
            if _uid(row) in answers[model]:
                baseline = baselines[_category(row)]
                pair = {
                    "model_a": model,
                    "model_b": baseline,
                    "baseline": baseline,
                    "subset": _category(row),
                }
                # A question of several models is several cases.
                name = _uid(row) if len(models) == 1 else f"{model}/{_uid(row)}"
                yield _comparison(
                    row,
                    answers[model][_uid(row)],
                    answers[baseline].get(_uid(row)),
                    {"id": name, **pair},
                )


def _baseline_by_category(
    answers: Answers, source: Source, questions: Sequence[Row]
) -> dict[str, str]:
    """Return the model that each category of questions is compared with."""
    categories = sorted({_category(row) for row in questions})
    if source.baseline is not None:
        # The user's baseline is that of every category.
        return dict.fromkeys(categories, find_baseline(answers, source, ()))
    # The published baseline of each category.
    usual = FACTS["arena_hard"]["tables"]["baselines"]
    return {
        name: find_baseline(answers, source, [usual[name]] if name in usual else [])
        for name in categories
    }


def _comparison(
    question: Row, answer: LocatedRow, baseline: LocatedRow | None, pair: Row
) -> Placed:
    """Return a question with a model's answer and the baseline's, and its location.

    Raises:
        DatasetError: if the baseline has no answer.
    """
    if baseline is None:
        problem = f"{pair['baseline']} has no answer to question {_uid(question)}"
        raise DatasetError(problem, where=answer.place, remedy="add it")
    if "prompt" in question:
        prompt = question["prompt"]
    else:
        prompt = _content(question["turns"][0])
    return answer.place, {
        "prompt": prompt,
        "response_a": _answer(answer),
        "response_b": _answer(baseline),
        **pair,
    }


def _holds(folder: Path) -> bool:
    if not (
        (folder / "question.jsonl").is_file() and (folder / "model_answer").is_dir()
    ):
        return False
    row = first_row(folder / "question.jsonl") or {}
    return any(columns <= row.keys() for columns in _QUESTION)


def _uid(row: Json) -> str:
    return str(row.get("uid", row.get("question_id")))


def _category(row: Json) -> str:
    return str(row["category"])


def _answer(row: LocatedRow) -> Any:
    """Return an answer's text in the format of version 2 (messages) or 0.1 (choices of turns)."""
    try:
        return _content(
            row["messages"][-1] if "messages" in row else row["choices"][0]["turns"][-1]
        )
    except (LookupError, TypeError):
        raise DatasetError(
            "the row has no answer", where=row.place, remedy="fix the row"
        ) from None


def _content(message: Any) -> Any:
    content = message["content"] if isinstance(message, dict) else message
    if isinstance(content, dict):
        return content["answer"]
    return content


def _rule(view: View) -> Measures:
    """Return `arena_hard/score`, by model if there are several, and by category if
    there are several.

    The mean over both orders of the model's verdicts against the baseline: a win 1, a tie 1/2, a
    loss 0, "much better" (`A>>B`) with weight 3 (Li et al. 2024, arXiv 2406.11939, section 4, and
    `show_result.py`). For one model and one baseline, the Bradley-Terry score of version 0.1 is the
    same number. Verdicts have strengths if a judge's margins have different sizes: 1 for much
    better, a third for better.
    """
    margins, _, parts = contests(view)
    # (cases * orders,) margins, and the case of each.
    margin = margins.ravel()
    case = np.repeat(np.arange(len(view.cases)), margins.shape[1])
    # FUZZ: a margin of 0 up to rounding is a tie.
    won = np.isfinite(margin) & (np.abs(margin) > FUZZ)
    # Sizes that differ mean that the judge stated strengths.
    graded = bool(won.any()) and float(np.ptp(np.abs(margin[won]))) > FUZZ
    weights = np.where(
        graded & won & (np.abs(margin) >= STRONG - FUZZ), STRONG_WEIGHT, 1.0
    )
    # True counts 1 and False 0, a tie half.
    credit = np.where(won, margin > 0, 0.5)
    note = None if graded else "verdicts have no strengths: each counts once"
    tally = view.tally.of(case)
    read = np.isfinite(margin)
    if len(categories := view.subsets("subset", "category")) > 1:
        # Parts by model are divided by category too.
        parts |= {
            f"{end}/{name}": part_rows & category_rows
            for end, part_rows in parts.items()
            for name, category_rows in categories.items()
        }
    return [
        mean(
            f"arena_hard/score{end}", tally, credit,
            # A missing game is lost, and bounds allow any credit for it.
            part_rows[case] & read, part_rows[case] & ~read,
            each=weights, note=note, why=NO_MODEL,
        )
        for end, part_rows in parts.items()
    ]  # fmt: skip


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows are games against a baseline."""
    return start.has("model", "games") and (
        "question_id" in start.row or "uid" in start.row
    )


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each game."""
    records = records_of(located_rows(path), _game_records, "pair", options)
    return ParsedFile(
        records, {"format": "bracket", "graded": True}, benchmark="arena_hard"
    )


def _game_records(row: LocatedRow) -> Iterator[Cells]:
    """Yield a record for each game of a row; a row without games is one missing judgment."""
    baseline = str(row.get("baseline") or BASELINE)
    model = str(row["model"])
    metadata = {"baseline": baseline}
    if row.get("category"):
        metadata["category"] = row["category"]
    if isinstance(row.get("games"), list) and row["games"]:
        games = row["games"]
    else:
        # A row without games is one missing judgment.
        games = [None]
    for index, entry in enumerate(games):
        game = mapping_of(entry)
        # The first game shows the baseline first, the second one the model.
        shown = (baseline, model) if index == 0 else (model, baseline)
        prompt = _prompt_text(game.get("user_prompt", game.get("prompt")))
        yield {
            "id": row.get("question_id") or row["uid"],
            "judge": row.get("judge") or row.file.parent.name,
            **pair_in(prompt, shown),
            "metadata": metadata,
            **_verdict_cells(game),
        }


def _prompt_text(prompt: Any) -> str:
    """Return the text of a prompt: the last message of a conversation, without images."""
    if not isinstance(prompt, list) or not prompt:
        return text(prompt)
    if isinstance(prompt[0], str):
        return prompt[0]
    return text(prompt[-1])


def _verdict_cells(game: Json) -> Cells:
    """Return the text and the verdict of a game, or why it has none."""
    words = game.get("judgment")
    score = game.get("score")
    cells = {"text": text(words.get("answer")) if isinstance(words, Mapping) else words}
    # A game without a score is one that the judge's answer could not be read from.
    if not score:
        return {**cells, "error": "score is null"}
    try:
        return {
            **cells,
            "margin": _margin_of(str(score)),
            "answer": {"verdict": str(score)},
        }
    except UnreadableError as bad:
        return {**cells, "error": bad.reason}


def _margin_of(score: str) -> float:
    """Return the margin of the response shown first: 1 for much better, a third for better."""
    from evalkit.config import OutputConfig

    # Read as the judge's own mark, so that A>>B has the same margin as in a run.
    return float(
        read_marks(
            Reply(f"[[{score}]]"),
            OutputConfig(format="bracket", graded=True),
            AnswerTask("winner"),
        )
    )


BENCHMARKS: Final = (
    benchmark(
        "arena_hard",
        shapes=(*_QUESTION, _ANSWER[0]),
        read=_read_cases,
        holds=_holds,
        rule=_rule,
        sniff=_sniff,
        judgments=_read_judgments,
    ),
)
