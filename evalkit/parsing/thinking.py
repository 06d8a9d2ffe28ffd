"""Thinking that a model leaves in its answer, and characters in other widths."""

from __future__ import annotations

import re

_TAG = r"(?:think|thinking|thought|reasoning)"
_BLOCK = re.compile(rf"<({_TAG})>.*?</\1>", re.DOTALL | re.IGNORECASE)
_UNFINISHED = re.compile(rf"\A\s*<{_TAG}>.*\Z", re.DOTALL | re.IGNORECASE)
# Some chat templates open the block themselves, so that the text starts inside it.
_OPENED_BEFORE = re.compile(rf"\A(?:(?!<{_TAG}>).)*</{_TAG}>", re.DOTALL | re.IGNORECASE)

_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord("【"): "[",
    ord("】"): "]",
    ord("〔"): "[",
    ord("〕"): "]",
    0x3000: " ",
}


def drop_thinking(text: str) -> str:
    """Return `text` without its thinking blocks; a block that never ends takes the rest of the text with it."""
    return _UNFINISHED.sub("", _OPENED_BEFORE.sub("", _BLOCK.sub("", text)))


def half_width(text: str) -> str:
    """Return `text` with full-width letters, digits, signs and square brackets as ASCII, character for character."""
    return text.translate(_HALF_WIDTH)
