"""Twins: jobs of a sweep whose verdicts are equal, so that the settings in which they
differ have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from evalkit.core.types import ItemVerdict, Verdict
from evalkit.scoring.verdicts.objects import field_values

_OUTCOME: Final = ("case_id", "unit", "judge", "winner", "score", "class_name", "items")
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


def twin_groups(jobs: Iterable[Judged]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of two or more jobs of one dataset with equal verdicts, in the
    order of the jobs.

    Verdicts are equal if the winner, score, class, items or absence of each unit is. Their margins,
    confidences and reasons may differ. Jobs of judges with different names, and jobs without any
    verdict, are no twins.
    """
    judged = [job for job in jobs if job.verdicts]
    datasets_and_judges = [(job.dataset, _judges(job.verdicts)) for job in judged]
    groups: dict[tuple[Any, ...], list[str]] = {}
    for job, key in zip(judged, datasets_and_judges, strict=True):
        # The verdicts are only read of jobs that another one can be a twin of.
        if datasets_and_judges.count(key) > 1:
            groups.setdefault((key, _outcomes(job.verdicts)), []).append(job.job)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _judges(verdicts: Sequence[Verdict]) -> frozenset[str]:
    return frozenset(judge for (judge,) in field_values(verdicts, "judge"))


def _outcomes(verdicts: Sequence[Verdict]) -> frozenset[tuple[Any, ...]]:
    return frozenset(
        (*outcome, _answers(items or ()))
        for *outcome, items in field_values(verdicts, *_OUTCOME)
    )


def _answers(items: Sequence[ItemVerdict]) -> tuple[tuple[Any, ...], ...]:
    return tuple((item.id, item.answer) for item in items)
