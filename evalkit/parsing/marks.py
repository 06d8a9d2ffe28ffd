"""Which of the marks in a judge's text is its verdict, and which a quotation of the texts it judges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from evalkit.parsing.refusals import is_refusal
from evalkit.parsing.unreadable import UnreadableError

Take: TypeAlias = Literal["last", "first", "only"]
T = TypeVar("T")

_DECORATION = " \t*_#`~.。"
_QUOTES = "[\"'“”‘’「」『』«»]"
_LABEL = re.compile(rf"(?:(?!{_QUOTES})[^\[\]>]){{1,40}}[:：]")
_CONTEXT = 8


@dataclass(frozen=True, slots=True)
class Mark:
    """Something of a verdict's form: what it holds, and where in its text it stands."""

    held: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Choice:
    """How one of several marks is chosen.

    `cut_off` tells that the text ends early: what would have come last is then unknown. `sources` are the texts under
    judgment: where one of them holds a verdict itself, the judge may be quoting it, and only a mark that closes the
    answer (opens it, for `first`) is the judge's own; it must stand alone in its line, or after a label, if `alone`.
    """

    take: Take = "last"
    wanted: str = "a verdict"
    cut_off: bool = False
    sources: Sequence[str] = ()
    alone: bool = True


def choose(text: str, find: Callable[[str], Sequence[Mark]], read: Callable[[str], T], choice: Choice) -> T:
    """Return what the chosen mark says.

    Args:
        text: the judge's answer.
        find: returns the marks in a text, in order.
        read: returns what a mark's content says, or raises UnreadableError.
        choice: how to choose.

    Raises:
        UnreadableError: if there is none, the chosen one cannot be read, or it cannot be told which is meant.
    """
    marks = find(text)
    if not marks:
        raise UnreadableError("no_answer", f"there is no verdict: {choice.wanted} is missing")
    if any(_said(find(source), read) for source in choice.sources):
        marks = _own(text, marks, choice)
    if choice.take == "only":
        _agree([read(mark.held) for mark in marks])
    elif choice.cut_off and choice.take == "last":
        _agree(_said(marks, read))
    return read(marks[0 if choice.take == "first" else -1].held)


def _said(marks: Sequence[Mark], read: Callable[[str], T]) -> list[T]:
    said: list[T] = []
    for mark in marks:
        try:
            said.append(read(mark.held))
        except UnreadableError:
            continue
    return said


def _agree(values: Sequence[object]) -> None:
    if any(value != values[0] for value in values):
        raise UnreadableError("ambiguous", f"there are {len(values)} verdicts and they differ")


def _own(text: str, marks: Sequence[Mark], choice: Choice) -> list[Mark]:
    """Return the marks that are the judge's own although a text under judgment holds such a mark, too."""
    if is_refusal(text):
        raise UnreadableError("refusal", f"the judge refused: {text.strip()[:200]}")
    begin, end = _line(text, first=choice.take == "first")
    own = [
        mark
        for mark in marks
        if begin <= mark.start
        and mark.end <= end
        and _apart(text[begin : mark.start], text[mark.end : end], choice)
        and not any(_copied(text, mark, source) for source in choice.sources)
    ]
    if not own or choice.cut_off:
        raise UnreadableError(
            "ambiguous",
            "a text under judgment holds a verdict of this form, so the judge's must stand alone at the end",
        )
    return own


def _line(text: str, *, first: bool) -> tuple[int, int]:
    """Return where the last (first) line that says anything begins and ends."""
    lines = [match for match in re.finditer(r"[^\r\n]+", text) if match[0].strip(_DECORATION)]
    return lines[0 if first else -1].span() if lines else (0, 0)


def _apart(before: str, after: str, choice: Choice) -> bool:
    """Say whether a mark stands as a judge's own does: at the end of a line that quotes nothing."""
    if after.strip(_DECORATION):
        return False
    lead = before.strip(_DECORATION)
    if not lead:
        return True
    if not choice.alone:
        return not re.search(rf"\A>|{_QUOTES}\Z", lead)
    # A label such as "Verdict:" is the judge's own unless a text under judgment has it before a mark, too.
    return bool(_LABEL.fullmatch(lead)) and not any(lead in source for source in choice.sources)


def _copied(text: str, mark: Mark, source: str) -> bool:
    """Say whether what stands before a mark stands before the same mark in `source`, white space apart."""
    head, spelt = _flat(text[: mark.start]), _flat(text[mark.start : mark.end])
    flat = _flat(source)
    places = (match.start() for match in re.finditer(re.escape(spelt), flat))
    return any(head.endswith(flat[max(0, place - _CONTEXT) : place]) for place in places if place)


def _flat(text: str) -> str:
    return "".join(text.split())
