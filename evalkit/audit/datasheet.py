"""The result of an audit on one page, and of a sweep of audits: what judges fall for,
and on what that rests.

The page is first a value in JSON, with every sentence in English and Chinese; Markdown and HTML are
made of that value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import isnan
from pathlib import Path
from typing import Final

import numpy as np

from evalkit.audit.lengths import NEUTRAL, length_sentence, words_added
from evalkit.audit.metrics import Outcome, audit_metrics
from evalkit.audit.plan import SEPARATOR, AuditPlan, check_id, probes_of
from evalkit.audit.probe_results import in_both_languages, probe_result, worst_texts
from evalkit.audit.probes import PARAPHRASE, REPEAT, Probe
from evalkit.audit.rewriting import (
    NO_REVIEWS,
    Rewriter,
    is_rejected,
    key_of,
    reviews_of,
    with_reviews,
)
from evalkit.config import RunConfig
from evalkit.core.display import dollars, interval, percent
from evalkit.core.spool import Spool
from evalkit.core.translation import Text, gettext, in_every_language
from evalkit.core.types import Case, Judgment, Metric
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.engine.run_design import Reviews
from evalkit.report.findings import conclusion
from evalkit.report.findings.decisions import USES, simulated
from evalkit.report.page import filled, language_of, level_of, render, render_markdown
from evalkit.report.texts import PAGE, Words, metric_words, note_words, words
from evalkit.runs.layout import (
    DATASHEET,
    EFFECTS,
    PROBE_CASES,
    PROBE_JUDGMENTS,
    simulated_judges,
)
from evalkit.runs.read import read_edits, read_probes
from evalkit.runs.records import encode_line, metric_values
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import Metrics
from evalkit.scoring.stats.clusters import Clusters

_AGREEMENT: Final = (
    "agreement/accuracy",
    "agreement/kappa",
    "agreement/spearman",
    "position/consistency",
    "tie_rate",
)

WORDS = {
    key: PAGE[key]
    for key in ("dark", "light", "language", "cases", "started", "cost", "missing")
} | words("datasheet")


def datasheet(
    result: RunResult, outcomes: Sequence[Outcome], edits: Sequence[Case]
) -> JsonObject:
    """Return the datasheet of an audit as a JSON value.

    Args:
        result: The run, with all metrics.
        outcomes: What each probe found.
        edits: The edited cases.
    """
    manifest = result.manifest
    config = result.config
    data = manifest.get("dataset") or {}
    clusters = manifest.get("clusters") or {}
    texts = worst_texts(result.cases, edits, outcomes)
    lengths = _length_sentences(result, outcomes, edits)
    notes = [
        {"text": note.text, "text_zh": note.text_zh}
        for note in simulated(simulated_judges(manifest))
    ]
    if notes:
        # A simulated judge decides nothing, so there is no advice about its use.
        advice = []
    else:
        advice = [
            {"text": text.text, "text_zh": text.text_zh} for text in conclusion(result)
        ]
    return {
        "format": 1,
        "judge": manifest.get("judge"),
        "mode": manifest.get("mode"),
        "language": config.prompt.language,
        "dataset": {
            key: data.get(key) for key in ("name", "source", "fingerprint", "rows")
        },
        "clusters": dict(clusters),
        "confidence": config.scoring.confidence,
        "notes": notes,
        "decision": {**result.decision.json(), "sentences": advice},
        "noise": in_both_languages(_noise(result.metrics)),
        "rewriter": manifest.get("rewriter"),
        "probes": [
            probe_result(
                outcome,
                result,
                texts,
                _reviews(outcome, edits),
                lengths.get(outcome.contrast.probe.name),
            )
            for outcome in outcomes
        ],
        "agreement": {
            name: _numbers(result.metrics, name)
            for name in _AGREEMENT
            if name in result.metrics
        },
        "calls": {
            key: getattr(result.calls, key)
            for key in ("planned", "stored", "sent", "failed")
        },
        "cost_usd": result.cost_usd,
        **{
            key: manifest.get(key)
            for key in (
                "started",
                "stopped",
                "config_hash",
                "prompt_hash",
                "evalkit",
                "python",
            )
        },
        "packages": manifest.get("packages"),
        "judges": [
            {key: judge.get(key) for key in ("name", "model")}
            for judge in manifest.get("judges") or ()
        ],
    }


def _numbers(metrics: Metrics, name: str) -> JsonObject:
    metric = metrics.get(name)
    if metric is None:
        return {}
    return metric_values(metric)


def _noise(metrics: Metrics) -> Text:
    noise = metrics.get(f"audit/{REPEAT}/flip_rate")
    if noise is None or noise.value is None:
        return gettext("The judge's own noise is unknown: no case has two answers.")
    text = gettext(
        "Asked the same question again, the judge changes {rate} of {n:,} verdicts: its own noise."
    )
    return text.fill(rate=percent(noise), n=noise.n)


def _reviews(outcome: Outcome, edits: Sequence[Case]) -> dict[str, int]:
    """Return how many edits of a probe annotators reviewed, and how many of these they rejected."""
    # Other edits are made by rules, which nobody needs to review.
    if outcome.contrast.probe.name != PARAPHRASE:
        return {"reviewed": 0, "rejected": 0}
    reviewed = [
        edit
        for edit in edits
        if edit.metadata.get("probe") == PARAPHRASE and reviews_of(edit)
    ]
    return {"reviewed": len(reviewed), "rejected": sum(map(is_rejected, reviewed))}


def _length_sentences(
    result: RunResult, outcomes: Sequence[Outcome], edits: Sequence[Case]
) -> dict[str, Text]:
    """Return what to say about the length that each probe adds, by its name."""
    added = words_added(
        result.config,
        result.cases,
        edits,
        [outcome.contrast.probe for outcome in outcomes],
    )
    neutral = next(
        (outcome for outcome in outcomes if outcome.contrast.probe.name == NEUTRAL),
        None,
    )
    clusters = Clusters.of(result.config, result.cases)
    alpha = 1 - result.config.scoring.confidence
    texts = {
        outcome.contrast.probe.name: length_sentence(
            outcome, neutral, added, result.decision, clusters, alpha
        )
        for outcome in outcomes
    }
    return {name: text for name, text in texts.items() if text is not None}


def effect_lines(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str:
    """Return a JSON line for each probe of each case: what `effects.jsonl` holds."""
    lines = []
    for outcome in outcomes:
        parts = outcome.contrast
        # Arrays of shape (cases,), all in the order of `cases`.
        numbers = {
            "effect": parts.tested,
            "shift": parts.shift,
            "flipped": parts.flip,
            "passed": parts.passed,
        }
        # Only cases that the probe could edit.
        for index in map(int, np.flatnonzero(parts.applies)):
            values = {
                # JSON has no NaN; it means that a number of this case is missing.
                name: None if isnan(all_[index]) else float(all_[index])
                for name, all_ in numbers.items()
            }
            row = {
                "case": cases[index].id,
                "probe": parts.probe.name,
                **values,
                "missing": bool(parts.missing[index]),
            }
            lines.append(encode_line(row).decode("utf-8", "surrogatepass"))
    return "".join(lines)


def datasheet_files(sheet: Json, result: RunResult) -> dict[str, str]:
    """Return a datasheet as JSON, Markdown and HTML, by file name.

    Args:
        sheet: The datasheet, as in its JSON.
        result: The audited run, for the language and the confidence level.
    """
    language = language_of(result.config)
    level = level_of(result.config)
    words = {key: filled(text, level=level) for key, text in WORDS.items()}
    title = " · ".join(
        str(part)
        for part in (sheet["mode"], sheet["judge"], sheet["dataset"]["name"])
        if part
    )
    groups = {
        state: [p for p in sheet["probes"] if p["state"] == state]
        for state in ("falls", "unstable", "withstands", "open")
    }
    agreement = [
        (metric_words(name), _outcome(numbers))
        for name, numbers in sheet["agreement"].items()
    ]
    use = in_every_language(USES[sheet["decision"]["use"]])
    variables = {
        "sheet": sheet,
        "groups": groups,
        "agreement": agreement,
        "metric": as_metric,
        "quantity": quantity,
    }
    variables |= {"use": use, "level": level}
    return written_pages(
        "datasheet", sheet, _page_frame(sheet, words, title, language) | variables
    )


def written_pages(name: str, sheet: Json, values: Json) -> dict[str, str]:
    """Return a datasheet's files by name; Markdown is in the language of the run's prompts."""
    chinese = values["start"] == "zh"
    text = {"language": int(chinese), "key": "text_zh" if chinese else "text"}
    return {
        f"{DATASHEET}.json": (
            json.dumps(sheet, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ),
        f"{DATASHEET}.md": render_markdown(f"{name}.md.j2", {**values, **text}),
        f"{DATASHEET}.html": render(f"{name}.html.j2", values, data={}),
    }


def _page_frame(sheet: Json, words: Json, title: str, language: str) -> JsonObject:
    """Return what the page of a datasheet shows around its probes: title, language and facts.

    A fact is its name and its text in English and Chinese.

    Args:
        sheet: The datasheet, as in its JSON.
        words: The fixed words of the page.
        title: The title of the page.
        language: The language in which the page is shown first.
    """
    calls = sheet["calls"]
    cost = sheet["cost_usd"]
    text = gettext("{planned:,}, {stored:,} of them stored, {failed:,} failed", **calls)
    facts = [
        ("judge", (str(sheet["judge"]),) * 2),
        ("data", (str(sheet["dataset"]["name"]),) * 2),
    ]
    if sheet["rewriter"]:
        facts.append(("rewriter", (str(sheet["rewriter"]["model"]),) * 2))
    # To the minute.
    started = str(sheet["started"] or "")[:16].replace("T", " ")
    facts += [
        ("cases", (f"{sheet['dataset']['rows']:,}",) * 2),
        ("requests", in_every_language(text)),
        ("cost", PAGE["unknown"] if cost is None else (dollars(cost),) * 2),
        ("started", (started, started)),
    ]
    return {"title": title, "start": language, "facts": facts, "words": words}


def as_metric(numbers: Json) -> Metric:
    """Return a metric from its numbers in JSON."""
    return Metric(
        "", **{key: numbers[key] for key in ("value", "low", "high", "n", "missing")}
    )


def quantity(numbers: Json | None, *, share: bool = False) -> str:
    """Return a metric in a table: its value and interval, or nothing."""
    if not numbers or numbers["value"] is None:
        return ""
    return (percent if share else interval)(as_metric(numbers))


def _outcome(numbers: Json) -> Words:
    """Return the value, interval and n of a metric, or why it has none."""
    if numbers["value"] is None:
        return note_words(numbers["note"] or "")
    return (f"{quantity(numbers)} (n = {numbers['n']:,})",) * 2


def check_audit(config: RunConfig, cases: Iterable[Case]) -> None:
    """Check before anything is paid that an audit's probes, rewriter and ids can be used.

    Raises:
        ConfigError: If one of them cannot.
    """
    probes_of(config)
    if config.probe.rewriter is not None:
        # For its checks only.
        Rewriter(config)
    for case in cases:
        check_id(case)


@frozen
class Audit:
    """An audit that is judged: its probes, edited cases and their judgments, its
    metrics and outcomes.
    """

    probes: tuple[Probe, ...]
    cases: Sequence[Case]
    judgments: Sequence[Judgment]
    metrics: dict[str, Metric]
    outcomes: list[Outcome]

    @classmethod
    def of(
        cls,
        config: RunConfig,
        cases: Sequence[Case],
        judgments: Sequence[Judgment],
        edits: Sequence[Case],
        answers: Sequence[Judgment],
    ) -> Audit:
        """Return the metrics of an audit; paraphrases that annotators reject are not in them.

        Args:
            config: The run's config.
            cases: The original cases.
            judgments: Their judgments.
            edits: The edited cases.
            answers: The judgments of the edited cases.
        """
        probes = probes_of(config)
        rejected = {edit.id for edit in edits if is_rejected(edit)}
        # A rejected paraphrase is neither an effect nor a missing answer: its case does not
        # apply.
        kept = [edit for edit in edits if edit.id not in rejected]
        counted = [answer for answer in answers if answer.case_id not in rejected]
        metrics, outcomes = audit_metrics(
            config, cases, probes, [*cases, *kept], [*judgments, *counted]
        )
        # All edits are kept, so that a later review can count a rejected one again.
        return cls(probes, edits, answers, metrics, outcomes)

    @classmethod
    def read(
        cls, config: RunConfig, result: RunResult, reviews: Reviews = NO_REVIEWS
    ) -> Audit | None:
        """Return the audit of a finished run under other scoring settings; `None` if
        the run is not an audit.

        Args:
            config: The config with the new settings.
            result: The finished run.
            reviews: Annotators' new reviews of paraphrases.

        Raises:
            ConfigError: If a file of the audit is missing or damaged.
        """
        if not config.probe.probes or result.folder is None:
            return None
        edits, answers = read_probes(Path(result.folder))
        return cls.of(
            config,
            result.cases,
            result.judgments,
            with_reviews(edits, reviews),
            answers,
        )

    def files(self, result: RunResult) -> dict[str, str]:
        """Return the audit's files in the run folder, by name; `result` has all metrics."""
        sheet = datasheet(result, self.outcomes, self.cases)
        return {
            PROBE_CASES: _lines(self.cases),
            PROBE_JUDGMENTS: _lines(self.judgments),
            EFFECTS: effect_lines(result.cases, self.outcomes),
            **datasheet_files(sheet, result),
        }


def _lines(values: Iterable[object]) -> str:
    return "".join(
        encode_line(value).decode("utf-8", "surrogatepass") for value in values
    )


def earlier_reviews(folder: Path) -> Reviews:
    """Return the reviews of paraphrases in the folder of an audit that is run again;
    empty for another folder.

    Raises:
        ConfigError: If the file with the edited cases is damaged.
    """
    edits = read_edits(folder) if (folder / PROBE_CASES).is_file() else ()
    return {key_of(edit): reviews_of(edit) for edit in edits if reviews_of(edit)}


def split(
    plan: AuditPlan, judgments: Iterable[Judgment], folder: Path
) -> tuple[Sequence[Judgment], Sequence[Judgment]]:
    """Return the judgments of the original cases, and those of the edited cases."""
    original = Spool[Judgment](folder=folder)
    edited = Spool[Judgment](folder=folder)
    for judgment in judgments:
        # No case of the data has such an id; `check_id` has seen to that.
        if SEPARATOR in judgment.case_id:
            edited.append(plan.evaluator.original(judgment))
        else:
            original.append(judgment)
    return original, edited
