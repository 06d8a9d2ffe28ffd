"""Select the cases and texts that fit on a page of limited size."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeAlias, TypeVar

from evalkit.report.case_list import Asked, case_row, flags, judgment_row
from evalkit.types import Case, Judgment, Message, Verdict

BUDGET = 2_400_000
"""Bytes of JSON for the cases of a page, so that the whole page stays under 3 MB."""
SHORT, LONG = 200, 20_000
"""The most characters of a text in shortened cases, and in other cases."""
CLASSES = ("cycle", "missing", "mismatch", "disagreement", "flip", "tie")
"""The filters in the order in which their cases take turns for full texts; a case belongs to the first that matches."""

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

Rank: TypeAlias = tuple[float, int, int]
T = TypeVar("T")
Grouped = TypeVar("Grouped", Judgment, Verdict)


@dataclass(frozen=True, slots=True)
class CaseData:
    """Cases as JSON that is safe inside a script element.

    `flags` counts the cases of each filter, `whole` the cases with full texts, `short` those with shortened texts, and
    `left_out` those that are not listed. `unlike` counts judgments whose rendered prompt is not the one that was sent.
    """

    json: str
    flags: Mapping[str, int]
    total: int
    whole: int
    short: int
    left_out: int
    unlike: int


class _BoundedHeap(Generic[T]):
    """Keeps the items with the best ranks within `size` bytes, and no item larger than a quarter of that."""

    def __init__(self, size: int) -> None:
        self._limit, self._left = size // 4, size
        self._heap: list[tuple[tuple[float, int, int], int, T]] = []

    def takes(self, rank: Rank, size: int) -> bool:
        """Return whether an item would be kept: it fits, or an item with a worse rank would be removed."""
        worst_first = (-rank[0], -rank[1], -rank[2])
        return size <= self._limit and (size <= self._left or (bool(self._heap) and worst_first > self._heap[0][0]))

    def offer(self, rank: Rank, size: int, item: T) -> None:
        """Add an item if it is taken, and remove items with the worst ranks until all fit."""
        if not self.takes(rank, size):
            return
        worst_first = (-rank[0], -rank[1], -rank[2])
        heapq.heappush(self._heap, (worst_first, size, item))
        self._left -= size
        while self._left < 0:
            self._left += heapq.heappop(self._heap)[1]

    def kept(self) -> list[T]:
        """Return the kept items, best rank first."""
        return [item for _, _, item in sorted(self._heap, key=lambda one: one[0], reverse=True)]


@dataclass(frozen=True, slots=True)
class _Candidate:
    place: int
    case: Case
    verdicts: Sequence[Verdict]
    judgments: Sequence[Judgment]
    flags: Sequence[str]


def select_cases(
    cases: Iterable[Case], verdicts: Iterable[Verdict], judgments: Iterable[Judgment]
) -> Iterator[tuple[Case, list[Verdict], list[Judgment]]]:
    """Yield each case with its verdicts and judgments, reading each of the three once."""
    of_verdicts, of_judgments = _Groups(verdicts), _Groups(judgments)
    for case in cases:
        yield case, of_verdicts.take(case.id), of_judgments.take(case.id)


class _Groups(Generic[Grouped]):
    """Groups items by case; the items are mostly in case order."""

    def __init__(self, items: Iterable[Grouped]) -> None:
        self._groups: Iterator[tuple[str, Iterator[Grouped]]] = groupby(items, key=lambda item: item.case_id)
        self._ahead: dict[str, list[Grouped]] = {}

    def take(self, case_id: str) -> list[Grouped]:
        if case_id in self._ahead:
            return self._ahead.pop(case_id)
        for name, group in self._groups:
            if name == case_id:
                return list(group)
            self._ahead.setdefault(name, []).extend(group)
        return []


class PageBudget:
    """Receives the cases of a run one by one, and keeps only those that fit on the page.

    Each case is listed with the first `SHORT` characters of prompt and responses. As far as they fit, cases that match
    a filter have full texts with prompts and answers, in turns of `CLASSES`, and then the other cases in order.
    """

    def __init__(self, asked: Asked | None = None, *, budget: int = BUDGET) -> None:
        self._asked, self._budget = asked, budget
        self._counts: Counter[str] = Counter(all=0)
        self._turns: Counter[int] = Counter()
        self._short: _BoundedHeap[tuple[int, str]] = _BoundedHeap(budget)
        self._whole: _BoundedHeap[_Candidate] = _BoundedHeap(budget)

    def add(self, case: Case, verdicts: Sequence[Verdict], judgments: Sequence[Judgment]) -> None:
        """Add a case."""
        found, place = flags(verdicts, judgments), self._counts["all"]
        self._counts.update(["all", *found])
        rank, texts = (not found, 0, place), (case.prompt, *(one.text for one in case.responses))
        if self._short.takes(rank, sum(min(len(text), SHORT) for text in texts)):  # otherwise it need not be encoded
            short = _encode(_cut(case_row(case, verdicts), SHORT) | {"flags": found, "short": True})
            self._short.offer(rank, _size(short) + 1, (place, short))
        candidate = _Candidate(place, case, verdicts, judgments, found)
        self._whole.offer(self._rank(found, place), _estimate(case, judgments), candidate)

    def _rank(self, found: Sequence[str], place: int) -> Rank:
        kind = next((k for k, name in enumerate(CLASSES) if name in found), None)
        if kind is None:
            return float("inf"), 0, place
        self._turns[kind] += 1
        return self._turns[kind], kind, place

    def data(self) -> CaseData:
        """Return the cases on the page."""
        rows, shared = dict(self._short.kept()), _Shared()
        listed, total, unlike = len(rows), self._counts["all"], 0
        room = self._budget - sum(_size(text) + 1 for text in rows.values())
        whole = 0
        for candidate in self._whole.kept():
            if candidate.place not in rows:
                continue
            known = len(shared.parts)
            row, missed = self._row(candidate, shared)
            more = _size(text := _encode(row)) - _size(rows[candidate.place])
            if more + shared.size > room:
                shared.forget(known)
                continue
            rows[candidate.place] = text
            room, whole, unlike = room - more, whole + 1, unlike + missed
        cases = ",".join(rows[place] for place in sorted(rows))
        text = f'{{"parts":{_encode(shared.parts)},"cases":[{cases}]}}'
        return CaseData(text, dict(self._counts), total, whole, listed - whole, total - listed, unlike)

    def _row(self, candidate: _Candidate, shared: _Shared) -> tuple[dict[str, Any], int]:
        case, judgments = candidate.case, candidate.judgments
        asked = self._asked(case, judgments) if self._asked else {}
        unlike, shown = 0, []
        for judgment in judgments:
            messages = asked.get(judgment.keys[0]) if judgment.keys else None
            unlike += bool(judgment.keys) and messages is None
            row = _cut(judgment_row(judgment), LONG)
            if messages is not None:
                row |= {"asked": shared.messages(case, messages), "key": judgment.keys[0], "asks": len(judgment.keys)}
            shown.append(row)
        row = _cut(case_row(case, candidate.verdicts), LONG)
        return row | {"judgments": shown, "flags": list(candidate.flags)}, unlike if self._asked else 0


class _Shared:
    """Prompts split into pieces: texts of the case refer to its row, and repeated template texts are stored once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._places: dict[str, int] = {}
        self._seen: set[int] = set()
        self.size = 0

    def messages(self, case: Case, messages: Sequence[Message]) -> list[list[Any]]:
        """Return each message as its role and its pieces."""
        texts: list[tuple[list[Any], str]] = [(["responses", i], one.text) for i, one in enumerate(case.responses)]
        texts += [([name], getattr(case, name) or "") for name in ("context", "reference", "prompt")]
        # The longest first, so that a text within another text does not split it.
        texts = sorted((one for one in texts if len(one[1]) > 20), key=lambda one: -len(one[1]))
        return [[message["role"], *self._pieces(message["content"], texts)] for message in messages]

    def _pieces(self, content: str, texts: Sequence[tuple[list[Any], str]]) -> list[Any]:
        if not content:
            return []
        for rank, (reference, text) in enumerate(texts):
            before, found, after = content.partition(text)
            if found:
                return [*self._pieces(before, texts[rank:]), reference, *self._pieces(after, texts[rank:])]
        return [self._literal(content)]

    def _literal(self, text: str) -> str | int:
        """Return a text the first time, and from the second time on its index in `parts`."""
        if text in self._places:
            return self._places[text]
        if not 20 <= len(text) <= LONG or hash(text) not in self._seen:
            self._seen.add(hash(text))
            return _cut_text(text, LONG)
        self._places[text] = len(self.parts)
        self.parts.append(text)
        self.size += _size(_encode(text)) + 1
        return self._places[text]

    def forget(self, known: int) -> None:
        """Remove all texts but the first `known`, because their case is not on the page."""
        for text in self.parts[known:]:
            del self._places[text]
            self.size -= _size(_encode(text)) + 1
        del self.parts[known:]


def _estimate(case: Case, judgments: Sequence[Judgment]) -> int:
    texts = [case.prompt, case.context or "", case.reference or "", *(one.text for one in case.responses)]
    completions = [one.completion for one in judgments if one.completion is not None]
    texts += [text or "" for one in completions for text in (one.text, one.reasoning)]
    return 300 * (1 + len(judgments)) + sum(min(len(text), LONG) * (1 if text.isascii() else 2) for text in texts)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _encode(value: Any) -> str:
    text = _JSON(value)
    # No text can end the script element, or open a comment in it, without one of these.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… (+{len(text) - length:,})"


def _cut(value: Any, length: int) -> Any:
    if isinstance(value, str):
        return _cut_text(value, length)
    if isinstance(value, dict):
        return {key: _cut(inner, length) for key, inner in value.items()}
    return [_cut(inner, length) for inner in value] if isinstance(value, list) else value
