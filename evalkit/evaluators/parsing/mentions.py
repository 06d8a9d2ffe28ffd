"""Tell a mark that states a verdict from one that is only mentioned: denied, or one of a list."""

from __future__ import annotations

import re

_NO = (
    r"\b(?:(?<!or )(?:can)?not|never|neither|nor|than|over|instead of"
    r"|unlike|except|beats|versus|vs\.?)"
    r"|n['’]t"
    r"|不是|并非|而非|不选择?|不会选择?|不应选择?|不为|不如|优于|好于|胜过|没有选?择?|无法选?择?|不能选?择?|不"
)
_FILLERS = (
    r"be|been|yet|fully|considered|judged|rated|as|say|choose|pick|select"
    r"|prefer|call it|go with|vote for|a|the|for"
    r"|necessarily|simply|clearly|really|just|quite|definitely"
)
_DENIED = re.compile(
    rf"(?:{_NO})(?:\s+(?:{_FILLERS})){{0,3}}[\s*_`\"'“‘(]*\Z", re.IGNORECASE
)
_LONGEST = 60
_LISTED = re.compile(
    r"[^\S\n]*(?:(?:[*_`,，、;；/|&+~–—<>=→-]+"
    r"|and|or|to|through|versus|vs\.?|和|或者?|与|比|到|至)[^\S\n]*)*",
    re.IGNORECASE,
)
"""What is between the parts of a list."""


def is_denied(text: str, start: int) -> bool:
    """Return whether the words before a mark, on its line, say that it is not the verdict."""
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    return _DENIED.search(lead[-_LONGEST:]) is not None


def is_struck(text: str, start: int, end: int) -> bool:
    """Return whether a mark is struck through, as in `~~[[A]]~~`."""
    return text[:start].endswith("~~") and text.startswith("~~", end)


def is_list(text: str, end: int, start: int) -> bool:
    """Return whether the text between two marks only joins them, as in `[[A]], [[B]] and [[C]]`."""
    return _LISTED.fullmatch(text, end, start) is not None
