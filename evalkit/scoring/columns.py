"""Pairs, responses and their verdicts as columns: what metrics are computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from evalkit.core.annotations import FIRST, choices_in, majority
from evalkit.core.display import visible_names
from evalkit.core.scale import Scale
from evalkit.core.types import Annotation, Case, Reason, Unit, Winner
from evalkit.core.values import frozen
from evalkit.scoring.decision import FEW, NO_SCALE, UNITS
from evalkit.scoring.judgments import ABSTAINED, JudgmentColumns
from evalkit.scoring.judgments import MISSING as UNCLASSED
from evalkit.scoring.judgments import SPLIT as SPLIT_CLASS
from evalkit.scoring.stats.arrays import FUZZ, Bools, Codes, Floats, Ints
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.statistic import Tally

A = 1
TIE = 0
B = -1
NONE = -2
"""Winners as numbers: the sign of a margin, and -2 for a missing winner."""
NAMES: dict[int, Winner] = {A: "A", TIE: "TIE", B: "B"}
CODES: dict[str | None, int] = {
    **{name: code for code, name in NAMES.items()},
    None: NONE,
}
NARROW = 0.45
WIDE = 0.6
STEEP = 1.5
TINY = 0.125
"""Units differ if grades use at most `NARROW` of the scale and scores at least `WIDE` of it, with a
slope of `STEEP` or more; or if scores use at most `TINY` of the range of grades."""


def sign(values: Floats) -> Codes:
    """Return A, TIE or B for margins above, at and below 0, and NONE for NaN."""
    # FUZZ: differences from rounding alone are ties.
    codes = np.where(np.abs(values) <= FUZZ, TIE, np.where(values > 0, A, B))
    return np.where(np.isnan(values), NONE, codes).astype(np.int8)


JUDGED, THRESHOLD, DISAGREEMENT, FORCED, MISSING, SPLIT, EQUAL, ABSTENTION, CANCELED = (
    range(9)
)
REASONS: tuple[Reason, ...] = get_args(Reason)
"""The reason of each code, in the order of the codes."""


class Units(Protocol):
    """Units of cases, each with the code of its verdict and of its label: what metrics
    of every kind read.
    """

    __slots__ = ()

    @property
    def codes(self) -> Codes | Ints:
        """The code of each verdict, (units,)."""

    @property
    def truth(self) -> Codes | Ints:
        """The code of each label, (units,)."""

    @property
    def present(self) -> Bools:
        """Which units have a verdict that a label could equal, (units,)."""

    @property
    def missing(self) -> Bools:
        """Which units should have a verdict and have none, (units,)."""

    @property
    def labeled(self) -> Bools:
        """Which units have a label, (units,)."""

    @property
    def tally(self) -> Tally:
        """Sums over the units of each case."""

    @property
    def right(self) -> Bools:
        """Which verdicts equal their label, (units,)."""
        return np.asarray(self.codes == self.truth)

    @property
    def read(self) -> Bools:
        """Which labeled units have a verdict that the label could equal, (units,)."""
        return self.labeled & self.present

    @property
    def unread(self) -> Bools:
        """Which labeled units have no verdict, (units,)."""
        return self.labeled & self.missing

    def confusion(self, codes: Sequence[int]) -> Confusion:
        """Return the confusion matrix of labels and verdicts over these codes."""
        return Confusion.of(
            self.tally, self.truth, self.codes, self.read, self.unread, codes
        )


@frozen
class PairColumns:
    """Every pair of responses of every case, ordered by case and then by response.

    Attributes:
        case: (pairs,) the index of its case.
        i: (pairs,) the index of its first response in the case.
        j: (pairs,) the index of its second response, greater than `i`.
        label: (pairs,) the label, A, TIE or B, or the code NONE.
        longer: (pairs,) the response with more characters, A, TIE or B, or the code NONE.
        start: (cases,) the index of each case's first pair.
        sizes: (cases,) the number of responses of each case.
    """

    case: Ints
    i: Ints
    j: Ints
    label: Codes
    longer: Codes
    start: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.case)

    def place(self, case: int, i: int, j: int) -> int:
        """Return the index of the pair (i, j) of a case."""
        n = int(self.sizes[case])
        # Pairs before row i of a triangle of n responses, then the position in the row.
        return int(self.start[case]) + i * n - i * (i + 1) // 2 + (j - i - 1)

    @property
    def labeled(self) -> Bools:
        """Which pairs have a label, (pairs,)."""
        return np.asarray(self.label != NONE)

    def rows(self, judgments: JudgmentColumns) -> Ints:
        """Return the index of each judgment's pair."""
        return self.find(judgments.case, judgments.i, judgments.j)

    def find(self, case: Ints, i: Ints, j: Ints) -> Ints:
        """Return the index of each pair (i, j) of a case, for arrays of the same shape."""
        # The same formula as in `place`, for arrays.
        n = self.sizes[case]
        return np.asarray(self.start[case] + i * n - i * (i + 1) // 2 + (j - i - 1))

    def sides(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a value of each response, (responses,), for the first and the second
        response of each pair.
        """
        # (pairs,) the row of the first response of each pair's case.
        offset = (np.cumsum(self.sizes) - self.sizes)[self.case]
        return values[offset + self.i], values[offset + self.j]

    def differences(self, values: Floats) -> Floats:
        """Return a value of the first response minus that of the second, (pairs,); NaN
        if one is missing.
        """
        first, second = self.sides(values)
        return np.asarray(first - second)


def rows_of(cases: Sequence[Case]) -> tuple[Ints, Ints]:
    """Return the number of responses of each case and the row of its first response, (cases,)."""
    sizes = np.array([len(case.responses) for case in cases], dtype=np.int64)
    return sizes, np.cumsum(sizes) - sizes


def all_pairs(cases: Sequence[Case]) -> PairColumns:
    """Return the pairs of all cases, ordered by case and then by response."""
    sizes, first_rows = rows_of(cases)
    # (cases,) the number of pairs of each case.
    counts = sizes * (sizes - 1) // 2
    # case -> row of its first pair
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)[: len(cases)]
    # number of responses -> indices of its pairs
    triangles = {int(n): np.triu_indices(int(n), 1) for n in np.unique(sizes)}
    nothing = np.zeros(0, np.int64)
    # (pairs,) the position of each pair's first response in its case, and of its second.
    of_first = [triangles[int(n)][0] for n in sizes]
    of_second = [triangles[int(n)][1] for n in sizes]
    i = np.concatenate([nothing, *of_first]).astype(np.int64)
    j = np.concatenate([nothing, *of_second]).astype(np.int64)
    # (pairs,) the case of each pair.
    case = np.repeat(np.arange(len(cases)), counts)
    # pair -> row of its first response, and of its second
    first = first_rows[case] + i
    second = first_rows[case] + j
    # A missing text has no length, so that it is neither longer nor shorter.
    lengths = flat(cases, lambda c: [len(r.text) or np.nan for r in c.responses])
    graded = grades(cases)
    # A higher grade is better: A for the first response; NONE for a missing grade.
    label = sign(graded[first] - graded[second])
    choice, annotator_labels = _choices(cases)
    # A choice is about the first two responses, and precedes their grades.
    has_choice = (i == 0) & (j == 1) & (choice[case] != NONE)
    label[has_choice] = choice[case[has_choice]]
    pairs = PairColumns(
        case=case,
        i=i,
        j=j,
        label=label,
        longer=sign(lengths[first] - lengths[second]),
        start=start,
        sizes=sizes,
    )
    for number, labels in annotator_labels.items():
        _label_pairs(pairs, number, labels)
    return pairs


def _label_pairs(pairs: PairColumns, case: int, labels: Sequence[Annotation]) -> None:
    """Label the other pairs of a case with the annotators' majority choice, unless
    grades already do.
    """
    votes: dict[Unit, list[Winner]] = {}
    for annotation in labels:
        for unit, winner in choices_in(annotation):
            votes.setdefault(unit, []).append(winner)
    for unit, winners in votes.items():
        # Without a majority, the pair stays without a label.
        most: Winner | None = majority(winners)
        if unit != FIRST and unit[1] < pairs.sizes[case] and most is not None:
            row = pairs.place(case, *unit)
            if pairs.label[row] == NONE:
                pairs.label[row] = CODES[most]


def _choices(cases: Sequence[Case]) -> tuple[Codes, dict[int, list[Annotation]]]:
    """Return each case's label of its first pair, and the annotations that label other
    pairs, by case index.
    """
    codes = []
    annotator_labels = {}
    for number, case in enumerate(cases):
        codes.append(CODES[case.label])
        if case.labels and any(
            isinstance(labels, Mapping) for labels in case.labels.values()
        ):
            annotator_labels[number] = list(case.labels.values())
    return np.array(codes, dtype=np.int8), annotator_labels


def flat(cases: Sequence[Case], read: Callable[[Case], Sequence[float]]) -> Floats:
    """Return one number for each response of each case, in order."""
    return np.fromiter(
        chain.from_iterable(read(case) for case in cases), dtype=np.float64
    )


def system_codes(cases: Sequence[Case]) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the systems that wrote responses, and each response's system
    as an index, -1 if unknown.

    Names are as metrics have them: invisible characters are replaced by their codes.
    """
    systems = [response.model or "" for case in cases for response in case.responses]
    names = visible_names(sorted({*systems} - {""}))
    codes = {name: code for code, name in enumerate(names)}
    # -1 for responses without a model.
    return tuple(names.values()), np.array(
        [codes.get(name, -1) for name in systems], dtype=np.int64
    )


def grades(cases: Sequence[Case]) -> Floats:
    """Return the annotators' grade of each response, NaN without a grade."""
    return flat(
        cases, lambda c: [np.nan if r.grade is None else r.grade for r in c.responses]
    )


@frozen
class PassColumns:
    """The result of each order of each pair, with samples combined.

    Order 0 is the unit's own order.

    Attributes:
        winner: (pairs, 2) the winner, or the code NONE. `tie.threshold` applies to pairs, not to
            passes.
        margin: (pairs, 2) the margin in [-1, 1], positive for the unit's first response; NaN if
            missing.
        confidence: (pairs, 2) the probability that the winner is correct; NaN if unstated.
        asked: (pairs, 2) whether the order was requested.
        both: whether both orders of every pair were to be judged.
        third: (pairs,) the winner of the third judgment of a pair whose orders disagree, or the
            code NONE.
        third_margin: (pairs,) the margin of the third judgment, NaN if there is none.
        third_confidence: (pairs,) its confidence, likewise.
    """

    winner: Codes
    margin: Floats
    confidence: Floats
    asked: Bools
    third: Codes
    third_margin: Floats
    third_confidence: Floats
    both: bool = False

    @classmethod
    def of(cls, margin: Floats, confidence: Floats, asked: Bools) -> PassColumns:
        """Return the passes with the winners of their margins, without third judgments."""
        unknown = np.full(len(margin), np.nan)
        return cls(
            sign(margin), margin, confidence, asked, sign(unknown), unknown, unknown
        )

    @property
    def read(self) -> Bools:
        """Which passes have a winner or a tie, (pairs, 2)."""
        return np.asarray(self.winner != NONE)

    @property
    def complete(self) -> Bools:
        """Which pairs have both passes, (pairs,)."""
        return np.asarray(self.read.all(axis=1))

    @property
    def differ(self) -> Bools:
        """Which pairs have two passes with different winners, (pairs,)."""
        return np.asarray(self.complete & (self.winner[:, 0] != self.winner[:, 1]))


@frozen
class ScoreColumns:
    """One row for each response of each case, in order; NaN if missing.

    Attributes:
        case: (responses,) the index of its case.
        index: (responses,) its index in the case.
        raw: (responses,) its score in scale units, samples combined.
        score: (responses,) the score after `scoring.normalize` and `scoring.length_control`.
        confidence: (responses,) the mean stated confidence.
        grade: (responses,) the annotators' grade.
        offset: (cases,) the row of each case's first response.
    """

    case: Ints
    index: Ints
    raw: Floats
    score: Floats
    confidence: Floats
    grade: Floats
    offset: Ints

    @property
    def tally(self) -> Tally:
        """Sums over the responses of each case."""
        return Tally(self.case, len(self.offset))

    def off_scale(self, scale: Scale) -> str:
        """Return why grades cannot be compared with scores on a scale; empty if they can."""
        if scale.real:
            return NO_SCALE
        grades = self.grade[np.isfinite(self.grade)]
        if not ((scale.min <= grades) & (grades <= scale.max)).all():
            return f"grades are not on the judge's scale, {scale.name()}"
        return self._describe_unlike_units(scale)

    def _describe_unlike_units(self, scale: Scale) -> str:
        """Return that grades and scores use different parts of the scale, as if their
        units differed; or nothing.

        Grades from 1 to 5 lie on a scale from 0 to 100, and mean nothing there. It shows if one of
        both uses less than half of the scale, and the other grows by far more or less than it.
        """
        both = np.isfinite(self.grade) & np.isfinite(self.raw)
        # A few pairs of grade and score cannot show how both grow.
        if both.sum() < FEW:
            return ""
        grades = self.grade[both]
        scores = self.raw[both]
        grade_range = float(np.ptp(grades))
        score_range = float(np.ptp(scores))
        if not grade_range:
            return ""
        # (n,) grades around their mean; the slope is that of scores on grades, without its sign.
        centered = grades - grades.mean()
        slope = abs(float(centered @ scores) / float(centered @ centered))
        # Grades use a part of the scale, and scores grow faster than grades.
        wider = (
            grade_range <= NARROW * scale.span
            and score_range >= WIDE * scale.span
            and slope >= STEEP
        )
        # Scores use a part of the range of grades, and hardly grow with them.
        narrower = (
            grade_range >= WIDE * scale.span
            and score_range <= TINY * grade_range
            and slope <= TINY
        )
        if not (wider or narrower):
            return ""
        return (
            f"{UNITS}: grades from {grades.min():g} to {grades.max():g}, scores from"
            f" {scores.min():g} to {scores.max():g}"
        )


@frozen
class VerdictColumns(Units):
    """The verdicts of one judge or a panel; metrics are computed from them.

    There is one row for each pair of responses of a case. Cases with one response have none: their
    scores are in `scores`.

    Attributes:
        pairs: every pair of responses of every case, with its label.
        lean: (pairs,) the winner before the tie rules, or the code NONE.
        winner: (pairs,) the winner after the tie rules.
        reason: (pairs,) the reason, an index into `REASONS`.
        margin: (pairs,) the margin in units of `tie.threshold`; NaN if missing.
        confidence: (pairs,) the probability that the winner is correct; NaN if unstated.
        settle: (pairs,) the margin that decides if ties are forbidden.
        surer: (pairs,) the winner of the more confident pass.
        judgments: the judgments behind the verdicts: of pairs, or in mode pointwise of single
            responses.
        passes: the result of each order; `None` if the verdicts are implied by scores.
        scores: the score of each response; `None` if only pairs were judged.
        ranks: the scores of single responses implied by rankings; `None` without rankings.
        panel: the name of the panel that voted; `None` for a single judge.
    """

    pairs: PairColumns
    lean: Codes
    winner: Codes
    reason: Codes
    margin: Floats
    confidence: Floats
    settle: Floats
    surer: Codes
    judgments: JudgmentColumns
    passes: PassColumns | None = None
    scores: ScoreColumns | None = None
    ranks: JudgmentColumns | None = None
    panel: str | None = None

    @property
    def judge(self) -> str:
        """The name of the judge, or of the panel."""
        if self.panel is None:
            return "".join(self.judgments.by)
        return self.panel

    @property
    def codes(self) -> Codes:
        """The winners, (pairs,)."""
        return self.winner

    @property
    def truth(self) -> Codes:
        """The labels, (pairs,)."""
        return self.pairs.label

    @property
    def present(self) -> Bools:
        """Which pairs have a verdict, (pairs,)."""
        return np.asarray(self.winner != NONE)

    @property
    def withheld(self) -> Bools:
        """Which pairs have no verdict by decision: a cascade abstains, (pairs,)."""
        return np.asarray(self.reason == ABSTENTION)

    @property
    def missing(self) -> Bools:
        """Which pairs should have a verdict and have none, (pairs,)."""
        return ~self.present & ~self.withheld

    @property
    def labeled(self) -> Bools:
        """Which pairs have a label, (pairs,)."""
        return self.pairs.labeled

    @property
    def listed(self) -> bool:
        """Whether rankings were judged."""
        return self.ranks is not None

    @property
    def tally(self) -> Tally:
        """Sums over the pairs of each case."""
        return Tally(self.pairs.case, len(self.pairs.sizes))


@frozen
class ClassColumns(Units):
    """The class verdicts of one judge or a panel, one row for each response of each
    case, in case order.

    Attributes:
        names: the classes, in the order of the config.
        ordered: whether the classes are ordered, lowest first.
        positive: the index of the positive class; `None` if the config has none.
        case: (n,) the index of each row's case.
        index: (n,) the index of its response in the case.
        cases: the number of cases.
        verdicts: (n,) the class of the verdict, or MISSING, ABSTAINED or SPLIT.
        labels: (n,) the class of the label, or MISSING.
        annotators: by name, (n,) the class that the annotator gave, or MISSING.
        probabilities: (n, classes) the probability of each class, summing to 1 in each row; NaN in
            rows without probabilities. `None` if no row has them.
        abstain: the name of the answer that declines to choose; `None` if the judge may not
            abstain.
        judge: the name of the judge or the panel.
        votes: (n,) the verdicts of each judge of a panel, by name.
        confidence: (n,) how sure the judge says it is of the verdict, NaN if unstated; `None` if no
            row has it.
    """

    names: tuple[str, ...]
    ordered: bool
    positive: int | None
    case: Ints
    index: Ints
    cases: int
    verdicts: Ints
    labels: Ints
    annotators: Mapping[str, Ints] = field(default_factory=dict)
    probabilities: Floats | None = None
    abstain: str | None = None
    judge: str = ""
    votes: Mapping[str, Ints] = field(default_factory=dict)
    confidence: Floats | None = None

    def __len__(self) -> int:
        return len(self.verdicts)

    @property
    def codes(self) -> Ints:
        """The class of each verdict, (n,)."""
        return self.verdicts

    @property
    def truth(self) -> Ints:
        """The class of each label, (n,)."""
        return self.labels

    @property
    def present(self) -> Bools:
        """Which rows have a class, neither missing nor abstained, (n,)."""
        return np.asarray(self.verdicts >= 0)

    @property
    def missing(self) -> Bools:
        """Which rows have no verdict, (n,)."""
        return np.asarray(self.verdicts == UNCLASSED)

    @property
    def abstained(self) -> Bools:
        """Which rows have an abstention, (n,)."""
        return np.asarray(self.verdicts == ABSTAINED)

    @property
    def split(self) -> Bools:
        """Which rows have answers that contradict each other, (n,)."""
        return np.asarray(self.verdicts == SPLIT_CLASS)

    @property
    def withheld(self) -> Bools:
        """Which rows have answers, but no class, (n,)."""
        return self.abstained | self.split

    @property
    def labeled(self) -> Bools:
        """Which rows have a label, (n,)."""
        return np.asarray(self.labels >= 0)

    @property
    def tally(self) -> Tally:
        """Sums over the rows of each case."""
        return Tally(self.case, self.cases)

    @property
    def chances(self) -> Floats:
        """The probabilities, (n, classes); NaN in rows without."""
        unknown = np.full((len(self), len(self.names)), np.nan)
        if self.probabilities is None:
            return unknown
        return self.probabilities

    def with_verdicts(
        self,
        judge: str,
        verdicts: Ints,
        chances: Floats,
        votes: Mapping[str, Ints] = MappingProxyType({}),
    ) -> ClassColumns:
        """Return the same responses with the verdicts and probabilities of a judge, and
        the votes of its judges.
        """
        # A judge without any probabilities has no column of them.
        known_chances = chances if np.isfinite(chances).any() else None
        return replace(
            self,
            judge=judge,
            verdicts=verdicts,
            probabilities=known_chances,
            votes=votes,
        )

    def rows(self, judgments: JudgmentColumns) -> Ints:
        """Return the row of each judgment's response."""
        # Rows are sorted by case: the first row of the case plus the index of the response.
        return np.asarray(np.searchsorted(self.case, judgments.case) + judgments.i)
