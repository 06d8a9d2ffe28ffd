"""Looks: the same cases judged again and again by one judge, and whether its answers have changed.

If nothing has changed, the answers to a case are exchangeable: given the answers of looks 0 to t
without their order, and the later ones, each is equally likely to be that of look t. So a score s
of the answer of look t among them has an e-value with mean 1, exp(a s) / mean(exp(a s')). Here s is
the answer's mean distance from the others up to t, minus that from the answers after t: it is high
if the answers from t on differ from those before. The cases of a cluster are permuted together, and
clusters are independent, so e-values are multiplied over clusters. From the last look backwards,
each factor has mean 1 given all later answers, and so has the product over looks T, T - 1, ..., T -
w + 1, and its average over a and over w with weights 1 / (w (w + 1)) (exchangeability: Vovk,
Gammerman and Shafer 2022, Algorithmic Learning in a Random World, ch. 8; e-values: Vovk and Wang
2021, Ann. Statist. 49, 1736-1754).

By Markov's inequality, the average at the n-th look after the first two reaches n (n + 1) / 0.05
with a probability of at most 0.05 / (n (n + 1)). Over all looks, these add up to 5%, whatever their
dependence. Nothing is assumed about how often the answers to a case differ by themselves, or about
how hard cases are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from math import exp, isfinite, log
from typing import Final, Literal

import numpy as np

from evalkit.core.types import Judgment, Metric, Verdict
from evalkit.core.values import frozen
from evalkit.scoring.stats.arrays import Floats, Ints, round_metric
from evalkit.scoring.stats.sequences import mean_sequence

BASELINE: Final = 2
"""The looks that say how answers are distributed while nothing has changed."""
FALSE_ALARMS: Final = 0.05
WINDOW: Final = 32
TILTS: Final = np.array([1.0, 3.0, 9.0])
Answer = str | float | None
"""A winner, class, item's answer or score, or the reason why there is none; `None` if a request
failed."""
Unit = tuple[str, tuple[int, ...], str]
"""The case, the responses and the checklist item (or nothing)."""


@frozen
class Look:
    """One look.

    Attributes:
        key: what keeps its answers apart in the store (`judge.look`).
        number: its number in the watch, from 1.
        started: when it started.
        complete: whether it counts.
        why: why it is not complete.
        answers: the answer to each unit.
        models: the models that the provider reported, most frequent first, by judge.
        fingerprints: likewise the fingerprints.
        sent: the number of calls.
        cost_usd: their cost; `None` if it is unknown.
        facts: what is known after it.
    """

    key: str
    number: int
    started: str
    complete: bool = False
    why: str | None = None
    answers: tuple[Answer, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fingerprints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sent: int = 0
    cost_usd: float | None = 0.0
    facts: LookFacts | None = None


@frozen
class Baseline:
    """Looks at the same cases by the same judge, of which the first two are the
    baseline of the others.

    Attributes:
        judge: the judge's name.
        config_hash: the hash of its config.
        fingerprint: the fingerprint of the cases.
        prompt_hashes: the hash of each template.
        cases: the number of cases.
        units: the units, in the order of answers.
        labels: the label of each.
        clusters: the cluster of each.
        looks: the looks.
    """

    judge: str
    config_hash: str
    fingerprint: str
    prompt_hashes: Mapping[str, str]
    cases: int
    units: tuple[Unit, ...] = ()
    labels: tuple[Answer, ...] = ()
    clusters: tuple[int, ...] = ()
    looks: tuple[Look, ...] = ()

    @property
    def complete(self) -> list[Look]:
        """The looks that count."""
        return [look for look in self.looks if look.complete]

    @property
    def changed(self) -> Look | None:
        """The first look after which the evidence for a change sufficed."""
        return next(
            (
                look
                for look in self.complete
                if look.facts is not None and look.facts.changed
            ),
            None,
        )

    @property
    def state(self) -> Literal["baseline", "incomplete", "same", "changed"]:
        """What is known after the last look."""
        if not self.looks[-1].complete:
            return "incomplete"
        if self.changed is not None:
            return "changed"
        if len(self.complete) > BASELINE:
            return "same"
        return "baseline"


def answers_of(
    verdicts: Sequence[Verdict], judgments: Sequence[Judgment]
) -> dict[Unit, tuple[Answer, Answer]]:
    """Return the answer and the label of each unit of a run: a pair, a response, or an
    item of a checklist.

    Winners that scores of single responses imply are omitted.
    """
    # A failed request may be repeated, so it is no answer.
    failed = {
        (judgment.case_id, judgment.unit)
        for judgment in judgments
        if judgment.status == "failed"
    }
    # Units of one response if only single responses were judged, otherwise pairs.
    size = 1 if all(len(judgment.unit) == 1 for judgment in judgments) else 2
    answers: dict[Unit, tuple[Answer, Answer]] = {}
    for (case, unit, item), verdict, reason, label in unit_answers(verdicts, size):
        # Without a verdict, the reason is what the judge answered.
        answer: Answer = reason if verdict is None else verdict
        if (case, unit) in failed:
            answer = None
        answers[case, unit, item] = (answer, label)
    return answers


def unit_answers(
    verdicts: Sequence[Verdict], size: int, *, items: bool = True
) -> Iterator[tuple[Unit, Answer, str, Answer]]:
    """Yield each unit of verdicts with the answer, the reason and the label.

    Args:
        verdicts: the verdicts.
        size: the number of responses of a unit.
        items: whether the items of a checklist are units.
    """
    for verdict in verdicts:
        if len(verdict.unit) == size:
            # What the verdict is: a winner, a class or a score, of which it has one.
            stated = next(
                (
                    candidate
                    for candidate in (verdict.winner, verdict.class_name, verdict.score)
                    if candidate is not None
                ),
                None,
            )
            whole: list[tuple[str, Answer, str, Answer]] = [
                ("", stated, verdict.reason, verdict.label)
            ]
            rows = [
                (item.id, item.answer, item.reason, item.label)
                for item in verdict.items
                if items
            ]
            # Items replace the response that they are about.
            for item, answer, reason, label in rows or whole:
                yield (verdict.case_id, verdict.unit, item), answer, reason, label


def as_numbers(
    looks: Sequence[Sequence[Answer]], labels: Sequence[Answer], span: float
) -> tuple[Floats, Floats]:
    """Return (looks, units): answers as numbers whose distance, at most 1, is how much
    they differ; and how right.

    Two scores differ by their distance as a share of the scale, on a scale without ends by 1, as do
    other answers.

    Args:
        looks: the answers of each look.
        labels: the label of each unit.
        span: the length of the scale of scores.

    Returns:
        the answers, NaN where a request failed; and in [0, 1], 1 for the label, NaN without label
        or answer.
    """
    # Without a scale, any two scores are a distance of 1 or more apart.
    unit = span if isfinite(span) and span > 0 else 1e-9
    # Texts are 10 apart from each other, and negative, so far below any score: their distance is 1.
    distinct = dict.fromkeys(chain.from_iterable(looks))
    codes = {answer: -10.0 * k for k, answer in enumerate(distinct, 1)}

    def as_number(answer: Answer) -> float:
        if answer is None:
            return np.nan
        if isinstance(answer, str):
            return codes[answer]
        # Scores in units of the scale, so that their distance is a share of it.
        return answer / unit

    def agreements(answers: Sequence[Answer]) -> list[float]:
        pairs = zip(answers, labels, strict=True)
        return [_agreement_with_label(answer, label, unit) for answer, label in pairs]

    # shape (looks, units)
    values = [[as_number(answer) for answer in answers] for answers in looks]
    right = [agreements(answers) for answers in looks]
    return np.array(values, dtype=float), np.array(right, dtype=float)


def _agreement_with_label(answer: Answer, label: Answer, unit: float) -> float:
    """Return how close an answer is to the label, from 0 to 1; NaN without both.

    Args:
        answer: a score, a word, or `None`.
        label: the same for the label.
        unit: the length of the scale, by which distances of scores are divided.
    """
    if (
        answer is None
        or label is None
        or isinstance(answer, str) != isinstance(label, str)
    ):
        return np.nan
    if isinstance(answer, str) or isinstance(label, str):
        # Neither right nor wrong: there is no answer.
        if answer in ("missing", "abstained"):
            return np.nan
        return float(answer == label)
    return max(0.0, 1 - abs(answer - label) / unit)


@frozen
class LookFacts:
    """What is known after a look.

    Attributes:
        flips: the mean distance of its answers from those of the first two looks: for winners and
            classes, how often they differ. `None` for the first look. Its interval is about this
            look alone, with 95% confidence.
        noise: the mean distance of the first two looks from each other, over the same units; its
            interval likewise.
        excess: flips minus noise. Its interval holds at all looks together; `None` for the first
            two.
        agreement: the share of answers that are right; its interval is about this look alone.
        change: the same minus that of the first two looks, over units that all of them read; its
            interval holds at all looks together.
        evidence: the evidence for a change. If nothing has changed, it reaches 20 at any look in at
            most 5% of watches.
    """

    flips: Metric | None
    noise: Metric | None
    excess: Metric | None
    agreement: Metric | None
    change: Metric | None
    evidence: float

    @property
    def changed(self) -> bool:
        """Whether the evidence suffices."""
        return self.evidence >= 1 / FALSE_ALARMS


def look_facts(values: Floats, right: Floats, cluster: Ints) -> LookFacts:
    """Return what is known after the last of several looks.

    Args:
        values: (looks, units) the answers as numbers, NaN where a request failed.
        right: (looks, units) how right they are, NaN if unknown.
        cluster: (units,) the cluster of each unit, from 0, each with a unit.
    """
    last = len(values) - 1
    share = partial(
        _mean_metric, cluster=cluster, ends=(0.0, 1.0), confidence=1 - FALSE_ALARMS
    )
    agreement = share("watch/agreement", right[-1])
    if last < BASELINE:
        flips = share("watch/flips", _distance(values[0], values[1])) if last else None
        noise = None if flips is None else replace(flips, name="watch/noise")
        return LookFacts(flips, noise, None, agreement, None, 1.0)
    # The confidence of intervals that hold at all looks together: the n-th look has its own part.
    all_looks = 1 - FALSE_ALARMS / _looks_like(last)
    # (units,) the mean distance from both looks of the baseline.
    differ = _distance(values[:BASELINE], values[-1]).mean(axis=0)
    noisy = _distance(values[0], values[1])
    # Over the same units as `differ`, or the difference would compare different units.
    noisy = np.where(np.isfinite(differ), noisy, np.nan)
    excess = differ - noisy
    # (units,) NaN if one of the looks has no answer or label.
    change = right[-1] - right[:BASELINE].mean(axis=0)
    # At least -0.5, by the triangle inequality.
    ends = (-0.5, 1.0)
    # Capped, so that the number stays finite.
    log_evidence = min(change_evidence(values, cluster), 100.0)
    return LookFacts(
        share("watch/flips", differ),
        share("watch/noise", noisy),
        _mean_metric("watch/excess_flips", excess, cluster, ends, all_looks),
        agreement,
        _mean_metric("watch/agreement_change", change, cluster, (-1.0, 1.0), all_looks),
        exp(log_evidence),
    )


def _distance(first: Floats, second: Floats) -> Floats:
    return np.asarray(np.minimum(1.0, np.abs(first - second)))


def _looks_like(t: int) -> int:
    """Return the n (n + 1) of a look, the n-th after the first two."""
    return (t - BASELINE + 1) * (t - BASELINE + 2)


def _mean_metric(
    name: str,
    values: Floats,
    cluster: Ints,
    ends: tuple[float, float],
    confidence: float,
) -> Metric | None:
    """Return the mean of values between `ends` with its interval; `None` if none is known."""
    has_value = np.isfinite(values)
    if not has_value.any():
        return None
    # (clusters,) sums and counts of the values.
    sums = np.bincount(cluster[has_value], values[has_value]).astype(float)
    counts = np.bincount(cluster[has_value]).astype(float)
    # The size of the largest cluster bounds what a single one can contribute.
    largest = float(np.bincount(cluster).max())
    low, high = mean_sequence(
        sums, counts, ends=ends, largest=largest, confidence=confidence
    )
    missing = int(np.count_nonzero(~has_value))
    return Metric(
        name,
        round_metric(float(values[has_value].mean())),
        round_metric(low),
        round_metric(high),
        int(has_value.sum()),
        missing,
    )


def change_evidence(values: Floats, cluster: Ints) -> float:
    """Return the log of the evidence for a change up to the last look, 0 for the first two.

    If nothing has changed, it reaches log(1 / a) at any of any number of looks with a probability
    of at most a. A cluster with a failed request takes no part in that look.

    Args:
        values: (looks, units) the answers as numbers, NaN where a request failed.
        cluster: (units,) the cluster of each unit, from 0, each with a unit.
    """
    if (last := len(values) - 1) < BASELINE:
        return 0.0
    # Units of one cluster side by side, so that sums of ranges are sums by cluster.
    order = np.argsort(cluster, kind="stable")
    values = values[:, order]
    starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    # (clusters,) the number of units of each.
    sizes = np.diff(np.append(starts, len(order)))
    # (looks, clusters) whether all requests of the cluster were answered.
    answered = np.logical_and.reduceat(np.isfinite(values), starts, axis=1)

    def apart(t: int) -> Floats:
        """Return (looks, clusters) the mean distance of each look from look t, 0 where
        one of them failed.
        """
        means = np.add.reduceat(_distance(values, values[t]), starts, axis=1) / sizes
        return np.where(answered & answered[t], means, 0.0)

    # (looks, clusters) the sum of mean distances from all looks up to t; later ones are moved to
    # `later`.
    within = np.sum([apart(t) for t in range(last + 1)], axis=0)
    later = np.zeros_like(within)
    # (clusters,) answered looks after t, and up to t.
    after = np.zeros(len(sizes))
    before = answered.sum(axis=0).astype(float)
    gains = []
    # From the last look backwards, at most WINDOW looks, and never into the baseline.
    for t in range(last, max(BASELINE, last + 1 - WINDOW) - 1, -1):
        # (t + 1, clusters) the score of each look: distance from the earlier ones less that from
        # the later ones.
        odd = (within / np.maximum(before - 1, 1) - later / np.maximum(after, 1))[
            : t + 1
        ]
        # (tilts, t + 1, clusters); looks without an answer have no weight.
        weights = np.exp(TILTS[:, None, None] * odd) * answered[: t + 1]
        # (tilts, clusters) the mean over all looks that could be look t.
        means = weights.sum(axis=1) / np.maximum(before, 1)
        gains.append(
            # Log of the e-value of each tilt: 0 for clusters without an answer at t, summed over
            # clusters.
            np.log(
                np.where(answered[t], weights[:, t] / np.maximum(means, 1e-300), 1.0)
            ).sum(axis=1)
        )
        # Look t moves from the looks up to t to the later ones.
        row = apart(t)
        now = answered[t]
        within = within - row
        later = later + row
        before = before - now
        after = after + now
    # w = 1, 2, ...: the number of looks in the product.
    since = np.arange(1, len(gains) + 1)
    # (windows, tilts) log of the product over w looks, with the weight 1 / (w (w + 1)).
    terms = np.cumsum(gains, axis=0) - np.log(since * (since + 1))[:, None]
    # Log of the sum of all terms: their average over tilts, divided by the share of this look.
    return float(np.logaddexp.reduce(terms.ravel())) - log(
        len(TILTS) * _looks_like(last)
    )
