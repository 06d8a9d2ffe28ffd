"""The report page of a sweep: which configuration is best, which do not differ
significantly, and what each costs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from evalkit.core.display import dollars
from evalkit.core.patterns import lazy_pattern
from evalkit.core.translation import in_every_language
from evalkit.core.values import JsonObject, frozen
from evalkit.report.figures.sweep_figures import (
    MOST_ROWS,
    by_metric,
)
from evalkit.report.findings.decisions import USES, simulated
from evalkit.report.findings.finding import finding
from evalkit.report.findings.sweeps import contest_findings
from evalkit.report.page import filled, render
from evalkit.report.sweep_names import folded_names, no_effect, settings_of
from evalkit.report.texts import SWEEP, Words, metric_words
from evalkit.runs.side_by_side import PAGE as CASES_PAGE
from evalkit.scoring.leaderboard import Leaderboard, Standing

MAIN = 5
"""The number of metrics in the leaderboard before all are shown."""
# A word of three or more characters that is neither a number nor a YAML constant.
_WORD = lazy_pattern(
    r"(?!(?:true|false|null|none|on|off|yes|no)$)[^\W\d][^=,]{2,}", re.IGNORECASE
)


@frozen
class SweepFacts:
    """Facts on a sweep's page in addition to its leaderboard.

    `datasets` has dataset names by fingerprint, `pages` the jobs that have a page. `cost_usd` is
    `None` if a price is unknown. `language` is the initial language. `simulated` has the names of
    simulated judges. `cases` has, by job, the address of its wrong cases and their number.
    """

    title: str
    started: str | None = None
    cost_usd: float | None = None
    datasets: Mapping[str, str] | None = None
    pages: Sequence[str] = ()
    language: str = "en"
    simulated: Sequence[str] = ()
    cases: Mapping[str, tuple[str, int]] | None = None


def render_sweep(board: Leaderboard, facts: SweepFacts) -> str:
    """Return one self-contained HTML page on a sweep; it links to the pages of its
    jobs, `JOB/report.html`.
    """
    return render(
        "sweep.html.j2", sweep_values(board, facts), script="sweep.js", data={}
    )


def sweep_values(board: Leaderboard, facts: SweepFacts) -> JsonObject:
    """Return the values of the page's template."""
    # Before folding: the page counts all jobs.
    jobs = len(board.rows)
    notes = [
        finding(board.by or "leaderboard", "info", text) for text in no_effect(board)
    ]
    # A folded row has the names of all its jobs.
    folded = folded_names(board)
    rows = (replace(row, name=folded[row.job]) for row in board.folded)
    board = replace(board, rows=tuple(rows))
    settings = {row.job: settings_of(row.name) for row in board.rows}
    varying = _varying(list(settings.values()))
    brief = _self_explanatory(list(settings.values()), varying)
    names = {
        row.job: _name(row, settings[row.job], varying, brief) for row in board.rows
    }
    level = f"{100 * board.confidence:g}%"
    datasets = facts.datasets or {}
    several = len({row.dataset for row in board.rows}) > 1
    # The first metrics are shown; a switch shows all.
    main = board.main_columns()[:MAIN]
    return {
        "title": facts.title,
        "start": facts.language,
        "level": level,
        "facts": _sweep_facts(board, facts, jobs),
        "findings": [
            *simulated(facts.simulated),
            *contest_findings(board, names, datasets),
            *notes,
        ],
        "words": {
            key: filled(words, level=level, margin=f"{board.margin:g}")
            for key, words in SWEEP.items()
        },
        "columns": [(name, metric_words(name), name in main) for name in board.columns],
        "omitted": len(board.columns) > len(main),
        "keys": varying,
        "rows": [
            _job_row(row, settings[row.job], varying, facts) for row in board.rows
        ],
        "several": several,
        "cases_page": CASES_PAGE if facts.cases else None,
        "same": _shared_settings(list(settings.values()), varying),
        "metrics": [
            figure
            for name in board.columns
            if (figure := by_metric(name, board.rows, names)) is not None
        ],
        "beyond": _beyond(len(board.rows)),
    }


def _varying(settings: Sequence[Mapping[str, str]]) -> list[str]:
    keys = dict.fromkeys(key for setting in settings for key in setting)
    # Keys that some jobs do not have vary too.
    return [key for key in keys if len({setting.get(key) for setting in settings}) > 1]


def _shared_settings(
    settings: Sequence[Mapping[str, str]], varying: Sequence[str]
) -> list[str]:
    return [
        f"{key}={value}"
        for key, value in (settings[0].items() if settings else ())
        if key not in varying
    ]


def _self_explanatory(
    settings: Sequence[Mapping[str, str]], varying: Sequence[str]
) -> set[str]:
    """Return the keys whose values need no key to be understood: words, but not numbers
    or `none`.
    """
    return {
        key
        for key in varying
        if all(_WORD.fullmatch(setting[key]) for setting in settings if key in setting)
    }


def _short(key: str, varying: Sequence[str]) -> str:
    """Return the last part of a key, or the whole key if another key has the same last part."""
    last = key.rpartition(".")[2]
    # `judge.model` is `model`, unless another key ends with the same word.
    alike = [name for name in varying if name.rpartition(".")[2] == last]
    if len(alike) == 1:
        return last
    return key.removeprefix("criteria.")


def _name(
    row: Standing,
    settings: Mapping[str, str],
    varying: Sequence[str],
    brief: Collection[str],
) -> str:
    """Return a job's name: its settings as briefly as possible."""
    parts = (
        # A word explains itself: `gpt-4o`, but `temperature=0`.
        settings[key] if key in brief else f"{_short(key, varying)}={settings[key]}"
        for key in varying
        if key in settings
    )
    return " · ".join(parts) or row.name or row.job


def _sweep_facts(
    board: Leaderboard, facts: SweepFacts, jobs: int
) -> list[tuple[str, Words]]:
    """Return the facts at the top of the page; those that are not known are omitted."""
    data = ", ".join(dict.fromkeys((facts.datasets or {}).values()))
    entries: list[tuple[str, Words]] = [("jobs", (f"{jobs:,}",) * 2)]
    if board.by:
        entries.append(("by", metric_words(board.by)))
    if data:
        entries.append(("data", (data, data)))
    if facts.started:
        # To the minute.
        started = facts.started[:16].replace("T", " ")
        entries.append(("started", (f"{started} UTC",) * 2))
    if facts.cost_usd is not None:
        entries.append(("spent", (dollars(facts.cost_usd),) * 2))
    return entries


def _job_row(
    row: Standing,
    settings: Mapping[str, str],
    varying: Sequence[str],
    facts: SweepFacts,
) -> JsonObject:
    """Return a row of the leaderboard as values of the page."""
    # A range of ranks only if the rank is open.
    is_open = row.rank_low != row.rank_high
    return {
        "rank": row.rank,
        "ranks": (row.rank_low, row.rank_high) if is_open else None,
        "name": row.name if not varying else "",
        "job": row.job,
        "href": f"{quote(row.job)}/report.html" if row.job in facts.pages else None,
        "dataset": (facts.datasets or {}).get(row.dataset) or row.dataset[:12],
        "settings": [settings.get(key, "") for key in varying],
        "letters": row.letters or "",
        "decision": in_every_language(USES[row.decision.use]),
        "wrong": (facts.cases or {}).get(row.job),
        "pareto": row.pareto,
        "metrics": row.metrics,
    }


def _beyond(total: int) -> Words | None:
    if total > MOST_ROWS:
        return filled(SWEEP["beyond"], most=f"{MOST_ROWS:,}", total=f"{total:,}")
    return None
