"""Compute the probability of each possible decision from the alternatives of its tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import exp
from typing import Literal, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.core.scale import Classes, Scale
from evalkit.core.types import Completion, JudgeRequest, TokenLogprob, WeightedJudgment
from evalkit.core.values import Json
from evalkit.evaluators.parsing import UnreadableError
from evalkit.evaluators.parsing.json import Path, places

_DIGITS = re.compile(r"\d\d")
_NUMBER = re.compile(r"[-+.\d]*")
_WORD = re.compile(r"[A-Za-z]*")
_QUOTED = re.compile(r'[^"]*')


@dataclass(slots=True)
class Distribution:
    """Observed probability by value; the sum is `mass`, which is below 1 if other
    tokens were likely too.

    `open` is the part that was shared evenly because the last characters were not observed.
    """

    weights: dict[float, float] = field(default_factory=dict)
    open: float = 0.0

    def add(self, weight: float, values: Sequence[float]) -> None:
        """Share a weight evenly among `values`; without values, it is off the scale and dropped."""
        # The probability of an unfinished prefix is split evenly: what would follow was not
        # observed.
        for value in values:
            self.weights[value] = self.weights.get(value, 0.0) + weight / len(values)
        self.open += weight if len(values) > 1 else 0.0

    @property
    def mass(self) -> float:
        """The total probability of all values."""
        return sum(self.weights.values())

    @property
    def expectation(self) -> float:
        """The mean of the values, each weighted by its share of the mass.

        The score of G-Eval (Liu et al. 2023, arXiv 2303.16634, section 2, "Scoring Function"), with
        token probabilities instead of the frequencies in 20 samples.
        """
        return sum(value * weight for value, weight in self.weights.items()) / self.mass


class Spellings:
    """The spellings of values, matched by prefix.

    Args:
        values: Each spelling and its value.
        by_digits: Whether numbers are generated digit by digit, so that a digit can be the prefix
            of a longer number.
        quoted: Whether the values are any texts, which end at a quotation mark.
    """

    def __init__(
        self,
        values: Mapping[str, float],
        *,
        by_digits: bool = True,
        quoted: bool = False,
    ) -> None:
        self._values = values
        self._by_digits = by_digits
        self.words = quoted or all(text.isalpha() for text in values)
        self._body = _NUMBER
        if quoted:
            self._body = _QUOTED
        elif self.words:
            self._body = _WORD
        # prefix -> the values that start with it; alternatives repeat prefixes
        self._beginning: dict[str, tuple[float, ...]] = {}

    def split(self, text: str) -> tuple[str, bool]:
        """Return the prefix of a text that belongs to a value, and whether the value ends there."""
        # The value ends where a character cannot belong to it, such as a quotation mark.
        body = self._body.match(text)
        part = body.group() if body else ""
        return part, len(part) < len(text)

    def exactly(self, text: str) -> tuple[float, ...]:
        """Return the value with exactly this spelling, if any."""
        if text in self._values:
            return (self._values[text],)
        return ()

    def possible(self, before: str, added: str | None) -> tuple[float, ...]:
        """Return the values that are possible after `before` is continued with `added`."""
        if not added:
            return ()
        part, closed = self.split(added)
        if closed:
            return self.exactly(before + part)
        return self._begun(before + part)

    def _begun(self, text: str) -> tuple[float, ...]:
        if text not in self._beginning:
            values = {
                value
                for spelt, value in self._values.items()
                if self._continues(text, spelt)
            }
            self._beginning[text] = tuple(sorted(values))
        return self._beginning[text]

    def _continues(self, text: str, spelt: str) -> bool:
        if not spelt.startswith(text):
            return False
        # A tokenizer with tokens of several digits writes 10 as one token: 1 is then complete.
        return self._by_digits or not (
            text[-1:].isdigit() and spelt[len(text) :][:1].isdigit()
        )


@dataclass(frozen=True)
class Tokens:
    """A completion's text and its tokens."""

    text: str
    tokens: Sequence[TokenLogprob]

    @cached_property
    def starts(self) -> tuple[int, ...] | None:
        """The start of each token in the text, in bytes of UTF-8; `None` if the tokens do not
        spell the text.

        Tokens before the text have negative starts.
        """
        pieces = [_bytes(token) for token in self.tokens]
        # Tokens before the text have negative starts; 1 means that the text is not in the tokens.
        # In bytes, because a token can end inside of a character. `at` is minus the index of the
        # text in the tokens.
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
        """Whether no observed token has two consecutive digits."""
        texts = (
            text
            for token in self.tokens
            for text in (token.token, *(alternative for alternative, _ in token.top))
        )
        return not any(map(_DIGITS.search, texts))

    def distribution(
        self, start: int, end: int, values: Mapping[str, float], *, quoted: bool = False
    ) -> Distribution | None:
        """Return the probability of each value at the position of the value in [start,
        end) of the text.

        The tokens of the value are followed in order. Each alternative token ends a value,
        continues one, or leads to none. The end of an alternative that was not generated is
        unknown, so its probability is shared evenly among the values with that prefix. If tokens
        have several digits, no token of digits follows another.

        Args:
            start: The index of the value's first character.
            end: The index after its last character.
            values: Each spelling and its value.
            quoted: Whether the values are any texts, which end at a quotation mark.

        Returns:
            The probabilities; `None` if the tokens do not spell the text, have no alternatives, or
            the value is not one of `values`.
        """
        if self.text[start:end] not in values or not any(
            token.top for token, _ in islice(self._from(start), 1)
        ):
            return None
        spellings = Spellings(values, by_digits=quoted or self.by_digits, quoted=quoted)
        distribution = Distribution()
        # the text of the value so far, and its probability
        before = ""
        likely = 1.0
        for token, lead in self._from(start):
            # Each alternative branches off here, after what was generated before it: its
            # probability is the product of both.
            for alternative, logprob in token.top:
                # The token that was generated is followed below.
                if alternative != token.token:
                    distribution.add(
                        likely * exp(logprob),
                        spellings.possible(
                            before, _after(lead, alternative, spellings.words)
                        ),
                    )
            part, closed = spellings.split(
                _bytes(token)[len(lead) :].decode("utf-8", "replace")
            )
            # The probability of the path so far, token by token.
            likely *= exp(token.logprob)
            before += part
            if closed:
                break
        distribution.add(likely, spellings.exactly(before))
        if distribution.mass > 0:
            return distribution
        return None

    def _from(self, start: int) -> Iterator[tuple[TokenLogprob, bytes]]:
        """Yield the tokens from a character on, each with the part of it before that character."""
        if self.starts is None:
            return
        at = len(_encoded(self.text[:start]))
        for token, begin in zip(self.tokens, self.starts, strict=True):
            piece = _bytes(token)
            if begin + len(piece) > at:
                # A token may begin before the value, such as `:4`: that part is its lead.
                yield token, piece[: max(0, at - begin)]


def _after(lead: bytes, alternative: str, words: bool) -> str | None:
    """Return the part of an alternative after `lead`, ignoring white space; `None` if
    it does not start with `lead`.

    White space before a number has no meaning in JSON, but it does inside the quotes around a word.
    """
    for char in "".join(lead.decode("utf-8", "replace").split()):
        alternative = alternative.lstrip()
        if not alternative.startswith(char):
            return None
        alternative = alternative[1:]
    if words:
        return alternative
    return alternative.lstrip()


def _bytes(token: TokenLogprob) -> bytes:
    if token.raw is None:
        return _encoded(token.token)
    return bytes(token.raw)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


Wanted: TypeAlias = bool | Literal["fallback"]


def margins(*, tie_allowed: bool) -> dict[str, float]:
    """Return the spellings of a winner and its margin as shown; their expectation is
    P(A) - P(B).
    """
    spellings = {"A": 1.0, "a": 1.0, "B": -1.0, "b": -1.0}
    if tie_allowed:
        return spellings | {"TIE": 0.0, "Tie": 0.0, "tie": 0.0}
    return spellings


def paths(
    field: str, parts: Sequence[object], chosen: Mapping[str, object], decision: str
) -> dict[str, Path]:
    """Return the path of the decision of each of the `chosen` parts in an answer with
    `parts` in a field.
    """
    # By identity: two parts of an answer may be equal.
    indices = {id(part): index for index, part in enumerate(parts)}
    return {name: (field, indices[id(part)], decision) for name, part in chosen.items()}


def swap_distribution(weighted: WeightedJudgment) -> WeightedJudgment:
    """Return the margins of a pair with its responses exchanged."""
    value = None if weighted.value is None else -weighted.value
    return replace(
        weighted,
        value=value,
        criteria={name: -margin for name, margin in weighted.criteria.items()},
    )


def scores_of(scale: Scale) -> dict[str, float]:
    """Return the spellings of each value of a scale as a JSON number, and the value."""
    return {
        spelt: value for value in scale.values() for spelt in _spelt(scale.text(value))
    }


def _spelt(text: str) -> set[str]:
    if "." in text:
        return {text, text.rstrip("0").rstrip(".")}
    return {text, f"{text}.0"}


class Weighing:
    """Weigh the decisions in completions by probability, according to each judge's
    `judge.logprobs`.
    """

    def __init__(
        self,
        config: RunConfig,
        values: Mapping[str, float],
        *,
        answers: Sequence[str] = (),
    ) -> None:
        self._wanted: dict[str, Wanted] = {
            judge.label: judge.logprobs for judge in config.judges
        }
        self._values = values
        self._answers = tuple(answers)

    @classmethod
    def of_classes(cls, config: RunConfig, classes: Classes) -> Weighing:
        """Return what weighs classes and the abstention, each spelled in common cases."""
        # Values are the indexes of the answers here, so that `of_class` can look up weights by
        # index.
        spelled = {
            form: float(index)
            for index, name in enumerate(classes.answers)
            for form in (
                name.lower(),
                name.upper(),
                name.capitalize(),
                name.title(),
                name,
            )
        }
        return cls(config, spelled, answers=classes.answers)

    def __call__(
        self,
        request: JudgeRequest,
        completion: Completion,
        answer: Json,
        criteria: Mapping[str, Path],
        overall: Path | None = None,
    ) -> WeightedJudgment | None:
        """Return the expectations of an answer's decisions.

        `None` if they are not requested or not available.

        Args:
            request: The request.
            completion: The completion.
            answer: The JSON object in it.
            criteria: The path of the decision on each criterion in the answer.
            overall: The path of the overall decision, if there is one.

        Raises:
            JudgeSetupError: If log-probabilities are required and the completion has none.
            UnreadableError: If they are required and do not cover a decision.
        """
        distributions = self._required_distributions(
            request,
            completion,
            answer,
            [*criteria.values(), *([overall] if overall else [])],
        )
        if distributions is None:
            return None
        return WeightedJudgment(
            value=distributions[overall].expectation if overall else None,
            criteria={
                name: distributions[path].expectation for name, path in criteria.items()
            },
            # The least certain decision counts for the whole answer.
            mass=min(
                1.0, *(distribution.mass for distribution in distributions.values())
            ),
            open=max(
                distribution.open / distribution.mass
                for distribution in distributions.values()
            ),
        )

    def of_class(
        self, request: JudgeRequest, completion: Completion, answer: Json, path: Path
    ) -> WeightedJudgment | None:
        """Return the probability of each class, given that the answer is one of them; `None` if
        log-probabilities are not requested or not available.

        Args:
            request: The request.
            completion: The completion.
            answer: The JSON object in it.
            path: The path of the class in the answer.

        Raises:
            JudgeSetupError: If log-probabilities are required and the completion has none.
            UnreadableError: If they are required and do not cover the answers.
        """
        distributions = self._required_distributions(
            request, completion, answer, [path]
        )
        if distributions is None:
            return None
        distribution = distributions[path]
        classes = {
            name: distribution.weights.get(float(index), 0.0) / distribution.mass
            for index, name in enumerate(self._answers)
        }
        return WeightedJudgment(
            mass=min(1.0, distribution.mass),
            open=distribution.open / distribution.mass,
            classes=classes,
        )

    def _required_distributions(
        self,
        request: JudgeRequest,
        completion: Completion,
        answer: Json,
        paths: list[Path],
    ) -> dict[Path, Distribution] | None:
        """Return the distribution of each decision; `None` if the judge is not weighed.

        With `logprobs: fallback`, also `None` if the log-probabilities are missing or unusable.

        Raises:
            JudgeSetupError: If they are required, and the judge returned none.
            UnreadableError: If they are required, and do not spell the decisions.
        """
        requirement = self._wanted.get(request.judge, False)
        if not requirement or (
            requirement == "fallback" and completion.logprobs is None
        ):
            return None
        if completion.logprobs is None:
            raise JudgeSetupError(
                f"judge {request.judge} returned no log-probabilities (sent as {completion.rung})",
                where="judge.logprobs",
                remedy="set it to false, or to fallback to continue without them",
            )
        distributions = self._decision_distributions(completion, answer, paths)
        if distributions is None and requirement != "fallback":
            raise UnreadableError(
                "logprobs",
                "the tokens with log-probabilities do not spell the decisions",
            )
        return distributions

    def _decision_distributions(
        self, completion: Completion, answer: Json, paths: list[Path]
    ) -> dict[Path, Distribution] | None:
        """Return the distribution at the path of each decision; `None` if one decision has none."""
        spans = places(completion.text, answer)
        tokens = Tokens(completion.text, completion.logprobs or ())
        distributions: dict[Path, Distribution] = {}
        # Classes are any texts, and end at a quotation mark.
        quoted = bool(self._answers)
        for path in paths:
            distribution = None
            if path in spans:
                distribution = tokens.distribution(
                    *spans[path], self._values, quoted=quoted
                )
            # One decision without a distribution would make the judgment half stated, half
            # weighed.
            if distribution is None:
                return None
            distributions[path] = distribution
        return distributions
