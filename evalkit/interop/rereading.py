"""Reread judges' stored texts with evalkit's parsers and compare with the stored judgments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalkit.errors import DatasetError
from evalkit.protocols import Evaluator
from evalkit.types import Case, JudgeRequest, Judgment, Unit

_CLOSE = 1e-9
_TAIL = 300


@dataclass(frozen=True, slots=True)
class Difference:
    """One judgment whose reread value differs from the stored one; both in the case's order."""

    stored: Judgment
    read: Judgment

    def line(self) -> str:
        """Return the difference as one line of text."""
        one = self.stored
        shown = "" if one.shown == one.unit else ", swapped"
        place = f"{one.case_id} {list(one.unit)}{shown}" + (f", sample {one.sample}" if one.sample else "")
        return f"{place}: stored {describe_differences(one)}, read {describe_differences(self.read)}"

    def row(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        one, text = self.stored, self.stored.completion.text if self.stored.completion else ""
        return {
            "case_id": one.case_id,
            "unit": list(one.unit),
            "shown": list(one.shown),
            "sample": one.sample,
            "judge": one.judge,
            "stored": describe_differences(one),
            "read": describe_differences(self.read),
            "why": self.read.error,
            "text_end": text[-_TAIL:],
        }


def describe_differences(judgment: Judgment) -> str:
    """Return a judgment's value as a short text."""
    if judgment.class_name is not None:
        return judgment.class_name
    if judgment.value is not None:
        sign = (judgment.value > _CLOSE) - (judgment.value < -_CLOSE)
        return {1: "A", 0: "TIE", -1: "B"}[sign]
    if judgment.criteria:
        return ", ".join(f"{value:g}" for value in judgment.criteria.values())
    return judgment.status


def reread(evaluator: Evaluator, cases: Sequence[Case], judgments: Sequence[Judgment]) -> list[Judgment]:
    """Reread each judgment's text with `evaluator`; judgments without a text are unchanged.

    Args:
        evaluator: An evaluator for the mode of the judgments, with both orders and one sample.
        cases: All cases.
        judgments: The judgments to reread.
    """
    by_case: dict[str, list[int]] = {}
    for index, judgment in enumerate(judgments):
        if judgment.completion is not None:
            by_case.setdefault(judgment.case_id, []).append(index)
    again = list(judgments)
    for case in cases:
        requests: Mapping[tuple[Unit, Unit], JudgeRequest] = {}
        for index in by_case.get(case.id, ()):
            requests = requests or _requests(evaluator, case)
            again[index] = _read(evaluator, requests, judgments[index])
    return again


def _requests(evaluator: Evaluator, case: Case) -> dict[tuple[Unit, Unit], JudgeRequest]:
    return {(request.unit, request.shown): request for request in evaluator.plan(case)}


def _read(evaluator: Evaluator, requests: Mapping[tuple[Unit, Unit], JudgeRequest], stored: Judgment) -> Judgment:
    request, completion = requests.get((stored.unit, stored.shown)), stored.completion
    if request is None or completion is None:
        raise DatasetError(
            f"responses {list(stored.unit)} are not judged in this mode", where=f"case '{stored.case_id}'"
        )
    # There is no retry: an unreadable text is unparseable.
    found = evaluator.read(replace(request, judge=stored.judge, sample=stored.sample, turn=1), completion)
    if not isinstance(found, Judgment):
        return replace(
            stored, status="unparseable", value=None, criteria={}, class_name=None, error="it would be retried"
        )
    return replace(found, status="ok") if found.status == "repaired" and found.read_by != "repaired" else found


def differences(stored: Sequence[Judgment], read: Sequence[Judgment]) -> Iterator[Difference]:
    """Yield the judgments whose reread value differs from the stored one."""
    for one, other in zip(stored, read, strict=True):
        if one.completion is not None and not _same(one, other):
            yield Difference(one, other)


def _same(one: Judgment, other: Judgment) -> bool:
    if one.class_name is not None or other.class_name is not None:
        return one.class_name == other.class_name
    if (one.value is None) != (other.value is None) or bool(one.criteria) != bool(other.criteria):
        return False
    if one.value is not None or not one.criteria:
        return describe_differences(one) == describe_differences(other) if one.value is not None else True
    return all(abs(value - other.criteria.get(name, value + 1)) < _CLOSE for name, value in one.criteria.items())
