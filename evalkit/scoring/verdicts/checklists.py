"""Checklists: answers to items combined over samples, decided by their prerequisites,
and scored by a rule.

An item is met, not met, or unknown: unanswered, `cannot_assess`, split between samples, or
dependent on an unknown item. A response has a score if every unknown item could be either without
changing it; otherwise its score is missing and has bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final, Literal, TypeAlias

import numpy as np

from evalkit.core.checklists import (
    CONSENSUS,
    decision_order,
    inherited,
    leaves,
    parts_of,
)
from evalkit.core.errors import ConfigError
from evalkit.core.types import (
    Case,
    ChecklistItem,
    ItemAnswer,
    ItemReason,
    ItemVerdict,
    Judgment,
    Status,
)
from evalkit.core.values import frozen
from evalkit.scoring.columns import Units
from evalkit.scoring.judgments import KINDS, answer_kind
from evalkit.scoring.stats.arrays import FUZZ, Bools, Codes, Ints
from evalkit.scoring.stats.statistic import Tally

Rule: TypeAlias = Literal["points", "weighted", "share", "required"]
State: TypeAlias = Literal["scored", "unknown_items", "no_positive_points", "no_weight"]
NOT_MET = 0
MET = 1
CANNOT = 2
MISSING = -1
CODES: Final[Mapping[ItemAnswer | None, int]] = {
    "not_met": NOT_MET,
    "met": MET,
    "cannot_assess": CANNOT,
    None: MISSING,
}
ANSWERS: Final = {code: answer for answer, code in CODES.items()}
_Vote: TypeAlias = tuple[ItemAnswer | None, str]
_Status: TypeAlias = tuple[Status, str | None]
_READ: Final[_Status] = ("ok", None)


@frozen
class Score:
    """A score between 0 and 1 with its bounds over unknown items; it is known if they are equal.

    `unclipped` are the bounds before clipping: those of points may be below 0.
    """

    state: State
    low: float = 0.0
    high: float = 1.0
    unclipped: tuple[float, float] = (0.0, 1.0)

    @property
    def value(self) -> float:
        """The score; NaN if it is not known."""
        if self.state == "scored":
            return self.low
        return float("nan")


def score_items(
    items: Sequence[ChecklistItem], met: Mapping[str, bool | None], rule: Rule
) -> Score:
    """Return the score of a checklist.

    - `points`: the points of the items that are met over the sum of all positive points, clipped to
      0 and 1 (Arora et al. 2025, HealthBench, arXiv 2505.08775, section 3).
    - `weighted`: the weighted mean of the parts of each group, from the leaves to the root (Starace
      et al. 2025, PaperBench, arXiv 2504.01848, section 2).
    - `share`: the share of items that are fulfilled.
    - `required`: 1 if all required items are fulfilled, all items if none is marked; else 0.

    Args:
        items: The items, each group before its parts.
        met: Whether each leaf is met; `None` if it is unknown.
        rule: The rule.
    """
    if rule == "points":
        return _points_score(items, met)
    # Groups have no answer of their own; their parts have.
    leaf_items = leaves(items)
    # leaf -> lowest and highest fulfillment; they differ if its answer is unknown
    done: dict[str | None, tuple[float, float]] = {
        item.id: _fulfilled(item, met.get(item.id)) for item in leaf_items
    }
    if rule == "weighted":
        return _weighted_score(items, done)
    if rule == "required":
        # Required items, or all items if none is marked.
        needed = [item.id for item, _, _, required in inherited(items) if required] or [
            item.id for item in leaf_items
        ]
        # All must be fulfilled: the minimum, at the lower and at the upper end.
        low, high = (float(min(done[name][end] for name in needed)) for end in (0, 1))
    else:
        # Index 0 is the lower end, 1 the upper one.
        low, high = (
            sum(bounds[end] for bounds in done.values()) / len(done) for end in (0, 1)
        )
    return _bounded(low, high)


def _fulfilled(item: ChecklistItem, met: bool | None) -> tuple[float, float]:
    """Return the bounds of whether an item is fulfilled: met, or with negative points not met."""
    if met is None:
        return 0.0, 1.0
    value = float(met == (item.points >= 0))
    return value, value


def _bounded(low: float, high: float) -> Score:
    state: State = "scored" if high - low <= FUZZ else "unknown_items"
    return Score(state, low, high, (low, high))


def _points_score(
    items: Sequence[ChecklistItem], met: Mapping[str, bool | None]
) -> Score:
    """Return the points of items that are met as a share of the positive points, between bounds.

    Args:
        items: the checklist.
        met: whether each item is met, `None` if that is unknown.
    """
    leaf_items = leaves(items)
    # Only positive points can be reached; negative ones are deductions.
    total = sum(item.points for item in leaf_items if item.points > 0)
    if not total:
        return Score("no_positive_points", unclipped=(float("nan"), float("nan")))
    # Items that are met, with deductions for those that have negative points.
    sure = sum(item.points for item in leaf_items if met.get(item.id))
    unknown = [item.points for item in leaf_items if met.get(item.id) is None]
    # An unknown item adds its points or nothing: the lower end takes negative ones, the
    # upper positive ones.
    low, high = (
        sure + sum(end(points, 0.0) for points in unknown) for end in (min, max)
    )
    clipped = _bounded(*(min(max(end / total, 0.0), 1.0) for end in (low, high)))
    return replace(clipped, unclipped=(low / total, high / total))


def _weighted_score(
    items: Sequence[ChecklistItem], done: Mapping[str | None, tuple[float, float]]
) -> Score:
    """Return the weighted mean of a checklist's items, group by group up to the root.

    Args:
        items: the checklist, groups before their parts.
        done: the bounds of each item's value, 0 or 1 if it is known.
    """
    bounds = dict(done)
    parts = parts_of(items)
    # From the leaves to the root: reversed, as groups come before their parts. None is the root.
    for group in [item.id for item in reversed(items) if item.id in parts] + [None]:
        weights = np.array([part.weight for part in parts[group]])
        if not weights.sum():
            return Score("no_weight")
        # (parts,) @ (parts, 2): the weighted mean of the lower and of the upper ends.
        low, high = (
            weights
            @ np.array([bounds[part.id] for part in parts[group]])
            / weights.sum()
        ).tolist()
        bounds[group] = low, high
    return _bounded(*bounds[None])


def decided(codes: Codes) -> Bools:
    """Return which answers are met or not met."""
    return np.asarray((codes == MET) | (codes == NOT_MET))


@frozen
class ItemColumns(Units):
    """The items of every response of every case, as judged by one judge or a panel: a
    row for each leaf.

    Attributes:
        case: (rows,) the index of the case.
        response: (rows,) the index of the response in the run.
        answer: (rows,) the answer that counts: MET, NOT_MET, CANNOT or MISSING.
        judged: (rows,) the judge's own answer, whatever the prerequisites.
        label: (rows,) the annotators' answer, MISSING without one.
        items: (rows,) the items.
        tags: (rows,) their tags, with those of their groups.
        verdicts: the items of each response.
        scores: the score of each response.
        response_case: (responses,) the index of the case.
        cases: the number of cases.
        checklists: the checklist of each response.
        statuses: the status and kind of error of each response's first missing judgment, in the
            order of `KINDS`, or of a readable one; `None` if the judge was not asked.
    """

    case: Ints
    response: Ints
    answer: Codes
    judged: Codes
    label: Codes
    items: Sequence[ChecklistItem]
    tags: Sequence[tuple[str, ...]]
    verdicts: Sequence[tuple[ItemVerdict, ...]]
    scores: Sequence[Score]
    response_case: Ints
    cases: int
    checklists: Sequence[tuple[ChecklistItem, ...]] = ()
    statuses: Sequence[_Status | None] = ()

    @property
    def codes(self) -> Codes:
        """The judge's own answers, (rows,)."""
        return self.judged

    @property
    def truth(self) -> Codes:
        """The annotators' answers, (rows,)."""
        return self.label

    @property
    def present(self) -> Bools:
        """Which items the judge answered with met or not met, (rows,)."""
        return decided(self.judged)

    @property
    def missing(self) -> Bools:
        """Which items have no answer, (rows,)."""
        return np.asarray(self.judged == MISSING)

    @property
    def labeled(self) -> Bools:
        """Which items are labeled met or not met, (rows,)."""
        return decided(self.label)

    @property
    def tally(self) -> Tally:
        """Sums over the items of each case."""
        return Tally(self.case, self.cases)


def rescored(columns: ItemColumns, rule: Rule) -> ItemColumns:
    """Return the items with the scores of a rule, such as `required`: whether required
    items are fulfilled.
    """
    scores = [
        score_items(checklist, _states(verdicts), rule)
        for checklist, verdicts in zip(
            columns.checklists, columns.verdicts, strict=True
        )
    ]
    return replace(columns, scores=scores)


def _states(verdicts: Sequence[ItemVerdict]) -> dict[str, bool | None]:
    return {
        verdict.id: {"met": True, "not_met": False}.get(verdict.answer or "")
        for verdict in verdicts
    }


_Votes: TypeAlias = dict[tuple[int, int, str], dict[int, _Vote]]
"""The answers of one judge to the items of each case and response: one for each sample."""


def _add_votes(votes: _Votes, judgment: Judgment, case: int) -> None:
    """Record a judgment's answers on items as votes of its judge, with their reasons.

    Args:
        votes: the votes so far, changed in place.
        judgment: the judgment.
        case: the index of its case.
    """
    # The judge's answer as JSON, for the reasons; the verdicts are in `items`.
    entries = (judgment.answer or {}).get("items") or ()
    reasons = {
        str(entry.get("item")): str(entry.get("reason") or "")
        for entry in entries
        if isinstance(entry, Mapping)
    }
    for name, answer in judgment.items.items():
        # Judgments of parts of a checklist have the same sample number.
        samples = votes.setdefault((case, judgment.unit[0], name), {})
        before, reason = samples.get(judgment.sample, (None, ""))
        if before is not None and answer is not None and before != answer:
            answer = None  # two answers to one question are none
        # A later answer without a value does not replace one that has a value.
        elif answer is None and before is not None:
            continue
        samples[judgment.sample] = (answer, reasons.get(name, reason))


def read_items(
    cases: Sequence[Case], judgments: Iterable[Judgment], rule: Rule
) -> tuple[ItemColumns, dict[str, ItemColumns]]:
    """Return the items by majority of all judges, and those of each judge by name.

    Args:
        cases: the cases, with their checklists.
        judgments: the judgments, each read once.
        rule: how items become a score.

    Raises:
        ConfigError: if a judgment is of an unknown case, response or item.
    """
    positions = {case.id: position for position, case in enumerate(cases)}
    # Groups are never judged.
    leaf_ids = [{item.id for item in leaves(case.checklist)} for case in cases]
    votes: dict[str, _Votes] = {}
    # judge -> (case, response) -> the status that comes first in `KINDS`
    statuses: dict[str, dict[tuple[int, int], tuple[int, _Status]]] = {}
    for judgment in judgments:
        position = positions.get(judgment.case_id)
        where = f"case '{judgment.case_id}'"
        if position is None:
            raise ConfigError(
                "this case was judged but is not in the dataset", where=where
            )
        if len(judgment.unit) != 1 or not 0 <= judgment.unit[0] < len(
            cases[position].responses
        ):
            problem = (
                f"responses {list(judgment.unit)} were judged, "
                "but the case does not have them"
            )
            raise ConfigError(problem, where=where)
        if unknown := judgment.items.keys() - leaf_ids[position]:
            raise ConfigError(
                f"item '{min(unknown):.60}' was judged, but is not in the checklist",
                where=where,
            )
        _add_votes(votes.setdefault(judgment.judge, {}), judgment, position)
        judge_statuses = statuses.setdefault(judgment.judge, {})
        unit = (position, judgment.unit[0])
        status = (
            KINDS.index(answer_kind(judgment)),
            (judgment.status, judgment.error_kind),
        )
        judge_statuses[unit] = min(
            status, judge_statuses.get(unit, status), key=itemgetter(0)
        )
    # (case, response) in the order of rows of responses.
    units = [
        (position, index)
        for position, case in enumerate(cases)
        for index in range(len(case.responses))
    ]
    by_judge = {
        name: replace(
            _item_columns(cases, [judge_votes], rule),
            statuses=[statuses[name].get(unit, (0, None))[1] for unit in units],
        )
        for name, judge_votes in sorted(votes.items())
    }
    return (
        # One judge is the panel: its items need no vote.
        next(iter(by_judge.values()))
        if len(by_judge) == 1
        else _item_columns(cases, [*votes.values()], rule)
    ), by_judge


def _item_columns(
    cases: Sequence[Case], judges: Sequence[_Votes], rule: Rule
) -> ItemColumns:
    """Return one row for each item of each response, decided from the votes of all judges.

    Args:
        cases: the cases.
        judges: the votes of each judge.
        rule: how items make a score.

    Raises:
        ConfigError: if a case has no checklist.
    """
    # one row for each item of a response: case, response, codes of answer, judged, label
    rows = list[tuple[int, ...]]()
    items = list[ChecklistItem]()
    tags = list[tuple[str, ...]]()
    # response -> position of its case
    response_case = list[int]()
    verdicts = list[tuple[ItemVerdict, ...]]()
    for position, case in enumerate(cases):
        if not case.checklist:
            raise ConfigError(
                "the case has no checklist",
                where=f"case '{case.id}'",
                remedy="set mode.checklist",
            )
        order = decision_order(case.checklist)
        inherited_items = [*inherited(case.checklist)]
        for index in range(len(case.responses)):
            answers = {
                item.id: _combine_judges(judges, (position, index, item.id))
                for item, *_ in inherited_items
            }
            decided = _decide(case.checklist, order, answers, index)
            # The index of the response in the run is the number of responses before it.
            response_number = len(verdicts)
            for verdict in decided:
                answer_code = CODES[verdict.answer]
                judged_code = CODES[verdict.judged]
                label_code = CODES[verdict.label]
                codes = (answer_code, judged_code, label_code)
                rows.append((position, response_number, *codes))
            # `marks` are the tags with those of the item's groups.
            for item, _, marks, _ in inherited_items:
                items.append(item)
                tags.append(marks)
            verdicts.append(decided)
            response_case.append(position)
    # (rows, 5) to five columns.
    case_, response, *code_columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    answer, judged, label = (column.astype(np.int8) for column in code_columns)
    checklists = [cases[position].checklist for position in response_case]
    case_of_response = np.array(response_case, dtype=np.int64)
    columns = ItemColumns(
        case_,
        response,
        answer,
        judged,
        label,
        items,
        tags,
        verdicts,
        (),
        case_of_response,
        len(cases),
        checklists,
    )
    return rescored(columns, rule)


def _majority(votes: Sequence[_Vote]) -> tuple[ItemAnswer | None, ItemReason, str]:
    """Return the answer of more than half of the votes that were cast, with one of
    their reasons.
    """
    counts = Counter(answer for answer, _ in votes if answer is not None)
    if not counts:
        return None, "missing", ""
    best, count = counts.most_common(1)[0]
    cast = sum(counts.values())
    # Half of the votes is no majority.
    if 2 * count <= cast:
        return None, "split", ""
    return best, "judged", next(reason for answer, reason in votes if answer == best)


def _combine_judges(
    judges: Sequence[_Votes], item: tuple[int, int, str]
) -> tuple[ItemAnswer | None, ItemReason, str]:
    """Return the answer on an item, by case, response and id, from the votes of all judges."""
    # One vote for each judge, from its samples.
    votes = [_majority([*judge.get(item, {}).values()]) for judge in judges]
    if len(votes) == 1:
        return votes[0]
    # A judge without an answer casts no vote.
    return _majority([(answer, reason) for answer, _, reason in votes])


def _decide(
    items: Sequence[ChecklistItem],
    order: Sequence[tuple[str, str]],
    judged: Mapping[str, tuple[ItemAnswer | None, ItemReason, str]],
    response: int,
) -> tuple[ItemVerdict, ...]:
    """Return the items of a response, each with its prerequisites applied."""
    by_id = {item.id: item for item in items}
    parts = parts_of(items)
    # (kind, item) -> whether it holds; `None` if unknown
    state: dict[tuple[str, str], bool | None] = {}
    verdicts: dict[str, ItemVerdict] = {}
    # `order` has each prerequisite before what depends on it.
    for kind, name in order:
        item = by_id[name]
        if kind == "gate":
            # A part is gated by its group too.
            above = [] if item.parent is None else [state["gate", item.parent]]
            state[kind, name] = _all(
                [*above, *(state["item", prerequisite] for prerequisite in item.after)]
            )
        elif name in parts:
            state[kind, name] = _all([state["item", part.id] for part in parts[name]])
        else:
            answer, reason, explanation = judged[name]
            gate = state["gate", name]
            stated = answer
            # An unmet prerequisite decides the item; an unknown one only takes `met` away.
            if gate is False and answer != "not_met":
                answer, reason = "not_met", "prerequisite"
            elif gate is None and answer == "met":
                answer, reason = None, "undetermined"
            state[kind, name] = {"met": True, "not_met": False}.get(answer or "")
            verdicts[name] = ItemVerdict(
                name, answer, reason, stated, explanation, label_of(item, response)
            )
    return tuple(verdicts[item.id] for item in items if item.id in verdicts)


def _all(states: Sequence[bool | None]) -> bool | None:
    # One False decides, whatever is unknown.
    if False in states:
        return False
    if None in states:
        return None
    return True


def label_of(item: ChecklistItem, response: int) -> ItemAnswer | None:
    """Return the annotators' answer: the label, or else the majority of annotators."""
    if (consensus := item.labels.get(CONSENSUS)) is not None:
        return consensus[response]
    return _majority([(answers[response], "") for answers in item.labels.values()])[0]


def scored_judgments(
    cases: Sequence[Case], by_judge: Mapping[str, ItemColumns]
) -> Iterator[Judgment]:
    """Yield one judgment for each response that a judge was asked about, whose value is the score.

    Without a known score, its status is that of the first missing judgment; if all were read, it
    only has no value.
    """
    units = [
        (case.id, (index,)) for case in cases for index in range(len(case.responses))
    ]
    for judge, columns in by_judge.items():
        for (case, unit), score, outcome in zip(
            units, columns.scores, columns.statuses, strict=True
        ):
            if outcome is not None:
                # A readable judgment without a known score has no value, and no error either.
                is_scored = score.state == "scored"
                status, kind = _READ if is_scored else outcome
                yield Judgment(
                    case,
                    unit,
                    unit,
                    0,
                    judge,
                    status,
                    score.value if is_scored else None,
                    error_kind=kind,
                )
