"""Texts under judgment stand between markers; nothing in such a text may look like one of them, or steer a chat."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType

from evalkit.types import Message

_INVISIBLE_LETTERS = "\u115f\u1160\u3164\uffa0"
# Shapes that pass for what markers are made of: after NFKC and case folding, so that capitals and wide forms are there.
_SHAPES = MappingProxyType(
    {
        char: shape
        for shape, chars in {
            "<": "‹〈〈⟨❮❬⧼˂ᐸ≺«《",
            ">": "›〉〉⟩❯❭⧽˃ᐳ≻»》",
            "/": "∕⁄╱⧸⟋",
            "_": "‗ˍ﹏",
            "-": "‐‑‒–—―−⁃",
            "a": "аɑαᴀ",
            "b": "ьʙвҍ",
            "c": "сϲᴄ",
            "d": "ԁᴅ",
            "e": "еҽεᴇє",
            "f": "ꜰғ",
            "k": "кκᴋ",
            "l": "ӏⅼ",
            "m": "мᴍ",
            "n": "пηɴո",
            "o": "оοσᴏօ",
            "p": "рρᴘ",
            "r": "гʀᴦ",
            "s": "ѕꜱ",
            "t": "тτᴛ",
            "w": "ѡԝᴡω",
            "x": "хχ×",
        }.items()
        for char in chars
    }
)
OPENERS = "".join(char for char, shape in _SHAPES.items() if shape == "<") + "<＜﹤"


@lru_cache(maxsize=4096)
def visual_form(char: str) -> str:
    """Return what a character looks like, in lower case: nothing if it cannot be seen, one blank for white space."""
    if char.isspace():
        return " "
    if _is_invisible(char):
        return ""
    folded = unicodedata.normalize("NFKC", char).casefold()
    return "".join(_SHAPES.get(one, one) for one in folded)


def _is_invisible(char: str) -> bool:
    if char.isascii():
        return not char.isprintable()
    # Accents and lines over or under a letter (Mn, Me) leave the letter to be read.
    return unicodedata.category(char) in ("Cf", "Cc", "Cn", "Co", "Cs", "Mn", "Me") or char in _INVISIBLE_LETTERS


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
)
"""The markers that the shipped templates put around texts, as `<task>` and `</task>`."""

_OPENER = re.compile(f"[{OPENERS}]")
# Where nothing passes for anything else, what is not followed by the first letter of a name opens no marker.
_ASCII_OPENER = re.compile(r"<(?=(?:[\s/]|[^ -~])*[CORETcoret])")
_NAME = r"(?:context|reference|own[_-]?answer|(?:example[_-]?)?(?:task|response)|response[_-]?[ab])"
# Two views of the text from an opener on: `packed` without any white space, `plain` with each white space as one blank.
# Code and prose such as "i < context.length" or "a < task and b > c" hold no markers: a name must be closed, or tight.
# A tag ends at the next bracket of either kind, so that making the next one safe cannot make a marker of this one.
_PACKED = re.compile(rf"</*{_NAME}/*>")
_PLAIN = re.compile(rf"<(?: */[ /]*{_NAME}|{_NAME}) *(?:/* *$|[ /][^<>]*[<>])")
_LOOKAHEAD = 120

# What chat templates end and begin turns with. Servers read these out of a message's text as the tokens themselves.
_TURNS = (
    r"<\|[^\s<>|]{1,40}\|?>|<[^\s<>|]{1,40}\|>|<｜[^\s<>｜]{1,60}｜>|</?s>|<</?SYS>>|<(?:start|end)_of_turn>|<[be]os>"
    r"|\[/?INST\]|\[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|TOOL_CALLS)\]"
)
# Further tokens of the embedded judge's model: they end one document and begin another.
_DOCUMENTS = (
    r"<(?:repo_?name|file_sep|filename|gh_stars|issue_(?:start|comment|closed)|empty_output"
    r"|jupyter_(?:start|text|code|output|script))>"
)
# What is read as thinking in an answer: quoted from a text, it would hide the judge's own words.
_THINKING = r"</?(?:think|thinking|thought|reasoning)>"
_CONTROL = re.compile(rf"(?={_TURNS}|{_DOCUMENTS}|(?i:{_THINKING}))[<\[]")
_BRACKET = re.compile(r"[<\[]")
_ENDING = "|>"
# What a control token goes on with after its bracket, but for those that end like this.
_LIKELY_BRACKET = re.compile(r"[<\[](?=[|｜/<sSebrRtTfgijIA])")
_ESCAPED = {"[": "&#91;"}
_PLACED = re.compile(rf"^<(({'|'.join(MARKERS)})(?: [^<>\n]*)?)>\n(.*?)\n</\2>$", re.DOTALL | re.MULTILINE)


def neutralize(text: str) -> str:
    """Return `text` with everything that reads as a marker or as a chat's control token made text, otherwise unchanged.

    Of such a thing the opening bracket is written `&lt;` (`&#91;` if square). Markers are found in any letter case and
    width, opening or closing, with white space, invisible characters, attributes or letters of the same shape in them;
    control tokens are found as they are spelt, since nothing else is one.
    """
    if _is_safe(text):
        return text
    unmarked = _without_markers(text)
    brackets = _BRACKET if _ENDING in text else _LIKELY_BRACKET
    safe = brackets.sub(lambda match: _safe(unmarked, match), unmarked)
    return text if safe == text else safe


def _is_safe(text: str) -> bool:
    """Say whether a text holds nothing that a marker or a control token begins with: most do not."""
    return "<" not in text and "[" not in text and (text.isascii() or not any(opener in text for opener in OPENERS))


def _safe(text: str, bracket: re.Match[str]) -> str:
    return _ESCAPED.get(bracket[0], "&lt;") if _CONTROL.match(text, bracket.start()) else bracket[0]


def marked_texts(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the texts that stand between markers in messages, in order; none where a template has no markers."""
    return tuple(text for _, text in marked(messages))


def marked(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Yield the texts between markers with what their opening marker holds, as `response label="A"`."""
    return ((match[1], match[3]) for message in messages for match in _PLACED.finditer(message["content"]))


def _without_markers(text: str) -> str:
    pieces, done = [], 0
    for at in _openers(text):
        if _is_marker(text, at):
            pieces += [text[done:at], "&lt;"]
            done = at + 1
    return "".join([*pieces, text[done:]]) if pieces else text


def _openers(text: str) -> Iterator[int]:
    return (match.start() for match in (_ASCII_OPENER if text.isascii() else _OPENER).finditer(text))


def _is_marker(text: str, at: int) -> bool:
    plain = _plain(text, at)
    return bool(_PLAIN.match(plain) or _PACKED.match(plain.replace(" ", "")))


def _plain(text: str, at: int) -> str:
    """Return what can be seen from `at` on, up to a limit: folded in case, width and shape, invisible ones left out."""
    seen: list[str] = []
    visible = 0
    for index in range(at, len(text)):
        look = visual_form(text[index])
        if look == " ":
            if seen[-1] != " ":
                seen.append(look)
        elif look:
            seen.append(look)
            visible += 1
            if visible >= _LOOKAHEAD or (visible > 1 and look in ("<", ">")):
                break
    return "".join(seen)
