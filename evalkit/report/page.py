"""The report page of a run: its contents; the files of `page/` have its layout."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evalkit.config import RunConfig
from evalkit.core.display import brief, dollars, exact, span
from evalkit.core.translation import gettext, in_every_language, joined
from evalkit.decision import judges_of, metrics_of
from evalkit.report.case_list import Asked
from evalkit.report.counts import RunCounts
from evalkit.report.decisions import USES, sentence
from evalkit.report.figures import Figure, run_figures
from evalkit.report.findings import findings_of
from evalkit.report.metric_names import Words, metric_words, note_words
from evalkit.report.page_budget import CaseData, PageBudget, select_cases
from evalkit.report.texts import FLAGS, PAGE, SCRIPT, TOKENS
from evalkit.results import RunResult
from evalkit.runs.layout import simulated_judges
from evalkit.scoring.catalog import JUDGE_COLUMNS, heading
from evalkit.scoring.stats.clusters import Clusters
from evalkit.types import Metric

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, values: Mapping[str, Any], *, data: Mapping[str, str], script: str | None = None) -> str:
    """Render a page with its style sheet and scripts from `page/` inline.

    Args:
        template: the name of the template in `page/`.
        values: the values of the template.
        data: JSON by the id of its script element; it must not contain `<`.
        script: the name of the page's script in `page/`.
    """
    code = "\n".join(asset(name) for name in ("switches.js", *([script] if script else [])))
    page = (
        _environment()
        .get_template(template)
        .render(
            values,
            style=asset("report.css"),
            script=code,
            script_hash=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
            data=data,
        )
    )
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _environment() -> Environment:
    # Imported here because the terminal's summary only needs the findings.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"number": exact, "brief": brief}
    environment.globals["span"] = span
    return environment


@cache
def asset(name: str) -> str:
    """Return a file of `page/`."""
    return (files("evalkit.report") / "page" / name).read_text(encoding="utf-8")


def language_of(config: RunConfig) -> str:
    """Return the initial language of a page, `en` or `zh`: the language of the run's prompts."""
    return "zh" if config.prompt.language.startswith("zh") else "en"


def level_of(config: RunConfig) -> str:
    """Return the level of a run's intervals, as `95%`."""
    return f"{100 * config.scoring.confidence:g}%"


def filled(words: Words, **values: str) -> Words:
    """Return words with each `{name}` replaced by its value."""
    english, chinese = words
    for name, value in values.items():
        english, chinese = english.replace(f"{{{name}}}", value), chinese.replace(f"{{{name}}}", value)
    return english, chinese


def script_json(value: Any) -> str:
    """Return JSON that cannot close its script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def render_report(result: RunResult, details: Mapping[str, Any] | None = None, asked: Asked | None = None) -> str:
    """Return one self-contained HTML page on a run; see `draw_report`."""
    return draw_report(result, details, asked)[0]


def draw_report(
    result: RunResult, details: Mapping[str, Any] | None = None, asked: Asked | None = None
) -> tuple[str, list[Figure]]:
    """Return one self-contained HTML page on a run (findings in words, figures, metrics, cases), and its figures.

    Text from data cannot become markup: templates and drawings escape it, the cases are JSON that a script shows as
    text, and the page's own policy runs no script but that one.

    Args:
        result: the run; its cases, judgments and verdicts are read once, in order.
        details: the content of the run folder's detail files, by name without suffix (`ranking`, `frontier`, …).
        asked: renders the prompts again; without it none is shown.
    """
    page_cases, counts = PageBudget(asked), RunCounts(cluster=_clusters(result))
    for case, verdicts, judgments in select_cases(result.cases, result.verdicts, result.judgments):
        page_cases.add(case, verdicts, judgments)
        counts.add(case, verdicts, judgments)
    cases = page_cases.data()
    figures = run_figures(result, counts, details or {})
    values = _values(result, cases) | {
        "figures": figures,
        "findings": findings_of(result, details),
    }
    data = {"words": script_json(SCRIPT), "data": cases.json}
    return render("report.html.j2", values, script="report.js", data=data), figures


def _clusters(result: RunResult) -> dict[str, int]:
    """Return the cluster of each case by its id; nothing where each case is its own."""
    clusters = result.manifest.get("clusters") or {}
    if clusters.get("count") == clusters.get("cases"):
        return {}
    return Clusters.of(result.config, result.cases).by_id(result.cases)


def _values(result: RunResult, cases: CaseData) -> dict[str, Any]:
    level = level_of(result.config)
    return {
        "title": " · ".join(_title(result)),
        "start": language_of(result.config),
        "level": level,
        "facts": _facts(result),
        "notes": [note_words(note) for note in (*_gate(result), *(result.manifest.get("notes") or []))],
        "metrics": _by_heading(result.metrics.values()),
        "judges": list(_judges(result)),
        "judge_columns": [(name, metric_words(name)) for name in _judge_columns(result.metrics)],
        "undetermined": _undetermined(result.metrics.values()),
        "embedded": _embedded(cases),
        "flags": [(name, words, cases.flags.get(name, 0)) for name, words in FLAGS.items()],
        "config": json.dumps(result.config.dump(), indent=2, ensure_ascii=False, default=str),
        "manifest": json.dumps(result.manifest, indent=2, ensure_ascii=False, default=str),
        "words": {key: filled(words, level=level) for key, words in PAGE.items()},
    }


def _judge_columns(metrics: Mapping[str, Metric]) -> list[str]:
    known = {name for judge in judges_of(metrics) for name in metrics_of(metrics, judge)}
    return [name for name in JUDGE_COLUMNS if name in known]


def _judges(result: RunResult) -> Iterator[dict[str, Any]]:
    """Yield each judge of a panel: what it is good for and why, and its metrics; no advice if judges are simulated."""
    planted = simulated_judges(result.manifest)
    for name, decision in result.decisions.items():
        metrics = metrics_of(result.metrics, name)
        yield {
            "name": name,
            "use": in_every_language(USES[decision.use]),
            "why": ("", "") if planted else in_every_language(sentence(decision, metrics)),
            "metrics": metrics,
        }


def _gate(result: RunResult) -> list[str]:
    """Return what became of each rule of the run's gate, if it has one."""
    rules = (result.manifest.get("gate") or {}).get("rules") or []
    return [f"gate: {one['metric']} {one['rule']}: {one['state']} ({one['why']})" for one in rules]


def _embedded(cases: CaseData) -> list[Words]:
    """Return what to say of the cases that the page does not hold, or not wholly."""
    counts = {name: f"{getattr(cases, name):,}" for name in ("total", "whole", "short", "left_out", "unlike")}
    return [filled(PAGE[name], **counts) for name in ("short", "left_out", "unlike") if getattr(cases, name)]


def _by_heading(metrics: Iterable[Metric]) -> dict[Words, list[tuple[Words, Metric, Words]]]:
    """Return the title, numbers and note of each metric with a value, by the heading of its group."""
    found: dict[Words, list[tuple[Words, Metric, Words]]] = {}
    for metric in metrics:
        if metric.value is not None:
            row = (metric_words(metric.name), metric, note_words(metric.note or ""))
            found.setdefault(in_every_language(heading(metric.name)), []).append(row)
    return found


def _undetermined(metrics: Iterable[Metric]) -> dict[Words, list[str]]:
    """Return the names of metrics without a value by the reason why."""
    found: dict[Words, list[str]] = {}
    for metric in metrics:
        if metric.value is None:
            found.setdefault(note_words(metric.note or ""), []).append(metric.name)
    return found


def _title(result: RunResult) -> list[str]:
    dataset = result.manifest.get("dataset") or {}
    parts = (result.manifest.get("mode"), result.manifest.get("judge"), dataset.get("name"))
    return [str(part) for part in parts if part] or ["evalkit"]


def _facts(result: RunResult) -> list[tuple[str, Words]]:
    started = str(result.manifest.get("started") or "")[:16].replace("T", " ")
    facts: list[tuple[str, Words]] = [("started", (f"{started} UTC",) * 2)] if started else []
    facts += [("cases", (f"{len(result.cases):,}",) * 2)]
    imported = result.manifest.get("imported")
    return [*facts, *([("imported", _imported(imported))] if imported else _spent(result))]


def _imported(brought: Mapping[str, Any]) -> Words:
    """Return where the judgments of an imported run come from."""
    facts = {"format": "?", "texts": 0, "differences": None, **brought}
    english, chinese = (text.format(**facts) for text in PAGE["imported_text"])
    if not facts["texts"] or facts["differences"] is None:
        return english, chinese
    more, more_zh = (text.format(**facts) for text in PAGE["reread_text"])
    return english + more, chinese + more_zh


def _spent(result: RunResult) -> list[tuple[str, Words]]:
    calls = {key: getattr(result.calls, key) for key in ("planned", "stored", "sent", "failed")}
    english, chinese = (text.format(**calls) for text in PAGE["calls_text"])
    tokens = in_every_language(
        joined(gettext("{n:,} {kind}", n=n, kind=TOKENS.get(kind, kind)) for kind, n in result.tokens.items())
    )
    cost = PAGE["unknown"] if result.cost_usd is None else (dollars(result.cost_usd),) * 2
    facts: list[tuple[str, Words]] = [("calls", (english, chinese)), ("cost", cost)]
    return [*facts, ("tokens", tokens)] if result.tokens else facts
