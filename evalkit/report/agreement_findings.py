"""Findings on agreement with the labels: better than chance or not, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator

from evalkit.core.display import interval
from evalkit.core.translation import Message, Text, gettext, joined, ngettext
from evalkit.report.counts import Finding, Metrics, Tone, finding, known, side
from evalkit.report.diagnostics import label_words
from evalkit.scoring.chance_level import (
    ACCURACY,
    CORRELATIONS,
    DECIDED,
    KAPPA,
    PER_ORDER,
    ChanceTest,
    against_chance,
    one_order,
)
from evalkit.types import Metric

SUBSTANTIAL_KAPPA = 0.6  # Landis and Koch (1977), table 2: from here on agreement is "substantial"
SUBSTANTIAL_ACCURACY = 0.8  # the same where A and B are as frequent and kappa is not defined
GOOD = 0.75
"""An interval with both chance and this accuracy (or half of a coefficient's range) in it is too wide to tell."""


def agreement(metrics: Metrics, _: str) -> Iterator[Finding]:
    """Yield what accuracy and correlation say, or why they say nothing."""
    accuracy = known(metrics, ACCURACY)
    correlation = next((m for name in CORRELATIONS if (m := known(metrics, name))), None)
    if accuracy is not None and (test := against_chance(metrics)) is not None:
        yield _accuracy(metrics, accuracy, test)
    if correlation is not None:
        name = correlation.name.partition("/")[2].capitalize()
        test = ChanceTest(side(correlation, 0.0), correlation, 0.0)
        strong = strong_correlation(correlation)
        yield _finding(metrics, correlation, test, strong, f"{name} {interval(correlation)}")
    if accuracy is None and correlation is None:
        yield _nothing(metrics)


def _nothing(metrics: Metrics) -> Finding:
    found = [metrics[name] for name in (ACCURACY, *CORRELATIONS) if name in metrics]
    distinct = known(metrics, "score/distinct")
    if any(metric.n for metric in found) and distinct is not None and distinct.value == 1:
        text = gettext(
            "Not shown to be better than chance: all {n:,} scores are equal, so they cannot follow the labels.",
            n=distinct.n,
        )
        return finding(ACCURACY, "bad", text)
    if any(metric.n for metric in found):
        why = gettext("All labels are equal, so scores cannot be correlated with them")
    elif any(metric.missing for metric in found):
        why = gettext("No labeled case has a usable answer")
    else:
        text = gettext("No labels to compare with: it is unknown how far the judge can be trusted.")
        return finding(ACCURACY, "info", text)
    text = gettext("{why}: its agreement with {labels} is unknown.", why=why, labels=label_words(metrics))
    return finding(ACCURACY, "bad", text)


def labels_differ(metrics: Metrics) -> bool:
    """Return whether there are labels of more than one class, as far as kappa shows."""
    kappa = metrics.get(KAPPA)
    return kappa is None or kappa.value is not None or not kappa.n


def strong_correlation(correlation: Metric) -> bool:
    """Return whether the whole interval of a correlation is substantial."""
    return correlation.low is not None and correlation.low >= SUBSTANTIAL_KAPPA


def strong_accuracy(metrics: Metrics, accuracy: Metric) -> bool:
    """Return whether agreement is substantial: all of kappa's interval, or of accuracy's where kappa has none."""
    kappa = known(metrics, KAPPA)
    if kappa is None or kappa.low is None:  # not defined, or the same in every resample
        strong = accuracy.low is not None and accuracy.low >= SUBSTANTIAL_ACCURACY
    else:
        strong = kappa.low >= SUBSTANTIAL_KAPPA
    return strong and (accuracy.worst_low is None or not accuracy.missing or accuracy.worst_low > 0.5)


def _accuracy(metrics: Metrics, accuracy: Metric, test: ChanceTest) -> Finding:
    strong = strong_accuracy(metrics, accuracy)
    return _finding(metrics, accuracy, test, strong, _numbers(metrics, accuracy, test))


def _numbers(metrics: Metrics, accuracy: Metric, test: ChanceTest) -> Message:
    """Return accuracy, what it is made of where there are ties, its bounds where answers are missing, and kappa."""
    ties, per_order, decided = (known(metrics, name) for name in ("tie_rate", PER_ORDER, DECIDED))
    parts = [gettext("accuracy {value}", value=interval(accuracy))]
    if ties is not None and ties.value:
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
    return joined([*parts, *_missing(accuracy), *_kappa(metrics, test)])


def _missing(accuracy: Metric) -> list[Text]:
    if not accuracy.missing or accuracy.worst_low is None or accuracy.worst_high is None:
        return []
    text = gettext(
        "{low:.2f} to {high:.2f} over all {every:,} pairs, {missing:,} without a verdict",
        low=accuracy.worst_low,
        high=accuracy.worst_high,
        every=accuracy.n + accuracy.missing,
        missing=accuracy.missing,
    )
    return [text]


def _kappa(metrics: Metrics, test: ChanceTest) -> list[Text]:
    kappa = metrics.get(KAPPA)
    if kappa is None:
        return []
    if kappa.value is None:
        if not kappa.n:
            return []
        why = (kappa.note or "").partition(":")[0]
        return [gettext("kappa not defined{because}", because=f" ({why})" if why else "")]
    seen = interval(kappa)
    if test.side == "above" and test.metric is not kappa and side(kappa, 0.0) == "unclear":
        text = gettext("kappa {value}, which does not show more than always giving the most frequent label", value=seen)
        return [text]
    return [gettext("kappa {value}", value=seen)]


def _finding(metrics: Metrics, metric: Metric, test: ChanceTest, strong: bool, numbers: Message) -> Finding:
    tone: Tone = "bad"
    if test.side in ("above", "below"):
        tone = ("good" if strong else "warn") if test.side == "above" else "bad"
        text = _against_chance(metric.name in CORRELATIONS, "far" if strong and tone == "good" else test.side)
        text = text.fill(labels=label_words(metrics))
    elif test.side == "unknown" and one_order(metrics):
        tone = "warn"
        text = (
            gettext("Each pair was shown in one order and kappa has no interval, so there is no comparison with chance")
            if labels_differ(metrics)
            else gettext(
                "Each pair was shown in one order and has the same label, so agreement may come from position alone"
            )
        )
    elif test.side == "unknown" or _wide(test):
        tone, n = "warn", metric.n if test.metric is None else test.metric.n
        text = (
            gettext("Too few decided pairs to tell whether it is better than chance (n = {n:,})", n=n)
            if test.metric is not None and test.metric.name == DECIDED
            else gettext("Too few cases to tell whether it is better than chance (n = {n:,})", n=n)
        )
    elif one_order(metrics):
        text = gettext("Not shown to be better than random verdicts with the same shares")
    else:
        text = gettext("Not shown to be better than chance")
    return finding(metric.name, tone, gettext("{finding}: {numbers}.", finding=text, numbers=numbers))


def _against_chance(scores: bool, how: str) -> Text:
    if how == "far":
        return (
            gettext("Its scores agree with {labels} far better than chance")
            if scores
            else gettext("Agrees with {labels} far better than chance")
        )
    if how == "above":
        return (
            gettext("Its scores agree with {labels} better than chance")
            if scores
            else gettext("Agrees with {labels} better than chance")
        )
    return (
        gettext("Its scores agree with {labels} less than chance would")
        if scores
        else gettext("Agrees with {labels} less often than chance would")
    )


def _wide(test: ChanceTest) -> bool:
    metric = test.metric
    if metric is None or metric.low is None or metric.high is None:
        return False
    return metric.high >= (GOOD if test.chance else 2 * GOOD - 1)
