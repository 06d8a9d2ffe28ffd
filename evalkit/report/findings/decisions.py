"""The decision about a judge in words, in English and Chinese: the first sentence of a run, and the limits it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from evalkit.core.display import interval, percent, points
from evalkit.core.translation import Message, Text, gettext, joined, ngettext, pgettext
from evalkit.decision import (
    ACCURACY,
    CONSISTENCY,
    CORRELATIONS,
    DECIDED,
    ORDER_AGREEMENT,
    SAMPLE_AGREEMENT,
    Decision,
    Limit,
    Metrics,
    Unit,
    Use,
    constant_verdict,
    decide,
    known,
    labels,
    labels_at_hand,
    side,
)
from evalkit.judges.setup import LOCAL
from evalkit.report.findings.finding import Finding, Tone, finding
from evalkit.report.findings.labels import label_words
from evalkit.report.findings.places import places_text, stratum_values
from evalkit.report.texts import texts
from evalkit.results import RunResult
from evalkit.runs.layout import simulated_judges
from evalkit.types import Metric

TOO_MANY: Final = 100_000
"""More labels than this are not counted."""
UNITS: Final[Mapping[str, Text]] = texts("units")
USES: Final[Mapping[str, Text]] = texts("uses")
"""What a judge can be used for, in tables."""
TONES: Final[Mapping[Use, Tone]] = {
    "none": "bad",
    "unknown": "warn",
    "rates_corrected": "warn",
    "rates": "warn",
    "single": "good",
}
_REASONS: Final[Mapping[str, Text]] = texts("reasons")
_DEGREES: Final[Mapping[str, Text]] = texts("degrees")
_BRIEF: Final[Mapping[str, Text]] = texts("brief")
_TRUST: Final[Mapping[str, Text]] = texts("trust")
_TRUST_SCORES: Final[Mapping[str, Text]] = texts("trust_scores")
_LIMITS: Final[Mapping[str, Text]] = texts("limits")
_FAVORED: Final[Mapping[str, tuple[Text | str, Text | str]]] = {
    "lean_a": ("A", "B"),
    "lean_longer": (gettext("longer"), gettext("shorter")),
    "lean_score": (gettext("higher"), gettext("lower")),
    "lean_met": (gettext("met"), gettext("not met")),
    "lean_class": (gettext("more often"), gettext("less often")),
    "lean_system": (gettext("favors"), gettext("disfavors")),
}
"""What a lean favors if it is positive, and if it is negative."""
_ITEM_LABELS: Final = {"met": gettext("met"), "not_met": gettext("not met")}


def headline(metrics: Metrics, confidence: float = 0.95) -> Finding:
    """Return the decision about the judge of a run as its first finding."""
    decision = decide(metrics, confidence)
    name = ACCURACY if decision.metric is None else decision.metric.name
    return finding(name, tone(decision), sentence(decision, metrics))


def tone(decision: Decision) -> Tone:
    """Return whether a decision is good or bad news."""
    tone: Tone = "bad" if decision.reason == "missing" else TONES[decision.use]
    limited = decision.limits or decision.where
    return "warn" if limited and tone == "good" else tone


def sentence(decision: Decision, metrics: Metrics) -> Text:
    """Return a decision in words.

    Args:
        decision: The decision.
        metrics: The metrics that it is made from.
    """
    limits = joined([limit_text(limit, decision) for limit in decision.limits])
    if decision.trusted:
        trust = (
            _TRUST_SCORES
            if decision.metric is not None and decision.metric.name in CORRELATIONS
            else _TRUST
        )
        text = trust[decision.use].fill(
            units=UNITS[decision.unit], evidence=evidence(decision)
        )
        if decision.where:
            places = places_text(decision)
            text = gettext("{finding}; but {limits}", finding=text, limits=places)
        if decision.limits and decision.where:
            text = gettext("{finding}. Also, {limits}", finding=text, limits=limits)
        elif decision.limits:
            text = gettext("{finding}; but {limits}", finding=text, limits=limits)
        return gettext("{finding}.", finding=text)
    text = (
        _undecided(decision, metrics)
        if decision.use == "unknown"
        else _useless(decision, metrics)
    )
    return (
        gettext("{finding} Also, {limits}.", finding=text, limits=limits)
        if decision.limits
        else text
    )


def evidence(decision: Decision) -> Message:
    """Return the numbers behind a decision."""
    metric = decision.metric
    share = decision.share
    if metric is None:
        return ""
    if metric.name == DECIDED:
        return gettext(
            "it is right in {rate} of the {n:,} pairs that it decides",
            rate=percent(metric),
            n=metric.n,
        )
    if metric.name in CORRELATIONS:
        name = metric.name.partition("/")[2].capitalize()
        return ngettext(
            "{name} {value} with {n:,} label",
            "{name} {value} with {n:,} labels",
            metric.n,
            name=name,
            value=interval(metric),
        )
    coefficient = gettext("kappa {value}", value=interval(metric))
    if share is None or not metric.name.endswith("kappa"):
        return coefficient
    return gettext(
        "right in {rate} of {n:,} labeled {units}, {kappa}",
        rate=percent(share),
        n=share.n,
        units=counted(decision.unit, share.n),
        kappa=coefficient,
    )


def limit_text(limit: Limit, decision: Decision) -> Text:
    """Return a limit in words."""
    metric = limit.metric
    kind = (
        "lean_system_score"
        if limit.kind == "lean_system" and decision.unit == "response"
        else limit.kind
    )
    text = replace(
        _LIMITS[kind], count=metric.missing if limit.kind == "missing" else metric.n
    )
    subject = (
        _ITEM_LABELS.get(limit.subject, limit.subject)
        if decision.unit == "item"
        else limit.subject
    )
    units = counted(
        decision.unit, labels(metric) if limit.kind == "missing" else metric.n
    )
    values: dict[str, object] = {"subject": subject, "n": metric.n, "units": units}
    if limit.kind in _FAVORED:
        negative = (metric.value or 0.0) < 0
        values |= {
            "favored": _FAVORED[limit.kind][negative],
            "points": points(metric, absolute=True),
        }
    elif limit.kind == "own_family":
        values |= {"points": points(metric)}
    values |= {
        "value": interval(metric),
        "rate": percent(metric),
        "missing": metric.missing,
        "all": labels(metric),
    }
    return text.fill(**values)


def reason_text(decision: Decision) -> Message:
    """Return in a few words why a judge is of no use or not decided about."""
    if decision.reason in _BRIEF:
        return _BRIEF[decision.reason]
    return gettext(
        "more labels needed: {more}", more=label_count(decision.labels_needed)
    )


def _useless(decision: Decision, metrics: Metrics) -> Text:
    """Return why a judge cannot be trusted."""
    values: dict[str, object] = {
        "labels": label_words(metrics),
        "evidence": _agreement(decision),
    }
    constant = constant_verdict(metrics)
    if decision.reason == "constant" and constant is not None:
        values |= {"verdict": constant[0], "n": constant[1].n}
    elif decision.reason == "constant" and decision.metric is not None:
        return gettext(
            "Do not trust this judge: all {n:,} scores are equal, whatever the label.",
            n=decision.metric.n,
        )
    if decision.reason == "stratum" and decision.metric is not None:
        values |= stratum_values(decision.metric)
    consistency = known(metrics, CONSISTENCY)
    if decision.reason == "orders_disagree" and consistency is not None:
        values |= {"changed": percent(_complement(consistency)), "n": consistency.n}
    if decision.metric is not None:
        values["degree"] = _DEGREES[
            "above" if side(decision.metric, 0.0) == "above" else "not_above"
        ]
    return _REASONS[decision.reason].fill(**values)


def _agreement(decision: Decision) -> Message:
    metric = decision.metric
    if metric is not None and metric.name in (ORDER_AGREEMENT, SAMPLE_AGREEMENT):
        return gettext("agreement beyond chance {value}", value=interval(metric))
    return evidence(decision)


def _complement(rate: Metric) -> Metric:
    low, high = (None if end is None else 1 - end for end in (rate.high, rate.low))
    return Metric(
        rate.name, None if rate.value is None else 1 - rate.value, low, high, rate.n
    )


def _undecided(decision: Decision, metrics: Metrics) -> Text:
    """Return what would decide about a judge."""
    units = counted(decision.unit, decision.labels_needed)
    n = labels_at_hand(metrics)
    if decision.reason == "missing":
        return _missing(decision)
    if decision.reason == "one_class":
        share = decision.share
        agreeing = (
            gettext(" (it gives the same answer in {rate})", rate=percent(share))
            if share is not None
            else ""
        )
        return _REASONS["one_class"].fill(n=n, agreeing=agreeing)
    if decision.reason == "picked":
        return _REASONS["picked"].fill(evidence=evidence(decision))
    if decision.reason == "stratum_unclear" and decision.metric is not None:
        values = stratum_values(decision.metric)
        return _REASONS["stratum_unclear"].fill(units=UNITS[decision.unit], **values)
    more = label_count(decision.labels_needed)
    if decision.reason == "no_labels":
        text = gettext(
            "Label {more} {units} first: without labels, nothing shows whether to trust this judge."
            " So many would probably decide about a judge that is right in 70%, or whose scores"
            " have a correlation of 0.40."
        )
        return text.fill(more=more, units=units)
    if decision.reason == "few_labels":
        text = ngettext(
            "Label {more} more {units} before you decide: {n:,} label is too few to say anything.",
            "Label {more} more {units} before you decide: {n:,} labels are too few to say"
            " anything.",
            n,
        )
        return text.fill(more=more, units=units)
    text = gettext(
        "Label {more} more {units} before you decide: {evidence} does not show whether the judge is"
        " useful or hardly better than chance."
    )
    return text.fill(more=more, units=units, evidence=evidence(decision))


def counted(unit: Unit, n: int | None) -> Text:
    """Return what verdicts are about, in the singular for one of them."""
    return replace(UNITS[unit], count=2 if n is None else n)


def label_count(more: int | None) -> Message:
    """Return how many more labels are needed, in words."""
    if more is None:
        return gettext("some")
    return (
        gettext("more than {n:,}", n=TOO_MANY)
        if more > TOO_MANY
        else gettext("about {n:,}", n=more)
    )


def _missing(decision: Decision) -> Text:
    """Return that missing answers come first."""
    metric = decision.share or decision.metric
    if metric is None or not metric.missing:
        return gettext("Fix the missing answers first: most answers are missing.")
    lost = limit_text(Limit("missing", metric), decision)
    text = gettext("Fix the missing answers before you decide: {lost}", lost=lost)
    if (
        metric.worst_low is None
        or metric.worst_high is None
        or metric.name in CORRELATIONS
    ):
        return gettext("{finding}.", finding=text)
    return gettext(
        "{finding}, so the accuracy over all of them could be anywhere from {low:.2f} to"
        " {high:.2f}.",
        finding=text,
        low=metric.worst_low,
        high=metric.worst_high,
    )


def conclusion(result: RunResult) -> list[Finding]:
    """Return what to do with the judge of a run, or a warning that it is simulated.

    The embedded judge has no such advice: it is there to try evalkit out.
    """
    warnings = list(simulated(simulated_judges(result.manifest)))
    embedded = any(
        str(one.get("model") or "").startswith(LOCAL)
        for one in result.manifest.get("judges") or ()
    )
    return warnings or (
        [] if embedded else [headline(result.metrics, result.config.scoring.confidence)]
    )


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
