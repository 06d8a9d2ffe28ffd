"""Judgings that need not be done once more: a job of a sweep that asks just what one before it found stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evalkit.config import RunConfig
from evalkit.core.hashing import digest
from evalkit.core.sweep_cache import SweepCache
from evalkit.engine.judging import Observe
from evalkit.engine.progress import JudgingResult, Progress
from evalkit.evaluators import OURS
from evalkit.protocols import Evaluator
from evalkit.types import Judgment

_JUDGMENT = 1_200  # bytes, without the texts


def judging_key(config: RunConfig, evaluator: Evaluator, fingerprint: str) -> str | None:
    """Return a hash of all that a judging depends on, or none where somebody else's code has a part in it.

    Args:
        config: the run's config.
        evaluator: made of it.
        fingerprint: that of the cases.
    """
    if config.mode.name not in OURS:
        return None
    return digest([config.judging(), dict(getattr(evaluator, "prompt_hashes", {})), fingerprint])


def reuse_judging(
    recall: SweepCache | None,
    key: Callable[[], str | None],
    judge: Callable[[Observe | None], JudgingResult],
    observe: Observe | None,
) -> JudgingResult:
    """Return what `judge` gives; or gave for an equal `key`, if it found every answer in the store then.

    Args:
        recall: where what was found is kept, if anywhere.
        key: returns all that the judging depends on, or none; nothing is kept if judging itself changed that, as it
            does where a template came into use.
        judge: judges, and tells how far it is to what it is given.
        observe: is told of an earlier judging as it stood at its end.
    """
    before = None if recall is None else key()
    if recall is None or before is None:
        return judge(observe)
    known: tuple[JudgingResult, Progress | None] | None = recall.get(("judged", before))
    if known is not None:
        earlier, last = known
        if observe is not None and last is not None:
            observe(last)
        return earlier
    seen: list[Progress] = []

    def see(progress: Progress) -> None:
        seen[:] = [progress]
        if observe is not None:
            observe(progress)

    judged = judge(see)
    if recall.takes(_JUDGMENT * len(judged.judgments)) and _all_stored(judged) and key() == before:
        last = replace(seen[0], elapsed=0.0) if seen else None
        recall.keep(("judged", before), (judged, last), sum(map(_size, judged.judgments)))
    return judged


def _size(judgment: Judgment) -> int:
    return _JUDGMENT + (len(judgment.completion.text) if judgment.completion else 0)


def _all_stored(judged: JudgingResult) -> bool:
    calls = judged.calls
    return not (judged.interrupted or judged.stopped or judged.dropped or calls.sent or calls.failed or calls.retried)
