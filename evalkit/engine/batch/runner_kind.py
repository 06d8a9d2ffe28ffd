"""`runner.kind=batch`: answers come from a provider's batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evalkit.config import RunConfig
from evalkit.core.protocols import Evaluator, Judge, Store
from evalkit.core.types import Case
from evalkit.engine.batch.jobs import BatchRun
from evalkit.engine.batch.requests import reason_against
from evalkit.engine.progress import Observe
from evalkit.engine.runner_kinds import Collector, RunnerKind
from evalkit.runs.results import Spent


class Batch(RunnerKind):
    """Answers are collected in batches; the engine then finds all of them in the store."""

    def reason_against(self, judge: Judge) -> str | None:
        """Return why a judge cannot be batched; `None` if it can."""
        return reason_against(judge)

    def collector(
        self,
        config: RunConfig,
        cases: Sequence[Case],
        evaluator: Evaluator,
        store: Store | None,
        observe: Observe | None,
        spent: Spent | None,
    ) -> Collector | None:
        """Return the batches of a run; `None` if it only reads the store."""
        if config.store.mode == "read_only":
            return None
        return BatchRun(config, cases, evaluator, store, observe, spent)


KIND: Final = Batch()
