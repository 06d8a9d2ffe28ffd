"""Every cycle by name: which cases, which responses, and which verdicts to reverse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from evalkit.scoring.chance import in_cycle
from evalkit.scoring.columns import NONE, Bools, Floats, Ints
from evalkit.scoring.edges import Edges, matrices
from evalkit.scoring.reversals import Reversals, fewest_reversals, knots
from evalkit.types import Case, Verdict

LISTED = 100
"""So many cycles of one case are listed, shortest first; a knot of eight can hold thousands."""
STEPS = 200_000
"""So many steps are taken in search of them."""


def cyclic_cases(edges: Edges) -> Iterator[tuple[Ints, Bools, Floats]]:
    """Yield, by size, the cases whose strict wins make a cycle, their wins and the sizes of the margins behind them."""
    for case, winners in edges.groups():
        complete = (winners != NONE).all(axis=1)
        wins, _ = matrices(winners[complete])
        cyclic = in_cycle(wins).any(axis=1)
        used = case[complete][cyclic]
        n = wins.shape[-1]
        margins = np.zeros((len(used), n, n))
        i, j = np.triu_indices(n, 1)
        each = edges.margin[edges.pairs.start[used][:, None] + np.arange(len(i))]
        margins[:, i, j] = margins[:, j, i] = each
        yield used, wins[cyclic], margins


def list_conflicts(cases: Sequence[Case], edges: Edges) -> tuple[Ints, list[dict[str, Any]]]:
    """Return how many verdicts of each case to reverse, and an entry for each case with a cycle, in case order."""
    counts = np.zeros(len(cases), dtype=np.int64)
    found: dict[int, dict[str, Any]] = {}
    for used, wins, margins in cyclic_cases(edges):
        for case, matrix, reversals in zip(used.tolist(), wins, fewest_reversals(wins, margins), strict=True):
            counts[case] = len(reversals.wins)
            found[case] = _entry(cases[case], matrix, reversals)
    return counts, [found[case] for case in sorted(found)]


def _entry(case: Case, wins: Bools, reversals: Reversals) -> dict[str, Any]:
    cycles = shortest_cycles(wins, LISTED + 1)
    return {
        "case_id": case.id,
        "responses": [int(k) for k in np.flatnonzero(in_cycle(wins))],
        "models": [response.model for response in case.responses],
        "cycles": [list(cycle) for cycle in cycles[:LISTED]],
        "more_cycles": len(cycles) > LISTED,
        "reverse": [list(pair) for pair in reversals.wins],
        "fewest": reversals.exact,
    }


def cycles_among(verdicts: Sequence[Verdict], most: int = LISTED) -> list[tuple[int, ...]]:
    """Return up to `most` cycles of wins among one case's verdicts, shortest first, each by response indices."""
    won = [v.unit if v.winner == "A" else v.unit[::-1] for v in verdicts if len(v.unit) == 2 and v.winner in ("A", "B")]
    wins = np.zeros((1 + max((max(pair) for pair in won), default=0),) * 2, dtype=bool)
    for better, worse in won:
        wins[better, worse] = True
    return shortest_cycles(wins, most)


def shortest_cycles(wins: Bools, most: int) -> list[tuple[int, ...]]:
    """Return up to `most` cycles without repeated responses, shortest first, each from its smallest response on."""
    walks = chain.from_iterable(
        _walk(wins, knot, (start,), length)
        for length in range(3, len(wins) + 1)
        for knot in knots(wins)
        if length <= len(knot)
        for start in knot
    )
    cycles = (cycle for cycle in islice(walks, STEPS) if cycle is not None)
    return list(islice(cycles, most))


def _walk(wins: Bools, knot: list[int], path: tuple[int, ...], length: int) -> Iterator[tuple[int, ...] | None]:
    """Yield the cycles of a length that continue a path, and none for each step on the way."""
    start, here = path[0], path[-1]
    if len(path) == length:
        yield path if wins[here, start] else None
        return
    yield None
    for ahead in knot:
        if ahead > start and wins[here, ahead] and ahead not in path:
            yield from _walk(wins, knot, (*path, ahead), length)
