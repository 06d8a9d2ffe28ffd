"""`runner.kind=slurm` and `ray`: other processes judge shards of the cases into the store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from evalkit.config import RunConfig
from evalkit.engine.progress import JudgingResult, Observe
from evalkit.engine.runner_kinds import RunnerKind, Work
from evalkit.engine.workers import add_spent, judge_in_workers


class Workers(RunnerKind):
    """Workers judge first; what they leave, the run judges itself."""

    takes_rows = False

    def judge_ahead(
        self,
        config: RunConfig,
        folder: Path,
        work: Work,
        observe: Observe | None,
        stored: Callable[[], int],
    ) -> Callable[[JudgingResult], JudgingResult]:
        """Have workers judge; return a function that adds what they sent and paid."""
        reports, seconds = judge_in_workers(config, folder, work, observe, stored)
        return partial(add_spent, reports=reports, seconds=seconds)


KIND: Final = Workers()
