"""Verdicts and ratings that stand in running text: `[[A]]`, `[[A>>B]]`, `[[7.5]]`, or a pattern of the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from evalkit.config import OutputConfig
from evalkit.errors import ConfigError
from evalkit.parsing.marks import Choice, Mark, choose
from evalkit.parsing.numbers import extent, with_base
from evalkit.parsing.scores import read_score
from evalkit.parsing.thinking import half_width
from evalkit.parsing.unreadable import UnreadableError
from evalkit.parsing.winners import read_winner
from evalkit.scales import Scale
from evalkit.types import Winner

BETTER = 1 / 3
"""The margin of a verdict of better, where that of much better is 1."""

# Markdown renderers make models escape square brackets.
_MARK = re.compile(r"\\?\[\\?\[([^\[\]]{1,80})\]\\?\]")
_LONGEST_MARK = 40
_ORDERED = re.compile(r"\A(?P<left>[AB])\s*(?P<sign>>{1,3}|<{1,3}|={1,3})\s*(?P<right>[AB])\Z")


def read_verdict(text: str, output: OutputConfig, *, cut_off: bool = False, sources: Sequence[str] = ()) -> Winner:
    """Return the winner as shown (A = the response shown first) by the marks or the pattern of `output`.

    Args:
        text: the judge's text.
        output: how it is read.
        cut_off: whether the text is known to end early.
        sources: the texts under judgment, from which a verdict may be quoted.

    Raises:
        UnreadableError: if there is none, an unknown one, or several where one is asked for or meant.
    """
    if output.format == "regex":
        return Pattern(output, "winner").winner(text, cut_off=cut_off, sources=sources)
    choice = Choice(output.take, "[[A]], [[B]] or [[C]]", cut_off, sources)
    return choose(text, _marks, _marked, choice)


def read_margin(text: str, output: OutputConfig, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
    """Return the margin as shown by double brackets: 1 for `A` and `A>>B`, a third for `A>B`, 0 for a tie.

    It is positive when the response shown first is better; arguments as for `read_verdict`.

    Raises:
        UnreadableError: as `read_verdict` does.
    """
    choice = Choice(output.take, "[[A>>B]], [[A>B]], [[A=B]], [[B>A]] or [[B>>A]]", cut_off, sources)
    return choose(text, _marks, _graded, choice)


def read_rating(
    text: str, output: OutputConfig, scale: Scale, *, cut_off: bool = False, sources: Sequence[str] = ()
) -> float:
    """Return the score, in scale units, by the marks or the pattern of `output`; arguments as for `read_verdict`.

    Raises:
        UnreadableError: if there is none, one off the scale, or several where one is asked for or meant.
    """
    if output.format == "regex":
        return Pattern(output, "score").score(text, scale, cut_off=cut_off, sources=sources)
    choice = Choice(output.take, "[[score]]", cut_off, sources)
    return choose(text, _ratings, lambda mark: read_score(mark, scale), choice)


class Pattern:
    """A user's pattern with a group `winner` or `score`.

    Raises:
        ConfigError: if it does not compile or lacks the group.
    """

    def __init__(self, output: OutputConfig, group: Literal["winner", "score"]) -> None:
        self._output, self._group = output, group
        try:
            self._pattern = re.compile(output.pattern or "")
        except re.error as error:
            raise ConfigError(
                f"not a regular expression: {error}", where="output.pattern", remedy=f"mend '{output.pattern}'"
            ) from None
        if group not in self._pattern.groupindex:
            raise ConfigError(
                f"'{output.pattern}' has no group named '{group}', which this mode reads",
                where="output.pattern",
                remedy=f"put (?P<{group}>…) around what names the {group}",
            )

    def winner(self, text: str, *, cut_off: bool = False, sources: Sequence[str] = ()) -> Winner:
        """Return the winner it captures.

        Raises:
            UnreadableError: if it captures none, an unknown one, or several where one is asked for or meant.
        """
        return choose(text, self._captured, self._mapped, self._choice(cut_off, sources))

    def score(self, text: str, scale: Scale, *, cut_off: bool = False, sources: Sequence[str] = ()) -> float:
        """Return the score it captures, in scale units.

        Raises:
            UnreadableError: if it captures none, one off the scale, part of a longer number, or several where one is
                asked for or meant.
        """
        choice = self._choice(cut_off, sources)
        return choose(text, self._numbers, lambda one: read_score(one, scale), choice)

    def _choice(self, cut_off: bool, sources: Sequence[str]) -> Choice:
        return Choice(self._output.take, "what output.pattern looks for", cut_off, sources, alone=False)

    def _captured(self, text: str) -> list[Mark]:
        matches = self._pattern.finditer(text)
        return [Mark(match[self._group], *match.span()) for match in matches if match[self._group] is not None]

    def _numbers(self, text: str) -> list[Mark]:
        plain, found = half_width(text), self._pattern.finditer(text)
        spans = [(match, match.span(self._group)) for match in found if match[self._group] is not None]
        whole = [(match, extent(plain, *span)) for match, span in spans]
        return [
            Mark(plain[begin:end], min(begin, match.start()), max(end, match.end())) for match, (begin, end) in whole
        ]

    def _mapped(self, captured: str) -> Winner:
        table = self._output.map
        if not table:
            return read_winner(captured)
        if captured in table:
            return table[captured]
        folded = {key.strip().casefold(): winner for key, winner in table.items()}
        if winner := folded.get(captured.strip().casefold()):
            return winner
        raise UnreadableError("invalid", f"'{captured[:60]}' is not in output.map")


def _marks(text: str) -> list[Mark]:
    """Return the double brackets in a text; half-width forms stand at the same places as what they are read for."""
    # No mark goes over a paragraph's end, as one that thinking was dropped out of does.
    held = [match for match in _MARK.finditer(half_width(text)) if "\n\n" not in match[1]]
    found = [(match[1].removesuffix("\\").strip(), *match.span()) for match in held]
    return [Mark(*one) for one in found if 0 < len(one[0]) <= _LONGEST_MARK and "\n" not in one[0]]


def _ratings(text: str) -> list[Mark]:
    """Return the double brackets in a text, each with what it is out of."""
    plain = half_width(text)
    ends = [(mark, with_base(plain, mark.end)) for mark in _marks(text)]
    return [Mark(mark.held + plain[mark.end : end], mark.start, end) for mark, end in ends]


def _graded(mark: str) -> float:
    winner, ordered = _marked(mark), _ORDERED.match(mark.strip().upper())
    size = BETTER if ordered is not None and len(ordered["sign"]) == 1 else 1.0
    return {"A": size, "TIE": 0.0, "B": -size}[winner]


def _marked(mark: str) -> Winner:
    spelt = mark.strip().upper()
    if spelt == "C":
        return "TIE"
    ordered = _ORDERED.match(spelt)
    if ordered is None or ordered["left"] == ordered["right"]:
        return read_winner(mark)
    if "=" in ordered["sign"]:
        return "TIE"
    return "A" if (ordered["left"] == "A") == (">" in ordered["sign"]) else "B"
