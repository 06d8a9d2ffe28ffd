"""PandaLM's test set (Wang et al. 2024, ICLR, arXiv 2306.05087): pairs with the choices
of three annotators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from evalkit.benchmarks.shared.benchmark import (
    RowLocation,
    benchmark,
    choice,
    row_by_row,
)
from evalkit.benchmarks.shared.scoring_rules import UNREAD, View
from evalkit.core.annotations import choice_for
from evalkit.core.types import Case
from evalkit.datasets.located_rows import Row
from evalkit.scoring.columns import CODES, NONE
from evalkit.scoring.metrics.agreement import CLASSES
from evalkit.scoring.stats.agreement_formulas import f1_scores, matrices, recalls
from evalkit.scoring.stats.arrays import Codes, Floats
from evalkit.scoring.stats.coefficients import Confusion
from evalkit.scoring.stats.statistic import Measures, Statistic

_ANNOTATORS = (
    "annotator1",
    "annotator2",
    "annotator3",
    "label_0",
    "label_1",
    "label_2",
)


def _read_case(row: Row, at: RowLocation) -> Row:
    """Return a row as a case of two responses with the annotators' choices."""
    meanings = {"0": "TIE", "1": "A", "2": "B"}
    prompt_parts = [
        part
        for part in (row["instruction"], row.get("input"))
        if part not in (None, "")
    ]
    # The models' names in one text; a name with an underscore leaves them open.
    models = str(row.get("cmp_key") or "").split("_")
    model_cells = {}
    if len(models) == 2:
        model_cells = dict(zip(("model_a", "model_b"), models, strict=True))
    return {
        "id": row.get("idx", row.get("index", at.number)),
        "prompt": "\n\n".join(map(str, prompt_parts)),
        "response_a": row["response1"],
        "response_b": row["response2"],
        **model_cells,
        "labels": {
            name: choice(row[name], meanings, at.place)
            for name in _ANNOTATORS
            if name in row
        },
        "subset": row.get("motivation_app"),
    }


def _rule(view: View) -> Measures:
    """Return `pandalm/accuracy`, and macro-averaged `pandalm/precision`, `recall` and
    `f1` over A, TIE and B.

    The label is the majority of three annotators; for three different choices, it is the first
    annotator's, as in their script. Macro-averages are over all three classes; a class that never
    occurs counts 0 (Wang et al. 2024, arXiv 2306.05087, section 5). Their script reads an
    unreadable answer as a tie; here it is missing.
    """
    label = _majority(view.cases)
    winner = view.of_first(view.outcome.winner, NONE)
    tally = view.cases_tally
    used = (label != NONE) & (winner != NONE)
    lost = (label != NONE) & (winner == NONE) & view.whole
    table = Confusion.of(tally, label, winner, used, lost, CLASSES)
    unbounded = "missing verdicts are omitted, without bounds" if lost.any() else None

    def macro(name: str, class_values: Callable[[Floats], Floats]) -> Statistic:
        """Return a statistic that is the mean of a value of each class."""

        def value(totals: Floats) -> Floats:
            # Without any verdict the metric is undefined; a class that never occurs counts 0.
            return np.where(
                totals.sum(axis=1) > 0,
                np.nan_to_num(class_values(totals)).mean(axis=1),
                np.nan,
            )

        return table.statistic(
            f"pandalm/{name}",
            value,
            reach=None,
            proportion=True,
            note=unbounded,
            why=UNREAD,
        )

    return [
        tally.rate("pandalm/accuracy", winner == label, used, lost, why=UNREAD),
        macro(
            "precision",
            lambda totals: recalls(
                # The transposed table has verdicts in rows, so its recalls are precisions.
                matrices(totals).swapaxes(1, 2).reshape(totals.shape)
            ),
        ),
        macro("recall", recalls),
        macro("f1", f1_scores),
    ]


def _majority(cases: Sequence[Case]) -> Codes:
    """Return the majority's choice in each case, the first annotator's if all differ;
    the label if there are none.
    """
    codes = []
    for case in cases:
        choices = (choice_for(label) for label in case.labels.values())
        votes = Counter(CODES[vote] for vote in choices if vote is not None)
        # The first one wins among equal counts, in the order of annotators.
        codes.append(votes.most_common(1)[0][0] if votes else CODES[case.label])
    return np.array(codes, dtype=np.int8)


BENCHMARKS: Final = (benchmark("pandalm", read=row_by_row(_read_case), rule=_rule),)
