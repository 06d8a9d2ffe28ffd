"""The derived files of a run folder: the report, and the details of scoring."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evalkit.config import RunConfig
from evalkit.core.resources import project
from evalkit.core.translation import gettext, translator
from evalkit.errors import EvalkitError
from evalkit.judges import make_arbiter, spec_of
from evalkit.protocols import Evaluator
from evalkit.report.case_list import Asked, render_prompts
from evalkit.report.counts import as_markdown
from evalkit.report.figures.standalone import alone
from evalkit.report.findings import findings_of
from evalkit.report.page import draw_report, language_of
from evalkit.results import RunResult
from evalkit.runs.layout import FIGURES, FINDINGS, PROMPTS
from evalkit.scoring import Scores


def run_files(
    config: RunConfig, result: RunResult, scores: Scores, evaluator: Evaluator | None = None
) -> dict[str, str]:
    """Return `report.html`, its figures and words and the JSON files of a run just scored; `prompts.json` of a new one.

    Without the `evaluator` that asked for its judgments one is made of the config again, so that the page can show
    prompts; where that cannot be, it shows none.
    """
    details = {"frontier": [asdict(point) for point in scores.frontier], **scores.details}
    page, figures = draw_report(result, details, _asked(config, evaluator))
    language, texts = language_of(result.config), getattr(evaluator, "prompt_texts", {})
    return {
        "report.html": page,
        FINDINGS: _in_words(result, details, language),
        **{f"{FIGURES}/{figure.name}.svg": alone(figure, language) for figure in figures},
        **{f"{name}.json": _json(value) for name, value in details.items()},
        **({PROMPTS: _json(texts)} if texts else {}),
    }


def _in_words(result: RunResult, details: Mapping[str, Any], language: str) -> str:
    found = findings_of(result, details)
    texts = [one.text_zh if language == "zh" else one.text for one in found]
    return "".join(f"- {as_markdown(text)}\n" for text in [*texts, *_clusters(result, language)])


def _clusters(result: RunResult, language: str) -> list[str]:
    """Return what intervals and tests resample, where it is not single cases."""
    found = result.manifest.get("clusters") or {}
    if found.get("count") == found.get("cases"):
        return []
    by, count, cases = found["by"], found["count"], found["cases"]
    text = gettext("{cases} cases in {count} clusters by {by}: intervals and tests resample clusters.")
    return [text.fill(cases=cases, count=count, by=by).render(translator(language))]


def _asked(config: RunConfig, evaluator: Evaluator | None) -> Asked | None:
    from evalkit.evaluators import make_evaluator  # loads the template engine, which findings do not need

    try:
        evaluator = evaluator or make_evaluator(config, prompt_folders=[project() / "prompts"])
        arbiter = make_arbiter(config)
        return render_prompts(evaluator, spec_of(config.judge), arbiter.spec if arbiter else None)
    except EvalkitError:
        return None


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
