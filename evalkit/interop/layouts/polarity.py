"""Words of verdicts that are good or bad, in English and Chinese."""

from __future__ import annotations

from typing import Final

OPPOSITE_PAIRS: Final = (
    ("pass", "fail"),
    ("passed", "failed"),
    ("yes", "no"),
    ("y", "n"),
    ("true", "false"),
    ("1", "0"),
    ("good", "bad"),
    ("correct", "incorrect"),
    ("合格", "不合格"),
    ("正确", "错误"),
    ("是", "否"),
    ("通过", "不通过"),
    ("好", "差"),
)
"""Pairs of a good word and its opposite."""
GOOD_WORDS: Final = tuple(good for good, _ in OPPOSITE_PAIRS)
"""Words for pass."""
BAD_WORDS: Final = tuple(bad for _, bad in OPPOSITE_PAIRS)
"""Words for fail."""
