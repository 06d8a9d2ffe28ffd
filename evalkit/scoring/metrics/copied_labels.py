"""Annotators whose labels equal the judge's verdicts more than independent labels would."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.types import Case, Metric
from evalkit.core.values import frozen
from evalkit.scoring.columns import ClassColumns, ScoreColumns, VerdictColumns
from evalkit.scoring.decision import CONSTANT_AFTER, COPIED
from evalkit.scoring.metrics.humans import (
    Annotations,
    read_annotations,
    read_class_annotations,
)
from evalkit.scoring.stats.arrays import (
    FUZZ,
    Bools,
    Floats,
    Ints,
    divide,
    round_metric,
)
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic, Tally

BEYOND_OTHERS: Final = 0.1
"""Annotators of the same units: by so much an annotator agrees with the judge beyond what the
agreement of both with the others explains."""
FAR_MORE: Final = 0.2
"""Annotators of different units: by so much one agrees with the judge more than the others do."""
HARDLY_DIFFERS: Final = 0.97
"""And the labels of that one equal the verdict in more than this share."""
_NAMES_ANNOTATORS: Final = re.compile(
    r"(annotator|rater|labell?er|reviewer)([ _.-]?(name|id|email|user))?"
    r"|(annotated|rated|labell?ed|reviewed)[ _.-]?by",
    re.IGNORECASE,
)
"""The names of a column that says who labeled a case."""


@frozen
class _Suspect:
    """An annotator whose labels may be copies.

    Attributes:
        name: the annotator.
        excess: how far the labels agree with the verdicts beyond what is innocent.
        share: the share of the labels that equal the verdict.
        labels: the number of the labels.
    """

    name: str
    excess: Statistic
    share: float
    labels: int


def copied_labels_metrics(
    config: RunConfig,
    cases: Sequence[Case],
    answers: VerdictColumns | ClassColumns,
    clusters: Clusters | None = None,
) -> Iterator[Metric]:
    """Yield `labels/copied`, of the annotator whose labels are shown to depend on the verdicts.

    None is there if `dataset.label_source` says where labels come from. The intervals are adjusted
    for the number of annotators (Bonferroni).

    Args:
        config: the config of the run.
        cases: the cases.
        answers: the verdicts of the judge or the panel.
        clusters: the clusters of the cases.
    """
    scoring = config.scoring
    if config.dataset.label_source is not None or not scoring.bootstrap:
        return
    if clusters is None:
        return
    suspects = [*_of_same_units(cases, answers)]
    if not suspects:
        suspects = [*_of_different_units(cases, answers)]
    shown = _shown(suspects, scoring, clusters)
    if shown is not None:
        share = round_metric(shown.share)
        yield Metric(COPIED, share, n=shown.labels, note=shown.name)


def _shown(
    suspects: Sequence[_Suspect], scoring: ScoringConfig, clusters: Clusters
) -> _Suspect | None:
    """Return the annotator with the largest excess of those for whom it is shown; `None` if
    there is none.
    """
    if not suspects:
        return None
    confidence = 1 - (1 - scoring.confidence) / len(suspects)
    adjusted = scoring.model_copy(update={"confidence": confidence})
    statistics = [suspect.excess for suspect in suspects]
    metrics = measure(statistics, adjusted, clusters)
    shown = [
        suspect for suspect in suspects if (metrics[suspect.excess.name].low or 0.0) > 0
    ]
    return max(
        shown,
        key=lambda suspect: metrics[suspect.excess.name].value or 0.0,
        default=None,
    )


def _vectors(values: Floats, classes: Sequence[float] | None) -> Floats:
    """Return values as (rows, 1) numbers, or (rows, classes) zeros and ones."""
    if classes is None:
        return values[:, None]
    return np.equal.outer(values, classes).astype(np.float64)


def _squares(vectors: Floats) -> Floats:
    return np.asarray((vectors**2).sum(axis=1))


def _moments(
    count: Floats, product: Floats, x: Floats, y: Floats, xx: Floats, yy: Floats
) -> list[Floats]:
    """Return the columns that `_correlation` reads, each (rows,).

    Args:
        count: (rows,) how many pairs of values a row has.
        product: (rows,) the sum of their products.
        x: (rows, width) the sum of their first values.
        y: (rows, width) the sum of their second values.
        xx: (rows,) the sum of the squares of the first values.
        yy: (rows,) the sum of the squares of the second values.
    """
    return [count, product, xx, yy, *x.T, *y.T]


def _of_pairs(x: Floats, y: Floats) -> list[Floats]:
    """Return the moments of rows of one pair of vectors each, (rows, width)."""
    ones = np.ones(len(x))
    return _moments(ones, (x * y).sum(axis=1), x, y, _squares(x), _squares(y))


def _correlation(totals: Floats) -> Floats:
    """Return the correlation from sums of moments, (rows, columns) -> (rows,).

    Of zeros and ones it is agreement beyond chance: the share of equal classes less that expected
    by chance, divided by its largest value for these frequencies. Of two classes that is phi.
    """
    count = totals[:, 0]
    width = (totals.shape[1] - 4) // 2
    # The first four columns are the count, the products and both squares.
    x = divide(totals[:, 4 : 4 + width], count[:, None])
    y = divide(totals[:, 4 + width :], count[:, None])
    covariance = divide(totals[:, 1], count) - (x * y).sum(axis=1)
    variance_x = divide(totals[:, 2], count) - (x**2).sum(axis=1)
    variance_y = divide(totals[:, 3], count) - (y**2).sum(axis=1)
    scale = np.sqrt(np.maximum(variance_x * variance_y, 0.0))
    return divide(covariance, scale)


def _of_same_units(
    cases: Sequence[Case], answers: VerdictColumns | ClassColumns
) -> Iterator[_Suspect]:
    """Yield annotators who labeled units together with two others, or more.

    If a judge and annotators err independently, the correlation of two is the product of how well
    each of them knows the truth (one factor: Spearman 1904, Am. J. Psychol. 15, 201-292). So that
    of the judge and an annotator, times that of two others, is that of the judge and another, times
    that of the annotator and another: an accurate judge and an accurate annotator agree often, but
    with the others, too. Over unlike others the product of means is larger than the mean product,
    so the test errs on the side of the annotator.
    """
    if not any(len(case.labels) > 2 for case in cases):
        return
    annotations = _annotations(cases, answers)
    if annotations is None:
        return
    classes = annotations.classes if annotations.chosen else None
    value = annotations.value
    judge = annotations.judge
    if classes is None:
        # Deviations from the mean keep precision; a correlation does not depend on it.
        center = float(value.mean())
        value = value - center
        judge = judge - center
    vectors = _vectors(value, classes)
    verdicts = _vectors(judge, classes)
    items = len(annotations.case)
    # Sums over the other labels of each row's item: vectors, their squares, and how many.
    of_items = np.stack(
        [
            np.bincount(annotations.item, weights=column, minlength=items)
            for column in vectors.T
        ],
        axis=1,
    )
    squares = np.bincount(annotations.item, weights=_squares(vectors), minlength=items)
    sizes = np.bincount(annotations.item, minlength=items)
    others = of_items[annotations.item] - vectors
    others_squares = squares[annotations.item] - _squares(vectors)
    size = sizes[annotations.item] - 1.0
    enough = annotations.answered & (size >= 2)
    tally = Tally(annotations.row_case, annotations.cases)
    for number, name in enumerate(annotations.names):
        rows = enough & (annotations.annotator == number)
        labels = int(rows.sum())
        if labels < CONSTANT_AFTER:
            continue
        mine = vectors[rows]
        verdict = verdicts[rows]
        theirs = others[rows]
        squared = others_squares[rows]
        m = size[rows]
        columns = [
            *_of_pairs(verdict, mine),
            *_with_each(verdict, theirs, squared, m),
            *_with_each(mine, theirs, squared, m),
            *_among(theirs, squared, m),
        ]
        equal = np.abs(annotations.judge - annotations.value)[rows] <= FUZZ
        yield _Suspect(
            name,
            Statistic(
                f"{COPIED}/{number}",
                tally.where(rows).columns(*columns),
                _beyond_others,
                n=labels,
            ),
            float(equal.mean()),
            labels,
        )


def _annotations(
    cases: Sequence[Case], answers: VerdictColumns | ClassColumns
) -> Annotations | None:
    """Return the labels by annotator; `None` if no verdict has one."""
    if isinstance(answers, VerdictColumns):
        responses: ScoreColumns | None = answers.scores
        if answers.passes is not None:
            responses = None
        return read_annotations(cases, answers, responses)
    return read_class_annotations(answers, ~answers.withheld)


def _with_each(one: Floats, theirs: Floats, squared: Floats, m: Floats) -> list[Floats]:
    """Return the moments of a vector of each row with each of `m` others, given as sums."""
    product = (one * theirs).sum(axis=1)
    return _moments(m, product, one * m[:, None], theirs, _squares(one) * m, squared)


def _among(theirs: Floats, squared: Floats, m: Floats) -> list[Floats]:
    """Return the moments of all ordered pairs of `m` others, given as sums."""
    product = _squares(theirs) - squared
    each = theirs * (m - 1)[:, None]
    both = squared * (m - 1)
    return _moments(m * (m - 1), product, each, each, both, both)


def _beyond_others(totals: Floats) -> Floats:
    """Return by how much the judge's correlation with an annotator, less the margin, exceeds the
    one expected, times the correlation of the others.
    """
    with_annotator, with_others, of_annotator, among_others = (
        _correlation(part) for part in np.split(totals, 4, axis=1)
    )
    expected = with_others * of_annotator
    return (with_annotator - BEYOND_OTHERS) * among_others - expected


def _of_different_units(
    cases: Sequence[Case], answers: VerdictColumns | ClassColumns
) -> Iterator[_Suspect]:
    """Yield annotators whose labels nearly equal the verdicts, of those who labeled each unit
    alone.

    One who agrees so much more than the others either copies, or is another kind of annotator, or
    labeled easier cases: the labels do not say which.
    """
    annotator = _annotator_of_cases(cases)
    names = sorted({name for name in annotator if name is not None})
    if len(names) < 2:
        return
    verdict, label, case, classes = _labeled(answers)
    number = np.array([-1 if name is None else names.index(name) for name in annotator])
    of_row = number[case]
    tally = Tally(case, len(annotator))
    equal = np.abs(verdict - label) <= FUZZ
    center = 0.0 if classes or not len(label) else float(label.mean())
    moments = _of_pairs(
        _vectors(verdict - center, classes), _vectors(label - center, classes)
    )
    for index, name in enumerate(names):
        rows: Bools = of_row == index
        others: Bools = (of_row >= 0) & ~rows
        labels = int(rows.sum())
        if min(labels, int(others.sum())) < CONSTANT_AFTER:
            continue
        share = float(equal[rows].mean())
        if _lowest_share(int(equal[rows].sum()), labels) <= HARDLY_DIFFERS:
            continue
        columns = [column * rows for column in moments]
        columns += [column * others for column in moments]
        excess = Statistic(
            f"{COPIED}/{index}", tally.columns(*columns), _far_more, n=labels
        )
        yield _Suspect(name, excess, share, labels)


def _far_more(totals: Floats) -> Floats:
    """Return by how much an annotator's correlation with the judge exceeds that of the others,
    less the margin.
    """
    of_annotator, of_others = np.split(totals, 2, axis=1)
    return _correlation(of_annotator) - _correlation(of_others) - FAR_MORE


def _lowest_share(hits: int, n: int) -> float:
    """Return the lower end of the exact one-sided 95% interval of a share (Clopper and Pearson
    1934).
    """
    # Imported late: SciPy takes long to load.
    from scipy.special import betaincinv

    if hits == 0:
        return 0.0
    return float(betaincinv(hits, n - hits + 1, 0.05))


def _annotator_of_cases(cases: Sequence[Case]) -> list[str | None]:
    """Return who labeled each case alone, by its labels or by the column that says so."""
    columns: dict[str, bool] = {}
    alone: list[str | None] = []
    for case in cases:
        name = next(iter(case.labels)) if len(case.labels) == 1 else None
        if not case.labels:
            name = _named_in_columns(case, columns)
        alone.append(name)
    return alone


def _named_in_columns(case: Case, columns: dict[str, bool]) -> str | None:
    """Return the value of the column that names annotators; `columns` remembers which do."""
    for column, value in case.metadata.items():
        if column not in columns:
            columns[column] = _NAMES_ANNOTATORS.fullmatch(column) is not None
        if columns[column] and isinstance(value, str | int):
            return str(value)
    return None


def _labeled(
    answers: VerdictColumns | ClassColumns,
) -> tuple[Floats, Floats, Ints, Sequence[float] | None]:
    """Return verdict, label and case of each unit with both, and the classes; `None` for
    scores.
    """
    if isinstance(answers, VerdictColumns) and answers.scores is not None:
        scores = answers.scores
        graded = np.isfinite(scores.grade) & np.isfinite(scores.raw)
        if answers.passes is None and graded.any():
            return scores.raw[graded], scores.grade[graded], scores.case[graded], None
    read = answers.read
    verdict = np.asarray(answers.codes[read], dtype=np.float64)
    label = np.asarray(answers.truth[read], dtype=np.float64)
    classes = np.union1d(verdict, label).tolist()
    return verdict, label, answers.tally.case[read], classes
