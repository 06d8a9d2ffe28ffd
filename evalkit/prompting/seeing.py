"""How a text looks to a reader: case, width, invisible characters and characters of one shape do not tell it apart."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from types import MappingProxyType

_INVISIBLE_MARKS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
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
def shape(char: str) -> str:
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
    return (
        unicodedata.category(char) in ("Cf", "Cc", "Cn", "Co", "Cs", "Mn", "Me")
        or char in _INVISIBLE_MARKS
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
    )
