"""The files of a report: the page of a run, its findings as Markdown, and its figures as SVG."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from evalkit.config import RunConfig
from evalkit.core.deduplication import statements_of
from evalkit.core.display import (
    brief,
    dollars,
    exact,
    p_value,
    printable,
    span,
    xml_text,
)
from evalkit.core.errors import EvalkitError
from evalkit.core.image_files import picture_sources
from evalkit.core.patterns import lazy_pattern
from evalkit.core.protocols import Evaluator
from evalkit.core.resources import project
from evalkit.core.translation import (
    Message,
    Text,
    Translator,
    gettext,
    in_every_language,
    joined,
    pgettext,
    translator,
)
from evalkit.core.types import Metric
from evalkit.core.values import Json, JsonObject
from evalkit.report.case_list import (
    Asked,
    CaseData,
    PageBudget,
    render_prompts,
    select_cases,
)
from evalkit.report.counts import RunCounts
from evalkit.report.figures import Figure, run_figures
from evalkit.report.findings import findings_of
from evalkit.report.findings.causes import cause_table
from evalkit.report.findings.decisions import USES, sentence
from evalkit.report.findings.finding import as_markdown
from evalkit.report.texts import (
    FLAGS,
    PAGE,
    SCRIPT,
    TOKENS,
    Words,
    metric_words,
    note_text,
    note_words,
)
from evalkit.runs.layout import CAUSES, FIGURES, FINDINGS, PROMPTS
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import JUDGE_COLUMNS, heading
from evalkit.scoring.decision import Metrics, judges_of, metrics_of
from evalkit.scoring.gate_rules import DECISION
from evalkit.scoring.pipeline import Scores
from evalkit.scoring.stats.clusters import Clusters

if TYPE_CHECKING:
    from jinja2 import Environment


def render(
    template: str, values: Json, *, data: Mapping[str, str], script: str | None = None
) -> str:
    """Render a page with its style sheet and scripts from `assets/` inline.

    Args:
        template: the name of the template in `assets/`.
        values: the values of the template.
        data: JSON by the id of its script element; it must not contain `<`.
        script: the name of the page's script in `assets/`.
    """
    # The page's own script comes last.
    code = "\n".join(
        asset(name)
        for name in ("switches.js", *(["pictures.js", script] if script else []))
    )
    page = (
        _environment()
        .get_template(template)
        .render(
            values,
            style=asset("report.css"),
            script=code,
            # The page's policy allows only the script with this hash.
            script_hash=base64.b64encode(
                hashlib.sha256(code.encode()).digest()
            ).decode(),
            data=data,
        )
    )
    # A mark that changes the direction of text would reorder the text next to it.
    text = printable(page.replace("\r\n", "\n"))
    # Half surrogates in answers cannot be encoded: they become question marks.
    return text.encode("utf-8", "replace").decode("utf-8")


def render_markdown(template: str, values: Json) -> str:
    """Render a text from a template in `assets/`, whose filter `md` makes a line of Markdown."""
    return _environment().get_template(template).render(values)


def _is_html(template: str | None) -> bool:
    return template is None or not template.endswith(".md.j2")


@cache
def _environment() -> Environment:
    """Return the template engine of pages, with the filters that their templates use."""
    # Imported here because the terminal's summary only needs the findings.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    from evalkit.report.prepared_templates import PreparedTemplates

    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=_is_html,
        undefined=StrictUndefined,
        bytecode_cache=PreparedTemplates(Path(__file__)),
    )
    environment.filters |= {
        "number": exact,
        "brief": brief,
        "dollars": dollars,
        "p_value": p_value,
        "md": as_markdown,
    }
    environment.globals["span"] = span
    return environment


@cache
def asset(name: str) -> str:
    """Return a file of `assets/`."""
    return (files("evalkit.report") / "assets" / name).read_text(encoding="utf-8")


def language_of(config: RunConfig) -> str:
    """Return the initial language of a page, `en` or `zh`: the language of the run's prompts."""
    if config.prompt.language.startswith("zh"):
        return "zh"
    return "en"


def translator_of(result: RunResult) -> Translator:
    """Return the translator to the language of the run's prompts, which is that of its report."""
    return translator(language_of(result.config))


def level_of(config: RunConfig) -> str:
    """Return the level of a run's intervals, as `95%`."""
    return f"{100 * config.scoring.confidence:g}%"


def filled(words: Words, **values: str) -> Words:
    """Return words with each `{name}` replaced by its value."""
    english, chinese = words
    for name, value in values.items():
        english = english.replace(f"{{{name}}}", value)
        chinese = chinese.replace(f"{{{name}}}", value)
    return english, chinese


def script_json(value: Any) -> str:
    """Return JSON that cannot close its script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def render_report(
    result: RunResult, details: Json | None = None, prompts: Asked | None = None
) -> str:
    """Return one self-contained HTML page on a run; see `draw_report`."""
    return draw_report(result, details, prompts)[0]


def draw_report(
    result: RunResult, details: Json | None = None, prompts: Asked | None = None
) -> tuple[str, list[Figure]]:
    """Return one self-contained HTML page on a run (findings in words, figures,
    metrics, cases), and its figures.

    Text from data cannot become markup: templates and drawings escape it, the cases are JSON that a
    script shows as text, and the page's own policy runs no script but that one.

    Args:
        result: the run; its cases, judgments and verdicts are read once, in order.
        details: the content of the run folder's detail files, by name without suffix (`ranking`,
            `frontier`, …).
        prompts: renders the prompts again; without it none is shown.
    """
    # One pass over cases and judgments: the page's cases and all counts at once.
    page_cases = PageBudget(prompts)
    counts = RunCounts(cluster=_clusters(result))
    for case, verdicts, judgments in select_cases(
        result.cases, result.verdicts, result.judgments
    ):
        page_cases.add(case, verdicts, judgments)
        counts.add(case, verdicts, judgments)
    cases = page_cases.data()
    figures = run_figures(result, counts, details or {})
    values = (
        _case_values(result, cases)
        | table_values(result, details)
        | {"figures": figures}
    )
    data = {"words": script_json(SCRIPT), "data": cases.json}
    # The images that the cases refer to become part of the same JSON.
    sources = picture_sources([cases.json])
    if sources:
        values["pictures"] = True
        # The JSON of the cases ends with a brace, before which the images are added.
        data["data"] = f'{cases.json[:-1]},"images":{script_json(sources)}}}'
    return render("report.html.j2", values, script="report.js", data=data), figures


def _clusters(result: RunResult) -> dict[str, int]:
    """Return the cluster of each case by its id; nothing where each case is its own."""
    # As many clusters as cases: each case is its own.
    clusters = result.manifest.get("clusters") or {}
    if clusters.get("count") == clusters.get("cases"):
        return {}
    return Clusters.of(result.config, result.cases).by_id(result.cases)


def _case_values(result: RunResult, cases: CaseData) -> JsonObject:
    """Return the values of the page of cases."""
    return {
        "start": language_of(result.config),
        "level": level_of(result.config),
        "facts": _run_facts(result),
        "embedded": _embedded(cases),
        "flags": [
            (name, words, cases.flags.get(name, 0)) for name, words in FLAGS.items()
        ],
        "config": json.dumps(
            result.config.dump(), indent=2, ensure_ascii=False, default=str
        ),
        "manifest": json.dumps(
            result.manifest, indent=2, ensure_ascii=False, default=str
        ),
    }


def table_values(result: RunResult, details: Json | None = None) -> JsonObject:
    """Return the values of the templates of a run's findings and tables, for which no
    case is read.
    """
    return {
        "title": " · ".join(_title(result)),
        "findings": findings_of(result, details),
        # What became of the gate comes before the run's own notes.
        "notes": [
            *_gate_facts(result),
            *map(note_words, result.manifest.get("notes") or []),
        ],
        "judges": list(_judges(result)),
        "subsets": ((details or {}).get("panel") or {}).get("subsets", ()),
        "judge_columns": [
            (name, metric_words(name)) for name in _judge_columns(result.metrics)
        ],
        **metric_table(result.metrics.values(), level_of(result.config)),
    }


def metric_table(metrics: Collection[Metric], level: str) -> JsonObject:
    """Return the values of the template of a table of metrics."""
    return {
        "metrics": _by_heading(metrics),
        "undetermined": _undetermined(metrics),
        "words": {key: filled(words, level=level) for key, words in PAGE.items()},
    }


def _judge_columns(metrics: Metrics) -> list[str]:
    # Only judges of a panel have metrics of their own.
    names = {
        name for judge in judges_of(metrics) for name in metrics_of(metrics, judge)
    }
    # In the order of the columns, not of the metrics.
    return [name for name in JUDGE_COLUMNS if name in names]


def _judges(result: RunResult) -> Iterator[JsonObject]:
    """Yield each judge of a panel: what it is good for and why, and its metrics."""
    for name, decision in result.decisions.items():
        metrics = metrics_of(result.metrics, name)
        yield {
            "name": name,
            "use": in_every_language(USES[decision.use]),
            "why": in_every_language(sentence(decision, metrics)),
            "metrics": metrics,
        }


def _gate_facts(result: RunResult) -> Iterator[Words]:
    """Yield what became of each rule of the run's gate, if it has one."""
    states = {
        "held": pgettext("gate", "held"),
        "failed": pgettext("gate", "failed"),
        "undecided": pgettext("gate", "undecided"),
    }
    gate = result.manifest.get("gate") or {}
    for rule in gate.get("rules") or []:
        why: Message = note_text(rule["why"])
        # A gate that is limited to some cases has a decision of its own.
        if rule["metric"] == DECISION and not gate.get("where"):
            why = _decision_of(result, rule["state"])
        text = gettext(
            "gate: {metric} {rule}: {state} ({why})",
            metric=rule["metric"],
            rule=note_text(rule["rule"]),
        )
        yield in_every_language(text.fill(state=states[rule["state"]], why=why))


def _decision_of(result: RunResult, state: str) -> Text:
    """Return why a gate on the decision about the judge has its state."""
    text = gettext("{use}: {sentence}")
    if state == "undecided":
        # An undecided rule names the uses that the intervals leave possible.
        text = gettext("{use} (the intervals do not exclude {possible}): {sentence}")
    decision = result.decision
    return text.fill(
        use=decision.use,
        possible=decision.possible,
        sentence=sentence(decision, result.metrics),
    )


def _embedded(cases: CaseData) -> list[Words]:
    """Return what to say of the cases that the page does not hold, or not wholly."""
    counts = {
        name: f"{getattr(cases, name):,}"
        for name in ("total", "whole", "short", "left_out", "unlike")
    }
    # Only sentences about cases that are missing or shortened.
    return [
        filled(PAGE[name], **counts)
        for name in ("short", "left_out", "unlike")
        if getattr(cases, name)
    ]


def _by_heading(
    metrics: Iterable[Metric],
) -> dict[Words, list[tuple[Words, Metric, Words]]]:
    """Return the title, numbers and note of each metric with a value, by the heading of
    its group.
    """
    rows_by_heading: dict[Words, list[tuple[Words, Metric, Words]]] = {}
    for metric in metrics:
        if metric.value is not None:
            row = (metric_words(metric.name), metric, note_words(metric.note or ""))
            rows_by_heading.setdefault(
                in_every_language(heading(metric.name)), []
            ).append(row)
    return rows_by_heading


def _undetermined(metrics: Iterable[Metric]) -> dict[Words, list[str]]:
    """Return the names of metrics without a value by the reason why."""
    names_by_reason: dict[Words, list[str]] = {}
    for metric in metrics:
        if metric.value is None:
            names_by_reason.setdefault(note_words(metric.note or ""), []).append(
                metric.name
            )
    return names_by_reason


def _title(result: RunResult) -> list[str]:
    dataset = result.manifest.get("dataset") or {}
    parts = (
        result.manifest.get("mode"),
        result.manifest.get("judge"),
        dataset.get("name"),
    )
    return [str(part) for part in parts if part] or ["evalkit"]


def _run_facts(result: RunResult) -> list[tuple[str, Words]]:
    """Return the facts at the top of a page: start, cases, and the source or cost of judgments."""
    # The start to the minute, in UTC.
    started = str(result.manifest.get("started") or "")[:16].replace("T", " ")
    facts: list[tuple[str, Words]] = (
        [("started", (f"{started} UTC",) * 2)] if started else []
    )
    facts += [("cases", (f"{len(result.cases):,}",) * 2)]
    imported = result.manifest.get("imported")
    return [
        *facts,
        *([("imported", _imported(imported))] if imported else _call_facts(result)),
    ]


def _imported(brought: Json) -> Words:
    """Return where the judgments of an imported run come from."""
    # Facts that an import may not have recorded have defaults.
    facts = {"format": "?", "texts": 0, "differences": None, **brought}
    english, chinese = (text.format(**facts) for text in PAGE["imported_text"])
    # Without judges' texts, nothing could be read again and compared.
    if not facts["texts"] or facts["differences"] is None:
        return english, chinese
    reread, reread_zh = (text.format(**facts) for text in PAGE["reread_text"])
    return english + reread, chinese + reread_zh


def _call_facts(result: RunResult) -> list[tuple[str, Words]]:
    """Return the calls, the cost and the tokens of a run."""
    calls = {
        key: getattr(result.calls, key)
        for key in ("planned", "stored", "sent", "failed")
    }
    english, chinese = (text.format(**calls) for text in PAGE["calls_text"])
    tokens = in_every_language(
        joined(
            gettext("{n:,} {kind}", n=n, kind=TOKENS.get(kind, kind))
            for kind, n in result.tokens.items()
        )
    )
    # Without every price the cost is unknown, and not 0.
    if result.cost_usd is None:
        cost = PAGE["unknown"]
    else:
        cost = (dollars(result.cost_usd),) * 2
    facts: list[tuple[str, Words]] = [("calls", (english, chinese)), ("cost", cost)]
    if result.tokens:
        return [*facts, ("tokens", tokens)]
    return facts


def run_files(
    config: RunConfig,
    result: RunResult,
    scores: Scores,
    evaluator: Evaluator | None = None,
) -> dict[str, str]:
    """Return `report.html`, its figures and words and the JSON files of a run just
    scored; `prompts.json` of a new one.

    Without the `evaluator` that asked for its judgments one is made of the config again, so that
    the page can show prompts; where that cannot be, it shows none.
    """
    details = {
        "frontier": [asdict(point) for point in scores.frontier],
        **scores.details,
    }
    if causes := cause_table(result):
        details[CAUSES] = causes
    prompts: Asked | None = None
    # Judgments from a file have no calls whose prompts could be shown.
    if any(judgment.keys for judgment in statements_of(result.judgments)):
        prompts = _prompt_renderer(config, evaluator)
    page, figures = draw_report(result, details, prompts)
    language = language_of(result.config)
    texts = getattr(evaluator, "prompt_texts", {})
    files = {"report.html": page, FINDINGS: _in_words(result, details, language)}
    for figure in figures:
        files[f"{FIGURES}/{figure.name}.svg"] = alone(figure, language)
    for name, value in details.items():
        files[f"{name}.json"] = _json(value)
    if texts:
        files[PROMPTS] = _json(texts)
    return files


def _in_words(result: RunResult, details: Json, language: str) -> str:
    findings = findings_of(result, details)
    texts = [
        finding.text_zh if language == "zh" else finding.text for finding in findings
    ]
    return "".join(
        f"- {as_markdown(text)}\n"
        for text in [*texts, *_cluster_notes(result, language)]
    )


def _cluster_notes(result: RunResult, language: str) -> list[str]:
    """Return what intervals and tests resample, where it is not single cases."""
    clusters = result.manifest.get("clusters") or {}
    if clusters.get("count") == clusters.get("cases"):
        return []
    by = clusters["by"]
    count = clusters["count"]
    cases = clusters["cases"]
    text = gettext(
        "{cases} cases in {count} clusters by {by}: intervals and tests resample clusters."
    )
    return [text.fill(cases=cases, count=count, by=by).render(translator(language))]


def _prompt_renderer(config: RunConfig, evaluator: Evaluator | None) -> Asked | None:
    """Return what renders the prompts that judges were sent, `None` if nothing can."""
    # these load the template engine and transports, which findings do not need
    from evalkit.evaluators.factory import make_evaluator
    from evalkit.judges import make_arbiter, spec_of

    try:
        evaluator = evaluator or make_evaluator(
            config, prompt_folders=[project() / "prompts"]
        )
        arbiter = make_arbiter(config)
        return render_prompts(
            evaluator, spec_of(config.judge), arbiter.spec if arbiter else None
        )
    # Without the files of its prompts, a run is still scored: the page shows no prompts.
    except EvalkitError:
        return None


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)


# Pixels around a drawing, and above it for its title.
_MARGIN, _HEAD = 16, 40
# Group 1 is the width, group 2 the height, both in pixels.
_OPENING = lazy_pattern(r'^<svg viewBox="0 0 (\d+) (\d+)"[^>]*>')
# Light colors only: an SVG in a document has the document's light background.
_COLOR = lazy_pattern(r"(--\w+): light-dark\((#\w+), #\w+\)")
_FONT = (
    '"Segoe UI", "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", system-ui,'
    " sans-serif"
)


def alone(figure: Figure, language: str) -> str:
    """Return a figure as an SVG document with its title, in `en` or `zh`, on a light background."""
    # The first element of the drawing is replaced by one of a document.
    opening = _OPENING.match(figure.svg)
    assert opening is not None, figure.name
    width = int(opening[1]) + 2 * _MARGIN
    height = int(opening[2]) + _HEAD + 2 * _MARGIN
    # Both languages are in the drawing; the style sheet hides one.
    hidden = "en" if language == "zh" else "zh"
    body = str(figure.svg)[opening.end() :]
    title = escape(figure.title[language == "zh"])
    elements = Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="{-_MARGIN} {-_HEAD - _MARGIN} {width} {height}" role="img"'
        # The view starts at negative coordinates, so that the drawing needs no shift.
        f' lang="{language}"><style>{_drawing_style()}\n'
        f"svg .{hidden} {{ display: none; }}</style><rect"
        f' class="ground" x="{-_MARGIN}" y="{-_HEAD - _MARGIN}" width="{width}"'
        f' height="{height}"/><text class="heading" x="0" y="{-_HEAD + 8}">{title}</text>{body}'
    )
    # XML forbids most control characters, which answers may contain.
    return xml_text(elements)


@cache
def _drawing_style() -> str:
    """Return the page's style rules for drawings, with light colors."""
    sheet = asset("report.css")
    colors = dict(_COLOR.findall(sheet))
    # Rules of `svg` itself are about its size in the page.
    rules = [
        line
        for line in sheet.splitlines()
        if line.startswith("svg ") and not line.startswith("svg {")
    ]
    page_rules = [
        f"svg {{ font-family: {_FONT}; }}",
        "svg .ground { fill: var(--page); }",
        "svg text.heading { font-size: 15px; font-weight: 600; }",
    ]
    # A file has no variables of the page, so colors are inserted.
    return re.sub(
        r"var\((--\w+)\)",
        lambda name: colors[name[1]],
        "\n".join([*page_rules, *rules]),
    )
