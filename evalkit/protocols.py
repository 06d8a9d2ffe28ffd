"""What a plug-in must look like. Evaluators describe and interpret; they never await and do no IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from evalkit.types import (
    Case,
    Completion,
    JudgeRequest,
    JudgeSpec,
    Judgment,
    RunResult,
    StoredCompletion,
    StoreDescription,
    Winner,
)

__all__ = [
    "Benchmark",
    "CompletionCache",
    "Evaluator",
    "FollowUpEvaluator",
    "InstructionWriter",
    "Judge",
    "ScoreReader",
    "Store",
    "StoreBackend",
    "Tracker",
    "WinnerReader",
]


@runtime_checkable
class Evaluator(Protocol):
    """One way of judging.

    Constructed as `cls(config, prompts)`; or as `cls(config, prompts, params)` if it has settings of its own, which
    `cls.Params`, a pydantic model, makes of `mode.params`. Its templates' hashes, if it has any, are `prompt_hashes`,
    and their texts by the same names `prompt_texts`.
    """

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the first asks for a case, the same ones each time, each with a different (shown, sample)."""
        ...

    def read(self, request: JudgeRequest, completion: Completion) -> Judgment | JudgeRequest:
        """Return the judgment in a completion, or one further ask.

        That is the same question once more (with `turn` one higher) when the completion cannot be read, or the ask that
        this one prepared for (`request.then`). Anything else counts as unreadable, so that no judgment asks for ever.
        """
        ...


@runtime_checkable
class FollowUpEvaluator(Protocol):
    """What an evaluator may have besides: asks that depend on all judgments of a unit."""

    def follow(self, case: Case, judgments: Sequence[Judgment]) -> Sequence[JudgeRequest]:
        """Return what to ask once `judgments` are there: all those planned of one unit to one judge; mostly nothing."""
        ...


@runtime_checkable
class Judge(Protocol):
    """One judge that can be called. Heavy imports wait for the first `complete`.

    One that a package offers as `judge.transport=NAME` (entry-point group `evalkit.judges`) is constructed as
    `cls(judge_config, runner_config)`; evalkit gives it its `spec`, applies the runner's timeout, retries and limits,
    and prices its answers by `judge.price`. If it has `prepare`, that is awaited once before the first call.
    """

    spec: JudgeSpec

    async def complete(self, request: JudgeRequest) -> Completion:
        """Send one request once.

        Raises:
            CallError: if no answer came; the engine decides whether to try again.
            JudgeSetupError: if no call to this judge can succeed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@runtime_checkable
class CompletionCache(Protocol):
    """What judging needs of a store: completions by content key, and claims on keys.

    Any thread may call any method; what a method does is visible to every other one, in this process and in others,
    when it returns. Every method raises StoreError, in one line without secrets, where the store fails.
    """

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`, each exactly as it was put; it does not wait for a `put_many`.

        Raises:
            StoreError: if one of them is damaged: a completion is never returned otherwise than it was put.
        """
        ...

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Keep completions, each given as (key, model, completion), in one commit; a newer one replaces an older.

        When this returns, all are durable: neither a killed process nor a power cut loses one.

        Raises:
            StoreError: if one cannot be kept, or the store is read only; then none of them is.
        """
        ...

    def claim(self, key: str) -> bool:
        """Claim a key, without waiting, and say whether it is claimed now; a read-only store grants every claim.

        Of all threads and processes that use the store, one at most holds a key's claim, and only it requests the
        answer. Claims end with `release`, with `close`, and with the process, however it ends.
        """
        ...

    def release(self, key: str) -> None:
        """Give up a claim that was made here; other keys and other holders' claims are left alone."""
        ...

    def recent(self, model: str, limit: int = 500) -> Sequence[Completion]:
        """Return a model's last completions, the newest first, at most `limit`, without the damaged ones.

        They are a sample for estimates: where looking through the whole store takes long, a store may miss some.
        """
        ...


@runtime_checkable
class Store(CompletionCache, Protocol):
    """Completions by content key, for any number of threads and processes at once."""

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        """Keep completions with the times they have, in one commit, and return how many were new; a stored one stays.

        Raises:
            StoreError: if one cannot be kept; then none of them is.
        """
        ...

    def scan(self) -> Iterator[StoredCompletion | None]:
        """Yield every completion in the order in which keys were first put, and `None` for each damaged one.

        Memory stays flat. What is put or pruned meanwhile may or may not be among them.
        """
        ...

    def prune(self, before: float) -> int:
        """Delete what was stored before a time (seconds since 1970), return how many, and free their room if possible.

        Raises:
            StoreError: if they cannot be deleted; then none of them is.
        """
        ...

    def describe(self) -> StoreDescription:
        """Return where the store is, its version and its size."""
        ...

    def close(self) -> None:
        """Release every claim made here and let go of files and connections; closing twice does nothing."""
        ...


@runtime_checkable
class StoreBackend(Protocol):
    """A kind of store: a class, registered under the scheme of its URLs in the entry-point group `evalkit.stores`."""

    def __call__(self, url: str, *, read_only: bool = False, verify: bool = True) -> Store:
        """Open the store at `store.url`; it is made if it is missing.

        Args:
            url: as the user wrote it, scheme included.
            read_only: never write; a missing store is an error.
            verify: refuse a damaged store; false to save what can be read of it.

        Raises:
            StoreError: if it cannot be used, is something else's, or of a newer version; it is left as it is.
        """
        ...

    def exists(self, url: str) -> bool:
        """Say whether there is a store at `url`, without making one."""
        ...

    def check_creatable(self, url: str) -> None:
        """Check that a missing store could be made at `url`, without making one.

        Raises:
            StoreError: if it could not.
        """
        ...


@runtime_checkable
class WinnerReader(Protocol):
    """An output format that reads pairwise verdicts; constructed as `cls(config)` with the `output` group.

    If its method has parameters `cut_off` or `sources`, it gets by these names whether the text ends early, and the
    texts under judgment, from which a verdict may be quoted.
    """

    def winner(self, text: str) -> Winner:
        """Return who won as shown: A is the response shown first.

        Raises:
            ValueError: if the text, which no longer has the judge's thinking, does not say.
        """
        ...


@runtime_checkable
class ScoreReader(Protocol):
    """An output format that reads scores; constructed and called as a `WinnerReader` is."""

    def score(self, text: str) -> object:
        """Return the score as written, a number or its text; evalkit checks that it is on the scale.

        Raises:
            ValueError: if the text, which no longer has the judge's thinking, does not say.
        """
        ...


@runtime_checkable
class InstructionWriter(Protocol):
    """What an output format also has, unless it reads `Response A` or `Score: 4`, or `output.instruction` is set.

    Its attribute `schema`, if it has one, is a JSON schema that is sent along with each request.
    """

    def instruction(self, decision: Literal["winner", "score"], language: str) -> str:
        """Return the text that tells the judge how to answer; templates show it as `{{ output_instruction }}`.

        If the method has parameters `tie_allowed` or `scale`, it gets by these names whether a tie is an answer, and
        the scale of the score.
        """
        ...


@runtime_checkable
class Benchmark(Protocol):
    """A published benchmark, as datasets, scoring and imports see it; `evalkit.benchmarks.Benchmark` is one.

    Its metrics' names begin with its name.
    """

    @property
    def name(self) -> str:
        """The value of `dataset.benchmark`."""
        ...

    @property
    def title(self) -> str:
        """What it is called."""
        ...

    @property
    def kind(self) -> str:
        """What its rows are, as in "looks like {kind}"."""
        ...

    @property
    def expects(self) -> str:
        """What `dataset.path` must name."""
        ...

    @property
    def cluster(self) -> str | None:
        """The metadata key that cases are resampled by; `None` for single cases."""
        ...

    @property
    def metrics(self) -> Sequence[Any]:
        """The rows of its metrics in the catalog: `evalkit.scoring.catalog.MetricSpec`."""
        ...

    @property
    def importer(self) -> Any:
        """What reads judgments as they were published, an `evalkit.benchmarks.Importer`; `None` if there is none."""
        ...

    def looks_like(self, row: dict[str, Any]) -> bool:
        """Say whether a row is one of this benchmark's, by its columns."""
        ...

    def is_folder(self, folder: Path) -> bool:
        """Say whether a folder is this benchmark's by the files in it, where single rows cannot tell."""
        ...

    def rows(self, path: Path, baseline: str | None, left_out: Counter[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (place, canonical row) of a file or folder.

        Args:
            path: what `dataset.path` names.
            baseline: the model to compare with, if it is set.
            left_out: counts what is left out, by what it is, before the first row is yielded.

        Raises:
            DatasetError: if it is not one of the benchmark's.
        """
        ...

    def statistics(self, config: Any, cases: Sequence[Case], verdicts: Any) -> list[Any]:
        """Return its metrics of a run, by the rule of its authors: statistics, or metrics without a value."""
        ...

    @property
    def note(self) -> str:
        """The line that tells a user whose data this is, with license and citation."""
        ...

    def described(self) -> dict[str, str]:
        """Return what the manifest says of it."""
        ...


@runtime_checkable
class Tracker(Protocol):
    """Somewhere finished runs are recorded; called once for each run, last.

    Constructed as `cls(config)` with the `tracking` group of the config.
    """

    def record(self, result: RunResult) -> str:
        """Record a run and return its id there.

        Raises:
            TrackingError: if it could not be recorded; the run folder is complete all the same.
        """
        ...
