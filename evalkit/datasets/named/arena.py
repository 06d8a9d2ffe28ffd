"""Benchmarks that compare models with one baseline: AlpacaEval and Arena-Hard. A case is a question and a model.

The model is the first response, the baseline the second.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.datasets.formats import Row
from evalkit.datasets.named.benchmark import Benchmark, ForeignError, Source, benchmark_files, checked, shape
from evalkit.datasets.named.files import Placed, first_row
from evalkit.errors import ConfigError, DatasetError, did_you_mean

Answers = dict[str, dict[str, tuple[str, Row]]]
"""Placed rows by model, and then by question."""

GAMED: Final = "df_gamed.csv"
"""What AlpacaEval's authors publish of the gamed baselines, on Hugging Face in tatsu-lab/alpaca_eval."""
DIFFICULTY: Final = "instruction_difficulty.csv"
_TRUTH: Final = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
_ALPACA_BASELINES: Final = ("gpt4_1106_preview", "gpt4_turbo", "text_davinci_003")
_ARENA_BASELINES: Final = {
    "arena-hard-v0.1": "gpt-4-0314",
    "hard_prompt": "o3-mini-2025-01-31",
    "coding": "o3-mini-2025-01-31",
    "math": "o3-mini-2025-01-31",
    "creative_writing": "gemini-2.0-flash-001",
}
_QUESTION: Final = (shape("uid", "category", "prompt"), shape("question_id", "category", "cluster", "turns"))
_ANSWER: Final = (shape("uid", "model", "messages"), shape("question_id", "model_id", "choices"))


def _alpaca_eval(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield every model's outputs beside the baseline's, joined by instruction."""
    answers: Answers = {}
    seen: Counter[tuple[str, str]] = Counter()
    for file in benchmark_files(benchmark, source):
        for place, row in checked(benchmark, file):
            model, instruction = str(row["generator"]), str(row["instruction"])
            # An instruction that stands twice is joined with its first and its second answer.
            answers.setdefault(model, {})[f"{seen[model, instruction]}:{instruction}"] = (place, row)
            seen[model, instruction] += 1
    baseline = _baseline(answers, source, _ALPACA_BASELINES)
    numbers = {instruction: number for number, instruction in enumerate(answers[baseline])}
    difficulty, calibration = _difficulties(source.path), calibrations(_beside(source.path, GAMED))
    models = [model for model in answers if model != baseline]
    for model in models:
        if absent := len(numbers.keys() - answers[model].keys()):
            source.left_out[f"instructions that {model} has no output for"] = absent
    for model in models:
        for instruction, (place, row) in answers[model].items():
            if instruction not in numbers:
                what = f"{baseline} has no output for this instruction: {row['instruction']!s:.40}"
                raise DatasetError(what, where=place, remedy="take both from the same set of instructions")
            number = numbers[instruction]
            yield (
                place,
                {
                    "id": f"{model}/{number}" if len(models) > 1 else str(number),
                    "prompt": row["instruction"],
                    "response_a": row["output"],
                    "response_b": answers[baseline][instruction][1]["output"],
                    "model_a": model,
                    "model_b": baseline,
                    "baseline": baseline,
                    "subset": row.get("dataset"),
                    **({"instruction_difficulty": difficulty[number]} if number in difficulty else {}),
                    **({"calibration": calibration[number]} if number in calibration else {}),
                },
            )


def _baseline(answers: Answers, source: Source, usual: Sequence[str]) -> str:
    """Return the model that the others are compared with: the one that is set, or else the benchmark's own."""
    where = "dataset.baseline"
    if source.baseline is not None and source.baseline not in answers:
        what = f"no outputs of '{source.baseline}' in {source.path}"
        raise ConfigError(what, where=where, remedy=did_you_mean(source.baseline, answers))
    found = source.baseline or next((name for name in usual if name in answers), None)
    if found is None:
        what = f"{source.path} holds outputs of {', '.join(sorted(answers))}, and of no usual baseline"
        raise ConfigError(what, where=where, remedy=f"set it to one of them, or add those of {usual[0]}")
    if len(answers) < 2:
        what = f"holds outputs of {found} only"
        raise DatasetError(
            what, where=str(source.path), remedy="name a folder with a model's outputs and the baseline's"
        )
    return found


def _difficulties(path: Path) -> dict[int, float]:
    """Return the published difficulty of each instruction by its number, where the file is in the folder."""
    file = _beside(path, DIFFICULTY)
    rows = _table(file)
    try:
        return {int(row.get("index") or row[""]): float(row["instruction_difficulty"]) for row in rows}
    except (KeyError, ValueError) as bad:
        raise DatasetError(f"not a table of index and instruction_difficulty ({bad})", where=str(file)) from None


def calibrations(file: Path) -> dict[int, Row]:
    """Return what AlpacaEval's length control needs of each instruction, by its number, where df_gamed.csv is there.

    That is the instruction's difficulty, and its rows of the table: each row's number, the preference (null where
    there is none), the scaled difference in length, the difficulty, and 1 if its model is no gamed baseline.

    Raises:
        DatasetError: if it is another table.
    """
    rows, found = _table(file), dict[int, Row]()
    try:
        for place, row in enumerate(rows):
            number, difficulty = int(float(row["index"])), float(row["instruction_difficulty"])
            one = found.setdefault(number, {"index": number, "difficulty": difficulty, "rows": len(rows), "gamed": []})
            preference = float(row["preference"]) if row["preference"] else None
            plain = float(_TRUTH[row["not_gamed_baseline"].strip().lower()])
            one["gamed"].append([place, preference, float(row["std_delta_len"]), difficulty, plain])
    except (AttributeError, KeyError, TypeError, ValueError) as bad:
        what = f"not AlpacaEval's table of gamed baselines ({bad})"
        raise DatasetError(what, where=str(file), remedy="take df_gamed.csv of tatsu-lab/alpaca_eval") from None
    return found


def _beside(path: Path, name: str) -> Path:
    return path / name if path.is_dir() else path.with_name(name)


def _table(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _arena_hard(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield every model's answer to each question beside that of the baseline of the question's category."""
    folder = source.path
    if not folder.is_dir():
        raise ForeignError(benchmark, "it is a file", first_row(folder), str(folder))
    questions = [
        row
        for file in benchmark_files(benchmark, source, *_QUESTION)
        for _, row in checked(benchmark, file, *_QUESTION)
    ]
    answers: Answers = {}
    for file in benchmark_files(benchmark, source, *_ANSWER):
        for place, row in checked(benchmark, file, *_ANSWER):
            own = answers.setdefault(str(row.get("model", row.get("model_id"))), {})
            if _uid(row) in own:
                what = f"question {_uid(row)} is answered twice by one model"
                raise DatasetError(what, where=place, remedy="leave one answer out")
            own[_uid(row)] = (place, row)
    baselines = _arena_baselines(answers, source, questions)
    models = [model for model in answers if model not in baselines.values()]
    if not models:
        what = f"holds answers of {', '.join(answers)} only"
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
                yield _arena_case(row, model, baselines[_category(row)], answers, alone=len(models) == 1)


def _arena_baselines(answers: Answers, source: Source, questions: Sequence[Row]) -> dict[str, str]:
    categories = sorted({_category(row) for row in questions})
    usual = {name: _ARENA_BASELINES.get(name) for name in categories}
    if source.baseline is not None:
        return dict.fromkeys(categories, _baseline(answers, source, ()))
    return {name: _baseline(answers, source, [model] if model else []) for name, model in usual.items()}


def _arena_case(row: Row, model: str, baseline: str, answers: Answers, *, alone: bool) -> Placed:
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


def _holds_arena_hard(folder: Path) -> bool:
    if not ((folder / "question.jsonl").is_file() and (folder / "model_answer").is_dir()):
        return False
    row = first_row(folder / "question.jsonl") or {}
    return any(columns <= row.keys() for columns in _QUESTION)


def _uid(row: Mapping[str, Any]) -> str:
    return str(row.get("uid", row.get("question_id")))


def _category(row: Mapping[str, Any]) -> str:
    return str(row["category"])


def _answer(row: Row, place: str) -> Any:
    """Return an answer's text as version 2 (messages) or version 0.1 (choices of turns) holds it."""
    try:
        if "messages" in row:
            return _content(row["messages"][-1])
        return _content(row["choices"][0]["turns"][-1])
    except (LookupError, TypeError):
        raise DatasetError("the row holds no answer", where=place, remedy="mend the row") from None


def _content(message: Any) -> Any:
    content = message["content"] if isinstance(message, dict) else message
    return content["answer"] if isinstance(content, dict) else content


ALPACA_EVAL: Final = Benchmark(
    "alpaca_eval",
    "AlpacaEval",
    kind="AlpacaEval outputs",
    licence="CC BY-NC 4.0",
    citation="Dubois et al. 2024, COLM, arXiv 2404.04475",
    homepage="https://github.com/tatsu-lab/alpaca_eval",
    expects="a folder of model_outputs.json files of AlpacaEval, the baseline's among them",
    shapes=(shape("instruction", "output", "generator"),),
    read=_alpaca_eval,
)
ARENA_HARD: Final = Benchmark(
    "arena_hard",
    "Arena-Hard",
    kind="Arena-Hard questions or answers",
    licence="Apache-2.0 (version 0.1); of version 2 see the authors' page",
    citation="Li et al. 2024, arXiv 2406.11939",
    homepage="https://github.com/lmarena/arena-hard-auto",
    expects="a folder of Arena-Hard with question.jsonl and model_answer/, the baseline's answers among them",
    shapes=(*_QUESTION, _ANSWER[0]),
    read=_arena_hard,
    holds=_holds_arena_hard,
)
