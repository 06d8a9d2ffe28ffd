"""Which judgments are worth a look: the same ones each time, of every kind that a run has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from evalkit.types import Judgment, RunResult, Unit, Verdict

Kind = Literal["missing", "flip", "mismatch", "tie", "plain"]
_KINDS: tuple[Kind, ...] = ("missing", "flip", "mismatch", "tie", "plain")


def choose(result: RunResult, count: int) -> list[Judgment]:
    """Return `count` judgments: in turn from missing, flipped, mislabelled, tied and plain units.

    The passes of one unit stay together.
    """
    by_unit: dict[tuple[str, Unit], list[int]] = {}
    lost: set[tuple[str, Unit]] = set()
    for place, judgment in enumerate(result.judgments):
        unit = (judgment.case_id, judgment.unit)
        by_unit.setdefault(unit, []).append(place)
        if judgment.status not in ("ok", "repaired"):
            lost.add(unit)
    kinds: dict[Kind, list[list[int]]] = {name: [] for name in _KINDS}
    for verdict in result.verdicts:
        unit = (verdict.case_id, verdict.unit)
        if places := by_unit.pop(unit, None):
            kinds[kind(verdict, lost=unit in lost)].append(places)
    kinds["plain"].extend(by_unit.values())
    chosen = islice((place for places in _in_turn(list(kinds.values())) for place in places), count)
    return [result.judgments[place] for place in chosen]


def kind(verdict: Verdict, *, lost: bool) -> Kind:
    """Return what is most notable of a unit; `lost` says that a judgment of it could not be read."""
    if lost:
        return "missing"
    if verdict.orders and verdict.orders.consistent is False:
        return "flip"
    if verdict.winner and verdict.label is not None and verdict.label != verdict.winner:
        return "mismatch"
    return "tie" if verdict.winner == "TIE" else "plain"


def _in_turn(queues: list[list[list[int]]]) -> Iterator[list[int]]:
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))
