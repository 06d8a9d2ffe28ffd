"""Twins: jobs of a sweep whose verdicts are equal, so that the settings in which they
differ have no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from evalkit.core.types import ItemVerdict, Verdict
from evalkit.scoring.verdicts.verdict_objects import field_values

_OUTCOME: Final = (
    "case_id",
    "unit",
    "judge",
    "winner",
    "score",
    "class_name",
    "items",
)
"""The fields in which the verdicts of twins are equal."""


class Judged(Protocol):
    """A job with its verdicts on a dataset."""

    @property
    def job(self) -> str:
        """The name of its folder in the sweep."""

    @property
    def dataset(self) -> str:
        """The fingerprint of its dataset."""

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """Its verdicts."""


class _Key(NamedTuple):
    """What jobs must have in common before their verdicts are compared."""

    dataset: str
    judges: frozenset[str]


def twin_groups(jobs: Iterable[Judged]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of two or more jobs of one dataset with equal verdicts, in the
    order of the jobs.

    Verdicts are equal if the winner, score, class, items or absence of each unit is. Their margins,
    confidences and reasons may differ. Jobs of judges with different names, and jobs without any
    verdict, are no twins.
    """
    judged = [job for job in jobs if job.verdicts]
    keys = []
    for job in judged:
        judges = _judges(job.verdicts)
        key = _Key(job.dataset, judges)
        keys.append(key)
    jobs_with_key = Counter(keys)
    # {(key, verdicts): names of jobs}, in the order of the jobs.
    groups: dict[tuple[_Key, frozenset[tuple[Any, ...]]], list[str]] = {}
    for job, key in zip(judged, keys, strict=True):
        # The verdicts are only read of jobs that another one can be a twin of.
        if jobs_with_key[key] == 1:
            continue
        outcomes = _outcomes(job.verdicts)
        group = (key, outcomes)
        names = groups.setdefault(group, [])
        names.append(job.job)
    several = [names for names in groups.values() if len(names) > 1]
    return tuple(map(tuple, several))


def _judges(verdicts: Sequence[Verdict]) -> frozenset[str]:
    judges = set()
    for (judge,) in field_values(verdicts, "judge"):
        judges.add(judge)
    return frozenset(judges)


def _outcomes(verdicts: Sequence[Verdict]) -> frozenset[tuple[Any, ...]]:
    outcomes = set()
    for *outcome, items in field_values(verdicts, *_OUTCOME):
        answers = _answers(items or ())
        outcomes.add((*outcome, answers))
    return frozenset(outcomes)


def _answers(items: Sequence[ItemVerdict]) -> tuple[tuple[Any, ...], ...]:
    """Return the answer of each item with its id."""
    answers = [(item.id, item.answer) for item in items]
    return tuple(answers)
