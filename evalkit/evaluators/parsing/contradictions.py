"""Notice that the words around a JSON object state another decision than the object."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from evalkit.evaluators.parsing.mentions import is_denied
from evalkit.evaluators.parsing.plain_text import (
    UnreadableError,
    drop_thinking,
    to_half_width,
    unescape,
)
from evalkit.evaluators.parsing.stated_verdicts import marks, on_their_own

T = TypeVar("T")

_STATED = re.compile(
    r"(?:(?:so|thus|hence|therefore|finally|on reflection|in conclusion|总之|综上所述|因此|所以)[,， ] ?)?"
    r"(?:(?:my|the|我的) ?)?(?P<last>(?:(?:final|overall|最终的?|总体的?) ?)*)"
    r"(?:winner|verdict|decision|class|category|label|胜者|获胜者|结论|裁决|判定|类别)"
    r" ?(?:[:：=]|is\b|是|为)(?P<decision>.{1,60})",
    re.IGNORECASE,
)
"""A line that states a decision after its name; `last` says that it is the last one."""
_EDGES = " \t*_#`~>.。!！|\"'“”"


def check_words(
    text: str,
    find_sources: Callable[[], Sequence[str]],
    read: Callable[[str], T],
    decision: T,
) -> None:
    """Refuse an answer whose words outside of its JSON object state another decision.

    Args:
        text: The judge's text.
        find_sources: Returns the texts under judgment; a line from one of them is a quotation.
        read: Reads a decision, or raises UnreadableError.
        decision: The decision in the object.

    Raises:
        UnreadableError: If another decision is stated.
    """
    whole = text.strip()
    # Most answers are nothing but the object.
    if whole.startswith("{") and whole.endswith("}"):
        return
    sources = find_sources()
    answer = to_half_width(drop_thinking(text, sources))
    begin = answer.find("{")
    end = answer.rfind("}") + 1
    if not 0 <= begin < end:
        return
    # What is said before the object may be about one criterion.
    for part, is_last in ((answer[:begin], False), (answer[end:], True)):
        for written in _stated(part, sources, is_last=is_last):
            try:
                stated = read(written)
            except UnreadableError:
                continue
            if stated != decision:
                problem = f"the JSON object says {decision} and the text says {stated}"
                raise UnreadableError("ambiguous", problem)


def _stated(text: str, sources: Collection[str], *, is_last: bool) -> Iterator[str]:
    """Yield what is written as a decision in double brackets or after its name.

    Args:
        text: A part of the answer.
        sources: The texts under judgment.
        is_last: Whether a decision counts that does not say that it is the last one.
    """
    if not text.strip(_EDGES):
        return
    quoted = [*sources, *map(unescape, sources)]
    own = "\n".join(
        line
        for line in text.splitlines()
        if line.strip() and not any(line.strip() in source for source in quoted)
    )
    own_marks = [mark for mark in marks(own) if not is_denied(own, mark.start)]
    yield from (mark.content for mark in on_their_own(own, own_marks))
    for line in own.splitlines():
        stated = _STATED.fullmatch(line.strip(_EDGES))
        if stated is not None and (is_last or stated["last"]):
            yield stated["decision"].strip(_EDGES)
