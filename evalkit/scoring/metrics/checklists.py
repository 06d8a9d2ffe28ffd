"""Metrics of checklists: scores, rates of met items, agreement with annotators by item,
and the halo effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from evalkit.core.turns import cited_turns, parts_of, unit_of
from evalkit.core.types import Case
from evalkit.scoring.stats.arrays import Bools
from evalkit.scoring.stats.statistic import Measures, Statistic, Tally
from evalkit.scoring.verdicts.checklists import (
    CANNOT,
    MET,
    MISSING,
    NOT_MET,
    ItemColumns,
    Score,
    decided,
    rescored,
)

MOST_NAMES = 50
"""At most this many tags and this many items have metrics of their own: the most frequent."""
UNKNOWN = "score not determined: items are unanswered or cannot be assessed"
UNCLIPPED = "score/unclipped"
HALO = "checklist/halo"


def checklist_statistics(items: ItemColumns, rule: str) -> Measures:
    """Return the metrics of checklists; see the catalog."""
    tally = items.tally
    scores = items.scores
    answered = decided(items.answer)
    unread = items.answer == MISSING
    met = items.answer == MET
    was_judged = items.judged != MISSING
    every = np.ones(len(items.case), dtype=bool)
    why = "no item has an answer"
    counts = Counter[str](score.state for score in scores)
    texts = {
        "unknown_items": UNKNOWN,
        "no_positive_points": "no positive points",
        "no_weight": "all weights are 0",
    }
    note = (
        "; ".join(
            f"{text}: {counts[state]}" for state, text in texts.items() if counts[state]
        )
        or None
    )
    measures: Measures = [
        _mean(
            "score/mean",
            items,
            scores,
            lambda score: (score.low, score.high),
            note=note,
            ends=(0.0, 1.0),
        ),
        _mean(
            "checklist/required_rate",
            items,
            rescored(items, "required").scores,
            lambda score: (score.low, score.high),
            proportion=True,
        ),
        tally.rate("checklist/met_rate", met, answered, unread, why=why),
        tally.rate(
            "checklist/cannot_assess",
            items.judged == CANNOT,
            was_judged,
            ~was_judged,
            why=why,
        ),
        tally.rate("checklist/missing", ~was_judged, every, why="there are no items"),
    ]
    if rule == "points":
        measures.append(_mean(UNCLIPPED, items, scores, lambda score: score.unclipped))
    for name, rows in _rows_by_tag(items):
        why = "no such item has an answer"
        measures.append(
            tally.rate(
                f"checklist/met_rate/{name}",
                met,
                answered & rows,
                unread & rows,
                why=why,
            )
        )
    return measures + agreement_of_items(items)


def evidence_statistics(items: ItemColumns, cases: Sequence[Case]) -> list[Statistic]:
    """Return how often the reasons for answers name turns that the judge did not see;
    nothing without numbered turns.

    Args:
        items: the items of every response.
        cases: the cases.
    """
    responses = [
        (case, index) for case in cases for index in range(len(case.responses))
    ]
    if all(unit_of(case.responses[index].text) is None for case, index in responses):
        return []
    # [response]: the turns that the judge saw
    turns_shown = [
        {part.turn for part in parts_of(case, index)} for case, index in responses
    ]
    named = [
        (bool(turns_shown[at]) and {*cited_turns(item.explanation)}, turns_shown[at])
        for at, verdicts in enumerate(items.verdicts)
        for item in verdicts
    ]
    cites = np.array([bool(numbers) for numbers, _ in named])
    unknown = np.array([bool(numbers and numbers - turns) for numbers, turns in named])
    return [
        items.tally.rate(
            "checklist/evidence/unknown_turn",
            unknown,
            cites,
            why="no reason names a turn",
        )
    ]


def _mean(
    name: str,
    columns: ItemColumns,
    scores: Sequence[Score],
    low_high: Callable[[Score], tuple[float, float]],
    **attributes: Any,
) -> Statistic:
    """Return a mean over responses: of those whose value is known, with the bounds of
    all others.
    """
    low, high = np.array([low_high(score) for score in scores]).reshape(-1, 2).T
    is_scored = np.array([score.state == "scored" for score in scores], dtype=bool)
    bounded = ~np.isnan(low)
    worst = (
        (float(low[bounded].mean()), float(high[bounded].mean()))
        if bounded.any()
        else (None, None)
    )
    tally = Tally(columns.response_case, columns.cases)
    why = "no response has a score"
    return tally.mean(
        name, low, is_scored, bounded & ~is_scored, worst=worst, why=why, **attributes
    )


def _rows_by_tag(columns: ItemColumns) -> Iterator[tuple[str, Bools]]:
    """Yield the rows of each tag, and of each item that several cases have: those of
    the most frequent names.
    """
    tags = _rows([{*tags} for tags in columns.tags])
    items = _rows([set() if item.numbered else {item.id} for item in columns.items])
    shared = {
        name: rows
        for name, rows in items.items()
        if columns.cases == 1 or len({*columns.case[rows]}) > 1
    }
    for kind, rows_of in (("tag", tags), ("item", shared)):
        for name in sorted(
            sorted(rows_of, key=lambda name: (-len(rows_of[name]), name))[:MOST_NAMES]
        ):
            mask = np.zeros(len(columns.case), dtype=bool)
            mask[rows_of[name]] = True
            yield f"{kind}/{name}", mask


def _rows(names: Sequence[set[str]]) -> dict[str, list[int]]:
    rows_by_name: dict[str, list[int]] = {}
    for row, row_names in enumerate(names):
        for name in row_names:
            rows_by_name.setdefault(metric_name(name), []).append(row)
    return rows_by_name


def metric_name(name: str) -> str:
    """Return a tag or an item's id as used in names of metrics; what would be the same
    name is counted together.
    """
    return (
        "_".join(
            "".join(
                char if char.isalnum() or char in "._-" else " " for char in name
            ).split()
        )[:60]
        or "_"
    )


def agreement_of_items(columns: ItemColumns) -> Measures:
    """Return the agreement of the judge's own answers with the labels, both met or not met."""
    if not columns.labeled.any():
        return []
    tally = columns.tally
    label = columns.label
    judged = columns.judged
    read = columns.read
    unread = columns.unread
    why = "no labeled item has an answer"
    met = label == MET
    not_met = label == NOT_MET
    answers = "met" if met[read].any() else "not met"
    if read.any():
        equal = f"labels are all {answers}: it would be 0 whatever the answers are"
    else:
        equal = why
    table = columns.confusion((MET, CANNOT, NOT_MET))
    return [
        tally.rate("checklist/accuracy", columns.right, read, unread, why=why),
        tally.rate(
            "checklist/tpr",
            judged == MET,
            read & met,
            unread & met,
            why="no item is labeled as met",
        ),
        tally.rate(
            "checklist/tnr",
            judged == NOT_MET,
            read & not_met,
            unread & not_met,
            why="none is labeled not met",
        ),
        *table.coefficients("checklist", "items", why=equal),
    ]


def halo_statistic(alone: ItemColumns, together: ItemColumns) -> Statistic:
    """Return `checklist/halo`: how much more the answers of a response resemble each
    other if asked together.

    An item resembles the others if it is met where most other items of the response are met, or not
    met where most are not, in the run that asked for each item alone. The halo is the share of
    items asked together that do, minus the share of the same items asked alone. Independent errors
    do not change it; it is positive if answers influence each other, or follow one overall
    impression (Thorndike 1920, J. Appl. Psychol. 4, 25-29).

    Args:
        alone: The items asked one by one.
        together: The same items asked in one request.
    """
    in_both = alone.present & together.present
    # shape (items,)
    sign = np.where(alone.present, np.where(alone.judged == MET, 1.0, -1.0), 0.0)
    lead_of_others = (
        np.bincount(alone.response, weights=sign, minlength=len(alone.scores))[
            alone.response
        ]
        - sign
    )
    rows = in_both & (lead_of_others != 0)
    majority = np.where(lead_of_others > 0, MET, NOT_MET)
    change = (together.judged == majority).astype(np.float64) - (
        alone.judged == majority
    )
    return alone.tally.mean(
        HALO,
        change,
        rows,
        (lead_of_others != 0) & ~in_both,
        span=(-1.0, 1.0),
        why="no item was answered in both runs",
    )
