"""Neutralize texts under judgment, so that they cannot imitate a prompt's markers or
control a chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from evalkit.core.lookalikes import OPENERS, visual_form
from evalkit.core.patterns import lazy_pattern
from evalkit.core.types import Message

MARKERS = (
    "task",
    "context",
    "reference",
    "response_a",
    "response_b",
    "response",
    "example_task",
    "example_response",
    "own_answer",
    "requirements",
)
"""The markers around texts in the shipped templates, such as `<task>` and `</task>`."""

_OPENER = lazy_pattern(f"[{OPENERS}]")
# In ASCII there are no look-alikes, so only an opener before the first letter of a name can open a
# marker.
_ASCII_OPENER = lazy_pattern(r"<(?=(?:[\s/]|[^ -~])*[CORETcoret])")
_NAME = (
    r"(?:context|reference|own[_-]?answer|(?:example[_-]?)?(?:task|response)"
    r"|response[_-]?[ab]|requirements)"
)
# Two views of the text after an opener: `tight` without white space, `plain` with each run of white
# space as one space. Code and prose such as "i < context.length" or "a < task and b > c" have no
# markers: a name must
# be closed or tight. A tag ends at the next bracket of either kind, so that neutralizing the next
# tag cannot turn this
# one into a marker.
_TIGHT = lazy_pattern(rf"</*{_NAME}/*>")
_PLAIN = lazy_pattern(rf"<(?: */[ /]*{_NAME}|{_NAME}) *(?:/* *$|[ /][^<>]*[<>])")
_LOOKAHEAD = 120

# Control tokens of chat templates. Servers parse them even inside the text of a message.
_TURNS = (
    r"<\|[^\s<>|]{1,40}\|?>|<[^\s<>|]{1,40}\|>|<｜[^\s<>｜]{1,60}｜>"
    r"|</?s>|<</?SYS>>|<(?:start|end)_of_turn>|<[be]os>"
    r"|\[/?INST\]|\[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|TOOL_CALLS)\]"
)
# Tokens of the embedded judge's model that separate documents.
_DOCUMENTS = (
    r"<(?:repo_?name|file_sep|filename|gh_stars|issue_(?:start|comment|closed)|empty_output"
    r"|jupyter_(?:start|text|code|output|script))>"
)
# Tags of thinking in an answer. Quoted from a text, they would hide the judge's own words.
_THINKING = r"</?(?:think|thinking|thought|reasoning)>"
_CONTROL = lazy_pattern(rf"(?={_TURNS}|{_DOCUMENTS}|(?i:{_THINKING}))[<\[]")
_BRACKET = lazy_pattern(r"[<\[]")
_ENDING = "|>"
# The characters that can follow the opening bracket of a control token, unless the token ends with
# `_ENDING`.
_LIKELY_BRACKET = lazy_pattern(r"[<\[](?=[|｜/<sSebrRtTfgijIA])")
_ESCAPED = {"[": "&#91;"}
_PLACED = lazy_pattern(
    rf"^<(({'|'.join(MARKERS)})(?: [^<>\n]*)?)>\n(.*?)\n</\2>$",
    re.DOTALL | re.MULTILINE,
)


def neutralize(text: str) -> str:
    """Return `text` with every marker and every control token of chat templates
    escaped, and otherwise unchanged.

    The opening bracket becomes `&lt;` (`&#91;` if square). Opening and closing markers are found in
    any case and width, also with white space, invisible characters, attributes or look-alike
    letters in them. Control tokens are found only in their exact spelling, because servers parse
    nothing else.
    """
    if _is_safe(text):
        return text
    unmarked = _without_markers(text)
    brackets = _BRACKET if _ENDING in text else _LIKELY_BRACKET
    # Markers first, in any spelling, then control tokens in their exact one.
    safe = brackets.sub(lambda match: _safe(unmarked, match), unmarked)
    if safe == text:
        return text
    return safe


def _is_safe(text: str) -> bool:
    """Return whether a text has no character that can begin a marker or a control
    token, as most texts.
    """
    return (
        "<" not in text
        and "[" not in text
        and (text.isascii() or not any(opener in text for opener in OPENERS))
    )


def _safe(text: str, bracket: re.Match[str]) -> str:
    if _CONTROL.match(text, bracket.start()):
        return _ESCAPED.get(bracket[0], "&lt;")
    return bracket[0]


def marked_texts(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the texts between markers in messages, in order; empty if a template has
    no markers.
    """
    return tuple(text for _, text in marked(messages))


def marked(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Yield the content of each opening marker, such as `response label="A"`, and the
    text after it.
    """
    return (
        (match[1], match[3])
        for message in messages
        for match in _PLACED.finditer(message["content"])
    )


def around_texts(content: str) -> tuple[str, str, str] | None:
    """Split a message at its texts: what is before the first text, all up to the last
    marker, and the rest.

    Return `None` for a message without texts between markers.
    """
    texts = [*_PLACED.finditer(content)]
    if not texts:
        return None
    # Group 3 is the text; the opening marker is before it.
    start = texts[0].start(3)
    end = texts[-1].end()
    return content[:start], content[start:end], content[end:]


def _without_markers(text: str) -> str:
    pieces = []
    done = 0
    for at in _openers(text):
        if _is_marker(text, at):
            pieces += [text[done:at], "&lt;"]
            done = at + 1
    if pieces:
        return "".join([*pieces, text[done:]])
    return text


def _openers(text: str) -> Iterator[int]:
    return (
        match.start()
        for match in (_ASCII_OPENER if text.isascii() else _OPENER).finditer(text)
    )


def _is_marker(text: str, at: int) -> bool:
    plain = _plain(text, at)
    return bool(_PLAIN.match(plain) or _TIGHT.match(plain.replace(" ", "")))


def _plain(text: str, at: int) -> str:
    """Return the visible text from `at` on, up to a limit, with case, width and
    look-alikes folded.
    """
    characters: list[str] = []
    visible = 0
    for index in range(at, len(text)):
        look = visual_form(text[index])
        if look == " ":
            if characters[-1] != " ":
                characters.append(look)
        elif look:
            characters.append(look)
            visible += 1
            # A tag ends at the next bracket, so what follows need not be folded.
            if visible >= _LOOKAHEAD or (visible > 1 and look in ("<", ">")):
                break
    return "".join(characters)
