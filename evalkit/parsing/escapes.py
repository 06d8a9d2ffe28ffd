"""What a text says once its escapes are undone: a judge that quotes it may well undo them."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

_ROUNDS = 3
_CODE = re.compile(r"(?<!\\)\\+(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2}))")
_NO_CHARACTER = re.compile(r"&#[xX]?[0-9a-fA-F]{9,}")  # more digits than any has, and maybe than Python reads
_PERCENT = re.compile(r"%([2-7][0-9a-fA-F])")
_BACKSLASHED = re.compile(r"\\+([^\w\s])")
_INVISIBLE = ("Cf", "Mn", "Me")
_LETTER = re.compile(r"(?<!\\)(?:\\\\)*\\u00(?:3[0-9]|4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=64)
def undone(text: str) -> str:
    """Return a text with the escapes of JSON, HTML, URLs and Markdown undone, also those of escapes.

    Characters that cannot be seen are dropped, and full-width ones are made plain.
    """
    for _ in range(_ROUNDS):
        before = text
        text = html.unescape(_NO_CHARACTER.sub("", text)) if "&" in text else text
        text = _CODE.sub(_character, text)
        text = _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)
        text = _BACKSLASHED.sub(r"\1", text)
        if not text.isascii():
            seen = "".join(char for char in text if unicodedata.category(char) not in _INVISIBLE)
            text = unicodedata.normalize("NFKC", seen)
        if text == before:
            break
    return text


def spells_letters(text: str) -> bool:
    r"""Say whether JSON spells plain letters or digits by escapes, as `\u0077inner` does: no model writes so."""
    return "\\u00" in text and _LETTER.search(text) is not None


def _character(match: re.Match[str]) -> str:
    code = int(next(group for group in match.groups() if group), 16)
    return chr(code) if code <= 0x10FFFF else match[0]
