"""How probable each value was that a judge could have written in one place, from the tokens that could stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import exp

from evalkit.types import TokenLogprob

_DIGITS = re.compile(r"\d\d")
_NUMBER, _WORD = re.compile(r"[-+.\d]*"), re.compile(r"[A-Za-z]*")


@dataclass(slots=True)
class Distribution:
    """Probability by value, as seen: it adds up to `mass`, which is below 1 where something else was likely as well.

    `open` is the part of it whose last characters were not seen and that was shared out evenly.
    """

    weights: dict[float, float] = field(default_factory=dict)
    open: float = 0.0

    def add(self, weight: float, values: Sequence[float]) -> None:
        """Share a weight evenly among the values it can be for; one for no value leads off the scale."""
        for value in values:
            self.weights[value] = self.weights.get(value, 0.0) + weight / len(values)
        self.open += weight if len(values) > 1 else 0.0

    @property
    def mass(self) -> float:
        """How much probability was seen on the values asked about."""
        return sum(self.weights.values())

    @property
    def expectation(self) -> float:
        """The mean of the values, each weighted by its share of the mass.

        The score of G-Eval (Liu et al. 2023, arXiv 2303.16634, section 2, "Scoring Function"), with the probabilities
        of tokens where its authors, who were given none, counted 20 samples.
        """
        return sum(value * weight for value, weight in self.weights.items()) / self.mass


class Spellings:
    """The ways of writing each of some values, told apart from the beginning of a text on.

    Args:
        values: each spelling and its value.
        by_digits: whether numbers are generated digit by digit, so that a digit may be the beginning of a longer one.
    """

    def __init__(self, values: Mapping[str, float], *, by_digits: bool = True) -> None:
        self._values, self._by_digits = values, by_digits
        self.words = all(text.isalpha() for text in values)
        self._body = _WORD if self.words else _NUMBER
        self._beginning: dict[str, tuple[float, ...]] = {}

    def split(self, text: str) -> tuple[str, bool]:
        """Return how much of a text belongs to a value, and whether the value ends with it."""
        body = self._body.match(text)
        part = body.group() if body else ""
        return part, len(part) < len(text)

    def exactly(self, text: str) -> tuple[float, ...]:
        """Return the one value that a whole text spells, or nothing."""
        return (self._values[text],) if text in self._values else ()

    def possible(self, before: str, further: str | None) -> tuple[float, ...]:
        """Return the values that can be meant once `further` has been written after `before`."""
        if not further:
            return ()
        part, closed = self.split(further)
        return self.exactly(before + part) if closed else self._begun(before + part)

    def _begun(self, text: str) -> tuple[float, ...]:
        if text not in self._beginning:
            found = {value for spelt, value in self._values.items() if self._goes_on(text, spelt)}
            self._beginning[text] = tuple(sorted(found))
        return self._beginning[text]

    def _goes_on(self, text: str, spelt: str) -> bool:
        if not spelt.startswith(text):
            return False
        return self._by_digits or not (text[-1:].isdigit() and spelt[len(text) :][:1].isdigit())


@dataclass(frozen=True)
class Tokens:
    """A completion's text as the tokens it was generated in."""

    text: str
    tokens: Sequence[TokenLogprob]

    @cached_property
    def starts(self) -> tuple[int, ...] | None:
        """Where each token starts in the text's UTF-8, or none if the tokens do not spell the text."""
        pieces = [_bytes(token) for token in self.tokens]
        at = -b"".join(pieces).find(_encoded(self.text))
        if at > 0:
            return None
        starts = []
        for piece in pieces:
            starts.append(at)
            at += len(piece)
        return tuple(starts)

    @cached_property
    def by_digits(self) -> bool:
        """Whether no token seen has two digits in a row."""
        seen = (text for token in self.tokens for text in (token.token, *(other for other, _ in token.top)))
        return not any(map(_DIGITS.search, seen))

    def distribution(self, start: int, end: int, values: Mapping[str, float]) -> Distribution | None:
        """Return how probable each value was in the place of the one that stands at [start, end) of the text.

        The tokens that spell it are followed from the first on. At each, every alternative ends the value, goes on
        spelling one, or leads off. How one that goes on but was not taken would have ended is not known: it is shared
        evenly among the values that begin so. Where tokens hold several digits, no token of digits follows another.

        Args:
            start: the first character of the value in the text.
            end: the character after its last.
            values: each way of writing a value, and the value.

        Returns:
            The probabilities, or none if the tokens do not spell the text, have no alternatives, or the value is not
            one of `values`.
        """
        if self.text[start:end] not in values or not any(token.top for token, _ in islice(self._from(start), 1)):
            return None
        spellings = Spellings(values, by_digits=self.by_digits)
        found, before, likely = Distribution(), "", 1.0
        for token, lead in self._from(start):
            for other, logprob in token.top:
                if other != token.token:
                    found.add(likely * exp(logprob), spellings.possible(before, _after(lead, other, spellings.words)))
            part, closed = spellings.split(_bytes(token)[len(lead) :].decode("utf-8", "replace"))
            likely *= exp(token.logprob)
            before += part
            if closed:
                break
        found.add(likely, spellings.exactly(before))
        return found if found.mass > 0 else None

    def _from(self, start: int) -> Iterator[tuple[TokenLogprob, bytes]]:
        """Yield the tokens from a character of the text on, each with what of it stands before that character."""
        if self.starts is None:
            return
        at = len(_encoded(self.text[:start]))
        for token, begin in zip(self.tokens, self.starts, strict=True):
            piece = _bytes(token)
            if begin + len(piece) > at:
                yield token, piece[: max(0, at - begin)]


def _after(lead: bytes, other: str, words: bool) -> str | None:
    """Return what an alternative has after the `lead` that the token taken has, white space aside; none if it has not.

    White space before a number means nothing in JSON; inside the quotes around a word it does.
    """
    for char in "".join(lead.decode("utf-8", "replace").split()):
        other = other.lstrip()
        if not other.startswith(char):
            return None
        other = other[1:]
    return other if words else other.lstrip()


def _bytes(token: TokenLogprob) -> bytes:
    return _encoded(token.token) if token.raw is None else bytes(token.raw)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
