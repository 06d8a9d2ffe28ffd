"""A job before it is paid for: its cases, its evaluator and its store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from evalkit.api import build_evaluator, stream_cases
from evalkit.cli.hydra_runner import is_sweep, split_study
from evalkit.cli.parser import check_overrides, study_words
from evalkit.config import RunConfig, StoreConfig
from evalkit.gating import check_gate
from evalkit.hydra_app import DEFAULT, load_jobs
from evalkit.protocols import Evaluator, Store
from evalkit.store import backend_of, open_store, store_url
from evalkit.types import Case


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


def planned_jobs(arguments: Namespace) -> list[PlannedJob]:
    """Return the jobs of a command with a study, overrides and `-m`, each with a gate that can be decided.

    Raises:
        ConfigError: if the config cannot be composed, or a gate is wrong.
    """
    study, overrides = split_study(study_words(arguments))
    check_overrides(overrides)
    sweep = arguments.multirun or is_sweep(study, overrides)
    loaded = load_jobs(str(study) if study else DEFAULT, overrides, sweep=sweep)
    jobs = [PlannedJob.of(name, config) for name, config in loaded]
    for job in jobs:
        check_gate(job.config, job)
    return jobs


@contextmanager
def plan_ahead(config: StoreConfig) -> Iterator[Store | None]:
    """Open the store, if it is there and would be read, as long as the block lasts: making one is left to the run."""
    url = store_url(config.url)
    looks = config.mode == "read_only" or (config.mode == "read_write" and backend_of(url).exists(url))
    store = open_store(config) if looks else None
    try:
        yield store
    finally:
        if store is not None:
            store.close()
