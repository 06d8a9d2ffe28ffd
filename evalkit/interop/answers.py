"""Read the answers in a log as a dataset, and those in several logs as sets of answers
to the same prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from evalkit.core.errors import DatasetError
from evalkit.core.types import Case, Judgment
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.datasets import Source
from evalkit.datasets.compression import bare_name, inner_suffix
from evalkit.datasets.field_mapping import FIELDS, MESSAGES
from evalkit.datasets.located_rows import Row
from evalkit.interop.import_cases import CLASSES, DIFFERENT, GRADES, TEXTS, to_cases
from evalkit.interop.import_file import read_format
from evalkit.interop.importer_discovery import is_format, tools
from evalkit.interop.layouts.judgment_files import peek
from evalkit.interop.layouts.layouts import MORE_THAN_TEXT
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_SUFFIXES: Final = ("json", "jsonl", "eval")
_SHOWN: Final = 5
_ABOUT_ANSWERS: Final = (TEXTS, GRADES, CLASSES, DIFFERENT.partition("{}")[0])
_UNUSED: Final = (
    "labels that are classes are in the metadata; "
    "for labels, set rubric.classes to them"
)


@frozen
class _Answer:
    """One answer, with people's labels and judges' verdicts of it by name, and its
    messages if they are more.
    """

    text: str
    model: str | None
    grade: float | None
    labels: Json
    verdicts: Json
    messages: Any


@frozen
class _Sample:
    """A sample of a log, with its answers that are not missing."""

    case: Case
    answers: Sequence[_Answer]


_Log = Mapping[str, _Sample]


def log_source(
    paths: Sequence[Path], name: str, *, classes: bool, turns: bool = False
) -> Source | None:
    """Return a source with the answers in one or several logs.

    With several logs, there is one case for each sample that is in all of them.

    A row has the log's metadata and the verdicts of its judges, as `judge NAME`; people's labels
    are labels.

    Args:
        paths: The logs.
        name: What the source is called.
        classes: Whether labels are classes of the rubric.
        turns: Whether turns of conversations are judged, so that an answer with messages needs no
            text.

    Returns:
        `None` for a file that is not a log.

    Raises:
        DatasetError: If one of several files is not a log, or no sample is in all of them.
    """
    # A dict keeps the order of notes, and each of them once.
    notes: dict[str, None] = {}
    logs = {}
    for path in paths:
        if (reader := _reader(path)) is not None:
            logs[path] = _read_samples(
                reader, path, notes, f"{path}: " if len(paths) > 1 else "", turns=turns
            )
        # A single file that is no log is a table, which another reader takes.
        elif len(paths) == 1:
            return None
        else:
            remedy = "join other files with dataset.join"
            raise DatasetError(
                "is not a log with answers", where=str(path), remedy=remedy
            )
    samples = _joined(logs, notes) if len(logs) > 1 else next(iter(logs.values()))
    # Labels that are classes cannot be used without classes in the rubric.
    if not classes and any(_has_classes(sample) for sample in samples.values()):
        notes[_UNUSED] = None
    rows = [
        _sample_row(id_, sample, classes=classes)
        for id_, sample in samples.items()
        if sample.answers
    ]
    return Source(
        name,
        lambda: ((f"{name}:sample {row['id']}", row) for row in rows),
        tuple(paths),
        notes=[*notes],
        rendered=True,
    )


def _reader(path: Path) -> Importer | None:
    """Return the reader of a log; `None` for a file that is not a log of answers."""
    if path.is_dir() or inner_suffix(path) not in _SUFFIXES:
        return None
    start = peek(path)
    return next(
        (
            reader
            for reader in tools().values()
            if reader.is_log and is_format(reader, start)
        ),
        None,
    )


def _read_samples(
    reader: Importer, path: Path, notes: dict[str, None], where: str, *, turns: bool
) -> _Log:
    """Return the samples of a log by id; `where` is the beginning of its notes."""
    parsed = read_format(reader, path, Options(answers=True))
    assert isinstance(parsed, ParsedFile)
    cases, judgments, counted = to_cases(parsed, reader.name)
    # Cases without a judgment have none, so all are listed first.
    by_case: dict[str, list[Judgment]] = {case.id: [] for case in cases}
    for judgment in judgments:
        by_case[judgment.case_id].append(judgment)
    samples = {
        case.id: _Sample(case, _answers(case, by_case[case.id], turns=turns))
        for case in cases
    }
    answers = sum(len(case.responses) for case in cases)
    written = sum(len(sample.answers) for sample in samples.values())
    if not written:
        raise DatasetError(
            "has no answers to judge",
            where=str(path),
            remedy="use a log with the models' answers",
        )
    noted = [
        note for note in parsed.notes if not (turns and note.startswith(MORE_THAN_TEXT))
    ]  # turns show messages
    every = [*noted, *(note for note in counted if note.startswith(_ABOUT_ANSWERS))]
    if written < answers:
        every.append(
            f"answers that are missing, omitted: {answers - written} of {answers}"
        )
    notes.update(dict.fromkeys(f"{where}{note}" for note in every))
    return samples


def _answers(
    case: Case, judgments: Sequence[Judgment], *, turns: bool
) -> list[_Answer]:
    """Return the answers of a case that have a text.

    A verdict is the mean of a judge's scores, or its class.
    """
    # One dict for each response: {judge: its verdict}.
    verdicts: list[JsonObject] = [{} for _ in case.responses]
    for judgment in judgments:
        if judgment.status == "ok" and judgment.judge and len(judgment.unit) == 1:
            value = (
                fmean(judgment.criteria.values())
                if judgment.class_name is None
                else judgment.class_name
            )
            verdicts[judgment.unit[0]][judgment.judge] = value
    labels: Json = case.labels
    messages = case.metadata.get(MESSAGES)
    # several answers have a conversation each; a single one has its own, not in a list
    if messages and len(case.responses) > 1:
        by_answer = messages
    else:
        by_answer = [messages] * len(case.responses)
    return [
        _Answer(
            response.text,
            response.model,
            response.grade,
            {
                person: values[index]
                for person, values in labels.items()
                if isinstance(values, tuple) and values[index] is not None
            },
            verdicts[index],
            by_answer[index],
        )
        for index, response in enumerate(case.responses)
        if response.text or (turns and by_answer[index])
    ]


def _joined(logs: Mapping[Path, _Log], notes: dict[str, None]) -> _Log:
    """Return a case for each sample that is in all logs, with an answer of each log in their order.

    A sample with several answers in each log becomes several cases: the first of each log, the
    second, and so on. Models of one name get that of their file.

    Raises:
        DatasetError: If there is no such sample.
    """
    # For each log, the samples with an answer.
    answered = [
        {id_ for id_, sample in log.items() if sample.answers} for log in logs.values()
    ]
    # In the order of the first log.
    shared = [
        id_ for id_ in next(iter(logs.values())) if all(id_ in ids for ids in answered)
    ]
    if not shared:
        listed = "; ".join(f"{path}: {_named(log)}" for path, log in logs.items())
        where = ", ".join(map(str, logs))
        raise DatasetError(
            "no sample is in all logs",
            where=where,
            remedy=f"use logs of one task ({listed})",
        )
    notes[f"samples in all logs: {len(shared)}"] = None
    for path, log in logs.items():
        if unshared := [id_ for id_ in log if id_ not in set(shared)]:
            notes[
                f"samples of {path} that are not answered in all logs, omitted: {len(unshared)}"
                f" ({_named(unshared)})"
            ] = None
    # The models of the logs, by the first sample: equal ones need other names.
    models = [
        sample.answers[0].model for log in logs.values() for sample in [log[shared[0]]]
    ]
    joined: dict[str, _Sample] = {}
    different = 0
    for id_ in shared:
        samples = {path: log[id_] for path, log in logs.items()}
        case = next(iter(samples.values())).case
        different += any(
            sample.case.prompt != case.prompt for sample in samples.values()
        )
        # a repeat needs an answer in each log
        repeats = min(len(sample.answers) for sample in samples.values())
        for repeat in range(repeats):
            answers = [sample.answers[repeat] for sample in samples.values()]
            # answers of one model in several logs need different names
            if len(set(models)) < len(models):
                answers = [
                    replace(answer, model=f"{answer.model}, {bare_name(path)}")
                    for path, answer in zip(logs, answers, strict=True)
                ]
            joined[id_ if repeats == 1 else f"{id_} #{repeat + 1}"] = _Sample(
                case, answers
            )
    if different:
        notes[
            f"samples with different prompts, of which the first is kept: {different}"
        ] = None
    return joined


def _named(ids: Iterable[str]) -> str:
    listed = list(ids)
    return ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")


def _has_classes(sample: _Sample) -> bool:
    return any(
        isinstance(label, str)
        for answer in sample.answers
        for label in answer.labels.values()
    )


def _sample_row(id_: str, sample: _Sample, *, classes: bool) -> Row:
    """Return the row of a sample.

    Metadata with the name of a field get another name, so that they are not read as the field.
    """
    case = sample.case
    answers = sample.answers
    # without classes in the rubric, labels that are classes can only be metadata
    as_labels = classes or not _has_classes(sample)
    # A column named like a field would be read as it.
    metadata = {
        f"log {key}" if key in FIELDS else key: value
        for key, value in case.metadata.items()
        if key != MESSAGES
    }
    if any(messages := [answer.messages for answer in answers]):
        metadata[MESSAGES] = messages if len(messages) > 1 else messages[0]
    for kind in ("judge",) if as_labels else ("judge", "label"):
        by_answer = [
            answer.verdicts if kind == "judge" else answer.labels for answer in answers
        ]
        for rater in dict.fromkeys(
            rater for by_rater in by_answer for rater in by_rater
        ):
            # One value for each answer; a single answer needs no list.
            values = [by_rater.get(rater) for by_rater in by_answer]
            metadata[f"{kind} {rater}"] = values[0] if len(values) == 1 else values
    responses = [
        {
            "text": answer.text,
            "model": answer.model,
            "grade": answer.grade,
            "labels": dict(answer.labels) if as_labels else {},
        }
        for answer in answers
    ]
    fields = {
        "id": id_,
        "prompt": case.prompt,
        "context": case.context,
        "reference": case.reference,
    }
    # Choices between responses are labels of the case; grades are labels of a response.
    choices = {
        person: choice
        for person, choice in case.labels.items()
        if isinstance(choice, str)
    }
    labels = {"labels": choices} if choices else {}
    return {**metadata, **fields, **labels, "responses": responses}
