"""Findings on a judge that chooses classes: what to do with it, its agreement with labels, and its corrected rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from evalkit.core.display import interval, percent
from evalkit.core.translation import Text, gettext, joined
from evalkit.report.agreement_findings import SUBSTANTIAL_KAPPA
from evalkit.report.counts import Finding, Metrics, Tone, finding, known, side
from evalkit.report.diagnostics import label_words
from evalkit.scoring.chance_level import ACCURACY, BALANCED, KAPPA, against_chance
from evalkit.scoring.metrics.ppi import RANDOM
from evalkit.types import Metric

ABSTAINED = "class/abstained"
MANY_MISSING, SOME_ABSTAINED, FEW = 0.2, 0.1, 30
POWER, WORTHWHILE = 0.8, 0.4
"""Labels should show a kappa of 0.4 with this probability: an accuracy of 0.70 if two classes are equally frequent."""
NEAR = 0.2
"""A judge is near chance if even the upper end of kappa's interval is at most this far above 0."""
POOR = 0.5
"""A class is mostly missed if the upper end of the interval of its recall is below this share."""


def has_classes(metrics: Metrics) -> bool:
    """Return whether the metrics are those of a judge that chooses classes."""
    return BALANCED in metrics


def class_names(metrics: Metrics) -> list[str]:
    """Return the names of the classes, in the order of the config."""
    return [
        name[len("class/") : -len("/rate")] for name in metrics if name.startswith("class/") and name[-5:] == "/rate"
    ]


def class_headline(metrics: Metrics, confidence: float) -> Finding:
    """Return what to do with a judge that chooses classes."""
    for find in (_unlabeled, _missing, _constant):
        if (found := find(metrics)) is not None:
            return found
    test = against_chance(metrics)
    kappa = None if test is None else test.metric
    if kappa is None or kappa.low is None or kappa.high is None:
        return finding(KAPPA, "warn", gettext("Label more responses before you decide: kappa has no interval here."))
    if side(kappa, 0.0) == "above":
        return _trusted(metrics, kappa)
    return _untrusted(metrics, kappa, kappa.low, kappa.high, confidence)


def _unlabeled(metrics: Metrics) -> Finding | None:
    """Advise what to label where nothing can be compared with labels."""
    accuracy, kappa = metrics[ACCURACY], known(metrics, KAPPA)
    if kappa is not None:
        return None
    if accuracy.n:
        text = gettext(
            "Add labels of other classes first: labels of one class do not show whether to trust this judge."
        )
        return finding(KAPPA, "warn", text)
    if accuracy.missing:
        text = gettext("Fix the missing answers first: no labeled response has a usable answer.")
        return finding(ACCURACY, "bad", text)
    if (abstained := known(metrics, ABSTAINED)) is not None and abstained.value == 1:
        text = gettext("Do not use this judge for these responses: it abstains in all {n:,} answers.", n=abstained.n)
        return finding(ABSTAINED, "bad", text)
    z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(POWER)
    text = gettext(
        "Label about {n:,} responses first, enough to show an accuracy of 0.70 if two classes are equally frequent: "
        "without labels, nothing shows whether to trust this judge.",
        n=_rounded(z * z * (1 - WORTHWHILE**2) / WORTHWHILE**2),
    )
    return finding(ACCURACY, "warn", text)


def _missing(metrics: Metrics) -> Finding | None:
    """Say that missing answers come first: many of them, or enough to undo what the others show."""
    accuracy, kappa = metrics[ACCURACY], metrics[KAPPA]
    every = accuracy.n + accuracy.missing
    undone = side(kappa, 0.0) == "above" and kappa.worst_low is not None and kappa.worst_low <= 0
    if not accuracy.missing or accuracy.worst_low is None or accuracy.worst_high is None:
        return None
    if accuracy.missing < MANY_MISSING * every and not undone:
        return None
    text = gettext(
        "Fix the missing answers before you decide: {missing:,} of {all:,} labeled responses have no class, so the "
        "accuracy over all of them could be anywhere from {low:.2f} to {high:.2f}.",
        missing=accuracy.missing,
        all=every,
        low=accuracy.worst_low,
        high=accuracy.worst_high,
    )
    return finding(ACCURACY, "bad", text)


def _constant(metrics: Metrics) -> Finding | None:
    """Say that all answers name one class although the labels differ."""
    for name in class_names(metrics):
        rate = metrics[f"class/{name}/rate"]
        if rate.value == 1 and rate.n > 2:
            text = gettext("Do not trust this judge: all {n:,} answers are '{name}', whatever the label.")
            return finding(rate.name, "bad", text.fill(n=rate.n, name=name))
    return None


def _trusted(metrics: Metrics, kappa: Metric) -> Finding:
    """Say for what a judge that is better than chance can be trusted, and what limits that."""
    accuracy = metrics[ACCURACY]
    evidence = gettext(
        "it is right in {rate} of {n:,} labeled responses, kappa {kappa}",
        rate=percent(accuracy),
        n=accuracy.n,
        kappa=interval(kappa),
    )
    if accuracy.n < FEW:
        text = gettext(
            "Label about {more:,} more responses before you decide: kappa {kappa} is better than chance, but {n:,} "
            "labels do not show by how much.",
            more=FEW - accuracy.n,
            kappa=interval(kappa),
            n=accuracy.n,
        )
        return finding(KAPPA, "warn", text)
    strong = kappa.low is not None and kappa.low >= SUBSTANTIAL_KAPPA
    strong = strong and (not kappa.missing or (kappa.worst_low or 0.0) >= SUBSTANTIAL_KAPPA)
    text = (
        gettext("Trust this judge for single responses like these: {evidence}")
        if strong
        else gettext("Trust this judge only for rates over many responses, corrected by labels: {evidence}")
    )
    text = text.fill(evidence=evidence)
    limits = list(_limits(metrics))
    if limits:
        text = gettext("{finding}; but {limits}", finding=text, limits=joined(limits))
    return finding(KAPPA, "good" if strong and not limits else "warn", gettext("{finding}.", finding=text))


def _limits(metrics: Metrics) -> Iterator[Text]:
    """Yield what the metrics show that limits trust in a judge better than chance."""
    abstained, accuracy = known(metrics, ABSTAINED), metrics[ACCURACY]
    if abstained is not None and (abstained.value or 0) >= SOME_ABSTAINED:
        yield gettext("it abstains in {rate} of answers", rate=percent(abstained))
    every = accuracy.n + accuracy.missing
    if accuracy.missing > 0.05 * every:
        yield gettext("{n:,} of {all:,} labeled responses have no class", n=accuracy.missing, all=every)
    for name in _missed(metrics):
        yield gettext("it misses most responses labeled '{name}'", name=name)


def _missed(metrics: Metrics) -> list[str]:
    """Return the classes of which the judge is shown to miss most."""
    found = {name: known(metrics, f"class/{name}/recall") for name in class_names(metrics)}
    return [name for name, one in found.items() if one is not None and one.high is not None and one.high < POOR]


def _untrusted(metrics: Metrics, kappa: Metric, low: float, high: float, confidence: float) -> Finding:
    """Advise on a judge that is not shown to be better than chance: more labels, or no trust."""
    shown = interval(kappa)
    if side(kappa, 0.0) == "below":
        text = gettext(
            "Do not trust this judge: it agrees with {labels} less than chance (kappa {kappa}); check that the labels "
            "are not reversed.",
            labels=label_words(metrics),
            kappa=shown,
        )
        return finding(KAPPA, "bad", text)
    if high <= NEAR:
        text = gettext("Do not trust this judge: it is at best slightly better than chance (kappa {kappa}).")
        return finding(KAPPA, "bad", text.fill(kappa=shown))
    normal = NormalDist()
    error = (high - low) / (2 * normal.inv_cdf(0.5 + confidence / 2))
    times = (normal.inv_cdf(0.5 + confidence / 2) + normal.inv_cdf(POWER)) * error
    value, n = kappa.value or 0.0, kappa.n
    if value > WORTHWHILE / 10:
        text = gettext(
            "Label about {more:,} more responses before you decide: kappa {kappa} does not differ significantly from "
            "chance, and a kappa of this size takes about that many more labels to show.",
            more=_rounded(max(n * (times / value) ** 2 - n, 1)),
            kappa=shown,
        )
        return finding(KAPPA, "warn", text)
    useful = n * (times / WORTHWHILE) ** 2 - n
    if useful <= 0:
        text = gettext("Do not trust this judge: it is not shown to be better than chance (kappa {kappa}).")
        return finding(KAPPA, "bad", text.fill(kappa=shown))
    text = gettext(
        "Do not trust this judge yet: kappa {kappa} is no better than chance; about {more:,} more labeled responses "
        "would show whether it is clearly better.",
        kappa=shown,
        more=_rounded(useful),
    )
    return finding(KAPPA, "bad", text)


def _rounded(count: float) -> int:
    """Return an estimated count, rounded up to two digits."""
    unit: int = 10 ** max(math.floor(math.log10(max(count, 1))) - 1, 0)
    return math.ceil(count / unit) * unit


def class_agreement(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield how classes agree with labels, by which class, and how often the judge abstains."""
    accuracy, kappa = metrics[ACCURACY], metrics[KAPPA]
    if accuracy.value is None:
        yield _nothing(metrics, accuracy)
    else:
        yield _agreement(metrics, accuracy, kappa)
    yield from _by_class(metrics)
    if (abstained := known(metrics, ABSTAINED)) is not None and abstained.value:
        text = gettext("Abstains in {rate} of {n:,} answers; all other numbers are about the rest.")
        tone: Tone = "warn" if abstained.value >= SOME_ABSTAINED else "info"
        yield finding(ABSTAINED, tone, text.fill(rate=percent(abstained), n=abstained.n))


def _nothing(metrics: Metrics, accuracy: Metric) -> Finding:
    if accuracy.missing:
        text = gettext("No labeled response has a usable answer: its agreement with {labels} is unknown.")
        return finding(ACCURACY, "bad", text.fill(labels=label_words(metrics)))
    text = gettext("No labels to compare with: it is unknown how far the judge can be trusted.")
    return finding(ACCURACY, "info", text)


def _agreement(metrics: Metrics, accuracy: Metric, kappa: Metric) -> Finding:
    parts: list[Text] = [gettext("accuracy {value}", value=interval(accuracy))]
    if accuracy.missing and accuracy.worst_low is not None and accuracy.worst_high is not None:
        text = gettext(
            "{low:.2f} to {high:.2f} over all {every:,} responses, {missing:,} without a class",
            low=accuracy.worst_low,
            high=accuracy.worst_high,
            every=accuracy.n + accuracy.missing,
            missing=accuracy.missing,
        )
        parts.append(text)
    if (balanced := known(metrics, BALANCED)) is not None:
        parts.append(gettext("balanced accuracy {value}", value=interval(balanced)))
    parts.append(
        gettext("kappa not defined{because}", because=f" ({(kappa.note or '').partition(':')[0]})")
        if kappa.value is None
        else gettext("kappa {value}", value=interval(kappa))
    )
    where = "unknown" if kappa.value is None else side(kappa, 0.0)
    strong = where == "above" and kappa.low is not None and kappa.low >= SUBSTANTIAL_KAPPA
    text = {
        "above": gettext("Agrees with {labels} far better than chance")
        if strong
        else gettext("Agrees with {labels} better than chance"),
        "below": gettext("Agrees with {labels} less often than chance would"),
        "unclear": gettext("Not shown to be better than chance"),
        "unknown": gettext("Labels of one class do not show whether it is better than chance"),
    }[where]
    tone: Tone = {"above": "good" if strong else "warn", "unknown": "warn"}.get(where, "bad")
    text = gettext("{finding}: {numbers}.", finding=text.fill(labels=label_words(metrics)), numbers=joined(parts))
    return finding(ACCURACY, tone, text)


def _by_class(metrics: Metrics) -> Iterator[Finding]:
    tpr, tnr, youden = (known(metrics, f"class/{name}") for name in ("tpr", "tnr", "youden_j"))
    if tpr is not None and tnr is not None and youden is not None:
        text = gettext(
            "Of {positive:,} responses labeled with the positive class it finds {tpr}, and of {negative:,} others it "
            "excludes {tnr}: Youden's J {youden}.",
            positive=tpr.n,
            negative=tnr.n,
            tpr=percent(tpr),
            tnr=percent(tnr),
            youden=interval(youden),
        )
        yield finding("class/youden_j", "info" if side(youden, 0.0) == "above" else "warn", text)
    for name in _missed(metrics):
        recall = metrics[f"class/{name}/recall"]
        text = gettext("Misses most responses labeled '{name}': finds {recall} of {n:,}.")
        yield finding(recall.name, "warn", text.fill(name=name, recall=percent(recall), n=recall.n))


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
