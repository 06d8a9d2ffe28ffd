"""Findings on agreement with the labels: the numbers behind the decision, without a conclusion of their own.

By class, of checklists, and by turns and steps of conversations, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.config import CHECKLIST
from evalkit.core.display import interval, percent, points
from evalkit.core.translation import Message, Text, gettext, joined, ngettext
from evalkit.decision import (
    ACCURACY,
    BALANCED,
    CORRELATIONS,
    DECIDED,
    ITEM_ACCURACY,
    ITEM_KAPPA,
    KAPPA,
    SOME_ABSTAINED,
    Metrics,
    decide,
    kind_of,
    known,
    labels,
    missed_classes,
    side,
)
from evalkit.report.findings.decisions import UNITS
from evalkit.report.findings.finding import Finding, Tone, finding, has_classes
from evalkit.report.findings.labels import label_words
from evalkit.report.texts import note_text
from evalkit.scoring.metrics.turns import EARLY, EXACT, LATE, NEAR, NONE, RECOVERED, SLOPE
from evalkit.types import Metric

PER_ORDER = "agreement/accuracy_per_order"


def agreement_findings(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield accuracy and kappa, and the correlation of scores, or why they are unknown; see `class_agreement`."""
    if not has_classes(metrics):
        yield from _agreement(metrics)


def _agreement(metrics: Metrics) -> Iterator[Finding]:
    kind, tone = kind_of(metrics), _tone(metrics)
    accuracy = known(metrics, kind.share or ACCURACY)
    correlation = next((metric for name in CORRELATIONS if (metric := known(metrics, name))), None)
    shares: list[tuple[Metric, list[Message]]] = []
    if accuracy is not None:
        shares.append((accuracy, _numbers(metrics, accuracy)))
    if correlation is not None:
        name = correlation.name.partition("/")[2].capitalize()
        text = ngettext("{name} {value} with {n:,} label", "{name} {value} with {n:,} labels", correlation.n)
        shares.append((correlation, [text.fill(name=name, value=interval(correlation))]))
    for metric, numbers in shares:
        text = gettext("Agreement with {labels}: {numbers}.", labels=label_words(metrics), numbers=joined(numbers))
        yield finding(metric.name, tone, text)
    if not shares:
        yield _nothing(metrics)


def _tone(metrics: Metrics) -> Tone:
    tones: dict[str, Tone] = {"single": "good", "none": "bad"}
    return tones.get(decide(metrics).use, "warn")


def _nothing(metrics: Metrics) -> Finding:
    kind = kind_of(metrics)
    counted = [metrics[name] for name in (kind.share or ACCURACY, *CORRELATIONS) if name in metrics]
    distinct = known(metrics, "score/distinct")
    if any(metric.n for metric in counted):
        why = gettext("All labels are equal, so scores cannot be correlated with them")
        if distinct is not None and distinct.value == 1:
            why = ngettext(
                "A single score cannot follow the labels",
                "All {n:,} scores are equal, so they cannot follow the labels",
                distinct.n,
            )
    elif any(metric.missing for metric in counted):
        why = gettext("No labeled case has a usable answer")
    elif known(metrics, "cascade/abstained") is not None:
        why = gettext("The cascade decides no case with a label that chose no threshold")
    else:
        text = gettext("No labels to compare with: it is unknown how far the judge can be trusted.")
        return finding(ACCURACY, "info", text)
    text = gettext("{why}: its agreement with {labels} is unknown.", why=why, labels=label_words(metrics))
    return finding(ACCURACY, "bad", text)


def _numbers(metrics: Metrics, accuracy: Metric) -> list[Message]:
    """Return accuracy, what it is made of where there are ties, its bounds where answers are missing, and kappa."""
    ties, per_order, decided = (known(metrics, name) for name in ("tie_rate", PER_ORDER, DECIDED))
    parts: list[Message] = [gettext("accuracy {value}", value=interval(accuracy))]
    if accuracy.name == ACCURACY and ties is not None and ties.value:
        parts[0] = gettext("{accuracy} (a tie is wrong unless the label is one)", accuracy=parts[0])
        if per_order is not None:
            parts.append(gettext("{value} in a single order", value=interval(per_order)))
        if decided is not None:
            text = ngettext(
                "{value} among 1 decided pair",
                "{value} among {n:,} decided pairs",
                decided.n,
                value=interval(decided),
            )
            parts.append(text)
        elif DECIDED in metrics:
            parts.append(gettext("no labeled pair is decided"))
    if (balanced := known(metrics, BALANCED)) is not None:
        parts.append(gettext("balanced accuracy {value}", value=interval(balanced)))
    kappa = metrics.get(ITEM_KAPPA if accuracy.name == ITEM_ACCURACY else KAPPA)
    return [*parts, *_missing(metrics, accuracy), *([] if kappa is None else _kappa(kappa))]


def _missing(metrics: Metrics, accuracy: Metric) -> list[Text]:
    if not accuracy.missing or accuracy.worst_low is None or accuracy.worst_high is None:
        return []
    text = gettext(
        "{low:.2f} to {high:.2f} over all {every:,} {units}, {missing:,} without a verdict",
        low=accuracy.worst_low,
        high=accuracy.worst_high,
        every=labels(accuracy),
        missing=accuracy.missing,
        units=UNITS[kind_of(metrics).unit],
    )
    return [text]


def _kappa(kappa: Metric) -> list[Text]:
    if kappa.value is not None:
        return [gettext("kappa {value}", value=interval(kappa))]
    if not kappa.n:
        return []
    return [gettext("kappa not defined ({why})", why=note_text(kappa.note or ""))]


ABSTAINED = "class/abstained"


def class_agreement(metrics: Metrics, positive: str | None) -> Iterator[Finding]:
    """Yield how classes agree with labels, by which class, and how often the judge abstains.

    Args:
        metrics: The metrics of the run.
        positive: The positive class, if there is one.
    """
    yield from _agreement(metrics)
    yield from _by_class(metrics, positive)
    if (abstained := known(metrics, ABSTAINED)) is not None and abstained.value:
        text = gettext("Abstains in {rate} of {n:,} answers; all other numbers are about the rest.")
        tone: Tone = "warn" if abstained.value >= SOME_ABSTAINED else "info"
        yield finding(abstained, tone, text)


def _by_class(metrics: Metrics, positive: str | None) -> Iterator[Finding]:
    tpr, tnr, youden = (known(metrics, f"class/{name}") for name in ("tpr", "tnr", "youden_j"))
    if positive is not None and tpr is not None and tnr is not None and youden is not None:
        of = ngettext(
            "Of {n:,} response labeled '{name}' it finds {rate}",
            "Of {n:,} responses labeled '{name}' it finds {rate}",
            tpr.n,
        )
        others = ngettext("of {n:,} other it excludes {rate}", "of {n:,} others it excludes {rate}", tnr.n)
        text = gettext(
            "{found}, and {excluded}: Youden's J {youden}.",
            found=of.fill(name=positive, rate=percent(tpr)),
            excluded=others.fill(rate=percent(tnr)),
            youden=interval(youden),
        )
        yield finding("class/youden_j", "info" if side(youden, 0.0) == "above" else "warn", text)
    for limit in missed_classes(metrics):
        text = gettext("Misses most responses labeled '{name}': finds {recall} of {n:,}.")
        yield finding(limit.metric, "warn", text.fill(name=limit.subject, recall=percent(limit.metric)))


def checklist_findings(metrics: Metrics, mode: str) -> Iterator[Finding]:
    """Yield what is notable of a checklist."""
    if mode != CHECKLIST:
        return
    if (met := known(metrics, "checklist/met_rate")) is not None and met.value is not None:
        yield finding(met, "info", gettext("Of {n:,} items met or not met, {share} are met.", share=percent(met)))
    mean = metrics.get("score/mean")
    if mean is None or not mean.missing or mean.worst_low is None or mean.worst_high is None:
        return
    text = gettext(
        "{missing:,} of {all:,} responses have no score, because items without an answer could change it. The mean "
        "score of all of them is between {low:.2f} and {high:.2f}.",
        missing=mean.missing,
        all=mean.n + mean.missing,
        low=mean.worst_low,
        high=mean.worst_high,
    )
    yield finding("score/mean", "warn", text)


def turn_findings(metrics: Metrics, mode: str) -> Iterator[Finding]:
    """Yield what changes along conversations, and whether failures are found where they are."""
    yield from _by_position(metrics, mode)
    exact, near, none = (known(metrics, name) for name in (EXACT, NEAR, NONE))
    if exact is not None and near is not None and none is not None:
        text = gettext(
            "In {exact} of {n:,} conversations, the first turn or step that fails is the labeled one, or none fails by "
            "either; within one turn or step in {near}. A judge that passes everything would be right in {none} of "
            "{labeled:,} labeled ones.",
            exact=percent(exact),
            labeled=none.n,
            near=percent(near),
            none=percent(none),
        )
        better = exact.low is not None and none.high is not None and exact.low > none.high
        yield finding(exact, "good" if better else "info", text)
    if (after := known(metrics, RECOVERED)) is not None:
        text = gettext(
            "Of {n:,} conversations in which a turn or step before the last fails by the verdicts, the last one passes "
            "in {rate}: the agent may have recovered, or a verdict may be wrong, so the last one does not stand for "
            "the whole."
        )
        yield finding(after, "info", text)


def _by_position(metrics: Metrics, mode: str) -> Iterator[Finding]:
    slope, early, late = (known(metrics, name) for name in (SLOPE, EARLY, LATE))
    if slope is None or early is None or late is None or slope.low is None or slope.high is None:
        return
    text = gettext(
        "No clear change of agreement with labels along conversations: {early} in the first half and {late} in the "
        "second; {slope} points from the first to the last turn or step."
    )
    if slope.high < 0:
        text = gettext(
            "Agreement with labels is lower late in conversations: {early} in the first half and {late} in the second; "
            "{slope} points from the first to the last turn or step. Late ones may also be harder to judge."
        )
    elif slope.low > 0:
        text = gettext(
            "Agreement with labels is higher late in conversations: {early} in the first half and {late} in the "
            "second; {slope} points from the first to the last turn or step. Late ones may also be easier to judge."
        )
    text = text.fill(early=percent(early), late=percent(late), slope=points(slope))
    if "score/mean" in metrics and mode != CHECKLIST:
        text = gettext(
            "{finding} Agreement is here 1 minus the distance of score and grade as a share of the scale, which chance "
            "alone can make high.",
            finding=text,
        )
    yield finding(SLOPE, "warn" if slope.high < 0 else "info", text)
