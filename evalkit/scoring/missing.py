"""What is missing, by kind, and what each kind could have done to the rates over labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalkit.scoring.answers import KINDS, READABLE, Answers
from evalkit.scoring.bootstrap import Bounds, share
from evalkit.scoring.columns import Bools, Codes, Ints, Pairs
from evalkit.scoring.ties import Resolved, Shown
from evalkit.scoring.values import tidy
from evalkit.types import Unit

MISSING_KINDS = (*KINDS[:READABLE], "unasked")


def missing_table(resolved: Resolved, shown: Shown | None, answers: Answers) -> list[dict[str, Any]]:
    """Return, for each rate over labels and each kind of missing answer, the rate's bounds if only those had come.

    A pair counts under the kind of its first missing answer, in the order of `MISSING_KINDS`; `unasked` if it
    was never asked for. `worst_low` and `worst_high` are the rate had every missing answer of that kind gone against,
    or for, it.
    """
    kinds = _kinds(resolved.pairs, answers)
    right, labelled = resolved.winner == resolved.pairs.label, resolved.labelled
    rates: dict[str, tuple[Bools, Bools]] = {"agreement/accuracy": (right, resolved.present)}
    if shown is not None and shown.both:
        both = np.asarray((shown.winner == resolved.pairs.label[:, None]).all(axis=1))
        rates["agreement/accuracy_both_orders"] = (both, np.asarray(shown.read.all(axis=1)))
    rows = [
        _row(name, kind, hit & labelled & read, labelled & read, labelled & ~read & (kinds == place))
        for name, (hit, read) in rates.items()
        for place, kind in enumerate(MISSING_KINDS)
    ]
    return rows if shown is None or not shown.both else rows + _of_orders(resolved, shown, answers)


def _of_orders(resolved: Resolved, shown: Shown, answers: Answers) -> list[dict[str, Any]]:
    """Return the rows of `agreement/accuracy_per_order`, the mean of two rates; a pass has a kind of its own."""
    asked = answers.select(third=False)
    kinds = [_kinds(resolved.pairs, asked, order) for order in (0, 1)]
    rows = []
    for place, kind in enumerate(MISSING_KINDS):
        one, two = (
            _row(
                "agreement/accuracy_per_order",
                kind,
                right & read,
                read,
                resolved.labelled & ~read & (kinds[k] == place),
            )
            for k in (0, 1)
            for read in (resolved.labelled & shown.read[:, k],)
            for right in (np.asarray(shown.winner[:, k] == resolved.pairs.label),)
        )
        means = {name: _mean(one[name], two[name]) for name in ("value", "worst_low", "worst_high")}
        rows.append(one | means | {name: one[name] + two[name] for name in ("n", "missing")})
    return rows


def _mean(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else tidy((one + two) / 2)


def _row(name: str, kind: str, hit: Bools, among: Bools, lost: Bools) -> dict[str, Any]:
    n, missing, hits = int(among.sum()), int(lost.sum()), int(hit.sum())
    low, high = _tidy(share(hits, n + missing, missing))
    value = tidy(hits / n) if n else None
    return {
        "metric": name,
        "kind": kind,
        "value": value,
        "n": n,
        "missing": missing,
        "worst_low": low,
        "worst_high": high,
    }


def _tidy(bounds: Bounds) -> Bounds:
    low, high = bounds
    return (None if low is None else tidy(low)), (None if high is None else tidy(high))


def _kinds(pairs: Pairs, answers: Answers, order: int | None = None) -> Codes:
    """Return by pair the place in `MISSING_KINDS` of its first missing answer, of those in one order if it is named."""
    found = np.full(len(pairs), MISSING_KINDS.index("unasked"), dtype=np.int8)
    for row in np.flatnonzero(~answers.readable):
        unit, shown = answers.shapes[answers.shape[row]]
        if order is not None and len(unit) == 2 and (shown != unit) != order:
            continue
        touched = _pairs_of(unit, int(answers.case[row]), pairs)
        if order is not None:
            turned = [shown.index(i) > shown.index(j) for i, j in zip(pairs.i[touched], pairs.j[touched], strict=True)]
            touched = touched[np.array(turned, dtype=np.int64) == order]
        found[touched] = np.minimum(found[touched], answers.kind[row])
    return found


def _pairs_of(unit: Unit, case: int, pairs: Pairs) -> Ints:
    """Return the places of the pairs of a case that a judgment bears on, by all of its responses or its only one."""
    start, n = int(pairs.start[case]), int(pairs.sizes[case])
    place = np.arange(start, start + n * (n - 1) // 2)
    i, j = np.isin(pairs.i[place], unit), np.isin(pairs.j[place], unit)
    return place[(i | j) if len(unit) == 1 else (i & j)]
