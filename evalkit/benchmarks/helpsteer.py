"""HelpSteer, HelpSteer2 and HelpSteer3 (Wang et al. 2024, NeurIPS, arXiv 2406.08673):
ratings and preferences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from evalkit.benchmarks.shared.benchmark import (
    FACTS,
    Benchmark,
    Source,
    benchmark,
    choice,
    published_rows,
    shape,
)
from evalkit.benchmarks.shared.scoring_rules import View, by_dimension
from evalkit.datasets.located_rows import Placed, Row
from evalkit.datasets.text import conversation_text
from evalkit.interop.layouts.judgment_files import LocatedRow
from evalkit.interop.layouts.layouts import Field, value_of
from evalkit.scoring.columns import NONE, TIE, ScoreColumns
from evalkit.scoring.metrics.correlation import moments, pearson_r
from evalkit.scoring.metrics.scale_agreement import concordance
from evalkit.scoring.stats.statistic import Measures, Statistic

ATTRIBUTES: Final = FACTS["helpsteer"]["values"]["dimension"]

_RATED: Final = shape("prompt", "response", *ATTRIBUTES)

_MEANINGS: Final = {
    "-3": "A",
    "-2": "A",
    "-1": "A",
    "0": "TIE",
    "1": "B",
    "2": "B",
    "3": "B",
}

_STRENGTH: Final = ("preference_strength", "overall_preference")

_PREFERENCE: Final[Mapping[str, Field]] = {
    "response_a": ("response_1", "response1"),
    "response_b": ("response_2", "response2"),
    "label": lambda row: choice(value_of(row, _STRENGTH), _MEANINGS, row.place),
    "strength": _STRENGTH,
    "subset": "domain",
}

_TURN: Final = "<extra_id_1>"


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each prompt with its rated responses, which are in consecutive
    rows, or for each preference.
    """
    number = 0
    # Consecutive rows only: a prompt may occur again later as another case.
    for (_, prompt), group in groupby(
        published_rows(benchmark, source), key=lambda row: (row.file, _asked(row))
    ):
        together = list(group)
        rated = [row for row in together if row.keys() >= _RATED]
        cases = [(together[0], _rated(rated))] if rated else []
        cases += [
            (row, _preferred(row)) for row in together if not row.keys() >= _RATED
        ]
        for row, case in cases:
            number += 1
            yield row.place, {"id": str(number), "prompt": prompt, **case}


def _asked(row: Row) -> str:
    if "prompt" in row:
        return str(row["prompt"]).replace(_TURN, "\n\n").strip()
    turns = row["context"]
    if isinstance(turns, str):
        return turns
    return conversation_text(turns)


def _preferred(row: LocatedRow) -> Row:
    return {name: value_of(row, field) for name, field in _PREFERENCE.items()}


def _rated(rows: Sequence[LocatedRow]) -> Row:
    return {
        "responses": [
            {"text": row["response"], "label": row["helpfulness"]} for row in rows
        ],
        # One list of grades for each attribute, in the order of the responses.
        "grades": {name: [row[name] for row in rows] for name in ATTRIBUTES},
    }


def _rule(view: View) -> Measures:
    """Return, by attribute, `helpsteer/ATTRIBUTE/weighted_kappa` and `…/pearson`, and
    `helpsteer/preference_accuracy`.

    Cohen's kappa with quadratic weights is the authors' measure of human agreement (Wang et al.
    2024, arXiv 2406.08673, section 2); an attribute is judged by the criterion of its name, on the
    scale of the grades (rubric=helpsteer). The accuracy is over preferences that are not ties; a
    tie verdict is wrong (Wang et al. 2025, arXiv 2410.01257).
    """
    return [
        *by_dimension(view, "helpsteer", ATTRIBUTES, _kappa_and_pearson),
        _preference_accuracy(view),
    ]


def _kappa_and_pearson(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    """Return the agreement of scores and grades, as weighted kappa and as Pearson's correlation."""
    graded = np.isfinite(scored.grade)
    has_score = np.isfinite(scored.score)
    used = graded & has_score
    count = int(used.sum())
    lost = int((graded & ~has_score).sum())
    columns = view.tally.of(scored.case[used]).columns(
        *moments(scored.score[used], scored.grade[used])
    )
    note = "missing scores are omitted, without bounds" if lost else None
    if count:
        why = "all scores or grades are equal"
    else:
        why = f"no scored response has a grade of {name.rpartition('/')[2]}"
    return [
        Statistic(f"{name}/{end}", columns, value, count, lost, note=note, why=why)
        for end, value in (("weighted_kappa", concordance), ("pearson", pearson_r))
    ]


def _preference_accuracy(view: View) -> Statistic:
    """Return the share of preferences that the judge has, too; its ties are wrong."""
    label = view.pairs.label
    winner = view.outcome.winner
    # Labels that name a winner; a tie verdict is wrong there.
    has_preference = (label != NONE) & (label != TIE)
    return view.tally.rate(
        "helpsteer/preference_accuracy",
        winner == label,
        has_preference & (winner != NONE),
        has_preference & view.lost(winner != NONE),
        why="no pair with a preference has a verdict",
    )


BENCHMARKS: Final = (benchmark("helpsteer", read=_read_cases, rule=_rule),)
