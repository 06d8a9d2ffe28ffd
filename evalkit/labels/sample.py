"""Choose the cases to label: the most informative ones more often, all with a known
probability above 0.

Cases are stratified by what there is to learn from them and by their verdicts. Half of the labels
go to all strata equally, half in proportion to their size, and within a stratum to a simple random
sample. A case's probability is the share of its stratum that is sampled. Metrics weight its label
by the inverse, so that they are about all cases (Cochran 1977, Sampling Techniques, ch. 5). The
order within a stratum is fixed, so more labels extend a sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Any, Literal

from evalkit.core.annotations import (
    INCLUSION,
    Label,
    annotation_classes,
    annotation_grades,
    choice_for,
    inclusion,
)
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import text_digest
from evalkit.core.regular_files import read_text
from evalkit.core.types import Annotation, Case, Unit, Verdict, Winner
from evalkit.core.values import frozen
from evalkit.datasets.labels import has_label
from evalkit.labels.tasks import labeled_size, units_to_label
from evalkit.runs.layout import LABEL_SAMPLE
from evalkit.runs.results import RunResult

Kind = Literal["disagreement", "flip", "near", "plain"]


KINDS: tuple[Kind, ...] = ("disagreement", "flip", "near", "plain")
"""Reasons to label a unit, the most informative first."""
_NEAR = 0.34
"""A margin this close to the threshold is near it: one of three samples disagrees."""
EACH = 4
"""Strata are merged unless there are this many labels for each, on average."""


@frozen
class LabelSample:
    """Cases sampled for labeling.

    Attributes:
        units: the units of the cases to label now, as (case id, responses); those that have labels
            are omitted.
        probabilities: by case id, the probability of each sampled case, also of earlier ones.
        strata: by name, the number of cases in each stratum, and how many of them are sampled.
        seed: the seed of the order within strata.
    """

    units: Sequence[tuple[str, Unit]]
    probabilities: Mapping[str, float]
    strata: Mapping[str, tuple[int, int]]
    seed: int

    def content(self) -> str:
        """Return the sample as the content of its file in the run folder."""
        strata = {
            name: {"cases": cases, "sampled": sampled}
            for name, (cases, sampled) in self.strata.items()
        }
        values = {
            "seed": self.seed,
            "strata": strata,
            "probabilities": dict(self.probabilities),
        }
        return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def sample_for_labeling(result: RunResult, count: int, seed: int = 0) -> LabelSample:
    """Sample cases with about `count` units to label.

    The cases of earlier samples that have labels belong to the sample, if this one extends theirs;
    otherwise they count once, as all other labeled cases. If every case has a label, all can be
    sampled again.

    Args:
        result: the run.
        count: the number of units, such as pairs; all units of a sampled case are labeled.
        seed: the seed of the order within strata, the groups of cases that are sampled alike.
    """
    by_case = units_to_label(result)
    # Labeled cases with a known probability are `earlier`; all others count as picked.
    labeled = set[str]()
    earlier = set[str]()
    for case in result.cases:
        if case.id in by_case and any(
            _has_label(case.labels, unit) for unit in by_case[case.id]
        ):
            if isinstance(inclusion(case), float):
                earlier.add(case.id)
            else:
                labeled.add(case.id)
    open_cases = [name for name in by_case if name not in labeled] or list(by_case)
    # the number of cases that have about `count` units
    unit_count = max(1, sum(map(len, by_case.values())))
    case_count = max(1, count * len(by_case) // unit_count)
    chosen, strata = _sampling_probabilities(
        result, open_cases, case_count + len(earlier), seed
    )
    # The new sample does not contain the earlier one, so the two together are no random sample:
    # only the open cases are sampled.
    if not earlier <= chosen.keys():
        open_cases = [name for name in open_cases if name not in earlier] or open_cases
        chosen, strata = _sampling_probabilities(result, open_cases, case_count, seed)
    new = [name for name in chosen if name not in earlier] or chosen
    units = [(name, unit) for name in new for unit in by_case[name]]
    return LabelSample(units, chosen, strata, seed)


def _sampling_probabilities(
    result: RunResult, names: Sequence[str], count: int, seed: int
) -> tuple[dict[str, float], dict[str, tuple[int, int]]]:
    """Return the probability of each sampled case by id, and the size of each stratum and of its
    sample.

    Args:
        result: The run.
        names: The ids of the cases that can be sampled.
        count: The number of cases to sample.
        seed: The seed of the order within strata.
    """
    most = max(1, count // EACH)
    # the finest strata that are few enough for EACH cases of each
    members = next(
        level for level in strata_of(result, names, seed) if len(level) <= most
    )
    # Sorted, so that equal shares are resolved in the same way each time.
    shares = allocate(
        {name: len(cases) for name, cases in sorted(members.items())}, count
    )
    chosen = {
        case: shares[name] / len(members[name])
        for name in shares
        for case in members[name][: shares[name]]
    }
    strata = {name: (len(members[name]), share) for name, share in shares.items()}
    return chosen, strata


def strata_of(
    result: RunResult, names: Sequence[str], seed: int
) -> Iterator[dict[str, list[str]]]:
    """Yield the cases of each stratum in random order, in ever larger strata; the last
    has all cases.
    """
    # The reason of a case is the most informative one of its units, and the smallest verdict.
    selected = set(names)
    size = labeled_size(result)
    reasons: dict[str, tuple[int, str]] = {}
    for verdict in result.verdicts:
        if len(verdict.unit) == size and verdict.case_id in selected:
            kind = KINDS.index(disagreement_kind(verdict, result.config.tie.threshold))
            reason = (kind, _verdict_key(verdict))
            reasons[verdict.case_id] = min(reason, reasons.get(verdict.case_id, reason))
    # From fine to coarse: reason and verdict, reason, one stratum.
    levels = (
        {
            name: f"{KINDS[kind]}, verdict {key}"
            for name, (kind, key) in reasons.items()
        },
        {name: KINDS[kind] for name, (kind, _) in reasons.items()},
        dict.fromkeys(reasons, "all"),
    )
    # By hash: random, but a case keeps its rank when others are added, so that samples can grow.
    ordered = sorted(names, key=lambda name: text_digest(f"{seed}\0{name}"))
    for stratum in levels:
        members: dict[str, list[str]] = {}
        for name in ordered:
            members.setdefault(stratum[name], []).append(name)
        yield members


def allocate(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many cases of each stratum to sample: at least one, and never fewer if more are
    wanted.

    A stratum is a group of cases that is sampled by itself. Each next case is that of the stratum
    that is the furthest behind its share (Sainte-Laguë's method). More cases than there are give
    all of them.

    Args:
        sizes: the number of cases of each stratum, at least one.
        count: the number of cases to sample.
    """
    shares = {
        name: 1 / len(sizes) + size / sum(sizes.values())
        for name, size in sizes.items()
    }
    # One each first: a stratum without a label could not be weighted.
    counts = dict.fromkeys(sizes, 1)
    # Divisors n + 0.5 for n cases so far; negative, because the smallest entry comes first.
    queue = [(-shares[name] / 1.5, name) for name in sizes if sizes[name] > 1]
    # the stratum that is the furthest behind its share comes first; a full one comes
    # last
    heapify(queue)
    total = min(count, sum(sizes.values()))
    for _ in range(total - len(sizes)):
        name = queue[0][1]
        counts[name] += 1
        full = counts[name] == sizes[name]
        heapreplace(
            # 1.0 is behind every negative share.
            queue,
            (1.0 if full else -shares[name] / (counts[name] + 0.5), name),
        )
    return counts


def disagreement_kind(verdict: Verdict, threshold: float) -> Kind:
    """Return the reason to label a unit."""
    votes = {vote for vote in verdict.votes.values() if vote is not None}
    if len(votes) > 1 or (verdict.reason == "split" and len(verdict.unit) == 1):
        return "disagreement"
    if verdict.orders is not None and verdict.orders.consistent is False:
        return "flip"
    if verdict.margin is not None and abs(abs(verdict.margin) - threshold) <= _NEAR:
        return "near"
    return "plain"


def _verdict_key(verdict: Verdict) -> str:
    return str(
        verdict.winner or verdict.class_name
        if verdict.score is None
        else round(verdict.score)
    )


def _has_label(labels: Mapping[str, Annotation], unit: Unit) -> bool:
    return any(label_of(annotation, unit) is not None for annotation in labels.values())


def label_of(annotation: Annotation, unit: Unit) -> Winner | float | str | None:
    """Return an annotator's choice for a pair, or the grade or class of one response;
    `None` without one.
    """
    if len(unit) == 2:
        return choice_for(annotation, unit)
    # Index i is response i.
    values = annotation_grades(annotation) or annotation_classes(annotation)
    if values:
        return values[unit[0]]
    return None


def with_probabilities(
    before: Sequence[Case],
    after: Sequence[Case],
    labels: Sequence[Label],
    sampled: Mapping[str, float] | None,
) -> tuple[Case, ...]:
    """Return cases with new labels, and with the probability that they were chosen for them.

    A case that had a label without such a probability keeps none, unless the sample recorded in the
    run folder includes it, as a random one. Otherwise that sample decides: a case that it does not
    have was labeled anyway. Without a record, the label's own probability counts.

    Args:
        before: the cases before they were labeled.
        after: the same cases with their labels.
        labels: the new labels.
        sampled: the recorded probabilities by case id; `None` without a record.
    """
    # The probability that a label's row brings; the last row of a case counts.
    carried = {label.case_id: label.probability for label in labels}
    # Cases with a label before this import.
    had = {old.id for old in before if has_label(old) or old.labels}
    adopted = had & (sampled or {}).keys() if len(had) < len(before) else set()
    cases = []
    # `before` and `after` are the same cases in the same order.
    for old, new in zip(before, after, strict=True):
        earlier = inclusion(old)
        label_probability = carried.get(old.id)
        probability: Any = earlier
        if (
            earlier is not None
            or old.id in adopted
            or (old.id in carried and old.id not in had)
        ):
            probability = label_probability or earlier
            if sampled is not None and not _is_certain(label_probability):
                probability = sampled.get(old.id)
        metadata = {
            name: value for name, value in new.metadata.items() if name != INCLUSION
        }
        stated = {} if probability is None else {INCLUSION: probability}
        cases.append(
            new
            if probability == earlier
            else replace(new, metadata={**metadata, **stated})
        )
    return tuple(cases)


def _is_certain(probability: Any) -> bool:
    return str(probability) in ("1", "1.0")


def recorded(folder: Path) -> dict[str, float] | None:
    """Return the probability of each sampled case in a run folder; `None` if nothing was sampled.

    Raises:
        ConfigError: if the file is damaged.
    """
    file = folder / LABEL_SAMPLE
    if not file.exists():
        return None
    try:
        probabilities = json.loads(read_text(file))["probabilities"]
        return {
            str(name): float(probability) for name, probability in probabilities.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        remedy = "remove the file; the labels then are of cases picked with unknown probabilities"
        raise ConfigError(
            "is not a sample of cases", where=str(file), remedy=remedy
        ) from None
