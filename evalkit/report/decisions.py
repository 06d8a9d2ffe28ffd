"""The decision about a judge in words, in English and Chinese: the first sentence of a run, and the limits it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from evalkit.core.display import interval, percent, points
from evalkit.core.translation import Message, Text, gettext, joined, ngettext
from evalkit.decision import (
    ACCURACY,
    CONSISTENCY,
    CORRELATIONS,
    DECIDED,
    ORDER_AGREEMENT,
    SAMPLE_AGREEMENT,
    Decision,
    Limit,
    Reason,
    Unit,
    Use,
    constant_verdict,
    decide,
    known,
    labels,
    labels_at_hand,
)
from evalkit.report.counts import Finding, Metrics, Tone, finding
from evalkit.report.diagnostics import label_words
from evalkit.types import Metric

TOO_MANY: Final = 100_000
"""More labels than this are not counted."""
UNITS: Final = {
    "pair": ngettext("pair", "pairs", 2),
    "response": ngettext("response", "responses", 2),
    "item": ngettext("checklist item", "checklist items", 2),
}
USES: Final[Mapping[Use, Text]] = {
    "none": gettext("do not trust"),
    "unknown": gettext("not decided"),
    "rates_corrected": gettext("rates, corrected by labels"),
    "rates": gettext("rates over many"),
    "single": gettext("single verdicts"),
}
"""What a judge can be used for, in tables."""
_TONES: Final[Mapping[Use, Tone]] = {
    "none": "bad",
    "unknown": "warn",
    "rates_corrected": "warn",
    "rates": "warn",
    "single": "good",
}
_REASONS: Final[Mapping[Reason, Text]] = {
    "orders_disagree": gettext(
        "Do not trust this judge to compare pairs: swapping the order changes its verdict in {changed} of {n:,} pairs, "
        "and its orders agree hardly more than by chance ({evidence}). Labels would not help."
    ),
    "samples_disagree": gettext(
        "Do not trust this judge: asked the same question again, it contradicts itself; its answers agree hardly more "
        "than by chance ({evidence}). Labels would not help."
    ),
    "one_class": gettext(
        "Add labels of another class first: all {n:,} labels are the same, and labels of one class do not show whether "
        "to trust this judge{agreeing}."
    ),
    "picked": gettext(
        "Label cases sampled at random before you decide: these labels were picked with unknown probabilities, so they "
        "do not show whether to trust this judge on the data set ({evidence})."
    ),
    "reversed": gettext(
        "Do not trust this judge: it agrees with {labels} less than chance ({evidence}); check that the labels are not "
        "reversed."
    ),
    "constant": gettext("Do not trust this judge: all {n:,} verdicts are {verdict}, whatever the label."),
    "chance": gettext("Do not trust this judge: it agrees with {labels} no more than by chance ({evidence})."),
    "hardly_better": gettext(
        "Do not trust this judge: it agrees with {labels} hardly more than by chance ({evidence})."
    ),
}
_BRIEF: Final[Mapping[Reason, Text]] = {
    "missing": gettext("missing answers"),
    "orders_disagree": gettext("contradicts itself when the order is swapped"),
    "samples_disagree": gettext("contradicts itself when asked again"),
    "one_class": gettext("all labels are of one class"),
    "picked": gettext("its labels were picked"),
    "reversed": gettext("less than chance: are the labels reversed?"),
    "constant": gettext("always the same answer"),
    "chance": gettext("no more than chance"),
    "hardly_better": gettext("hardly more than chance"),
}
_TRUST: Final[Mapping[Use, Text]] = {
    "single": gettext("Trust this judge for single verdicts on {units} like these: {evidence}"),
    "rates": gettext("Trust this judge for rates over many {units}, not for single verdicts: {evidence}"),
    "rates_corrected": gettext("Trust this judge only for rates over many {units}, corrected by labels: {evidence}"),
}
_TRUST_SCORES: Final[Mapping[Use, Text]] = {
    "single": gettext("Trust its scores, also of single responses like these: {evidence}"),
    "rates": gettext("Trust its scores for averages over many responses, not for single ones: {evidence}"),
    "rates_corrected": gettext(
        "Trust its scores only for averages over many responses, corrected by labels: {evidence}"
    ),
}
_LIMITS: Final[Mapping[str, Text]] = {
    "lean_a": gettext("its verdicts favor {favored} by {points} points more than the labels do"),
    "lean_longer": gettext("its verdicts favor the {favored} response by {points} points more than the labels do"),
    "always_longer": gettext(
        "it takes the longer response in {rate} of pairs, so it is right only where the labels do too"
    ),
    "lean_score": gettext("its scores are {favored} than the labels by {points}% of the scale"),
    "lean_met": gettext("it calls items {favored} {points} points more often than the labels do"),
    "lean_class": gettext("it answers '{subject}' {favored} than the labels do, by {points} points"),
    "lean_system": gettext("it {favored} {subject} by {points} points compared with the labels"),
    "orders_disagree": gettext(
        "it is not shown to agree with itself in the other order more than by chance (agreement beyond chance {value})"
    ),
    "samples_disagree": gettext(
        "it is not shown to agree with itself, asked again, more than by chance (agreement beyond chance {value})"
    ),
    "shown_first": gettext("it prefers the answer shown first ({rate} of decided passes)"),
    "shown_second": gettext("it prefers the answer shown second (the first wins {rate} of decided passes)"),
    "longer": gettext("it prefers longer answers beyond what the labels explain"),
    "shorter": gettext("it prefers shorter answers beyond what the labels explain"),
    "own_family": gettext("it favors its own model family by {points} points"),
    "missed": gettext("it finds only {rate} of the {n:,} {units} labeled '{subject}'"),
    "rare_class": ngettext("only {n:,} label is '{subject}'", "only {n:,} labels are '{subject}'", 2),
    "rare_class_missed": ngettext(
        "only {n:,} label is '{subject}', and it missed it",
        "only {n:,} labels are '{subject}', and it missed all of them",
        2,
    ),
    "one_class": gettext("all labels are of one class"),
    "one_order": gettext("each pair was shown in one order only"),
    "ties": gettext("{rate} of pairs are ties"),
    "abstains": gettext("it abstains in {rate} of answers"),
    "missing": ngettext(
        "{missing:,} of {all:,} labeled {units} has no verdict",
        "{missing:,} of {all:,} labeled {units} have no verdict",
        2,
    ),
    "few_labels": ngettext("only {n:,} label shows this", "only {n:,} labels show this", 2),
}
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
    tone: Tone = "bad" if decision.reason == "missing" else _TONES[decision.use]
    return "warn" if decision.limits and tone == "good" else tone


def sentence(decision: Decision, metrics: Metrics) -> Text:
    """Return a decision in words.

    Args:
        decision: The decision.
        metrics: The metrics that it is made from.
    """
    limits = joined([limit_text(limit, decision) for limit in decision.limits])
    if decision.trusted:
        texts = _TRUST_SCORES if decision.metric is not None and decision.metric.name in CORRELATIONS else _TRUST
        text = texts[decision.use].fill(units=UNITS[decision.unit], evidence=evidence(decision))
        if decision.limits:
            text = gettext("{finding}; but {limits}", finding=text, limits=limits)
        return gettext("{finding}.", finding=text)
    text = _undecided(decision, metrics) if decision.use == "unknown" else _useless(decision, metrics)
    return gettext("{finding} Also, {limits}.", finding=text, limits=limits) if decision.limits else text


def evidence(decision: Decision) -> Message:
    """Return the numbers behind a decision."""
    metric, share = decision.metric, decision.share
    if metric is None:
        return ""
    if metric.name == DECIDED:
        return gettext("it is right in {rate} of the {n:,} pairs that it decides", rate=percent(metric), n=metric.n)
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
    text = replace(_LIMITS[limit.kind], count=metric.missing if limit.kind == "missing" else metric.n)
    subject = _ITEM_LABELS.get(limit.subject, limit.subject) if decision.unit == "item" else limit.subject
    values: dict[str, object] = {"subject": subject, "n": metric.n, "units": UNITS[decision.unit]}
    if limit.kind in _FAVORED:
        negative = (metric.value or 0.0) < 0
        values |= {"favored": _FAVORED[limit.kind][negative], "points": points(metric, absolute=True)}
    elif limit.kind == "own_family":
        values |= {"points": points(metric)}
    values |= {"value": interval(metric), "rate": percent(metric), "missing": metric.missing, "all": labels(metric)}
    return text.fill(**values)


def reason_text(decision: Decision) -> Message:
    """Return in a few words why a judge is of no use or not decided about."""
    if decision.reason in _BRIEF:
        return _BRIEF[decision.reason]
    return gettext("more labels needed: {more}", more=label_count(decision.labels_needed))


def _useless(decision: Decision, metrics: Metrics) -> Text:
    """Return why a judge cannot be trusted."""
    values: dict[str, object] = {"labels": label_words(metrics), "evidence": _agreement(decision)}
    constant = constant_verdict(metrics)
    if decision.reason == "constant" and constant is not None:
        values |= {"verdict": constant[0], "n": constant[1].n}
    elif decision.reason == "constant" and decision.metric is not None:
        return gettext("Do not trust this judge: all {n:,} scores are equal, whatever the label.", n=decision.metric.n)
    consistency = known(metrics, CONSISTENCY)
    if decision.reason == "orders_disagree" and consistency is not None:
        values |= {"changed": percent(_complement(consistency)), "n": consistency.n}
    return _REASONS[decision.reason].fill(**values)


def _agreement(decision: Decision) -> Message:
    metric = decision.metric
    if metric is not None and metric.name in (ORDER_AGREEMENT, SAMPLE_AGREEMENT):
        return gettext("agreement beyond chance {value}", value=interval(metric))
    return evidence(decision)


def _complement(rate: Metric) -> Metric:
    low, high = (None if end is None else 1 - end for end in (rate.high, rate.low))
    return Metric(rate.name, None if rate.value is None else 1 - rate.value, low, high, rate.n)


def _undecided(decision: Decision, metrics: Metrics) -> Text:
    """Return what would decide about a judge."""
    units, n = counted(decision.unit, decision.labels_needed), labels_at_hand(metrics)
    if decision.reason == "missing":
        return _missing(decision)
    if decision.reason == "one_class":
        share = decision.share
        agreeing = gettext(" (it gives the same answer in {rate})", rate=percent(share)) if share is not None else ""
        return _REASONS["one_class"].fill(n=n, agreeing=agreeing)
    if decision.reason == "picked":
        return _REASONS["picked"].fill(evidence=evidence(decision))
    more = label_count(decision.labels_needed)
    if decision.reason == "no_labels":
        text = gettext(
            "Label {more} {units} first: without labels, nothing shows whether to trust this judge. So many "
            "would probably decide about a judge that is right in 70%, or whose scores have a correlation of 0.40."
        )
        return text.fill(more=more, units=units)
    if decision.reason == "few_labels":
        text = ngettext(
            "Label {more} more {units} before you decide: {n:,} label is too few to say anything.",
            "Label {more} more {units} before you decide: {n:,} labels are too few to say anything.",
            n,
        )
        return text.fill(more=more, units=units)
    text = gettext(
        "Label {more} more {units} before you decide: {evidence} does not show whether the judge is useful or "
        "hardly better than chance."
    )
    return text.fill(more=more, units=units, evidence=evidence(decision))


def counted(unit: Unit, n: int | None) -> Text:
    """Return what verdicts are about, in the singular for one of them."""
    return replace(UNITS[unit], count=2 if n is None else n)


def label_count(more: int | None) -> Message:
    """Return how many more labels are needed, in words."""
    if more is None:
        return gettext("some")
    return gettext("more than {n:,}", n=TOO_MANY) if more > TOO_MANY else gettext("about {n:,}", n=more)


def _missing(decision: Decision) -> Text:
    """Return that missing answers come first."""
    metric = decision.share or decision.metric
    if metric is None or not metric.missing:
        return gettext("Fix the missing answers first: most answers are missing.")
    lost = limit_text(Limit("missing", metric), decision)
    text = gettext("Fix the missing answers before you decide: {lost}", lost=lost)
    if metric.worst_low is None or metric.worst_high is None or metric.name in CORRELATIONS:
        return gettext("{finding}.", finding=text)
    return gettext(
        "{finding}, so the accuracy over all of them could be anywhere from {low:.2f} to {high:.2f}.",
        finding=text,
        low=metric.worst_low,
        high=metric.worst_high,
    )
