"""Turns and steps of conversations: agreement by position, the first failure, and
outcome against process.

A conversation is judged in parts, each a case of its own. Whether a part fails follows from its
verdict and its label by one rule: a class other than `rubric.positive`, a score below the middle of
the scale, or a checklist with a required item that is not met. A part without a verdict neither
passes nor fails, so what depends on it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from evalkit.core.scale import PASSES, Scale
from evalkit.core.turns import CONVERSATION, TURN, TURNS, UNIT_KEYS
from evalkit.core.types import Case
from evalkit.core.values import frozen
from evalkit.scoring.columns import ClassColumns, ScoreColumns, VerdictColumns
from evalkit.scoring.stats.arrays import FUZZ, Bools, Codes, Floats, Ints, divide
from evalkit.scoring.stats.statistic import Statistic, Tally, mean_of
from evalkit.scoring.verdicts.checklists import ItemColumns, rescored, score_items

PASS = 1
FAIL = 0
UNKNOWN = -1
MOST: Final = 2**31
"""A count that no conversation reaches: a larger one is not that of a conversation."""
NEVER: Final = 0
"""The first failure of a conversation in which every part passes."""
EARLY: Final = "turns/agreement_early"
LATE: Final = "turns/agreement_late"
SLOPE: Final = "turns/agreement_slope"
EXACT: Final = "turns/first_failure_exact"
NEAR: Final = "turns/first_failure_within_one"
NONE: Final = "turns/no_failure"
OUTCOME: Final = "turns/outcome_agreement"
RECOVERED: Final = "turns/outcome_after_failure"
UNLABELED: Final = "no turn or step with a label has a verdict"
NO_CONVERSATION: Final = (
    "no conversation has labels and verdicts up to its first failure"
)
ONE_PLACE: Final = "no conversation has labels and verdicts of two turns or steps"
NO_OUTCOME: Final = (
    "no conversation has a verdict on its last turn or step and on those before it"
)
NONE_FAILED: Final = "no turn or step before the last one fails"
NO_POSITIVE: Final = "no class is known to pass: set rubric.positive"


@frozen
class Parts:
    """The cases that are turns or steps of conversations, ordered by conversation and number.

    Attributes:
        case: (parts,) the index of each one's case.
        number: (parts,) its number in the conversation, from 1.
        of: (parts,) how many the conversation has.
        start: (conversations,) the index of each conversation's first part.
        cases: the number of cases.
    """

    case: Ints
    number: Ints
    of: Ints
    start: Ints
    cases: int

    @classmethod
    def read(cls, cases: Sequence[Case]) -> Parts | None:
        """Return the parts by the cases' metadata; `None` if no case is a part."""
        # {conversation: its index}, in order of first occurrence.
        conversations: dict[str, int] = {}
        rows = []
        for index, case in enumerate(cases):
            metadata = case.metadata
            number = metadata.get(TURN)
            count = metadata.get(TURNS)
            is_numbered = (
                # `type` and not isinstance: True is an int, and no number of a turn.
                type(number) is int
                and type(count) is int
                and 1 <= number <= count < MOST
            )
            if is_numbered and metadata.keys() >= {*UNIT_KEYS}:
                name = str(metadata[CONVERSATION])
                conversation = conversations.setdefault(name, len(conversations))
                rows.append((conversation, number, count, index))
        if not rows:
            return None
        # (4, parts): sorted by conversation, then by number.
        columns = np.array(sorted(rows), dtype=np.int64).T
        conversation_of_part, numbers, counts, case_of_part = columns
        # A part begins a conversation where its number differs from that of the part before.
        changes = np.diff(conversation_of_part, prepend=-1)
        return cls(case_of_part, numbers, counts, np.flatnonzero(changes), len(cases))

    @property
    def sizes(self) -> Ints:
        """How many parts each conversation has among the cases, (conversations,)."""
        return np.diff(self.start, append=len(self.case))

    @property
    def tally(self) -> Tally:
        """Sums over conversations: each counts for the case of its first part."""
        return Tally(self.case[self.start], self.cases)

    def first_failures(self, passed: Codes) -> Ints:
        """Return the number of each conversation's first part that fails, NEVER if all
        pass, or UNKNOWN.

        It is unknown if a part up to it is, or is not among the cases.

        Args:
            passed: (cases,) PASS, FAIL or UNKNOWN.
        """
        # (parts,) the codes in the order of the parts.
        codes = passed[self.case]
        row = np.arange(len(self.case))
        here = self._gapless
        # (conversations,) the row of the first part that does not pass, or that follows a gap.
        stop = np.minimum.reduceat(
            np.where((codes != PASS) | ~here, row, len(row)), self.start
        )
        # (conversations,) the row of the last part among the cases.
        last = self.start + self.sizes - 1
        # len(row) means no such part and is not an index; `fails` is unused there.
        at = np.minimum(stop, len(row) - 1)
        fails = np.where((codes[at] == FAIL) & here[at], self.number[at], UNKNOWN)
        return np.where(
            stop < len(row),
            fails,
            # All pass: known only if the last part of the conversation is among the cases.
            np.where(self.number[last] == self.of[last], NEVER, UNKNOWN),
        )

    @property
    def _gapless(self) -> Bools:
        """Which parts have all parts before them among the cases, (parts,)."""
        return np.asarray(
            # Without a gap, part k of a conversation is in its row k - 1.
            self.number
            == np.arange(len(self.case)) - np.repeat(self.start, self.sizes) + 1
        )

    def outcomes(self, passed: Codes) -> tuple[Codes, Codes]:
        """Return of each conversation whether all parts but the last pass, and whether
        the last does.

        Args:
            passed: (cases,) PASS, FAIL or UNKNOWN.
        """
        codes = passed[self.case]
        last = self.start + self.sizes - 1
        # Which rows are the last parts of whole conversations.
        ends = self.number == self.of
        # (conversations,) the parts before the last that pass, with all parts before them known.
        passing = np.add.reduceat(
            ((codes == PASS) & self._gapless & ~ends).astype(np.int64), self.start
        )
        # One failure before the last part decides, whatever is missing.
        failed = np.maximum.reduceat((codes == FAIL) & ~ends, self.start)
        # All but the last pass; more rows than parts would be duplicate numbers.
        complete = (passing == self.of[last] - 1) & (self.sizes <= self.of[last])
        process = np.select([failed, complete], [FAIL, PASS], UNKNOWN)
        return process.astype(np.int8), np.where(
            ends[last], codes[last], UNKNOWN
        ).astype(np.int8)


@frozen
class Agreement:
    """How far verdicts agree with labels, 0 to 1.

    Attributes:
        values: (rows,) the agreement of each row.
        read: (rows,) which rows have a verdict and a label.
        unread: (rows,) which rows have a label only.
        tally: the case of each row.
        why: why no row has an agreement, if none does.
    """

    values: Bools | Floats
    read: Bools
    unread: Bools
    tally: Tally
    why: str = UNLABELED


@frozen
class Passes:
    """Which cases pass, by the verdicts and by the labels: (cases,) PASS, FAIL or UNKNOWN.

    Attributes:
        verdicts: by the verdicts.
        labels: by the labels.
        rule: what fails, as a note; or why nothing does.
        has_rule: whether there is such a rule.
    """

    verdicts: Codes
    labels: Codes
    rule: str
    has_rule: bool = True


def turn_statistics(
    cases: Sequence[Case],
    scale: Scale,
    answers: VerdictColumns | ClassColumns | ItemColumns,
) -> list[Statistic]:
    """Return the metrics of turns or steps; nothing if the cases are none.

    Args:
        cases: the cases.
        scale: the scale of the scores.
        answers: the verdicts of one judge or a panel.
    """
    parts = Parts.read(cases)
    if parts is None:
        return []
    # Verdicts are right or wrong, except for scores, which are at a distance.
    agreement = Agreement(answers.right, answers.read, answers.unread, answers.tally)
    if isinstance(answers, ClassColumns):
        return [
            *_by_position(parts, agreement),
            *_first_failures(parts, _class_passes(answers)),
        ]
    if isinstance(answers, ItemColumns):
        return [
            *_by_position(parts, agreement),
            *_first_failures(parts, _checklist_passes(answers)),
        ]
    scored = answers.scores
    if answers.passes is None and scored is not None:
        return [
            *_by_position(parts, _score_agreement(scale, scored)),
            *_first_failures(parts, _score_passes(scale, scored)),
        ]
    # Pairs have no pass and fail, so only agreement by position.
    return _by_position(parts, agreement)


def _score_agreement(scale: Scale, scored: ScoreColumns) -> Agreement:
    """Return how close each response's score is to its grade, from 0 to 1."""
    why = scored.off_scale(scale)
    graded = np.isfinite(scored.grade) & (not why)
    has_score = np.isfinite(scored.raw)
    # Distance as a share of the scale; NaN becomes 0 in rows that do not count.
    distance = np.nan_to_num(np.abs(scored.raw - scored.grade) / scale.span)
    return Agreement(
        1 - distance,
        graded & has_score,
        graded & ~has_score,
        scored.tally,
        why or UNLABELED,
    )


def _coded(tally: Tally, passes: Bools, is_known: Bools) -> Codes:
    """Return whether each case passes, (cases,): UNKNOWN if one of its rows is, or it has none."""
    # (cases,) three sums each: rows, unknown rows, failing rows.
    rows, unknown, failing = tally.columns(
        np.ones(len(is_known)), ~is_known, is_known & ~passes
    )
    # The order of the conditions: an unknown row leaves the case open even if another fails.
    return np.select(
        [(rows == 0) | (unknown > 0), failing > 0], [UNKNOWN, FAIL], PASS
    ).astype(np.int8)


def _class_passes(columns: ClassColumns) -> Passes:
    """Return which responses have the positive class; without one, nothing is known."""
    positive = columns.positive
    if positive is None:
        nothing = np.full(columns.cases, UNKNOWN, dtype=np.int8)
        return Passes(nothing, nothing, NO_POSITIVE, has_rule=False)
    verdicts, labels = (
        _coded(columns.tally, of == positive, of >= 0)
        for of in (columns.verdicts, columns.labels)
    )
    return Passes(
        verdicts, labels, rule=f"a class other than '{columns.names[positive]}' fails"
    )


def _score_passes(scale: Scale, scored: ScoreColumns) -> Passes:
    """Return which responses pass by their score, for the judge and for the labels."""
    why = scored.off_scale(scale)
    # Rewards have no middle that could mean pass.
    least = 0.0 if scale.real else scale.min + PASSES * scale.span
    verdicts, labels = (
        # `of` is the verdicts' scores, then the labels' grades.
        _coded(scored.tally, of >= least - FUZZ, np.isfinite(of) & (not scale.real))
        for of in (scored.raw, np.where(why, np.nan, scored.grade))
    )
    return Passes(
        verdicts,
        labels,
        rule=why if scale.real else f"a score below {least:g} fails",
        has_rule=not scale.real,
    )


def _checklist_passes(columns: ItemColumns) -> Passes:
    """Return which responses pass by the required items of their checklist."""
    tally = Tally(columns.response_case, columns.cases)
    by_label = []
    # The labels of a response, scored by the same rule as the verdicts.
    for items, verdicts in zip(columns.checklists, columns.verdicts, strict=True):
        met = {
            verdict.id: None
            if verdict.label not in ("met", "not_met")
            else verdict.label == "met"
            for verdict in verdicts
        }
        by_label.append(score_items(items, met, "required").value)
    both = (
        np.array([score.value for score in rescored(columns, "required").scores]),
        np.array(by_label),
    )
    # A checklist with required items has a score of 1 or 0.
    judged, labeled = (_coded(tally, of > 0, np.isfinite(of)) for of in both)
    return Passes(
        judged, labeled, rule="a checklist with a required item that is not met fails"
    )


def _by_position(parts: Parts, agreement: Agreement) -> list[Statistic]:
    """Return the agreement in the first and the second half of conversations, and its
    slope within conversations.

    The slope is that of a regression with a level for each conversation (Wooldridge 2010,
    Econometric Analysis of Cross Section and Panel Data, section 10.5), so that longer
    conversations that are harder do not make it. The number is scaled to 0 for the first and 1 for
    the last part.
    """
    tally = agreement.tally
    # shape (cases,): number of the part, of how many, and its conversation; 0 for no part
    number, of = np.zeros((2, parts.cases))
    group = np.zeros(parts.cases, dtype=np.int64)
    number[parts.case] = parts.number
    of[parts.case] = parts.of
    group[parts.case] = np.repeat(np.arange(len(parts.start)), parts.sizes)
    # (rows,) from here on: the same of the case of each row.
    number = number[tally.case]
    of = of[tally.case]
    group = group[tally.case]
    statistics = []
    for name, rows in (
        # Part k of n is in the first half if its middle, (k - 1/2) / n, is below 1/2.
        (EARLY, (of > 0) & (2 * number - 1 < of)),
        (LATE, 2 * number - 1 > of),
    ):
        read = agreement.read & rows
        unread = agreement.unread & rows
        # Right or wrong is a rate, a distance a mean with ends.
        if agreement.values.dtype == np.bool_:
            right = np.asarray(agreement.values, dtype=np.bool_)
            statistics.append(tally.rate(name, right, read, unread, why=agreement.why))
        else:
            ends = (0.0, 1.0)
            statistics.append(
                tally.mean(
                    name,
                    agreement.values,
                    read,
                    unread,
                    span=ends,
                    ends=ends,
                    why=agreement.why,
                )
            )
    used = agreement.read & (of > 1)
    # A conversation with one read part has no slope.
    used &= np.bincount(group, weights=used, minlength=len(parts.start))[group] > 1
    by = Tally(group[used], len(parts.start))
    # 0 for the first part, 1 for the last.
    position = (number[used] - 1) / (of[used] - 1)
    # the position, less its mean in the conversation
    x = position - divide(by(position), by(used[used]))[by.case]
    n = int(used.sum())
    # Half the sum of |x| is the largest sum of x times agreements from 0 to 1.
    sums = (float(np.abs(x).sum()) / 2, float(x @ x))
    # (columns,) of the lowest and the highest slope, for one of n units.
    low, high = (
        np.array([side * sums[0], sums[1]]) / max(n, 1) for side in (-1.0, 1.0)
    )
    missing = int((agreement.unread & (of > 1)).sum())
    slope = Statistic(
        SLOPE,
        # Sums by case of x * agreement and of x * x; their ratio is the slope.
        tally.where(used).columns(x * agreement.values[used], x * x),
        mean_of,
        n=n,
        missing=missing,
        note="missing verdicts are omitted and not bounded" if missing else None,
        why=ONE_PLACE if agreement.read.any() else agreement.why,
        reach=np.array([low, high]),
    )
    return [*statistics, slope]


def _first_failures(parts: Parts, passes: Passes) -> list[Statistic]:
    """Return how often the first failure is that of the labels, and how the last part
    compares with those before it.
    """
    tally = parts.tally
    note = passes.rule if passes.has_rule else None
    judged = parts.first_failures(passes.verdicts)
    labeled = parts.first_failures(passes.labels)
    statistics = []
    read = labeled != UNKNOWN
    was_judged = judged != UNKNOWN
    # Both have a failure, at most one part apart.
    near = (judged > NEVER) & (labeled > NEVER) & (np.abs(judged - labeled) <= 1)
    why = NO_CONVERSATION if passes.has_rule else passes.rule
    # Never failing on both sides is equal too.
    for name, hit in ((EXACT, judged == labeled), (NEAR, near | (judged == labeled))):
        statistics.append(
            tally.rate(
                name, hit, read & was_judged, read & ~was_judged, note=note, why=why
            )
        )
    statistics.append(tally.rate(NONE, labeled == NEVER, read, note=note, why=why))
    process, last = parts.outcomes(passes.verdicts)
    # A conversation of one part has no process before its outcome.
    several = parts.of[parts.start] > 1
    both = several & (process != UNKNOWN) & (last != UNKNOWN)
    # Not known to pass: the process fails or is open.
    after = several & (process != PASS)
    unread = several & ~both
    why = NO_OUTCOME if passes.has_rule else passes.rule
    if not passes.has_rule:
        failed = passes.rule
    else:
        if both.any():
            failed = NONE_FAILED
        else:
            failed = NO_OUTCOME
    return [
        *statistics,
        tally.rate(OUTCOME, process == last, both, unread, note=note, why=why),
        tally.rate(
            RECOVERED, last == PASS, both & after, unread & after, note=note, why=failed
        ),
    ]
