"""Topical-Chat and SummEval in UniEval's format (Zhong et al. 2022, EMNLP, arXiv 2210.07197), or SummEval's own file.

UniEval's meta-evaluations have machine scores and annotators' scores by dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from evalkit.benchmarks.benchmark import (
    Benchmark,
    Importer,
    Source,
    benchmark_files,
    checked_rows,
    coefficient_row,
    listed,
    shape,
    undetermined_row,
)
from evalkit.benchmarks.judgment_files import Peek, number, require
from evalkit.benchmarks.judgment_files import rows_of as judged_rows
from evalkit.benchmarks.records import (
    Answer,
    NumberedNames,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
    missing_record,
)
from evalkit.benchmarks.scoring_rules import View, by_dimension, pooled
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.datasets.named import Placed
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.scoring.catalog import MetricSpec
from evalkit.scoring.columns import ScoreColumns
from evalkit.scoring.stats.arrays import Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.types import Metric

_CHAT_DIMENSIONS = ("naturalness", "coherence", "engagingness", "groundedness", "understandability", "overall")

_SUMMARY_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance", "overall")

_ANNOTATED: Final = shape("id", "model_id", "decoded", "references", "expert_annotations")

_ARTICLE: Final = "text"

Coefficient = Callable[[Floats, Floats], Floats]


def _groups(benchmark: Benchmark, source: Source, key: Callable[[Row], Any]) -> Iterator[list[Placed]]:
    """Yield the rows of each key together, in order of first occurrence; the file is read into memory."""
    for file in benchmark_files(benchmark, source):
        together: dict[Any, list[Placed]] = {}
        for place, row in checked_rows(benchmark, file):
            together.setdefault(key(row), []).append((place, row))
        yield from together.values()


def _grades(rows: Sequence[Row], column: str = "scores") -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row[column])
    return {name: [row[column].get(name) for row in rows] for name in names}


def _systems(rows: Sequence[Row]) -> list[Row]:
    return [
        {"text": row["system_output"], "model": row["system_id"], "label": row["scores"].get("overall")} for row in rows
    ]


def for_the_next_turn(conversation: str) -> str:
    """Return the prompt for a reply in Topical-Chat."""
    return f"Write the next turn of this conversation.\n\n{conversation.strip()}"


def for_a_summary(text: str) -> str:
    """Return the prompt for a summary in SummEval."""
    return f"Summarize this text.\n\n{text}"


def _read_chats(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each dialogue and fact, with the replies of all systems."""
    for place, group in enumerate(_groups(benchmark, source, lambda row: (row["source"], row["context"])), 1):
        rows = [row for _, row in group]
        yield (
            group[0][0],
            {
                "id": str(place),
                "prompt": for_the_next_turn(rows[0]["source"]),
                "context": rows[0]["context"],
                "responses": _systems(rows),
                "grades": _grades(rows),
            },
        )


def _read_summaries(benchmark: Benchmark, source: Source) -> Iterator[Placed]:
    """Yield a case for each document, with the summaries of all systems."""
    for group in _groups(benchmark, source, lambda row: row.get("doc_id", row.get("id"))):
        rows = [_annotated(row, place) if row.keys() >= _ANNOTATED else row for place, row in group]
        yield (
            group[0][0],
            {
                "id": str(rows[0]["doc_id"]),
                "prompt": for_a_summary(rows[0]["source"]),
                "reference": rows[0].get("reference"),
                "responses": _systems(rows),
                "grades": _grades(rows),
            },
        )


def _annotated(row: Row, place: str) -> Row:
    """Convert a row of SummEval's own annotations to UniEval's format; a grade is the mean of three experts."""
    if _ARTICLE not in row:
        remedy = "add the articles with the authors' data_processing/pair_data.py --data_annotations"
        raise DatasetError("the annotations have no article", where=place, remedy=remedy)
    experts = listed(row["expert_annotations"], "expert_annotations", place)
    scores = {name: sum(one[name] for one in experts) / len(experts) for name in experts[0]}
    return {
        "doc_id": row["id"],
        "system_id": row["model_id"],
        "source": row[_ARTICLE],
        "reference": listed(row["references"], "references", place)[0],
        "system_output": row["decoded"],
        "scores": {**scores, "overall": sum(scores.values()) / len(scores)},
    }


def _chat_rule(view: View) -> list[Statistic | Metric]:
    """Return `topical_chat/DIMENSION/pearson`, `spearman` and `kendall` for five dimensions and `overall`.

    Turn-level: over all responses together (Zhong et al. 2022, arXiv 2210.07197, section 4.3, and their
    `correlation.py`). A dimension is judged by the criterion of its name, `overall` by the weighted mean
    of all if no criterion has that name.
    """
    return by_dimension(view, "topical_chat", _CHAT_DIMENSIONS, pooled)


def _summary_rule(view: View) -> list[Statistic | Metric]:
    """Return, for four dimensions and `overall`, correlations at sample, summary and system level.

    `summeval/DIMENSION/sample/pearson` (also `spearman`, `kendall`) is over all summaries together. `…/summary/…` is
    the mean over documents of the correlation within each, without documents whose scores or grades are all equal.
    `…/system/…` is over the systems' means (Fabbri et al. 2021, TACL 9, section 5; Zhong et al. 2022, arXiv
    2210.07197, section 4.2, and their `correlation.py`).
    """
    return by_dimension(view, "summeval", _SUMMARY_DIMENSIONS, _three_levels)


def _three_levels(view: View, name: str, scored: ScoreColumns) -> list[Statistic]:
    systems = [response.model or "" for case in view.cases for response in case.responses]
    return [
        *pooled(view, f"{name}/sample", scored),
        *summary_level(f"{name}/summary", scored, len(view.cases)),
        *system_level(f"{name}/system", scored, systems, len(view.cases)),
    ]


def pearson(x: Floats, y: Floats) -> Floats:
    """Return Pearson's r of each row of `x` and `y`, NaN if either is constant."""
    dx, dy = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    under = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    return divide((dx * dy).sum(axis=-1), np.where(under > 1e-12, under, 0.0))


def spearman(x: Floats, y: Floats) -> Floats:
    """Return Spearman's rho of each row: Pearson's r of mid-ranks."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: Floats) -> Floats:
    signs = np.sign(np.round(values[..., :, None] - values[..., None, :], 9))
    return np.asarray(signs.sum(axis=-1) / 2)


def kendall(x: Floats, y: Floats) -> Floats:
    """Return Kendall's tau-b of each row (Kendall 1945, Biometrika 33, 239-251)."""
    dx = np.sign(np.round(x[..., :, None] - x[..., None, :], 9))
    dy = np.sign(np.round(y[..., :, None] - y[..., None, :], 9))
    under = np.sqrt(np.abs(dx).sum(axis=(-2, -1)) * np.abs(dy).sum(axis=(-2, -1)))
    return divide((dx * dy).sum(axis=(-2, -1)), under)


COEFFICIENTS: dict[str, Coefficient] = {"pearson": pearson, "spearman": spearman, "kendall": kendall}


def summary_level(name: str, scored: ScoreColumns, cases: int) -> list[Statistic]:
    """Return the mean over cases of the correlation within each; cases without variation are omitted."""
    used = np.isfinite(scored.score) & np.isfinite(scored.grade)
    lost = int((np.isfinite(scored.grade) & ~used).sum())
    own = [np.flatnonzero(used & (scored.case == case)) for case in range(cases)]
    found = []
    for end, compute in COEFFICIENTS.items():
        values = np.array([_one(compute, scored.score[rows], scored.grade[rows]) for rows in own], dtype=np.float64)
        there = np.isfinite(values)
        found.append(
            Statistic(
                f"{name}/{end}",
                np.stack([np.where(there, values, 0.0), there.astype(np.float64)], axis=1),
                lambda totals: divide(totals[:, 0], totals[:, 1]),
                n=int(there.sum()),
                missing=lost,
                note="missing scores are omitted, without bounds" if lost else None,
                why="no case has scores and grades that vary",
                ends=(-1.0, 1.0),
            )
        )
    return found


def _one(compute: Coefficient, x: Floats, y: Floats) -> float:
    return float(compute(x, y)) if len(x) > 1 else float("nan")


def system_level(name: str, scored: ScoreColumns, systems: Sequence[str], cases: int) -> list[Statistic]:
    """Return the correlation of the systems' mean scores with their mean grades."""
    names = sorted(set(systems) - {""})
    used = np.isfinite(scored.score) & np.isfinite(scored.grade)
    lost = int((np.isfinite(scored.grade) & ~used).sum())
    system = np.array(systems, dtype=object)
    columns = []
    for one in names:
        rows = used & (system == one)
        tally = Tally(scored.case[rows], cases)
        columns += [tally(scored.score[rows]), tally(scored.grade[rows]), tally(np.ones(int(rows.sum())))]
    table = np.stack(columns, axis=1) if columns else np.zeros((cases, 0))

    def of(compute: Coefficient) -> Callable[[Floats], Floats]:
        def value(totals: Floats) -> Floats:
            if len(names) < 2:
                return np.full(len(totals), np.nan)
            sums, grades, counts = (totals[:, k::3] for k in range(3))
            return compute(divide(sums, counts), divide(grades, counts))

        return value

    note = "missing scores are omitted, without bounds" if lost else None
    return [
        Statistic(
            f"{name}/{end}", table, of(compute), n=len(names), missing=lost, note=note,
            why="fewer than two systems, or their means are all equal",
        )
        for end, compute in COEFFICIENTS.items()
    ]  # fmt: skip


OVERALL = "overall"

_BENCHMARKS = {
    "topical_chat": {"naturalness", "coherence", "engagingness", "groundedness", "understandability"},
    "summeval": {"coherence", "consistency", "fluency", "relevance"},
}

_SUMMARIES = "summeval"

_ASKED = {"topical_chat": for_the_next_turn, _SUMMARIES: for_a_summary}

_DOCUMENT = "doc_id"


def _sniff(start: Peek) -> bool:
    """Return whether a file's rows have both kinds of scores."""
    return start.has("predict_scores", "scores", "system_output")


def _read_judgments(path: Path, options: Options) -> ParsedFile:
    """Return a record for each output, scored on every dimension that both kinds of scores have.

    The dimension `overall`, or `--dimension`, is the output's score and grade; the others have weight 0. Human grades
    by dimension are kept too.

    Raises:
        ConfigError: If there is no such dimension.
    """
    rows = list(judged_rows(path))
    names = _dimensions(rows[0]) if rows else []
    chosen = options.dimension or (OVERALL if OVERALL in names else names[0] if names else OVERALL)
    if rows and chosen not in names:
        raise ConfigError("no such dimension", where=f"--dimension {chosen}", remedy=did_you_mean(chosen, names))
    benchmark = next((name for name, own in _BENCHMARKS.items() if own <= set(names)), None)
    summaries = benchmark == _SUMMARIES
    records, numbers, grades = [], NumberedNames(), _GradesByQuestion(names)
    for place, row in rows:
        source = str(row.get("source") or row.get("reference") or "")
        context = str(row["context"]) if row.get("context") else None
        named = row.get(_DOCUMENT)
        question = str(named) if named is not None else numbers[f"{source}\0{context or ''}"]
        given, system = require(row, "scores", place), str(row.get("system_id", ""))
        output = str(require(row, "system_output", place))
        answer = Answer(system or output, output, system or None, number(given.get(chosen)))
        reference = str(row["reference"]) if summaries and row.get("reference") else None
        said = _said(require(row, "predict_scores", place), names, options.judge or "unieval")
        known = grades.add(question, system or output, given)
        asked = _ASKED[benchmark](source) if benchmark else source
        records.append(Record(question, asked, (answer,), said, context=context, reference=reference, metadata=known))
    return ParsedFile(
        records,
        weights={name: float(name == chosen) for name in names},
        benchmark=benchmark,
        notes=(f"scores and human grades of '{chosen}'",),
    )


def _dimensions(first: tuple[str, Mapping[str, Any]]) -> list[str]:
    place, row = first
    given = require(row, "scores", place)
    return [name for name in require(row, "predict_scores", place) if name in given]


def _said(predicted: Mapping[str, Any], names: Sequence[str], judge: str) -> RecordedJudgment:
    scores = {name: score for name in names if (score := number(predicted.get(name))) is not None}
    return RecordedJudgment(judge, scores=scores) if scores else missing_record(judge, "no score")


class _GradesByQuestion:
    """Human grades by dimension for each question's outputs, in order of first occurrence."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._seen: set[tuple[str, str]] = set()
        self._of: dict[str, dict[str, list[float | None]]] = {}

    def add(self, question: str, system: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add an output's grades, and return the metadata shared by all records of its question."""
        grades = self._of.setdefault(question, {name: [] for name in self._names})
        if (question, system) not in self._seen:
            self._seen.add((question, system))
            for name in self._names:
                grades[name].append(number(given.get(name)))
        return {"grades": grades}


_IMPORTER: Final = Importer(
    "unieval", "UniEval's machine and human scores, such as Topical-Chat; --dimension NAME", _sniff, _read_judgments
)


def _correlations(name: str, title: str, over: str, source: str, *, headline: bool = False) -> list[MetricSpec]:
    """Return the rows of the three coefficients between scores and grades of one dimension."""
    names = {
        "pearson": ("Pearson correlation", "Pearson's r"),
        "spearman": ("Spearman correlation", "Spearman's rho"),
        "kendall": ("Kendall's tau", "Kendall's tau-b"),
    }
    return [
        coefficient_row(
            f"{name}/{end}",
            f"{title}, {words}",
            f"{own} between scores and grades of one dimension, {over}.",
            source,
            headline=headline,
        )
        for end, (words, own) in names.items()
    ]


_LEVELS = "over all summaries (sample), per document and averaged (summary), or over system means (system)"
_SUMMEVAL_SOURCE = "Fabbri et al. 2021, TACL 9, section 5; Zhong et al. 2022, arXiv 2210.07197, section 4.2"
_POOLED = "over all responses"
_TOPICAL_CHAT_SOURCE = "Zhong et al. 2022, arXiv 2210.07197, section 4.3"
_SUMMEVAL_METRICS: Final = (
    *_correlations("summeval/overall/{grouping}", "overall, {grouping}", _LEVELS, _SUMMEVAL_SOURCE, headline=True),
    *_correlations("summeval/{dimension}/{grouping}", "{dimension}, {grouping}", _LEVELS, _SUMMEVAL_SOURCE),
    undetermined_row("summeval/{dimension}", "{dimension}", _SUMMEVAL_SOURCE),
)
_TOPICAL_CHAT_METRICS: Final = (
    *_correlations("topical_chat/{dimension}", "{dimension}", _POOLED, _TOPICAL_CHAT_SOURCE),
    undetermined_row("topical_chat/{dimension}", "{dimension}", _TOPICAL_CHAT_SOURCE),
    *_correlations("topical_chat/overall", "overall", _POOLED, _TOPICAL_CHAT_SOURCE, headline=True),
)


TOPICAL_CHAT: Final = Benchmark(
    "topical_chat",
    "Topical-Chat (UniEval)",
    kind="Topical-Chat in UniEval's format",
    license="MIT (UniEval's file); CDLA-Sharing-1.0 (the dialogues)",
    citation="Mehri and Eskenazi 2020, ACL, arXiv 2005.00456; Zhong et al. 2022, EMNLP, arXiv 2210.07197",
    homepage="https://github.com/maszhongming/UniEval",
    expects="UniEval's reproduce/data/dialogue/topical_chat.json",
    shapes=(shape("source", "system_id", "system_output", "context", "scores"),),
    read=_read_chats,
    rule=_chat_rule,
    importer=_IMPORTER,
    metrics=_TOPICAL_CHAT_METRICS,
    values={"dimension": _CHAT_DIMENSIONS},
    words={
        "naturalness": gettext("naturalness"),
        "coherence": gettext("coherence"),
        "engagingness": gettext("engagingness"),
        "groundedness": gettext("groundedness"),
        "understandability": gettext("understandability"),
        "overall": gettext("overall"),
    },
    short_title="Topical-Chat",
    main_metric="topical_chat/overall/spearman",
    human_labels=True,
)


SUMMEVAL: Final = Benchmark(
    "summeval",
    "SummEval",
    kind="SummEval",
    license="MIT",
    citation="Fabbri et al. 2021, TACL 9, 391-409; Zhong et al. 2022, EMNLP, arXiv 2210.07197",
    homepage="https://github.com/Yale-LILY/SummEval",
    expects="UniEval's data/summarization/summeval.json, or SummEval's model_annotations.aligned.paired.jsonl",
    shapes=(shape("doc_id", "system_id", "source", "system_output", "scores"), _ANNOTATED),
    read=_read_summaries,
    rule=_summary_rule,
    importer=_IMPORTER,
    metrics=_SUMMEVAL_METRICS,
    values={
        "dimension": _SUMMARY_DIMENSIONS,
        "grouping": ("sample", "summary", "system"),
    },
    words={
        "coherence": gettext("coherence"),
        "consistency": gettext("consistency"),
        "fluency": gettext("fluency"),
        "relevance": gettext("relevance"),
        "overall": gettext("overall"),
        "sample": gettext("over all responses"),
        "summary": gettext("within documents"),
        "system": gettext("over systems"),
    },
    main_metric="summeval/overall/summary/spearman",
    human_labels=True,
)

BENCHMARKS: Final = (SUMMEVAL, TOPICAL_CHAT)
