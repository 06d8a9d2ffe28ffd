"""Class verdicts: samples vote for each judge, then judges vote for a panel.

The most frequent answer wins. An abstention is one of the answers that are counted, so an abstention by all is an
abstention. Several most frequent answers are a split: no class, never the first one, and not a missing answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.annotations import annotation_classes
from evalkit.core.classes import Classes
from evalkit.core.spool import LazySequence
from evalkit.errors import ConfigError
from evalkit.scoring.columns import ABSTENTION, JUDGED, REASONS
from evalkit.scoring.columns import MISSING as MISSING_REASON
from evalkit.scoring.columns import SPLIT as SPLIT_REASON
from evalkit.scoring.judgments import ABSTAINED, MISSING, SPLIT, ClassColumns, JudgmentColumns, of_one_judge
from evalkit.scoring.stats.arrays import FUZZ, Codes, Floats, Ints, group_mean, round_metric
from evalkit.scoring.verdicts.panel import Panel
from evalkit.types import Case, Verdict


@dataclass(frozen=True, slots=True)
class ClassVerdicts:
    """The class verdicts of one judge or a panel.

    Attributes:
        columns: the verdicts, with labels.
        judge: the name of the judge or the panel.
        votes: (n,) the verdicts of each judge of a panel, by name.
    """

    columns: ClassColumns
    judge: str
    votes: Mapping[str, Ints] = field(default_factory=dict)

    @property
    def reason(self) -> Codes:
        """The reason of each verdict, an index into `REASONS`, (n,)."""
        columns = self.columns
        rows, reasons = (columns.split, columns.abstained, columns.missing), (SPLIT_REASON, ABSTENTION, MISSING_REASON)
        return np.select(rows, reasons, JUDGED).astype(np.int8)


@dataclass(frozen=True, slots=True)
class LabeledResponses:
    """Every response of every case, in order, with the annotators' classes as codes."""

    classes: Classes
    case: Ints
    index: Ints
    offset: Ints
    labels: Ints
    annotators: Mapping[str, Ints]

    @classmethod
    def of(cls, classes: Classes, cases: Sequence[Case]) -> LabeledResponses:
        """Return the responses of the cases.

        Raises:
            ConfigError: if a label is not one of the classes.
        """
        codes: dict[str | None, int] = {name: code for code, name in enumerate(classes.names)} | {None: MISSING}
        sizes = np.array([len(case.responses) for case in cases], dtype=np.int64)
        offset = np.cumsum(sizes) - sizes
        row = np.repeat(np.arange(len(cases)), sizes)
        labels, annotators, at = np.full(len(row), MISSING, dtype=np.int64), dict[str, Ints](), 0
        for case in cases:
            for response in case.responses:
                labels[at] = _code(codes, response.class_name, case)
                at += 1
            for name, annotation in case.labels.items():
                for place, given in enumerate(annotation_classes(annotation), at - len(case.responses)):
                    if name not in annotators:
                        annotators[name] = np.full(len(row), MISSING, dtype=np.int64)
                    annotators[name][place] = _code(codes, given, case)
        return cls(classes, row, np.arange(len(row)) - offset[row], offset, labels, annotators)

    def columns(self, verdicts: Ints, probabilities: Floats) -> ClassColumns:
        """Return verdicts on these responses as columns."""
        classes = self.classes
        return ClassColumns(
            names=classes.names,
            ordered=classes.ordered,
            positive=None if classes.positive is None else classes.names.index(classes.positive),
            case=self.case,
            index=self.index,
            cases=len(self.offset),
            verdicts=verdicts,
            labels=self.labels,
            annotators=self.annotators,
            probabilities=probabilities if np.isfinite(probabilities).any() else None,
            abstain=classes.abstain,
        )


def _code(codes: Mapping[str | None, int], name: str | None, case: Case) -> int:
    if name not in codes:
        known = ", ".join(one for one in codes if one is not None)
        what, remedy = f"the label '{name}' is not one of the classes {known}", "use the rubric of the run"
        raise ConfigError(what, where=f"case '{case.id}'", remedy=remedy)
    return codes[name]


def vote_samples(responses: LabeledResponses, cases: Sequence[Case], judgments: JudgmentColumns) -> ClassVerdicts:
    """Return one judge's class of each response: the vote of its readable samples.

    Raises:
        ConfigError: if the judgments do not belong to the cases.
    """
    sizes = np.array([len(case.responses) for case in cases], dtype=np.int64)
    own = of_one_judge(cases, judgments, sizes, 1)
    assert own.choice is not None  # read with the classes
    assert own.chances is not None
    place, width = responses.offset[own.case] + own.i, len(responses.classes)
    counts = np.zeros((len(responses.case), width + 1))
    voted = own.readable & (own.choice != MISSING)
    np.add.at(counts, (place[voted], _column(own.choice[voted], width)), 1.0)
    size = len(responses.case)
    chances = np.stack([group_mean(place, np.where(voted, one, np.nan), size) for one in own.chances.T], axis=1)
    return ClassVerdicts(responses.columns(elect(counts), chances), "".join(own.by))


def vote_panel(responses: LabeledResponses, panel: Panel, name: str, each: Sequence[ClassVerdicts]) -> ClassVerdicts:
    """Return a panel's class of each response: the vote of its judges that chose a class or abstained.

    A judge whose samples are split has no vote. If this leaves fewer votes than the quorum, the panel is split too.
    """
    votes, width = np.stack([one.columns.verdicts for one in each]), len(responses.classes)
    answered = votes != MISSING
    voted = answered & (votes != SPLIT)
    weights = np.where(voted, panel.weights, 0.0)
    counts = np.zeros((votes.shape[1], width + 1))
    rows = np.broadcast_to(np.arange(votes.shape[1]), votes.shape)
    np.add.at(counts, (rows[voted], _column(votes[voted], width)), weights[voted])
    counts[~panel.has_quorum(voted)] = 0.0
    verdicts = elect(counts)
    verdicts[(verdicts == MISSING) & panel.has_quorum(answered)] = SPLIT
    unknown = np.full((votes.shape[1], width), np.nan)
    given = [unknown if one.columns.probabilities is None else one.columns.probabilities for one in each]
    chances = _mean_chances(np.stack(given), weights)
    judges = {judge: one.columns.verdicts for judge, one in zip(panel.names, each, strict=True)}
    return ClassVerdicts(responses.columns(verdicts, chances), name, judges)


def elect(counts: Floats) -> Ints:
    """Return the winner of each row of votes, SPLIT where several lead, and MISSING where there are none.

    Args:
        counts: (n, classes + 1) the votes for each class, and in the last column for the abstention.
    """
    most = counts.max(axis=1, initial=0.0)
    leads = (counts >= most[:, None] - FUZZ) & (counts > 0)
    number = leads.sum(axis=1)
    first = np.argmax(leads, axis=1)
    winner = np.where(first == counts.shape[1] - 1, ABSTAINED, first)
    return np.select([number == 1, number > 1], [winner, SPLIT], MISSING).astype(np.int64)


def _column(codes: Ints, width: int) -> Ints:
    return np.where(codes == ABSTAINED, width, codes)


def _mean_chances(chances: Floats, weights: Floats) -> Floats:
    """Return the weighted mean over the judges (judges, n, classes) that have probabilities and a vote."""
    known = np.where(np.isfinite(chances), weights[:, :, None], 0.0)
    total = known.sum(axis=0)
    sums = (known * np.nan_to_num(chances)).sum(axis=0)
    return np.asarray(np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0))


class ClassVerdictObjects(LazySequence[Verdict]):
    """One Verdict for each response, in order; each is created when it is accessed."""

    def __init__(self, cases: Sequence[Case], verdicts: ClassVerdicts) -> None:
        self._ids = [case.id for case in cases]
        self._verdicts, self._reason = verdicts, verdicts.reason

    def __len__(self) -> int:
        return len(self._verdicts.columns)

    def _make(self, place: int) -> Verdict:
        columns = self._verdicts.columns
        code, chances = int(columns.verdicts[place]), columns.probabilities
        return Verdict(
            case_id=self._ids[columns.case[place]],
            unit=(int(columns.index[place]),),
            winner=None,
            score=None,
            reason=REASONS[self._reason[place]],
            confidence=None if chances is None or code < 0 else round_metric(chances[place, code]),
            label=self._name(columns.labels[place]),
            judge=self._verdicts.judge,
            votes={judge: self._vote(cast[place]) for judge, cast in self._verdicts.votes.items()},
            class_name=self._name(code),
        )

    def _name(self, code: int) -> str | None:
        return self._verdicts.columns.names[code] if code >= 0 else None

    def _vote(self, code: int) -> str | None:
        return self._verdicts.columns.abstain if code == ABSTAINED else self._name(code)


def class_verdicts(
    config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns, names: Sequence[str], members: Sequence[str]
) -> tuple[ClassVerdicts, dict[str, ClassVerdicts]]:
    """Return the verdicts of the judge or the panel, and those of each judge of a panel.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: their judgments.
        names: the judges that judged.
        members: the judges that were to judge.
    """
    responses = LabeledResponses.of(Classes.of(config.rubric), cases)
    if max(len(names), len(members)) <= 1 or not names:
        return vote_samples(responses, cases, judgments), {}
    each = {name: vote_samples(responses, cases, judgments.select(name)) for name in names}
    panel = Panel.of(config, members, names)
    return vote_panel(responses, panel, config.judge.label, list(each.values())), each
