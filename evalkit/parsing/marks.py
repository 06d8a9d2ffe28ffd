"""Which of the marks in a judge's text is its verdict, and which a quotation of the texts it judges."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from evalkit.parsing.escapes import undone
from evalkit.parsing.refusals import is_refusal
from evalkit.parsing.thinking import drop_thinking
from evalkit.parsing.unreadable import UnreadableError

Take: TypeAlias = Literal["last", "first", "only"]
T = TypeVar("T")

_DECORATION = " \t*_#`~.。"
_QUOTES = "[\"'“”‘’「」『』«»]"
_LABEL = re.compile(rf"(?:(?!{_QUOTES})[^\[\]>]){{1,40}}[:：]")
_CONTEXT = 8
_MOST = 500


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
    text = drop_thinking(text, choice.sources)
    marks = find(text)
    if not marks:
        raise UnreadableError("no_answer", f"there is no verdict: {choice.wanted} is missing")
    spelt = {one for source in choice.sources for one in (source, undone(source))}
    if theirs := [value for source in spelt for value in _said(find(source), read)]:
        own = _own(text, marks, choice, spelt)
        # An echo says what they say: then nothing else in the answer may say otherwise.
        if read(own[0].held) in theirs:
            _agree(_said(marks, read))
        marks = own
    if choice.take == "only":
        _agree([read(held) for held in dict.fromkeys(mark.held for mark in marks)])
    elif choice.cut_off and choice.take == "last":
        _agree(_said(marks, read))
    return read(marks[0 if choice.take == "first" else -1].held)


def _said(marks: Sequence[Mark], read: Callable[[str], T]) -> list[T]:
    """Return what the marks say that can be read, each once."""
    held = dict.fromkeys(mark.held for mark in marks)
    if len(held) > _MOST:
        raise UnreadableError("ambiguous", f"there are {len(held)} verdicts")
    said: list[T] = []
    for one in held:
        try:
            said.append(read(one))
        except UnreadableError:
            continue
    return said


def _agree(values: Sequence[object]) -> None:
    if any(value != values[0] for value in values):
        raise UnreadableError("ambiguous", f"there are {len(values)} verdicts and they differ")


def _own(text: str, marks: Sequence[Mark], choice: Choice, sources: Collection[str]) -> list[Mark]:
    """Return the mark that is the judge's own although a text under judgment holds such a mark, too."""
    if is_refusal(text):
        raise UnreadableError("refusal", f"the judge refused: {text.strip()[:200]}")
    begin, end = _line(text, first=choice.take == "first")
    # Of the marks in a line, nothing but the last is at its end.
    own = [mark for mark in marks if begin <= mark.start and mark.end <= end][-1:]
    if (
        choice.cut_off
        or not own
        or not _apart(text[begin : own[0].start], text[own[0].end : end], choice, sources)
        or any(_copied(text, own[0], source) for source in sources)
    ):
        raise UnreadableError(
            "ambiguous",
            "a text under judgment holds a verdict of this form, so the judge's must stand alone at the end",
        )
    return own


def _line(text: str, *, first: bool) -> tuple[int, int]:
    """Return where the last (first) line that says anything begins and ends."""
    lines = [match.span() for match in re.finditer(r"[^\r\n]+", text) if match[0].strip(_DECORATION)]
    return lines[0 if first else -1] if lines else (0, 0)


def _apart(before: str, after: str, choice: Choice, sources: Collection[str]) -> bool:
    """Say whether a mark stands as a judge's own does: at the end of a line that quotes nothing."""
    if after.strip(_DECORATION):
        return False
    lead = before.strip(_DECORATION)
    if not lead:
        return True
    if not choice.alone:
        return not re.search(rf"\A>|{_QUOTES}\Z", lead)
    # A label such as "Verdict:" is the judge's own unless a text under judgment has it before a mark, too.
    return bool(_LABEL.fullmatch(lead)) and not any(lead in source for source in sources)


def _copied(text: str, mark: Mark, source: str) -> bool:
    """Say whether what stands before a mark stands before the same mark in `source`, white space apart."""
    head, spelt = _flat(undone(text[: mark.start])), _flat(undone(text[mark.start : mark.end]))
    flat = _flat(source)
    places = (match.start() for match in re.finditer(re.escape(spelt), flat))
    return any(head.endswith(flat[max(0, place - _CONTEXT) : place]) for place in places if place)


def _flat(text: str) -> str:
    return "".join(text.split())
