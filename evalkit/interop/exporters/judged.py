"""Export a run as AlpacaEval annotations or MT-bench judgments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalkit.errors import ConfigError
from evalkit.results import RunResult
from evalkit.types import Case, Judgment, Unit

Row = dict[str, Any]
_PAIRS = "the run has no pairs"


def alpaca_eval(result: RunResult) -> list[Row]:
    """Return an annotation for each pair: the preference is 1 if output_1 is better, 2 if output_2 is better.

    It is interpolated by the verdict's margin, and null if that is missing. The baseline, if the case names one, is
    output_1, as in AlpacaEval, whose win rate is that of output_2.

    Raises:
        ConfigError: If the run has no pairs.
    """
    cases = {case.id: case for case in result.cases}
    rows = []
    for verdict in result.verdicts:
        if len(verdict.unit) != 2:
            continue
        case = cases[verdict.case_id]
        first, second = (case.responses[index] for index in verdict.unit)
        margin = verdict.margin
        if second.model is not None and second.model == case.metadata.get("baseline"):
            first, second, margin = second, first, None if margin is None else -margin
        rows.append(
            {
                "instruction": case.prompt,
                "output_1": first.text,
                "generator_1": first.model or "first",
                "dataset": str(result.manifest.get("dataset", {}).get("name", "")),
                "output_2": second.text,
                "generator_2": second.model or "second",
                "annotator": str(result.manifest.get("judge", verdict.judge)),
                "preference": None if margin is None else (3 - margin) / 2,
                "raw_completion": None,
            }
        )
    if not rows:
        raise ConfigError(_PAIRS, where="evalkit export --to alpaca_eval", remedy="use --to csv or mt_bench")
    return rows


def mt_bench(result: RunResult) -> list[Row]:
    """Return a line for each pair and sample with both games, or for each response with its score; -1 if missing.

    Raises:
        ConfigError: If the run has only rankings.
    """
    if result.config.rubric.classes:
        what, where = "the run has classes, and MT-bench's judgments have scores", "evalkit export --to mt_bench"
        raise ConfigError(what, where=where, remedy="use --to csv")
    cases = {case.id: case for case in result.cases}
    single = [_single(judgment, cases[judgment.case_id]) for judgment in result.judgments if len(judgment.unit) == 1]
    rows = single or list(_pairs(result, cases))
    if not rows:
        raise ConfigError(_PAIRS, where="evalkit export --to mt_bench", remedy="use --to csv")
    return rows


def _turn(case: Case) -> Row:
    return {
        "question_id": case.metadata.get("question_id", case.id),
        "turn": int(case.metadata.get("turn", 1)),
        "tstamp": 0.0,
    }


def _single(judgment: Judgment, case: Case) -> Row:
    scores = list(judgment.criteria.values())
    (index,) = judgment.unit
    return {
        **_turn(case),
        "model": case.responses[index].model or f"response {index + 1}",
        "judge": [judgment.judge, "evalkit"],
        "user_prompt": f"[Question]\n{case.prompt}\n\n{_marked(case, index, '')}",
        "judgment": judgment.completion.text if judgment.completion else "",
        "score": sum(scores) / len(scores) if scores else -1,
    }


def _marked(case: Case, index: int, side: str) -> str:
    who = f"Assistant {side}".strip()
    return f"[The Start of {who}'s Answer]\n{case.responses[index].text}\n[The End of {who}'s Answer]"


def _pairs(result: RunResult, cases: dict[str, Case]) -> Iterator[Row]:
    games: dict[tuple[str, Unit, int, str], dict[bool, Judgment]] = {}
    for one in result.judgments:
        if len(one.unit) == 2 and one.arbiter is None:
            games.setdefault((one.case_id, one.unit, one.sample, one.judge), {})[one.shown == one.unit] = one
    for (name, unit, _, judge), by_order in games.items():
        case = cases[name]
        row = {**_turn(case), "judge": [judge, "evalkit"]}
        row |= {
            f"model_{place}": case.responses[index].model or f"response {index + 1}"
            for place, index in enumerate(unit, 1)
        }
        for game, own in (("g1", True), ("g2", False)):
            said, shown = by_order.get(own), unit if own else unit[::-1]
            row[f"{game}_winner"] = "error" if said is None else _winner(said)
            texts = "\n\n".join(_marked(case, index, side) for index, side in zip(shown, "AB", strict=True))
            row[f"{game}_user_prompt"] = f"[User Question]\n{case.prompt}\n\n{texts}"
            row[f"{game}_judgment"] = said.completion.text if said and said.completion else ""
        yield row


def _winner(judgment: Judgment) -> str:
    if judgment.value is None:
        return "error"
    return "tie" if abs(judgment.value) < 1e-9 else "model_1" if judgment.value > 0 else "model_2"
