"""The metrics of an audit: each probe's effect, paired by case, beyond the judge's own noise.

The unedited repeat of a case gives the noise. If an edit changes nothing, edited and repeated
answers are exchangeable, so that their difference is symmetric about 0 whatever the noise: its
signs are tested by flipping those of whole clusters, and the p-values of all probes are adjusted by
Holm's method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, erfc, log2, sqrt
from typing import TypeAlias

import numpy as np

from evalkit.audit.plan import SEPARATOR, unit_of
from evalkit.audit.probes import REPEAT, SINGLE, Probe, side_of
from evalkit.config import RunConfig, ScoringConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Case, Judgment, Metric, Verdict
from evalkit.core.values import frozen
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.stats.arrays import Bools, Floats, round_metric
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import holm, sign_flip, smallest_detectable
from evalkit.scoring.stats.statistic import Statistic, Tally
from evalkit.scoring.verdict_rules import calibrated

EXACT_UP_TO = 500
"""Clusters that differ; with more, the normal approximation of the sign-flip test is used."""
_PARTS = 20
"""The parts of a scale without a step whose size counts as the smallest difference."""
GRID = 60
"""The steps into which the largest difference is divided for the exact test."""
_CODE = {"A": 1.0, "TIE": 0.0, "B": -1.0, None: np.nan}


@frozen
class Answers:
    """What the judge answered to each case: NaN if it gave no answer, or was not asked.

    Attributes:
        value: (cases,) the margin of the pair's first response, or the score.
        verdict: (cases,) 1, 0 or -1 for the winner of a pair; the score.
        first: (cases,) the winner in the first order alone.
        second: (cases,) the winner in the second order alone, of the same two responses.
        applies: (cases,) whether the case was asked.
    """

    value: Floats
    verdict: Floats
    first: Floats
    second: Floats
    applies: Bools

    @property
    def missing(self) -> Bools:
        """Which cases were asked and have no answer."""
        return np.asarray(self.applies & np.isnan(self.verdict))


@frozen
class Contrast:
    """One probe's effect on each case; NaN where an answer that it needs is missing.

    Attributes:
        probe: The probe.
        shift: (cases,) the shift by the edit minus that of the repeat.
        flip: (cases,) whether the verdict differs from that of the original case.
        passed: (cases,) whether the edit led to the wrong answer.
        tested: (cases,) what is tested: the shift; or how wrong the answer is (a tie half as much
            as a loss), less half the difference of the repeat's verdict.
        missing: (cases,) whether the edited case has no answer.
        silent: (cases,) the same of the repeat.
        applies: (cases,) whether the probe applies.
        before: (cases,) the verdict on the original case: 1, 0 or -1, or a score; in one order if a
            tie is expected.
        after: (cases,) the verdict on the edited case, likewise.
        span: The largest possible shift of one case.
        change: (cases,) whether the verdict differs from that of the original case, less whether
            that of the repeat does; `None` where an edit may change the verdict, or where the
            tested difference is that already.
    """

    probe: Probe
    shift: Floats
    flip: Floats
    passed: Floats
    tested: Floats
    missing: Bools
    silent: Bools
    applies: Bools
    before: Floats
    after: Floats
    span: float = 2.0
    change: Floats | None = None

    @property
    def one_sided(self) -> bool:
        """Whether only a positive difference is an effect."""
        return (
            self.probe.expects in ("loses", "fails")
            or not self.probe.directed
            or bool(np.isnan(self.shift).all())
        )


def contrast(
    probe: Probe,
    base: Answers,
    repeat: Answers,
    edited: Answers,
    sign: Floats,
    scale: Scale | None = None,
) -> Contrast:
    """Return a probe's effect on each case.

    Args:
        probe: The probe.
        base: The answers to the original cases.
        repeat: The answers to their repeats.
        edited: The answers to the edited cases.
        sign: (cases,) 1 if a higher value is a shift toward the edited response, else -1.
        scale: The scale of scores; `None` for pairs.
    """
    # All arrays are (cases,).
    step = _smallest_difference(scale)
    shift = _shift(probe, base, repeat, edited, sign)
    flip = _differ(edited.verdict, base.verdict, step)
    flip_beyond_noise = flip - _differ(repeat.verdict, base.verdict, step)
    passed = np.full(len(sign), np.nan)
    tested = shift
    change = None
    before = base.verdict
    after = edited.verdict
    span = 2.0 if scale is None else scale.span
    if probe.expects == "tie":
        # Both orders of two equal responses are one question; a verdict on it differs from a tie
        # by 1 at most.
        before = base.first
        after = edited.first
        shift = edited.first
        tested = shift
        span = 1.0
        passed = _is_decided(edited)
    elif probe.expects == "same":
        has_shift = not np.isnan(shift).all()
        if not has_shift:
            # Classes without an order.
            tested = flip_beyond_noise
        elif probe.directed:
            change = flip_beyond_noise
    elif scale is None:
        passed, tested = _wrong_pairs(base, repeat, edited, sign)
    else:
        passed = _passed_scores(probe, base, edited, scale, step)
        # What a judge gets wrong by its own noise is taken off.
        noise = _differ(repeat.verdict, base.verdict, step)
        tested = passed - noise
    return Contrast(
        probe=probe,
        shift=shift,
        flip=flip,
        passed=passed,
        tested=tested,
        missing=edited.missing,
        silent=repeat.missing,
        applies=edited.applies,
        before=before,
        after=after,
        span=span,
        change=change,
    )


def _smallest_difference(scale: Scale | None) -> float:
    """Return how far apart two values must be to differ.

    Two scores differ if they are more than half a step apart: means of samples lie between steps.
    """
    if scale is None or scale.real:
        return 0.0
    step = scale.step or scale.span / 20
    return step / 2


def _shift(
    probe: Probe, base: Answers, repeat: Answers, edited: Answers, sign: Floats
) -> Floats:
    """Return how much the verdict moves toward the edited response, (cases,)."""
    if probe.directed:
        # From the repeat, not from the first answer, so that both have the same noise.
        return sign * (edited.value - repeat.value)
    # Without a direction: how much farther from the first answer than a mere repeat is.
    distance = np.abs(edited.value - base.value)
    distance_of_repeat = np.abs(repeat.value - base.value)
    return np.asarray(distance - distance_of_repeat)


def _is_decided(edited: Answers) -> Floats:
    """Return whether two equal responses got a winner in either order, (cases,)."""
    # NaN in the second order means that it was not asked; the first one then decides.
    second = np.nan_to_num(edited.second)
    either = (edited.first != 0) | (second != 0)
    return np.where(np.isnan(edited.first), np.nan, either)


def _wrong_pairs(
    base: Answers, repeat: Answers, edited: Answers, sign: Floats
) -> tuple[Floats, Floats]:
    """Return whether the edited response does not lose, and how wrong that is beyond noise."""
    # 1 if the edited response wins, -1 if it loses
    toward_edited = sign * edited.verdict
    passed = _reaches(toward_edited, np.zeros(len(sign)))
    # A tie is half as wrong as a loss.
    wrong = (1 + toward_edited) / 2
    noise = np.abs(repeat.verdict - base.verdict) / 2
    return passed, wrong - noise


def _passed_scores(
    probe: Probe, base: Answers, edited: Answers, scale: Scale, step: float
) -> Floats:
    """Return whether the edited response wrongly keeps its score, or passes, (cases,)."""
    if probe.expects == "loses":
        # What has the lowest score cannot score lower.
        can_fall = base.value > scale.min
        least = np.where(can_fall, base.value, np.nan)
    else:
        middle = (scale.min + scale.max) / 2
        least = np.full(len(base.value), middle + step)
    return _reaches(edited.value, least)


def _reaches(values: Floats, least: Floats) -> Floats:
    """Return whether values are at least as high as others, NaN where either is missing."""
    is_missing = np.isnan(values + least)
    return np.where(is_missing, np.nan, values >= least)


def _differ(first: Floats, second: Floats, step: float) -> Floats:
    apart = np.abs(first - second)
    return np.where(np.isnan(apart), np.nan, apart > step)


def contrasts(
    config: RunConfig,
    cases: Sequence[Case],
    probes: Sequence[Probe],
    everything: Sequence[Case],
    judgments: Sequence[Judgment],
) -> list[Contrast]:
    """Return each probe's effect on each case, first the repeat's.

    Args:
        config: The run's config.
        cases: The original cases.
        probes: The probes.
        everything: The original and the edited cases.
        judgments: The judgments of all of them.
    """
    # The labels of the original cases choose the thresholds of a cascade.
    plain = calibrated(config, cases, judgments).with_(
        {"scoring.bootstrap": 0, "scoring.cluster": None, "dataset.benchmark": None}
    )
    asked_ids = {case.id for case in everything}
    pointwise = config.mode.name in SINGLE
    verdicts = score_run(plain, everything, judgments).verdicts
    # (case id, indices of the responses) -> verdict
    decided = {
        (verdict.case_id, verdict.unit): verdict
        for verdict in verdicts
        if len(verdict.unit) == (1 if pointwise else 2)
    }
    withheld = {
        verdict.case_id
        for verdict in decided.values()
        if config.judge.cascades and verdict.reason == "abstained"
    }
    scale = _scale(config)

    def answers(probe: Probe, of: str) -> Answers:
        """Return the judge's answer on each case, as it is or as a probe edited it."""
        # `of` is empty for the original case, or the name of the repeat or of a probe.
        names = [f"{case.id}{SEPARATOR}{of}" if of else case.id for case in cases]
        # An edited case of single responses has one response, at index 0.
        alone = pointwise and of == probe.name
        units = [(0,) if alone else unit_of(case, probe, config) for case in cases]
        rows = [
            _answer_numbers(config, decided.get(key))
            for key in zip(names, units, strict=True)
        ]
        # shape (4, cases); NaN where an answer is missing
        value, verdict, first, second = (
            np.array(rows, dtype=np.float64).reshape(-1, 4).T
        )
        # a cascade's withheld verdict is no missing answer: the probe does not apply
        is_asked = [name in asked_ids and name not in withheld for name in names]
        return Answers(value, verdict, first, second, np.array(is_asked, dtype=bool))

    measured = []
    for probe in probes:
        base, repeat, edited = (answers(probe, of) for of in ("", REPEAT, probe.name))
        # 1 if the edited response is the first of the pair, -1 if it is the second: margins are
        # those of the first.
        sign = np.array(
            [
                1.0 if pointwise or not side_of(case, worse=probe.worse) else -1.0
                for case in cases
            ]
        )
        if probe.name == "order":
            base, repeat, edited, sign = _order_contrast(config, base, repeat, edited)
        measured.append(contrast(probe, base, repeat, edited, sign, scale))
    return measured


def _scale(config: RunConfig) -> Scale | None:
    """Return the scale of what is judged one at a time; `None` for comparisons.

    A checklist has shares from 0 to 1. Classes count from the lowest, or as positive (1) or not
    (0).
    """
    rubric = config.rubric
    if config.mode.name not in SINGLE:
        return None
    if config.mode.name == "checklist":
        return Scale(0.0, 1.0, 0.1)
    if not rubric.classes:
        return Scale.of(rubric)
    return Scale(
        0.0,
        1.0 if rubric.positive is not None else max(1.0, len(rubric.classes) - 1.0),
        1.0,
    )


def _answer_numbers(
    config: RunConfig, verdict: Verdict | None
) -> tuple[float | None, ...]:
    """Return the four numbers that `Answers` has of a verdict: value, verdict, and the winner in
    each order alone.

    A winner is 1 for A, -1 for B and 0 for a tie. `None` is a number that the verdict does not
    have: all four without an answer, the value of a class without an order, and the winners of a
    single order or response.
    """
    rubric = config.rubric
    pair = config.mode.name not in SINGLE
    if verdict is None or verdict.reason == "missing":
        return (None,) * 4
    if (
        verdict.class_name is not None
    ):  # the value of a class that has no order is unknown
        # Classes count from the lowest, in the order of the rubric.
        number = float([*rubric.classes].index(verdict.class_name))
        if rubric.positive is not None:
            number = float(verdict.class_name == rubric.positive)
        return (
            number if rubric.ordered or rubric.positive is not None else None,
            number,
            None,
            None,
        )
    if verdict.score is not None or not pair:
        return verdict.score, verdict.score, None, None
    winner = _CODE[verdict.winner]
    orders = verdict.orders
    turns = (
        (winner, None)
        if orders is None
        else (_CODE[orders.first], _CODE[orders.second])
    )
    return winner if verdict.margin is None else verdict.margin, winner, *turns


def _order_contrast(
    config: RunConfig, base: Answers, repeat: Answers, edited: Answers
) -> tuple[Answers, Answers, Answers, Floats]:
    """Return what the probe `order` compares: the unedited, repeated and edited answers, and the
    sign of each case.

    The sign turns a shift into one toward the response shown first. With both orders in every
    run, the answers compared are those in the two orders of the original case; else the edited
    case has its responses swapped, and its answers are read back.

    Args:
        config: The run's config.
        base: The answers to the original cases.
        repeat: The answers to the unedited repeats.
        edited: The answers to the swapped cases.
    """
    toward = np.ones(len(base.value))
    if config.swap.policy == "both":
        # What was shown second plays the part of the unedited case, and what was shown first that
        # of the edited one.
        turns = ((base.second, base), (repeat.second, repeat), (base.first, base))
        base, repeat, edited = (
            Answers(order, order, order, order, answers.applies)
            for order, answers in turns
        )
        return base, repeat, edited, toward
    back = Answers(
        # The responses were swapped, so the signs are turned back.
        -edited.value,
        -edited.verdict,
        -edited.first,
        -edited.second,
        edited.applies,
    )
    return base, repeat, back, -toward


def probe_statistics(contrast: Contrast) -> Iterator[Statistic]:
    """Yield the metrics of one probe, of those that apply to it.

    They are the mean shift, its instability, the rates of passed or of flipped and robust cases,
    and the rate of missing answers.
    """
    name = f"audit/{contrast.probe.name}"
    tally = Tally.each(len(contrast.applies))
    finite = np.isfinite(contrast.shift)
    if (
        contrast.probe.expects in ("same", "tie")
        and contrast.probe.name != REPEAT
        and finite.any()
    ):
        ends = (-contrast.span, contrast.span)
        yield tally.mean(
            f"{name}/shift",
            contrast.shift,
            finite,
            contrast.missing,
            span=ends,
            limits=ends,
        )
    if contrast.change is not None:
        finite = np.isfinite(contrast.change)
        ends = (-1.0, 1.0)
        yield tally.mean(
            f"{name}/instability",
            np.where(finite, contrast.change, 0.0),
            finite,
            contrast.missing,
            span=ends,
            limits=ends,
        )
    rates = {"passed": contrast.passed}
    if contrast.probe.expects == "same":
        rates = {"flip_rate": contrast.flip, "robustness": 1 - contrast.flip}
    for rate, hit in rates.items():
        finite = np.isfinite(hit)
        yield tally.rate(f"{name}/{rate}", hit == 1, finite, contrast.missing & ~finite)
    yield tally.rate(f"{name}/missing", contrast.missing, contrast.applies)


@frozen
class Outcome:
    """What the test of one probe found.

    Attributes:
        contrast: The effects.
        p: The p-value; `None` if no case differs.
        adjusted: The same, adjusted for all probes.
        mean: The mean of the tested difference; `None` without a case.
        found: Whether the judge falls for the probe, by the adjusted test.
        silenced: Whether the probe leaves more cases without an answer than the repeat does, by the
            adjusted test.
        detectable: The smallest mean difference that these cases could have shown; `None` if none.
        n: The number of cases with all answers.
        unstable: Whether more verdicts change than between repeats, by the adjusted test, although
            they move in no direction.
    """

    contrast: Contrast
    p: float | None
    adjusted: float | None
    mean: float | None
    found: bool
    silenced: bool
    detectable: float | None
    n: int
    unstable: bool = False


def _is_significant(p: float | None, alpha: float) -> bool:
    return p is not None and p <= alpha


def outcomes(
    effects: Sequence[Contrast], scoring: ScoringConfig, clusters: Clusters, unit: float
) -> list[Outcome]:
    """Return what the tests of all probes found, their p-values adjusted by Holm's method.

    Args:
        effects: The effects of each probe.
        scoring: The confidence.
        clusters: The clusters of the cases.
        unit: The smallest change of one case.
    """
    # 1 if only the edit has no answer, -1 if only the repeat has none, 0 if both agree.
    silences = [
        np.where(
            contrast.applies, contrast.missing.astype(float) - contrast.silent, np.nan
        )
        for contrast in effects
    ]
    # Three tests of each probe: its effect, its silence and its changes.
    of_effects = [
        p_value(contrast.tested, clusters, one_sided=contrast.one_sided)
        for contrast in effects
    ]
    of_silences = [p_value(silence, clusters, one_sided=True) for silence in silences]
    of_changes = [
        None
        if contrast.change is None
        else p_value(contrast.change, clusters, one_sided=True)
        for contrast in effects
    ]
    # All of them are one family.
    adjusted = holm([*of_effects, *of_silences, *of_changes])
    count = len(effects)
    alpha = 1 - scoring.confidence
    results = []
    for index, contrast in enumerate(effects):
        adjusted_p = adjusted[index]
        falls = _is_significant(adjusted_p, alpha)
        is_silent = _is_significant(adjusted[count + index], alpha)
        is_unstable = _is_significant(adjusted[2 * count + index], alpha)
        finite = contrast.tested[np.isfinite(contrast.tested)]
        mean = float(finite.mean()) if len(finite) else None
        # A mean of exactly 0 has no direction to report.
        falls = falls and (mean or 0.0) != 0
        detectable = _detectable_shift(
            contrast, clusters, scoring.confidence, len(effects), unit
        )
        results.append(
            Outcome(
                contrast=contrast,
                p=of_effects[index],
                adjusted=adjusted_p,
                mean=mean,
                found=falls,
                silenced=is_silent,
                detectable=detectable,
                n=len(finite),
                unstable=is_unstable and not falls,
            )
        )
    return results


def _sums(values: Floats, clusters: Clusters) -> Floats:
    finite = np.isfinite(values)
    sums = clusters.sums(np.where(finite, values, 0.0))
    # without clusters that have no value
    return sums[clusters.sums(finite.astype(float)) > 0]


def p_value(values: Floats, clusters: Clusters, *, one_sided: bool) -> float | None:
    """Return the p-value of the test that flips the signs of clusters; `None` if no
    cluster differs from 0.
    """
    sums = _sums(values, clusters)
    # Flipping the sign of 0 changes nothing.
    sums = sums[np.abs(sums) > 1e-9]
    if not len(sums):
        return None
    total = float(sums.sum())
    # the normal approximation, or else all flips of sums as integers on a grid
    if len(sums) > EXACT_UP_TO:
        p = erfc(abs(total) / sqrt(2 * float((sums**2).sum())))
    else:
        # On a grid of integers, all 2^n flips are counted by adding one cluster after the other.
        p = sign_flip(np.round(sums / np.abs(sums).max() * GRID).astype(np.int64))
    if not one_sided:
        return p
    if total > 0:
        return p / 2
    return 1.0


def _detectable_shift(
    contrast: Contrast, clusters: Clusters, confidence: float, family: int, unit: float
) -> float | None:
    """Return the smallest mean shift that would be found with a power of 0.8; `None` if
    no shift can be.

    It is at least what the fewest cases that can be significant contribute if each changes by the
    smallest `unit`.
    """
    sums = _sums(contrast.tested, clusters)
    n = len(sums)
    alpha = (1 - confidence) / max(1, family)
    # n clusters have a p of 2 ** -n at least, and twice that if it is two-sided
    fewest = ceil(log2((1 if contrast.one_sided else 2) / alpha))
    if n < 2 or fewest > n:
        return None
    cases = int(np.isfinite(contrast.tested).sum())
    error = float(np.std(sums, ddof=1)) * sqrt(n) / cases
    return max(smallest_detectable(error, confidence, family), fewest * unit / cases)


Audited: TypeAlias = tuple[dict[str, Metric], list[Outcome]]


def audit_metrics(
    config: RunConfig,
    cases: Sequence[Case],
    probes: Sequence[Probe],
    everything: Sequence[Case],
    judgments: Sequence[Judgment],
) -> Audited:
    """Return the metrics of an audit, by name, and what the test of each probe found.

    Metrics are in the order of the probes. The repeat, which measures the judge's own noise, is
    not tested.

    Args:
        config: The run's config.
        cases: The original cases.
        probes: The probes.
        everything: The original and the edited cases.
        judgments: The judgments of all of these.
    """
    effects = contrasts(config, cases, probes, everything, judgments)
    clusters = Clusters.of(config, cases)
    scale = _scale(config)
    # the smallest difference between two answers; without a step, a part of the scale
    unit = 1.0 if scale is None else scale.step or scale.span / _PARTS
    statistics = [
        statistic for contrast in effects for statistic in probe_statistics(contrast)
    ]
    metrics = measure(statistics, config.scoring, clusters)
    tested = outcomes(
        [contrast for contrast in effects if contrast.probe.name != REPEAT],
        config.scoring,
        clusters,
        unit,
    )
    for result in tested:
        name = f"audit/{result.contrast.probe.name}/detectable"
        if result.detectable is not None:
            why = None
        else:
            why = "too few cases for any shift to be significant"
        metrics[name] = Metric(
            name,
            None if result.detectable is None else round_metric(result.detectable),
            n=result.n,
            note=why,
        )
    by_probe: Mapping[str, int] = {
        probe.name: index for index, probe in enumerate(probes)
    }

    def order(name: str) -> tuple[int, int]:
        _, probe, kind = name.split("/")
        return by_probe[probe], _NAMES.index(kind)

    return {name: metrics[name] for name in sorted(metrics, key=order)}, tested


_NAMES = (
    "shift",
    "passed",
    "flip_rate",
    "robustness",
    "instability",
    "detectable",
    "missing",
)
