"""Agreement among annotators of the same items, and of the judge as one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.annotations import annotation_grades, choices_in
from evalkit.core.types import Case, Metric
from evalkit.core.values import frozen
from evalkit.scoring.columns import (
    CODES,
    NONE,
    TIE,
    A,
    B,
    ClassColumns,
    PairColumns,
    ScoreColumns,
    VerdictColumns,
    sign,
)
from evalkit.scoring.metrics.correlation import moments, pearson_r
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide, round_metric
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.coefficients import Confusion, alpha_of_numbers
from evalkit.scoring.stats.statistic import Statistic, Tabled, Tally, mean_of, undefined

CLASSES = (A, TIE, B)


@frozen
class Annotations:
    """One row for each label by an annotator.

    Attributes:
        item: (labels,) the labeled item, a pair or a response.
        annotator: (labels,) the annotator, an index into `names`.
        value: (labels,) the choice (A, TIE, B as numbers) if `chosen`, otherwise the grade.
        judge: (labels,) the judge's value for the item; NaN if missing.
        case: (items,) the case of each item.
        cases: the number of cases.
        names: the names of the annotators.
        chosen: whether values are choices.
        classes: the possible choices.
    """

    item: Ints
    annotator: Ints
    value: Floats
    judge: Floats
    case: Ints
    cases: int
    names: tuple[str, ...]
    chosen: bool
    classes: tuple[int, ...] = CLASSES

    @property
    def counts(self) -> Floats:
        """The number of annotators who chose each class for each item, (items, classes)."""
        # One count for each class: (items,) each, stacked to (items, classes).
        counted = [
            np.bincount(self.item[self.value == c], minlength=len(self.case))
            for c in self.classes
        ]
        return np.stack(counted, axis=1).astype(np.float64)

    @property
    def row_case(self) -> Ints:
        """The case of each label, (labels,)."""
        return np.asarray(self.case[self.item])

    @property
    def answered(self) -> Bools:
        """Which labels are of items that the judge answered, (labels,)."""
        return np.isfinite(self.judge)

    @property
    def others(self) -> Floats:
        """The number of other annotators who chose each class for each row's item,
        (labels, classes).
        """
        # All labels of the item without this one: (labels, classes).
        return np.asarray(
            self.counts[self.item] - np.equal.outer(self.value, self.classes)
        )

    def of_others(self, power: int) -> Floats:
        """Return the sum of a power of the other annotators' values for each row's
        item, (labels,).
        """
        # Sums over the item's labels less this label's own value.
        values = self.value**power
        return np.asarray(
            np.bincount(self.item, weights=values, minlength=len(self.case))[self.item]
            - values
        )


def annotator_statistics(
    config: RunConfig,
    cases: Sequence[Case],
    verdicts: VerdictColumns,
    clusters: Clusters,
    responses: ScoreColumns | None = None,
) -> Tabled:
    """Return the metrics of annotators' choices or grades, and the table of annotators;
    empty without annotators.
    """
    annotations = read_annotations(cases, verdicts, responses)
    if annotations is None:
        return ([], {})
    return annotator_results(annotations, clusters, config.scoring.alt_test_epsilon)


def read_annotations(
    cases: Sequence[Case], verdicts: VerdictColumns, scored: ScoreColumns | None
) -> Annotations | None:
    """Return the labels by annotator, or `None` if no case has any.

    Grades are compared with scores if responses were scored. Otherwise each annotator's grades are
    read as choices between the responses of a case, like the judge's verdicts.
    """
    # Any grade by annotator makes the labels grades, if the responses have scores.
    graded = any(
        annotation_grades(label) for case in cases for label in case.labels.values()
    )
    if scored is not None and graded:
        # Rows are (item, annotator, value); items are responses here, and pairs below.
        rows = list(_grades(cases, scored.offset))
        judge = scored.score
        case = scored.case
    else:
        rows = list(_choices_of_annotators(cases, verdicts.pairs))
        judge = np.where(
            verdicts.winner == NONE, np.nan, verdicts.winner.astype(np.float64)
        )
        case = verdicts.pairs.case
    if not rows:
        return None
    names = tuple(sorted({name for _, name, _ in rows}))
    # Transposed: three columns of (labels,).
    item, annotator, value = np.array(
        [(row, names.index(name), value) for row, name, value in rows]
    ).T
    item = item.astype(np.int64)
    annotator = annotator.astype(np.int64)
    chosen = scored is None or not graded
    return Annotations(
        item=item,
        annotator=annotator,
        value=value,
        judge=judge[item],
        case=case,
        cases=len(cases),
        names=names,
        chosen=chosen,
    )


def read_class_annotations(columns: ClassColumns, rows: Bools) -> Annotations | None:
    """Return the selected responses' classes by annotator, or `None` if there are none."""
    names = tuple(sorted(columns.annotators))
    # For each annotator, the responses with a class.
    rows_by_annotator = [
        np.flatnonzero(rows & (columns.annotators[name] >= 0)) for name in names
    ]
    if not sum(map(len, rows_by_annotator)):
        return None
    # one row for each annotation: its response and its annotator
    item = np.concatenate(rows_by_annotator)
    annotator = np.repeat(np.arange(len(names)), [*map(len, rows_by_annotator)])
    return Annotations(
        item=item,
        annotator=annotator,
        # [annotator, response] of a table of all annotators' classes.
        value=np.stack([columns.annotators[name] for name in names])[
            annotator, item
        ].astype(np.float64),
        # Missing and withheld verdicts are NaN: the judge gave no class.
        judge=np.where(columns.present, columns.verdicts, np.nan)[item],
        case=columns.case,
        cases=columns.cases,
        names=names,
        chosen=True,
        classes=tuple(range(len(columns.names))),
    )


def class_annotator_statistics(
    config: RunConfig, classes: ClassColumns, clusters: Clusters
) -> Tabled:
    """Return the metrics of annotators' classes, and the table of annotators; empty
    without annotators.

    The judge is compared with annotators where its answers name a class.

    Args:
        config: the run's config.
        classes: the class verdicts.
        clusters: the clusters of the cases.
    """
    # Agreement among annotators covers also responses where the judge abstains.
    every = read_class_annotations(classes, np.ones(len(classes), dtype=bool))
    if every is None:
        return [], {}
    annotations = read_class_annotations(classes, ~classes.withheld)
    if annotations is None:
        return annotator_agreement(every), {}
    return annotator_results(
        annotations, clusters, config.scoring.alt_test_epsilon, every
    )


def _grades(cases: Sequence[Case], offset: Ints) -> Iterator[tuple[int, str, float]]:
    for position, case in enumerate(cases):
        for name, label in case.labels.items():
            for index, grade in enumerate(annotation_grades(label)):
                if grade is not None:
                    # The offset of the case plus the index of the response.
                    yield int(offset[position]) + index, name, grade


def _choices_of_annotators(
    cases: Sequence[Case], pairs: PairColumns
) -> Iterator[tuple[int, str, float]]:
    """Yield choices of annotators: the pair's index, the annotator and the winner's code."""
    for position, case in enumerate(cases):
        for name, label in case.labels.items():
            for (i, j), winner in choices_in(label):
                yield pairs.place(position, i, j), name, float(CODES[winner])
            # Grades of two responses are a choice between them.
            for (i, first_grade), (j, second_grade) in combinations(
                enumerate(annotation_grades(label)), 2
            ):
                if first_grade is not None and second_grade is not None:
                    yield (
                        pairs.place(position, i, j),
                        name,
                        float(sign(np.array([first_grade - second_grade]))[0]),
                    )


def annotator_agreement(annotations: Annotations) -> Sequence[Statistic]:
    """Return the agreement among annotators: coefficients of choices, Krippendorff's
    interval alpha of grades.
    """
    tally = Tally(annotations.case, annotations.cases)
    # (items,) the number of labels.
    size = np.bincount(annotations.item, minlength=len(annotations.case))
    several = size > 1
    if several.any():
        why = "all labels are equal"
    else:
        why = "no item was labeled by two annotators"
    # Only labels of items with two or more count.
    n = int(size[several].sum())
    if annotations.chosen:
        return Confusion.among(annotations.counts, tally).coefficients(
            "human", "annotators", n=n, why=why
        )
    return [
        alpha_of_numbers(
            "human/alpha", annotations.value, annotations.item, tally, n=n, why=why
        )
    ]


def leave_one_out(annotations: Annotations) -> list[Statistic]:
    """Return the agreement of each annotator, and of the judge, with the other
    annotators, and the difference.

    For choices it is the share equal to the most frequent choice of the others, if there is one.
    For grades it is Pearson's r with the mean of the others. The judge is compared with the same
    others, so the ceiling is what an annotator reaches (the leave-one-out ceiling of Nili et al.
    2014, PLoS Comput. Biol. 10, e1003553).
    """
    if annotations.chosen:
        # shape (annotations, classes) -> (annotations,)
        most = annotations.others.max(axis=1)
        # A single most frequent class: with two, the others have no choice in common.
        unique = (most > 0) & (
            np.equal(annotations.others, most[:, None]).sum(axis=1) == 1
        )
        reference = np.where(
            unique,
            # [index of the most frequent class] to the class itself.
            np.array(annotations.classes, dtype=np.float64)[
                annotations.others.argmax(axis=1)
            ],
            np.nan,
        )
    else:
        # The mean of the others: their sum divided by their number.
        reference = divide(annotations.of_others(1), annotations.of_others(0))
    defined = np.isfinite(reference)
    answered = defined & annotations.answered
    # The number of columns of each part: sum and count, or the six moments.
    width, read = (2, mean_of) if annotations.chosen else (6, pearson_r)

    def sums(values: Floats, rows: Bools) -> list[Floats]:
        x = values[rows]
        y = reference[rows]
        # Moments around the mean keep precision; correlation does not depend on it.
        center = float(y.mean()) if len(y) else 0.0
        columns = (
            (x == y, np.ones(len(x)))
            if annotations.chosen
            else moments(x - center, y - center)
        )
        return Tally(annotations.row_case[rows], annotations.cases).columns(*columns)

    def leads(totals: Floats) -> Floats:
        # The judge's columns come first, then the annotator's.
        return read(totals[:, :width]) - read(totals[:, width:])

    unanswered = int((defined & ~answered).sum())
    judge = sums(annotations.judge, answered)
    unbounded = [UNBOUNDED] if unanswered else []
    if annotations.chosen:
        notes = []
    else:
        notes = ["Pearson correlation with the mean of the others"]
    return [
        Statistic(
            f"human/{name}",
            columns,
            value,
            n=int((defined if name == "ceiling" else answered).sum()),
            missing=0 if name == "ceiling" else unanswered,
            proportion=annotations.chosen and name != "gap",
            note="; ".join(notes + (unbounded if name != "ceiling" else [])) or None,
            why="no item has enough labels by other annotators that differ",
        )
        for name, columns, value in (
            ("ceiling", sums(annotations.value, defined), read),
            ("judge", judge, read),
            # The gap compares on the labels that the judge answered, unlike the ceiling.
            ("gap", [*judge, *sums(annotations.value, answered)], leads),
        )
    ]


MIN_CASES = 30
"""An annotator who labeled fewer clusters of cases is not tested (Calderon et al. 2025, section
3.2)."""
MIN_ANNOTATORS = 3
FALSE_DISCOVERY_RATE = 0.05
UNBOUNDED = "missing answers are omitted and not bounded"


def _closeness(annotations: Annotations) -> tuple[Floats, Floats, Floats]:
    """Return by row how close judge and annotator are to the other labels, and the
    number of other annotators.

    For choices it is the share of others with the same choice. For grades it is minus the root mean
    squared distance from the others' grades.
    """
    size = annotations.of_others(0)
    closeness = []
    # The judge first, then the annotator of the row.
    for values in (annotations.judge, annotations.value):
        if annotations.chosen:
            # annotations by classes
            same = (
                annotations.others * np.equal.outer(values, annotations.classes)
            ).sum(axis=1)
            closeness.append(divide(same, size))
        else:
            # The mean of (value - other)^2, from sums: mean of squares - 2 value mean + value^2.
            squares = (
                divide(
                    annotations.of_others(2) - 2 * values * annotations.of_others(1),
                    size,
                )
                + values**2
            )
            closeness.append(-np.sqrt(np.maximum(squares, 0.0)))
    return closeness[0], closeness[1], size


def annotator_results(
    annotations: Annotations,
    clusters: Clusters,
    epsilon: float,
    every: Annotations | None = None,
) -> Tabled:
    """Return the metrics of annotators, and the table of each one's labels, the judge's
    advantage and the p-value.

    The judge is compared with each annotator in closeness to the others. `human/advantage` is the
    mean over annotators of how often the judge is at least as close as the annotator.
    `human/alt_test` is the winning rate: the share of annotators for whom the test finds the judge
    no worse. At 0.5 or more, the judge may replace annotators.

    Args:
        annotations: the labels.
        clusters: the clusters of the cases.
        epsilon: the advantage that an annotator's label may have (0.2 for experts, 0.1 for crowd
            workers).
        every: the labels whose agreement is `human/alpha`, if they are more.
    """
    judge, annotator, other_labels = _closeness(annotations)
    answered = (other_labels > 0) & annotations.answered
    cluster = clusters.of_rows(annotations.row_case)
    # Equal closeness counts for both; 1e-12 absorbs rounding.
    judge_wins = answered & (judge >= annotator - 1e-12)
    annotator_wins = answered & (annotator >= judge - 1e-12)
    # (labels,) 1, 0 or -1.
    leads = annotator_wins.astype(np.float64) - judge_wins
    tally = Tally(annotations.row_case, annotations.cases)
    # two columns for each tested annotator: the judge's wins, and comparisons
    columns: list[Floats] = []
    p_values = []
    table = []
    tested_rows = np.zeros(len(annotations.item), dtype=bool)
    for number, name in enumerate(annotations.names):
        labels = annotations.annotator == number
        rows = answered & labels
        p = None
        # Tested by clusters, as items of one cluster are not independent.
        if len(np.unique(cluster[rows])) >= MIN_CASES:
            p = _p_value(leads[rows], cluster[rows], epsilon)
            p_values.append(p)
            tested_rows |= labels
            columns += tally.columns(rows & judge_wins, rows)
        entry = {
            "annotator": name,
            "labels": int(labels.sum()),
            "compared": int(rows.sum()),
            "advantage": round_metric(judge_wins[rows].mean()) if rows.any() else None,
            "p": None if p is None else round_metric(p),
            "note": f"fewer than {MIN_CASES} cases: not tested" if p is None else None,
        }
        table.append(entry)
    few = len(p_values) < MIN_ANNOTATORS
    why = (
        f"fewer than {MIN_ANNOTATORS} annotators labeled {MIN_CASES} judged cases together with"
        " others"
    )
    unanswered = int((tested_rows & ~annotations.answered).sum())
    advantage = Statistic(
        "human/advantage",
        columns or np.zeros((annotations.cases, 0)),
        undefined
        if few
        # Even columns are wins, odd ones comparisons: one ratio for each annotator,
        # then their mean.
        else lambda totals: divide(totals[:, 0::2], totals[:, 1::2]).mean(axis=1),
        n=int((answered & tested_rows).sum()),
        missing=unanswered,
        proportion=True,
        note=UNBOUNDED if unanswered else None,
        why=why,
    )
    test = Metric("human/alt_test", None, note=why)
    if not few:
        rejected = _rejected(np.array(p_values))
        note = (
            f"share of {len(rejected)} annotators at epsilon {epsilon:g}; a count of tests: no"
            " interval"
        )
        test = Metric(
            "human/alt_test", round_metric(rejected.mean()), n=len(rejected), note=note
        )
    return [
        *annotator_agreement(every or annotations),
        *leave_one_out(annotations),
        advantage,
        test,
    ], {"annotators": table}


def _p_value(leads: Floats, cluster: Ints, epsilon: float) -> float:
    """Return the p-value of the hypothesis that an annotator's label is worth `epsilon`
    more than the judge's.

    It is a one-sided t-test of the clusters' mean wins of the annotator minus those of the judge.
    With one item per cluster it is the test of Calderon et al. 2025, arXiv 2501.10970, section 3.

    Args:
        leads: (labels,) whether the annotator wins minus whether the judge does.
        cluster: (labels,) their clusters.
        epsilon: the advantage that a label may have.
    """
    # Imported late: SciPy takes long to load.
    from scipy.special import stdtr

    size = np.bincount(cluster)
    # Numbers of clusters have gaps: only those with rows count.
    means = np.bincount(cluster, weights=leads)[size > 0] / size[size > 0]
    spread = float(means.std(ddof=1))
    distance = float(means.mean()) - epsilon
    # Without spread, the mean itself decides.
    if spread < 1e-12:
        if distance < 0:
            return 0.0
        return 1.0
    # The t distribution with one degree of freedom less than clusters.
    return float(stdtr(len(means) - 1, distance / (spread / np.sqrt(len(means)))))


def _rejected(p: Floats) -> Bools:
    """Return which tests are rejected at a false discovery rate of 0.05 under any dependence.

    Benjamini and Yekutieli 2001, Ann. Statist. 29, 1165-1188, theorem 1.3.
    """
    rank = np.arange(1, len(p) + 1)
    # The sum of 1 / rank makes the bound hold under any dependence of the tests.
    passed = np.sort(p) <= rank / len(p) * FALSE_DISCOVERY_RATE / (1 / rank).sum()
    # All p-values up to the largest that passes; -1 rejects none.
    return np.asarray(p <= np.sort(p)[passed].max(initial=-1.0))
