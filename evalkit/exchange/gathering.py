"""Records of judgments to cases and judgments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any

from evalkit.exchange.records import TIE, Answer, Found, Record, Said
from evalkit.types import Annotation, Case, Completion, Judgment, Response, Unit, Winner

_WHOLE = 0.9
"""From this share of all pairs judged on, a question is one case with all its responses."""

APART = "not all pairs of a question's responses were judged: each pair is a case of its own"
REPEATED = "judged more than once in one order: taken as samples"


@dataclass(slots=True)
class _Question:
    """All records of one question, or of one pair of its responses; `answers` as they were first seen."""

    name: str
    records: list[Record] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        self.records.append(record)
        for answer in record.shown:
            before = self.answers.get(answer.key)
            if before is None or (not before.text and answer.text):
                self.answers[answer.key] = answer

    def pairs(self) -> set[frozenset[str]]:
        return {frozenset(one.key for one in record.shown) for record in self.records}


def gather(found: Found, source: str) -> tuple[list[Case], list[Judgment], list[str]]:
    """Return the cases and judgments that records tell of, in their order, and what had to be decided."""
    questions = _grouped(found.records, lambda record: record.question)
    notes = []
    if _pairs_apart(questions.values()):
        questions = _grouped(found.records, _pair_name)
        if len(questions) > len({record.question for record in found.records}):
            notes.append(APART)
    cases, judgments = [], []
    for question in questions.values():
        order = sorted(question.answers.values(), key=_by_name) if found.by_name else list(question.answers.values())
        cases.append(_case(question, order))
        judgments += _judgments(question, [answer.key for answer in order], source)
    counted = all(record.said.sample is None for record in found.records)
    if counted and (repeated := sum(judgment.sample == 1 for judgment in judgments)):
        notes.append(f"{REPEATED}: {repeated}")
    return cases, judgments, notes


def _grouped(records: Iterable[Record], name: Any) -> dict[str, _Question]:
    questions: dict[str, _Question] = {}
    for record in records:
        key = name(record)
        questions.setdefault(key, _Question(key)).add(record)
    return questions


def _pairs_apart(questions: Iterable[_Question]) -> bool:
    judged = possible = 0
    for question in questions:
        n = len(question.answers)
        if any(len(record.shown) > 1 for record in question.records) and n > 2:
            judged, possible = judged + len(question.pairs()), possible + n * (n - 1) // 2
    return judged < _WHOLE * possible


def _pair_name(record: Record) -> str:
    names = sorted(one.model or one.key for one in record.shown)
    return f"{record.question}: {' / '.join(names)}"


def _by_name(answer: Answer) -> tuple[str, str]:
    return answer.model or "", answer.key


def _case(question: _Question, order: Sequence[Answer]) -> Case:
    records = question.records
    better = next((record.better for record in records if record.better is not None), None)
    keys = [answer.key for answer in order]
    people: dict[str, Annotation] = {}
    for record in records:
        for person, choice in record.labels.items():
            if (winner := _winner(choice, keys)) is not None:
                people[person] = winner
    return Case(
        id=question.name,
        prompt=next((record.prompt for record in records if record.prompt), ""),
        responses=tuple(Response(answer.text, answer.model, answer.grade) for answer in order),
        context=next((record.context for record in records if record.context), None),
        reference=next((record.reference for record in records if record.reference), None),
        label=_winner(better, keys) if better is not None else None,
        metadata=dict(records[0].metadata),
        labels=people,
    )


def _winner(choice: str, keys: Sequence[str]) -> Winner | None:
    if choice == TIE:
        return "TIE"
    if len(keys) != 2 or choice not in keys:
        return None
    return "A" if choice == keys[0] else "B"


def _judgments(question: _Question, keys: Sequence[str], source: str) -> list[Judgment]:
    seen: Counter[tuple[Any, ...]] = Counter()
    found = []
    for record in question.records:
        said, shown = record.said, tuple(keys.index(answer.key) for answer in record.shown)
        place = (shown, said.judge)
        sample = seen[place] if said.sample is None else said.sample
        seen[place] += 1
        found.append(_judgment(question.name, said, shown, sample, source))
    return found


def _judgment(case: str, said: Said, shown: Unit, sample: int, source: str) -> Judgment:
    value = said.value
    if value is not None and shown != tuple(sorted(shown)):
        value = -value + 0.0
    blank = Judgment(
        case_id=case,
        unit=tuple(sorted(shown)),
        shown=shown,
        sample=sample,
        judge=said.judge,
        status="ok",
        completion=None if said.text is None else Completion(said.text, model=said.model or said.judge),
    )
    if not said.read:
        kind = "content_filter" if said.status == "refused" else "no_answer"
        return replace(blank, status=said.status, error=said.error or "the file holds no verdict", error_kind=kind)
    return replace(
        blank,
        value=value,
        criteria=dict(said.scores),
        confidence=said.confidence,
        answer=said.answer,
        read_by=f"import {source}",
    )


def complete_only(cases: Sequence[Case], judgments: Sequence[Judgment]) -> tuple[list[Case], list[Judgment]]:
    """Return the cases all of whose judgments could be read, and their judgments."""
    broken = {one.case_id for one in judgments if one.status not in ("ok", "repaired")}
    kept = [case for case in cases if case.id not in broken]
    return kept, [one for one in judgments if one.case_id not in broken]


def guessed_scale(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the scale (min, max, step) that scores look to be on: 0-1, 1-5, 0-10, 1-10, 0-100 or what holds them."""
    low, high = (min(values), max(values)) if values else (1.0, 5.0)
    step = 1.0 if all(float(value).is_integer() for value in values) else 0.001
    for bottom, top in ((0, 1), (1, 5), (1, 10), (0, 10), (0, 100)):
        if bottom <= low and high <= top:
            return float(bottom), float(top), step
    return float(floor(low)), float(-floor(-high)), step
