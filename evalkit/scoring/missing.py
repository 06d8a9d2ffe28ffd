"""What is missing, by kind, and what each kind could have done to the rates over labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evalkit.scoring.bootstrap import Bounds, share
from evalkit.scoring.columns import Bools, Codes, Ints, Pairs
from evalkit.scoring.ties import Resolved, Shown
from evalkit.scoring.values import tidy
from evalkit.types import Case, Judgment

KINDS = ("unparseable", "refused", "failed", "budget")
"""Why an answer is missing; `budget` is a call that was never made, because the cap was reached."""
UNASKED = "unasked"


def kind_of(judgment: Judgment) -> str:
    """Return why a judgment has no value, or its status where it has one."""
    never_made = judgment.status == "failed" and judgment.error_kind == "budget"
    return "budget" if never_made else judgment.status


def missing_table(
    resolved: Resolved, shown: Shown | None, cases: Sequence[Case], judgments: Sequence[Judgment]
) -> list[dict[str, Any]]:
    """Return, for each rate over labels and each kind of missing answer, the rate's bounds if only those had come.

    A pair counts under the kind of its first missing answer, in the order of `KINDS`; `unasked` if it was never asked
    for. `worst_low` and `worst_high` are the rate had every missing answer of that kind gone against, or for, it.
    """
    kinds = _kinds(resolved, cases, judgments)
    right, labelled = resolved.winner == resolved.pairs.label, resolved.labelled
    rates: dict[str, tuple[Bools, Bools]] = {"agreement/accuracy": (right, resolved.present)}
    if shown is not None and shown.both:
        both = np.asarray((shown.winner == resolved.pairs.label[:, None]).all(axis=1))
        rates["agreement/accuracy_both_orders"] = (both, np.asarray(shown.read.all(axis=1)))
    return [
        _row(name, kind, hit & labelled & read, labelled & read, labelled & ~read & (kinds == place))
        for name, (hit, read) in rates.items()
        for place, kind in enumerate((*KINDS, UNASKED))
    ]


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


def _kinds(resolved: Resolved, cases: Sequence[Case], judgments: Sequence[Judgment]) -> Codes:
    """Return by pair the place in `KINDS` of its first missing answer; one beyond the last where there is none."""
    pairs, places = resolved.pairs, {case.id: place for place, case in enumerate(cases)}
    found = np.full(len(pairs), len(KINDS), dtype=np.int8)
    for judgment in judgments:
        kind = kind_of(judgment)
        if kind in KINDS:
            touched = _pairs_of(judgment, places[judgment.case_id], resolved.pairs)
            found[touched] = np.minimum(found[touched], KINDS.index(kind))
    return found


def _pairs_of(judgment: Judgment, case: int, pairs: Pairs) -> Ints:
    """Return the places of the pairs of its case that a judgment bears on, by all of its responses or its only one."""
    start, n = int(pairs.start[case]), int(pairs.sizes[case])
    place = np.arange(start, start + n * (n - 1) // 2)
    i, j = np.isin(pairs.i[place], judgment.unit), np.isin(pairs.j[place], judgment.unit)
    return place[(i | j) if len(judgment.unit) == 1 else (i & j)]
