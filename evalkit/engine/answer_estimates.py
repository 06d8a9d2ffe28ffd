"""How many tokens the answers to requests take: from their format, and from stored answers."""

from __future__ import annotations

import json
from dataclasses import dataclass

from evalkit.core.tokens import (
    CHARACTERS_PER_TOKEN,
    characters,
    image_tokens,
    message_tokens,
)
from evalkit.core.types import AnswerFormat, Case, Completion, JudgeRequest
from evalkit.core.values import Json

FREE_TEXT = 150
"""Tokens of a free-text answer, if nothing else is known."""
_TEXT, _ITEM, _VALUE, _SYNTAX = 25, 12, 3, 3
_ITEMS = 2
_FEWEST, _Z = 8, 1.959964


@dataclass(slots=True)
class AnswerEstimate:
    """The answers of one format.

    Attributes:
        answer: The format.
        to_request: The number of answers to request.
        stored: The number of stored answers.
        tokens: The sum of the stored answers' tokens.
        squares: The sum of their squares.
        seconds: The sum of the stored answers' latencies, in seconds.
        cost_usd: The sum of their costs, in USD; `None` if one is unknown.
        likely: The estimated tokens of the judge's own answers to the cases' tasks, each as long as
            the case's responses.
    """

    answer: AnswerFormat | None
    to_request: int = 0
    stored: int = 0
    tokens: int = 0
    squares: int = 0
    seconds: float = 0.0
    cost_usd: float | None = 0.0
    likely: float = 0.0

    def add(self, completion: Completion) -> None:
        """Add a stored answer, if its number of tokens is known."""
        if completion.usage.completion_tokens is not None:
            self.stored += 1
            self.tokens += completion.usage.completion_tokens
            self.squares += completion.usage.completion_tokens**2
            self.seconds += completion.latency
            is_priced = self.cost_usd is not None and completion.cost_usd is not None
            self.cost_usd = (
                (self.cost_usd or 0.0) + (completion.cost_usd or 0.0)
                if is_priced
                else None
            )

    def guess(self) -> float:
        """Return the estimated tokens of one answer from its format, without stored answers."""
        if self.likely:
            return self.likely / self.to_request
        return expected_tokens(self.answer)

    def half_width(self) -> float | None:
        """Return half the width of the 95% interval of the mean tokens of the answers to request.

        It treats the stored answers as a sample without replacement (Cochran, Sampling Techniques,
        1977, section 2.8). The quantile of Student's t comes from the first terms of its expansion
        (Abramowitz and Stegun 26.7.5). `None` for fewer than eight answers.
        """
        if self.stored < _FEWEST:
            return None
        freedom = self.stored - 1
        variance = max(0.0, self.squares - self.tokens**2 / self.stored) / freedom
        # the finite population correction: stored answers have no sampling error
        unsampled = self.to_request / (self.to_request + self.stored)
        z = _Z
        quantile = (
            z
            + (z**3 + z) / (4 * freedom)
            + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        )
        return float(quantile * (variance * unsampled / self.stored) ** 0.5)


def response_tokens(case: Case) -> float:
    """Return the estimated mean tokens of a case's responses; 0 if it has none."""
    lengths = [characters(response.text) for response in case.responses]
    if lengths:
        return sum(lengths) / len(lengths) / CHARACTERS_PER_TOKEN
    return 0.0


def prompt_tokens(request: JudgeRequest) -> int:
    """Return the estimated tokens of a request's messages."""
    return message_tokens(request.messages) + image_tokens(request.messages)


def expected_tokens(answer: AnswerFormat | None) -> int:
    """Return the estimated tokens of an answer in a format, with a few words per text."""
    if answer is None:
        return FREE_TEXT
    return _schema_tokens(answer.schema, _TEXT)


def _schema_tokens(schema: Json, text: int) -> int:
    """Return about how many tokens an answer of a schema has, with `text` for each free text."""
    if "properties" in schema:
        return _SYNTAX + sum(
            len(name) // CHARACTERS_PER_TOKEN + _SYNTAX + _schema_tokens(part, text)
            for name, part in schema["properties"].items()
        )
    if "items" in schema:
        item_tokens = _schema_tokens(schema["items"], _ITEM) + 1
        count = max(
            int(schema.get("minItems", 0)),
            min(_ITEMS, int(schema.get("maxItems", _ITEMS))),
        )
        return _SYNTAX + item_tokens * count
    if schema.get("type") == "string" and "enum" not in schema:
        return text
    return _VALUE


def sample_fits(answer: AnswerFormat | None, completion: Completion) -> bool:
    """Return whether a stored answer has a format.

    It has the same properties, and lists of a fixed size have the same sizes.
    """
    text = completion.text.strip()
    if answer is None:
        return not text.startswith("{")
    try:
        parsed = json.loads(text)
    except ValueError:
        return False
    properties = answer.schema.get("properties", {})
    return (
        isinstance(parsed, dict)
        and parsed.keys() == properties.keys()
        and all(
            len(parsed[name]) == part["minItems"]
            for name, part in properties.items()
            if isinstance(parsed[name], list)
            and part.get("minItems", -1) == part.get("maxItems")
        )
    )
