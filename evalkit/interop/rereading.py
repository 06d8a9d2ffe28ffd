"""Judges' stored texts, read again by evalkit's own reading, beside what was stored of them."""

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
    """One judgment that is stored as one thing and read as another; both un-swapped."""

    stored: Judgment
    read: Judgment

    def line(self) -> str:
        """Return it in words, in one line."""
        one = self.stored
        shown = "" if one.shown == one.unit else ", swapped"
        place = f"{one.case_id} {list(one.unit)}{shown}" + (f", sample {one.sample}" if one.sample else "")
        return f"{place}: stored {describe_differences(one)}, read {describe_differences(self.read)}"

    def row(self) -> dict[str, Any]:
        """Return it as JSON values."""
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
    """Return what a judgment says, in a word."""
    if judgment.value is not None:
        sign = (judgment.value > _CLOSE) - (judgment.value < -_CLOSE)
        return {1: "A", 0: "TIE", -1: "B"}[sign]
    if judgment.criteria:
        return ", ".join(f"{value:g}" for value in judgment.criteria.values())
    return judgment.status


def reread(evaluator: Evaluator, cases: Sequence[Case], judgments: Sequence[Judgment]) -> list[Judgment]:
    """Return each judgment as `evaluator` reads its text, those without a text as they are.

    Args:
        evaluator: of the mode of the judgments, one that asks for both orders and one sample.
        cases: all cases.
        judgments: the judgments to read again.
    """
    by_case: dict[str, list[int]] = {}
    for place, judgment in enumerate(judgments):
        if judgment.completion is not None:
            by_case.setdefault(judgment.case_id, []).append(place)
    again = list(judgments)
    for case in cases:
        asked: Mapping[tuple[Unit, Unit], JudgeRequest] = {}
        for place in by_case.get(case.id, ()):
            asked = asked or _asked(evaluator, case)
            again[place] = _read(evaluator, asked, judgments[place])
    return again


def _asked(evaluator: Evaluator, case: Case) -> dict[tuple[Unit, Unit], JudgeRequest]:
    return {(request.unit, request.shown): request for request in evaluator.plan(case)}


def _read(evaluator: Evaluator, asked: Mapping[tuple[Unit, Unit], JudgeRequest], stored: Judgment) -> Judgment:
    request, completion = asked.get((stored.unit, stored.shown)), stored.completion
    if request is None or completion is None:
        raise DatasetError(f"responses {list(stored.unit)} are not asked for", where=f"case '{stored.case_id}'")
    # A second turn is never asked for: what cannot be read then is unparseable.
    found = evaluator.read(replace(request, judge=stored.judge, sample=stored.sample, turn=1), completion)
    if not isinstance(found, Judgment):
        return replace(stored, status="unparseable", value=None, criteria={}, error="it would be asked again")
    return replace(found, status="ok") if found.status == "repaired" and found.read_by != "repaired" else found


def differences(stored: Sequence[Judgment], read: Sequence[Judgment]) -> Iterator[Difference]:
    """Yield the judgments that were read as something else than they are stored as; the texts decide nothing else."""
    for one, other in zip(stored, read, strict=True):
        if one.completion is not None and not _same(one, other):
            yield Difference(one, other)


def _same(one: Judgment, other: Judgment) -> bool:
    if (one.value is None) != (other.value is None) or bool(one.criteria) != bool(other.criteria):
        return False
    if one.value is not None or not one.criteria:
        return describe_differences(one) == describe_differences(other) if one.value is not None else True
    return all(abs(value - other.criteria.get(name, value + 1)) < _CLOSE for name, value in one.criteria.items())
