"""Labeled cases as shown to a model that writes, those that differ most from their labels first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from evalkit.alignment.search import Side
from evalkit.config import RunConfig
from evalkit.decision import SCORES, Kind
from evalkit.parsing import drop_thinking
from evalkit.prompting import neutralize
from evalkit.scoring import verdicts_of
from evalkit.types import Case, Verdict
from evalkit.values import JsonObject

_SHOWN: Final = 1500


def labeled(config: RunConfig, side: Side) -> Iterator[Verdict]:
    """Yield the verdicts that have a label."""
    return (
        one
        for one in verdicts_of(config, side.cases, side.judgments)
        if one.label is not None
    )


def agreed(config: RunConfig, kind: Kind, verdict: Verdict) -> float:
    """Return how far a verdict agrees with its label, in [0, 1]; without a verdict it is 0."""
    if kind is not SCORES:
        return float((verdict.winner or verdict.class_name) == verdict.label)
    if verdict.score is None or not isinstance(verdict.label, float):
        return 0.0
    return 1 - abs(verdict.score - verdict.label) / (
        config.rubric.max - config.rubric.min
    )


def shown_cases(config: RunConfig, kind: Kind, side: Side) -> Iterator[JsonObject]:
    """Yield labeled cases with their verdicts, those that differ most from their labels first."""
    by_id: dict[str, Case] = {case.id: case for case in side.cases}
    reasons: dict[tuple[str, tuple[int, ...]], str] = {}
    for one in side.judgments:
        if one.completion is not None and one.shown == one.unit:
            reasons.setdefault(
                (one.case_id, one.unit), drop_thinking(one.completion.text)
            )
    for verdict in sorted(
        labeled(config, side), key=lambda one: agreed(config, kind, one)
    ):
        case = by_id[verdict.case_id]
        given = next(
            (
                one
                for one in (verdict.winner, verdict.class_name, verdict.score)
                if one is not None
            ),
            None,
        )
        yield {
            "task": _cut(case.prompt),
            "context": _cut(case.context or ""),
            "reference": _cut(case.reference or ""),
            "responses": [_cut(case.responses[index].text) for index in verdict.unit],
            "verdict": "" if given is None else _cut(str(given)),
            "label": _cut(str(verdict.label)),
            "reasons": _cut(reasons.get((case.id, verdict.unit), "")),
            "agreed": agreed(config, kind, verdict),
        }


def _cut(text: str) -> str:
    return neutralize(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …")
