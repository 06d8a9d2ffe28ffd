"""Cases that were read before: the jobs of a sweep have the very same ones, not only equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evalkit.config import DatasetConfig
from evalkit.core.hashing import digest
from evalkit.core.sweep_cache import SweepCache
from evalkit.datasets.load import Dataset
from evalkit.types import Case

_CASE = 1_000  # bytes, without the texts


def reuse_cases(recall: SweepCache, config: DatasetConfig, dataset: Dataset) -> Dataset:
    """Return a dataset with the cases that were read of the same settings and had the same fingerprint, if any."""
    if not recall.takes(_CASE * len(dataset.cases)):
        return dataset
    key = ("cases", digest(config.model_dump(mode="json")), dataset.fingerprint)
    known: Sequence[Case] | None = recall.get(key)
    cases = recall.keep(key, dataset.cases, sum(map(_size, dataset.cases))) if known is None else known
    return replace(dataset, cases=cases)


def _size(case: Case) -> int:
    return _CASE + len(case.prompt) + sum(len(one.text) for one in case.responses)
