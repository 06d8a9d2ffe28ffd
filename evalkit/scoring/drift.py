"""Drift: what changed between two runs, whether verdicts changed, and whether agreement
with the labels got worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from itertools import combinations, product
from math import sqrt
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from evalkit.config import ScoringConfig
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Scale
from evalkit.core.splits import is_labeled
from evalkit.core.types import Case, Metric
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.scoring.compare import Comparison, compare_runs
from evalkit.scoring.decision import (
    FEW,
    FEW_LABELS,
    Decision,
    Metrics,
    VerdictKind,
    decide,
    kind_of,
    side,
)
from evalkit.scoring.labels import labels_for, labels_to_decide
from evalkit.scoring.looks import unit_answers
from evalkit.scoring.paired_runs import SCORE, RunEntry
from evalkit.scoring.pipeline import verdicts_of
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.paired import tango, widest
from evalkit.scoring.stats.share_intervals import clopper_pearson
from evalkit.scoring.stats.statistic import OwnInterval, Tally

State: TypeAlias = Literal["same", "not_worse", "worse", "unknown"]
Part: TypeAlias = Literal["judge", "prompt", "scoring"]
FLIPS, NOISE, BEYOND, REVERSALS = (
    f"between/{name}" for name in ("flips", "noise", "beyond_noise", "reversals")
)
BLIND: Final = ("chance", "hardly_better", "reversed", "constant", "picked")
"""Reasons why labels that did not show agreement before cannot show that there is as much now."""
_PARTS: Final[Mapping[str, Part]] = {
    "judge": "judge",
    **dict.fromkeys(("criteria", "rubric", "mode", "output", "prompt"), "prompt"),
    **dict.fromkeys(("swap", "tie", "scoring"), "scoring"),
}
"""What a setting belongs to, by its section; those of other sections change no verdict."""
_NO_VERDICT: Final = {
    *(
        f"judge.{name}"
        for name in (
            "name",
            "price",
            "rpm",
            "tpm",
            "concurrency",
            "transport",
            "max_answer_bytes",
        )
    ),
    *(
        f"scoring.{name}"
        for name in (
            "bootstrap",
            "confidence",
            "seed",
            "cluster",
            "slices",
            "search",
            "margin",
        )
    ),
    *(
        "judge.look",
        "mode.samples",
        "prompt.source",
        "scoring.alt_test_epsilon",
        "scoring.conflict_edges",
    ),
}
"""Settings of these parts that change no verdict."""


@frozen
class Setting:
    """One setting, template or model that differs; `None` for a run that does not have it."""

    part: Part
    name: str
    before: Any
    after: Any


@frozen
class Changes:
    """What differs between two runs.

    Attributes:
        settings: the settings, templates and models.
        only_before: the number of cases that only the run before has.
        only_after: the number of cases that only the run after has.
        shared: the number of cases that both have.
        data: how many of these have another prompt, context, reference or checklist.
        answers: how many others have other responses.
        labels: how many of the rest have another label; the newer one is used for both runs.
        unknown: whether a prompt is unknown, because a run was imported.
        copied: how many answers of the run after are stored ones of the run before.
        asked: the number of answers of the run after.
    """

    settings: tuple[Setting, ...]
    only_before: int
    only_after: int
    shared: int
    data: int
    answers: int
    labels: int
    unknown: bool
    copied: int
    asked: int

    @property
    def parts(self) -> list[str]:
        """What changed, in the order judge, prompt, scoring, answers, data."""
        parts = [
            part
            for part in ("judge", "prompt", "scoring")
            if any(setting.part == part for setting in self.settings)
        ]
        parts += ["answers"] if self.answers else []
        return parts + (
            ["data"]
            if self.data or self.only_before or self.only_after or self.labels
            else []
        )


@frozen
class Drift:
    """The drift from one run to another.

    Attributes:
        state: `worse` if agreement is worse by more than the margin, `same`, `not_worse` if it is
            not but verdicts or agreement changed, or `unknown`.
        reason: what the state follows from: `agreement`, `flips`, `no_labels`, `no_verdicts`,
            `missing` or a reason of `BLIND`.
        margin: the largest loss of agreement that does not matter.
        tolerance: the same as a difference of scores: the margin times the span of the scale.
        changes: what differs.
        cases: the number of compared cases: the shared ones with the same prompts and answers, or
            if those are too few, all with the same prompts.
        separable: whether their answers are the same, so that a difference is the judge's.
        before: the decision about the judge before, from the compared cases.
        after: the decision after.
        metrics: the metrics after, on the compared cases.
        agreement: the agreement before, after, and the difference (after minus before); empty
            without labels.
        shift: the difference in mean scores, if there are scores.
        flips: the share of verdicts that changed, of single samples if there are several.
        noise: the share that changes between samples of one run; `None` if no run has samples.
        beyond: the flips beyond the noise.
        reversals: the share of pairs whose winner became the loser.
        lost: the number of units that have a verdict only before.
        labels_needed: how many more labels would probably decide.
    """

    state: State
    reason: str
    margin: float
    tolerance: float
    changes: Changes
    cases: int
    separable: bool
    before: Decision
    after: Decision
    metrics: Metrics = field(repr=False)
    agreement: tuple[Metric, ...] = ()
    shift: Metric | None = None
    flips: Metric | None = None
    noise: Metric | None = None
    beyond: Metric | None = None
    reversals: Metric | None = None
    lost: int = 0
    labels_needed: int | None = None

    @property
    def share(self) -> bool:
        """Whether agreement is a share of correct verdicts, and not a correlation."""
        return kind_of(self.metrics).share is not None

    @property
    def better(self) -> bool:
        """Whether agreement is shown to be better."""
        return bool(self.agreement) and side(self.agreement[2], 0.0) == "above"

    @property
    def noisy(self) -> bool | None:
        """Whether flips are not shown to be more than the judge's noise; `None` if the
        noise is unknown.
        """
        if self.beyond is None or self.beyond.low is None:
            return None
        return self.beyond.low <= 0

    @property
    def changed(self) -> bool:
        """Whether verdicts are shown to differ by more than the margin and, if known,
        the noise; or scores by more.
        """
        flips = self.flips
        shift = self.shift
        moved = (
            shift is not None
            and not self.share
            and max(shift.low or 0.0, -(shift.high or 0.0)) > self.tolerance
        )
        return moved or (
            flips is not None and (flips.low or 0.0) > self.margin and not self.noisy
        )

    def json(self) -> JsonObject:
        """Return the drift as JSON values."""
        attributes = {
            attribute.name: getattr(self, attribute.name)
            for attribute in fields(self)
            if attribute.name not in ("metrics", "tolerance")
        }
        agreement = dict(
            zip(("before", "after", "difference"), self.agreement, strict=False)
        )
        values = {**attributes, "agreement": agreement, "changed": self.changes.parts}
        return {name: _json(value) for name, value in values.items()}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _json(nested) for key, nested in value.items()}
    if isinstance(value, Metric | Changes):
        return asdict(value)
    if isinstance(value, Decision):
        return value.json()
    return value


def measure_drift(
    before: RunEntry,
    after: RunEntry,
    manifests: Sequence[Json],
    scoring: ScoringConfig,
    margin: float,
) -> Drift:
    """Return what changed between two runs, and whether the judge got worse.

    The difference in agreement is tested for non-inferiority and equivalence by its interval
    (Schumi and Wittes 2011, Trials 12, 106), which is at least as wide as Tango's. With several
    samples, flips between the runs less those within them are half the squared distance of each
    unit's two distributions of verdicts, without bias: 0 if only chance differs (an energy
    distance: Székely and Rizzo 2013, J. Stat. Plan. Inference 143, 1249-1272).

    Args:
        before: the run before.
        after: the run after.
        manifests: the manifests of both.
        scoring: the confidence, seed, clusters and number of resamples.
        margin: the largest loss of agreement that does not matter.

    Raises:
        ConfigError: if the runs share no case with the same prompt.
    """
    changes, pairs = _find_changes(before, after, manifests)
    # Where most answers are the same, only these are compared: then a difference is the judge's.
    same = [pair for pair in pairs if _answers(pair[0]) == _answers(pair[1])]
    if separable := 2 * len(same) >= len(pairs):
        pairs = [
            # A case may be labeled in one of the runs only.
            (case, case)
            for case in (later if is_labeled(later) else case for case, later in same)
        ]
    first, second = (
        # index 0: the run before, 1: the run after
        replace(run, name=name).on(tuple(pair[index] for pair in pairs))
        for index, (name, run) in enumerate((("before", before), ("after", after)))
    )
    comparison = compare_runs([second, first], scoring, same=separable)
    metrics = [comparison.metrics(run.name) for run in (first, second)]
    kind = kind_of(metrics[1])
    drift = Drift(
        state="unknown",
        reason="agreement",
        margin=margin,
        tolerance=margin * Scale.of(after.config.rubric).span,
        changes=changes,
        cases=len(pairs),
        separable=separable,
        before=decide(metrics[0], scoring.confidence),
        after=decide(metrics[1], scoring.confidence),
        metrics=metrics[1],
        agreement=_agreement_change(kind, metrics, comparison),
        shift=None if (shift := comparison.difference(SCORE)) is None else shift.metric,
    )
    if separable:
        drift = replace(drift, **_count_flips(first, second, kind.unit, scoring))
    state, reason = _drift_state(drift)
    needed = (
        _more_labels_needed(drift, reason, scoring.confidence)
        if state == "unknown"
        else None
    )
    return replace(drift, state=state, reason=reason, labels_needed=needed)


def _find_changes(
    before: RunEntry, after: RunEntry, manifests: Sequence[Json]
) -> tuple[Changes, list[tuple[Case, Case]]]:
    """Return what changed, and the shared cases with the same prompts and number of responses."""
    later = {case.id: case for case in after.cases}
    shared = [(case, later[case.id]) for case in before.cases if case.id in later]
    pairs = [
        (case, later_case)
        for case, later_case in shared
        if _question(case) == _question(later_case)
    ]
    same = [
        (case, later_case)
        for case, later_case in pairs
        if _answers(case) == _answers(later_case)
    ]
    kept = [
        (case, later_case)
        for case, later_case in pairs
        if len(case.responses) == len(later_case.responses)
    ]
    if not kept:
        problem = "the runs share no case" + (" with the same prompt" if shared else "")
        raise ConfigError(
            problem,
            where=f"{before.name}, {after.name}",
            remedy="name two runs on one dataset",
        )
    changes = Changes(
        tuple(_differing_settings((before, after), manifests)),
        len(before.cases) - len(shared),
        len(after.cases) - len(shared),
        len(shared),
        data=len(shared) - len(pairs),
        answers=len(pairs) - len(same),
        labels=sum(
            is_labeled(case)
            and is_labeled(later_case)
            and _labels(case) != _labels(later_case)
            for case, later_case in same
        ),
        unknown=any(manifest.get("imported") for manifest in manifests),
        copied=_copied(before, after),
        asked=sum(judgment.completion is not None for judgment in after.judgments),
    )
    return changes, kept


def _copied(before: RunEntry, after: RunEntry) -> int:
    """Return how many stored answers of a run are those of another one: even their
    durations are equal.
    """
    earlier = {
        (judgment.keys, judgment.completion.latency)
        for judgment in before.judgments
        if judgment.completion is not None
    }
    return sum(
        judgment.stored
        and judgment.completion is not None
        and (judgment.keys, judgment.completion.latency) in earlier
        for judgment in after.judgments
    )


def _question(case: Case) -> tuple[Any, ...]:
    return (
        case.prompt,
        case.context,
        case.reference,
        [replace(item, labels={}) for item in case.checklist],
    )


def _answers(case: Case) -> list[str]:
    """Return the responses; published files differ in white space around the same response."""
    return [response.text.strip() for response in case.responses]


def _labels(case: Case) -> tuple[Any, ...]:
    return (
        case.label,
        [(response.grade, response.class_name) for response in case.responses],
        [item.labels for item in case.checklist],
    )


def _reported_models(run: RunEntry) -> str:
    """Return the models that answered, as their providers name them, empty if none did."""
    names = {
        judgment.completion.model
        for judgment in run.judgments
        if judgment.completion is not None
    }
    return ", ".join(sorted(filter(None, names)))


def _models_of(manifest: Json) -> str:
    return ", ".join(str(judge.get("model")) for judge in manifest.get("judges") or ())


def _prompt_hashes(manifest: Json) -> dict[str, Any]:
    hashes = manifest.get("prompt_hashes") or {}
    return {f"prompt.{name}": digest for name, digest in hashes.items()}


def _differing_settings(
    runs: Sequence[RunEntry], manifests: Sequence[Json]
) -> Iterator[Setting]:
    """Yield the differing settings: those of the configs, the models in use, and the
    templates if both are known.
    """
    first, second = (dict(_flat(run.config.dump())) for run in runs)
    reported = [_reported_models(run) for run in runs]
    models = [_models_of(manifest) for manifest in manifests]
    # The config shows another model; for the same one, these have the hash of local weights.
    if first.get("judge.model") != second.get("judge.model"):
        models = []
    additional = (
        [{"judge.model": model} for model in models if model],
        [{"judge.reported_model": names} for names in reported if names],
        [_prompt_hashes(manifest) for manifest in manifests],
    )
    for settings in additional:
        # A setting that one of the runs does not report cannot differ.
        if len(settings) == len(runs) and all(settings):
            of_first, of_second = settings
            first |= of_first
            second |= of_second
    for name in first | second:
        before = first.get(name)
        after = second.get(name)
        part = _PARTS.get(name.partition(".")[0])
        if before != after and part is not None and name not in _NO_VERDICT:
            yield Setting(part, name, before, after)


def _flat(value: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, setting in value.items():
        if isinstance(setting, Mapping) and setting:
            yield from _flat(setting, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", setting


def _agreement_change(
    kind: VerdictKind, metrics: Sequence[Metrics], comparison: Comparison
) -> tuple[Metric, ...]:
    """Return the agreement before and after, and the difference; empty if any has no value."""
    names = (kind.share,) if kind.share is not None else kind.agreement
    for difference in filter(None, map(comparison.difference, names)):
        metric = difference.metric
        if (
            difference.only_first is not None
            and difference.only_second is not None
            and metric.n
        ):
            score = tango(
                difference.only_first,
                difference.only_second,
                metric.n,
                comparison.confidence,
            )
            low, high = widest([*score, metric.low, metric.high])
            metric = replace(metric, low=low, high=high)
        if metric.low is not None:
            return metrics[0][metric.name], metrics[1][metric.name], metric
    return ()


def _count_flips(
    first: RunEntry, second: RunEntry, unit: str, scoring: ScoringConfig
) -> JsonObject:
    """Return the flips, noise, flips beyond noise, reversals, and the number of lost verdicts."""
    samples = [list(_sampled_verdicts(run, unit)) for run in (first, second)]
    if not all(samples):
        return {}
    units = list(samples[0][0])
    # verdict -> code; -1: no verdict; a class or score that is new gets the next code
    codes: dict[object, int] = {None: -1, "A": 0, "B": 1}

    def coded(verdict_of: Mapping[Any, object]) -> Ints:
        verdicts = (verdict_of.get(key) for key in units)
        numbers = [codes.setdefault(verdict, len(codes)) for verdict in verdicts]
        return np.array(numbers, dtype=np.int64)

    # [run][sample]: shape (units,), the code of each unit's verdict
    rows = [[coded(sample) for sample in run_samples] for run_samples in samples]
    # case id -> its position in both runs
    positions = {case.id: position for position, case in enumerate(first.cases)}
    tally = Tally(
        np.array([positions[key[0]] for key in units], dtype=np.int64), len(positions)
    )
    # each pair of a sample before and a sample after
    across = list(product(rows[0], rows[1]))
    # [run]: each pair of two samples of that run
    within = [list(combinations(run_rows, 2)) for run_rows in rows]
    flips, read = _share(across, np.not_equal)
    rate: JsonObject = {"span": (0.0, 1.0), "proportion": True}
    # shape (cases,): whether a unit of the case was read in both runs
    covered = np.asarray(tally(read) > 0)
    statistics = [
        tally.mean(FLIPS, flips, read, ~read, own=_exact(flips, read, covered), **rate)
    ]
    if unit == "pair":
        reversed_ = _share(across, lambda *both: sum(both) == 1)[0]
        interval = _exact(reversed_, read, covered)
        statistics.append(
            tally.mean(REVERSALS, reversed_, read, ~read, own=interval, **rate)
        )
    if repeats := [_share(pairs, np.not_equal) for pairs in within if pairs]:
        noise = np.mean([share for share, _ in repeats], axis=0)
        both = np.logical_and.reduce([read, *(reread for _, reread in repeats)])
        statistics.append(tally.mean(NOISE, noise, both, ~both, **rate))
        statistics.append(
            tally.mean(BEYOND, flips - noise, both, ~both, limits=(-1.0, 1.0))
        )
    # shape (units,): whether any sample before, or after, has a verdict
    had, has = (np.any([row >= 0 for row in run_rows], axis=0) for run_rows in rows)
    clusters = Clusters.of(first.config, first.cases, scoring.cluster)
    metrics = measure(statistics, scoring, clusters)
    names = {"flips": FLIPS, "noise": NOISE, "beyond": BEYOND, "reversals": REVERSALS}
    return {key: metrics.get(name) for key, name in names.items()} | {
        "lost": int((had & ~has).sum())
    }


def _exact(changed: Floats, read: Bools, covered: Bools) -> OwnInterval:
    """Return the exact interval of a share of changed verdicts; a cluster counts once.

    Percentiles of resamples end too early where few verdicts change, and would show that no more
    than the margin did.

    Args:
        changed: (units,) the share of the samples of each unit that changed.
        read: (units,) which units were read in both runs.
        covered: (cases,) which cases have such a unit.
    """
    value = float(changed[read].mean()) if read.any() else 0.0
    return lambda clusters, confidence: clopper_pearson(
        value, clusters.covered(covered), confidence
    )


def _sampled_verdicts(
    run: RunEntry, unit: str
) -> Iterator[dict[tuple[Any, ...], object]]:
    """Yield the verdict of each unit for each sample; `None` for a missing one."""
    config = run.config.with_({"mode.samples": 1})
    for sample in sorted({judgment.sample for judgment in run.judgments}):
        sampled = [
            replace(judgment, sample=0)
            for judgment in run.judgments
            if judgment.sample == sample
        ]
        answers = unit_answers(
            verdicts_of(config, run.cases, sampled),
            1 + (unit == "pair"),
            items=unit == "item",
        )
        yield {
            key: "abstained" if answer is None and reason == "abstained" else answer
            for key, answer, reason, _ in answers
            if key[2] or unit != "item"
        }


def _share(
    pairs: Sequence[tuple[Ints, Ints]], changed: Callable[..., Any]
) -> tuple[Floats, Bools]:
    """Return for each unit the mean of a change over pairs of samples that are both
    read, and whether there are any.
    """
    # shape (pairs of samples, units)
    read = [(first >= 0) & (second >= 0) for first, second in pairs]
    hits = np.sum(
        [changed(*pair) & both for pair, both in zip(pairs, read, strict=True)], axis=0
    )
    # shape (units,): in how many pairs of samples the unit was read twice
    count = np.sum(read, axis=0)
    return np.nan_to_num(divide(hits, count)), count > 0


def _drift_state(drift: Drift) -> tuple[State, str]:
    """Return the state, and what it follows from; an end of an interval at the margin is within it.

    Agreement changes by no more than the share of verdicts that change, so the exact interval of
    this share is also one of the change in agreement: `same` needs either inside the margin.
    """
    margin = drift.margin
    flips = drift.flips
    low = high = None
    few = False
    if drift.agreement:
        _, _, difference = drift.agreement
        low = difference.low
        high = difference.high
        few = difference.n < FEW
    if high is not None and high < -margin and not few:
        return "worse", "agreement"
    if flips is not None and drift.lost > margin * (flips.n + flips.missing):
        return "unknown", "missing"
    if flips is not None and flips.high is not None and flips.high <= margin:
        return "same", "flips"
    if low is None or high is None:
        return "unknown", "no_labels" if flips is None or flips.n else "no_verdicts"
    if drift.before.reason in BLIND and (low <= 0 or drift.before.reason == "picked"):
        return "unknown", drift.before.reason
    if few or low < -margin:
        return "unknown", "agreement"
    return ("not_worse" if drift.changed or high > margin else "same"), "agreement"


def _more_labels_needed(drift: Drift, reason: str, confidence: float) -> int | None:
    """Return how many more labels would probably show whether agreement is worse;
    `None` if that is unknown.

    Without labels, for a judge that is as good as before: the difference then varies as much as
    verdicts change, which fewer than `FEW_LABELS` verdicts do not show.
    """
    if reason == "agreement":
        return labels_for(drift.agreement[2], -drift.margin, confidence)
    flips = drift.flips
    if (
        reason == "no_labels"
        and drift.share
        and flips is not None
        and flips.value
        and drift.margin
    ):
        if flips.n >= FEW_LABELS:
            return labels_to_decide(drift.margin, sqrt(flips.value), confidence)
        return None
    return None
