"""Metrics of checklists: scores, rates of met items, agreement with annotators by item, and the halo effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from evalkit.scoring.columns.cases import NONE
from evalkit.scoring.metrics.agreement import CLASSES, kappa_bounds, unless_one_label
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.stats.confusion import confused, kappa
from evalkit.scoring.verdicts.checklists import CANNOT, MET, MISSING, NOT_MET, ItemColumns, Score
from evalkit.types import Metric

MOST_NAMES = 50
"""At most this many tags and this many items have metrics of their own: the most frequent."""
UNKNOWN = "score not determined: items are unanswered or cannot be assessed"
UNCLIPPED = "score/unclipped"
HALO = "checklist/halo"


def checklist_statistics(columns: ItemColumns, rule: str) -> list[Statistic | Metric]:
    """Return the metrics of checklists; see the catalog."""
    tally = Tally(columns.case, columns.cases)
    answered, unread = _decided(columns.answer), columns.answer == MISSING
    met, all_rows = columns.answer == MET, np.ones(len(columns.case), dtype=bool)
    given = columns.judged != MISSING
    found: list[Statistic | Metric] = [
        _mean("score/mean", columns, columns.scores, lambda one: (one.low, one.high), note=_note(columns.scores)),
        _mean("checklist/required_rate", columns, columns.required, lambda one: (one.low, one.high), share=True),
        tally.rate("checklist/met_rate", met, answered, unread, why="no item has an answer"),
        tally.rate("checklist/cannot_assess", columns.judged == CANNOT, given, ~given, why="no item has an answer"),
        tally.rate("checklist/missing", ~given, all_rows, all_rows & False, why="there are no items"),
    ]
    if rule == "points":
        found.append(_mean(UNCLIPPED, columns, columns.scores, lambda one: one.unclipped))
    for name, rows in _groups(columns):
        why = "no such item has an answer"
        found.append(tally.rate(f"checklist/met_rate/{name}", met, answered & rows, unread & rows, why=why))
    return found + _agreement(columns, tally)


def _decided(codes: Codes) -> Bools:
    return np.asarray((codes == MET) | (codes == NOT_MET))


def _mean(
    name: str,
    columns: ItemColumns,
    scores: Sequence[Score],
    ends: Callable[[Score], tuple[float, float]],
    *,
    share: bool = False,
    note: str | None = None,
) -> Statistic:
    """Return a mean over responses: of those whose value is known, with the bounds of all others."""
    low, high = np.array([ends(one) for one in scores]).reshape(-1, 2).T
    known = np.array([one.state == "scored" for one in scores], dtype=bool)
    bounded = ~np.isnan(low)
    tally = Tally(columns.response_case, columns.cases)
    sums = np.stack([tally(np.where(known, low, 0.0)), tally(known)], axis=1)
    worst = (float(low[bounded].mean()), float(high[bounded].mean())) if bounded.any() else (None, None)
    return Statistic(
        name,
        sums,
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=int(known.sum()),
        missing=int((bounded & ~known).sum()),
        worst=worst,
        proportion=share,
        ends=None if share or name != "score/mean" else (0.0, 1.0),
        note=note,
        why="no response has a score",
    )


def _note(scores: Sequence[Score]) -> str | None:
    counts = Counter[str](one.state for one in scores)
    texts = {"unknown_items": UNKNOWN, "no_positive_points": "no positive points", "no_weight": "all weights are 0"}
    return "; ".join(f"{text}: {counts[state]}" for state, text in texts.items() if counts[state]) or None


def _groups(columns: ItemColumns) -> Iterator[tuple[str, Bools]]:
    """Yield the rows of each tag, and of each item that several cases have."""
    tags = _rows([{*tags} for tags in columns.tags])
    for tag, rows in _most_frequent(tags):
        yield f"tag/{tag}", _mask(rows, len(columns.case))
    own = _rows([set() if item.numbered else {item.id} for item in columns.items])
    shared = {name: rows for name, rows in own.items() if columns.cases == 1 or len({*columns.case[rows]}) > 1}
    for name, rows in _most_frequent(shared):
        yield f"item/{name}", _mask(rows, len(columns.case))


def _rows(names: Sequence[set[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, own in enumerate(names):
        for name in own:
            found.setdefault(metric_name(name), []).append(row)
    return found


def metric_name(name: str) -> str:
    """Return a tag or an item's id as used in names of metrics; what would be the same name is counted together."""
    return "_".join("".join(char if char.isalnum() or char in "._-" else " " for char in name).split())[:60] or "_"


def _most_frequent(rows: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
    most = sorted(rows, key=lambda name: (-len(rows[name]), name))[:MOST_NAMES]
    return [(name, rows[name]) for name in sorted(most)]


def _mask(rows: Sequence[int], size: int) -> Bools:
    mask = np.zeros(size, dtype=bool)
    mask[rows] = True
    return mask


def _agreement(columns: ItemColumns, tally: Tally) -> list[Statistic | Metric]:
    """Return the agreement of the judge's own answers with the labels, both met or not met."""
    label, judged = columns.label, columns.judged
    labeled = _decided(label)
    if not labeled.any():
        return []
    read, unread = labeled & _decided(judged), labeled & (judged == MISSING)
    why = "no labeled item has an answer"
    met, not_met = label == MET, label == NOT_MET
    return [
        tally.rate("checklist/accuracy", judged == label, read, unread, why=why),
        tally.rate("checklist/tpr", judged == MET, read & met, unread & met, why="no item is labeled as met"),
        tally.rate("checklist/tnr", judged == NOT_MET, read & not_met, unread & not_met, why="none is labeled not met"),
        _kappa(tally, np.where(met, 1, -1), np.where(judged == MET, 1, -1), read, unread),
    ]


def _kappa(tally: Tally, label: Codes, judged: Codes, read: Bools, unread: Bools) -> Statistic:
    cells = [read & (label == row) & (judged == column) for row in CLASSES for column in CLASSES]
    columns = np.stack([tally(cell) for cell in cells], axis=1)
    return Statistic(
        "checklist/kappa",
        columns,
        unless_one_label(kappa, read, label),
        n=int(read.sum()),
        missing=int(unread.sum()),
        worst=kappa_bounds(columns.sum(axis=0), np.where(unread, label, NONE), unread),
        reach=confused(kappa, columns),
        why=_why_no_kappa(label[read]),
    )


def _why_no_kappa(label: Codes) -> str:
    if not len(label):
        return "no labeled item has an answer"
    return f"labels are all {'met' if label[0] > 0 else 'not met'}: it would be 0 whatever the answers are"


def halo_statistic(alone: ItemColumns, together: ItemColumns) -> Statistic:
    """Return `checklist/halo`: how much more the answers of a response resemble each other if asked together.

    An item resembles the others if it is met where most other items of the response are met, or not met where most are
    not, in the run that asked for each item alone. The halo is the share of items asked together that do, minus the
    share of the same items asked alone. Independent errors do not change it; it is positive if answers influence each
    other, or follow one overall impression (Thorndike 1920, J. Appl. Psychol. 4, 25-29).

    Args:
        alone: The items asked one by one.
        together: The same items asked in one request.
    """
    known = _decided(alone.judged) & _decided(together.judged)
    sign = np.where(_decided(alone.judged), np.where(alone.judged == MET, 1.0, -1.0), 0.0)
    others = np.bincount(alone.response, weights=sign, minlength=len(alone.scores))[alone.response] - sign
    rows, majority = known & (others != 0), np.where(others > 0, MET, NOT_MET)
    change = (together.judged == majority).astype(np.float64) - (alone.judged == majority)
    tally = Tally(alone.case, alone.cases)
    unread = (others != 0) & ~known
    n, missing = int(rows.sum()), int(unread.sum())
    total = float(change[rows].sum())
    return Statistic(
        HALO,
        np.stack([tally(np.where(rows, change, 0.0)), tally(rows)], axis=1),
        _ratio,
        n=n,
        missing=missing,
        worst=((total - missing) / (n + missing), (total + missing) / (n + missing)) if n + missing else (None, None),
        why="no item was answered in both runs",
    )


def _ratio(totals: Floats) -> Floats:
    return divide(totals[:, 0], totals[:, 1])
