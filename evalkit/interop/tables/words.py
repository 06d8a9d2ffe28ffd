"""Known words of tables: names of columns, verdicts, missing values, models. The words
are data in known_words.toml.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from evalkit.core.patterns import lazy_pattern
from evalkit.core.prepared_files import read_table

# Between a small letter and a capital one.
_CAMEL: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
# Latin words, numbers, or runs of another script with its combining marks.
_TOKENS: Final = lazy_pattern(
    r"[a-zß-öø-ɏḁ-ỿ]+|\d+|(?:[^\W\d_a-zß-öø-ɏḁ-ỿ]|[\u0300-\u036f\u064b-\u0670\u0900-\u109f])+"
)
_SEPARATORS: Final = lazy_pattern(r"[\s_\-]+")
ARROW: Final = lazy_pattern(r"(?:=>|->|→|➜|:|#+)\s+(?=\w)")
"""An arrow or a mark in front of a word."""
_GRADE: Final = lazy_pattern(r"[a-z0-9] ?[-−]|[-−]\d.*")
"""Words in which a minus is more than a separator: a grade such as `A-`, and a negative number."""
_TONES: Final = lazy_pattern("[\U0001f3fb-\U0001f3ff\ufe0e\ufe0f]")
"""Skin tones and variants of emoji."""
_SYMBOL: Final = lazy_pattern(r"[^\w\s!-~]+\s+(?=\w)")
"""A symbol such as an emoji in front of a word."""
_PROVIDER_ERROR: Final = lazy_pattern(
    r"\W*(?:(?:[\w.]+\.)?[A-Za-z]*(?:Error|Exception)\b"
    r"|error\b\W*(?:code|message|\d|:)|api error"
    r"|http\s*\d{3}\b"
    r"|(?:4\d\d|5\d\d)\s+[a-z]|timed? ?out|request timed"
    r"|rate ?limit|too many requests|service unavailable"
    r"|internal server|bad gateway|overloaded"
    r"|connection (?:error|reset|refused|aborted)|context length"
    r"|content[ _]filter|traceback|\{\s*\"error\"|\{\s*'error'"
    r"|failed to (?:parse|generate|call)|max retries)",
    re.IGNORECASE,
)
EMPTY: Final = "no value"
FAILED: Final = "errors"
SPREADSHEET: Final = "spreadsheet errors"
_UNCLEAR_FAILURES: Final = ("failed", "failure", "invalid", "error", "-", "--")
"""Words for no verdict that are verdicts next to their opposites."""


@cache
def known_words() -> Mapping[str, Any]:
    """Return the content of known_words.toml."""
    return read_table(Path(__file__).with_name("known_words.toml"))


def words_in(group: str) -> tuple[str, ...]:
    """Return the words of a group that rules compare as they are, in their order."""
    return tuple(known_words()["words"][group])


@cache
def word_group(group: str) -> frozenset[str]:
    """Return the words of a group that rules compare as they are."""
    return frozenset(words_in(group))


def fold(word: str) -> str:
    """Return a word in the form in which words are compared: lower case, without
    separators and brackets around it.
    """
    # Most texts are one plain word, in which nothing below would change.
    if word.isascii() and word.isalnum():
        return word.casefold()
    plain = (
        # Full-width letters and numbers become plain ones, and skin tones disappear.
        word if word.isascii() else _TONES.sub("", unicodedata.normalize("NFKC", word))
    )
    folded = ARROW.sub("", plain.strip().casefold())
    # A symbol in front of a word repeats it: `✅ pass`.
    if not folded.isascii() and (symbol := _SYMBOL.match(folded)):
        folded = folded[symbol.end() :]
    if folded.startswith("[[") and folded.endswith("]]"):
        folded = folded[2:-2]
    # A- is a grade, and -1 a number: only there a minus is kept.
    if _GRADE.fullmatch(folded):
        return folded.replace(" ", "").replace("−", "-")
    return _SEPARATORS.sub(" ", folded).strip(" .!*`\"'") or folded


@cache
def tokens(name: str) -> tuple[str, ...]:
    """Return the words of a column's name."""
    spaced = _CAMEL.sub(" ", unicodedata.normalize("NFC", name))
    return tuple(_TOKENS.findall(spaced.casefold()))


@cache
def _nouns(group: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the Latin words and the other words of a group of names."""
    words = known_words()["names"][group]
    # Latin words are compared as a whole, other scripts have no spaces between words.
    latin = frozenset(word for word in words if _TOKENS.match(word) and word[0] < "ɐ")
    return latin, tuple(word for word in words if word not in latin)


@cache
def matches(name: str, group: str) -> bool:
    """Return whether a column's name has a word of a group."""
    latin, elsewhere = _nouns(group)
    parts = tokens(name)
    if not latin.isdisjoint(parts):
        return True
    return any(noun in part for part in parts for noun in elsewhere)


@cache
def begins(name: str, group: str) -> bool:
    """Return whether a word of a column's name begins with a word of a group."""
    latin, elsewhere = _nouns(group)
    for part in tokens(name):
        if part.startswith(tuple(latin)):
            return True
        if any(noun in part for noun in elsewhere):
            return True
    return False


@cache
def root(part: str) -> str:
    """Return what forms of the name of a criterion have in common, as `toxic` of
    `toxicity`; a word that names none is returned as it is.
    """
    # `harmless` is the opposite of `harmful`.
    if "less" in part:
        return part
    latin, _ = _nouns("criteria")
    beginnings = [word for word in latin if part.startswith(word)]
    # `complete` and `accepted` may be states, and then no labels of `completeness`.
    if not word_group("state").isdisjoint(beginnings):
        return part
    return min(beginnings, key=len, default=part)


@cache
def _model_patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in known_words()["models"]["patterns"])


@lru_cache(maxsize=4096)  # as for `missing_cause`
def is_model(name: str) -> bool:
    """Return whether a name is that of a language model."""
    folded = name.casefold().strip()
    return any(pattern.search(folded) for pattern in _model_patterns())


@cache
def is_first_name(name: str) -> bool:
    """Return whether a column's name begins with the first name of a person.

    A name that is also a word, such as Max, is one only by itself: `max_score` is no person's.
    """
    parts = tokens(name)
    if not parts or parts[0] not in _first_names():
        return False
    return len(parts) == 1 or parts[0] not in word_group("word_too")


@cache
def names_rater(value: str) -> bool:
    """Return whether a value names who judged: a model, a judge, or people."""
    by_word = any(matches(value, group) for group in ("human", "judge"))
    return by_word or is_model(value) or is_first_name(value)


def is_word_for_people(name: str) -> bool:
    """Return whether a name is one word for raters or users, of whom a column may have
    the ids or the number.
    """
    parts = tokens(name)
    if len(parts) != 1:
        return False
    return matches(name, "rater") or parts[0].removesuffix("s") in word_group("user")


@cache
def _first_names() -> frozenset[str]:
    return frozenset(known_words()["names"]["first_names"])


@cache
def polarity() -> tuple[Mapping[str, str], frozenset[str]]:
    """Return pass or fail by word, and the words that judge rather than answer."""
    meanings: dict[str, str] = {}
    judging: set[str] = set()
    for group in ("judging", "answering"):
        for good, bad in known_words()["verdicts"][group]:
            meanings.setdefault(fold(good), "pass")
            meanings.setdefault(fold(bad), "fail")
            if group == "judging":
                judging |= {fold(good), fold(bad)}
    return meanings, frozenset(judging)


_MAY_GO: Final = frozenset(string.whitespace + ".!*`\"'_-]")
"""The marks that `fold` removes from the end of a word."""


@cache
def _edges() -> frozenset[str]:
    """Return the first and the last character of each word of `polarity`."""
    meanings, _ = polarity()
    return frozenset(word[0] + word[-1] for word in meanings)


def may_have_polarity(text: str) -> bool:
    """Return whether a text may be a word of `polarity` once it is folded: hardly any text has to
    be folded to see that it is none.
    """
    first = text[:1]
    last = text[-1:]
    if text.isascii() and first.isalnum() and last not in _MAY_GO:
        return (first + last).casefold() in _edges()
    return True


@cache
def pair_words() -> Mapping[str, str]:
    """Return A, B or TIE by word."""
    sides = {"first": "A", "second": "B"}
    return {
        fold(word): sides.get(group, "TIE")
        for group, words in known_words()["pairs"].items()
        for word in words
    }


_SIDES: Final = (("a", "b"), ("1", "2"), ("i", "ii"), ("甲", "乙"), ("左", "右"))
"""Words for the first and the second of two responses within a name."""


def named_by_side(words: Iterable[str]) -> dict[str, str]:
    """Return A and B for two words that differ only in the side that they name, as
    `Antwort 1 besser` does.

    Without exactly two such words, nothing is returned.
    """
    folded = {word: fold(word) for word in words}
    parts = {word: tokens(text) for word, text in folded.items()}
    pairs = [
        (first, second)
        for first in folded
        for second in folded
        for sides in _SIDES
        # One word is the other with the second side instead of the first.
        if _replaced(parts[first], sides) == parts[second] != parts[first]
    ]
    if len(pairs) != 1:
        return {}
    first, second = pairs[0]
    return {first: "A", second: "B"}


def _replaced(parts: tuple[str, ...], sides: tuple[str, str]) -> tuple[str, ...] | None:
    """Return the words of a name with the second side instead of the first one; `None`
    if it names no first side.
    """
    first, second = sides
    if first not in parts or len(parts) < 2:
        return None
    return tuple(second if part == first else part for part in parts)


@cache
def tie_kind(word: str) -> str | None:
    """Return which kind of tie a word is; `None` if it is no tie."""
    for group in ("tie", "tie_good", "tie_bad"):
        if fold(word) in {fold(tie_word) for tie_word in known_words()["pairs"][group]}:
            return group
    return None


@cache
def _scales() -> tuple[Mapping[str, int], ...]:
    return tuple(
        {fold(word): rank for rank, synonyms in enumerate(scale) for word in synonyms}
        for scale in known_words()["verdicts"]["ordered"]
    )


def ordered(words: Iterable[str], *, grades: bool = False) -> list[str] | None:
    """Return words in the order of a known scale, lowest first; `None` if no scale has them all.

    Args:
        words: The words.
        grades: Whether letters are grades, which otherwise they are only with an F or a sign.
    """
    most = max(*map(len, _scales()), len(known_words()["verdicts"]["letters"]))
    spelled: dict[str, str] = {}
    # Once more words than any scale has are known, the rest need not be read.
    for word in words:
        spelled.setdefault(fold(word), word)
        if len(spelled) > most:
            return None
    if len(spelled) < 3:
        return None
    # The first scale with all words, each of another rank.
    for scale in _scales():
        if spelled.keys() <= scale.keys():
            ranks = {scale[word] for word in spelled}
            if len(ranks) == len(spelled):
                in_order = sorted(spelled, key=lambda word: scale[word])
                return [spelled[word] for word in in_order]
    letters = known_words()["verdicts"]["letters"]
    # A, B and C may be kinds of answers, A to D the options of a question, and A to F kinds of
    # anything; grades in letters have no E.
    signed = any(len(word) > 1 for word in spelled)
    with_f = "f" in spelled and "e" not in spelled
    are_grades = with_f or signed or (grades and "d" in spelled)
    if are_grades and spelled.keys() <= {*letters}:
        return [spelled[word] for word in letters if word in spelled]
    return None


def same_ranks(raters: Iterable[frozenset[str]]) -> dict[str, str]:
    """Return another rater's word for words of one rank of a known scale, as `Neutral`
    for `Undecided`.

    Args:
        raters: The words of each rater, folded; one that uses both words tells them apart.
    """
    levels = list(raters)
    words = sorted({word for rater in levels for word in rater})
    scale = next((scale for scale in _scales() if scale.keys() >= {*words}), {})
    by_rank: dict[int, list[str]] = {}
    for word in words:
        if word in scale:
            by_rank.setdefault(scale[word], []).append(word)
    if len(by_rank) < 3:
        return {}
    return {
        word: same[0]
        for same in by_rank.values()
        if not any(len(rater.intersection(same)) > 1 for rater in levels)
        for word in same[1:]
    }


@cache
def _missing() -> Mapping[str, str]:
    groups = known_words()["missing"]
    causes = {"empty": EMPTY, "failed": FAILED, "spreadsheet": SPREADSHEET}
    return {word: causes[group] for group, words in groups.items() for word in words}


@cache
def _longest_missing() -> int:
    return max(map(len, _missing()))


def missing_cause(text: str) -> str | None:
    """Return why a cell has no verdict; `None` if it may have one."""
    stripped = text.strip()
    if not stripped:
        return EMPTY
    # A long text cannot be a word for nothing, and searching it would be slow.
    if len(stripped) > 2000:
        return None
    if len(stripped) <= _longest_missing():
        cause = _missing().get(stripped.casefold())
        if cause is not None:
            return cause
    return FAILED if _PROVIDER_ERROR.match(stripped) else None


@lru_cache(maxsize=4096)  # a table's texts are not to be held
def is_unclear_failure(text: str) -> bool:
    """Return whether a word for no verdict is a verdict next to its opposite, as
    `failed` is next to `passed`.
    """
    return text.strip().casefold() in _UNCLEAR_FAILURES


def opposite_among(word: str, words: Iterable[str]) -> bool:
    """Return whether an opposite of a verdict word is among words."""
    folded = {fold(text) for text in words}
    if word.strip() == "--":
        return "++" in folded
    opposites = {
        fold(good)
        for good, bad in known_words()["verdicts"]["judging"]
        if fold(bad) == fold(word)
    }
    return not opposites.isdisjoint(folded)
