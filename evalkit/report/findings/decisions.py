"""The decision about a judge in words, in English and Chinese: the first sentence of a
run, and the limits it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from evalkit.core.display import interval, percent, points, quoted
from evalkit.core.translation import (
    Message,
    Text,
    gettext,
    in_every_language,
    joined,
    ngettext,
    pgettext,
)
from evalkit.core.types import Metric
from evalkit.report.findings.finding import LONGEST, Finding, Tone, finding
from evalkit.report.findings.labels import label_words
from evalkit.report.findings.weak_slices import (
    places_text,
    slice_text,
    stratum_values,
)
from evalkit.report.texts import texts
from evalkit.runs.layout import simulated_judges
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import (
    ACCURACY,
    CONSISTENCY,
    COPIED,
    CORRELATIONS,
    DECIDED,
    DISPUTED,
    LEAN,
    ORDER_AGREEMENT,
    SAMPLE_AGREEMENT,
    SCORES,
    Decision,
    Limit,
    Metrics,
    Unit,
    Use,
    constant_verdict,
    decide,
    kind_of,
    known,
    labels,
    labels_at_hand,
    lean_of,
    side,
    slice_of,
    stratum,
)

TOO_MANY: Final = 100_000
"""More labels than this are not counted."""
MOST_FOR_LEAN: Final = 5_000
"""More labels than this are not asked for to decide whether a judge leans."""
A_FEW: Final = 10
"""Fewer labels than this are not counted: a number near 0 says only that the estimate is close."""
UNITS: Final[Mapping[str, Text]] = texts("units")
USES: Final[Mapping[str, Text]] = texts("uses")
"""What a judge can be used for, in tables."""
TONES: Final[Mapping[Use, Tone]] = {
    "none": "bad",
    "unknown": "warn",
    "order": "warn",
    "rates_corrected": "warn",
    "rates": "warn",
    "single": "good",
}
_REASONS: Final[Mapping[str, Text]] = texts("reasons")
_DEGREES: Final[Mapping[str, Text]] = texts("degrees")
_BRIEF: Final[Mapping[str, Text]] = texts("brief")
_TRUST: Final[Mapping[str, Text]] = texts("trust")
_TRUST_SCORES: Final[Mapping[str, Text]] = texts("trust_scores")
_TRUST_ORDER: Final[Mapping[str, Text]] = texts("trust_order")
_LIMITS: Final[Mapping[str, Text]] = texts("limits")
# By kind of limit: the words for a positive and for a negative value.
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
    # Missing answers are a fault to fix before anything else, so the use does not soften them.
    tone: Tone = "bad" if decision.reason == "missing" else TONES[decision.use]
    limited = decision.limits or decision.where
    if limited and tone == "good":
        return "warn"
    return tone


def sentence(decision: Decision, metrics: Metrics) -> Text:
    """Return a decision in words: one sentence with its main limit, and one for each of the others.

    Args:
        decision: The decision.
        metrics: The metrics that it is made from.
    """
    # Limits in order of importance: the first one is joined to the main sentence.
    limits: list[Text] = [limit_text(limit, decision) for limit in decision.limits]
    # Grades and scores in different units are named first: every figure about scores
    # depends on it.
    if decision.reason == "units" and decision.trusted:
        limits.insert(0, _LIMITS["units"].fill(**_ranges_of_units(metrics)))
    if decision.trusted:
        text = _trust(decision).fill(
            units=UNITS[decision.unit], evidence=evidence(decision)
        )
        # Where the judge is not to be trusted comes before all other limits.
        if decision.where:
            limits.insert(0, places_text(decision))
        text = _with_main_limit(text, limits[:1])
        limits = limits[1:]
    elif decision.use == "unknown":
        text = _undecided(decision, metrics)
    else:
        text = _useless(decision, metrics)
    # Each remaining limit is a sentence of its own.
    for limit in limits:
        text = gettext("{finding} Also, {limits}.", finding=text, limits=limit)
    needed = decision.labels_needed
    # A lean at its margin is not decided by any number of labels that one would give for it:
    # rates that are corrected by labels hold without. Of few clusters it is said, since labels
    # of other ones are worth more.
    most = MOST_FOR_LEAN if decision.clusters is None else TOO_MANY
    if decision.reason != "lean_unclear" or needed is None or needed > most:
        return text
    text = gettext(
        "{finding} Label {more} more {units} to decide whether it leans.",
        finding=text,
        more=label_count(decision.labels_needed),
        units=UNITS[decision.unit],
    )
    return _with_range(text, decision)


def _with_main_limit(text: Text, limits: Sequence[Text]) -> Text:
    """Return a sentence with its main limit; in a second sentence if one would be too
    long to read.
    """
    if not limits:
        return gettext("{finding}.", finding=text)
    sentence = gettext("{finding}; but {limits}.", finding=text, limits=limits[0])
    # Words are counted in English, in which the limit of a sentence's length is defined.
    if len(in_every_language(sentence)[0].split()) <= LONGEST:
        return sentence
    return gettext("{finding}. But {limits}.", finding=text, limits=limits[0])


def _trust(decision: Decision) -> Text:
    """Return what a judge is trusted for."""
    if decision.metric is None or decision.metric.name not in CORRELATIONS:
        # A rate: no correlation of scores is involved.
        return _TRUST[decision.use]
    if decision.order and decision.use in _TRUST_ORDER:
        return _TRUST_ORDER[decision.use]
    return _TRUST_SCORES[decision.use]


def _ranges_of_units(metrics: Metrics) -> dict[str, str]:
    """Return the ranges of grades and scores whose units differ, as their metric's note
    has them.
    """
    lean = metrics.get(f"{LEAN}score")
    note = "" if lean is None else lean.note or ""
    match = _RANGES.search(note)
    names = ("low", "high", "least", "most")
    if match is None:
        return dict.fromkeys(names, "?")
    return match.groupdict()


_RANGES: Final = re.compile(
    r"grades from (?P<low>\S+) to (?P<high>\S+), scores from (?P<least>\S+) to (?P<most>\S+)"
)


def evidence(decision: Decision) -> Message:
    """Return the numbers behind a decision, over all units with a label."""
    # The metric that the decision is made from, and the share of equal verdicts next to it.
    metric = decision.metric
    share = decision.share
    if metric is None:
        return ""
    # A rate over decided pairs has no kappa next to it.
    if metric.name == DECIDED:
        return gettext(
            "it is right in {rate} of the {n:,} pairs that it decides",
            rate=percent(metric),
            n=metric.n,
        )
    # Names of correlations are `group/name`.
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
    # Without a share of equal verdicts, kappa is all that there is.
    if share is None or not metric.name.endswith("kappa"):
        return coefficient
    # Verdicts may be neither right nor wrong, so both shares are given.
    if decision.right is not None and decision.wrong is not None:
        return gettext(
            "right in {rate} and wrong in {wrong} of {n:,} labeled {units}, {kappa}",
            rate=percent(decision.right),
            wrong=percent(decision.wrong),
            n=decision.right.n,
            units=counted(decision.unit, decision.right.n),
            kappa=coefficient,
        )
    return gettext(
        "right in {rate} of {n:,} labeled {units}, {kappa}",
        rate=percent(share),
        n=share.n,
        units=counted(decision.unit, share.n),
        kappa=coefficient,
    )


_RARE: Final = 0.2
"""The rate of a class that is named with what depends on it."""
_MARGINS: Final = {"pair": "a", "item": "met"}


def _limit_kind(limit: Limit, decision: Decision) -> str:
    """Return the key of the text of a limit."""
    kind = limit.kind
    # The share of labels that are of the class which the limit is about.
    rate = None if limit.rate is None else limit.rate.value
    if kind == "lean_system" and decision.unit == "response":
        if decision.share is None:
            return "lean_system_score"
        return kind
    # A lean on a rare class needs that share to be understood.
    if kind == "lean_class" and rate is not None and rate < _RARE:
        return "lean_rare_class"
    if kind == "follows_column" and decision.share is None:
        return "follows_column_scores"
    # The sign says whether more or fewer answers are missing in one group.
    if kind == "missing_gap":
        if (limit.metric.value or 0.0) > 0:
            return "missing_more"
        return "missing_less"
    if kind == "margin":
        about = _MARGINS.get(decision.unit, "class" if limit.subject else "score")
        # Rare on either side: a class that nearly all have is as rare to lack.
        is_rare = rate is not None and min(rate, 1 - rate) < _RARE
        if is_rare:
            return f"margin_rare_{about}"
        return f"margin_{about}"
    return kind


def limit_text(limit: Limit, decision: Decision) -> Text:
    """Return a limit in words."""
    metric = limit.metric
    # The count selects singular or plural.
    count = metric.missing if limit.kind == "missing" else metric.n
    if limit.kind == "lean_where":
        return _lean_in_slice(limit, decision)
    text = replace(_LIMITS[_limit_kind(limit, decision)], count=count)
    subject: Text | str = limit.subject
    if decision.unit == "item":
        subject = _ITEM_LABELS.get(limit.subject, limit.subject)
    # Missing answers are counted among all labeled units, other limits among those with
    # an answer.
    over = labels(metric) if limit.kind == "missing" else metric.n
    # The sign of this limit says which way it goes, so it is kept.
    is_signed = limit.kind == "own_family"
    values: dict[str, object] = {
        "subject": subject,
        "n": metric.n,
        "units": counted(decision.unit, over),
        "value": interval(metric),
        "rate": percent(metric),
        "missing": metric.missing,
        "all": labels(metric),
        # The number of units behind a rate.
        "hits": round((metric.value or 0.0) * metric.n),
        "points": points(metric, absolute=not is_signed),
        "reach": _reach(metric),
    }
    if limit.kind == "follows_column":
        values["rate"] = _short_percent(metric)
        values["subject"] = quoted(limit.subject)
    if limit.kind.endswith("_where"):
        values["slice"] = slice_text(*slice_of(metric))
    if limit.kind == "varies":
        values["subject"] = quoted(limit.subject)
    if limit.kind == "cut":
        values["share"] = _short_percent(metric)
    if limit.kind in _FAVORED:
        # False and True are the indices 0 and 1: the words for a positive and for a
        # negative lean.
        negative = (metric.value or 0.0) < 0
        values["favored"] = _FAVORED[limit.kind][negative]
    if limit.rate is not None:
        values["labeled"] = _short_percent(limit.rate)
        if limit.kind in ("compressed", "expanded"):
            values["rate"] = interval(limit.rate)
    return text.fill(**values)


def _lean_in_slice(limit: Limit, decision: Decision) -> Text:
    """Return in words how far the rates in a slice are off."""
    kind, subject = lean_of(limit.metric)
    lean = Limit(f"lean_{kind}", limit.metric, subject)
    return _LIMITS["lean_where"].fill(
        lean=limit_text(lean, decision), slice=slice_text(*slice_of(limit.metric))
    )


def _reach(metric: Metric) -> str:
    """Return the largest difference that an interval does not exclude, in points."""
    # Distances from 0; the larger one is what the data do not exclude.
    ends = [abs(end) for end in (metric.low, metric.high) if end is not None]
    # Without an interval nothing is excluded: 100 points are all of the scale.
    if not ends:
        return "100"
    return _two_digits(100 * max(ends))


def _short_percent(rate: Metric) -> str:
    """Return a rate without its interval, as `2%` or `0.4%`."""
    return f"{_two_digits(100 * (rate.value or 0.0))}%"


def _two_digits(value: float) -> str:
    """Return a positive number as an integer, or with one decimal below 2."""
    if 0 < value < 2:
        return f"{value:.1f}"
    return f"{value:.0f}"


def reason_text(decision: Decision) -> Message:
    """Return in a few words why a judge is of no use or not decided about."""
    if decision.reason in _BRIEF:
        return _BRIEF[decision.reason]
    if decision.labels_needed is None:
        return gettext("more labels needed")
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
    # The constant verdict of a classifier has a name; constant scores have none.
    if decision.reason == "constant" and constant is not None:
        verdict = _ITEM_LABELS.get(constant[0], constant[0])
        values |= {"verdict": verdict, "n": constant[1].n}
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
        # Above 0 the agreement is real but too weak; otherwise it may be chance.
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
    # The ends change places: the complement of the upper end is the lower one.
    low, high = (None if end is None else 1 - end for end in (rate.high, rate.low))
    return Metric(
        rate.name, None if rate.value is None else 1 - rate.value, low, high, rate.n
    )


def _undecided(decision: Decision, metrics: Metrics) -> Text:
    """Return what would decide about a judge."""
    n = labels_at_hand(metrics)
    if decision.reason == "missing":
        return _missing(decision)
    if decision.reason == "one_class":
        share = decision.share
        # The share of equal verdicts is all that one class of labels shows.
        agreeing = (
            gettext(" (it gives the same answer in {rate})", rate=percent(share))
            if share is not None
            else ""
        )
        return _REASONS["one_class"].fill(n=n, agreeing=agreeing)
    if decision.reason == "stratum_unclear" and decision.metric is not None:
        values = stratum_values(decision.metric)
        return _REASONS["stratum_unclear"].fill(units=UNITS[decision.unit], **values)
    if decision.reason == "stratum_followed" and decision.metric is not None:
        of_scores = kind_of(metrics) is SCORES
        reason = "stratum_followed_scores" if of_scores else "stratum_followed"
        return _REASONS[reason].fill(
            units=UNITS[decision.unit],
            rate=_short_percent(decision.metric),
            column=quoted(stratum(decision.metric)),
        )
    if decision.reason == "split" and decision.metric is not None:
        return _REASONS["split"].fill(
            rate=percent(decision.metric),
            n=decision.metric.n,
            units=counted(decision.unit, decision.metric.n),
        )
    disputed = known(metrics, DISPUTED)
    # Of several annotators, who gave no common label to the cases that they disagree on.
    if decision.reason == "picked" and disputed is not None:
        values = {"hits": round((disputed.value or 0.0) * disputed.n), "n": disputed.n}
        return _REASONS["disputed"].fill(evidence=evidence(decision), **values)
    copied = known(metrics, COPIED)
    if decision.reason == "copied_labels" and copied is not None:
        return _REASONS["copied_labels"].fill(
            annotator=quoted(copied.note or ""),
            hits=round((copied.value or 0.0) * copied.n),
            n=copied.n,
        )
    if decision.reason in ("picked", "label_source"):
        return _REASONS[decision.reason].fill(evidence=evidence(decision))
    if decision.reason == "units":
        ranges = _ranges_of_units(metrics)
        return _REASONS["units"].fill(evidence=evidence(decision), **ranges)
    if decision.reason == "no_labels":
        return _without_labels(decision, metrics)
    if decision.reason == "few_labels":
        text = ngettext(
            "Label more {units} before you decide: {n:,} label is too few to say anything.",
            "Label more {units} before you decide: {n:,} labels are too few to say anything.",
            n,
        )
        return text.fill(units=counted(decision.unit, None))
    # What remains needs more labels: too few to decide, but enough to estimate how many.
    text = gettext(
        "Label {more} more {units} before you decide: {evidence} does not show whether the judge is"
        " useful or hardly better than chance."
    )
    text = text.fill(
        more=label_count(decision.labels_needed),
        units=UNITS[decision.unit],
        evidence=evidence(decision),
    )
    return _with_range(text, decision)


def _without_labels(decision: Decision, metrics: Metrics) -> Text:
    """Return how many labels would decide about a judge that is assumed, by the kind of
    its verdicts.
    """
    if kind_of(metrics) is SCORES:
        text = gettext(
            "Label {more} {units} first: without labels, nothing shows whether to trust this judge."
            " So many would probably decide about scores with a correlation of 0.40."
        )
    else:
        text = gettext(
            "Label {more} {units} first: without labels, nothing shows whether to trust this judge."
            " So many would probably decide about a judge that is right in 70%."
        )
    more = label_count(decision.labels_needed)
    text = text.fill(more=more, units=UNITS[decision.unit])
    return _with_range(text, decision)


def counted(unit: Unit, n: int | None) -> Text:
    """Return what verdicts are about, in the singular for one of them."""
    return replace(UNITS[unit], count=2 if n is None else n)


def label_count(labels: int | None) -> Message:
    """Return how many more labels are needed, in words: at least two, of which nouns are plural."""
    if labels is None:
        return gettext("some")
    if labels < A_FEW:
        return gettext("a few")
    if labels > TOO_MANY:
        return gettext("more than {n:,}", n=TOO_MANY)
    return gettext("about {n:,}", n=labels)


def _with_range(text: Text, decision: Decision) -> Text:
    """Return a text that asks for labels with the range of their number, and what the
    data has if that is less.
    """
    labels_needed = decision.labels_needed
    if labels_needed is None or labels_needed > TOO_MANY:
        return text
    low, high = decision.labels_range or (labels_needed, labels_needed)
    # A range only if it is one on both sides, and small enough to be of use.
    if low < labels_needed < high <= TOO_MANY:
        text = gettext(
            "{finding} It could take {low:,} to {high:,}.",
            finding=text,
            low=low,
            high=high,
        )
    elif labels_needed < A_FEW <= high <= TOO_MANY:
        text = gettext("{finding} It could take up to {n:,}.", finding=text, n=high)
    # More labels of the same prompts would not add independent ones.
    if decision.clusters is not None:
        return gettext(
            "{finding} They must be of new prompts: the labels are of {n:,} clusters only.",
            finding=text,
            n=decision.clusters,
        )
    if decision.unlabeled == 0:
        return gettext("{finding} All of the data has labels.", finding=text)
    if decision.unlabeled is not None and decision.unlabeled < labels_needed:
        text = gettext(
            "{finding} The data has {n:,} without a label.",
            finding=text,
            n=decision.unlabeled,
        )
    return text


def _missing(decision: Decision) -> Text:
    """Return that missing answers come first."""
    metric = decision.share or decision.metric
    if metric is None or not metric.missing:
        return gettext("Fix the missing answers first: most answers are missing.")
    lost = limit_text(Limit("missing", metric), decision)
    text = gettext("Fix the missing answers before you decide: {lost}", lost=lost)
    # Worst-case bounds are of accuracy: a correlation has none that could be read as a rate.
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
    """Return what to do with the judge of a run, and a warning if it is simulated."""
    decision = headline(result.metrics, result.config.scoring.confidence)
    return [decision, *simulated(simulated_judges(result.manifest))]


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
