"""What a plug-in must look like. Evaluators describe and interpret; they never await and do no IO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from evalkit.types import (
    Case,
    Completion,
    JudgeRequest,
    JudgeSpec,
    Judgment,
    RunResult,
    Winner,
)


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
    """One judge that can be called. Heavy imports wait for the first `complete`."""

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
class Store(Protocol):
    """Completions by content key."""

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the stored completions among `keys`."""
        ...

    def put(self, key: str, model: str, completion: Completion) -> None:
        """Keep a completion; it is durable when this returns."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


@runtime_checkable
class DatasetLoader(Protocol):
    """Reads a file's rows as mappings from column to value, each with the place it stands in for error messages."""

    def __call__(self, path: Path) -> Iterable[tuple[str, dict[str, object]]]:
        """Yield (place, row); `place` reads like `data.jsonl:3`."""
        ...


@runtime_checkable
class WinnerReader(Protocol):
    """A way to read pairwise verdicts in running text; constructed as `cls(config)` with the `output` group.

    Where its method has parameters `cut_off` or `sources`, it is told by these names whether the text ends early, and
    the texts under judgment, from which a verdict may be quoted.
    """

    def winner(self, text: str) -> Winner:
        """Return who won as shown: A is the response shown first.

        Raises:
            ValueError: if the text, from which thinking is left out already, does not say.
        """
        ...


@runtime_checkable
class ScoreReader(Protocol):
    """A way to read scores in running text; constructed as `cls(config)` with the `output` group.

    It is told of `cut_off` and `sources` as `ReadsWinner` is.
    """

    def score(self, text: str) -> object:
        """Return the score as written, a number or its text; whether it is on the scale is checked by who asks.

        Raises:
            ValueError: if the text, from which thinking is left out already, does not say.
        """
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
