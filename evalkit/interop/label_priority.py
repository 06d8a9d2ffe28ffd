"""Which units would teach most if people labelled them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

from evalkit.core.annotations import annotation_grades, choice_for
from evalkit.interop.labeling import labeled_size
from evalkit.types import Annotation, RunResult, Unit, Verdict

Kind = Literal["disagreement", "flip", "near", "plain"]
KINDS: tuple[Kind, ...] = ("disagreement", "flip", "near", "plain")
_NEAR = 0.34
"""Margins this far from where the verdict changes are near it: of three samples, one says otherwise."""


def rank_for_labeling(result: RunResult, count: int, seed: int = 0) -> list[tuple[str, Unit]]:
    """Return `count` units: in turn of judges that disagree, orders that do, margins near the threshold, and others.

    Within each kind the judge's verdicts take turns, so that no winner (or level of score) is labelled more than the
    others; within these, chance decides. Nothing that all verdicts lack is asked for, and what people have labelled
    already comes last.
    """
    draw = random.Random(seed)
    labels = {case.id: case.labels for case in result.cases}
    threshold = result.config.tie.threshold
    size = labeled_size(result)
    queues: dict[bool, dict[Kind, dict[str, list[Verdict]]]] = {}
    for verdict in result.verdicts:
        if len(verdict.unit) == size:
            known = _labelled(labels[verdict.case_id], verdict.unit)
            of_kind = queues.setdefault(known, {}).setdefault(disagreement_kind(verdict, threshold), {})
            of_kind.setdefault(_said(verdict), []).append(verdict)
    chosen: list[Verdict] = []
    for known in (False, True):
        kinds = [_balanced(queues.get(known, {}).get(name, {}), draw) for name in KINDS]
        chosen += _in_turn(kinds)
    return [(verdict.case_id, verdict.unit) for verdict in chosen[:count]]


def disagreement_kind(verdict: Verdict, threshold: float) -> Kind:
    """Return why a unit is worth a label."""
    votes = {vote for vote in verdict.votes.values() if vote is not None}
    if len(votes) > 1:
        return "disagreement"
    if verdict.orders is not None and verdict.orders.consistent is False:
        return "flip"
    if verdict.margin is not None and abs(abs(verdict.margin) - threshold) <= _NEAR:
        return "near"
    return "plain"


def _said(verdict: Verdict) -> str:
    return str(verdict.winner if verdict.score is None else round(verdict.score))


def _labelled(labels: Mapping[str, Annotation], unit: Unit) -> bool:
    if len(unit) == 2:
        return any(choice_for(one, unit) is not None for one in labels.values())
    return any(grades[unit[0]] is not None for one in labels.values() if (grades := annotation_grades(one)))


def _balanced(by_verdict: Mapping[str, Sequence[Verdict]], draw: random.Random) -> list[Verdict]:
    shuffled = [draw.sample(list(verdicts), len(verdicts)) for _, verdicts in sorted(by_verdict.items())]
    return _in_turn(shuffled)


def _in_turn(queues: Sequence[Sequence[Verdict]]) -> list[Verdict]:
    turns = range(max(map(len, queues), default=0))
    return [queue[turn] for turn in turns for queue in queues if turn < len(queue)]
