"""How the answers of a run come: `runner.kind`.

A kind other than `online` is a feature of its own, which is imported only for a run that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.optional_features import load_feature
from evalkit.core.protocols import Evaluator, Judge, Store
from evalkit.core.types import Case
from evalkit.engine.progress import JudgingResult, Observe
from evalkit.engine.shards import Shard
from evalkit.runs.results import Spent

Work: TypeAlias = Callable[[RunConfig, Shard, Observe], JudgingResult]
"""Judges a shard in another process: a function of a module, so that it can be pickled."""


class Collector(Protocol):
    """Has the answers of a run collected into the store before the engine reads them there."""

    @property
    def spent(self) -> Spent:
        """What judges that are called all the same must leave of the budget."""

    async def collect(self) -> JudgingResult | None:
        """Collect the answers; return the result of a run that a signal stopped."""

    def judge(self, judge: Judge) -> Judge:
        """Return what the engine calls instead of a judge."""

    def counted(self, judged: JudgingResult) -> JudgingResult:
        """Return a result with the calls that were made to collect."""


class RunnerKind:
    """The kind `online`: the judges are called here. Other kinds override what they do
    in another way.
    """

    takes_rows = True
    """Whether the cases may be in memory only."""

    def reason_against(self, judge: Judge) -> str | None:
        """Return why this kind cannot have a judge called; `None` if it can."""
        return None

    def judge_ahead(
        self,
        config: RunConfig,
        folder: Path,
        work: Work,
        observe: Observe | None,
        stored: Callable[[], int],
    ) -> Callable[[JudgingResult], JudgingResult]:
        """Have other processes judge into the store first; return a function that adds
        what they spent.

        Args:
            config: The config of the run.
            folder: The run folder.
            work: Judges a shard in another process.
            observe: Called with the progress.
            stored: Counts the answers in the store.
        """
        return _unchanged

    def collector(
        self,
        config: RunConfig,
        cases: Sequence[Case],
        evaluator: Evaluator,
        store: Store | None,
        observe: Observe | None,
        spent: Spent | None,
    ) -> Collector | None:
        """Return what collects the answers before the engine reads them; `None` if the
        engine asks for them.
        """
        return None


def _unchanged(judged: JudgingResult) -> JudgingResult:
    return judged


_ONLINE: Final = RunnerKind()
_ROOMS: Final = MappingProxyType(
    {
        "batch": "evalkit.engine.batch.runner_kind",
        "ray": "evalkit.engine.workers.runner_kind",
        "slurm": "evalkit.engine.workers.runner_kind",
    }
)


def runner_kind(config: RunConfig) -> RunnerKind:
    """Return the kind that `runner.kind` names.

    Raises:
        ConfigError: If this installation does not have it.
    """
    name = config.runner.kind
    if name not in _ROOMS:
        return _ONLINE
    module: Any = load_feature(_ROOMS[name], f"runner.kind={name}")
    kind: RunnerKind = module.KIND
    return kind
