"""Which findings a run has, in their order: each comes from a function of a module of this package.

A sentence takes a side only if the interval does: a judge whose interval includes chance is "not
shown to be better", whatever the point estimate. A difference that was not found is never called
absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from evalkit.core.values import Json
from evalkit.report.findings.agreement import agreement_findings
from evalkit.report.findings.biases import (
    family_findings,
    identical_findings,
    label_length_findings,
    length_findings,
    position_findings,
)
from evalkit.report.findings.calibration import calibration_findings, claim_findings
from evalkit.report.findings.cascades import cascade_findings
from evalkit.report.findings.causes import cause_findings
from evalkit.report.findings.checklists import checklist_findings
from evalkit.report.findings.classes import class_findings
from evalkit.report.findings.corrections import corrections
from evalkit.report.findings.decisions import conclusion
from evalkit.report.findings.finding import Finding, RunFacts
from evalkit.report.findings.humans import annotator_findings
from evalkit.report.findings.labels import benchmark_finding, label_sample
from evalkit.report.findings.panels import panel_findings
from evalkit.report.findings.pictures import picture_findings
from evalkit.report.findings.ranking import ranking_findings
from evalkit.report.findings.rates import (
    MANY_MISSING,
    MANY_TIES,
    aggregate_findings,
    has_two_scores,
    missing_findings,
    prompt_findings,
    score_findings,
    tie_findings,
)
from evalkit.report.findings.repeats import repeat_findings
from evalkit.report.findings.slices import slice_findings
from evalkit.report.findings.stopping import stop_findings
from evalkit.report.findings.subsets import subset_findings
from evalkit.report.findings.transitivity import conflict_findings
from evalkit.report.findings.turns import turn_findings
from evalkit.report.findings.weak_slices import search_findings
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import Metrics, known

TABLES: Final = ("causes", "panel", "ranking", "slices")
"""The tables of a run that findings name systems, judges and slices from."""
FINDERS: Final[tuple[Callable[[Metrics, RunFacts], Iterator[Finding]], ...]] = (
    class_findings,
    label_sample,
    cascade_findings,
    agreement_findings,
    benchmark_finding,
    checklist_findings,
    missing_findings,
    prompt_findings,
    position_findings,
    tie_findings,
    aggregate_findings,
    length_findings,
    label_length_findings,
    repeat_findings,
    identical_findings,
    family_findings,
    annotator_findings,
    conflict_findings,
    score_findings,
    calibration_findings,
    claim_findings,
    panel_findings,
    turn_findings,
    subset_findings,
    ranking_findings,
    corrections,
)
"""The findings of every run, in their order; metrics that a run does not have make none."""


def findings_of(result: RunResult, details: Json | None = None) -> list[Finding]:
    """Return the findings of a run, its conclusion first; `details` is as for `findings`."""
    mode = str(result.manifest.get("mode") or "")
    rows = (details or {}).get("slices") or ()
    metric_findings = findings(
        result.metrics,
        mode,
        details,
        positive=result.config.rubric.positive,
        confidence=result.config.scoring.confidence,
    )
    # Causes come right after the sentence that says how many answers are missing.
    missing = [finding.metric.startswith("missing/") for finding in metric_findings]
    after = missing.index(True) + 1 if any(missing) else 0
    return [
        *conclusion(result),
        *picture_findings(result),
        *stop_findings(result),
        *metric_findings[:after],
        *cause_findings(result, details or {}),
        *metric_findings[after:],
        *search_findings(result.metrics),
        *slice_findings(result.metrics, rows, result.config.scoring.confidence),
    ]


def findings(
    metrics: Metrics,
    mode: str,
    details: Json | None = None,
    *,
    positive: str | None = None,
    confidence: float = 0.95,
) -> list[Finding]:
    """Return the findings on the metrics of a run, most important first.

    Args:
        metrics: The metrics of the run.
        mode: Its mode.
        details: The content of the run folder's detail files, by name: with it, the ranking names
            its systems.
        positive: The positive class, if there is one.
        confidence: The confidence of their intervals.
    """
    run = RunFacts(mode, positive, details or {}, confidence)
    all_findings = [finding for find in FINDERS for finding in find(metrics, run)]
    ties = known(metrics, "tie_rate")
    missing = known(metrics, "agreement/accuracy")
    if missing is not None and missing.missing:
        lost = missing.missing / (missing.n + missing.missing)
    else:
        lost = 0.0
    many = (
        ties is not None
        and (ties.value or 0) >= MANY_TIES
        and not has_two_scores(metrics)
    )
    first: tuple[str, ...] = ("tie_rate",) if many else ()
    first += ("missing/",) if lost >= MANY_MISSING else ()
    return sorted(
        all_findings, key=lambda finding: not finding.metric.startswith(first)
    )
