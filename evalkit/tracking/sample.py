"""Which judgments are worth a look: the same ones each time, of every kind that a run has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from evalkit.types import Judgment, RunResult, Unit, Verdict

Kind = Literal["missing", "flip", "mismatch", "tie", "plain"]
_KINDS: tuple[Kind, ...] = ("missing", "flip", "mismatch", "tie", "plain")


def choose(result: RunResult, count: int) -> list[Judgment]:
    """Return `count` judgments: in turn from missing, flipped, mislabelled, tied and plain units.

    The passes of one unit stay together.
    """
    by_unit: dict[tuple[str, Unit], list[Judgment]] = {}
    for judgment in result.judgments:
        by_unit.setdefault((judgment.case_id, judgment.unit), []).append(judgment)
    kinds: dict[Kind, list[list[Judgment]]] = {name: [] for name in _KINDS}
    for verdict in result.verdicts:
        if judgments := by_unit.pop((verdict.case_id, verdict.unit), None):
            kinds[kind(verdict, judgments)].append(judgments)
    kinds["plain"].extend(by_unit.values())
    return [judgment for unit in _in_turn(list(kinds.values())) for judgment in unit][:count]


def kind(verdict: Verdict, judgments: Sequence[Judgment]) -> Kind:
    """Return what is most notable of a unit."""
    if any(j.status not in ("ok", "repaired") for j in judgments):
        return "missing"
    if verdict.orders and verdict.orders.consistent is False:
        return "flip"
    if verdict.winner and verdict.label is not None and verdict.label != verdict.winner:
        return "mismatch"
    return "tie" if verdict.winner == "TIE" else "plain"


def _in_turn(queues: list[list[list[Judgment]]]) -> Iterator[list[Judgment]]:
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))
