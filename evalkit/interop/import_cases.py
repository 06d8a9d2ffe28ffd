"""Make cases and judgments of what an importer read."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from operator import is_
from typing import Any

from evalkit.core.annotations import FIRST, chosen
from evalkit.core.deduplication import SharedJudgments
from evalkit.core.types import (
    Annotation,
    Case,
    Completion,
    Judgment,
    Response,
    Unit,
    Winner,
)
from evalkit.core.values import JsonObject
from evalkit.datasets.field_mapping import MESSAGES
from evalkit.interop.layouts.records import (
    TIE,
    Answer,
    ParsedFile,
    Record,
    RecordedJudgment,
)

_WHOLE = 0.9
"""If at least this share of all pairs is judged, a question is one case with all its responses."""
_LONGEST = 60
_SINGLE: Unit = (0,)
LABEL = "label"
"""The annotator for a file's labels of pairs other than the first, whose label is the case's."""
APART = (
    "not all pairs of a question's responses were judged: each pair is a separate case"
)


LABELED_APART = (
    "pairs have both their own and annotators' labels: each pair is a separate case"
)


REPEATED = "judged more than once in one order: read as samples"
RENUMBERED = "judgments with a duplicate sample number: assigned the next free number"
TEXTS = (
    "responses of one model to one question with different texts: "
    "each text is a separate response"
)


ABSENT = (
    "responses without a text: {} of {}; "
    "omitted from metrics on length and identical responses"
)


DISPUTED = "pairs with conflicting labels, left unlabeled"
DIVIDED = "pairs with conflicting labels by one annotator, whose labels are dropped"
PLACELESS = "labels that match no response in their row, omitted"
GRADES = "responses with conflicting grades: the first is kept"
CLASSES = "responses with conflicting classes: the first is kept"
DIFFERENT = "cases with conflicting values of {}: the first is kept"


# The keys of the responses of a pair, in no order.
Pair = frozenset[str]


@dataclass(slots=True)
class _Question:
    """All records of one question, or of one pair of its responses; `answers` in order
    of first occurrence.
    """

    name: str
    records: list[Record] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Add a record, and fill what the earlier records of its responses lack."""
        self.records.append(record)
        # Later records fill what the first one of a response lacks; conflicts are
        # counted elsewhere.
        for answer in record.shown:
            before = self.answers.setdefault(answer.key, answer)
            if before == answer:
                continue
            self.answers[answer.key] = replace(
                before,
                text=before.text or answer.text,
                model=answer.model if before.model is None else before.model,
                grade=answer.grade if before.grade is None else before.grade,
                class_name=before.class_name or answer.class_name,
            )

    def pairs(self) -> set[Pair]:
        return {
            frozenset(record.key for record in record.shown) for record in self.records
        }


def to_cases(
    parsed: ParsedFile, source: str
) -> tuple[list[Case], SharedJudgments, list[str]]:
    """Return the cases and judgments of records, in order, and notes.

    The notes are on assumptions and omissions.
    """
    tally: Counter[str] = Counter()
    if _are_apart(parsed.records):
        return _cases_of_rows(parsed.records, source)
    # Keys identify responses from here on: labels and orders refer to them.
    records = list(_with_unique_keys(parsed.records, tally))
    questions = _grouped(records, lambda record: record.question)
    notes = []
    # One case with all responses would show pairs that nobody judged as missing.
    if why := _pairs_apart(questions.values()):
        questions = _grouped(records, _pair_name)
        if len(questions) > len({record.question for record in records}):
            notes.append(why)
    cases = []
    judgments = _Judgments(source)
    # Questions are removed as they are used, so that a large file is not held twice.
    for name in [*questions]:
        # The order of responses defines A and B of each pair.
        question = questions.pop(name)
        order = (
            sorted(question.answers.values(), key=_by_name)
            if parsed.by_name
            else list(question.answers.values())
        )
        cases.append(_build_case(question, order, tally))
        _add_judgments(judgments, question, [answer.key for answer in order], tally)
    notes += [f"{problem}: {number}" for problem, number in tally.items()]
    return cases, judgments.shared(), [*notes, *_absent_notes(cases)]


def _absent_notes(cases: Sequence[Case]) -> list[str]:
    """Return a note on responses without a text, if there are any."""
    responses = [response for case in cases for response in case.responses]
    absent = sum(not response.text for response in responses)
    return [ABSENT.format(absent, len(responses))] if absent else []


def _are_apart(records: Sequence[Record]) -> bool:
    """Return whether each record is the only one of its question, has one response without
    annotators, and at most one judgment of each judge: a row of most tables.
    """
    if len({record.question for record in records}) < len(records):
        return False
    return all(
        len(record.shown) == 1
        and not (record.labels or record.grades or record.classes or record.better)
        and _are_of_different_judges(record)
        for record in records
    )


def _are_of_different_judges(record: Record) -> bool:
    if not record.others:
        return True
    judges = {record.said.judge, *[said.judge for said in record.others]}
    return len(judges) == 1 + len(record.others)


def _cases_of_rows(
    records: Sequence[Record], source: str
) -> tuple[list[Case], SharedJudgments, list[str]]:
    """Return what `to_cases` does for records that are apart: nothing is merged or counted."""
    cases = []
    judgments = _Judgments(source)
    # One empty mapping for all cases: there are millions.
    nobody: dict[str, Annotation] = {}
    for record in records:
        [answer] = record.shown
        metadata = record.metadata
        if answer.messages:
            metadata = {**metadata, MESSAGES: answer.messages}
        cases.append(
            Case(
                record.question,
                record.prompt or "",
                (Response(answer.text, answer.model, answer.grade, answer.class_name),),
                record.context or None,
                record.reference or None,
                metadata=metadata,
                labels=nobody,
                checklist=record.checklist,
            )
        )
        for said in (record.said, *record.others):
            judgments.add(record.question, said, _SINGLE, _SINGLE, said.sample or 0)
    return cases, judgments.shared(), _absent_notes(cases)


def _with_unique_keys(
    records: Iterable[Record], tally: Counter[str]
) -> Iterator[Record]:
    """Yield records with a unique key per response: a key with several texts becomes several keys.

    A response without a text is the first response with its key.
    """
    # {(question, key): {text: key of that text}}.
    texts: dict[tuple[str, str], dict[str, str]] = {}
    for record in records:
        keys: dict[str, str] = {}
        answers: list[Answer] = []
        for answer in record.shown:
            keys_by_text = texts.setdefault((record.question, answer.key), {})
            key = answer.key
            if text := answer.text.strip():
                if keys_by_text and text not in keys_by_text:
                    # A new text of a known key: the key stays with the first text.
                    tally[TEXTS] += 1
                key = keys_by_text.setdefault(
                    text,
                    f"{answer.key} #{len(keys_by_text) + 1}"
                    if keys_by_text
                    else answer.key,
                )
            # A system that is compared with itself has its key twice in a record, which needs two
            # responses.
            if any(earlier.key == key for earlier in answers):
                key = f"{key} again"
            # The first of two equal keys is the one that labels meant.
            keys.setdefault(answer.key, key)
            answers.append(answer if key == answer.key else replace(answer, key=key))
        # Nothing changed: the same record, without a copy.
        if all(map(is_, answers, record.shown)):
            yield record
            continue
        # Labels name responses by key, so they follow the new keys.
        better = (
            None if record.better is None else keys.get(record.better, record.better)
        )
        labels = {
            person: keys.get(choice, choice) for person, choice in record.labels.items()
        }
        yield replace(record, shown=tuple(answers), better=better, labels=labels)


def _grouped(records: Iterable[Record], name: Any) -> dict[str, _Question]:
    questions: dict[str, _Question] = {}
    for record in records:
        key = name(record)
        questions.setdefault(key, _Question(key)).add(record)
    return questions


def _pairs_apart(questions: Iterable[_Question]) -> str | None:
    """Return why each pair must be a separate case.

    `None` if one case can have all responses to a question.
    """
    judged = possible = 0
    for question in questions:
        n = len(question.answers)
        # Fewer than three responses have at most one pair, which is never apart.
        if n < 3 or all(len(record.shown) == 1 for record in question.records):
            continue
        judged = judged + len(question.pairs())
        # All pairs of n responses.
        possible = possible + n * (n - 1) // 2
        # A case has a gold label for its first pair only: next to annotators' labels,
        # the others would look like one more annotator's.
        if any(record.better for record in question.records) and any(
            record.labels for record in question.records
        ):
            return LABELED_APART
    return APART if judged < _WHOLE * possible else None


def _pair_name(record: Record) -> str:
    # A key that begins with its model also tells two texts of the model apart.
    names = sorted(
        answer.key if answer.key.startswith(answer.model or "") else str(answer.model)
        for answer in record.shown
    )
    return f"{record.question}: {' / '.join(map(_short, names))}"


def _short(name: str) -> str:
    """Return a name for use in an id; a long one is shortened to its beginning and a hash."""
    return (
        name
        if len(name) <= _LONGEST
        else f"{name[:24]}… {sha256(name.encode()).hexdigest()[:8]}"
    )


def _by_name(answer: Answer) -> tuple[str, str]:
    return answer.model or "", answer.key


def _build_case(
    question: _Question, order: Sequence[Answer], tally: Counter[str]
) -> Case:
    """Return the case of a question, from all of its records.

    Args:
        question: The records of one question.
        order: Its responses in the order of the case.
        tally: Counts what the records disagree on.
    """
    records = question.records
    # Indices of responses in a case: the position in this list.
    keys = [answer.key for answer in order]
    # (annotator, choice, responses): the file's own label counts as an annotator's.
    gold = (
        (LABEL, record.better, record.shown)
        for record in records
        if record.better is not None
    )
    by_annotator = (
        (annotator, choice, record.shown)
        for record in records
        for annotator, choice in record.labels.items()
    )
    case_labels = _choices_by_annotator(gold, keys, DISPUTED, tally).get(LABEL, {})
    annotations: dict[str, Annotation] = {
        name: chosen(choices)
        for name, choices in _choices_by_annotator(
            by_annotator, keys, DIVIDED, tally
        ).items()
    }
    # The case's label is that of its first pair; labels of its other pairs are an annotator's.
    if set(case_labels) - {FIRST}:
        annotations[LABEL] = chosen(case_labels)
    return Case(
        id=question.name,
        prompt=_common_value("prompt", records, tally) or "",
        responses=tuple(
            Response(answer.text, answer.model, answer.grade, answer.class_name)
            for answer in order
        ),
        context=_common_value("context", records, tally),
        reference=_common_value("reference", records, tally),
        label=case_labels.get(FIRST),
        metadata=_metadata(records, tally) | _messages(order),
        labels=annotations | _annotations_by_annotator(records, keys, tally),
        checklist=records[0].checklist,
    )


def _messages(answers: Sequence[Answer]) -> JsonObject:
    """Return the metadata of messages: those of the only response, or a list by response."""
    messages = [answer.messages for answer in answers]
    return (
        {MESSAGES: messages if len(messages) > 1 else messages[0]}
        if any(messages)
        else {}
    )


def _choices_by_annotator(
    choices_given: Iterable[tuple[str, str, Sequence[Answer]]],
    keys: Sequence[str],
    disputed: str,
    tally: Counter[str],
) -> dict[str, dict[Unit, Winner]]:
    """Return each annotator's choice for each pair; none for a pair with conflicting choices."""
    # {annotator: {pair of indices: winners}}; more than one winner is a conflict.
    choices_by_person: dict[str, dict[Unit, set[Winner]]] = {}
    for person, choice, answers in choices_given:
        # Ascending indices, so A is the response that comes first in the case.
        positions = sorted(keys.index(answer.key) for answer in answers)
        # A label must name one of its two responses, or a tie.
        if len(positions) != 2 or choice not in (
            TIE,
            keys[positions[0]],
            keys[positions[1]],
        ):
            tally[PLACELESS] += 1
            continue
        winner: Winner = (
            "TIE" if choice == TIE else "A" if choice == keys[positions[0]] else "B"
        )
        choices_by_person.setdefault(person, {}).setdefault(
            tuple(positions), set()
        ).add(winner)
    agreed: dict[str, dict[Unit, Winner]] = {}
    for person, pairs in choices_by_person.items():
        for unit, winners in pairs.items():
            if len(winners) > 1:
                tally[disputed] += 1
            else:
                agreed.setdefault(person, {})[unit] = next(iter(winners))
    return agreed


def _annotations_by_annotator(
    records: Sequence[Record], keys: Sequence[str], tally: Counter[str]
) -> dict[str, Annotation]:
    """Return annotators' grades or classes of the responses, and count conflicting ones."""
    # Most records of a large table have neither, and are alone.
    if len(records) == 1 and not (records[0].grades or records[0].classes):
        return {}
    annotations: dict[str, Annotation] = {}
    # Both kinds of labels are read the same way: {annotator: {key of a response: label}}.
    for name, attribute, conflict in (
        ("grades", "grade", GRADES),
        ("classes", "class_name", CLASSES),
    ):
        labels: dict[str, set[Any]] = {}
        people: dict[str, JsonObject] = {}
        for record in records:
            # Grades of a response itself, which several records of a question may repeat.
            for answer in record.shown if len(records) > 1 else ():
                labels.setdefault(answer.key, set()).add(getattr(answer, attribute))
            # A grade or class is that of the only response of its record.
            for person, label in getattr(record, name).items():
                if (
                    people.setdefault(person, {}).setdefault(record.shown[0].key, label)
                    != label
                ):
                    tally[conflict] += 1
        # None is no label, so it conflicts with nothing.
        if conflicting := sum(len(entries - {None}) > 1 for entries in labels.values()):
            tally[conflict] += conflicting
        # (responses,) labels in the order of the case; None marks a response without a
        # label.
        annotations |= {
            person: tuple(entries.get(key) for key in keys)
            for person, entries in people.items()
        }
    return annotations


def _common_value(
    attribute: str, records: Sequence[Record], tally: Counter[str]
) -> str | None:
    """Return what the records of a question have in a field; the first value if they differ."""
    if len(records) == 1:
        only: str | None = getattr(records[0], attribute) or None
        return only
    # Distinct values in order of first occurrence; the first one counts.
    values = dict.fromkeys(
        value for record in records if (value := getattr(record, attribute))
    )
    if len(values) > 1:
        tally[DIFFERENT.format(attribute)] += 1
    return next(iter(values), None)


def _metadata(records: Sequence[Record], tally: Counter[str]) -> JsonObject:
    metadata = {**records[0].metadata}
    differing: set[str] = set()
    for record in records[1:]:
        for key, value in record.metadata.items():
            # The first value of a key counts.
            if metadata.setdefault(key, value) != value:
                differing.add(key)
    tally.update(DIFFERENT.format(f"'{key}'") for key in differing)
    return metadata


class _Judgments:
    """Judgments as they are made; what is said of several cases is made once."""

    def __init__(self, source: str) -> None:
        """Start without judgments; `source` is the format that they are read from."""
        self._read_by = f"import {source}"
        self._statements: list[Judgment] = []
        # {what was recorded, unit, order and sample: its index in the statements}.
        self._known: dict[tuple[int, Unit, Unit, int], int] = {}
        # An entry for each judgment.
        self._said = array("q")
        self._case_ids: list[str] = []

    def add(
        self,
        case: str,
        recorded: RecordedJudgment,
        unit: Unit,
        order: Unit,
        sample: int,
    ) -> None:
        """Add a judgment of a case."""
        # The records live as long as this, so no other object has the same identity.
        key = (id(recorded), unit, order, sample)
        statement = self._known.get(key)
        if statement is None:
            statement = len(self._statements)
            self._known[key] = statement
            self._statements.append(
                _build_judgment(case, recorded, unit, order, sample, self._read_by)
            )
        self._said.append(statement)
        self._case_ids.append(case)

    def shared(self) -> SharedJudgments:
        """Return the judgments, in the order in which they were added."""
        return SharedJudgments(self._statements, self._said, self._case_ids)


def _add_judgments(
    judgments: _Judgments,
    question: _Question,
    keys: Sequence[str],
    tally: Counter[str],
) -> None:
    """Add the judgments of a question; a repeated one gets the next free sample.

    Args:
        judgments: The judgments so far.
        question: The records of one question.
        keys: The responses of its case; a judgment has their indices.
        tally: Counts the judgments that were numbered here.
    """
    # {(order shown, judge): sample numbers}: repeats are numbered within these.
    taken: dict[tuple[Any, ...], set[int]] = {}
    for record in question.records:
        # Indices of the responses in the case, in the order in which the judge saw them.
        order = tuple([keys.index(answer.key) for answer in record.shown])
        # The same pair in ascending order identifies the unit.
        unit = _SINGLE if order == _SINGLE else tuple(sorted(order))
        # An equal tuple is shared, because a large file has one for each judgment.
        order = unit if order == unit else order
        for judgment in (record.said, *record.others):
            samples = taken.setdefault((order, judgment.judge), set())
            sample = judgment.sample
            if sample is None and not samples:
                sample = 0
            elif sample is None or sample in samples:
                # The lowest free number; the count of those in use is where the search begins.
                sample = next(
                    number for number in count(len(samples)) if number not in samples
                )
            # The first judgment of an order needs no note: its number is 0 by default.
            if samples and judgment.sample != sample:
                tally[REPEATED if judgment.sample is None else RENUMBERED] += 1
            samples.add(sample)
            judgments.add(question.name, judgment, unit, order, sample)


def _build_judgment(
    case: str,
    recorded: RecordedJudgment,
    unit: Unit,
    order: Unit,
    sample: int,
    read_by: str,
) -> Judgment:
    """Return a recorded judgment as evalkit has it; `unit` is the order of its value.

    Without a verdict it is failed, refused or unparseable, as recorded.
    """
    value = recorded.value
    read = recorded.read
    error_kind: str | None = None
    if not read:
        error_kind = "content_filter" if recorded.status == "refused" else "no_answer"
    completion = None
    if recorded.text is not None:
        # The judge is usually named by its model.
        completion = Completion(recorded.text, model=recorded.model or recorded.judge)
    # Records have the value in the order shown; a judgment has that of its unit.
    if value is not None and order != unit:
        value = -value + 0.0
    return Judgment(
        case,
        unit,
        order,
        sample,
        recorded.judge,
        "ok" if read else recorded.status,
        value,
        recorded.confidence if read else None,
        recorded.scores,
        recorded.answer if read else None,
        read_by if read else None,
        None if read else recorded.error or "the file has no verdict",
        error_kind,
        completion=completion,
        items=recorded.items,
        class_name=recorded.class_name,
        weighted=recorded.weighted if read else None,
    )
