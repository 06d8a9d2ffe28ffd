"""Findings on agreement with the labels: the numbers behind the decision, without a
conclusion of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalkit.core.display import interval
from evalkit.core.translation import (
    Message,
    Text,
    gettext,
    in_every_language,
    joined,
    ngettext,
)
from evalkit.core.types import Metric
from evalkit.report.findings.decisions import UNITS
from evalkit.report.findings.finding import (
    LONGEST,
    Finding,
    RunFacts,
    Tone,
    finding,
    has_classes,
)
from evalkit.report.findings.labels import label_words
from evalkit.report.texts import note_text
from evalkit.scoring.decision import (
    ACCURACY,
    BALANCED,
    CORRELATIONS,
    DECIDED,
    ITEM_ACCURACY,
    ITEM_KAPPA,
    KAPPA,
    Metrics,
    decide,
    kind_of,
    known,
    labels,
)

PER_ORDER = "agreement/accuracy_per_order"
WEIGHTED_KAPPA = "agreement/kappa_weighted"


def agreement_findings(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield accuracy and kappa, and the correlation of scores, or why they are unknown;
    see `class_findings`.
    """
    if not has_classes(metrics):
        yield from agreement_numbers(metrics, run)


def agreement_numbers(metrics: Metrics, run: RunFacts) -> Iterator[Finding]:
    """Yield the numbers of agreement, or why there are none."""
    kind = kind_of(metrics)
    tone = _tone(metrics, run.confidence)
    accuracy = known(metrics, kind.share or ACCURACY)
    correlation = next(
        (metric for name in CORRELATIONS if (metric := known(metrics, name))), None
    )
    shares: list[tuple[Metric, list[Message]]] = []
    if accuracy is not None:
        shares.append((accuracy, _numbers(metrics, accuracy)))
    if correlation is not None:
        name = correlation.name.partition("/")[2].capitalize()
        text = ngettext(
            "{name} {value} with {n:,} label",
            "{name} {value} with {n:,} labels",
            correlation.n,
        )
        shares.append(
            (correlation, [text.fill(name=name, value=interval(correlation))])
        )
    for metric, numbers in shares:
        yield finding(metric.name, tone, _sentences(metrics, numbers))
    if not shares:
        yield _nothing(metrics)


def _sentences(metrics: Metrics, numbers: Sequence[Message]) -> Text:
    """Return numbers of agreement in a sentence, or in two if one would be too long to read."""
    labels = label_words(metrics)
    text = gettext(
        "Agreement with {labels}: {numbers}.", labels=labels, numbers=joined(numbers)
    )
    if len(in_every_language(text)[0].split()) <= LONGEST:
        return text
    return gettext(
        "Agreement with {labels}: {numbers}. In detail: {details}.",
        labels=labels,
        numbers=joined([numbers[0], numbers[-1]]),
        details=joined(numbers[1:-1]),
    )


def _tone(metrics: Metrics, confidence: float) -> Tone:
    tones: dict[str, Tone] = {"single": "good", "none": "bad"}
    return tones.get(decide(metrics, confidence).use, "warn")


def _nothing(metrics: Metrics) -> Finding:
    kind = kind_of(metrics)
    counted = [
        metrics[name]
        for name in (kind.share or ACCURACY, *CORRELATIONS)
        if name in metrics
    ]
    distinct = known(metrics, "score/distinct")
    if any(metric.n for metric in counted):
        why = gettext("All labels are equal, so scores cannot be correlated with them")
        if distinct is not None and distinct.value == 1:
            why = gettext(
                "All {n:,} scores are equal, so they cannot follow the labels",
                n=distinct.n,
            )
            if distinct.n == 1:
                why = gettext("A single score cannot follow the labels")
    elif any(metric.missing for metric in counted):
        why = gettext("No labeled case has a usable answer")
    elif known(metrics, "cascade/abstained") is not None:
        why = gettext(
            "The cascade decides no case with a label that chose no threshold"
        )
    else:
        text = gettext(
            "No labels to compare with: it is unknown how far the judge can be trusted."
        )
        return finding(ACCURACY, "info", text)
    text = gettext(
        "{why}: its agreement with {labels} is unknown.",
        why=why,
        labels=label_words(metrics),
    )
    return finding(ACCURACY, "bad", text)


def _numbers(metrics: Metrics, accuracy: Metric) -> list[Message]:
    """Return accuracy, what it is made of where there are ties, its bounds where
    answers are missing, and kappa, for ordered classes also the weighted one.
    """
    ties, per_order, decided = (
        known(metrics, name) for name in ("tie_rate", PER_ORDER, DECIDED)
    )
    parts: list[Message] = [gettext("accuracy {value}", value=interval(accuracy))]
    if accuracy.name == ACCURACY and ties is not None and ties.value:
        parts[0] = gettext(
            "{accuracy} (a tie is wrong unless the label is one)", accuracy=parts[0]
        )
        if per_order is not None:
            parts.append(
                gettext("{value} in a single order", value=interval(per_order))
            )
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
    parts += _missing(metrics, accuracy)
    kappa = metrics.get(ITEM_KAPPA if accuracy.name == ITEM_ACCURACY else KAPPA)
    if kappa is not None:
        parts += _kappa(kappa)
    weighted = known(metrics, WEIGHTED_KAPPA)
    # Pairs have one, too, whose order is that of A, a tie and B; only classes say it here.
    if weighted is not None and balanced is not None:
        parts.append(gettext("weighted kappa {value}", value=interval(weighted)))
    return parts


def _missing(metrics: Metrics, accuracy: Metric) -> list[Text]:
    if (
        not accuracy.missing
        or accuracy.worst_low is None
        or accuracy.worst_high is None
    ):
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
