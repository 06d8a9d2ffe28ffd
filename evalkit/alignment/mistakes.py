"""Labeled cases as shown to a model that writes, those that differ most from their labels first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from evalkit.alignment.search import Side
from evalkit.config import RunConfig
from evalkit.core.types import Case, Verdict
from evalkit.core.values import JsonObject
from evalkit.evaluators.parsing import drop_thinking
from evalkit.evaluators.prompting import neutralize
from evalkit.scoring.decision import SCORES, VerdictKind
from evalkit.scoring.pipeline import verdicts_of

_SHOWN: Final = 1500


def labeled(config: RunConfig, side: Side) -> Iterator[Verdict]:
    """Yield the verdicts that have a label."""
    return (
        verdict
        for verdict in verdicts_of(config, side.cases, side.judgments)
        if verdict.label is not None
    )


def agreed(config: RunConfig, kind: VerdictKind, verdict: Verdict) -> float:
    """Return how far a verdict agrees with its label, in [0, 1]; without a verdict it is 0."""
    if kind is not SCORES:
        return float((verdict.winner or verdict.class_name) == verdict.label)
    if verdict.score is None or not isinstance(verdict.label, float):
        return 0.0
    return 1 - abs(verdict.score - verdict.label) / (
        config.rubric.max - config.rubric.min
    )


def shown_cases(
    config: RunConfig, kind: VerdictKind, side: Side
) -> Iterator[JsonObject]:
    """Yield labeled cases with their verdicts, those that differ most from their labels first."""
    by_id: dict[str, Case] = {case.id: case for case in side.cases}
    reasons: dict[tuple[str, tuple[int, ...]], str] = {}
    for judgment in side.judgments:
        if judgment.completion is not None and judgment.shown == judgment.unit:
            reasons.setdefault(
                (judgment.case_id, judgment.unit),
                drop_thinking(judgment.completion.text),
            )
    for verdict in sorted(
        labeled(config, side), key=lambda verdict: agreed(config, kind, verdict)
    ):
        case = by_id[verdict.case_id]
        decided = next(
            (
                value
                for value in (verdict.winner, verdict.class_name, verdict.score)
                if value is not None
            ),
            None,
        )
        yield {
            "task": _cut(case.prompt),
            "context": _cut(case.context or ""),
            "reference": _cut(case.reference or ""),
            "responses": [_cut(case.responses[index].text) for index in verdict.unit],
            "verdict": "" if decided is None else _cut(str(decided)),
            "label": _cut(str(verdict.label)),
            "reasons": _cut(reasons.get((case.id, verdict.unit), "")),
            "agreed": agreed(config, kind, verdict),
        }


def _cut(text: str) -> str:
    return neutralize(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …")
