"""How probable each value was that a judge could have written in one place, from the tokens that could stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import exp
from typing import Any, Literal, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.errors import JudgeSetupError
from evalkit.parsing import UnreadableError
from evalkit.parsing.json import Path, places
from evalkit.types import Completion, JudgeRequest, TokenLogprob, WeightedJudgment

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


Wanted: TypeAlias = bool | Literal["fallback"]


def margins(*, tie_allowed: bool) -> dict[str, float]:
    """Return the ways of writing a winner, and its margin as shown: the expectation of these is P(A) - P(B)."""
    found = {"A": 1.0, "a": 1.0, "B": -1.0, "b": -1.0}
    return found | {"TIE": 0.0, "Tie": 0.0, "tie": 0.0} if tie_allowed else found


def paths(field: str, parts: Sequence[object], chosen: Mapping[str, object], decision: str) -> dict[str, Path]:
    """Return where the decision of each of the `chosen` parts stands in an answer that has the `parts` in a field."""
    places = {id(part): place for place, part in enumerate(parts)}
    return {name: (field, places[id(part)], decision) for name, part in chosen.items()}


def swap_distribution(weighted: WeightedJudgment) -> WeightedJudgment:
    """Return the margins of a pair as seen with its responses exchanged."""
    value = None if weighted.value is None else -weighted.value
    return replace(weighted, value=value, criteria={name: -margin for name, margin in weighted.criteria.items()})


def scores_of(scale: Scale) -> dict[str, float]:
    """Return the ways of writing each value of a scale as a JSON number, and the value."""
    return {spelt: value for value in scale.values() for spelt in _spelt(scale.text(value))}


def _spelt(text: str) -> set[str]:
    return {text, text.rstrip("0").rstrip(".")} if "." in text else {text, f"{text}.0"}


class Weighing:
    """Weighs the decisions in completions, as `judge.logprobs` of each judge of a run wants it."""

    def __init__(self, config: RunConfig, values: Mapping[str, float]) -> None:
        judges = [*config.judge.members, *([config.swap.arbiter] if config.swap.arbiter else [])]
        self._wanted: dict[str, Wanted] = {judge.label: judge.logprobs for judge in judges}
        self._values = values

    def __call__(
        self,
        request: JudgeRequest,
        completion: Completion,
        answer: Mapping[str, Any],
        criteria: Mapping[str, Path],
        overall: Path | None = None,
    ) -> WeightedJudgment | None:
        """Return the expectations of an answer's decisions, or none if they are not wanted, or cannot be had.

        Args:
            request: what was asked.
            completion: what came back.
            answer: the JSON object in it.
            criteria: where in the answer the decision on each criterion stands.
            overall: where the overall decision stands, if there is one.

        Raises:
            JudgeSetupError: if log-probabilities are a must, and none came.
            UnreadableError: if they are a must, and do not tell of a decision.
        """
        wanted = self._wanted.get(request.judge, False)
        if not wanted:
            return None
        if wanted == "fallback" and completion.logprobs is None:
            return None
        if completion.logprobs is None:
            raise _none_came(request, completion)
        found = self._found(completion, answer, [*criteria.values(), *([overall] if overall else [])])
        if found is None:
            if wanted == "fallback":
                return None
            raise UnreadableError("logprobs", "the tokens with log-probabilities do not spell the decisions")
        return WeightedJudgment(
            value=found[overall].expectation if overall else None,
            criteria={name: found[path].expectation for name, path in criteria.items()},
            mass=min(1.0, *(one.mass for one in found.values())),
            open=max(one.open / one.mass for one in found.values()),
        )

    def _found(
        self, completion: Completion, answer: Mapping[str, Any], paths: list[Path]
    ) -> dict[Path, Distribution] | None:
        spans, tokens = places(completion.text, answer), Tokens(completion.text, completion.logprobs or ())
        found: dict[Path, Distribution] = {}
        for path in paths:
            one = tokens.distribution(*spans[path], self._values) if path in spans else None
            if one is None:
                return None
            found[path] = one
        return found


def _none_came(request: JudgeRequest, completion: Completion) -> JudgeSetupError:
    return JudgeSetupError(
        f"judge {request.judge} answers without log-probabilities (sent as {completion.rung})",
        where="judge.logprobs",
        remedy="set it to false, or to fallback to do without where there are none",
    )
