"""From values to a page: templates that escape what they are given, and a policy that runs one script only."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evalkit.report.wording import Words
from evalkit.types import Metric

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, values: Mapping[str, Any], *, data: Mapping[str, str], script: str | None = None) -> str:
    """Return a page of `template`, with its style sheet, switches and script of `page/` inside.

    `data` is JSON by the id of the element it stands in; it must not hold `<`.
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
    # Imported here so that the terminal's summary, which only wants the findings, starts without a template engine.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"number": number, "brief": brief}
    environment.globals["span"] = span
    return environment


@cache
def asset(name: str) -> str:
    """Return a file of `page/`."""
    return (files("evalkit.report") / "page" / name).read_text(encoding="utf-8")


def language_of(config: Mapping[str, Any]) -> str:
    """Return the language a page starts in, `en` or `zh`: that of the run's prompts."""
    return "zh" if str((config.get("prompt") or {}).get("language") or "").startswith("zh") else "en"


def level_of(config: Mapping[str, Any]) -> str:
    """Return the level of a run's intervals, as `95%`."""
    return f"{100 * float((config.get('scoring') or {}).get('confidence', 0.95)):g}%"


def filled(words: Words, **values: str) -> Words:
    """Return words with each `{name}` replaced by its value."""
    english, chinese = words
    for name, value in values.items():
        english, chinese = english.replace(f"{{{name}}}", value), chinese.replace(f"{{{name}}}", value)
    return english, chinese


def script_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def number(value: float | None) -> str:
    """Return a number with three decimals, a whole one without, a small one with two digits that count, or nothing."""
    if value is None:
        return ""
    if 0 < abs(value) < 0.0095:
        return f"{value:.2g}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def span(low: float, high: float) -> str:
    """Return an interval as `[0.380, 0.660]`, both ends with the same decimals unless all of it is small."""
    if 0 < high < 0.0095:
        return f"[{low:.2g}, {high:.2g}]"
    digits = 0 if float(low).is_integer() and float(high).is_integer() else 3
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]"


def brief(value: float, metric: Metric) -> str:
    """Return a number of a metric with as many decimals as the metric's value asks for: three digits that count."""
    size = abs(metric.value or 0.0)
    return f"{value:,.{5 if 0 < size < 0.01 else 3 if size < 10 else 1}f}"
