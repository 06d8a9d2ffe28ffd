"""Findings on runs that stop once a metric is known."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval
from evalkit.core.translation import Text, gettext, ngettext
from evalkit.report.findings.finding import Finding, finding
from evalkit.report.texts import metric_title
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import known
from evalkit.scoring.stopping import is_settled


def stop_findings(result: RunResult) -> Iterator[Finding]:
    """Yield whether a run stopped because its metric is known, and what was not needed."""
    stop = result.config.runner.stop
    not_needed = result.manifest.get("not_needed")
    metric = None if stop is None else known(result.metrics, stop.metric)
    if (
        stop is None
        or not_needed is None
        or metric is None
        or metric.low is None
        or metric.high is None
    ):
        return
    title = metric_title(metric.name)
    clusters = result.manifest["clusters"]["count"]
    facts = {
        "title": title,
        "value": interval(metric),
        "clusters": clusters,
        "width": stop.width,
    }
    settled = is_settled(result.config, result.metrics)
    parts: list[Text] = []
    if settled:
        text = gettext(
            "Settled: “{title}” is {value} after {clusters:,} clusters in random order, at most"
            " {width:g} wide. This holds at any stopping time.",
            **facts,
        )
        # A run may settle with its last case.
        if not_needed["cases"]:
            parts.append(
                ngettext(
                    "{n:,} other case was not needed.",
                    "{n:,} other cases were not needed.",
                    not_needed["cases"],
                )
            )
    else:
        text = gettext(
            "Not settled: “{title}” is {value} after {clusters:,} clusters in random order, more"
            " than {width:g} wide. This holds at any stopping time.",
            **facts,
        )
        parts.append(_unsettled(not_needed["cases"], result.manifest.get("stopped")))
    # Answers that were requested while the rule was checked.
    if late := not_needed.get("answers"):
        parts.append(
            ngettext(
                "{n:,} answer about another case was already requested: it is paid and stored, and"
                " not counted.",
                "{n:,} answers about other cases were already requested: they are paid and stored,"
                " and not counted.",
                late,
            )
        )
    # Sentences in this order: the state, the cases, the late answers.
    for part in parts:
        text = gettext("{text} {rest}", text=text, rest=part)
    yield finding(metric.name, "good" if settled else "warn", text)


def _unsettled(cases: int, stopped: str | None) -> Text:
    """Return why a run ended before its metric was known."""
    if not cases:
        return gettext("There are no other cases.")
    omitted = ngettext(
        "{n:,} other case is not part of the run.",
        "{n:,} other cases are not part of the run.",
        cases,
    )
    if stopped:
        return gettext("The run ended early: {why}. {rest}", why=stopped, rest=omitted)
    return gettext(
        "The run had stopped at a larger width: run it again to judge more cases. {rest}",
        rest=omitted,
    )
