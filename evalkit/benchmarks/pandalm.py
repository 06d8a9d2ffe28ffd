"""PandaLM's test set (Wang et al. 2024, ICLR, arXiv 2306.05087): pairs with the choices of three annotators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from evalkit.benchmarks.benchmark import Benchmark, RowLocation, choice, row_by_row, shape, share_row
from evalkit.benchmarks.scoring_rules import UNREAD, View
from evalkit.core.annotations import choice_for
from evalkit.datasets.formats import Row
from evalkit.scoring.columns import CODES, NONE
from evalkit.scoring.metrics.agreement import CLASSES
from evalkit.scoring.stats.arrays import Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.scoring.stats.confusion import Confusion
from evalkit.types import Case, Metric


def _read_case(row: Row, at: RowLocation) -> Row:
    names = [
        name for name in ("annotator1", "annotator2", "annotator3", "label_0", "label_1", "label_2") if name in row
    ]
    votes = {name: choice(row[name], {"0": "TIE", "1": "A", "2": "B"}, at.place) for name in names}
    asked = [part for part in (row["instruction"], row.get("input")) if part not in (None, "")]
    made = str(row.get("cmp_key") or "").split("_")
    models = dict(zip(("model_a", "model_b"), made, strict=True)) if len(made) == 2 else {}
    return {
        "id": row.get("idx", row.get("index", at.number)),
        "prompt": "\n\n".join(map(str, asked)),
        "response_a": row["response1"],
        "response_b": row["response2"],
        **models,
        "labels": votes,
        "subset": row.get("motivation_app"),
    }


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `pandalm/accuracy`, and macro-averaged `pandalm/precision`, `recall` and `f1` over A, TIE and B.

    The label is the majority of three annotators; for three different choices, it is the first annotator's, as in their
    script. Macro-averages are over all three classes; a class that never occurs counts 0 (Wang et al. 2024,
    arXiv 2306.05087, section 5). Their script reads an unreadable answer as a tie; here it is missing.
    """
    label = _majority(view.cases)[view.pairs.case]
    winner = view.outcome.winner
    first = (view.pairs.i == 0) & (view.pairs.j == 1) & (label != NONE)
    used, lost = first & (winner != NONE), first & (winner == NONE)
    tally = view.tally
    accuracy = tally.rate("pandalm/accuracy", winner == label, used, lost, why=UNREAD)
    table = Confusion.of(tally, label, winner, used, lost, CLASSES)
    unbounded = "missing verdicts are omitted, without bounds" if lost.any() else None
    macro = [
        table.statistic(f"pandalm/{name}", value, reach=None, proportion=True, note=unbounded, why=UNREAD)
        for name, value in (("precision", _precision), ("recall", _recall), ("f1", _f1))
    ]
    return [accuracy, *macro]


def _majority(cases: Sequence[Case]) -> Codes:
    """Return the majority's choice in each case, the first annotator's if all differ; the label if there are none."""
    codes = []
    for case in cases:
        said = (choice_for(label) for label in case.labels.values())
        votes = Counter(CODES[vote] for vote in said if vote is not None)
        codes.append(votes.most_common(1)[0][0] if votes else CODES[case.label])
    return np.array(codes, dtype=np.int8)


def _by_class(totals: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the correct, predicted and labeled counts by class, from rows of 9 cells (label, verdict)."""
    table = totals.reshape(-1, 3, 3)
    return np.diagonal(table, axis1=1, axis2=2), table.sum(axis=1), table.sum(axis=2)


def _macro(totals: Floats, each: Floats) -> Floats:
    return np.where(totals.sum(axis=1) > 0, np.nan_to_num(each).mean(axis=1), np.nan)


def _precision(totals: Floats) -> Floats:
    right, said, _ = _by_class(totals)
    return _macro(totals, divide(right, said))


def _recall(totals: Floats) -> Floats:
    right, _, labeled = _by_class(totals)
    return _macro(totals, divide(right, labeled))


def _f1(totals: Floats) -> Floats:
    right, said, labeled = _by_class(totals)
    return _macro(totals, divide(2 * right, said + labeled))


_SOURCE = "Wang et al. 2024, arXiv 2306.05087, section 5"
_METRICS: Final = (
    share_row(
        "pandalm/accuracy",
        "accuracy",
        "Share of pairs whose verdict equals the annotators' majority choice, or the first annotator's choice if "
        "all differ.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "pandalm/precision",
        "macro precision",
        "Share of verdicts of a class that are correct, averaged over A, tie and B.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "pandalm/recall",
        "macro recall",
        "Share of labels of a class that the verdict equals, averaged over A, tie and B.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "pandalm/f1",
        "macro F1",
        "Harmonic mean of precision and recall, averaged over A, tie and B.",
        _SOURCE,
        headline=True,
    ),
)


PANDALM: Final = Benchmark(
    "pandalm",
    "PandaLM test set",
    kind="the PandaLM test set",
    license="Apache-2.0",
    citation="Wang et al. 2024, ICLR, arXiv 2306.05087",
    homepage="https://github.com/WeOpenML/PandaLM",
    expects="PandaLM's data/testset-v1.json",
    shapes=(
        shape("instruction", "response1", "response2", "annotator1", "annotator2", "annotator3"),
        shape("instruction", "response1", "response2", "label_0", "label_1", "label_2"),
    ),
    read=row_by_row(_read_case),
    rule=_rule,
    metrics=_METRICS,
    short_title="PandaLM",
    main_metric="pandalm/accuracy",
    human_labels=True,
)

BENCHMARKS: Final = (PANDALM,)
