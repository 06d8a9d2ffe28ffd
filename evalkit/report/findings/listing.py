"""Which findings a run has, in their order: each comes from a function of a module of this package.

A sentence takes a side only if the interval does: a judge whose interval includes chance is "not shown to be better",
whatever the point estimate. A difference that was not found is never called absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from evalkit.core.display import interval
from evalkit.core.translation import Text, gettext, joined, ngettext, pgettext
from evalkit.decision import Metrics, known
from evalkit.judges.setup import LOCAL
from evalkit.report.findings.agreement import agreement_findings, checklist_findings, class_agreement, turn_findings
from evalkit.report.findings.biases import (
    family_findings,
    identical_findings,
    label_length_findings,
    length_findings,
    order_findings,
    position_findings,
    repeat_findings,
)
from evalkit.report.findings.corrections import class_corrections, correction_findings, transport_findings
from evalkit.report.findings.decisions import headline
from evalkit.report.findings.finding import Finding, finding, has_classes
from evalkit.report.findings.labels import annotator_findings, benchmark_finding, label_sample
from evalkit.report.findings.panels import cascade_findings, panel_findings, subset_findings
from evalkit.report.findings.ranking import ranking_findings
from evalkit.report.findings.slices import slice_findings
from evalkit.report.findings.verdicts import (
    MANY_MISSING,
    MANY_TIES,
    aggregate_findings,
    calibration_findings,
    conflict_findings,
    has_two_scores,
    missing_findings,
    score_findings,
    tie_findings,
)
from evalkit.report.texts import metric_title
from evalkit.results import RunResult
from evalkit.runs.layout import simulated_judges
from evalkit.scoring.stopping import is_settled
from evalkit.values import Json

TABLES: Final = ("panel", "ranking", "slices", "transport")
"""The tables of a run that findings name systems, judges and slices from."""


def findings_of(result: RunResult, details: Json | None = None) -> list[Finding]:
    """Return the findings of a run, its conclusion first; `details` is as for `findings`."""
    mode, positive = str(result.manifest.get("mode") or ""), result.config.rubric.positive
    rows = (details or {}).get("slices") or ()
    sliced = slice_findings(result.metrics, rows, result.config.scoring.confidence)
    return [*conclusion(result), *_stop(result), *findings(result.metrics, mode, details, positive=positive), *sliced]


def _stop(result: RunResult) -> Iterator[Finding]:
    """Yield whether a run stopped because its metric is known, and what was not needed."""
    stop, asked = result.config.runner.stop, result.manifest.get("not_needed")
    metric = None if stop is None else known(result.metrics, stop.metric)
    if stop is None or asked is None or metric is None or metric.low is None or metric.high is None:
        return
    title, clusters = metric_title(metric.name), result.manifest["clusters"]["count"]
    facts = {"title": title, "value": interval(metric), "clusters": clusters, "width": stop.width}
    settled = is_settled(result.config, result.metrics)
    parts: list[Text] = []
    if settled:
        text = gettext(
            "Settled: “{title}” is {value} after {clusters:,} clusters in random order, at most {width:g} wide. "
            "This holds at any stopping time.",
            **facts,
        )
        if asked["cases"]:
            parts.append(
                ngettext("{n:,} other case was not needed.", "{n:,} other cases were not needed.", asked["cases"])
            )
    else:
        text = gettext(
            "Not settled: “{title}” is {value} after {clusters:,} clusters in random order, more than {width:g} "
            "wide. This holds at any stopping time.",
            **facts,
        )
        parts.append(_unsettled(asked["cases"], result.manifest.get("stopped")))
    if late := asked.get("answers"):
        parts.append(
            ngettext(
                "{n:,} answer about another case was already requested: it is paid and stored, and not counted.",
                "{n:,} answers about other cases were already requested: they are paid and stored, and not counted.",
                late,
            )
        )
    for part in parts:
        text = gettext("{text} {rest}", text=text, rest=part)
    yield finding(metric.name, "good" if settled else "warn", text)


def _unsettled(others: int, stopped: str | None) -> Text:
    """Return why a run ended before its metric was known."""
    if not others:
        return gettext("There are no other cases.")
    rest = ngettext("{n:,} other case is not part of the run.", "{n:,} other cases are not part of the run.", others)
    if stopped:
        return gettext("The run ended early: {why}. {rest}", why=stopped, rest=rest)
    return gettext("The run had stopped at a larger width: run it again to judge more cases. {rest}", rest=rest)


def conclusion(result: RunResult) -> list[Finding]:
    """Return what to do with the judge of a run, or a warning that it is simulated.

    The embedded judge has no such advice: it is there to try evalkit out.
    """
    warnings = list(simulated(simulated_judges(result.manifest)))
    embedded = any(str(one.get("model") or "").startswith(LOCAL) for one in result.manifest.get("judges") or ())
    return warnings or ([] if embedded else [headline(result.metrics, result.config.scoring.confidence)])


def simulated(judges: Sequence[str]) -> Iterator[Finding]:
    """Yield that judges are simulated, with their names."""
    if judges:
        text = ngettext(
            "Simulated judge: {names}. No model judged; its behavior is planted.",
            "Simulated judges: {names}. No model judged; their behavior is planted.",
            len(judges),
            names=joined(judges, pgettext("names", ", ")),
        )
        yield finding("judge", "warn", text)


def findings(metrics: Metrics, mode: str, details: Json | None = None, *, positive: str | None = None) -> list[Finding]:
    """Return the findings on the metrics of a run, most important first.

    Args:
        metrics: The metrics of the run.
        mode: Its mode.
        details: The content of the run folder's detail files, by name: with it, the ranking names its systems.
        positive: The positive class, if there is one.
    """
    found = [finding for find in FINDERS for finding in find(metrics, mode)]
    if has_classes(metrics):
        found = [*class_agreement(metrics, positive), *found]
    ties, missing = known(metrics, "tie_rate"), known(metrics, "agreement/accuracy")
    lost = missing.missing / (missing.n + missing.missing) if missing is not None and missing.missing else 0.0
    many = ties is not None and (ties.value or 0) >= MANY_TIES and not has_two_scores(metrics)
    first = ["tie_rate"] if many else []
    first += ["missing/"] if lost >= MANY_MISSING else []
    found.sort(key=lambda one: not one.metric.startswith(tuple(first)) if first else False)
    tables = details or {}
    found += [
        *subset_findings(metrics, tables.get("panel") or {}),
        *transport_findings(metrics, tables.get("transport") or {}),
    ]
    return [*found, *ranking_findings(metrics, tables.get("ranking") or {}), *corrections(metrics)]


def corrections(metrics: Metrics) -> list[Finding]:
    """Return the findings on rates of a run, or of one of its judges, that are corrected by labels."""
    if known(metrics, "labels/picked") is not None:  # labels of picked cases cannot correct a rate over all cases
        return []
    return [*(class_corrections if has_classes(metrics) else correction_findings)(metrics)]


FINDERS: Final[tuple[Callable[[Metrics, str], Iterator[Finding]], ...]] = (
    label_sample,
    cascade_findings,
    agreement_findings,
    benchmark_finding,
    checklist_findings,
    missing_findings,
    position_findings,
    tie_findings,
    aggregate_findings,
    length_findings,
    label_length_findings,
    order_findings,
    repeat_findings,
    identical_findings,
    family_findings,
    annotator_findings,
    conflict_findings,
    score_findings,
    calibration_findings,
    panel_findings,
    turn_findings,
)
"""The findings of every run, in their order; metrics that a run does not have make none."""
