"""One annotator's labels of a run: a queue of tasks, and a file in the run folder that has each label at once.

All annotators see the cases in the same random order, so that those who stop early have labeled the same cases. The
order of the responses differs between annotators. `evalkit label RUN FILE` reads the file too.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from evalkit.benchmarks.judgment_files import rows_of
from evalkit.core.annotations import INCLUSION
from evalkit.core.checklists import inherited, leaves
from evalkit.core.hashing import digest, text_digest
from evalkit.errors import ConfigError, DatasetError
from evalkit.interop.labeling import (
    CHOICES,
    Label,
    Task,
    class_reader,
    has_own_label,
    label_of,
    labeled_size,
    recorded,
    row_labels,
    sample_for_labeling,
    shown_of,
    task_texts,
    units_to_label,
    unswapped,
    with_labels,
)
from evalkit.results import RunResult
from evalkit.runs.layout import LABEL_SAMPLE
from evalkit.runs.records import encode_line
from evalkit.runs.write import write_files
from evalkit.types import Case, Unit

LONGEST_NOTE: Final = 10_000
_NAME: Final = re.compile(r"\w([\w .@+-]{0,38}\w)?")
_LAST_KEY: Final = 10
"""The highest score that has a key, which is 0 unless a score of 0 has it."""
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_REMEDY: Final = "check the folder's permissions and the free disk space"


class LabelSession:
    """One annotator's tasks and labels, without judges, verdicts, names of models and labels of others.

    Args:
        result: The run, with its folder.
        annotator: The annotator's name.
        count: About how many tasks to label.
        seed: The seed of the order of cases and responses.
        informative: Whether to sample informative cases more often, with known probabilities. Otherwise the cases
            without a label of the data set are in random order, or all cases if there are none.

    Raises:
        ConfigError: If the name is invalid, the folder cannot be written, or the annotator has another session.
        DatasetError: If the annotator's file has an invalid label, or labels of another run.
    """

    def __init__(self, result: RunResult, annotator: str, *, count: int, seed: int, informative: bool) -> None:
        if not _NAME.fullmatch(annotator):
            remedy = "use up to 40 letters, digits, spaces and . _ @ + -, with a letter or digit at both ends"
            raise ConfigError("cannot name a file", where=f"--annotator {annotator:.60}", remedy=remedy)
        self.annotator, self.folder = annotator, Path(result.folder or "")
        self.file = self.folder / f"labels-{annotator}.jsonl"
        self.skipped: set[int] = set()
        self._result, self._sampled = result, informative
        self._reader, self._classes = class_reader(result.config), result.config.rubric.named_classes
        self._cases = {case.id: case for case in result.cases}
        self._labels: dict[tuple[str, Unit], dict[str, Label]] = {}
        self._notes: dict[tuple[str, Unit], str] = {}
        self._stream = _opened(self.file)
        try:
            for where, row in rows_of(self.file) if os.fstat(self._stream).st_size else ():
                self._add(where, row)
            self.tasks = self._queue(count, seed)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        empty = not os.fstat(self._stream).st_size
        os.close(self._stream)
        if empty:
            self.file.unlink(missing_ok=True)

    def new_labels(self, cases: Sequence[Case]) -> list[Label]:
        """Return the labels in the file that these cases of the run do not have yet."""
        known = {case.id: case for case in cases}
        labels = [label for by_item in self._labels.values() for label in by_item.values()]
        return [one for one in labels if self._known(known[one.case_id], one.unit).get(one.item) != one.value]

    @property
    def question(self) -> dict[str, Any]:
        """What to answer: `kind` is pair, items, class or grade; `options` are the classes, or scores with a key."""
        config = self._result.config
        scale = config.rubric.scale
        if labeled_size(self._result) == 2:
            return {"kind": "pair"}
        if config.mode.name == "checklist":
            return {"kind": "items"}
        if self._classes is not None:
            return {"kind": "class", "options": self._classes.names}
        digits = scale.integral and scale.min >= 0 and scale.max <= _LAST_KEY
        scores = list(map(int, scale.values())) if digits else []
        options = scores if len({score % _LAST_KEY for score in scores}) == len(scores) else []
        return {"kind": "grade", "options": options, "low": scale.min, "high": scale.max}

    @property
    def complete(self) -> bool:
        """Whether all tasks have a label."""
        return all(map(self._answers, self.tasks))

    def next_open(self, after: int = -1) -> int:
        """Return the position of the next task without a label that was not skipped, also before `after`."""
        positions = (*range(after + 1, len(self.tasks)), *range(after + 1))
        is_open = (at for at in positions if at not in self.skipped and not self._answers(self.tasks[at]))
        return next(is_open, len(self.tasks))

    def view(self, at: int) -> dict[str, Any]:
        """Return what the page shows: counts, and the texts, answer and note of the task at a position, if any."""
        labeled = sum(map(bool, map(self._answers, self.tasks)))
        state = {"at": at, "total": len(self.tasks), "labeled": labeled, "skipped": len(self.skipped)}
        if at == len(self.tasks):
            return state
        task = self.tasks[at]
        checklist = inherited(self._cases[task.case_id].checklist)
        items = [[*groups, item.criterion] for item, groups, *_ in checklist]
        note = self._notes.get(_key(task), "")
        return state | {"texts": task.texts, "items": items, "answer": self._answer(task), "note": note}

    def store(self, at: int, answer: Any, note: str) -> None:
        """Write the answer to a task to the file, with a note; without an answer only a new note.

        Raises:
            DatasetError: If it does not answer the question.
            ConfigError: If the file cannot be written.
        """
        task = self.tasks[at]
        if answer is None and note == self._notes.get(_key(task), ""):
            return
        labels = {"": None} if answer is None else self._as_labels(task, answer)
        row = {
            "case_id": task.case_id,
            "annotator": self.annotator,
            "shown": ",".join(map(str, task.shown)),
            **({INCLUSION: task.probability} if self._sampled else {}),
            "note": note,
            "texts": _fingerprint(self._cases[task.case_id], task.unit),
            "labeled_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        rows = [{**row, **({"item": item} if item else {}), "label": label} for item, label in labels.items()]
        self._write(b"".join(map(encode_line, rows)))
        for written in rows:
            self._add(str(self.file), written)
        if answer is not None:
            self.skipped.discard(at)

    def skip(self, at: int) -> None:
        """Leave a task without a label until the others are labeled."""
        if at < len(self.tasks) and not self._answers(self.tasks[at]):
            self.skipped.add(at)

    def _write(self, lines: bytes) -> None:
        size = os.fstat(self._stream).st_size
        try:
            if os.write(self._stream, lines) < len(lines):
                raise OSError(0, "no space left")
            os.fsync(self._stream)
        except OSError as bad:
            with suppress(OSError):
                os.ftruncate(self._stream, size)
            raise ConfigError(f"cannot be written ({bad.strerror})", where=str(self.file), remedy=_REMEDY) from None

    def _add(self, where: str, row: Mapping[str, Any]) -> None:
        """Add the labels and the note in a row of the file."""
        for label in row_labels(where, row, Counter(), self._reader):
            case = self._cases.get(label.case_id)
            with_labels([case] if case else [], [label], classes=self._classes)
            if case and row.get("texts") not in (None, _fingerprint(case, label.unit)):
                remedy = "its label is of another run: move the file elsewhere"
                raise DatasetError(f"case '{case.id:.60}' has changed", where=where, remedy=remedy)
            if label.annotator == self.annotator:
                self._labels.setdefault((label.case_id, label.unit), {})[label.item] = label
        if isinstance(note := row.get("note"), str) and row.get("annotator") == self.annotator:
            self._notes[str(row.get("case_id")), tuple(sorted(shown_of(row.get("shown"), where)))] = note

    def _known(self, case: Case, unit: Unit) -> dict[str, Any]:
        """Return the annotator's label in the run, by item if it is of a checklist."""
        answers = {item.id: item.labels[self.annotator] for item in case.checklist if self.annotator in item.labels}
        known: dict[str, Any] = {item: values[unit[0]] for item, values in answers.items()}
        if (annotation := case.labels.get(self.annotator)) is not None:
            known[""] = label_of(annotation, unit)
        return {item: label for item, label in known.items() if label is not None}

    def _answers(self, task: Task) -> dict[str, Any]:
        labels = {item: label.value for item, label in self._labels.get(_key(task), {}).items()}
        return self._known(self._cases[task.case_id], task.unit) | labels

    def _answer(self, task: Task) -> Any:
        """Return the answer to a task as the page shows it; `None` if there is none."""
        if not (labels := self._answers(task)):
            return None
        if self.question["kind"] == "items":
            return [labels.get(item.id) == "met" for item in leaves(self._cases[task.case_id].checklist)]
        label = labels.get("")
        return unswapped(label, task.shown) if label in CHOICES and len(task.unit) == 2 else label

    def _as_labels(self, task: Task, answer: Any) -> dict[str, Any]:
        """Return the label that an answer is, or the label of each item."""
        question = self.question
        if question["kind"] == "items":
            items = leaves(self._cases[task.case_id].checklist)
            if isinstance(answer, list) and len(answer) == len(items) and {*map(type, answer)} == {bool}:
                return {item.id: "met" if met else "not_met" for item, met in zip(items, answer, strict=True)}
        elif question["kind"] == "grade":
            if type(answer) in (int, float) and question["low"] <= answer <= question["high"]:
                return {"": answer}
        elif isinstance(answer, str) and answer in question.get("options", CHOICES):
            return {"": answer}
        raise DatasetError(f"'{answer!s:.40}' does not answer the question", remedy="answer as the page asks")

    def _queue(self, count: int, seed: int) -> list[Task]:
        units = list(dict.fromkeys(units_to_label(self._result)))
        chances: Mapping[str, float] = {}
        if self._sampled:
            chances = recorded(self.folder) or {}
            if all(self._answers(self._task(seed, unit)) for unit in units if unit[0] in chances):
                sample = sample_for_labeling(self._result, count, seed)
                write_files(self.folder, {LABEL_SAMPLE: sample.content()})
                chances = sample.probabilities
            units = [unit for unit in units if unit[0] in chances]
        else:
            labeled = {case.id for case in self._cases.values() if has_own_label(case)}
            labeled |= {*(self._result.manifest.get("own_labels") or ())}
            units = [unit for unit in units if unit[0] not in labeled] or units
        if not units:
            raise ConfigError("the run has no verdicts to label", where=str(self.folder), remedy="name another run")
        units.sort(key=lambda unit: text_digest(f"{seed}\0{unit}"))
        tasks = [self._task(seed, unit, chances.get(unit[0], 1.0)) for unit in units]
        if self._sampled:
            return tasks
        labeled_tasks = sum(map(bool, map(self._answers, tasks)))
        return tasks[: count * (labeled_tasks // count + 1)]

    def _task(self, seed: int, unit: tuple[str, Unit], probability: float = 1.0) -> Task:
        case_id, responses = unit
        swapped = int(text_digest(f"{seed}\0{self.annotator}\0{unit}"), 16) % 2
        shown = responses[::-1] if swapped else responses
        return Task(case_id, responses, shown, task_texts(self._cases[case_id], shown), probability)


def _key(task: Task) -> tuple[str, Unit]:
    return task.case_id, task.unit


def _fingerprint(case: Case, unit: Unit) -> str:
    """Return a hash of a task's texts, by which its label is of another run if they change."""
    return digest([case.prompt, *(one.text for index, one in enumerate(case.responses) if index in unit)])[:16]


def _opened(file: Path) -> int:
    """Open and lock a file to add lines; a line that was not written completely is removed.

    Raises:
        ConfigError: If it cannot be written, or another session has it.
    """
    try:
        stream = os.open(file, _FLAGS, 0o666)
    except OSError as bad:
        raise ConfigError(f"cannot be written ({bad.strerror})", where=str(file), remedy=_REMEDY) from None
    if not _locked(stream):
        os.close(stream)
        remedy = "use that page, or --annotator NAME for another annotator"
        raise ConfigError("another page has it open", where=str(file), remedy=remedy)
    head, newline, tail = file.read_bytes().rpartition(b"\n")
    try:
        if tail and json.loads(tail):
            os.write(stream, b"\n")
    except ValueError:
        os.ftruncate(stream, len(head + newline))
    return stream


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other session adds its labels to the run in a folder."""
    stream = os.open(folder, os.O_RDONLY) if os.name == "posix" else None
    try:
        if stream is not None:
            _locked(stream, wait=True)
        yield
    finally:
        if stream is not None:
            os.close(stream)


def _locked(stream: int, *, wait: bool = False) -> bool:
    """Lock an open file; return whether no other process has it. Without locks, the answer is yes."""
    try:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True
