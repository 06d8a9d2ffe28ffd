"""The page: what is on it is decided here, how it looks in the files of `page/`."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from evalkit.report.cases import case_data
from evalkit.report.findings import findings
from evalkit.report.plot import LEFT, RIGHT, ROW, WIDTH, panels
from evalkit.report.wording import FLAGS, PAGE, SCRIPT, Words, metric_words
from evalkit.types import Metric, RunResult


def render_report(result: RunResult) -> str:
    """Return one self-contained HTML page on a run: findings in words, metrics with intervals, a plot, every case.

    Text from data cannot become markup: templates escape it, the cases are JSON that a script shows as text, and the
    page's own policy runs no script but that one.
    """
    # Imported here so that the terminal's summary, which only wants the findings, starts without a template engine.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(loader=FunctionLoader(_file), autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = number
    environment.globals["span"] = span
    page = environment.get_template("report.html.j2").render(_values(result))
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _file(name: str) -> str:
    return (files("evalkit.report") / "page" / name).read_text(encoding="utf-8")


def _values(result: RunResult) -> dict[str, Any]:
    mode = str(result.manifest.get("mode") or "")
    cases = case_data(result)
    script = _file("report.js")
    level = f"{100 * float(result.config.get('scoring', {}).get('confidence', 0.95)):g} %"
    return {
        "title": " · ".join(_title(result)),
        "mode": mode,
        "facts": _facts(result),
        "findings": findings(result.metrics, mode),
        "notes": result.manifest.get("notes") or [],
        "panels": panels(result.metrics),
        "drawing": {"left": LEFT, "right": RIGHT, "width": WIDTH, "row": ROW},
        "metrics": [(metric_words(m.name), m) for m in result.metrics.values() if m.value is not None],
        "undetermined": _undetermined(result.metrics.values()),
        "cases": cases,
        "flags": [(name, words, cases.flags.get(name, 0)) for name, words in FLAGS.items()],
        "config": json.dumps(result.config, indent=2, ensure_ascii=False),
        "manifest": json.dumps(result.manifest, indent=2, ensure_ascii=False),
        "words": {key: _with_level(words, level) for key, words in PAGE.items()},
        "script_words": _script_json(SCRIPT),
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": _file("report.css"),
    }


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
    calls = {key: getattr(result.calls, key) for key in ("planned", "stored", "sent", "failed")}
    english, chinese = (text.format(**calls) for text in PAGE["calls_text"])
    tokens = ", ".join(f"{count:,} {kind}" for kind, count in result.tokens.items())
    cost = PAGE["unknown"] if result.cost_usd is None else (f"US$ {result.cost_usd:.4g}",) * 2
    started = str(result.manifest.get("started") or "")[:16].replace("T", " ")
    facts: list[tuple[str, Words]] = [("started", (f"{started} UTC",) * 2)] if started else []
    facts += [("cases", (f"{len(result.cases):,}",) * 2)]
    facts += [("calls", (english, chinese)), ("cost", cost)]
    return [*facts, ("tokens", (tokens, tokens))] if tokens else facts


def _with_level(words: Words, level: str) -> Words:
    return words[0].replace("{level}", level), words[1].replace("{level}", level)


def _script_json(words: Mapping[str, Words]) -> str:
    return json.dumps(words, ensure_ascii=False).replace("<", "\\u003c")


def number(value: float | None) -> str:
    """Return a number with three decimals, a whole one without, and nothing where there is none."""
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def span(low: float, high: float) -> str:
    """Return an interval as `[0.380, 0.660]`, both ends with the same decimals."""
    digits = 0 if float(low).is_integer() and float(high).is_integer() else 3
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]"
