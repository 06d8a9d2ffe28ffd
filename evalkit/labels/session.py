"""One annotator's labels of a run: a queue of tasks, and a file in the run folder that
has each label at once.

All annotators see the cases in the same random order, so that those who stop early have labeled the
same cases. The order of the responses differs between annotators. `evalkit label RUN FILE` reads
the file too.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from evalkit.core.annotations import INCLUSION, Label
from evalkit.core.atomic_files import APPENDING, append_lines
from evalkit.core.checklists import inherited
from evalkit.core.claims import claim_file
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.hashing import digest, text_digest
from evalkit.core.image_files import picture_sources
from evalkit.core.types import Case, Unit
from evalkit.core.values import Json, JsonObject
from evalkit.interop.layouts.judgment_files import rows_of
from evalkit.labels.joined import class_reader, has_own_label, with_labels
from evalkit.labels.label_files import row_labels
from evalkit.labels.sample import LabelSample, label_of, recorded, sample_for_labeling
from evalkit.labels.tasks import (
    CHOICES,
    Task,
    labeled_size,
    shown_of,
    task_texts,
    units_to_label,
    unswapped,
)
from evalkit.runs.layout import LABEL_SAMPLE
from evalkit.runs.records import encode_line
from evalkit.runs.results import RunResult
from evalkit.runs.write import write_files

LONGEST_NOTE: Final = 10_000
_NAME: Final = re.compile(r"\w([\w .@+-]{0,38}\w)?")
_SHOWN = 8_000_000
"""The most bytes of the pictures of a task on the page."""
_LAST_KEY: Final = 10
"""The highest score that has a key, which is 0 unless a score of 0 has it."""
_OTHER_PAGE: Final = "use that page, or --annotator NAME for another annotator"
_REMEDY: Final = "check the folder's permissions and the free disk space"


Key: TypeAlias = tuple[str, Unit]
"""A task: the id of a case, and the responses to label."""


def _check_annotator(annotator: str) -> None:
    """Check that an annotator's name can be a part of a file's name.

    Raises:
        ConfigError: If it cannot.
    """
    if not _NAME.fullmatch(annotator):
        remedy = (
            "use up to 40 letters, digits, spaces and . _ @ + -, with a letter or digit at both"
            " ends"
        )
        raise ConfigError(
            "cannot name a file",
            where=f"--annotator {annotator:.60}",
            remedy=remedy,
        )


class LabelSession:
    """One annotator's tasks and labels, without judges, verdicts, names of models and
    labels of others.

    Args:
        result: The run, with its folder.
        annotator: The annotator's name.
        count: About how many tasks to label.
        seed: The seed of the order of cases and responses.
        informative: Whether to sample informative cases more often, with known probabilities.
            Otherwise the cases without a label of the data set are in random order, or all cases if
            there are none.
        sampler: How informative cases are sampled.

    Attributes:
        tasks: The tasks in the order of the page.
        question: What to answer, as the page reads it.
        skipped: The positions of skipped tasks.
        file: The file of labels.

    Raises:
        ConfigError: If the name is invalid, the folder cannot be written, or the annotator has
            another session.
        DatasetError: If the annotator's file has an invalid label, or labels of another run.
    """

    def __init__(
        self,
        result: RunResult,
        annotator: str,
        *,
        count: int,
        seed: int,
        informative: bool,
        sampler: Callable[[RunResult, int, int], LabelSample] = sample_for_labeling,
    ) -> None:
        """Claim the annotator's file, read the labels in it, and choose the tasks."""
        _check_annotator(annotator)
        self.annotator = annotator
        self.folder = Path(result.folder or "")
        self.file = self.folder / f"labels-{annotator}.jsonl"
        # Positions in `tasks`. They are of this page only, so a reload shows the tasks again.
        self.skipped: set[int] = set()
        self.question = _question_of(result)
        self._result, self._seed, self._sampler = result, seed, sampler
        # The probability of each sampled case; empty unless the most informative ones are
        # sampled.
        self._chances: Mapping[str, float] = {}
        self._reader = class_reader(result.config)
        self._classes = result.config.rubric.named_classes
        self._cases = {case.id: case for case in result.cases}
        # task -> item -> label; the item is "" unless the task is a checklist
        self._labels: dict[Key, dict[str, Label]] = {}
        self._notes: dict[Key, str] = {}
        # claimed first, so that two pages never write to one file
        self._claim = claim_file(self.file, _OTHER_PAGE)
        try:
            self._stream = _open_to_append(self.file)
        except BaseException:
            self._claim.release()
            raise
        try:
            # An empty file has no labels, which a reader of labels would call an error.
            if os.fstat(self._stream).st_size:
                for where, row in rows_of(self.file):
                    self._add_row(where, row)
            self.tasks = self._choose_tasks(count, informative)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._stream)
        self._claim.release()

    def new_labels(self, cases: Sequence[Case]) -> list[Label]:
        """Return the labels in the file that these cases of the run do not have yet."""
        cases_by_id = {case.id: case for case in cases}
        labels = [
            label for by_item in self._labels.values() for label in by_item.values()
        ]
        in_run = (
            self._known(cases_by_id[label.case_id], label.unit).get(label.item)
            for label in labels
        )
        return [
            label
            for label, value in zip(labels, in_run, strict=True)
            # By value: an answer that was changed is new too.
            if value != label.value
        ]

    @property
    def complete(self) -> bool:
        """Whether all tasks have a label."""
        return all(map(self._answers, self.tasks))

    def next_open(self, after: int = -1) -> int:
        """Return the position of the next task without a label that was not skipped,
        also before `after`.
        """
        tasks = range(len(self.tasks))
        is_open = (
            at
            # from the next task to the end, then from the start
            for at in (*tasks[after + 1 :], *tasks[: after + 1])
            if not self._answers(self.tasks[at])
        )
        return next((at for at in is_open if at not in self.skipped), len(self.tasks))

    def counts(self) -> JsonObject:
        """Return how many tasks there are, and how many are labeled and skipped."""
        return {
            "total": len(self.tasks),
            "labeled": sum(map(bool, map(self._answers, self.tasks))),
            "skipped": len(self.skipped),
        }

    def view(self, at: int) -> JsonObject:
        """Return what the page shows: counts, and the texts, answer and note of the
        task at a position, if any.
        """
        state = {"at": at, **self.counts()}
        # One past the last task: there is no open one.
        if at == len(self.tasks):
            return state
        task = self._show_task(self.tasks[at])
        answer = self._answers(self.tasks[at])
        # Stored winners are in the order of the case, while the page has the order shown.
        if self.question["kind"] == "pair":
            answer = {
                item: unswapped(winner, task.shown) for item, winner in answer.items()
            }
        items = list(self._items(self.tasks[at]).items())
        note = self._notes.get(self.tasks[at], "")
        texts = task.texts.values()
        images = picture_sources(texts, largest=_SHOWN, room=_SHOWN, files=False)
        return state | {
            **({"images": images} if images else {}),
            "texts": task.texts,
            "items": items,
            "answer": answer,
            "note": note,
        }

    def store(self, at: int, answer: Json | None, note: str) -> None:
        """Write the answer to a task to the file, by item, with a note; without an
        answer only a new note.

        Raises:
            DatasetError: If it does not answer the question.
            ConfigError: If the file cannot be written.
        """
        # nothing to write
        if answer is None and note == self._notes.get(self.tasks[at], ""):
            return
        if answer is not None and not self._is_answer(self.tasks[at], answer):
            raise DatasetError(
                "the answer does not fit the question", remedy="reload the page"
            )
        task = self._show_task(self.tasks[at])
        row: JsonObject = {
            "case_id": task.case_id,
            "annotator": self.annotator,
            "shown": ",".join(map(str, task.shown)),
        }
        # The chance is written with the label, so that metrics can weight it.
        if self._chances:
            row[INCLUSION] = task.probability
        row["note"] = note
        row["texts"] = _fingerprint(self._cases[task.case_id], task.unit)
        row["labeled_at"] = datetime.now(UTC).isoformat(timespec="seconds")
        # A note alone is a row whose label is empty.
        labels: Json = {"": None} if answer is None else answer
        rows = []
        for item, label in labels.items():
            # Only checklists have items.
            named = {"item": item} if item else {}
            rows.append({**row, **named, "label": label})
        # One write for all items: a task is labeled completely or not at all. Only then is it
        # added to what the session knows.
        self._write(b"".join(map(encode_line, rows)))
        for written in rows:
            self._add_row(str(self.file), written)
        if answer is not None:
            self.skipped.discard(at)

    def skip(self, at: int) -> None:
        """Leave a task without a label until the others are labeled."""
        if at < len(self.tasks) and not self._answers(self.tasks[at]):
            self.skipped.add(at)

    def _write(self, lines: bytes) -> None:
        # The page shows a label as saved, so it must survive a crash of the machine.
        try:
            append_lines(self._stream, lines)
        except OSError as bad:
            raise ConfigError(
                f"cannot be written ({bad.strerror})",
                where=str(self.file),
                remedy=_REMEDY,
            ) from None

    def _add_row(self, where: str, row: Json) -> None:
        """Add the labels and the note in a row of the file; those of other annotators are only
        checked.

        Args:
            where: The file and line of the row.
            row: The row.

        Raises:
            DatasetError: If it has a label that is not one of this run, or the case has changed
                since.
        """
        for label in row_labels(where, row, Counter(), self._reader):
            case = self._cases.get(label.case_id)
            # only for its error, if the label is not one of this run
            with_labels([case] if case else [], [label], classes=self._classes)
            # Ids alone are not enough: a label must not count for a text that the annotator did
            # not see.
            if case and row.get("texts") not in (None, _fingerprint(case, label.unit)):
                remedy = "its label is of another run: move the file elsewhere"
                raise DatasetError(
                    f"case '{case.id:.60}' has changed", where=where, remedy=remedy
                )
            # Later lines replace earlier ones, so the last answer counts.
            if label.annotator == self.annotator:
                self._labels.setdefault((label.case_id, label.unit), {})[label.item] = (
                    label
                )
        if (
            isinstance(note := row.get("note"), str)
            and row.get("annotator") == self.annotator
        ):
            self._notes[
                str(row.get("case_id")),
                # Sorted, since a task is identified by the order of the case and not by the order
                # shown.
                tuple(sorted(shown_of(row.get("shown"), where))),
            ] = note

    def _known(self, case: Case, unit: Unit) -> JsonObject:
        """Return the annotator's label in the run, by item if it is of a checklist."""
        answers = {
            item.id: item.labels[self.annotator]
            for item in case.checklist
            if self.annotator in item.labels
        }
        # A checklist's answers have an entry for each response of the case; `unit[0]` is this
        # one.
        by_item: JsonObject = {
            item: values[unit[0]] for item, values in answers.items()
        }
        if (annotation := case.labels.get(self.annotator)) is not None:
            by_item[""] = label_of(annotation, unit)
        return by_item

    def _answers(self, key: Key) -> JsonObject:
        by_item = self._known(self._cases[key[0]], key[1])
        # The file wins over the run: it has what was answered since.
        by_item |= {
            item: label.value for item, label in self._labels.get(key, {}).items()
        }
        return {
            item: by_item[item]
            for item in self._items(key)
            if by_item.get(item) is not None
        }

    def _items(self, key: Key) -> dict[str, list[str]]:
        """Return the criteria of each item by id, those of its groups first; one empty
        id without a checklist.
        """
        if self.question["kind"] == "items":
            checklist = self._cases[key[0]].checklist
        else:
            checklist = ()
        return {
            item.id: [*groups, item.criterion]
            for item, groups, *_ in inherited(checklist)
        } or {"": []}

    def _is_answer(self, key: Key, answer: Any) -> bool:
        """Return whether what a page sent is an answer to a task."""
        question = self.question
        # From the page, so nothing about its form is certain.
        if not isinstance(answer, dict) or answer.keys() != self._items(key).keys():
            return False
        # `type`, because a bool is an int
        if question["kind"] == "grade":
            grade = answer[""]
            return (
                type(grade) in (int, float)
                and question["low"] <= grade <= question["high"]
            )
        return all(
            isinstance(label, str) and label in question["options"]
            for label in answer.values()
        )

    def _choose_tasks(self, count: int, informative: bool) -> list[Key]:
        """Return the tasks of the page: a sample of informative ones, or the next ones at random.

        Raises:
            ConfigError: if the run has no verdict to label.
        """
        keys = [
            (case, unit)
            for case, units in units_to_label(self._result).items()
            for unit in dict.fromkeys(units)
        ]
        # random, but the same each time, whatever the order of the run
        keys.sort(key=lambda key: text_digest(f"{self._seed}\0{key}"))
        if informative:
            tasks = self._sampled_tasks(keys, count)
        else:
            tasks = self._next_tasks(keys, count)
        if not tasks:
            raise ConfigError(
                "the run has no verdicts to label",
                where=str(self.folder),
                remedy="name another run",
            )
        return tasks

    def _sampled_tasks(self, keys: Sequence[Key], count: int) -> list[Key]:
        """Return the tasks of the last sample of informative cases, or of a new one of
        `count` cases.

        A sample must be finished before the next one: probabilities are those of a whole sample.
        """
        self._chances = recorded(self.folder) or {}
        is_finished = all(
            self._answers(key) or has_own_label(self._cases[key[0]])
            for key in keys
            if key[0] in self._chances
        )
        # Also if there is no sample yet.
        if is_finished:
            sample = self._sampler(self._result, count, self._seed)
            write_files(self.folder, {LABEL_SAMPLE: sample.content()})
            self._chances = sample.probabilities
        sampled = [key for key in keys if key[0] in self._chances]
        unlabeled = [key for key in sampled if not has_own_label(self._cases[key[0]])]
        # With nothing left, the labeled ones are shown again, so that they can be changed.
        return unlabeled or sampled

    def _next_tasks(self, keys: Sequence[Key], count: int) -> list[Key]:
        """Return the first tasks without a label of the data, `count` more once these
        have labels.
        """
        labeled = {*(self._result.manifest.get("own_labels") or ())}
        unlabeled = [
            key
            for key in keys
            if not (key[0] in labeled or has_own_label(self._cases[key[0]]))
        ]
        tasks = unlabeled or [*keys]
        answered = sum(bool(self._answers(key)) for key in tasks)
        return tasks[: count * (answered // count + 1)]

    def _show_task(self, key: Key) -> Task:
        """Return a task with its responses in the order in which this annotator sees them."""
        case_id, unit = key
        # whether the responses are swapped depends only on seed, annotator and task, so
        # that a reload of the page shows the same order
        swapped = int(text_digest(f"{self._seed}\0{self.annotator}\0{key}"), 16) % 2
        order = unit[::-1] if swapped else unit
        return Task(
            case_id,
            unit,
            order,
            task_texts(self._cases[case_id], order),
            self._chances.get(case_id, 1.0),
        )


def _question_of(result: RunResult) -> JsonObject:
    """Return what to answer: `kind` is pair, items, class or grade; `options` are the
    answers, or scores with a key.
    """
    rubric = result.config.rubric
    scale = rubric.scale
    if labeled_size(result) == 2:
        return {"kind": "pair", "options": CHOICES}
    if result.config.mode.name == "checklist":
        return {"kind": "items", "options": ("met", "not_met")}
    if rubric.named_classes is not None:
        return {"kind": "class", "options": rubric.named_classes.names}
    if scale.real:
        return {"kind": "grade", "options": []}
    # a key for each score, as long as no two scores have the same last digit
    digits = scale.integral and scale.min >= 0 and scale.max <= _LAST_KEY
    scores = list(map(int, scale.values())) if digits else []
    if len({score % _LAST_KEY for score in scores}) == len(scores):
        options = scores
    else:
        options = []
    return {"kind": "grade", "options": options, "low": scale.min, "high": scale.max}


def _fingerprint(case: Case, unit: Unit) -> str:
    """Return a hash of a task's texts, by which its label is of another run if they change."""
    return digest(
        [
            case.prompt,
            *(
                response.text
                for index, response in enumerate(case.responses)
                if index in unit
            ),
        ]
    )[:16]


def _open_to_append(file: Path) -> int:
    """Open a file to add lines; a line that was not written completely is removed.

    Raises:
        ConfigError: If it cannot be written.
    """
    try:
        stream = os.open(file, APPENDING, 0o666)
        head, newline, tail = file.read_bytes().rpartition(b"\n")
        try:
            os.write(stream, b"\n" if tail and json.loads(tail) else b"")
        except (ValueError, RecursionError):
            os.ftruncate(stream, len(head + newline))
    except OSError as bad:
        raise ConfigError(
            f"cannot be written ({bad.strerror})", where=str(file), remedy=_REMEDY
        ) from None
    return stream
