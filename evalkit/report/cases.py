"""The cases of a run as the page shows them: named by letters, flagged for the filters, and small enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.scoring.cycles import cycles_among
from evalkit.types import Case, Judgment, RunResult, Unit, Verdict, Winner

BUDGET = 2_400_000
_LENGTHS = (20_000, 8_000, 4_000, 2_500, 1_500, 1_000, 600, 400, 250, 150, 80)
_READ = ("ok", "repaired")
CYCLES = 20
"""So many cycles of a case are shown; conflicts.json has more."""


@dataclass(frozen=True, slots=True)
class CaseData:
    """Cases as JSON that may stand in a script element; `left_out` counts cases, `cut` says that texts are shorter."""

    json: str
    flags: dict[str, int]
    total: int
    left_out: int
    cut: bool


def case_data(result: RunResult, *, budget: int = BUDGET) -> CaseData:
    """Return the run's cases in at most `budget` bytes of JSON: long texts are cut first, then plain cases left out."""
    judgments = _by_case(result.judgments, lambda j: j.case_id)
    verdicts = _by_case(result.verdicts, lambda v: v.case_id)
    rows = [_row(case, verdicts.get(case.id, ()), judgments.get(case.id, ())) for case in result.cases]
    counts: dict[str, int] = {"all": len(rows)}
    for flag in (flag for row in rows for flag in row["flags"]):
        counts[flag] = counts.get(flag, 0) + 1
    for length in (None, *_LENGTHS):
        texts = [_encode(_cut(row, length)) for row in rows]
        if sum(len(text.encode("utf-8", "replace")) + 1 for text in texts) <= budget:
            return CaseData(f"[{','.join(texts)}]", counts, len(rows), 0, cut=length is not None)
    kept = _keep(rows, texts, budget)
    return CaseData(f"[{','.join(texts[i] for i in kept)}]", counts, len(rows), len(rows) - len(kept), cut=True)


def _by_case(items: Iterable[Any], key: Callable[[Any], str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _keep(rows: Sequence[dict[str, Any]], texts: Sequence[str], budget: int) -> list[int]:
    kept, used = [], 0
    for i in sorted(range(len(rows)), key=lambda i: (not rows[i]["flags"], i)):
        used += len(texts[i].encode("utf-8", "replace")) + 1
        if used > budget:
            break
        kept.append(i)
    return sorted(kept)


def _encode(row: dict[str, Any]) -> str:
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    # No text can end the script element, or open a comment in it, without one of these.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _cut(value: Any, length: int | None) -> Any:
    if length is None:
        return value
    if isinstance(value, str):
        return value if len(value) <= length else f"{value[:length]}… (+{len(value) - length:,})"
    if isinstance(value, dict):
        return {key: _cut(inner, length) for key, inner in value.items()}
    return [_cut(inner, length) for inner in value] if isinstance(value, list) else value


def letter(index: int) -> str:
    """Return the name of a case's response: A, B, …, Z, then its number."""
    return chr(ord("A") + index) if index < 26 else str(index + 1)


def _winner(winner: Winner | None, unit: Unit) -> str | None:
    return letter(unit["AB".index(winner)]) if winner in ("A", "B") and len(unit) == 2 else winner


def _row(case: Case, verdicts: Sequence[Verdict], judgments: Sequence[Judgment]) -> dict[str, Any]:
    return _filled(
        id=case.id,
        prompt=case.prompt,
        context=case.context,
        reference=case.reference,
        cycles=_cycles(verdicts),
        label=_winner(case.label, (0, 1)),
        responses=[
            _filled(name=letter(i), text=response.text, model=response.model, grade=response.grade)
            for i, response in enumerate(case.responses)
        ],
        verdicts=[_verdict(verdict) for verdict in verdicts],
        judgments=[_judgment(judgment) for judgment in judgments],
    ) | {"flags": flags(verdicts, judgments)}


def _cycles(verdicts: Sequence[Verdict]) -> str | None:
    """Return the cycles of wins as `A > B > C > A`, a line each."""
    cycles = cycles_among(verdicts, CYCLES)
    return "\n".join(" > ".join(letter(k) for k in (*cycle, cycle[0])) for cycle in cycles) or None


def _filled(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != {}}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    label = verdict.label if isinstance(verdict.label, float | int) else _winner(verdict.label, verdict.unit)
    return _filled(
        unit="".join(map(letter, verdict.unit)),
        winner=_winner(verdict.winner, verdict.unit),
        score=verdict.score,
        reason=verdict.reason,
        margin=verdict.margin,
        confidence=verdict.confidence,
        label=label,
        criteria=dict(verdict.criteria),
        votes={judge: _vote(vote, verdict.unit) for judge, vote in verdict.votes.items()},
        first=_winner(verdict.orders.first, verdict.unit) if verdict.orders else None,
        second=_winner(verdict.orders.second, verdict.unit) if verdict.orders else None,
    )


def _vote(vote: Winner | float | None, unit: Unit) -> str | float | None:
    return vote if isinstance(vote, float | int) else _winner(vote, unit)


def _judgment(judgment: Judgment) -> dict[str, Any]:
    completion = judgment.completion
    return _filled(
        unit="".join(map(letter, judgment.unit)),
        shown=", ".join(map(letter, judgment.shown)),
        sample=judgment.sample or None,
        judge=judgment.judge,
        status=judgment.status,
        value=judgment.value,
        confidence=judgment.confidence,
        criteria=dict(judgment.criteria),
        read_by=judgment.read_by,
        error=judgment.error,
        stored=judgment.stored or None,
        text=completion.text if completion else None,
        thinking=completion.reasoning if completion else None,
    )


def flags(verdicts: Sequence[Verdict], judgments: Sequence[Judgment]) -> list[str]:
    """Return what is notable of a case, by the names of the page's filters."""
    tests = {
        "mismatch": any(v.winner and isinstance(v.label, str) and v.winner != v.label for v in verdicts),
        "flip": any(v.orders is not None and v.orders.consistent is False for v in verdicts),
        "disagreement": _repeats_disagree(judgments),
        "tie": any(v.winner == "TIE" for v in verdicts),
        "cycle": bool(cycles_among(verdicts, 1)),
        "missing": any(j.status not in _READ for j in judgments) or any(v.reason == "missing" for v in verdicts),
    }
    return [name for name, holds in tests.items() if holds]


def _repeats_disagree(judgments: Sequence[Judgment]) -> bool:
    """Say whether two judgments of the same thing in the same order, by sample or judge, point different ways."""
    signs: dict[tuple[Unit, Unit], set[int]] = {}
    for j in judgments:
        if j.value is not None:
            signs.setdefault((j.unit, j.shown), set()).add((j.value > 0) - (j.value < 0))
    return any(len(found) > 1 for found in signs.values())
