"""The classes of a rubric, such as pass and fail: their names and meanings, and the strict reading of an answer."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

_LONGEST: Final = 40
_MOST: Final = 100
_RESERVED: Final = '[]<>{}"\\【】〔〕'
_EDGES: Final = " \t*_#`~.。'“”‘’「」『』«»:："
"""Characters around an answer that are not part of it."""
_NOT_FINITE: Final = ("nan", "infinity", "-infinity")


class ClassDefinition(Protocol):
    """The definition of classes, as in a rubric."""

    @property
    def classes(self) -> Mapping[str, str]:
        """The meaning of each class by its name."""

    @property
    def ordered(self) -> bool:
        """Whether the classes are ordered, lowest first."""

    @property
    def positive(self) -> str | None:
        """The positive class."""

    @property
    def abstain(self) -> str | None:
        """The answer that declines to choose a class."""


def fold_class(text: str) -> str:
    """Return a text in the form in which answers and names are compared: without case, width and decoration."""
    # Models escape underscores for Markdown renderers, and no name has a backslash.
    plain = unicodedata.normalize("NFKC", text.replace("\\", "")).strip(_EDGES)
    return " ".join(plain.casefold().split())


@dataclass(frozen=True)
class Classes:
    """The classes in the order of the config, with their meanings, and the answer that declines to choose one."""

    meanings: Mapping[str, str]
    ordered: bool = False
    positive: str | None = None
    abstain: str | None = None

    @classmethod
    def of(cls, rubric: ClassDefinition) -> Classes:
        """Return the classes of a rubric."""
        return cls(dict(rubric.classes), rubric.ordered, rubric.positive, rubric.abstain)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(self.meanings)

    @property
    def answers(self) -> tuple[str, ...]:
        """Everything that a judge may answer: the classes, then the abstention if it is allowed."""
        return self.names if self.abstain is None else (*self.names, self.abstain)

    def __len__(self) -> int:
        return len(self.meanings)

    def find(self, text: str) -> str | None:
        """Return the answer that a text spells, in any case; `None` for anything else, never the nearest."""
        return self._folded.get(fold_class(text))

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        return {fold_class(name): name for name in self.answers}

    def problem(self) -> str | None:
        """Return what is wrong with the names, as `WHAT: REMEDY`; `None` if nothing is."""
        if len(self) < 2:
            return "classes has fewer than two classes: add another, such as {pass: MEANING, fail: MEANING}"
        if len(self) > _MOST:
            return f"classes has {len(self)} classes: use at most {_MOST}"
        for name in self.answers:
            if fault := _fault(name):
                return f"the class name {name!r:.60} {fault}"
        seen: dict[str, str] = {}
        for name in self.names:
            other = seen.setdefault(fold_class(name), name)
            if other != name:
                return f"the classes '{other}' and '{name}' differ only in case or width: rename one of them"
        if self.abstain is not None and (same := seen.get(fold_class(self.abstain))):
            return f"abstain is '{self.abstain}', which is also the class '{same}': give the abstention its own name"
        return None


def _fault(name: str) -> str | None:
    """Return why a name cannot be a class, as a clause and a remedy."""
    if not name.strip():
        return "is empty: name the class"
    if bad := next((char for char in unicodedata.normalize("NFKC", name) + name if _is_reserved(char)), None):
        return f"contains {bad!r}, which an answer cannot hold: use letters, digits, spaces, - and _"
    if name != name.strip(_EDGES):
        return "begins or ends with a space or a mark: begin and end it with a letter or digit"
    if len(name) > _LONGEST:
        return f"is longer than {_LONGEST} characters: shorten it, and put the details in its meaning"
    if name.casefold() in _NOT_FINITE:
        return "is a number: use another name"
    return None


def _is_reserved(char: str) -> bool:
    return char in _RESERVED or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
