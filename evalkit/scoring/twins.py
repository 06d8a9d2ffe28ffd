"""Twins: jobs of a sweep whose verdicts are equal, so that the settings in which they differ have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from evalkit.core.types import Verdict


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


def twin_groups(jobs: Iterable[Judged]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of two or more jobs of one dataset with equal verdicts, in the order of the jobs.

    Verdicts are equal if the winner, score, class, items or absence of each unit is. Their margins,
    confidences and reasons may differ. Jobs of judges with different names, and jobs without any
    verdict, are no twins.
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    for job in jobs:
        if job.verdicts:
            key = (job.dataset, frozenset(map(_outcome, job.verdicts)))
            groups.setdefault(key, []).append(job.job)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _outcome(verdict: Verdict) -> tuple[Any, ...]:
    items = tuple((item.id, item.answer) for item in verdict.items)
    return (
        verdict.case_id,
        verdict.unit,
        verdict.judge,
        verdict.winner,
        verdict.score,
        verdict.class_name,
        items,
    )
