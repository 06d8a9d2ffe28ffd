"""What characters look like, so that markers and headings are found however they are spelled."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from types import MappingProxyType

_INVISIBLE_LETTERS = "\u115f\u1160\u3164\uffa0"
# Look-alikes of the characters in markers, after NFKC and case folding.
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
            "i": "іıɩι",
            "k": "кκᴋ",
            "l": "ӏⅼ",
            "m": "мᴍ",
            "n": "пηɴո",
            "o": "оοσᴏօ",
            "p": "рρᴘ",
            "q": "ԛգ",
            "r": "гʀᴦ",
            "s": "ѕꜱ",
            "t": "тτᴛ",
            "u": "υսᴜ",
            "w": "ѡԝᴡω",
            "x": "хχ×",
        }.items()
        for char in chars
    }
)
OPENERS = "".join(char for char, shape in _SHAPES.items() if shape == "<") + "<＜﹤"


@lru_cache(maxsize=4096)
def visual_form(char: str) -> str:
    """Return what a character looks like, in lower case: empty if invisible, one space
    for white space.
    """
    if char.isspace():
        return " "
    if _is_invisible(char):
        return ""
    folded = unicodedata.normalize("NFKC", char).casefold()
    return "".join(_SHAPES.get(folded_char, folded_char) for folded_char in folded)


def _is_invisible(char: str) -> bool:
    if char.isascii():
        return not char.isprintable()
    # A letter stays readable with accents and lines over or under it (Mn, Me).
    return (
        unicodedata.category(char) in ("Cf", "Cc", "Cn", "Co", "Cs", "Mn", "Me")
        or char in _INVISIBLE_LETTERS
    )
