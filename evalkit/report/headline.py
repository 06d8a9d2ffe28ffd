"""Say in one sentence what to do with a judge: trust it for something, do not trust it, or collect more labels first.

The sentence follows the interval of the agreement with the labels, as `against_chance` does, and claims no more. How
many more labels are needed is an estimate: n = ((z + z_power) · σ / difference)², where σ comes from the width of the
run's own interval, so that clusters count (Chow et al. 2008, Sample Size Calculations in Clinical Research, 1.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from evalkit.core.display import interval, percent
from evalkit.core.translation import Message, Text, gettext, joined, ngettext
from evalkit.report.agreement_findings import SUBSTANTIAL_ACCURACY, labels_differ, strong_accuracy, strong_correlation
from evalkit.report.checklist_findings import checklist_headline
from evalkit.report.class_findings import class_headline, has_classes
from evalkit.report.counts import Finding, Metrics, Tone, finding, known, side
from evalkit.report.diagnostics import label_words, length_at_label, points
from evalkit.scoring.chance_level import (
    ACCURACY,
    CORRELATIONS,
    DECIDED,
    FIRST,
    KAPPA,
    ChanceTest,
    against_chance,
    one_order,
)
from evalkit.types import Metric

POWER = 0.8
"""The probability that the estimated number of labels shows a difference that exists."""
WORTHWHILE = 0.2
"""The smallest advantage over chance in accuracy that labels should be able to show: an accuracy of 0.70."""
MANY_MISSING, MANY_TIES, SOME_TIES, FEW = 0.2, 0.5, 0.2, 30
PRECISION = 0.1
"""Labels should show an accuracy to within so much."""
NEAR = 0.1
"""A judge is near chance if even the upper end of its interval is at most this far above chance in accuracy."""


def headline(metrics: Metrics, mode: str, confidence: float = 0.95) -> Finding:
    """Return what to do with the judge of a run."""
    if has_classes(metrics):
        return class_headline(metrics, confidence)
    for find in (checklist_headline, _unlabeled, _missing, _constant):
        if (found := find(metrics, mode)) is not None:
            return found
    test = against_chance(metrics)
    assert test is not None, "a run without a comparison has a headline of its own"
    if test.side == "above":
        return _trusted(metrics, test)
    return _swayed(metrics) or _tied(metrics) or _untrusted(metrics, test, confidence)


def _unlabeled(metrics: Metrics, mode: str) -> Finding | None:
    """Advise what to label where nothing can be compared with labels."""
    if against_chance(metrics) is not None:
        return None
    found = [metrics[name] for name in (ACCURACY, *CORRELATIONS) if name in metrics]
    distinct = known(metrics, "score/distinct")
    if any(one.n for one in found):
        if distinct is not None and distinct.value == 1:
            text = gettext("Do not trust this judge: all {n:,} scores are equal, whatever the label.", n=distinct.n)
            return finding(ACCURACY, "bad", text)
        text = gettext("Add labels that differ first: equal labels do not show whether to trust this judge.")
        return finding(ACCURACY, "warn", text)
    if any(one.missing for one in found):
        text = gettext("Fix the missing answers first: no labeled case has a usable answer.")
        return finding(ACCURACY, "bad", text)
    scores = mode == "pointwise" and known(metrics, "tie_rate") is None
    text = (
        gettext(
            "Grade about {n:,} responses first, enough to show a correlation of 0.40: without labels, nothing shows "
            "whether to trust this judge."
        )
        if scores
        else gettext(
            "Label about {n:,} pairs first, enough to show an accuracy of 0.70: without labels, nothing shows whether "
            "to trust this judge."
        )
    )
    return finding(ACCURACY, "warn", text.fill(n=_rounded(_labels_to_show(scores) / _decided_share(metrics))))


def _missing(metrics: Metrics, _: str) -> Finding | None:
    """Say that missing answers come first: many of them, or enough to undo what the others show."""
    test = against_chance(metrics)
    accuracy = known(metrics, ACCURACY)
    metric = accuracy or (test.metric if test is not None else None)
    if test is None or metric is None or not metric.missing:
        return None
    every = metric.n + metric.missing
    bounded = known(metrics, DECIDED) or metric
    undone = test.side == "above" and bounded.worst_low is not None and bounded.worst_low <= test.chance
    if metric.missing < MANY_MISSING * every and not undone:
        return None
    if accuracy is None:
        text = gettext(
            "Fix the missing answers before you decide: {missing:,} of {all:,} labeled responses have no score."
        )
        return finding(metric.name, "bad", text.fill(missing=metric.missing, all=every))
    if metric.worst_low is None or metric.worst_high is None:
        return None
    text = gettext(
        "Fix the missing answers before you decide: {missing:,} of {all:,} labeled pairs have no verdict, so the "
        "accuracy over all of them could be anywhere from {low:.2f} to {high:.2f}.",
        missing=metric.missing,
        all=every,
        low=metric.worst_low,
        high=metric.worst_high,
    )
    return finding(metric.name, "bad", text)


def _constant(metrics: Metrics, _: str) -> Finding | None:
    """Say that all verdicts are one winner, unless all labels are of one class too."""
    if not labels_differ(metrics):
        return None
    for name, winner in (("win_rate/a", "A"), ("win_rate/b", "B")):
        wins = known(metrics, name)
        if wins is not None and wins.value == 1 and wins.n > 2:
            text = gettext("Do not trust this judge: all {n:,} verdicts are {winner}, whatever the label.")
            return finding(name, "bad", text.fill(n=wins.n, winner=winner))
    return None


def _swayed(metrics: Metrics) -> Finding | None:
    consistency = known(metrics, "position/consistency")
    if consistency is None or consistency.low is None or (consistency.value or 0) >= 0.5:
        return None
    low, high = (None if end is None else 1 - end for end in (consistency.high, consistency.low))
    changed = Metric(consistency.name, 1 - (consistency.value or 0), low, high, consistency.n)
    text = gettext(
        "Do not trust this judge to compare pairs: swapping the order changes its verdict in {rate} of {n:,} pairs."
    )
    return finding(changed.name, "bad", text.fill(rate=percent(changed), n=changed.n))


def _tied(metrics: Metrics) -> Finding | None:
    ties = known(metrics, "tie_rate")
    if ties is None or _tie_rate(metrics) < MANY_TIES:
        return None
    text = gettext("Do not trust this judge to choose between responses: {rate} of {n:,} pairs are ties.")
    return finding("tie_rate", "bad", text.fill(rate=percent(ties), n=ties.n))


def _trusted(metrics: Metrics, test: ChanceTest) -> Finding:
    """Say for what a judge that is better than chance can be trusted, and what limits that."""
    metric, accuracy = test.metric, known(metrics, ACCURACY)
    assert metric is not None, "a metric decided on the side"
    if accuracy is None:
        strong = strong_correlation(metric) and metric.n >= FEW
        text = (
            gettext("Trust its scores to rank responses like these, but not as absolute grades: {evidence}")
            if strong
            else gettext("Trust its scores only for averages over many responses, not for single ones: {evidence}")
        )
        evidence = gettext("{correlation} with {labels}", correlation=_shown(metric), labels=label_words(metrics))
    elif metric.n < FEW:
        return _promising(metrics, metric)
    else:
        strong = strong_accuracy(metrics, accuracy) and not one_order(metrics)
        decides = metric.name == DECIDED and metric.low is not None and metric.low >= SUBSTANTIAL_ACCURACY
        if strong:
            text = gettext("Trust this judge for single verdicts on pairs like these: {evidence}")
        elif decides and _tie_rate(metrics) >= SOME_TIES:
            text = gettext("Trust this judge only where it decides: {evidence}")
        else:
            text = gettext("Trust this judge only for averages over many pairs, not for single verdicts: {evidence}")
        evidence = (
            gettext("it is right in {rate} of the {n:,} pairs that it decides", rate=percent(metric), n=metric.n)
            if metric.name == DECIDED
            else gettext("it is right in {rate} of {n:,} labeled pairs", rate=percent(accuracy), n=accuracy.n)
        )
    text, limits = text.fill(evidence=evidence), list(_limits(metrics, metric))
    tone: Tone = "good" if strong and not limits else "warn"
    if limits:
        text = gettext("{finding}; but {limits}", finding=text, limits=joined(limits))
    return finding(metric.name, tone, gettext("{finding}.", finding=text))


def _promising(metrics: Metrics, metric: Metric) -> Finding:
    """Say how many labels show how much better than chance a judge is, to 10 points: n = z² p (1 - p) / 0.1²."""
    right = ((metric.value or 0.0) * metric.n + 2) / (metric.n + 4)  # Agresti and Coull (1998): never 0 or 1
    needed = (NormalDist().inv_cdf(0.975) / PRECISION) ** 2 * right * (1 - right)
    text = gettext(
        "Label about {more:,} more pairs before you decide: {value} is better than chance, but {n:,} labels do not "
        "show by how much.",
        more=_pairs(metrics, max(needed - metric.n, 1)),
        value=_shown(metric),
        n=metric.n,
    )
    return finding(metric.name, "warn", text)


def _tie_rate(metrics: Metrics) -> float:
    ties = known(metrics, "tie_rate")
    return 0.0 if ties is None else ties.value or 0.0


def _limits(metrics: Metrics, metric: Metric) -> Iterator[Text]:
    """Yield what the metrics show that limits trust in a judge better than chance."""
    if metric.n < FEW:
        yield ngettext("only {n:,} label shows this", "only {n:,} labels show this", metric.n)
    if not labels_differ(metrics):
        yield gettext("all labels are of one class")
    if one_order(metrics):
        yield gettext("each pair was shown in one order only")
    ties, accuracy = known(metrics, "tie_rate"), known(metrics, ACCURACY)
    if ties is not None and _tie_rate(metrics) >= SOME_TIES:
        yield gettext("{rate} of pairs are ties", rate=percent(ties))
    if accuracy is not None and accuracy.missing > 0.05 * (accuracy.n + accuracy.missing):
        every = accuracy.n + accuracy.missing
        yield gettext("{n:,} of {all:,} labeled pairs have no verdict", n=accuracy.missing, all=every)
    first = known(metrics, FIRST)
    if first is not None and not one_order(metrics) and side(first, 0.5) in ("above", "below"):
        yield (
            gettext("it prefers the answer shown first")
            if side(first, 0.5) == "above"
            else gettext("it prefers the answer shown second")
        )
    slope = length_at_label(metrics)
    if slope is not None and side(slope, 0.0) in ("above", "below"):
        longer = side(slope, 0.0) == "above"
        yield gettext("it prefers longer answers") if longer else gettext("it prefers shorter answers")
    own = known(metrics, "self/preference")
    if own is not None and side(own, 0.0) == "above":
        yield gettext("it favors its own model family by {points} points", points=points(own))


def _untrusted(metrics: Metrics, test: ChanceTest, confidence: float) -> Finding:
    """Advise on a judge that is not shown to be better than chance: more labels, or no trust."""
    metric, scores = test.metric, known(metrics, ACCURACY) is None
    labels = label_words(metrics)
    if test.side == "below" and metric is not None:
        text = gettext(
            "Do not trust this judge: it agrees with {labels} less than chance; check that the labels are not reversed."
        )
        return finding(metric.name, "bad", text.fill(labels=labels))
    if test.side == "unknown" and one_order(metrics):
        text = (
            gettext(
                "Show each pair in both orders (swap.policy=both) before you decide: with one order, kappa has no "
                "interval here."
            )
            if labels_differ(metrics)
            else gettext(
                "Show each pair in both orders (swap.policy=both) before you decide: with one order and equal labels, "
                "a judge that ignores the responses could look the same."
            )
        )
        return finding(ACCURACY, "warn", text)
    if metric is None or metric.low is None or metric.high is None:
        return _few(metrics, metric, scores)
    chance, worthwhile = test.chance, WORTHWHILE if test.chance else 2 * WORTHWHILE
    value, high, n = metric.value or 0.0, metric.high, metric.n
    if high <= chance + (NEAR if chance else 2 * NEAR):
        text = gettext("Do not trust this judge: it is at best slightly better than chance ({value}).")
        return finding(metric.name, "bad", text.fill(value=_shown(metric)))
    error = (high - metric.low) / (2 * NormalDist().inv_cdf(0.5 + confidence / 2))
    observed, useful = (
        _labels_needed(n, error, difference, confidence) - n for difference in (value - chance, worthwhile)
    )
    if value - chance > worthwhile / 10:
        text = (
            gettext(
                "Grade about {n:,} more responses before you decide: {value} does not differ significantly from "
                "chance, and a difference of this size takes about that many more labels to show."
            )
            if scores
            else gettext(
                "Label about {n:,} more pairs before you decide: {value} does not differ significantly from chance, "
                "and a difference of this size takes about that many more labels to show."
            )
        )
        return finding(metric.name, "warn", text.fill(n=_pairs(metrics, observed), value=_shown(metric)))
    if useful <= 0:
        text = gettext("Do not trust this judge: it is not shown to be better than chance ({value}).")
        return finding(metric.name, "bad", text.fill(value=_shown(metric)))
    text = (
        gettext(
            "Do not trust this judge yet: {value} is no better than chance; about {n:,} more graded responses would "
            "show whether it is clearly better."
        )
        if scores
        else gettext(
            "Do not trust this judge yet: {value} is no better than chance; about {n:,} more labeled pairs would show "
            "whether it is clearly better."
        )
    )
    return finding(metric.name, "bad", text.fill(n=_pairs(metrics, useful), value=_shown(metric)))


def _few(metrics: Metrics, metric: Metric | None, scores: bool) -> Finding:
    """Say how many labels are needed where there are too few for an interval."""
    n = 0 if metric is None else metric.n
    more = _pairs(metrics, max(_labels_to_show(scores) - n, 1))
    text = (
        gettext(
            "Grade about {more:,} more responses before you decide: there are too few to show anything (n = {n:,})."
        )
        if scores
        else gettext(
            "Label about {more:,} more pairs before you decide: too few labeled pairs are decided (n = {n:,})."
        )
    )
    return finding(ACCURACY if metric is None else metric.name, "warn", text.fill(n=n, more=more))


def _shown(metric: Metric) -> Message:
    if metric.name == DECIDED:
        return gettext("accuracy {value} among {n:,} decided pairs", value=interval(metric), n=metric.n)
    if metric.name in CORRELATIONS:
        return f"{metric.name.partition('/')[2].capitalize()} {interval(metric)}"
    if metric.name == KAPPA:
        return gettext("kappa {value}", value=interval(metric))
    return gettext("accuracy {value}", value=interval(metric))


def _labels_needed(n: int, error: float, difference: float, confidence: float) -> float:
    """Return about how many labels show a difference, from the standard error that `n` labels have."""
    if difference <= 0:
        return math.inf
    normal = NormalDist()
    return n * ((normal.inv_cdf(0.5 + confidence / 2) + normal.inv_cdf(POWER)) * error / difference) ** 2


def _labels_to_show(scores: bool) -> float:
    """Return about how many labels show an accuracy of 0.70, or a correlation of 0.40, at the usual 95%."""
    z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(POWER)
    if scores:
        return (z / math.atanh(2 * WORTHWHILE)) ** 2 + 3  # Fisher's z has a variance of 1 / (n - 3)
    right = 0.5 + WORTHWHILE
    return right * (1 - right) * (z / WORTHWHILE) ** 2


def _decided_share(metrics: Metrics) -> float:
    """Return the share of pairs with a label that count among the decided ones, to tell labels from decisions."""
    accuracy, decided = known(metrics, ACCURACY), known(metrics, DECIDED)
    if accuracy is not None and decided is not None and decided.n:
        return decided.n / (accuracy.n + accuracy.missing)
    return max(1 - _tie_rate(metrics), 0.1)


def _pairs(metrics: Metrics, decided: float) -> int:
    """Return how many labels it takes to have so many decided pairs more."""
    return _rounded(decided / _decided_share(metrics))


def _rounded(count: float) -> int:
    """Return an estimated count, rounded up to two digits."""
    unit: int = 10 ** max(math.floor(math.log10(max(count, 1))) - 1, 0)
    return math.ceil(count / unit) * unit
