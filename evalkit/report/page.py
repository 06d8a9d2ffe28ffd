"""The page on a run: what is on it is decided here, how it looks in the files of `page/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from evalkit.config import RunConfig
from evalkit.report.asked import Asked
from evalkit.report.embedding import CaseData, Embedding, together
from evalkit.report.figures import Figure, run_figures
from evalkit.report.finding import dollars
from evalkit.report.findings import findings_of
from evalkit.report.pagewords import FLAGS, PAGE, SCRIPT, TOKENS
from evalkit.report.rendering import filled, language_of, level_of, render, script_json
from evalkit.report.tallies import Tallies
from evalkit.report.wording import Words, metric_words
from evalkit.scoring.clusters import Clusters
from evalkit.types import Metric, RunResult


def render_report(result: RunResult, further: Mapping[str, Any] | None = None, asked: Asked | None = None) -> str:
    """Return one self-contained HTML page on a run; see `draw_report`."""
    return draw_report(result, further, asked)[0]


def draw_report(
    result: RunResult, further: Mapping[str, Any] | None = None, asked: Asked | None = None
) -> tuple[str, list[Figure]]:
    """Return one self-contained HTML page on a run (findings in words, figures, metrics, cases), and its figures.

    Text from data cannot become markup: templates and drawings escape it, the cases are JSON that a script shows as
    text, and the page's own policy runs no script but that one.

    Args:
        result: the run; its cases, judgments and verdicts are read once, in order.
        further: what the run folder's further JSON files hold, by name without suffix (`ranking`, `frontier`, …).
        asked: renders the prompts again; without it none is shown.
    """
    embedding, tallies = Embedding(asked), Tallies(cluster=_clusters(result))
    for case, verdicts, judgments in together(result.cases, result.verdicts, result.judgments):
        embedding.add(case, verdicts, judgments)
        tallies.add(case, verdicts, judgments)
    cases = embedding.data()
    figures = run_figures(result, tallies, further or {})
    values = _values(result, cases) | {
        "figures": figures,
        "findings": findings_of(result, further),
    }
    data = {"words": script_json(SCRIPT), "data": cases.json}
    return render("report.html.j2", values, script="report.js", data=data), figures


def _clusters(result: RunResult) -> dict[str, int]:
    """Return the cluster of each case by its id; nothing where each case is its own."""
    told = result.manifest.get("clusters") or {}
    if told.get("count") == told.get("cases"):
        return {}
    return Clusters.of(RunConfig.model_validate(result.config), result.cases).by_id(result.cases)


def _values(result: RunResult, cases: CaseData) -> dict[str, Any]:
    level = level_of(result.config)
    return {
        "title": " · ".join(_title(result)),
        "start": language_of(result.config),
        "level": level,
        "facts": _facts(result),
        "notes": [*_gate(result), *(result.manifest.get("notes") or [])],
        "metrics": [(metric_words(m.name), m) for m in result.metrics.values() if m.value is not None],
        "undetermined": _undetermined(result.metrics.values()),
        "embedded": _embedded(cases),
        "flags": [(name, words, cases.flags.get(name, 0)) for name, words in FLAGS.items()],
        "config": json.dumps(result.config, indent=2, ensure_ascii=False, default=str),
        "manifest": json.dumps(result.manifest, indent=2, ensure_ascii=False, default=str),
        "words": {key: filled(words, level=level) for key, words in PAGE.items()},
    }


def _gate(result: RunResult) -> list[str]:
    """Return what became of each rule of the run's gate, if it has one."""
    rules = (result.manifest.get("gate") or {}).get("rules") or []
    return [f"gate: {one['metric']} {one['rule']}: {one['state']} ({one['why']})" for one in rules]


def _embedded(cases: CaseData) -> list[Words]:
    """Return what to say of the cases that the page does not hold, or not wholly."""
    counts = {name: f"{getattr(cases, name):,}" for name in ("total", "whole", "short", "left_out", "unlike")}
    return [filled(PAGE[name], **counts) for name in ("short", "left_out", "unlike") if getattr(cases, name)]


def _undetermined(metrics: Iterable[Metric]) -> dict[str, list[str]]:
    """Return the names of metrics without a value by the reason why."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        if metric.value is None:
            found.setdefault(metric.note or "", []).append(metric.name)
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
    said = {"format": "?", "texts": 0, "differences": None, **brought}
    english, chinese = (text.format(**said) for text in PAGE["imported_text"])
    if not said["texts"] or said["differences"] is None:
        return english, chinese
    more, more_zh = (text.format(**said) for text in PAGE["reread_text"])
    return english + more, chinese + more_zh


def _spent(result: RunResult) -> list[tuple[str, Words]]:
    calls = {key: getattr(result.calls, key) for key in ("planned", "stored", "sent", "failed")}
    english, chinese = (text.format(**calls) for text in PAGE["calls_text"])
    tokens = ", ".join(f"{count:,} {kind}" for kind, count in result.tokens.items())
    tokens_zh = "，".join(f"{TOKENS.get(kind, kind)} {count:,}" for kind, count in result.tokens.items())
    cost = PAGE["unknown"] if result.cost_usd is None else (dollars(result.cost_usd),) * 2
    facts: list[tuple[str, Words]] = [("calls", (english, chinese)), ("cost", cost)]
    return [*facts, ("tokens", (tokens, tokens_zh))] if tokens else facts
