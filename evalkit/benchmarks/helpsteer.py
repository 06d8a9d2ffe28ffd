"""HelpSteer, HelpSteer2 and HelpSteer3 (Wang et al. 2024, NeurIPS, arXiv 2406.08673): ratings and preferences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from evalkit.benchmarks.benchmark import (
    Benchmark,
    Source,
    benchmark_files,
    checked_rows,
    choice,
    coefficient_row,
    shape,
    share_row,
    undetermined_row,
)
from evalkit.benchmarks.scoring_rules import View, by_dimension
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.datasets.named import Placed
from evalkit.datasets.text import conversation_text
from evalkit.scoring.columns import NONE, TIE, ScoreColumns
from evalkit.scoring.metrics.correlation import pearson_r
from evalkit.scoring.stats.arrays import Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.types import Metric

ATTRIBUTES: Final = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")

_RATED: Final = shape("prompt", "response", *ATTRIBUTES)

_PREFERRED: Final = shape("prompt", "response_1", "response_2", "preference_strength")

_PREFERRED3: Final = shape("context", "response1", "response2", "overall_preference")

_TURN: Final = "<extra_id_1>"


def _read_cases(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each prompt with its rated responses, which are in consecutive rows, or for each preference."""
    number = 0
    for file in benchmark_files(benchmark, source):
        for prompt, group in groupby(checked_rows(benchmark, file), key=lambda placed: _asked(placed[1])):
            rows = list(group)
            rated = [row for _, row in rows if row.keys() >= _RATED]
            if rated:
                number += 1
                yield rows[0][0], _rated(str(number), prompt, rated)
            for place, row in rows:
                if not row.keys() >= _RATED:
                    number += 1
                    yield place, _preferred(str(number), prompt, row, place)


def _asked(row: Row) -> str:
    if "prompt" in row:
        return str(row["prompt"]).replace(_TURN, "\n\n").strip()
    turns = row["context"]
    return turns if isinstance(turns, str) else conversation_text(turns)


def _rated(id_: str, prompt: str, rows: Sequence[Row]) -> Row:
    return {
        "id": id_,
        "prompt": prompt,
        "responses": [{"text": row["response"], "label": row["helpfulness"]} for row in rows],
        "grades": {name: [row[name] for row in rows] for name in ATTRIBUTES},
    }


def _preferred(id_: str, prompt: str, row: Row, place: str) -> Row:
    strength = row["preference_strength"] if "preference_strength" in row else row["overall_preference"]
    meanings = {"-3": "A", "-2": "A", "-1": "A", "0": "TIE", "1": "B", "2": "B", "3": "B"}
    return {
        "id": id_,
        "prompt": prompt,
        "response_a": row.get("response_1", row.get("response1")),
        "response_b": row.get("response_2", row.get("response2")),
        "label": choice(strength, meanings, place),
        "strength": strength,
        "subset": row.get("domain"),
    }


def _rule(view: View) -> list[Statistic | Metric]:
    """Return, by attribute, `helpsteer/ATTRIBUTE/weighted_kappa` and `…/pearson`, and `helpsteer/preference_accuracy`.

    Cohen's kappa with quadratic weights is the authors' measure of human agreement (Wang et al. 2024, arXiv 2406.08673,
    section 2); an attribute is judged by the criterion of its name, on the scale of the grades (rubric=helpsteer). The
    accuracy is over preferences that are not ties; a tie verdict is wrong (Wang et al. 2025, arXiv 2410.01257).
    """
    return [*by_dimension(view, "helpsteer", ATTRIBUTES, _kappa_and_pearson), _preferences(view)]


def _kappa_and_pearson(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    graded, there = np.isfinite(scored.grade), np.isfinite(scored.score)
    used = graded & there
    x, y = scored.score[used], scored.grade[used]
    tally = Tally(scored.case[used], len(view.cases))
    columns = np.stack([tally(values) for values in (np.ones(len(x)), x, y, x * x, y * y, x * y)], axis=1)
    lost = int((graded & ~there).sum())
    note = "missing scores are omitted, without bounds" if lost else None
    why = "all scores or grades are equal"

    def of(end: str, value: Callable[[Floats], Floats]) -> Statistic:
        said = why if len(x) else f"no scored response has a grade of {name.rpartition('/')[2]}"
        return Statistic(f"{name}/{end}", columns, value, len(x), lost, note=note, why=said)

    return [of("weighted_kappa", quadratic_kappa), of("pearson", pearson_r)]


def quadratic_kappa(totals: Floats) -> Floats:
    """Return Cohen's kappa with quadratic weights of rows of n and the sums of x, y, xx, yy, xy.

    With weights (x - y)^2 it is 1 - sum (x - y)^2 / (sum of (x_i - y_j)^2 over all i, j / n) (Cohen 1968, Psychol.
    Bull. 70, 213-220), so no table is needed.
    """
    n, x, y, xx, yy, xy = totals.T
    observed = xx + yy - 2 * xy
    expected = xx + yy - 2 * divide(x * y, n)
    small = np.abs(expected) <= 1e-9 * np.maximum(n, 1)
    return np.where(small, np.nan, 1 - divide(observed, np.where(small, 1.0, expected)))


def _preferences(view: View) -> Statistic:
    label, winner = view.pairs.label, view.outcome.winner
    wanted = (label != NONE) & (label != TIE)
    return view.tally.rate(
        "helpsteer/preference_accuracy",
        winner == label,
        wanted & (winner != NONE),
        wanted & (winner == NONE),
        why="no pair with a preference has a verdict",
    )


_SOURCE = "Wang et al. 2024, arXiv 2406.08673, section 2"
_METRICS: Final = (
    coefficient_row(
        "helpsteer/{dimension}/weighted_kappa",
        "{dimension}, quadratic kappa",
        "Cohen's kappa with quadratic weights between scores and grades of one attribute.",
        _SOURCE,
    ),
    coefficient_row(
        "helpsteer/{dimension}/pearson",
        "{dimension}, Pearson correlation",
        "Pearson's r between scores and grades of one attribute.",
        _SOURCE,
    ),
    undetermined_row("helpsteer/{dimension}", "{dimension}", _SOURCE),
    share_row(
        "helpsteer/preference_accuracy",
        "accuracy on preferences",
        "Share of preferences other than ties that the verdict equals; a verdict of tie counts as wrong.",
        "Wang et al. 2025, arXiv 2410.01257",
        headline=True,
    ),
)


HELPSTEER: Final = Benchmark(
    "helpsteer",
    "HelpSteer",
    kind="HelpSteer",
    license="CC BY 4.0",
    citation="Wang et al. 2024, NeurIPS, arXiv 2406.08673",
    homepage="https://huggingface.co/datasets/nvidia/HelpSteer2",
    expects="a file of HelpSteer, HelpSteer2 or HelpSteer3, as (gzipped) JSONL or Parquet",
    shapes=(_RATED, _PREFERRED, _PREFERRED3),
    read=_read_cases,
    rule=_rule,
    metrics=_METRICS,
    values={"dimension": ATTRIBUTES},
    words={
        "helpfulness": gettext("helpfulness"),
        "correctness": gettext("correctness"),
        "coherence": gettext("coherence"),
        "complexity": gettext("complexity"),
        "verbosity": gettext("verbosity"),
    },
    main_metric="helpsteer/preference_accuracy",
    human_labels=True,
)

BENCHMARKS: Final = (HELPSTEER,)
