"""The cases of a run as shown on the page: responses named by letters, and flags for the filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from evalkit.errors import EvalkitError
from evalkit.protocols import Evaluator, FollowUpEvaluator
from evalkit.scoring.metrics.transitivity import cycles_among
from evalkit.types import (
    Case,
    ChecklistItem,
    ItemVerdict,
    JudgeRequest,
    JudgeSpec,
    Judgment,
    Message,
    Ranking,
    Unit,
    Verdict,
)

_READ = ("ok", "repaired")
CYCLES = 20
"""The most cycles of a case that are shown; conflicts.json can have more."""


def letter(index: int) -> str:
    """Return the name of a case's response: A, B, …, Z, then its number."""
    return chr(ord("A") + index) if index < 26 else str(index + 1)


def case_row(case: Case, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return a case and its verdicts for the page's script, without `None` values."""
    items = {item.id: item for item in case.checklist}
    return _filled(
        id=case.id,
        prompt=case.prompt,
        context=case.context,
        reference=case.reference,
        cycles=_cycles(verdicts),
        label=_winner(case.label, (0, 1)),
        responses=[
            _filled(
                name=letter(i),
                text=response.text,
                model=response.model,
                grade=response.grade,
                **{"class": response.class_name},
            )
            for i, response in enumerate(case.responses)
        ],
        verdicts=[_verdict(verdict, items) for verdict in verdicts],
    )


def judgment_row(judgment: Judgment) -> dict[str, Any]:
    """Return a judgment with its raw completion for the page's script."""
    completion = judgment.completion
    return _filled(
        unit="".join(map(letter, judgment.unit)),
        shown=", ".join(map(letter, judgment.shown)),
        sample=judgment.sample or None,
        judge=judgment.judge,
        arbiter=judgment.arbiter,
        status=judgment.status,
        value=judgment.value,
        **{"class": judgment.class_name},
        ranking=_ranking(judgment.ranking),
        confidence=judgment.confidence,
        criteria=dict(judgment.criteria),
        asked_items=", ".join(judgment.items) or None,
        read_by=judgment.read_by,
        error=judgment.error,
        stored=judgment.stored or None,
        text=completion.text if completion else None,
        thinking=completion.reasoning if completion else None,
    )


def flags(verdicts: Sequence[Verdict], judgments: Sequence[Judgment]) -> list[str]:
    """Return the filters of the page that match a case."""
    tests = {
        "mismatch": any(
            (found := v.winner or v.class_name) and isinstance(v.label, str) and found != v.label for v in verdicts
        ),
        "flip": any(v.orders is not None and v.orders.consistent is False for v in verdicts),
        "disagreement": _repeats_disagree(judgments),
        "tie": any(v.winner == "TIE" for v in verdicts),
        "cycle": len(verdicts) > 2 and bool(cycles_among(verdicts, 1)),
        "missing": any(j.status not in _READ for j in judgments) or any(v.reason == "missing" for v in verdicts),
    }
    return [name for name, holds in tests.items() if holds]


def _repeats_disagree(judgments: Sequence[Judgment]) -> bool:
    """Return whether samples or judges disagree on a unit in the same order."""
    decisions: dict[tuple[Unit, Unit], set[int | str]] = {}
    for j in judgments:
        decision = j.class_name if j.value is None else (j.value > 0) - (j.value < 0)
        if decision is not None:
            decisions.setdefault((j.unit, j.shown), set()).add(decision)
    return any(len(found) > 1 for found in decisions.values())


def _cycles(verdicts: Sequence[Verdict]) -> str | None:
    """Return the cycles of wins as `A > B > C > A`, one per line."""
    cycles = cycles_among(verdicts, CYCLES) if len(verdicts) > 2 else []
    return "\n".join(" > ".join(letter(k) for k in (*cycle, cycle[0])) for cycle in cycles) or None


def _ranking(ranking: Ranking | None) -> str | None:
    return None if ranking is None else " > ".join(" = ".join(map(letter, group)) for group in ranking)


def _filled(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != {}}


def _winner(winner: str | None, unit: Unit) -> str | None:
    return letter(unit["AB".index(winner)]) if winner in ("A", "B") and len(unit) == 2 else winner


def _verdict(verdict: Verdict, items: Mapping[str, ChecklistItem]) -> dict[str, Any]:
    label = verdict.label if isinstance(verdict.label, float | int) else _winner(verdict.label, verdict.unit)
    by_class = len(verdict.unit) == 1 and isinstance(label, str)
    orders = verdict.orders
    return _filled(
        unit="".join(map(letter, verdict.unit)),
        winner=_winner(verdict.winner, verdict.unit),
        score=verdict.score,
        **{"class": verdict.class_name},
        reason=verdict.reason,
        margin=verdict.margin,
        confidence=verdict.confidence,
        label=None if by_class else label,
        class_label=label if by_class else None,
        criteria=dict(verdict.criteria),
        votes={judge: _vote(vote, verdict.unit) for judge, vote in verdict.votes.items()},
        first=_winner(orders.first, verdict.unit) if orders else None,
        second=_winner(orders.second, verdict.unit) if orders else None,
        third=_winner(orders.third, verdict.unit) if orders else None,
        items=[_item(one, items[one.id]) for one in verdict.items] or None,
    )


def _item(one: ItemVerdict, item: ChecklistItem) -> dict[str, Any]:
    return _filled(
        criterion=item.criterion,
        points=item.points if item.points != 1 else None,
        answer=one.answer,
        why=one.reason if one.reason != "judged" else None,
        explanation=one.explanation or None,
        label=one.label,
    )


def _vote(vote: float | str | None, unit: Unit) -> str | float | None:
    return vote if isinstance(vote, float | int) else _winner(vote, unit)


Asked: TypeAlias = Callable[[Case, Sequence[Judgment]], Mapping[str, tuple[Message, ...]]]
"""Returns the messages of a case's judgments by content key, as far as they can be rendered again."""


def render_prompts(evaluator: Evaluator, specs: Sequence[JudgeSpec], arbiter: JudgeSpec | None = None) -> Asked:
    """Return a function that renders the prompts of a case again.

    A content key is a hash of everything that was sent, so a rendered prompt is only shown if its key is the key of a
    judgment; a changed template or case gives another key. Requests that contain an answer that the run does not keep
    cannot be rendered: repeated requests, and follow-ups to a judge's own answer.

    Args:
        evaluator: plans the requests.
        specs: the judges.
        arbiter: the judge of third judgments, if it is another one.
    """
    from evalkit.engine.requests import call_key  # imported here because findings alone do not need the engine

    by_name = {spec.name: spec for spec in specs}

    def requests(case: Case, judgments: Sequence[Judgment]) -> Iterator[tuple[JudgeSpec, JudgeRequest]]:
        asked = {judgment.judge for judgment in judgments}
        for request in evaluator.plan(case):
            for name in asked & by_name.keys():
                yield by_name[name], request
        if any(judgment.arbiter is not None for judgment in judgments) and isinstance(evaluator, FollowUpEvaluator):
            for name, passes in _passes(judgments):
                if name in by_name:
                    for request in evaluator.follow(case, passes):
                        yield arbiter or by_name[name], request

    def asked(case: Case, judgments: Sequence[Judgment]) -> dict[str, tuple[Message, ...]]:
        wanted = {key for judgment in judgments for key in judgment.keys}
        if not wanted:
            return {}
        try:
            keyed = [(call_key(spec, request), request.messages) for spec, request in requests(case, judgments)]
        except EvalkitError:
            return {}
        return {key: messages for key, messages in keyed if key in wanted}

    return asked


def _passes(judgments: Sequence[Judgment]) -> Iterator[tuple[str, list[Judgment]]]:
    """Yield each judge's judgments of each unit, without third judgments."""
    first = sorted((one for one in judgments if one.arbiter is None), key=lambda one: (one.judge, one.unit))
    for (name, _), group in groupby(first, key=lambda one: (one.judge, one.unit)):
        yield name, list(group)
