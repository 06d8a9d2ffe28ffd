"""How each job is looked at before it is paid for: its cases, its store, and whether its prompts must be filled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from evalkit.api import build_evaluator, stream_cases
from evalkit.config import RunConfig, StoreConfig
from evalkit.evaluators.third_party import foresight
from evalkit.judges import spec_of
from evalkit.protocols import Evaluator
from evalkit.store import SqliteStore, open_store, store_path
from evalkit.store.recent import count, holds
from evalkit.types import Case

FEW_STORED, FEW_CASES = 20_000, 1_000
"""So many rows of a store are looked through for a model's, however few the cases are; more, only for so many cases."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job by its overrides, with its config and evaluator; its cases are read anew each time they are wanted."""

    name: Sequence[str]
    config: RunConfig
    evaluator: Evaluator

    @staticmethod
    def of(name: Sequence[str], config: RunConfig) -> PlannedJob:
        """Return a job, its prompts found and filled once.

        Raises:
            ConfigError: if a template or a plug-in is not what the config says.
        """
        return PlannedJob(name, config, build_evaluator(config))

    def __iter__(self) -> Iterator[Case]:
        """Yield the cases.

        Raises:
            ConfigError: if the dataset is not what the config says.
        """
        return iter(stream_cases(self.config))


@contextmanager
def plan_ahead(config: StoreConfig) -> Iterator[SqliteStore | None]:
    """Open the store, if it is there and would be read, as long as the block lasts: making one is left to the run."""
    path = store_path(config.url)
    new = not path.exists() or path.stat().st_size == 0
    looks = config.mode == "read_only" or (config.mode == "read_write" and not new)
    store = open_store(config) if looks else None
    try:
        yield store
    finally:
        if store is not None:
            store.close()


def foreseeable(jobs: Sequence[PlannedJob]) -> set[str]:
    """Return the models whose requests all jobs can count without filling a prompt, since none has a stored answer.

    It is all jobs or none: a request that one of them foresees is not known again in one that another fills.
    """
    able: dict[str, bool] = {}
    for job in jobs:
        foresees = foresight(job.evaluator) is not None
        with plan_ahead(job.config.store) as store:
            for model in {spec.model for spec in spec_of(job.config.judge)}:
                if able.get(model, True):
                    able[model] = foresees and not (store is not None and _may_hold(store, model, job))
    return {model for model, is_able in able.items() if is_able}


def _may_hold(store: SqliteStore, model: str, cases: Iterable[Case]) -> bool:
    is_small = count(store) <= FEW_STORED
    if not is_small and sum(1 for _ in islice(cases, FEW_CASES)) < FEW_CASES:
        return True
    return holds(store, model)
