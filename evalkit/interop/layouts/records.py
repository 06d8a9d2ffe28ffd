"""The result of an importer: one record per judgment, before conversion to cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field
from pathlib import Path
from shlex import quote
from typing import Any

from evalkit.config.table_reading import NO_VERDICT
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.types import (
    Case,
    ChecklistItem,
    ItemAnswer,
    Judgment,
    Status,
    WeightedJudgment,
    Winner,
)
from evalkit.core.values import Json, frozen
from evalkit.datasets.labels import normalize_label
from evalkit.evaluators.parsing import UnreadableError, read_winner
from evalkit.interop.layouts.judgment_files import Peek

TIE = "TIE"


@frozen
class Answer:
    """One response: `key` identifies it among the responses to its question.

    `grade` or `class_name` is the annotators' label. `messages` are the conversation, if it is more
    than a prompt and an answer as texts.
    """

    key: str
    text: str = ""
    model: str | None = None
    grade: float | None = None
    class_name: str | None = None
    messages: Sequence[Any] | None = field(default=None, compare=False)


@frozen
class RecordedJudgment:
    """One recorded judgment.

    A pair has a `value` in [-1, 1], positive if the response shown first is better. A response has
    `scores` by criterion, a `class_name`, or `items`: the answer to each checklist item. Without
    any, the judgment is missing, for the reason in `status` and `error`. `text` is the judge's
    text. `sample` is numbered automatically if it is not set. `weighted` has the expected scores of
    a judge that gives probabilities.
    """

    judge: str
    value: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    text: str | None = None
    status: Status = "unparseable"
    error: str | None = None
    confidence: float | None = None
    sample: int | None = None
    model: str | None = None
    answer: Json | None = None
    items: Mapping[str, ItemAnswer | None] = field(default_factory=dict)
    weighted: WeightedJudgment | None = None
    class_name: str | None = None

    @property
    def read(self) -> bool:
        """Whether it has a value."""
        scored = self.value is not None or bool(self.scores)
        return scored or self.class_name is not None or any(self.items.values())


@frozen
class Record:
    """The judgment of one response, or of two in the order `shown`, with their question.

    `others` are the judgments of other judges on the same responses, shown in the same order.
    `better` is the human choice: the key of a response, or TIE. `labels` are choices by annotator,
    and `grades` and `classes` are those of the single response by annotator. `checklist` are the
    question's items.
    """

    question: str
    prompt: str
    shown: tuple[Answer, ...]
    said: RecordedJudgment
    better: str | None = None
    context: str | None = None
    reference: str | None = None
    metadata: Json = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    grades: Mapping[str, float] = field(default_factory=dict)
    checklist: tuple[ChecklistItem, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    others: tuple[RecordedJudgment, ...] = ()


@frozen
class ParsedFile:
    """Records of an importer, with information about the config.

    `output` describes how to read the judge's texts, if they are read; `scale` (min, max, step) is
    that of scores, guessed if it is not set; `rubric` has settings that replace it. `weights` of
    criteria default to 1. `by_name` sorts a question's responses by model; otherwise they are in
    order of first occurrence. `benchmark` is the benchmark whose rule also scores them. `unread`
    means that there are only judges' texts without verdicts. `below` means that subfolders were
    read too. `rule` is the value of `scoring.checklist`.
    """

    records: Sequence[Record]
    output: Json | None = None
    scale: tuple[float, float, float] | None = None
    criteria: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    by_name: bool = False
    benchmark: str | None = None
    notes: tuple[str, ...] = ()
    unread: bool = False
    below: bool = False
    rule: str | None = None
    rubric: Json = field(default_factory=dict)


@frozen
class Options:
    """The user's options for an import.

    `fields` maps canonical names to columns (format generic). `dimension` selects the human grades
    if a file has several, and in a log a grader whose scores are labels. `scores` selects scores if
    a file has both scores and winners. `judge` is the judge's name if the file does not have it.
    `custom_id` is the pattern of a batch's ids, and `cases` are its cases. `winners` are more
    spellings. `answers` reads all answers of a log, also those that no judge judged.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    dimension: str | None = None
    scores: bool = False
    judge: str | None = None
    custom_id: str | None = None
    cases: tuple[Case, ...] = ()
    winners: Mapping[str, str] = field(default_factory=dict)
    answers: bool = False


@frozen
class ImportedJudgments:
    """Imported cases and judgments, and the config settings that describe them.

    `unread` means that the file has only judges' texts without verdicts. `format` is the name of
    its format.
    """

    cases: tuple[Case, ...]
    judgments: Sequence[Judgment]
    settings: Json
    notes: tuple[str, ...] = ()
    unread: bool = False
    format: str = ""


class NumberedNames(dict[str, str]):
    """Names for texts: numbers in order of first use."""

    def __missing__(self, text: str) -> str:
        self[text] = str(len(self) + 1)
        return self[text]


class HeardWords(dict[str, str]):
    """The user's meanings of words, with all words that a reader looked up in `heard`."""

    def __init__(self, meanings: Mapping[str, str]) -> None:
        super().__init__(meanings)
        self.heard: set[str] = set()

    def __contains__(self, word: object) -> bool:
        self.heard.add(str(word))
        return super().__contains__(word)


def require_heard(path: Path, meanings: Mapping[str, str], heard: Set[str]) -> None:
    """Raise an error about the first word that the user maps and nobody says.

    All words that someone says are noted as heard.

    Raises:
        ConfigError: If there is one.
    """
    if isinstance(meanings, HeardWords):
        meanings.heard |= heard
    unsaid = next((word for word in meanings if word not in heard), None)
    if unsaid is None:
        return
    remedy = f"omit it: no verdict or label in {path} is a word that --map changes"
    raise ConfigError(
        f"no rater in {path} says this",
        where=f"--map {unsaid}={meanings[unsaid]}",
        remedy=did_you_mean(unsaid, sorted(heard)) if heard else remedy,
    )


UNORDERED = (
    "the file does not state which response was shown first: metrics on order and position are"
    " meaningless"
)


def missing_record(
    judge: str,
    error: str,
    *,
    text: str | None = None,
    status: Status = "unparseable",
    **fields: Any,
) -> RecordedJudgment:
    """Return a recorded judgment without a value."""
    return RecordedJudgment(judge, text=text, status=status, error=error, **fields)


NONE = NO_VERDICT
NOTHING = (
    *("", "-", "--", "—", "-1", "none", "null", "nan", "na", "n/a", "n.a.", "#n/a"),
    *("error", "failed", "invalid", "invalid_judge", "unparseable"),
)
"""Cells that state that there is no verdict."""
_TIES = ("tie (bothbad)", "tie (inconsistent)", "both", "neither", "same", "equal", "c")
_FIRST = (
    "a",
    "model_a",
    "model_1",
    "response_a",
    "response_1",
    "output_1",
    "first",
    "left",
)
_SECOND = (
    "b",
    "model_b",
    "model_2",
    "response_b",
    "response_2",
    "output_2",
    "second",
    "right",
)


def parse_winner(
    value: Any,
    names: tuple[str | None, str | None],
    spellings: Mapping[str, str] | None,
    location: str,
) -> Winner | None:
    """Return the winner in a cell; `None` if it states that there is none.

    Args:
        value: The cell.
        names: The models of the first and the second response, which can be the cell's value.
        spellings: The user's spellings of A, B, TIE or NONE; `None` if no option sets any.
        location: The cell's location.

    Raises:
        DatasetError: If it is anything else.
    """
    if value is None:
        return None
    text = normalize_label(value)
    mapped = spellings is not None
    if spellings and text in spellings:
        if spellings[text] == NONE:
            return None
        # The user's spelling wins over all others.
        return _checked(spellings[text], location, mapped)
    # The name of a model says nothing if both responses are its own.
    if text in names and names[0] != names[1]:
        if text == names[0]:
            return "A"
        return "B"
    folded = text.casefold()
    if folded in NOTHING:
        return None
    if folded in _FIRST:
        return "A"
    if folded in _SECOND:
        return "B"
    if folded in _TIES:
        return "TIE"
    return _checked(text, location, mapped)


def _checked(text: str, location: str, mapped: bool) -> Winner:
    try:
        return read_winner(text)
    except UnreadableError:
        if mapped:
            remedy = f"map it: --map {quote(f'{text}=A')} (or B, TIE, NONE)"
        else:
            remedy = "write A, B or TIE"
        raise DatasetError(
            f"'{text[:60]}' is not a winner", where=location, remedy=remedy
        ) from None


@frozen
class Importer:
    """An importer of judgments in one published format: `evalkit import NAME FILE`.

    Attributes:
        name: The name of the format.
        about: Its files, for the help.
        sniff: Returns whether a file with this beginning may be in the format.
        read: Returns the records of a file, or the judgments of the given cases.
        is_log: Whether its files have the answers of models, which other judges can judge.
        needs_cases: Whether its files have only a judge's texts, for the cases of a dataset.
    """

    name: str
    about: str
    sniff: Callable[[Peek], bool]
    read: Callable[[Path, Options], ParsedFile | ImportedJudgments]
    is_log: bool = False
    needs_cases: bool = False
