"""What a decision reads besides agreement: leans beyond the labels, and rates over the
labeled units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Metric
from evalkit.scoring.columns import (
    NONE,
    TIE,
    A,
    B,
    ClassColumns,
    ScoreColumns,
    Units,
    VerdictColumns,
    flat,
    system_codes,
)
from evalkit.scoring.decision import (
    BOTTOM,
    CEILING,
    CONSTANT_AFTER,
    DISPUTED,
    FEW,
    IDENTICAL,
    LABEL_RATE,
    LABELED_GAP,
    LEAN,
    LENGTH_CORRELATION,
    MISSING_GAP,
    ORDER_AGREEMENT,
    RIGHT,
    SAME_SIDES,
    SAME_TOOL,
    SPLIT,
    TIES,
    WRONG,
)
from evalkit.scoring.metrics.classes import SHARE
from evalkit.scoring.metrics.correlation import spearman_statistic
from evalkit.scoring.stats.arrays import (
    FUZZ,
    Bools,
    Floats,
    Ints,
    divide,
    round_metric,
)
from evalkit.scoring.stats.statistic import Statistic, Tally, ratio, weighted_sum
from evalkit.scoring.verdicts.checklists import MET, ItemColumns

MOST_SYSTEMS = 30
"""At most this many systems have a lean: those with most labels."""
UNLABELED = "no verdict has a label"


def decision_statistics(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
) -> Iterator[Statistic]:
    """Yield the agreement of orders and the leans of a judge or a panel that compares or scores."""
    # Order by order only for pairs that were compared.
    if verdicts.passes is not None:
        yield _order_agreement(verdicts, verdicts.tally)
    yield from _pair_leans(cases, verdicts)
    if verdicts.passes is None and verdicts.scores is not None:
        yield from _score_leans(config, cases, verdicts)
    # Scores without a label of a winner have no rates of right and wrong.
    if verdicts.passes is not None or _named(verdicts).any():
        same_sides = _sides_are_systems(cases, verdicts)
        for statistic in _labeled_rates(verdicts):
            if same_sides and statistic.name == f"{LABEL_RATE}a":
                yield replace(statistic, note=SAME_SIDES)
            else:
                yield statistic


def class_decision_statistics(classes: ClassColumns) -> Iterator[Statistic]:
    """Yield the lean of a judge to each class, the rate of each by labels, and what is
    missing or split.
    """
    for code, name in enumerate(classes.names):
        yield _lean_to(classes, f"class/{name}", code)
    if not classes.labeled.any():
        return
    for code, name in enumerate(classes.names):
        yield _label_rate(classes, f"class/{name}", classes.truth == code)
    yield from _labeled_rates(classes)
    split = classes.labeled & classes.split
    if split.any():
        yield classes.tally.rate(SPLIT, split, classes.labeled, pseudo=SHARE)


def item_decision_statistics(items: ItemColumns) -> Iterator[Statistic]:
    """Yield the lean of a checklist's judge to `met`, the rate of it by labels, and
    what is missing.
    """
    if not items.labeled.any():
        return
    yield _lean_to(items, "met", MET)
    yield _label_rate(items, "met", items.truth == MET)
    yield from _labeled_rates(items)


def _lean_to(units: Units, name: str, code: int) -> Statistic:
    """Return how much more often verdicts have a code than labels do."""
    return _lean(
        name,
        # 1.0 times booleans: a lean is a difference of means.
        1.0 * (units.codes == code),
        1.0 * (units.truth == code),
        units.read,
        units.unread,
        units.labeled,
        units.tally,
    )


def _sides_are_systems(cases: Sequence[Case], verdicts: VerdictColumns) -> bool:
    """Return whether all labels name one side, and that side and the other are the same
    systems in each pair.
    """
    labeled = _named(verdicts)
    if labeled.sum() < FEW or len(np.unique(verdicts.truth[labeled])) > 1:
        return False
    _, system = system_codes(cases)
    for codes in verdicts.pairs.sides(system):
        names = np.unique(codes[labeled])
        # A code of -1 is of an unknown system.
        if len(names) != 1 or names[0] < 0:
            return False
    return True


def _named(verdicts: VerdictColumns) -> Bools:
    """Return which pairs have a label that names a winner."""
    return np.asarray(verdicts.labeled & (verdicts.truth != TIE))


def _label_rate(units: Units, name: str, hit: Bools) -> Statistic:
    """Return how often the labels have a code, over all labeled units."""
    return units.tally.rate(f"{LABEL_RATE}{name}", hit & units.labeled, units.labeled)


def _labeled_rates(units: Units) -> Iterator[Statistic]:
    """Yield shares whose denominator is all labeled units, where some of them have no verdict.

    A labeled unit without a verdict is not right, and not wrong either. Units without a label are
    where the judge is used, so their share of missing answers is compared with the labeled ones'.
    """
    labeled = units.labeled
    if isinstance(units, VerdictColumns):
        yield _label_rate_of_pairs(units)
    # If all labeled units have a verdict, these rates say no more than accuracy.
    if labeled.any() and not np.array_equal(units.read, labeled):
        yield units.tally.rate(RIGHT, units.right & units.read, labeled)
        yield units.tally.rate(WRONG, ~units.right & units.read, labeled)
    yield from _labeled_gap(units)
    missing = units.missing
    unlabeled = ~labeled
    # Both groups must be large enough for their difference to mean something.
    if labeled.sum() >= FEW and unlabeled.sum() >= FEW and missing.any():
        parts = [
            units.tally.rate(MISSING_GAP, missing & rows, rows)
            # Unlabeled first: above 0, more answers are missing where the judge is used.
            for rows in (unlabeled, labeled)
        ]
        yield weighted_sum(
            MISSING_GAP, parts, (1.0, -1.0), n=int(labeled.sum()), worst=(None, None)
        )


def _labeled_gap(units: Units) -> Iterator[Statistic]:
    """Yield how much more often units with a label have a verdict than those without,
    of the verdict that differs most.

    Labels of a random sample are not chosen by the verdict.
    """
    answered = units.codes != NONE
    labeled = units.labeled & answered
    others = ~units.labeled & answered
    if min(labeled.sum(), others.sum()) < FEW:
        return
    gaps = []
    for code in np.unique(units.codes[answered]):
        hits = units.codes == code
        gaps.append((abs(hits[labeled].mean() - hits[others].mean()), hits))
    _, hits = max(gaps, key=lambda gap: gap[0])
    parts = [
        units.tally.rate(LABELED_GAP, hits & rows, rows) for rows in (labeled, others)
    ]
    yield weighted_sum(
        LABELED_GAP, parts, (1.0, -1.0), n=int(labeled.sum()), worst=(None, None)
    )


def _label_rate_of_pairs(verdicts: VerdictColumns) -> Statistic:
    """Return how often labels name A, among those that name a winner."""
    named = _named(verdicts)
    return verdicts.tally.rate(f"{LABEL_RATE}a", (verdicts.truth == A) & named, named)


def _order_agreement(verdicts: VerdictColumns, tally: Tally) -> Statistic:
    """Return how much more often both orders name the same winner than for a judge that
    ignores the responses.

    Such a judge chooses the response shown first, the second or a tie with fixed probabilities
    (Scott 1955, Public Opin. Q. 19, 321-325).
    """
    passes = verdicts.passes
    assert passes is not None, "only passes have orders"
    complete = passes.complete
    # shape (pairs, orders)
    # [winner of the unit's order, of the swapped one]: turned, 1 is the response shown first.
    by_position = passes.winner * np.array(
        [1, -1], dtype=np.int8
    )  # the response shown first is 1
    # (pairs,) the share of the two orders with each code; 0 for incomplete pairs.
    shares = [
        np.where(complete, (by_position == code).mean(axis=1), 0.0)
        for code in (A, B, TIE)
    ]
    return Statistic(
        ORDER_AGREEMENT,
        # Columns 0 and 1: agreeing pairs and complete pairs; 2 to 4: first, second and tie.
        tally.columns(complete & ~passes.differ, complete, *shares),
        _beyond_chance,
        n=int(complete.sum()),
        missing=int((~complete & ~verdicts.withheld).sum()) if passes.both else 0,
        why="all verdicts are ties"
        if complete.any()
        else "no pair was read in both orders",
    )


def _beyond_chance(totals: Floats) -> Floats:
    # Shares of all complete pairs.
    first, second, tie = (ratio(k, 1, totals) for k in (2, 3, 4))
    # Both orders name the same winner by chance: first then second, second then first,
    # or two ties.
    expected = 2 * first * second + tie**2
    return divide(
        ratio(0, 1, totals) - expected,
        # Chance of 1: all verdicts are ties, and nothing is beyond chance.
        np.where(expected < 1 - 1e-12, 1 - expected, 0.0),
    )


def _lean(
    name: str,
    verdict: Floats,
    label: Floats,
    read: Bools,
    unread: Bools,
    labeled: Bools,
    tally: Tally,
    why: str = UNLABELED,
) -> Statistic:
    """Return the rate by verdicts over answered units minus the rate by labels over all
    labeled units.

    A user of the verdicts sees only the answered ones. If whether an answer is missing depends on
    what the answer would be, the rate over them is off, although each verdict may be right.

    Args:
        name: the rate that it is about.
        verdict: (rows,) the verdicts, from 0 to 1.
        label: (rows,) the labels, from 0 to 1.
        read: (rows,) which labeled rows have a verdict.
        unread: (rows,) which labeled rows should have a verdict and have none.
        labeled: (rows,) which rows have a label.
        tally: the case of each row.
        why: why there is no value, if no row counts.
    """
    # No labeled unit lacks a verdict: a paired difference, which is more precise.
    if np.array_equal(read, labeled):
        return tally.mean(
            f"{LEAN}{name}",
            verdict - label,
            read,
            span=(-1.0, 1.0),
            ends=(-1.0, 1.0),
            why=why,
        )
    judged = np.where(read, verdict, 0.0)
    labels = np.where(labeled, label, 0.0)
    n = int(read.sum())
    lost = int(unread.sum())
    worst: tuple[float | None, float | None] = (None, None)
    if n + lost:
        by_labels = labels.sum() / labeled.sum()
        # Missing verdicts are all 0 at the lower end, and all 1 at the upper one.
        lowest = judged.sum() / (n + lost) - by_labels
        worst = (lowest, lowest + lost / (n + lost))
    return Statistic(
        f"{LEAN}{name}",
        # Columns: verdicts, their number, labels, their number.
        tally.columns(judged, read, labels, labeled),
        _difference_of_means,
        n=n,
        missing=lost,
        worst=worst,
        limits=(-1.0, 1.0),
        # One more unit, answered: a verdict of 1 where the label is 0, or the reverse.
        reach=np.array([[1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]]),
        why=why,
    )


def _difference_of_means(totals: Floats) -> Floats:
    # The rate by verdicts minus the rate by labels.
    return ratio(0, 1, totals) - ratio(2, 3, totals)


def _pair_leans(cases: Sequence[Case], verdicts: VerdictColumns) -> Iterator[Statistic]:
    """Yield the leans to response A, to the longer response and to each system:
    differences of win rates.
    """
    pairs = verdicts.pairs
    tally = verdicts.tally
    # A is 1, a tie 0.5, B 0.
    verdict, label = ((1.0 + codes) / 2 for codes in (verdicts.winner, pairs.label))

    def toward(name: str, sign: Ints) -> Statistic:
        """Return how much more often the judge than the label prefers the side with a property."""
        # `sign` is 1 where the first response has the property, -1 where the second has, else 0.
        has_side = sign != 0
        return _lean(
            name,
            # Turned to the side with the property: 1 if it wins.
            np.where(sign > 0, verdict, 1 - verdict),
            np.where(sign > 0, label, 1 - label),
            verdicts.read & has_side,
            verdicts.unread & has_side,
            verdicts.labeled & has_side,
            tally,
        )

    label_ties = verdicts.labeled & (pairs.label == TIE)
    # Scores that imply a winner have no ties of their own.
    if verdicts.passes is not None and label_ties.any():
        difference = 1.0 * (verdicts.winner == TIE) - (pairs.label == TIE)
        yield tally.mean(
            TIES, difference, verdicts.read, span=(-1.0, 1.0), ends=(-1.0, 1.0)
        )
    # Response A is the first one in every pair.
    yield toward("a", np.ones(len(pairs), dtype=np.int64))
    yield toward(
        "longer", np.where(pairs.longer == NONE, 0, pairs.longer).astype(np.int64)
    )
    names, system = system_codes(cases)
    # (pairs,) the system of each side.
    first, second = pairs.sides(system)
    for name, code in _most_frequent(
        names, np.concatenate([first[pairs.labeled], second[pairs.labeled]])
    ):
        # 1 if the first response is the system's, -1 if the second is, 0 if both or neither.
        yield toward(
            f"system/{name}", (first == code).astype(np.int64) - (second == code)
        )


def _score_leans(
    config: RunConfig, cases: Sequence[Case], verdicts: VerdictColumns
) -> Iterator[Statistic]:
    """Yield the lean of scores, and of each system's scores against those of the
    others, as shares of the scale.
    """
    scored = verdicts.scores
    scale = Scale.of(config.rubric)
    assert scored is not None, "only scores lean on the scale"
    if scale.real:
        return
    # Shares of the scale; NaN becomes 0 in rows that `read` excludes.
    grade = np.nan_to_num((scored.grade - scale.min) / scale.span)
    score = np.nan_to_num((scored.raw - scale.min) / scale.span)
    graded = np.isfinite(scored.grade)
    has_score = np.isfinite(scored.raw)
    off_scale = scored.off_scale(scale)
    labeled = graded & (not off_scale)
    tally = scored.tally
    read = labeled & has_score
    why = off_scale or UNLABELED
    yield _lean("score", score, grade, read, labeled & ~has_score, labeled, tally, why)
    names, system = system_codes(cases)
    for name, code in _most_frequent(names, system[read]):
        means = [
            _lean(name, score, grade, in_system, in_system & False, in_system, tally)
            # The system's own responses, then all others; missing scores are left to
            # the overall lean.
            for in_system in (read & (system == code), read & (system != code))
        ]
        n = means[0].n
        why = "no other system has a label"
        yield weighted_sum(
            f"{LEAN}system/{name}", means, (1.0, -1.0), n=n, worst=(None, None), why=why
        )


def score_decision_statistics(
    responses: ScoreColumns, cases: Sequence[Case], scale: Scale
) -> Iterator[Statistic]:
    """Yield how much more often scores than grades are at each end of the scale, and
    how far scores follow length.

    Args:
        responses: the scores.
        cases: the cases.
        scale: the scale of the rubric.
    """
    has_score = np.isfinite(responses.raw)
    tally = responses.tally
    labeled = has_score & np.isfinite(responses.grade)
    if labeled.any() and not responses.off_scale(scale):
        # Half a level, and at most a twentieth of the scale.
        reach = min(scale.step, scale.span / 10) / 2
        ends = {
            CEILING: (
                responses.raw >= scale.max - reach,
                responses.grade >= scale.max - reach,
            ),
            BOTTOM: (
                responses.raw <= scale.min + reach,
                responses.grade <= scale.min + reach,
            ),
        }
        for name, (score_is_there, grade_is_there) in ends.items():
            # 1 if only the score is at the end, -1 if only the grade is.
            difference = np.asarray(
                1.0 * score_is_there - grade_is_there, dtype=np.float64
            )
            yield tally.mean(
                name, difference, labeled, span=(-1.0, 1.0), ends=(-1.0, 1.0)
            )
    lengths = flat(cases, lambda case: [len(r.text) or np.nan for r in case.responses])
    read = has_score & np.isfinite(lengths)
    if read.sum() >= FEW and np.ptp(lengths[read]):
        followed = spearman_statistic(
            tally.where(read), responses.raw[read], lengths[read]
        )
        yield replace(followed, name=LENGTH_CORRELATION, why="all scores are equal")


def label_source_metrics(
    config: RunConfig,
    cases: Sequence[Case],
    answers: VerdictColumns | ClassColumns | ItemColumns,
) -> Iterator[Metric]:
    """Yield `labels/identical`, the share of verdicts that equal the label, if the
    labels' source is in doubt, and `labels/disputed`.

    It is if not one of `CONSTANT_AFTER` verdicts differs, or if `dataset.label_source` names one.

    Args:
        config: the config of the run.
        cases: the cases.
        answers: the verdicts of the judge or the panel, or the items.
    """
    yield from _disputed(cases)
    source = config.dataset.label_source
    read = answers.read
    equal = answers.right
    # Scores equal their grade, and not only the order of a pair.
    if isinstance(answers, VerdictColumns) and answers.scores is not None:
        scores = answers.scores
        graded = np.isfinite(scores.grade) & np.isfinite(scores.raw)
        if answers.passes is None and graded.any():
            read = graded
            equal = np.abs(scores.raw - np.nan_to_num(scores.grade)) <= FUZZ
    n = int(read.sum())
    if not n:
        return
    share = float(equal[read].mean())
    # Some verdicts differ from their labels, or there are too few to tell.
    if source is None and (share < 1 or n < CONSTANT_AFTER):
        return
    note: str | None = source
    if source is None and _is_named_by_labels(config, cases):
        note = SAME_TOOL
    yield Metric(IDENTICAL, round_metric(share), n=n, note=note)


def _disputed(cases: Sequence[Case]) -> Iterator[Metric]:
    """Yield the share of the cases of several annotators that have no label, as no
    majority agrees; nothing if all have one.
    """
    # Whether each case of several annotators has a label.
    labeled = [
        _has_label(case)
        for case in cases
        if len(case.labels) > 1 and not case.checklist
    ]
    if not all(labeled):
        share = labeled.count(False) / len(labeled)
        yield Metric(DISPUTED, round_metric(share), n=len(labeled))


def _has_label(case: Case) -> bool:
    """Return whether a case has a label of its own, or of a response."""
    of_responses = (
        response.grade is not None or response.class_name is not None
        for response in case.responses
    )
    return case.label is not None or any(of_responses)


def _is_named_by_labels(config: RunConfig, cases: Sequence[Case]) -> bool:
    """Return whether an annotator of the labels has the name of a judge or of its model."""
    judges = {
        _plain(name)
        for member in config.judge.members
        for name in (member.label, member.model)
        if name
    }
    annotators = {_plain(name) for case in cases for name in case.labels}
    return bool((judges & annotators) - {""})


def _plain(name: str) -> str:
    # Letters and digits only: gpt-4o and GPT 4o are one name.
    return "".join(filter(str.isalnum, name.casefold()))


def _most_frequent(names: Sequence[str], codes: Ints) -> list[tuple[str, int]]:
    """Return the systems with most labels and their codes, if there are two or more."""
    # (systems,) labels of each system; codes of -1 have no name.
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    order = sorted(
        np.flatnonzero(counts >= FEW).tolist(), key=lambda code: (-counts[code], code)
    )
    if len(order) > 1:
        return [(names[code], code) for code in order[:MOST_SYSTEMS]]
    return []
