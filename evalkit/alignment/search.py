"""Search scoring settings over stored answers: fit them on train, simplest settings first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product
from math import comb
from typing import Any, Final

import numpy as np

from evalkit.config import CHECKLIST, RunConfig
from evalkit.config.align import CALLS, Knob
from evalkit.config.section_base import Section
from evalkit.core.splits import is_labeled
from evalkit.core.types import Case, Judgment
from evalkit.scoring.decision import PAIRS, SCORES, VerdictKind
from evalkit.scoring.pipeline import frontier_of, verdicts_of
from evalkit.scoring.verdicts.panel import DAWID_SKENE
from evalkit.scoring.verdicts.verdict_objects import field_values

THRESHOLD, WEIGHTS, COMBINE, VOTE = (
    "tie.threshold",
    "scoring.weights",
    "scoring.combine",
    "judge.vote",
)
STEPS = (20, 10, 5, 4, 2)
MOST_WEIGHTINGS = 300
"""Weights are multiples of 1 / 20, or coarser if there would be more weightings than this."""
_EQUAL: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Side:
    """The cases of one side of a split, with their judgments."""

    cases: Sequence[Case]
    judgments: Sequence[Judgment]

    def labeled(self) -> Side:
        """Return the cases with labels."""
        cases = [case for case in self.cases if is_labeled(case)]
        kept = {case.id for case in cases}
        return Side(
            cases, [judgment for judgment in self.judgments if judgment.case_id in kept]
        )

    @property
    def usable(self) -> float:
        """The share of judgments that could be read."""
        return sum(judgment.readable for judgment in self.judgments) / max(
            len(self.judgments), 1
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings that were fitted on train.

    Attributes:
        settings: the keys that differ from the run's config, with their values.
        train: the agreement on train.
        templates: the text of templates that are not in the run, by their names.
        dev: the answers on dev, if calls for them were made.
    """

    settings: Mapping[str, Any]
    train: float
    templates: Mapping[str, str] = field(default_factory=dict)
    dev: Side | None = None

    def of(self, config: RunConfig) -> RunConfig:
        """Return a config with these settings."""
        return config.with_(self.settings)


def plain(value: Any) -> Any:
    """Return settings as JSON values."""
    if isinstance(value, Section):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def obstacle(
    knob: Knob, config: RunConfig, kind: VerdictKind, judgments: Sequence[Judgment]
) -> str | None:
    """Return why a setting cannot change anything in a run, `None` if it can."""
    if config.judge.cascades and knob in (*CALLS, "vote"):
        return "other prompts and votes need other answers than a cascade asks for"
    if knob in CALLS:
        return None
    if config.mode.name == CHECKLIST:
        return "checklist items have no such setting"
    classes = bool(config.rubric.classes)
    if knob == "threshold":
        if classes or kind is not PAIRS:
            return "the labels are not of pairs"
        if config.tie.allow:
            return None
        return "tie.allow is false"
    if knob == "weights":
        if classes or not any(judgment.criteria for judgment in judgments):
            return "the answers have no values by criterion"
        if config.scoring.aggregate == "overall":
            return "scoring.aggregate is overall"
        if len(config.criteria) > 1:
            return None
        return "there is one criterion"
    if knob == "combine":
        if classes or config.mode.samples == 1:
            return "there is one sample of each answer"
        return None
    if len({judgment.judge for judgment in judgments}) == 1:
        return "there is one judge"
    few = f"{len(config.judge.members)} judges have no other vote: {DAWID_SKENE} needs three"
    if _votes(config):
        return None
    return few


def depends_on_others(config: RunConfig, tune: Sequence[Knob]) -> bool:
    """Return whether a verdict may depend on the answers to other cases: by a model of
    votes, or by normalization.

    Then a side is scored with all its cases, those without labels too, and never with cases of
    another side.
    """
    votes = [config.judge.vote, *(_votes(config) if "vote" in tune else ())]
    return DAWID_SKENE in votes or config.scoring.normalize != "none"


def candidates(
    config: RunConfig, kind: VerdictKind, train: Side, tune: Sequence[Knob]
) -> Iterator[Candidate]:
    """Yield the run's own settings, then for each combination of changed settings the
    best values on train.

    Combinations with fewer changes come first. Among equally good values, the first one wins, and
    the run's own come before all others.

    Args:
        config: the run's config.
        kind: what the labels are about.
        train: the cases to fit on; those without labels count if a verdict `depends_on_others`.
        tune: the settings that may change.
    """
    # First the run's own settings, so that a tie changes nothing.
    yield Candidate({}, agreement(config, kind, train))
    for size in range(1, len(tune) + 1):
        for knobs in combinations(tune, size):
            # The threshold is fitted below: its best values follow from the margins.
            choices = [
                _other_values(knob, config) for knob in knobs if knob != "threshold"
            ]
            best: Candidate | None = None
            for values in product(*choices):
                settings = {
                    key: value for choice in values for key, value in choice.items()
                }
                for candidate in _with_thresholds(
                    config.with_(settings),
                    kind,
                    train,
                    settings,
                    threshold="threshold" in knobs,
                ):
                    # Rounding must not replace a simpler setting by an equal one.
                    if best is None or candidate.train > best.train + _EQUAL:
                        best = candidate
            if best is not None:
                yield best


def _other_values(knob: Knob, config: RunConfig) -> list[dict[str, Any]]:
    """Return the values of a setting other than the run's, each as settings by key."""
    if knob == "weights":
        current = config.weights()
        return [
            {WEIGHTS: weights}
            for weights in weightings(list(config.criteria))
            if any(
                abs(weights[name] - share) > _EQUAL for name, share in current.items()
            )
        ]
    if knob == "combine":
        return [
            {COMBINE: method}
            for method in ("mean", "median", "majority")
            if method != config.scoring.combine
        ]
    return [{VOTE: vote} for vote in _votes(config)]


def _votes(config: RunConfig) -> list[str]:
    """Return the other votes that a panel can take."""
    classes = bool(config.rubric.classes)
    judge = config.judge
    votes = {
        "majority": True,
        "mean": not classes,
        "median": not classes,
        "weighted": bool(judge.weights),  # otherwise it is the mean
        DAWID_SKENE: len(judge.members) > 2 and (classes or not config.mode.scores),
    }
    return [vote for vote, possible in votes.items() if possible and vote != judge.vote]


def _with_thresholds(
    config: RunConfig,
    kind: VerdictKind,
    side: Side,
    settings: Mapping[str, Any],
    *,
    threshold: bool,
) -> Iterator[Candidate]:
    """Yield the settings as they are, or with each threshold of ties at which a verdict changes.

    Args:
        config: The run's config with these settings.
        kind: What is compared with the labels.
        side: The cases and judgments that the settings are fitted on.
        settings: The settings by key.
        threshold: Whether thresholds are tried.
    """
    if not threshold:
        yield Candidate(settings, agreement(config, kind, side))
        return
    # Every threshold at which a verdict changes, with the accuracy there.
    for point in frontier_of(config, side.cases, side.judgments):
        if point.accuracy is not None and point.threshold != config.tie.threshold:
            yield Candidate({**settings, THRESHOLD: point.threshold}, point.accuracy)


def weightings(names: Sequence[str]) -> Iterator[dict[str, float]]:
    """Yield the weights of criteria that are multiples of one step and sum to 1."""
    steps = next(
        # The number of ways to divide n steps among the criteria.
        (n for n in STEPS if comb(n + len(names) - 1, n) <= MOST_WEIGHTINGS),
        1,
    )
    # stars and bars: the steps between two bars are those of one criterion
    for bars in combinations(range(steps + len(names) - 1), len(names) - 1):
        ends = (-1, *bars, steps + len(names) - 1)
        # Criterion k gets the positions between bar k and bar k + 1.
        parts = [after - before - 1 for before, after in pairwise(ends)]
        yield {name: part / steps for name, part in zip(names, parts, strict=True)}


def agreement(config: RunConfig, kind: VerdictKind, side: Side) -> float:
    """Return the share of labeled verdicts that are correct, or the rank correlation of
    scores and grades.

    Without any verdict, or where all scores are equal, it is -1.
    """
    rows = field_values(
        verdicts_of(config, side.cases, side.judgments),
        "label",
        "winner",
        "class_name",
        "score",
    )
    if kind is SCORES:
        return _correlation(
            [(score, label) for label, _, _, score in rows if isinstance(label, float)]
        )
    right = [
        (winner or name) == label
        for label, winner, name, _ in rows
        if isinstance(label, str) and (winner or name)
    ]
    if right:
        return float(np.mean(right))
    return -1.0


def chance_corrected(config: RunConfig, kind: VerdictKind, side: Side) -> float:
    """Return the agreement of labeled verdicts beyond chance, less where verdicts are missing.

    It is the kind of agreement that the decision reads: Cohen's kappa, or a rank correlation. Where
    labels are of one class, or there are no verdicts, it is -1: nothing can be shown. A share of
    correct verdicts would also rise where ties are removed from a judge that tosses coins.
    """
    if kind is SCORES:
        value = agreement(config, kind, side)
        if value > 0:
            return value * side.usable
        return value
    rows = field_values(
        verdicts_of(config, side.cases, side.judgments),
        "label",
        "winner",
        "class_name",
    )
    labels = []
    verdicts = []
    for label, winner, class_name in rows:
        verdict = winner or class_name
        if isinstance(label, str) and verdict:
            labels.append(label)
            verdicts.append(verdict)
    # Labels and verdicts share one coding, so that equal codes mean equal names.
    _, codes = np.unique([*labels, *verdicts], return_inverse=True)
    label_codes = codes[: len(labels)]
    verdict_codes = codes[len(labels) :]
    if len(np.unique(label_codes)) < 2:
        return -1.0
    # How often each code is a label, and how often a verdict.
    label_counts = np.bincount(label_codes, minlength=len(codes))
    verdict_counts = np.bincount(verdict_codes, minlength=len(codes))
    by_chance = float(label_counts @ verdict_counts) / len(labels) ** 2
    observed = float(np.mean(label_codes == verdict_codes))
    kappa = (observed - by_chance) / (1 - by_chance)
    if kappa > 0:
        # A judge that answers only the easy cases must not look better.
        return kappa * side.usable
    return kappa


def _correlation(pairs: Sequence[tuple[float | None, float]]) -> float:
    # Imported late: SciPy takes long to load.
    from scipy.stats import rankdata

    # shape (pairs, 2): score and label
    read = np.array(
        [pair for pair in pairs if pair[0] is not None], dtype=np.float64
    ).reshape(-1, 2)
    if len(read) < 2 or not np.ptp(read, axis=0).all():
        return -1.0
    # Spearman's correlation: Pearson's of the ranks, off the diagonal.
    return float(np.corrcoef(rankdata(read, axis=0), rowvar=False)[0, 1])
