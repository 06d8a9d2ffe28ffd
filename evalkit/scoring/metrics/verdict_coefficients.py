"""Coefficients of verdicts and labels, from verdicts as objects, so that jobs are
resampled together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evalkit.core.types import Verdict
from evalkit.scoring.decision import KAPPA
from evalkit.scoring.metrics.correlation import spearman_statistic
from evalkit.scoring.stats.agreement_formulas import kappa
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.statistic import Statistic, Tally
from evalkit.scoring.verdicts.verdict_objects import field_values


def verdict_spearman(
    verdicts: Sequence[Verdict], numbers: Mapping[str, int]
) -> Statistic:
    """Return Spearman's correlation of scores and grades, over verdicts on single responses.

    Args:
        verdicts: the verdicts of a job.
        numbers: the index of each case.
    """
    graded = [
        (numbers[case], score, label)
        for case, unit, score, label in field_values(
            verdicts, "case_id", "unit", "score", "label"
        )
        if len(unit) == 1 and score is not None and isinstance(label, float | int)
    ]
    columns = np.array(graded, dtype=np.float64).reshape(-1, 3).T
    return spearman_statistic(
        Tally(columns[0].astype(np.int64), len(numbers)), columns[1], columns[2]
    )


def verdict_kappa(verdicts: Sequence[Verdict], numbers: Mapping[str, int]) -> Statistic:
    """Return Cohen's kappa of classes and labels, over verdicts with both.

    Args:
        verdicts: the verdicts of a job.
        numbers: the index of each case.
    """
    labeled = [
        (numbers[case], label, name)
        for case, label, name in field_values(
            verdicts, "case_id", "label", "class_name"
        )
        if name is not None and isinstance(label, str)
    ]
    # Transposed: the cases, and the labels and classes.
    cases, *both = zip(*labeled, strict=True)
    # both: shape (2, verdicts), the labels and the chosen classes; they share one set of codes
    names, codes = np.unique(both, return_inverse=True)
    label, chosen = codes.reshape(2, -1)
    every_row = np.ones(len(label), dtype=bool)
    table = Confusion.of(
        Tally(np.array(cases), len(numbers)),
        label,
        chosen,
        every_row,
        ~every_row,
        range(len(names)),
    )
    return table.statistic(KAPPA, kappa, reach=None)
