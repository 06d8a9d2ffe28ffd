"""What an importer makes of a file: one record for each judgment, before cases are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

from evalkit.datasets.labels import normalize_label
from evalkit.errors import DatasetError
from evalkit.parsing import UnreadableError, read_winner
from evalkit.types import Case, Judgment, Status, Winner

TIE = "TIE"


@dataclass(frozen=True, slots=True)
class Answer:
    """One response: `key` tells it from the others to its question; `grade` is what people gave it."""

    key: str
    text: str = ""
    model: str | None = None
    grade: float | None = None


@dataclass(frozen=True, slots=True)
class RecordedJudgment:
    """What is stored of one judgment.

    Of a pair: `value` in [-1, 1], above 0 where the response shown first is better. Of one response: `scores` by
    criterion. Without either it is missing, for the reason in `status` and `error`. `text` is the judge's own words.
    `sample` is counted where it is not given.
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
    answer: Mapping[str, Any] | None = None

    @property
    def read(self) -> bool:
        """Whether it holds a value."""
        return self.value is not None or bool(self.scores)


@dataclass(frozen=True, slots=True)
class Record:
    """One judgment of one response, or of two in the order `shown`, with the question they answer.

    `better` is people's choice: the key of a response, or TIE; `labels` holds single people's, by their name, and
    `grades` single people's grades of the one response.
    """

    question: str
    prompt: str
    shown: tuple[Answer, ...]
    said: RecordedJudgment
    better: str | None = None
    context: str | None = None
    reference: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    grades: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What an importer found: records, and what they say of the config.

    `output` is how the judge's texts are read, where they are read at all; `scale` (min, max, step) that of scores,
    guessed from them if it is not given. `weights` of criteria are 1 where they are not given. `by_name` puts a
    question's responses in the order of their models, else they stand as they were first seen. `benchmark` names the
    one whose rule scores them, too. `unread` says that there are judges' texts alone, and no verdict on them. `below`
    says that files in folders below the one named were looked at, too.
    """

    records: Sequence[Record]
    output: Mapping[str, Any] | None = None
    scale: tuple[float, float, float] | None = None
    criteria: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    by_name: bool = False
    benchmark: str | None = None
    notes: tuple[str, ...] = ()
    unread: bool = False
    below: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may say of an import.

    `fields` maps canonical names to columns (format generic). `dimension` names what people's grades are of, where a
    file has several. `scores` takes scores where a file has both scores and winners. `judge` names the judge where the
    file does not. `custom_id` is the pattern of a batch's ids, `cases` what they are of. `winners` are other spellings.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    dimension: str | None = None
    scores: bool = False
    judge: str | None = None
    custom_id: str | None = None
    cases: tuple[Case, ...] = ()
    winners: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportedJudgments:
    """Cases and judgments made of a file, and the settings that describe them, as a config has them.

    `unread` says that the file holds judges' texts alone, and no verdict on them. `format` names the layout it is in.
    """

    cases: tuple[Case, ...]
    judgments: tuple[Judgment, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    unread: bool = False
    format: str = ""


class NumberedNames(dict[str, str]):
    """Names for texts: their number, in the order in which they are first asked for."""

    def __missing__(self, text: str) -> str:
        self[text] = str(len(self) + 1)
        return self[text]


UNORDERED = "the file does not say which response was shown first: figures on order and position say nothing"


def missing_record(
    judge: str, error: str, *, text: str | None = None, status: Status = "unparseable", **more: Any
) -> RecordedJudgment:
    """Return what is stored of a judgment that holds no value."""
    return RecordedJudgment(judge, text=text, status=status, error=error, **more)


NONE = "NONE"
_NOTHING = ("", "-1", "none", "null", "nan", "n/a", "error", "failed", "invalid", "invalid_judge", "unparseable")
_TIES = ("tie (bothbad)", "tie (inconsistent)", "both", "neither", "same", "equal", "c")
_FIRST = ("a", "model_a", "model_1", "response_a", "response_1", "output_1", "first", "left")
_SECOND = ("b", "model_b", "model_2", "response_b", "response_2", "output_2", "second", "right")


def parse_winner(
    value: Any, names: tuple[str | None, str | None], known: Mapping[str, str] | None, place: str
) -> Winner | None:
    """Return the winner that a cell spells, none where it says that there is none.

    Args:
        value: the cell.
        names: the models of the first and the second response, which may be what it spells.
        known: the user's own spellings, to A, B, TIE or NONE; none where no option gives any.
        place: where it stands.

    Raises:
        DatasetError: if it spells something else.
    """
    if value is None:
        return None
    text = normalize_label(value)
    mapped = known is not None
    if known and text in known:
        return None if known[text] == NONE else _checked(known[text], place, mapped)
    if text in names and names[0] != names[1]:
        return "A" if text == names[0] else "B"
    folded = text.casefold()
    if folded in _NOTHING:
        return None
    if folded in _FIRST:
        return "A"
    if folded in _SECOND:
        return "B"
    if folded in _TIES:
        return "TIE"
    return _checked(text, place, mapped)


def _checked(text: str, place: str, mapped: bool) -> Winner:
    try:
        return read_winner(text)
    except UnreadableError:
        remedy = f"say what it means: --map {quote(f'{text}=A')} (or B, TIE, NONE)" if mapped else "write A, B or TIE"
        raise DatasetError(f"'{text[:60]}' is not a winner", where=place, remedy=remedy) from None
