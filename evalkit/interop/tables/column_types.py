"""The type of each column, from all of its values together.

A column has distinct levels with their counts. Each level is read once, and a level that has no
verdict has a cause. A column is typed before anything else is known about the table.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast

from evalkit.core.display import one_line
from evalkit.core.patterns import lazy_pattern
from evalkit.interop.layouts.judgment_files import is_infinite
from evalkit.interop.tables.columns import cell_text
from evalkit.interop.tables.words import (
    EMPTY,
    fold,
    is_model,
    is_unclear_failure,
    may_have_polarity,
    missing_cause,
    opposite_among,
    ordered,
    pair_words,
    polarity,
)
from evalkit.interop.verdict_words import POLARITY, WINNERS, word_of

Kind: TypeAlias = Literal[
    "empty",
    "flag",
    "number",
    "percent",
    "fraction",
    "stars",
    "comparison",
    "pair",
    "ordered",
    "class",
    "stated",
    "list",
    "time",
    "id",
    "text",
]
NumberUnit: TypeAlias = Literal["number", "percent", "fraction", "stars"]
# A level that is longer than this many characters is a text.
LONGEST_WORD: Final = 40
MOST_CLASSES: Final = 12
# Shares of cells: nearly all state a verdict, mostly they have the type.
NEARLY_ALL: Final = 0.9
MOSTLY: Final = 0.8
# The most distinct texts that are examined for a type.
_SAMPLED: Final = 1000
_PLAIN: Final = lazy_pattern(r"[-+−]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_COMMA: Final = lazy_pattern(r"[-+−]?\d+,\d+")
_THOUSANDS: Final = lazy_pattern(r"[-+−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_POINT_THOUSANDS: Final = lazy_pattern(r"\d{1,3}(?:\.\d{3})+,\d+")
_PERCENT: Final = lazy_pattern(
    r"([-+−]?\d+(?:[.,]\d+)?)\s*(?:[%％]|per ?cent|pct\.?|prozent"
    r"|pour ?cent|por ?cento|por ciento|процент\w*)",
    re.IGNORECASE,
)
_FRACTION: Final = lazy_pattern(
    r"(-?\d+(?:[.,]\d+)?)\s*(?:/|／|out of|of|von|sur|de|su|van|av|aus|из|分の)\s*(\d+)(?:[.,]0+)?"
    r"(?:\s*(?:stars?|sternen?|étoiles?|estrellas?|points?|punkten?|puntos?|pts?\.?|星|分|点))?",
    re.IGNORECASE,
)
_STARS: Final = lazy_pattern(
    r"(\d(?:[.,]\d+)?)\s*-?\s*(?:stars?|sterne?|étoiles?|estrellas?|つ星|星|★|⭐️?)",
    re.IGNORECASE,
)
_POINTS: Final = lazy_pattern(
    r"(-?\d+(?:[.,]\d+)?)\s*(?:points?|pts?\.?|punkte?|puntos?|分|点)", re.IGNORECASE
)
_MAY_BE_NUMBER: Final = lazy_pattern(r"[\d★⭐\ufe0f*①-⑳]")
_BEGINS_NUMBER: Final = lazy_pattern(
    r"[\s'\"~]*(?:[-+.,(\[\d*]|score|rating|grade|level|likert|note|punkte)",
    re.IGNORECASE,
)
"""The beginning of each number in ASCII, in whatever unit it is."""
_DRAWN_STARS: Final = lazy_pattern(r"[★⭐️]+[☆]*|\*{1,10}")
_NAMED_NUMBER: Final = lazy_pattern(
    r"(?:score|rating|grade|level|likert|note|punkte|评分|得分|スコア|評価)\s*[:=：]?\s*(-?\d+(?:[.,]\d+)?)"
    r"|(-?\d+(?:\.\d+)?)\s*(?:[-–—:.)：=]|\()\s*[^\W\d].*",
    re.IGNORECASE,
)
_STATED_NUMBER: Final = lazy_pattern(
    r"(?:score|rating|grade|评分|得分|スコア)\W{0,6}(-?\d+(?:\.\d+)?)(?:\s*/\s*\d+)?[\s\W]*$"
    r"|^\W{0,3}(?:score|rating|grade)\W{0,6}(-?\d+(?:\.\d+)?)\b",
    re.IGNORECASE,
)
_COMPARISON: Final = lazy_pattern(
    r"\[*\s*(a|b|1|2|model[_ ]?[ab]|response[_ ]?[ab12]|output[_ ]?[ab12])\s*"
    r"(>>|>|<<|<|=|==|≈|~|≻|≺|＞|＜|＝|is better than|is worse than|beats)\s*"
    r"(a|b|1|2|model[_ ]?[ab]|response[_ ]?[ab12]|output[_ ]?[ab12])\s*\]*",
    re.IGNORECASE,
)
_STRENGTH: Final = lazy_pattern(
    r"((?:model |response |output |answer |assistant )?[ab12]) (?:is |was )?"
    r"(?:much |slightly |significantly |clearly |a bit |a lot |far |somewhat |strongly )*"
    r"(?:better|wins|won|stronger|preferred|best)"
)
_WORSE: Final = ("<", "<<", "≺", "＜", "is worse than")
_EVEN: Final = ("=", "==", "≈", "~", "＝")
_TIME: Final = lazy_pattern(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?: .*)?"
    r"|\d{1,2}:\d{2}(?::\d{2})?.*"
    r"|\d{1,2}-(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*(?:-\d+)?"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*-\d{1,2}"
    r"|\d{1,2}[-. ] ?(?:jan|feb|fév|fev|m[aä]r|apr|abr|avr|may|mai"
    r"|mag|jun|juin|giu|jul|juil|lug|aug|aoû|ago"
    r"|sep|set|o[ck]t|out|nov|de[cz]|déc|dic|ene|gen)[a-zà-ü]{0,7}\.?(?:[-. ]+\d{2,4})?"
    r"|(?:\d{4}年)?\d{1,2}月\d{1,2}日",
    re.IGNORECASE,
)
_PARTS: Final = lazy_pattern(r"\w+")
_NUMBER_AND_WORDS: Final = lazy_pattern(
    r"[(\[]?(\d{1,2})[)\]]?\s*[-–—:.=]?\s+([^\W\d][^\d]*)"
    r"|([^\W\d][^\d]*?)\s*[-–—:=(\[ ]\s*(\d{1,2})[)\]]?"
)
"""A number and words, in either order."""
_FEWEST_LEVELS: Final = 3
_HIGHEST_LEVEL: Final = 10
_HALVES: Final = lazy_pattern(r"(\d)([¼½¾])")
_PARTS_OF_ONE: Final = {"¼": ".25", "½": ".5", "¾": ".75"}
_DEVIATING: Final = lazy_pattern(
    r"([-+]?\d+(?:[.,]\d+)?)\s*(?:±|\+/-|\+-)\s*\d+(?:[.,]\d+)?"
)
"""A number and by how much it may be wrong."""
_SURE: Final = lazy_pattern(
    r"\s*[(\[]\s*(?:0?\.\d+|1\.0+|\d{1,3}\s*%)\s*[)\]]$"
    r"|\s*[(\[,–—-]\s*[^()\[\]]*(?:confiden|certain|\bsure|unsure|sicher|confian|置信|確信|확신)"
    r"[^()\[\]]*[)\]]?$",
    re.IGNORECASE,
)
"""A remark at the end of a verdict on how sure it is."""
_NUMERALS: Final[Mapping[str, int]] = {
    word: level
    for words in (
        ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"),
        ("一", "二", "三", "四", "五", "六", "七", "八", "九", "十"),
    )
    for level, word in enumerate(words, 1)
}
_IN_BRACKETS: Final = lazy_pattern(r"\[\[\s*([-+\d.]+)\s*\]\]")
_TAGGED: Final = lazy_pattern(
    r"<(verdict|score|rating|result|answer|label|grade|judge?ment|decision)>"
    r"\s*([^<>]{1,40}?)\s*</\1>"
    r"|\[RESULT\]\s*(\S{1,40})|\\boxed\{([^{}]{1,40})\}",
    re.IGNORECASE,
)
"""Marks around the verdict of a text."""
_LABELED: Final = lazy_pattern(
    r"^\W*(?:(?:final|overall|my)\s+)?"
    r"(?:verdict|judge?ment|decision|rating|score|grade|conclusion|overall"
    r"|urteil|bewertung|gesamt|veredicto|jugement|判定|结论|裁决|评分|総合|評価)"
    r"[\s*_`\"]*[:：=][\s*_`\"]*([^\n]{1,40}?)[\s*_`\".。]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of a text that names the verdict in it."""
_BRACKETED: Final = lazy_pattern(r"\[([^\W\d_]\w*)\](?:\s|$)")
DATE: Final = "dates where numbers were"
NO_STATEMENT: Final = "texts that state no verdict"


class TypedColumn:
    """A column with the type of its values; see the module."""

    def __init__(self, name: str, cells: Sequence[Any]) -> None:
        self.name = name
        self.cells = cells
        kinds = {*map(type, cells)}
        # A file of texts has hardly a cell of another type.
        if kinds <= {str, type(None)}:
            self.texts = [*cells]
        else:
            self.texts = [None if cell is None else cell_text(cell) for cell in cells]
        self._has_objects = any(issubclass(kind, list | dict) for kind in kinds)
        # {text: rows}; each distinct text is read once.
        self.counts = _counts(self.texts)
        if len(self.counts) <= MOST_CLASSES and not all(
            map(str.isprintable, self.counts)
        ):
            # Few words may be classes, which questions print and commands name: on one line.
            self.texts = [
                None if text is None else one_line(text) for text in self.texts
            ]
            self.counts = _counts(self.texts)

    @cached_property
    def missing(self) -> Mapping[str, str]:
        """The cause of each level that has no verdict."""
        causes = {}
        for text in self.counts:
            cause = missing_cause(text)
            if cause is None and is_infinite(text):
                cause = EMPTY
            if cause is None:
                continue
            # `error` next to `ok` is a verdict; alone it is a failure.
            if is_unclear_failure(text) and opposite_among(text, self.counts):
                continue
            causes[text] = cause
        # Words for nothing that are levels of this column's scale are no longer missing.
        lowest = [text for text in causes if self._is_level(text, causes)]
        return {text: cause for text, cause in causes.items() if text not in lowest}

    def _is_level(self, text: str, causes: Mapping[str, str]) -> bool:
        """Return whether a word for no verdict is a level of a scale here, as `none`
        next to `minor` and `major`.
        """
        # The scale must have other levels: `none` alone has no verdict.
        levels = [word for word in self.counts if word not in causes]
        return 1 < len(levels) <= MOST_CLASSES and ordered([*levels, text]) is not None

    @cached_property
    def words(self) -> Counter[str]:
        """The levels that may be verdicts, with their counts."""
        missing = self.missing
        return Counter(
            {text: count for text, count in self.counts.items() if text not in missing}
        )

    @cached_property
    def total(self) -> int:
        """The number of cells that may be verdicts."""
        return self.words.total()

    def share(self, levels: Mapping[str, Any]) -> float:
        """Return the share of cells with a level in `levels`."""
        if not (levels and self.total):
            return 0.0
        covered = sum(count for text, count in self.words.items() if text in levels)
        return covered / self.total

    @cached_property
    def decimal_comma(self) -> bool:
        """Whether numbers have a decimal comma: some do, and none a point."""
        stripped = [text.strip() for text in self.words]
        commas = [text for text in stripped if _COMMA.fullmatch(text)]
        if not commas:
            return False
        # 1,5 next to 1.5 leaves open what a comma means, so it is not a decimal comma.
        points = any("." in text for text in stripped if _PLAIN.fullmatch(text))
        thousands = all(_THOUSANDS.fullmatch(text) for text in commas)
        return not points and not thousands

    @cached_property
    def numbers(self) -> Mapping[str, float]:
        """The number of each level that is one in the unit of the column."""
        return self._numbers[1]

    @cached_property
    def unit(self) -> NumberUnit:
        """The unit of numbers: `number`, `percent`, `fraction` or `stars`."""
        return self._numbers[0]

    @cached_property
    def _numbers(self) -> tuple[NumberUnit, Mapping[str, float]]:
        # Units in order of preference: equal shares keep the first.
        units: Mapping[NumberUnit, Callable[[str], float | None]] = {
            "number": self._plain,
            "percent": _percent,
            "fraction": _fraction,
            "stars": _stars,
        }
        # A cheap test first: most columns of texts have no digit.
        candidates = [text for text in self.words if _may_be_number(text)]
        found: dict[NumberUnit, dict[str, float]] = {}
        for unit, read in units.items():
            found[unit] = {
                text: value
                for text in candidates
                if (value := read(text.strip())) is not None
            }
            # No other unit can have a larger share, and the first of equal ones is chosen.
            if self.share(found[unit]) == 1:
                break
        # One unit for the column: a few percentages among plain numbers are not numbers.
        best = max(found, key=lambda unit: self.share(found[unit]))
        values = found[best]
        if best == "percent" and self.share(values) < 1:
            # 0% is often written as 0 next to percentages
            values |= {text: 0.0 for text in self.words if text.strip() == "0"}
        if self.share(values) < MOSTLY and (named := self._named_levels()):
            return "number", named
        return best, values

    def _named_levels(self) -> Mapping[str, float]:
        """Return the numbers of levels with words, as `1 very poor`; nothing if some
        levels have not both.
        """
        few = _FEWEST_LEVELS <= len(self.words) <= MOST_CLASSES
        if not few or any(map(is_model, self.words)):
            return {}
        if all(text.strip() in _NUMERALS for text in self.words):
            return {text: float(_NUMERALS[text.strip()]) for text in self.words}
        numbers = {}
        words: dict[str, set[float]] = {}
        for text in self.words:
            match = _NUMBER_AND_WORDS.fullmatch(text.strip())
            if match is None or len(text) > LONGEST_WORD:
                return {}
            numbers[text] = float(match[1] or match[4])
            words.setdefault(fold(match[2] or match[3]), set()).add(numbers[text])
        # Each number has words of its own, or they count something: `1 error`, `2 errors`.
        levels = {*numbers.values()}
        if len(words) < len(levels) or len(levels) < _FEWEST_LEVELS:
            return {}
        one_each = all(len(values) == 1 for values in words.values())
        return numbers if one_each and max(levels) <= _HIGHEST_LEVEL else {}

    def _plain(self, text: str) -> float | None:
        # A spreadsheet's mark of text, or a sign for about.
        text = text.removeprefix("'").removeprefix("~").strip().strip("\"'")
        if not text.isascii():
            # Full-width and circled digits are digits.
            text = _HALVES.sub(
                lambda match: f"{match[1]}{_PARTS_OF_ONE[match[2]]}", text
            )
            text = unicodedata.normalize("NFKC", text)
        if deviating := _DEVIATING.fullmatch(text):
            text = deviating[1]
        if bracketed := _IN_BRACKETS.fullmatch(text):
            text = bracketed[1]
        if _PLAIN.fullmatch(text):
            return float(text.replace("−", "-"))
        if _POINT_THOUSANDS.fullmatch(text):
            return float(text.replace(".", "").replace(",", "."))
        if self.decimal_comma and _COMMA.fullmatch(text):
            return float(text.replace(",", ".").replace("−", "-"))
        if _THOUSANDS.fullmatch(text) and not self.decimal_comma:
            return float(text.replace(",", ""))
        # 12-Jan would otherwise be read as the named number 12.
        if is_date(text):
            return None
        if named := _NAMED_NUMBER.fullmatch(text):
            return float((named[1] or named[2]).replace(",", "."))
        if points := _POINTS.fullmatch(text):
            return float(points[1].replace(",", "."))
        return None

    @cached_property
    def is_numeric(self) -> bool:
        """Whether nearly all values are numbers."""
        return self.total > 0 and self.share(self.numbers) >= MOSTLY

    @cached_property
    def distinct_numbers(self) -> list[float]:
        """The distinct numbers, ascending."""
        return sorted(set(self.numbers.values()))

    @cached_property
    def is_binary(self) -> bool:
        """Whether all numbers are 0 or 1."""
        return self.is_numeric and set(self.distinct_numbers) <= {0.0, 1.0}

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Pass or fail of each level that says so."""
        meanings, _ = polarity()
        return {
            text: meanings[word]
            for text in self.words
            if len(text) <= LONGEST_WORD
            and may_have_polarity(text)
            and (word := fold(text)) in meanings
        }

    @cached_property
    def judges(self) -> bool:
        """Whether the words judge (`pass`) rather than answer any question (`yes`)."""
        _, judging = polarity()
        return (
            self.total > 0
            and all(fold(text) in judging for text in self.flags)
            and self.share(self.flags) >= MOSTLY
        )

    @cached_property
    def pairs(self) -> Mapping[str, str]:
        """A, B or TIE of each level that names a winner or compares."""
        winners = {text: _winner(text) for text in self.words}
        return {text: winner for text, winner in winners.items() if winner is not None}

    @cached_property
    def is_paired(self) -> bool:
        """Whether every level names a winner or compares; the first other one ends the search."""
        return all(_winner(text) is not None for text in self.words)

    @cached_property
    def order(self) -> list[str] | None:
        """The levels in the order of a known scale of words."""
        short = self.words and max(map(len, self.words)) <= LONGEST_WORD
        return ordered(self.words) if short else None

    @cached_property
    def has_few_words(self) -> bool:
        """Whether the values are a few short words that recur."""
        # A column of two rows may have two words; each other one needs repeats.
        most = min(MOST_CLASSES, max(2, self.total // 2))
        return 0 < len(self.words) <= most and max(map(len, self.words)) <= LONGEST_WORD

    @cached_property
    def stated(self) -> Mapping[str, Any]:
        """The verdict that each text states, if nearly all do in one form."""
        readings: Sequence[Callable[[str], Any]] = (
            # Forms in order of preference; one form must fit nearly all texts.
            lambda text: word_of(_marked(text), POLARITY),
            lambda text: word_of(_marked(text), WINNERS),
            lambda text: pair_words().get(fold(_marked(text))),
            _stated_number,
        )
        sample = list(self.words.items())[:_SAMPLED]
        # Single words and names of models are levels, not texts that state a verdict.
        if all(len(_PARTS.findall(text)) < 2 or is_model(text) for text, _ in sample):
            return {}
        cells = sum(count for _, count in sample)
        for read in readings:
            # Counted in cells, so that frequent texts weigh more.
            states = sum(count for text, count in sample if read(text) is not None)
            if not sample or states < NEARLY_ALL * cells:
                continue
            stated = {
                text: value for text in self.words if (value := read(text)) is not None
            }
            # `yes` and `yes, partly` are classes, which one word would merge.
            if self.has_few_words and _qualifies(stated):
                return {}
            return stated
        return {}

    @cached_property
    def is_time(self) -> bool:
        """Whether the values are dates or times."""
        sample = list(self.words)[:_SAMPLED]
        times = sum(_TIME.fullmatch(text.strip()) is not None for text in sample)
        return bool(sample) and times >= MOSTLY * len(sample)

    @cached_property
    def is_unique(self) -> bool:
        """Whether no two cells are equal."""
        return self.total == len(self.words) == len(self.cells)

    @cached_property
    def kind(self) -> Kind:
        """The type of the column."""
        # From the strictest type to the loosest: the first that fits counts.
        if not self.total:
            return "empty"
        # JSON columns are objects: their texts mean nothing as words.
        if self._has_objects:
            return "list"
        # Numbers before flags, unless more cells are flags: 0 and 1 are both.
        if self.is_numeric and self.share(self.numbers) >= self.share(self.flags):
            if self.unit != "number":
                return self.unit
            whole = all(value.is_integer() for value in self.distinct_numbers)
            # A unique integer in each of many rows is an id; scores repeat.
            if self.is_unique and whole and self.total > MOST_CLASSES:
                return "id"
            return "flag" if self.is_binary and len(self.words) == 2 else "number"
        if self.is_time:
            return "time"
        if self.order:
            return "ordered"
        if self.share(self.flags) == 1:
            return "flag"
        # Only if all levels name a winner: `a` and `b` among other letters are classes.
        if self.is_paired:
            comparisons = any(
                _COMPARISON.fullmatch(text.strip()) for text in self.words
            )
            return "comparison" if comparisons else "pair"
        # Flags with a few other words, which are asked about or missing.
        if self.share(self.flags) >= MOSTLY:
            return "flag"
        # Few words are classes, unless every one of them states a verdict.
        if self.has_few_words and self.share(self.stated) < 1:
            return "class"
        if self.stated:
            return "stated"
        short = max(map(len, self.words)) <= LONGEST_WORD
        return "id" if self.is_unique and short else "text"

    @cached_property
    def may_be_verdict(self) -> bool:
        """Whether the values can be verdicts."""
        return self.kind not in ("empty", "list", "time", "id", "text")


def _counts(texts: Sequence[str | None]) -> Counter[str]:
    """Return how often each text occurs; without the cells that have none."""
    counts = Counter(texts)
    del counts[None]
    return cast(Counter[str], counts)


def _qualifies(stated: Mapping[str, Any]) -> bool:
    """Return whether words that begin with one verdict are different classes, as `yes`
    and `yes, partly`.
    """
    begun: dict[tuple[str, Any], set[str]] = {}
    for text, value in stated.items():
        # How sure a verdict is makes no other verdict of it.
        folded = _SURE.sub("", fold(text))
        first = next(iter(_PARTS.findall(folded)), "")
        # {(first word, verdict): texts}: two texts of one beginning differ in what follows.
        if word_of(first, POLARITY) == value:
            begun.setdefault((first, value), set()).add(folded)
    return any(len(texts) > 1 for texts in begun.values())


def _winner(text: str) -> str | None:
    """Return A, B or TIE if a level names a winner or compares."""
    if len(text) > LONGEST_WORD:
        return None
    if match := _COMPARISON.fullmatch(text.strip()):
        return _compared(match)
    word = fold(text)
    if word in pair_words():
        return pair_words()[word]
    if match := _STRENGTH.fullmatch(word):
        # The side is the last letter: a, 1 are A; b, 2 are B.
        return "A" if match[1][-1] in "a1" else "B"
    # [[C]] is the word for a tie in the prompts of MT-Bench.
    if text.strip().casefold() == "[[c]]":
        return "TIE"
    return None


def _compared(match: re.Match[str]) -> str:
    first = match[1].casefold()
    sign = match[2].casefold()
    second = match[3].casefold()
    if sign in _EVEN:
        return "TIE"
    # A compared with itself.
    if first[-1] == second[-1]:
        return "TIE"
    better = second if sign in _WORSE else first
    return "A" if better[-1] in "a1" else "B"


def _may_be_number(text: str) -> bool:
    """Return whether a text can be a number in some unit: hardly any other text has to
    be tried in each.
    """
    if text.isascii() and not _BEGINS_NUMBER.match(text):
        return False
    return _MAY_BE_NUMBER.search(text) is not None


def _percent(text: str) -> float | None:
    match = _PERCENT.fullmatch(text)
    return (
        None
        if match is None
        else float(match[1].replace(",", ".").replace("−", "-")) / 100
    )


def _fraction(text: str) -> float | None:
    match = _FRACTION.fullmatch(text)
    if match is None or not float(match[2]):
        return None
    return float(match[1].replace(",", "."))


def denominators(words: Mapping[str, Any]) -> set[float]:
    """Return the denominators of fractions."""
    matches = (_FRACTION.fullmatch(text.strip()) for text in words)
    return {float(match[2]) for match in matches if match is not None}


def _stars(text: str) -> float | None:
    if match := _STARS.fullmatch(text):
        return float(match[1].replace(",", "."))
    if _DRAWN_STARS.fullmatch(text):
        return float(sum(character in "★⭐*" for character in text))
    return None


def _marked(text: str) -> str:
    """Return the verdict that is marked in a text, or in brackets at its beginning;
    otherwise the text.
    """
    # A text may mark its verdict twice; different marks leave it open.
    marked = {match[2] or match[3] or match[4] for match in _TAGGED.finditer(text)}
    if len(marked) == 1:
        return str(marked.pop())
    lines = {fold(match[1]): match[1] for match in _LABELED.finditer(text)}
    if "\n" in text.strip() and len(lines) == 1:
        [line] = lines.values()
        return line
    bracketed = _BRACKETED.match(text.strip())
    if bracketed:
        return bracketed[1]
    return text if len(text) > LONGEST_WORD * 2 else _SURE.sub("", text)


def _stated_number(text: str) -> float | None:
    marked = _marked(text)
    if marked is not text:
        if _PLAIN.fullmatch(marked):
            return float(marked)
        if (value := _fraction(marked)) is not None:
            return value
    match = _STATED_NUMBER.search(text.strip())
    return None if match is None else float(match[1] or match[2])


def is_date(text: str) -> bool:
    """Return whether a text is a date or a time."""
    return _TIME.fullmatch(text.strip()) is not None
