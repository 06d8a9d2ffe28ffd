"""Findings on a judge that chooses classes: its agreement with labels by class, and its corrected rates."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval, percent
from evalkit.core.translation import gettext, ngettext
from evalkit.decision import BALANCED, SOME_ABSTAINED, missed_classes
from evalkit.report.agreement_findings import agreement
from evalkit.report.counts import Finding, Metrics, Tone, finding, known, side
from evalkit.scoring.metrics.corrections import RANDOM

ABSTAINED = "class/abstained"


def has_classes(metrics: Metrics) -> bool:
    """Return whether the metrics are those of a judge that chooses classes."""
    return BALANCED in metrics


def class_names(metrics: Metrics) -> list[str]:
    """Return the names of the classes, in the order of the config."""
    return [
        name[len("class/") : -len("/rate")] for name in metrics if name.startswith("class/") and name[-5:] == "/rate"
    ]


def class_agreement(metrics: Metrics, mode: str, *, positive: str | None) -> Iterator[Finding]:
    """Yield how classes agree with labels, by which class, and how often the judge abstains.

    Args:
        metrics: The metrics of the run.
        mode: The mode of the run.
        positive: The positive class, if there is one.
    """
    yield from agreement(metrics, mode)
    yield from _by_class(metrics, positive)
    if (abstained := known(metrics, ABSTAINED)) is not None and abstained.value:
        text = gettext("Abstains in {rate} of {n:,} answers; all other numbers are about the rest.")
        tone: Tone = "warn" if abstained.value >= SOME_ABSTAINED else "info"
        yield finding(ABSTAINED, tone, text.fill(rate=percent(abstained), n=abstained.n))


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
        text = text.fill(name=limit.subject, recall=percent(limit.metric), n=limit.metric.n)
        yield finding(limit.metric.name, "warn", text)


def class_corrections(metrics: Metrics) -> Iterator[Finding]:
    """Yield each class's rate corrected by labels, if other responses have none, with Youden's J."""
    for name in class_names(metrics):
        judged, right = known(metrics, f"class/{name}/rate"), known(metrics, f"corrected/prediction_powered/{name}")
        if judged is None or right is None or right.low is None or RANDOM not in (right.note or ""):
            continue
        if right.low <= 0 and right.high is not None and right.high >= 1:
            text = gettext("'{name}': {judged} as judged; {n:,} labels do not determine the correct rate. Label more.")
            yield finding(right.name, "warn", text.fill(name=name, judged=percent(judged), n=right.n))
            continue
        text = gettext("'{name}': {judged} as judged, {corrected} corrected by {n:,} labels")
        text = text.fill(name=name, judged=percent(judged), corrected=percent(right), n=right.n)
        if (errors := known(metrics, f"corrected/rate/{name}")) is not None:
            text = gettext("{finding}, {rate} corrected for the errors on them", finding=text, rate=percent(errors))
        else:
            text = gettext("{finding}; the errors on them do not determine a correction", finding=text)
        if (youden := known(metrics, f"class/{name}/youden_j")) is not None:
            text = gettext("{finding} (Youden's J {youden})", finding=text, youden=interval(youden))
        value = judged.value or 0.0
        off = right.high is not None and not right.low <= value <= right.high
        yield finding(right.name, "warn" if off else "info", gettext("{finding}.", finding=text))
