"""Why answers cannot be used: causes with their counts and one example each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from evalkit.core.deduplication import by_case
from evalkit.core.patterns import lazy_pattern
from evalkit.core.types import Judgment
from evalkit.core.values import frozen

USABLE: Final = ("ok", "repaired")
NEVER_ASKED: Final = ("budget", "not_stored", "stopped")
"""The kinds of failures of requests that were not sent."""
STOP_SETTING: Final = "runner.stop_if_useless"
STOPPED_EARLY: Final = "stopped early"
"""How the reason begins why a run stopped whose judge gave no usable answer."""
CauseKey: TypeAlias = tuple[str, str, str]
"""Status, kind and reason without what differs from answer to answer."""
_LONGEST: Final = 300
_QUOTED: Final = lazy_pattern(r"'[^']*'|\"[^\"]*\"|“[^”]*”")
_NUMBER: Final = lazy_pattern(r"\d+(?:[.,]\d+)*")


@frozen
class Cause:
    """Why some answers cannot be used.

    Attributes:
        status: `unparseable`, `refused` or `failed`.
        kind: The kind of the error; empty if there is none.
        reason: The reason of the first of them.
        count: How many there are.
        stored: How many of them were stored before the run.
        case: The case of the first one.
        judge: Its judge.
        example: The text of its answer, shortened; empty if there is none.
    """

    status: str
    kind: str
    reason: str
    count: int
    stored: int
    case: str
    judge: str
    example: str


def cause_key(judgment: Judgment) -> CauseKey | None:
    """Return what answers with the same cause share; `None` if the answer is usable or
    was never requested.
    """
    kind = judgment.error_kind or ""
    if judgment.status in USABLE or kind in NEVER_ASKED:
        return None
    reason = "" if judgment.status == "refused" else judgment.error or ""
    return judgment.status, kind, _NUMBER.sub("#", _QUOTED.sub("'…'", reason))


def causes_of(judgments: Iterable[Judgment]) -> list[Cause]:
    """Return the causes of unusable answers, most frequent first."""
    causes: dict[CauseKey, Cause] = {}
    for _, judgment in by_case(judgments):
        key = cause_key(judgment)
        if key is None:
            continue
        cause = causes.get(key) or _cause_of(judgment)
        causes[key] = replace(
            cause,
            count=cause.count + 1,
            stored=cause.stored + judgment.stored,
        )
    return sorted(causes.values(), key=lambda cause: -cause.count)


def _cause_of(judgment: Judgment) -> Cause:
    """Return the cause of a judgment without a verdict, with no judgments counted yet."""
    answers = [*judgment.earlier, *filter(None, [judgment.completion])]
    text = answers[-1].refusal or answers[-1].text if answers else ""
    return Cause(
        status=judgment.status,
        kind=judgment.error_kind or "",
        reason=(judgment.error or "")[:_LONGEST],
        count=0,
        stored=0,
        case=judgment.case_id,
        judge=judgment.judge,
        example=text[:_LONGEST],
    )
