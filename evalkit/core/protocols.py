"""The protocols of plug-ins. Evaluators plan and interpret; they never await and do no IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from evalkit.core.types import (
    Case,
    Completion,
    JudgeRequest,
    JudgeSpec,
    Judgment,
    StoredCompletion,
    StoreDescription,
    Winner,
)

__all__ = [
    "BatchClaimer",
    "Benchmark",
    "ClaimChecker",
    "ClassReader",
    "CompletionCache",
    "DamagePruner",
    "Evaluator",
    "EvaluatorOfSeveral",
    "FollowUpEvaluator",
    "InstructionWriter",
    "Judge",
    "ScoreReader",
    "SharedState",
    "Store",
    "StoreBackend",
    "WinnerReader",
]


@runtime_checkable
class Evaluator(Protocol):
    """A method of judging.

    It is constructed as `cls(config, prompts)`, or as `cls(config, prompts, params)` if it has its
    own settings: `cls.Params`, a pydantic model, validates `mode.params`. If it has templates,
    `prompt_hashes` has their hashes by name, and `prompt_texts` their texts.
    """

    def plan(self, case: Case) -> Sequence[JudgeRequest]:
        """Return the first requests for a case, always the same ones, each with a
        different (shown, sample).
        """
        ...

    def read(
        self, request: JudgeRequest, completion: Completion
    ) -> Judgment | JudgeRequest:
        """Return the judgment in a completion, or one more request.

        The request is either the same one again, with `turn` incremented, if the completion cannot
        be read, or the request that needed this answer (`request.then`). Any other request counts
        as unreadable, so that every judgment ends.
        """
        ...


@runtime_checkable
class FollowUpEvaluator(Protocol):
    """An optional part of an evaluator: requests that depend on all judgments of a unit."""

    def follow(
        self, case: Case, judgments: Sequence[Judgment]
    ) -> Sequence[JudgeRequest]:
        """Return the follow-up requests, usually none, after all planned `judgments` of
        one unit by one judge.
        """
        ...


@runtime_checkable
class EvaluatorOfSeveral(Protocol):
    """An optional part of an evaluator: judges of different kinds, each with requests
    of its own.
    """

    def for_judge(self, judge: str) -> Evaluator:
        """Return what plans the requests to a judge, by its name."""
        ...


@runtime_checkable
class Judge(Protocol):
    """A judge that can be called. Heavy packages are imported by the first `complete`.

    A judge that a package registers for `judge.transport=NAME` (entry-point group `evalkit.judges`)
    is constructed as `cls(judge_config, runner_config)`. evalkit sets its `spec`, applies the
    runner's timeout, retries and limits, and computes its cost by `judge.price`. An optional
    `prepare` is awaited once before the first call.
    """

    spec: JudgeSpec

    async def complete(self, request: JudgeRequest) -> Completion:
        """Send one request once.

        Raises:
            CallError: If the call fails; the engine decides whether to retry.
            JudgeSetupError: If no call to this judge can succeed.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class CompletionCache(Protocol):
    """The part of a store that judging needs: completions by content key, and claims on keys.

    Any thread may call any method. The effect of a method is visible to all other calls, in this
    process and in others, when it returns. Every method raises StoreError, with one line without
    secrets, if the store fails.
    """

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`, exactly as they were stored; do
        not wait for a `put_many`.

        Raises:
            StoreError: If one of them is damaged: a completion is never returned in a changed form.
        """
        ...

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Store completions, each as (key, model, completion), in one commit; a newer
        one replaces an older one.

        When this returns, all are durable: neither a killed process nor a power failure loses one.

        Raises:
            StoreError: If one cannot be stored, or the store is read-only; then none is stored.
        """
        ...

    def claim(self, key: str) -> bool:
        """Claim a key without waiting, and return whether it is claimed now; a
        read-only store grants every claim.

        At most one of all threads and processes on the store holds a key's claim, and only that one
        requests the answer. A claim ends with `release`, with `close`, and with the process,
        however it ends.
        """
        ...

    def release(self, key: str) -> None:
        """Release a claim of this store object; other keys and the claims of others are
        not affected.
        """
        ...

    def recent(self, model: str, limit: int = 500) -> Sequence[Completion]:
        """Return a model's last completions, newest first, at most `limit`, without damaged ones.

        They are a sample for estimates: a store may miss some if a complete search would be slow.
        """
        ...


@runtime_checkable
class ClaimChecker(Protocol):
    """What a store also has if a claim can end before its holder releases it, as with a
    connection that is lost.
    """

    def holds(self, key: str) -> bool:
        """Return, without waiting for the server, whether a claim made here still holds.

        The engine asks right before it sends a request. If the claim is lost, it claims the key
        again and reads the store again.
        """
        ...


@runtime_checkable
class BatchClaimer(Protocol):
    """What a store also has if a claim takes a round trip to a server: many at once,
    off the event loop.
    """

    def claim_many(self, keys: Sequence[str]) -> set[str]:
        """Claim keys as `claim` does, and return those that are claimed now."""
        ...

    def release_many(self, keys: Sequence[str]) -> None:
        """Release claims as `release` does."""
        ...


@runtime_checkable
class SharedState(Protocol):
    """What a store also has if its users can share texts by name: rate limits, budgets
    and submitted batches.
    """

    def states(self, prefix: str) -> Mapping[str, str]:
        """Return the texts whose names start with `prefix`, in the order of their names."""
        ...

    def change_state(
        self, name: str, change: Callable[[str | None, float], str | None]
    ) -> None:
        """Replace a text by what `change` returns, while nobody else changes it;
        durable when this returns.

        `change` gets the text (`None` if there is none) and the store's time in seconds, and
        returns the new text, or `None` to remove it. It may be called again if the connection is
        lost.
        """
        ...


@runtime_checkable
class Store(CompletionCache, Protocol):
    """Completions by content key, for any number of concurrent threads and processes."""

    def add_many(self, rows: Sequence[StoredCompletion]) -> int:
        """Store completions with new keys, with their times, in one commit, and return
        their number.

        Raises:
            StoreError: If one cannot be stored; then none is stored.
        """
        ...

    def scan(self) -> Iterator[StoredCompletion | None]:
        """Yield every completion in the order of first storage, and `None` for each damaged one.

        Memory use is constant. Completions that are stored or pruned in the meantime may or may not
        be included.
        """
        ...

    def prune(self, before: float) -> int:
        """Delete completions stored before a time (seconds since 1970), free their
        space, and return their number.

        Raises:
            StoreError: If they cannot be deleted; then none is deleted.
        """
        ...

    def describe(self) -> StoreDescription:
        """Return the store's location, version and size."""
        ...

    def close(self) -> None:
        """Release every claim of this object, and close files and connections; closing
        twice is allowed.
        """
        ...


@runtime_checkable
class DamagePruner(Protocol):
    """What a store also has if it can delete what is damaged in it."""

    def prune_damaged(self) -> int:
        """Delete the completions that `scan` yields as `None` and the damaged shared
        texts; return their number.
        """
        ...


@runtime_checkable
class StoreBackend(Protocol):
    """A kind of store: a class, registered for the scheme of its URLs in the
    entry-point group `evalkit.stores`.
    """

    def __call__(
        self, url: str, *, read_only: bool = False, verify: bool = True
    ) -> Store:
        """Open the store at `store.url`; a missing store is created.

        Args:
            url: The URL as the user wrote it, including the scheme.
            read_only: Whether to never write; then a missing store is an error.
            verify: Whether to refuse a damaged store; `False` to save what is readable.

        Raises:
            StoreError: If it cannot be opened, is not a store, or is of a newer version; it is not
                changed.
        """
        ...

    def exists(self, url: str) -> bool:
        """Return whether there is a store at `url`, without creating one."""
        ...

    def check_creatable(self, url: str) -> None:
        """Check that a missing store can be created at `url`, without creating it.

        Raises:
            StoreError: If it cannot be created.
        """
        ...


@runtime_checkable
class WinnerReader(Protocol):
    """An output format that reads pairwise verdicts; constructed as `cls(config)` with
    the `output` group.

    Its method may have a parameter `cut_off`, whether the text ends early, and a parameter
    `sources`, the texts under judgment, from which a verdict may be quoted.
    """

    def winner(self, text: str) -> Winner:
        """Return the winner as shown: A is the response shown first.

        Raises:
            ValueError: If the text, without the judge's thinking, has no verdict.
        """
        ...


@runtime_checkable
class ScoreReader(Protocol):
    """An output format that reads scores; constructed and called like a `WinnerReader`."""

    def score(self, text: str) -> object:
        """Return the score as written, a number or its text; evalkit checks that it is
        on the scale.

        Raises:
            ValueError: If the text, without the judge's thinking, has no score.
        """
        ...


@runtime_checkable
class ClassReader(Protocol):
    """An output format that reads classes; constructed and called like a `WinnerReader`."""

    def class_name(self, text: str) -> str:
        """Return the class as written, or the abstention; evalkit checks that the rubric has it.

        Raises:
            ValueError: If the text, without the judge's thinking, has no class.
        """
        ...


@runtime_checkable
class InstructionWriter(Protocol):
    """An optional part of an output format.

    It is required unless the format reads `Response A`, `Score: 4` or `Class: pass`, or
    `output.instruction` is set. An optional attribute `schema` is a JSON schema that is sent with
    each request.
    """

    def instruction(
        self, decision: Literal["winner", "score", "class"], language: str
    ) -> str:
        """Return the text that tells the judge how to answer; templates show it as `{{
        output_instruction }}`.

        The method may have a parameter `tie_allowed`, whether a tie is an answer; a parameter
        `scale`, the scale of the score; and a parameter `classes`, the names that a judge may
        answer, in order.
        """
        ...


@runtime_checkable
class Benchmark(Protocol):
    """A published benchmark for datasets, scoring and imports, such as
    `evalkit.benchmarks.Benchmark`.

    The names of its metrics start with its name. Optional attributes:

    - `short_title`: its name before the titles of its metrics, unless `title` is
    - `main_metric`: the name of its main metric, which is a finding of each run
    - `substitute`: the name of the metric to report if a run cannot have the main one, and a caveat
    - `settings`: the settings of a run that it needs, such as `mode=pointwise`
    - `human_labels`: whether its labels are from annotators
    - `values`: the values of `{placeholders}` in names of metrics that have the same ones in every
      run
    - `extra_values`: values of placeholders in addition to those in the cases
    - `words`: what values of placeholders are called in reports
    - `item_rule`: a function that returns its metrics in mode `checklist`
    """

    @property
    def name(self) -> str:
        """The value of `dataset.benchmark`."""
        ...

    @property
    def title(self) -> str:
        """The benchmark's title."""
        ...

    @property
    def kind(self) -> str:
        """A description of its rows, for "looks like {kind}"."""
        ...

    @property
    def expects(self) -> str:
        """A description of the file or folder in `dataset.path`."""
        ...

    @property
    def cluster(self) -> str | None:
        """The metadata key of the clusters to resample; `None` for single cases."""
        ...

    @property
    def metrics(self) -> Sequence[Any]:
        """The specifications of its metrics in the catalog:
        `evalkit.scoring.catalog.MetricSpec`.
        """
        ...

    @property
    def importer(self) -> Any:
        """The reader of its published judgments, an `evalkit.benchmarks.Importer`;
        `None` if there is none.
        """
        ...

    def looks_like(self, row: dict[str, Any]) -> bool:
        """Return whether a row belongs to this benchmark, by its columns."""
        ...

    def is_folder(self, folder: Path) -> bool:
        """Return whether a folder belongs to this benchmark, by its files, if single
        rows cannot show it.
        """
        ...

    def rows(
        self, path: Path, baseline: str | None, left_out: Counter[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (location, canonical row) for the rows of a file or folder.

        Args:
            path: The path in `dataset.path`.
            baseline: The model to compare with, if it is set.
            left_out: Updated with the number of omitted items by kind, before the first row is
                yielded.

        Raises:
            DatasetError: If the files are not those of the benchmark.
        """
        ...

    def statistics(
        self, config: Any, cases: Sequence[Case], verdicts: Any
    ) -> list[Any]:
        """Return its metrics of a run, computed by the authors' rule: statistics, or
        metrics without a value.
        """
        ...

    @property
    def note(self) -> str:
        """The note for users on the source of the data, with license and citation."""
        ...

    def described(self) -> dict[str, str]:
        """Return the benchmark's entry in the manifest."""
        ...
