"""Class verdicts: samples vote for each judge, then judges vote for a panel.

The most frequent answer wins. An abstention is one of the answers that are counted, so an
abstention by all is an abstention. Several most frequent answers are a split: no class, never the
first one, and not a missing answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evalkit.core.annotations import annotation_classes
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Classes
from evalkit.core.types import Case
from evalkit.scoring.columns import ClassColumns, rows_of
from evalkit.scoring.judgments import (
    ABSTAINED,
    MISSING,
    SPLIT,
    JudgmentColumns,
    of_one_judge,
)
from evalkit.scoring.stats.arrays import FUZZ, Floats, Ints, group_mean
from evalkit.scoring.verdicts.panel import Panel


def labeled_responses(classes: Classes, cases: Sequence[Case]) -> ClassColumns:
    """Return every response of every case, in order, with the annotators' classes and
    without verdicts.

    Raises:
        ConfigError: if a label is not one of the classes.
    """
    codes: dict[str | None, int] = {
        name: code for code, name in enumerate(classes.names)
    } | {None: MISSING}
    sizes, first = rows_of(cases)
    # response -> its case
    row = np.repeat(np.arange(len(cases)), sizes)
    missing = np.full(len(row), MISSING, dtype=np.int64)
    labels = missing.copy()
    annotators = dict[str, Ints]()
    # the first row of the case
    at = 0
    for case in cases:
        end = at + len(case.responses)
        labels[at:end] = [
            _code(codes, response.class_name, case) for response in case.responses
        ]
        for name, annotation in case.labels.items():
            for position, class_name in enumerate(annotation_classes(annotation), at):
                annotators.setdefault(name, missing.copy())[position] = _code(
                    codes, class_name, case
                )
        at = end
    return ClassColumns(
        names=classes.names,
        ordered=classes.ordered,
        positive=None
        if classes.positive is None
        else classes.names.index(classes.positive),
        case=row,
        index=np.arange(len(row)) - first[row],
        cases=len(cases),
        verdicts=missing,
        labels=labels,
        annotators=annotators,
        abstain=classes.abstain,
    )


def _code(codes: Mapping[str | None, int], name: str | None, case: Case) -> int:
    if name not in codes:
        class_names = ", ".join(
            class_name for class_name in codes if class_name is not None
        )
        problem = f"the label '{name}' is not one of the classes {class_names}"
        remedy = "use the rubric of the run"
        raise ConfigError(problem, where=f"case '{case.id}'", remedy=remedy)
    return codes[name]


def vote_samples(
    responses: ClassColumns, cases: Sequence[Case], judgments: JudgmentColumns
) -> ClassColumns:
    """Return one judge's class of each response: the vote of its readable samples.

    Raises:
        ConfigError: if the judgments do not belong to the cases.
    """
    judged = of_one_judge(cases, judgments, rows_of(cases)[0], 1)
    assert judged.choice is not None  # read with the classes
    assert judged.chances is not None
    size = len(responses)
    width = len(responses.names)
    # judgment -> its response
    response = responses.rows(judged)
    # shape (responses, classes + 1): the votes; abstentions are in the last column
    counts = np.zeros((size, width + 1))
    voted = judged.readable & (judged.choice != MISSING)
    np.add.at(counts, (response[voted], _column(judged.choice[voted], width)), 1.0)
    # shape (responses, classes)
    chances = np.stack(
        [
            group_mean(response, np.where(voted, column, np.nan), size)
            for column in judged.chances.T
        ],
        axis=1,
    )
    verdicts = elect(counts)
    # The confidence of the samples that gave the class that won.
    won = voted & (judged.choice == verdicts[response])
    stated = np.where(won, judged.confidence, np.nan)
    columns = responses.with_verdicts("".join(judged.by), verdicts, chances)
    if not np.isfinite(stated).any():
        return columns
    return replace(columns, confidence=group_mean(response, stated, size))


def vote_panel(
    responses: ClassColumns,
    panel: Panel,
    name: str,
    judge_verdicts: Sequence[ClassColumns],
) -> ClassColumns:
    """Return a panel's class of each response: the vote of its judges that chose a
    class or abstained.

    A judge whose samples are split has no vote. If this leaves fewer votes than the quorum, the
    panel is split too.
    """
    # shape (judges, responses)
    votes = np.stack([columns.verdicts for columns in judge_verdicts])
    width = len(responses.names)
    answered = votes != MISSING
    voted = answered & (votes != SPLIT)
    weights = np.where(voted, panel.weights, 0.0)
    verdicts = elect(
        panel.counts(votes, (*range(width), ABSTAINED)).T
        * panel.has_quorum(voted)[:, None]
    )
    verdicts[(verdicts == MISSING) & panel.has_quorum(answered)] = SPLIT
    chances = _mean_chances(
        np.stack([columns.chances for columns in judge_verdicts]), weights
    )
    judges = {
        judge: columns.verdicts
        for judge, columns in zip(panel.names, judge_verdicts, strict=True)
    }
    return responses.with_verdicts(name, verdicts, chances, judges)


def elect(counts: Floats) -> Ints:
    """Return the winner of each row of votes, SPLIT where several lead, and MISSING
    where there are none.

    Args:
        counts: (n, classes + 1) the votes for each class, and in the last column for the
            abstention.
    """
    most = counts.max(axis=1, initial=0.0)
    leads = (counts >= most[:, None] - FUZZ) & (counts > 0)
    number = leads.sum(axis=1)
    first = np.argmax(leads, axis=1)
    winner = np.where(first == counts.shape[1] - 1, ABSTAINED, first)
    return np.select([number == 1, number > 1], [winner, SPLIT], MISSING).astype(
        np.int64
    )


def _column(codes: Ints, width: int) -> Ints:
    return np.where(codes == ABSTAINED, width, codes)


def _mean_chances(chances: Floats, weights: Floats) -> Floats:
    """Return the weighted mean over the judges (judges, n, classes) that have
    probabilities and a vote.
    """
    # shape (judges, n, classes)
    known_weights = np.where(np.isfinite(chances), weights[:, :, None], 0.0)
    total = known_weights.sum(axis=0)
    sums = (known_weights * np.nan_to_num(chances)).sum(axis=0)
    return np.asarray(
        np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0)
    )
