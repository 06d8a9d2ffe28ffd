"""Arena-Hard (Li et al. 2024, arXiv 2406.11939): models' answers compared with a baseline by category.

A judgment consists of two games; the first one shows the baseline first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.baseline import NO_MODEL, Answers, Contest, find_baseline
from evalkit.benchmarks.benchmark import Benchmark, Importer, Source, benchmark_files, checked_rows, shape, share_row
from evalkit.benchmarks.judgment_files import Peek, answers_in, question_in, require, text
from evalkit.benchmarks.judgment_files import rows_of as judged_rows
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.benchmarks.scoring_rules import View, mean
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.datasets.named import ForeignError, Placed, first_row
from evalkit.errors import DatasetError
from evalkit.parsing import AnswerTask, Reply, UnreadableError, read_marks
from evalkit.scoring.stats.arrays import FUZZ, Bools
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.types import Metric

_BASELINES: Final = {
    "arena-hard-v0.1": "gpt-4-0314",
    "hard_prompt": "o3-mini-2025-01-31",
    "coding": "o3-mini-2025-01-31",
    "math": "o3-mini-2025-01-31",
    "creative_writing": "gemini-2.0-flash-001",
}

_QUESTION: Final = (shape("uid", "category", "prompt"), shape("question_id", "category", "cluster", "turns"))

_ANSWER: Final = (shape("uid", "model", "messages"), shape("question_id", "model_id", "choices"))

STRONG = 2 / 3
"""The smallest margin of "much better", if verdicts have strengths."""

STRONG_WEIGHT = 3.0

BASELINE = "baseline"


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield every model's answer to each question with the answer of the category's baseline."""
    folder = source.path
    if not folder.is_dir():
        raise ForeignError(benchmark, "it is a file", first_row(folder), str(folder))
    questions = [
        row
        for file in benchmark_files(benchmark, source, *_QUESTION)
        for _, row in checked_rows(benchmark, file, *_QUESTION)
    ]
    answers: Answers = {}
    for file in benchmark_files(benchmark, source, *_ANSWER):
        for place, row in checked_rows(benchmark, file, *_ANSWER):
            own = answers.setdefault(str(row.get("model", row.get("model_id"))), {})
            if _uid(row) in own:
                what = f"question {_uid(row)} is answered twice by one model"
                raise DatasetError(what, where=place, remedy="remove one of them")
            own[_uid(row)] = (place, row)
    baselines = _baselines(answers, source, questions)
    models = [model for model in answers if model not in baselines.values()]
    if not models:
        what = f"has only answers of {', '.join(answers)}"
        raise DatasetError(what, where=str(folder), remedy="add the answers of a model to compare with it")
    asked = {_uid(row) for row in questions}
    for model in models:
        if absent := len(asked - answers[model].keys()):
            source.left_out[f"questions that {model} has no answer to"] = absent
        if strange := len(answers[model].keys() - asked):
            source.left_out[f"answers of {model} to no question of the file"] = strange
    for model in models:
        for row in questions:
            if _uid(row) in answers[model]:
                yield _case(row, model, baselines[_category(row)], answers, alone=len(models) == 1)


def _baselines(answers: Answers, source: Source, questions: Sequence[Row]) -> dict[str, str]:
    categories = sorted({_category(row) for row in questions})
    usual = {name: _BASELINES.get(name) for name in categories}
    if source.baseline is not None:
        return dict.fromkeys(categories, find_baseline(answers, source, ()))
    return {name: find_baseline(answers, source, [model] if model else []) for name, model in usual.items()}


def _case(row: Row, model: str, baseline: str, answers: Answers, *, alone: bool) -> Placed:
    uid = _uid(row)
    place, answer = answers[model][uid]
    if uid not in answers[baseline]:
        raise DatasetError(f"{baseline} has no answer to question {uid}", where=place, remedy="add it")
    return place, {
        "id": uid if alone else f"{model}/{uid}",
        "prompt": row["prompt"] if "prompt" in row else _content(row["turns"][0]),
        "response_a": _answer(answer, place),
        "response_b": _answer(answers[baseline][uid][1], place),
        "model_a": model,
        "model_b": baseline,
        "baseline": baseline,
        "subset": _category(row),
    }


def _holds(folder: Path) -> bool:
    if not ((folder / "question.jsonl").is_file() and (folder / "model_answer").is_dir()):
        return False
    row = first_row(folder / "question.jsonl") or {}
    return any(columns <= row.keys() for columns in _QUESTION)


def _uid(row: Mapping[str, Any]) -> str:
    return str(row.get("uid", row.get("question_id")))


def _category(row: Mapping[str, Any]) -> str:
    return str(row["category"])


def _answer(row: Row, place: str) -> Any:
    """Return an answer's text in the format of version 2 (messages) or 0.1 (choices of turns)."""
    try:
        if "messages" in row:
            return _content(row["messages"][-1])
        return _content(row["choices"][0]["turns"][-1])
    except (LookupError, TypeError):
        raise DatasetError("the row has no answer", where=place, remedy="fix the row") from None


def _content(message: Any) -> Any:
    content = message["content"] if isinstance(message, dict) else message
    return content["answer"] if isinstance(content, dict) else content


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `arena_hard/score`, by model if there are several, and by category if there are several.

    The mean over both orders of the model's verdicts against the baseline: a win 1, a tie 1/2, a loss 0, "much
    better" (`A>>B`) with weight 3 (Li et al. 2024, arXiv 2406.11939, section 4, and `show_result.py`). For
    one model and one baseline, the Bradley-Terry score of version 0.1 is the same number. Verdicts have strengths if a
    judge's margins have different sizes: 1 for much better, a third for better.
    """
    contest = Contest.of(view)
    orders = contest.margin.shape[1]
    margin = contest.margin.ravel()
    case = np.repeat(np.arange(len(view.cases)), orders)
    won = np.isfinite(margin) & (np.abs(margin) > FUZZ)
    graded = bool(won.any()) and float(np.ptp(np.abs(margin[won]))) > FUZZ
    weights = np.where(graded & won & (np.abs(margin) >= STRONG - FUZZ), STRONG_WEIGHT, 1.0)
    credit = np.where(won, margin > 0, 0.5)
    note = None if graded else "verdicts have no strengths: each counts once"
    found: list[Statistic | Metric] = []
    for end, rows in _by_category(view, contest.models()).items():
        used = rows[case] & np.isfinite(margin)
        lost = rows[case] & ~np.isfinite(margin)
        tally = Tally(case, len(view.cases))
        found.append(
            mean(f"arena_hard/score{end}", tally, credit, used, lost, weights=weights, note=note, why=NO_MODEL)
        )
    return found


def _by_category(view: View, models: dict[str, Bools]) -> dict[str, Bools]:
    categories = view.subsets("subset", "category")
    if len(categories) < 2:
        return models
    apart = {f"{end}/{name}": rows & own for end, rows in models.items() for name, own in categories.items()}
    return models | apart


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows are games against a baseline."""
    return start.has("model", "games") and ("question_id" in start.row or "uid" in start.row)


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each game."""
    records = [record for place, row in judged_rows(path) for record in _games(row, place, options)]
    return ParsedFile(records, {"format": "bracket", "graded": True}, benchmark="arena_hard")


def _games(row: Mapping[str, Any], place: str, options: Options) -> Iterator[Record]:
    folder = Path(place.rpartition(":")[0]).parent.name
    judge = options.judge or str(row.get("judge") or folder or "judge")
    models = str(row.get("baseline") or BASELINE), str(require(row, "model", place))
    name = str(row.get("question_id") or require(row, "uid", place))
    metadata = {"baseline": models[0], **({"category": row["category"]} if row.get("category") else {})}
    games = row["games"] if isinstance(row.get("games"), list) and row["games"] else [None]
    for index, game in enumerate(games):
        if not isinstance(game, Mapping):
            game = {}
        prompt = _prompt_text(game.get("user_prompt", game.get("prompt")))
        texts = answers_in(prompt)
        order = models if index == 0 else models[::-1]
        first, second = (Answer(model, texts.get(side, ""), model) for model, side in zip(order, "AB", strict=True))
        yield Record(name, question_in(prompt), (first, second), _said(game, judge), metadata=metadata)


def _prompt_text(prompt: Any) -> str:
    """Return the text of a prompt: the last message of a conversation, without images."""
    if not isinstance(prompt, list) or not prompt:
        return text(prompt)
    return prompt[0] if isinstance(prompt[0], str) else text(prompt[-1])


def _said(game: Mapping[str, Any], judge: str) -> RecordedJudgment:
    words = game.get("judgment")
    words = text(words.get("answer")) if isinstance(words, Mapping) else words
    score = game.get("score")
    if not score:
        return missing_record(judge, "score is null", text=words)
    try:
        margin = _margin_of(str(score))
    except UnreadableError as bad:
        return missing_record(judge, bad.reason, text=words)
    return RecordedJudgment(judge, value=margin, text=words, answer={"verdict": str(score)})


def _margin_of(score: str) -> float:
    """Return the margin of the response shown first: 1 for much better, a third for better."""
    from evalkit.config import OutputConfig

    return float(read_marks(Reply(f"[[{score}]]"), OutputConfig(format="bracket", graded=True), AnswerTask("winner")))


_SOURCE = "Li et al. 2024, arXiv 2406.11939, section 4"
_SCORED = (
    "Mean verdict for the model against the baseline over both orders (win 1, tie 1/2, loss 0), with weight 3 for "
    "much better or much worse"
)
_METRICS: Final = (
    share_row("arena_hard/score", "score", f"{_SCORED}.", _SOURCE, headline=True, better=None),
    share_row(
        "arena_hard/score/{part}",
        "score, {part}",
        f"{_SCORED}; for one model, or for one category if there is only one model.",
        _SOURCE,
        headline=True,
        better=None,
    ),
    share_row(
        "arena_hard/score/{model}/{category}",
        "score, {model}, {category}",
        f"{_SCORED}; for one model and category.",
        _SOURCE,
        better=None,
    ),
)


ARENA_HARD: Final = Benchmark(
    "arena_hard",
    "Arena-Hard",
    kind="Arena-Hard questions or answers",
    license="Apache-2.0 (version 0.1); of version 2 see the authors' page",
    citation="Li et al. 2024, arXiv 2406.11939",
    homepage="https://github.com/lmarena/arena-hard-auto",
    expects="a folder of Arena-Hard with question.jsonl and model_answer/, the baseline's answers among them",
    shapes=(*_QUESTION, _ANSWER[0]),
    read=_read_cases,
    holds=_holds,
    rule=_rule,
    importer=Importer(
        "arena_hard", "Arena-Hard: model_judgment/JUDGE/MODEL.jsonl, or the folder", _sniff, _read_judgments
    ),
    metrics=_METRICS,
    words={
        "hard_prompt": gettext("hard prompts"),
        "coding": gettext("coding"),
        "math": gettext("math"),
        "creative_writing": gettext("creative writing"),
    },
    main_metric="arena_hard/score",
)

BENCHMARKS: Final = (ARENA_HARD,)
