"""Read the words of verdicts: pass and fail in English and Chinese, winners, and words
for no verdict.

A text is read only where it states its verdict as such: in brackets, as a clause at its beginning
("Yes, because …"), or as the verdict at its end ("Verdict: pass"). A word within a sentence, as in
"No answer" or "not good", is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from evalkit.core.patterns import lazy_pattern
from evalkit.interop.layouts.polarity import BAD_WORDS, GOOD_WORDS, OPPOSITE_PAIRS

POLARITY: Final[Mapping[str, str]] = {
    **dict.fromkeys(GOOD_WORDS, "pass"),
    **dict.fromkeys((*BAD_WORDS, "wrong", "未通过", "不正确", "坏"), "fail"),
}
OPPOSITES: Final[Mapping[str, str]] = dict(
    (*OPPOSITE_PAIRS, *((bad, good) for good, bad in OPPOSITE_PAIRS))
)
"""The other class of a file in which all verdicts are one of these words."""
_SIDES: Final = {
    "A": ("a", "model_a", "response_a", "output_a", "first", "left", "甲"),
    "B": ("b", "model_b", "response_b", "output_b", "second", "right", "乙"),
    "TIE": ("tie", "draw", "same", "equal", "both", "neither", "c", "平局", "平"),
}
WINNERS: Final[Mapping[str, str]] = {
    word: side for side, words in _SIDES.items() for word in words
}
SENTINEL: Final = "-1"
"""A number for no verdict, if nothing else in a table is below zero."""
LONGEST_WORD: Final = 40
"""The number of characters up to which a cell is a word; longer ones are texts."""
_BRACKETS: Final = lazy_pattern(r"\[\[(\w+)\]\]")
_BEGIN: Final = lazy_pattern(
    r"[\W_]*([^\W\d_]\w*)[*`\"')\]]*(?:[.,;!](?=\s|$)|(?<!^.):(?=\s|$)|[。，：；！、"
    r"]|\s+[-–—(（]|\s*\n|$)"
)
_END: Final = lazy_pattern(
    r"(?:[:：=\n]|\s[-–—]|\bis(?:\s+(?:an?|the))?\b"
    r"|\b(?:verdict|label|judge?ment|decision|rating|score|grade|result|winner)\b|为|是|^)"
    r"[\s\W_]*(\w+)\W*$"
)
_SIDE: Final = lazy_pattern(
    r"\b(?:response|output|assistant|answer|model|option|choose|prefer|pick)\W*([ab])\W*$|"
    r"\b([ab])\)?\s+(?:is\s+(?:the\s+)?(?:better|best|winner)|wins)\b"
)
_SENTENCE: Final = lazy_pattern(r"[.!?。！？\n]\s*")
_DOUBT: Final = lazy_pattern(
    r"n't\b|\b(?:not|cannot|unable|unsure|unclear|unknown|whether|if"
    r"|neither|nor|never|without|no|error|exception|"
    r"timeout|timed|limit|failed|failure)\b(?!\W*$)|无法|不能|不确定|没有"
)
_ASIDE: Final = (
    "first",
    "second",
    "both",
    "left",
    "right",
    "same",
    "equal",
    "neither",
    "c",
    "y",
    "n",
)
"""Words that begin a sentence about something else, such as "First, I read …"."""
_OPPOSITES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "failed": ("fail", ("passed", "pass")),
    "invalid": ("", ("valid",)),
}


def verdicts_among(words: Iterable[str]) -> frozenset[str]:
    """Return words for no verdict that are verdicts among these words, such as "failed"
    next to "passed".
    """
    folded_words = {word.casefold() for word in words if len(word) <= LONGEST_WORD}
    return frozenset(
        word
        for word, (same, opposites) in _OPPOSITES.items()
        if word in folded_words
        and same not in folded_words
        and not folded_words.isdisjoint(opposites)
    )


def word_of(value: str, by_word: Mapping[str, str]) -> str | None:
    """Return the meaning of a verdict word, or of a text that states one.

    `None` if it states none, or two.
    """
    folded = value.strip().casefold()
    if folded in by_word:
        return by_word[folded]
    if marked := _BRACKETS.findall(folded):
        words = marked
    else:
        # a long text states its verdict at its beginning or its end
        begin = folded[: 2 * LONGEST_WORD]
        end = _SENTENCE.split(folded[-4 * LONGEST_WORD :].rstrip(" .!。！*`\"'"))[-1]
        first = _BEGIN.match(begin)
        if first and first[1] not in _ASIDE and len(folded) > 2:
            words = [first[1]]
        else:
            words = []
        # a sentence with a doubt or a negation states no verdict
        if not _DOUBT.search(end):
            words += _END.findall("\n" + end) if end != folded else _END.findall(end)
            words += [word for sides in _SIDE.findall(end) for word in sides if word]
    meanings = {by_word[word] for word in words if word in by_word}
    if len(meanings) == 1:
        return meanings.pop()
    return None
