"""Import a file of judgments: cases, judgments, and the settings that describe them.

`to_cases` groups records into cases and judgments, and counts omissions and assumptions in notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from math import floor
from operator import is_
from pathlib import Path
from typing import Any

from evalkit.core.annotations import FIRST, chosen
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.image_files import LARGEST
from evalkit.core.scale import fold_class
from evalkit.core.types import (
    Annotation,
    Case,
    Completion,
    Judgment,
    Response,
    Unit,
    Winner,
)
from evalkit.core.values import Json, JsonObject
from evalkit.datasets.field_mapping import MESSAGES
from evalkit.datasets.formats import reader_for
from evalkit.datasets.images import Album, reading_images
from evalkit.interop.importer_discovery import (
    DAMAGE,
    GENERIC,
    UNKNOWN,
    describe_formats,
    format_names,
    importer,
    is_format,
)
from evalkit.interop.layouts.judgment_files import Peek, peek
from evalkit.interop.layouts.layouts import more_than_text
from evalkit.interop.layouts.records import (
    TIE,
    Answer,
    ImportedJudgments,
    Importer,
    Options,
    ParsedFile,
    Record,
    RecordedJudgment,
)
from evalkit.interop.verdict_words import OPPOSITES

_MOST_PICTURES = 10_000
CRITERION = "quality"
NO_SCALE = "the file does not state the scale of its scores"
GUESSED = NO_SCALE + ": assumed {:g} to {:g}; set rubric.min and rubric.max"
NAMED = "the classes are those in the file"
LOST = "judgments without a usable verdict: {} of {}"
UNREAD = "files in subfolders, not read: {}"


def import_judgments(
    name: str, path: Path, options: Options, *others: Path
) -> ImportedJudgments:
    """Import files, or folders of files, in a format.

    Args:
        name: The format.
        path: The file or folder.
        options: The user's options.
        others: Files or folders that are read as one with the first.

    Raises:
        ConfigError: If there is no such format, or it does not support an option.
        DatasetError: If a file is not in this format; the message names the format it looks like.
    """
    # Nothing is judged, so pictures that cannot be read are only named.
    files = (path, *others)
    album = Album(most=_MOST_PICTURES, largest=LARGEST, files=files, lenient=True)
    imports = importer(name)
    parsed = {}
    with reading_images(album):
        for imported_file in files:
            album.begin(f"{imported_file}:1")
            content = _content(imports, imported_file, options)
            if isinstance(
                content, ImportedJudgments
            ):  # in a batch, ids are those of one dataset's cases
                return replace(content, format=name)
            parsed[imported_file] = content
        return imported(joined(parsed), name, path)


def _content(
    made: Importer, path: Path, options: Options
) -> ParsedFile | ImportedJudgments:
    """Return the content of a file that is in the importer's format."""
    if not path.exists():
        raise DatasetError(
            "no such file", where=str(path), remedy="use the file with the judgments"
        )
    start = peek(path)
    if not is_format(made, start):
        remedy = describe_formats(start)
        if remedy == UNKNOWN and path.suffix.lower() in (".csv", ".tsv", ".jsonl"):
            next(
                iter(reader_for(None, path)(path)), None
            )  # raises a more specific error if the file cannot be read
        problem = (
            "has no readable rows"
            if remedy == UNKNOWN
            else f"does not look like {made.name}"
        )
        raise DatasetError(problem, where=str(path), remedy=remedy)
    try:
        return read_format(made, path, options)
    except ConfigError as bad:
        raise _with_remedy(bad, made.name, start, options) from None


def read_format(
    made: Importer, path: Path, options: Options
) -> ParsedFile | ImportedJudgments:
    """Return the content of a file in the importer's format.

    Raises:
        DatasetError: If it is damaged, or has nothing to read.
    """
    try:
        content = made.read(path, options)
        if made.is_log and isinstance(content, ParsedFile):
            return replace(
                content, notes=(*content.notes, *more_than_text(content.records))
            )
        return content
    except DAMAGE as bad:
        problem = (
            f"is damaged, or written by a version that evalkit does not know ({type(bad).__name__}:"
            f" {str(bad)[:100]})"
        )
        raise DatasetError(
            " ".join(problem.split()), where=str(path), remedy="write it again"
        ) from None


def joined(files: Mapping[Path, ParsedFile]) -> ParsedFile:
    """Return the records of several files as those of one; a task with a checklist is a case of its file.

    Raises:
        DatasetError: If the files differ in the scale of scores, or in how texts are read.
    """
    (where, first), *others = files.items()
    if not others:
        return first
    for name in ("scale", "output", "unread", "rule"):
        if any(getattr(other, name) != getattr(first, name) for _, other in others):
            raise DatasetError(
                f"the files differ in their {name}",
                where=str(where),
                remedy="read them one at a time",
            )
    records = [
        replace(record, question=f"{path.name}/{record.question}")
        if record.checklist
        else record
        for path, content in files.items()
        for record in content.records
    ]
    contents = files.values()
    return replace(
        first,
        records=records,
        criteria={
            name: text
            for content in contents
            for name, text in content.criteria.items()
        },
        weights={
            name: weight
            for content in contents
            for name, weight in content.weights.items()
        },
        notes=tuple(
            dict.fromkeys(note for content in contents for note in content.notes)
        ),
    )


def imported(parsed: ParsedFile, name: str, path: Path) -> ImportedJudgments:
    """Return the cases, judgments and settings of a file's records.

    Raises:
        DatasetError: If it has no judgments, or judgments of two kinds.
    """
    if not parsed.records:
        raise DatasetError(
            "has no judgments", where=str(path), remedy="use another file"
        )
    if len({len(record.shown) for record in parsed.records}) > 1:
        problem = "has both scores of single responses and winners of pairs"
        raise DatasetError(
            problem, where=str(path), remedy="import each kind separately"
        )
    cases, judgments, notes = to_cases(parsed, name)
    settings, guessed = describe_settings(parsed, judgments)
    if parsed.benchmark is not None:
        settings["dataset"] = {"benchmark": parsed.benchmark}
    lost = sum(judgment.status != "ok" for judgment in judgments)
    extra = [LOST.format(lost, len(judgments))] if lost and not parsed.unread else []
    if (
        path.is_dir()
        and not parsed.below
        and (below := sum(1 for _ in path.glob("*/**/*.json*")))
    ):
        extra.append(UNREAD.format(below))
    all_notes = (*parsed.notes, *notes, *guessed, *extra)
    return ImportedJudgments(
        tuple(cases),
        tuple(judgments),
        settings,
        all_notes,
        unread=parsed.unread,
        format=name,
    )


def _with_remedy(
    bad: ConfigError, name: str, start: Peek, options: Options
) -> ConfigError:
    """Return the error, with a better remedy if a file of a known format was imported as generic."""
    if name != GENERIC or options.fields or (remedy := format_names(start)) is None:
        return bad
    return type(bad)(bad.what, where=bad.where, remedy=remedy)


def describe_settings(
    parsed: ParsedFile, judgments: Sequence[Judgment]
) -> tuple[JsonObject, list[str]]:
    """Return the config settings of the judgments, and notes on assumptions."""
    pointwise = len(judgments[0].unit) == 1
    judges = list(dict.fromkeys(judgment.judge for judgment in judgments))
    samples = 1 + max(judgment.sample for judgment in judgments)
    named = dict.fromkeys(name for judgment in judgments for name in judgment.criteria)
    criteria = {name: _criterion(parsed, name) for name in named or {CRITERION: None}}
    settings: JsonObject = {
        "judge": _judge(
            judges, any(judgment.weighted is not None for judgment in judgments)
        ),
        "mode": {"name": "pointwise" if pointwise else "pairwise", "samples": samples},
        "criteria": criteria,
        "swap": {"policy": "none" if pointwise else _policy(judgments)},
    }
    if any(judgment.items for judgment in judgments):
        settings["mode"]["name"] = "checklist"
        settings["rubric"] = {"min": 0, "max": 1, "step": 0.01, "levels": {}}
        return settings | (
            {"scoring": {"checklist": parsed.rule}} if parsed.rule else {}
        ), []
    if parsed.output is not None:
        settings["output"] = dict(parsed.output)
    if not pointwise:
        return settings, []
    if parsed.rubric:
        return settings | {"rubric": dict(parsed.rubric)}, []
    if names := [one.class_name for one in judgments if one.class_name is not None]:
        labels = [
            one
            for record in parsed.records
            for one in (*record.classes.values(), record.shown[0].class_name)
        ]
        spelled: dict[str, str] = {}
        for one in (*names, *labels):
            if one is not None:
                spelled.setdefault(fold_class(one), one)
        if len(spelled) == 1 and (other := OPPOSITES.get(names[0].casefold())):
            spelled[other] = other
        settings["rubric"] = {
            "classes": dict.fromkeys(spelled.values(), ""),
            "levels": {},
        }
        return settings, [
            f"{NAMED}: {', '.join(spelled.values())}; set rubric for their meanings or the"
            " abstention"
        ]
    values = [value for judgment in judgments for value in judgment.criteria.values()]
    low, high, step = parsed.scale or guessed_scale(values)
    settings["rubric"] = {"min": low, "max": high, "step": step, "levels": {}}
    return settings, [] if parsed.scale else [GUESSED.format(low, high)]


def _criterion(parsed: ParsedFile, name: str) -> JsonObject:
    weight = {"weight": parsed.weights[name]} if name in parsed.weights else {}
    return {"description": parsed.criteria.get(name, ""), **weight}


def _judge(names: Sequence[str], weighted: bool) -> Json:
    # The temperature is unknown.
    more = {"logprobs": "fallback"} if weighted else {}
    judges = [
        {"name": _plain(name), "model": name, "temperature": None, **more}
        for name in names
    ]
    return (
        judges[0]
        if len(judges) == 1
        else {"name": "panel", "model": None, "judges": judges}
    )


def _plain(name: str) -> str:
    return " ".join(name.split()) or "judge"


def _policy(judgments: Sequence[Judgment]) -> str:
    """Return `both` if a pair was judged in both orders, `none` if all are in the case's order, otherwise `random`."""
    orders: dict[tuple[Any, ...], set[bool]] = {}
    for judgment in judgments:
        orders.setdefault((judgment.judge, judgment.case_id, judgment.unit), set()).add(
            judgment.shown == judgment.unit
        )
    if any(len(seen) > 1 for seen in orders.values()):
        return "both"
    return "random" if any(False in seen for seen in orders.values()) else "none"


_WHOLE = 0.9
"""If at least this share of all pairs is judged, a question is one case with all its responses."""
_LONGEST = 60
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

Pair = frozenset[str]


@dataclass(slots=True)
class _Question:
    """All records of one question, or of one pair of its responses; `answers` in order of first occurrence."""

    name: str
    records: list[Record] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        self.records.append(record)
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
) -> tuple[list[Case], list[Judgment], list[str]]:
    """Return the cases and judgments of records, in order, and notes on assumptions and omissions."""
    tally: Counter[str] = Counter()
    records = list(_with_unique_keys(parsed.records, tally))
    questions = _grouped(records, lambda record: record.question)
    notes = []
    if why := _pairs_apart(questions.values()):
        questions = _grouped(records, _pair_name)
        if len(questions) > len({record.question for record in records}):
            notes.append(why)
    cases = []
    judgments = []
    for name in [*questions]:
        question = questions.pop(name)
        order = (
            sorted(question.answers.values(), key=_by_name)
            if parsed.by_name
            else list(question.answers.values())
        )
        cases.append(_case(question, order, tally))
        judgments += _judgments(
            question, [answer.key for answer in order], source, tally
        )
    notes += [f"{problem}: {number}" for problem, number in tally.items()]
    responses = [response for case in cases for response in case.responses]
    if absent := sum(not response.text for response in responses):
        notes.append(ABSENT.format(absent, len(responses)))
    return cases, judgments, notes


def _with_unique_keys(
    records: Iterable[Record], tally: Counter[str]
) -> Iterator[Record]:
    """Yield records with a unique key per response: a key with several texts becomes several keys.

    A response without a text is the first response with its key.
    """
    texts: dict[tuple[str, str], dict[str, str]] = {}
    for record in records:
        keys: dict[str, str] = {}
        answers: list[Answer] = []
        for answer in record.shown:
            known = texts.setdefault((record.question, answer.key), {})
            key = answer.key
            if text := answer.text.strip():
                if known and text not in known:
                    tally[TEXTS] += 1
                key = known.setdefault(
                    text, f"{answer.key} #{len(known) + 1}" if known else answer.key
                )
            if any(one.key == key for one in answers):  # a system compared with itself
                key = f"{key} again"
            keys.setdefault(answer.key, key)
            answers.append(answer if key == answer.key else replace(answer, key=key))
        if all(map(is_, answers, record.shown)):
            yield record
            continue
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
    """Return why each pair must be a separate case; `None` if one case can have all responses to a question."""
    judged = possible = 0
    for question in questions:
        n = len(question.answers)
        if n < 3 or all(len(record.shown) == 1 for record in question.records):
            continue
        judged = judged + len(question.pairs())
        possible = possible + n * (n - 1) // 2
        if any(record.better for record in question.records) and any(
            record.labels for record in question.records
        ):
            return LABELED_APART
    return APART if judged < _WHOLE * possible else None


def _pair_name(record: Record) -> str:
    names = sorted(
        one.key if one.key.startswith(one.model or "") else str(one.model)
        for one in record.shown
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


def _case(question: _Question, order: Sequence[Answer], tally: Counter[str]) -> Case:
    records = question.records
    keys = [answer.key for answer in order]
    gold = (
        (LABEL, record.better, record.shown)
        for record in records
        if record.better is not None
    )
    said = (
        (person, choice, record.shown)
        for record in records
        for person, choice in record.labels.items()
    )
    own = _choices(gold, keys, DISPUTED, tally).get(LABEL, {})
    people: dict[str, Annotation] = {
        name: chosen(choices)
        for name, choices in _choices(said, keys, DIVIDED, tally).items()
    }
    if set(own) - {FIRST}:
        people[LABEL] = chosen(own)
    return Case(
        id=question.name,
        prompt=_first("prompt", records, tally) or "",
        responses=tuple(
            Response(answer.text, answer.model, answer.grade, answer.class_name)
            for answer in order
        ),
        context=_first("context", records, tally),
        reference=_first("reference", records, tally),
        label=own.get(FIRST),
        metadata=_metadata(records, tally) | _messages(order),
        labels=people | _annotations(records, keys, tally),
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


def _choices(
    given: Iterable[tuple[str, str, Sequence[Answer]]],
    keys: Sequence[str],
    disputed: str,
    tally: Counter[str],
) -> dict[str, dict[Unit, Winner]]:
    """Return each annotator's choice for each pair; none for a pair with conflicting choices."""
    found: dict[str, dict[Unit, set[Winner]]] = {}
    for person, choice, shown in given:
        places = sorted(keys.index(answer.key) for answer in shown)
        if len(places) != 2 or choice not in (TIE, keys[places[0]], keys[places[1]]):
            tally[PLACELESS] += 1
            continue
        winner: Winner = (
            "TIE" if choice == TIE else "A" if choice == keys[places[0]] else "B"
        )
        found.setdefault(person, {}).setdefault(tuple(places), set()).add(winner)
    agreed: dict[str, dict[Unit, Winner]] = {}
    for person, pairs in found.items():
        for unit, winners in pairs.items():
            if len(winners) > 1:
                tally[disputed] += 1
            else:
                agreed.setdefault(person, {})[unit] = next(iter(winners))
    return agreed


def _annotations(
    records: Sequence[Record], keys: Sequence[str], tally: Counter[str]
) -> dict[str, Annotation]:
    """Return annotators' grades or classes of the responses, and count conflicting ones."""
    annotations: dict[str, Annotation] = {}
    for name, own, conflict in (
        ("grades", "grade", GRADES),
        ("classes", "class_name", CLASSES),
    ):
        labels: dict[str, set[Any]] = {}
        people: dict[str, JsonObject] = {}
        for record in records:
            for answer in record.shown if len(records) > 1 else ():
                labels.setdefault(answer.key, set()).add(getattr(answer, own))
            for person, label in getattr(record, name).items():
                if (
                    people.setdefault(person, {}).setdefault(record.shown[0].key, label)
                    != label
                ):
                    tally[conflict] += 1
        if conflicting := sum(len(given - {None}) > 1 for given in labels.values()):
            tally[conflict] += conflicting
        annotations |= {
            person: tuple(given.get(key) for key in keys)
            for person, given in people.items()
        }
    return annotations


def _first(what: str, records: Sequence[Record], tally: Counter[str]) -> str | None:
    if len(records) == 1:
        only: str | None = getattr(records[0], what) or None
        return only
    known = dict.fromkeys(
        value for record in records if (value := getattr(record, what))
    )
    if len(known) > 1:
        tally[DIFFERENT.format(what)] += 1
    return next(iter(known), None)


def _metadata(records: Sequence[Record], tally: Counter[str]) -> JsonObject:
    known = {**records[0].metadata}
    differing: set[str] = set()
    for record in records[1:]:
        for key, value in record.metadata.items():
            if known.setdefault(key, value) != value:
                differing.add(key)
    tally.update(DIFFERENT.format(f"'{key}'") for key in differing)
    return known


def _judgments(
    question: _Question, keys: Sequence[str], source: str, tally: Counter[str]
) -> list[Judgment]:
    taken: dict[tuple[Any, ...], set[int]] = {}
    found = []
    for record in question.records:
        order = tuple([keys.index(answer.key) for answer in record.shown])
        unit = tuple(sorted(order))
        order = unit if order == unit else order
        for judgment in (record.said, *record.others):
            samples = taken.setdefault((order, judgment.judge), set())
            sample = judgment.sample
            if sample is None or sample in samples:
                sample = next(
                    number for number in count(len(samples)) if number not in samples
                )
            if samples and judgment.sample != sample:
                tally[REPEATED if judgment.sample is None else RENUMBERED] += 1
            samples.add(sample)
            found.append(
                _judgment(question.name, judgment, unit, order, sample, source)
            )
    return found


def _judgment(
    case: str, said: RecordedJudgment, unit: Unit, shown: Unit, sample: int, source: str
) -> Judgment:
    value = said.value
    read = said.read
    if value is not None and shown != unit:
        value = -value + 0.0
    return Judgment(
        case,
        unit,
        shown,
        sample,
        said.judge,
        "ok" if read else said.status,
        value,
        said.confidence if read else None,
        said.scores,
        said.answer if read else None,
        f"import {source}" if read else None,
        None if read else said.error or "the file has no verdict",
        None if read else "content_filter" if said.status == "refused" else "no_answer",
        completion=(
            None
            if said.text is None
            else Completion(said.text, model=said.model or said.judge)
        ),
        items=said.items,
        class_name=said.class_name,
        weighted=said.weighted if read else None,
    )


def complete_only(
    cases: Sequence[Case], judgments: Sequence[Judgment]
) -> tuple[list[Case], list[Judgment]]:
    """Return the cases with only readable judgments, and their judgments."""
    broken = {one.case_id for one in judgments if not one.readable}
    kept = [case for case in cases if case.id not in broken]
    return kept, [one for one in judgments if one.case_id not in broken]


def guessed_scale(values: Sequence[float]) -> tuple[float, float, float]:
    """Guess the scale (min, max, step) of scores: 0-1, 1-5, 0-10, 1-10, 0-100, or one that contains them."""
    low, high = (min(values), max(values)) if values else (1.0, 5.0)
    step = 1.0 if all(float(value).is_integer() for value in values) else 0.001
    for bottom, top in ((0, 1), (1, 5), (1, 10), (0, 10), (0, 100)):
        if bottom <= low and high <= top:
            return float(bottom), float(top), step
    return float(floor(low)), float(-floor(-high)), step
