"""Questions that a table leaves open, each with a complete command for every answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Final

from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.values import frozen

_BARE: Final = re.compile(
    r"[A-Za-z0-9_./:=+][A-Za-z0-9_./:=+\-]*|--?[A-Za-z][A-Za-z\-]*"
)
_UNSAFE: Final = re.compile(r'["$`\\!]')


@frozen
class Answer:
    """An answer to a question: what it means, and the options that say so."""

    meaning: str
    options: tuple[str, ...]


@frozen
class Role:
    """The role of a column, its type, and why it has the role."""

    column: str
    role: str
    why: str
    type: str = ""


class OpenTableError(ConfigError):
    """A table that can be read in several ways, of which nothing is concluded.

    `roles` are those of the columns as far as they are known, and `answers` those to the question.
    """

    def __init__(
        self,
        what: str,
        where: str,
        answers: Sequence[Answer],
        roles: Sequence[Role] = (),
    ) -> None:
        super().__init__(what, where=where, remedy="use one of the commands above")
        self.answers = tuple(answers)
        self.roles = tuple(roles)

    @property
    def readings(self) -> list[list[str]]:
        """The options of each answer."""
        return [[*answer.options] for answer in self.answers]

    def with_roles(self, roles: Sequence[Role]) -> OpenTableError:
        """Return the question with the roles of the columns."""
        return OpenTableError(self.what, self.where, self.answers, self.roles or roles)


class UnreadColumnsError(DatasetError):
    """A table of which no columns could be read as verdicts, and others perhaps can."""


def without_people(where: str) -> UnreadColumnsError:
    """Return the error of a table that should have verdicts of people and has none."""
    remedy = "name the column that has them: --label COLUMN"
    return UnreadColumnsError(
        "has no column with verdicts of people", where=where, remedy=remedy
    )


class NoJudgeError(UnreadColumnsError):
    """A table without a judge's verdicts whose responses can be judged."""

    def __init__(self, what: str, where: str, remedy: str, judged_by: str = "") -> None:
        self._name_judge = remedy
        if judged_by:
            remedy = f"have it judged: {judged_by}; or {remedy}"
        super().__init__(what, where=where, remedy=remedy)

    def judged_by(self, words: str) -> NoJudgeError:
        """Return the refusal with the command that has the responses judged; it may be empty."""
        return NoJudgeError(self.what, self.where, self._name_judge, words)


def named_options(option: str, names: Iterable[str]) -> list[str]:
    """Return an option with each of several names, such as `--judge a --judge b`."""
    return [word for name in names for word in (option, name)]


def command(words: Sequence[str]) -> str:
    """Return a command as it can be pasted into a POSIX shell and into PowerShell."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if _BARE.fullmatch(word):
        return word
    if "'" not in word:
        return f"'{word}'"
    return quote(word) if _UNSAFE.search(word) else f'"{word}"'
