"""Topical-Chat and SummEval in UniEval's format (Zhong et al. 2022, EMNLP, arXiv
2210.07197), or SummEval's own file.

UniEval's meta-evaluations have machine scores and annotators' scores by dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evalkit.benchmarks.shared.benchmark import (
    FACTS,
    Benchmark,
    Source,
    benchmark,
    listed,
    published_rows,
    shape,
)
from evalkit.benchmarks.shared.scoring_rules import View, by_dimension, by_name, pooled
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.values import Json
from evalkit.datasets.located_rows import Placed, Row
from evalkit.interop.layouts.judgment_files import (
    LocatedRow,
    grouped,
    located_rows,
    number,
    with_columns,
)
from evalkit.interop.layouts.layouts import Cells, records_of
from evalkit.interop.layouts.records import NumberedNames, Options, ParsedFile
from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.metrics.correlation import within_statistics
from evalkit.scoring.stats.arrays import Floats, divide
from evalkit.scoring.stats.statistic import Measures, Statistic, Table, Tally, undefined

_ANNOTATED: Final = shape(
    "id", "model_id", "decoded", "references", "expert_annotations"
)

_ARTICLE: Final = "text"


def _question_case(rows: Sequence[Row], **fields: Any) -> Row:
    """Return the case of one question, with the outputs and the grades of all systems."""
    outputs = [
        {
            "text": row["system_output"],
            "model": row["system_id"],
            "label": row["scores"].get("overall"),
        }
        for row in rows
    ]
    # Names in order of first occurrence: systems may have different dimensions.
    names = dict.fromkeys(name for row in rows for name in row["scores"])
    return {
        **fields,
        "responses": outputs,
        # One list of grades for each dimension, in the order of the responses.
        "grades": {name: [row["scores"].get(name) for row in rows] for name in names},
    }


def for_the_next_turn(conversation: str) -> str:
    """Return the prompt for a reply in Topical-Chat."""
    return f"Write the next turn of this conversation.\n\n{conversation.strip()}"


def for_a_summary(text: str) -> str:
    """Return the prompt for a summary in SummEval."""
    return f"Summarize this text.\n\n{text}"


def _read_chats(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each dialogue and fact, with the replies of all systems."""
    chats = grouped(
        published_rows(benchmark, source),
        # A case is one dialogue with one fact: the file has a dialogue with several
        # facts.
        lambda row: (row.file, row["source"], row["context"]),
    )
    for index, rows in enumerate(chats, 1):
        prompt = for_the_next_turn(rows[0]["source"])
        yield (
            rows[0].place,
            _question_case(
                rows, id=str(index), prompt=prompt, context=rows[0]["context"]
            ),
        )


def _read_summaries(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each document, with the summaries of all systems."""
    for group in grouped(
        published_rows(benchmark, source),
        # UniEval's file has doc_id, SummEval's own has id.
        lambda row: (row.file, row.get("doc_id", row.get("id"))),
    ):
        rows = [
            _convert_annotations(row) if row.keys() >= _ANNOTATED else row
            for row in group
        ]
        fields = {
            "id": str(rows[0]["doc_id"]),
            "prompt": for_a_summary(rows[0]["source"]),
        }
        yield (
            group[0].place,
            _question_case(rows, **fields, reference=rows[0].get("reference")),
        )


def _convert_annotations(row: LocatedRow) -> Row:
    """Convert a row of SummEval's own annotations to UniEval's format; a grade is the
    mean of three experts.
    """
    if _ARTICLE not in row:
        remedy = (
            "add the articles with the authors' "
            "data_processing/pair_data.py --data_annotations"
        )
        raise DatasetError(
            "the annotations have no article", where=row.place, remedy=remedy
        )
    # Three experts, each with a score for every dimension.
    experts = listed(row["expert_annotations"], "expert_annotations", row.place)
    scores = {
        name: sum(annotation[name] for annotation in experts) / len(experts)
        for name in experts[0]
    }
    return {
        "doc_id": row["id"],
        "system_id": row["model_id"],
        "source": row[_ARTICLE],
        # The first of several references is the one of the dataset.
        "reference": listed(row["references"], "references", row.place)[0],
        "system_output": row["decoded"],
        # SummEval has no overall grade: the mean of its dimensions is used.
        "scores": {**scores, "overall": sum(scores.values()) / len(scores)},
    }


def _dimensions_of(name: str) -> Sequence[str]:
    dimensions: Sequence[str] = FACTS[name]["values"]["dimension"]
    return dimensions


def _chat_rule(view: View) -> Measures:
    """Return `topical_chat/DIMENSION/pearson`, `spearman` and `kendall` for five
    dimensions and `overall`.

    Turn-level: over all responses together (Zhong et al. 2022, arXiv 2210.07197, section 4.3, and
    their `correlation.py`). A dimension is judged by the criterion of its name, `overall` by the
    weighted mean of all if no criterion has that name.
    """
    return by_dimension(view, "topical_chat", _dimensions_of("topical_chat"), pooled)


def _summary_rule(view: View) -> Measures:
    """Return, for four dimensions and `overall`, correlations at sample, summary and system level.

    `summeval/DIMENSION/sample/pearson` (also `spearman`, `kendall`) is over all summaries together.
    `…/summary/…` is the mean over documents of the correlation within each, without documents whose
    scores or grades are all equal. `…/system/…` is over the systems' means (Fabbri et al. 2021,
    TACL 9, section 5; Zhong et al. 2022, arXiv 2210.07197, section 4.2, and their
    `correlation.py`).
    """
    return by_dimension(view, "summeval", _dimensions_of("summeval"), _three_levels)


def _three_levels(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    within = within_statistics(scored, view.outcome)
    return [
        *pooled(view, f"{name}/sample", scored),
        *(
            replace(statistic, name=f"{name}/summary/{_coefficient(statistic)}")
            for statistic in within
        ),
        *system_level(f"{name}/system", scored, view.systems, len(view.cases)),
    ]


def _coefficient(statistic: Statistic) -> str:
    return statistic.name.rpartition("/")[2].removesuffix("_within")


def _differences(values: Floats) -> Floats:
    """Return the signs of all differences within each row: (rows, values, values)."""
    # [..., i, j] is value i minus value j. Rounding keeps equal means equal.
    return np.sign(np.round(values[..., :, None] - values[..., None, :], 9))


COEFFICIENTS: Final[Mapping[str, Callable[[Floats], Floats]]] = {
    "pearson": lambda values: values - values.mean(axis=-1, keepdims=True),
    # The sum of signs is a linear function of mid-ranks, so the correlation is the same.
    "spearman": lambda values: _differences(values).sum(axis=-1),
    # All (i, j) at once: pairs that are tied are 0, as in tau-b.
    "kendall": lambda values: _differences(values).reshape(len(values), -1),
}
"""What each coefficient correlates, centered by row: values; mid-ranks; or signs of differences,
which is tau-b."""


def _correlation(x: Floats, y: Floats) -> Floats:
    """Return the correlation of each row of two centered arrays, NaN if either is constant."""
    under = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    # Constant values have a spread of 0; 1e-12 absorbs rounding.
    return divide((x * y).sum(axis=-1), np.where(under > 1e-12, under, 0.0))


def system_level(
    name: str, scored: ScoreColumns, systems: NDArray[np.object_], cases: int
) -> list[Statistic]:
    """Return the correlation of the systems' mean scores with their mean grades."""
    # Only responses with both, so that both means of a system are over the same ones.
    used = np.isfinite(scored.score) & np.isfinite(scored.grade)
    lost = int((np.isfinite(scored.grade) & ~used).sum())
    names = by_name(list(systems))
    columns = list[Floats]()
    for system_rows in names.values():
        # Three columns by system: the sum of scores, the sum of grades and the count.
        rows = used & system_rows
        columns += Tally(scored.case[rows], cases).columns(
            scored.score[rows], scored.grade[rows], np.ones(rows.sum())
        )

    def of(centered: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        """Return the value of a correlation of the mean scores and grades of systems."""

        def value(totals: Floats) -> Floats:
            if len(names) < 2:
                return undefined(totals)
            # (resamples, systems) each: every third column.
            sums, grades, counts = (totals[:, k::3] for k in range(3))
            # A system that a resample lacks divides by 0, which `divide` makes NaN.
            return _correlation(
                centered(divide(sums, counts)), centered(divide(grades, counts))
            )

        return value

    note = "missing scores are omitted, without bounds" if lost else None
    why = "fewer than two systems, or their means are all equal"
    table = Table(tuple(columns), cases)
    return [
        Statistic(
            f"{name}/{end}",
            table,
            of(centered),
            n=len(names),
            missing=lost,
            note=note,
            why=why,
        )
        for end, centered in COEFFICIENTS.items()
    ]


OVERALL = "overall"

_ASKED = {"topical_chat": for_the_next_turn, "summeval": for_a_summary}


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each output, scored on every dimension that both kinds of scores have.

    The dimension `overall`, or `--dimension`, is the output's score and grade; the others have
    weight 0. Human grades by dimension are kept too.

    Raises:
        ConfigError: If there is no such dimension.
    """
    rows = list(located_rows(path))
    dimensions = _dimensions(rows[0]) if rows else []
    chosen = options.dimension or _usual_dimension(dimensions)
    if rows and chosen not in dimensions:
        raise ConfigError(
            "no such dimension",
            where=f"--dimension {chosen}",
            remedy=did_you_mean(chosen, dimensions),
        )
    benchmark = _benchmark_with(dimensions)
    # Questions without an id are numbered in order of first occurrence.
    numbers = NumberedNames()
    # question -> grades by dimension, each a list in the order of the question's outputs
    grades = {}
    for group in grouped(rows, lambda row: _question(row, numbers)):
        question = _question(group[0], numbers)
        grades[question] = _grades_of(group, dimensions)

    def cells(row: LocatedRow) -> Iterator[Cells]:
        """Yield a row as a record with UniEval's scores."""
        question = _question(row, numbers)
        source = _source(row)
        prompt = _ASKED[benchmark](source) if benchmark else source
        predicted = {
            name: number(row["predict_scores"].get(name)) for name in dimensions
        }
        scores = {
            f"score.{name}": score
            for name, score in predicted.items()
            if score is not None
        }
        yield {
            "id": question,
            "prompt": prompt,
            "context": row.get("context"),
            "reference": row.get("reference") if benchmark == "summeval" else None,
            "response": row["system_output"],
            "model": row.get("system_id") or None,
            "grade": number(row["scores"].get(chosen)),
            "judge": "unieval",
            **scores,
            "error": "no score",
            "metadata": {"grades": grades[question]},
        }

    return ParsedFile(
        records_of(rows, cells, "response", options),
        # Weight 1 for the chosen dimension: it is the score, and the others are shown with it.
        weights={name: float(name == chosen) for name in dimensions},
        benchmark=benchmark,
        notes=(f"scores and human grades of '{chosen}'",),
    )


def _usual_dimension(dimensions: Sequence[str]) -> str:
    """Return `overall`, or the first dimension without it."""
    if OVERALL in dimensions or not dimensions:
        return OVERALL
    return dimensions[0]


def _benchmark_with(dimensions: Sequence[str]) -> str | None:
    """Return the benchmark whose dimensions a file has; other data of this format has none."""
    present = {*dimensions, OVERALL}
    for name in _ASKED:
        if present.issuperset(_dimensions_of(name)):
            return name
    return None


def _dimensions(row: LocatedRow) -> list[str]:
    graded = row["scores"]
    return [name for name in row["predict_scores"] if name in graded]


def _source(row: LocatedRow) -> str:
    return str(row.get("source") or row.get("reference") or "")


def _question(row: LocatedRow, numbers: NumberedNames) -> str:
    name = row.get("doc_id")
    if name is not None:
        return str(name)
    # The separator keeps a source and a context apart.
    return numbers[f"{_source(row)}\0{row.get('context') or ''}"]


def _grades_of(
    rows: Sequence[LocatedRow], names: Sequence[str]
) -> dict[str, list[float | None]]:
    """Return the grades by dimension of a question's outputs, each system's first, in order."""
    outputs: dict[str, Row] = {}
    for row in rows:
        outputs.setdefault(
            str(row.get("system_id", "")) or str(row["system_output"]), row["scores"]
        )
    return {
        name: [number(scores.get(name)) for scores in outputs.values()]
        for name in names
    }


_IMPORT: Final[Json] = {
    "sniff": with_columns("predict_scores", "scores", "system_output"),
    "judgments": _read_judgments,
}
BENCHMARKS: Final = (
    benchmark("summeval", read=_read_summaries, rule=_summary_rule, **_IMPORT),
    benchmark("topical_chat", read=_read_chats, rule=_chat_rule, **_IMPORT),
)
