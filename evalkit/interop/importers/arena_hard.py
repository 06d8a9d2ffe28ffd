"""Arena-Hard's judgments: a model against the baseline in two games, the baseline shown first in the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit.interop.files import Peek, require, rows_of, text
from evalkit.interop.judge_prompts import answers_in, question_in
from evalkit.interop.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.parsing import UnreadableError, read_margin

BASELINE = "baseline"


def sniff(start: Peek) -> bool:
    """Say whether its rows are games against a baseline."""
    return start.has("model", "games") and ("question_id" in start.row or "uid" in start.row)


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each game."""
    records = [record for place, row in rows_of(path) for record in _games(row, place, options)]
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
        prompt = _last(game.get("user_prompt", game.get("prompt")))
        texts = answers_in(prompt)
        order = models if index == 0 else models[::-1]
        first, second = (Answer(model, texts.get(side, ""), model) for model, side in zip(order, "AB", strict=True))
        yield Record(name, question_in(prompt), (first, second), _said(game, judge), metadata=metadata)


def _last(prompt: Any) -> str:
    """Return the text of a prompt: of a conversation its last message, of a text with images the text."""
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
        margin = _margin(str(score))
    except UnreadableError as bad:
        return missing_record(judge, bad.reason, text=words)
    return RecordedJudgment(judge, value=margin, text=words, answer={"verdict": str(score)})


def _margin(score: str) -> float:
    """Return the margin of the response shown first: much better is 1, better a third."""
    from evalkit.config import OutputConfig

    return read_margin(f"[[{score}]]", OutputConfig(format="bracket", graded=True))
