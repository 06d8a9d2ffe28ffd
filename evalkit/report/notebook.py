"""What notebooks show of a run, a leaderboard, a comparison and a judge: the tables of
the report, in one language.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from evalkit.core.display import printable
from evalkit.core.types import Metric
from evalkit.core.values import Json
from evalkit.report.comparison import differences_table, sentences, values_table
from evalkit.report.findings.decisions import TONES
from evalkit.report.findings.finding import Finding
from evalkit.report.page import language_of, metric_table, render, table_values
from evalkit.report.sweep_page import SweepFacts, sweep_values
from evalkit.report.texts import SWEEP
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import CATALOG
from evalkit.scoring.compare import Comparison
from evalkit.scoring.decision import Use
from evalkit.scoring.leaderboard import Leaderboard

_NONE: Final[Json] = {
    "findings": (),
    "judges": (),
    "subsets": (),
    "headline": {},
    "metrics": {},
    "rows": (),
    "tables": (),
    "notes": (),
}


def html_of(value: RunResult | Leaderboard | Comparison) -> str:
    """Return a value as HTML with its own style."""
    match value:
        case RunResult():
            first = [
                metric
                for name, metric in value.metrics.items()
                if CATALOG.is_headline(name)
            ]
            headline = metric_table(first, "")["metrics"]
            return _html(
                {**table_values(value), "headline": headline}, language_of(value.config)
            )
        case Leaderboard():
            return _html(
                {
                    **sweep_values(value, SweepFacts(SWEEP["leaderboard"][0])),
                    "metrics": {},
                }
            )
        case Comparison():
            title = f"{' · '.join(value.runs)} ({value.cases} shared cases)"
            tables = (values_table(value), differences_table(value))
            notes = [(text, text) for text in sentences(value)]
            return _html({"title": title, "tables": tables, "notes": notes})


def judge_html(
    title: str, use: Use, sentence: str, metrics: Collection[Metric], level: str
) -> str:
    """Return what is known about a judge as HTML: its decision, and its metrics with
    intervals of a level.
    """
    finding = Finding("decision", TONES[use], sentence, sentence)
    return _html(
        {"title": title, "findings": [finding], **metric_table(metrics, level)}
    )


def _html(values: Json, language: str = "en") -> str:
    page = render("notebook.html.j2", {**_NONE, **values}, data={})
    other_language = "en" if language == "zh" else "zh"
    return printable(
        re.sub(
            f'<span class="{other_language}" lang="{other_language}">[^<]*</span>',
            "",
            page,
        )
    )
