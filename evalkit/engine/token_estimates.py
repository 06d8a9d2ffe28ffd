"""Estimate the tokens of prompts from their characters, and of answers from their format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.types import AnswerFormat, Case, Completion, JudgeRequest

CHARACTERS_PER_TOKEN = 4
_PER_BYTE = 2
"""ASCII characters with as many tokens as one UTF-8 byte after the first of a non-ASCII character."""
FREE_TEXT = 150
"""Tokens of a free-text answer, if nothing else is known."""
_TEXT, _ITEM, _VALUE, _SYNTAX = 25, 12, 3, 3
_ITEMS = 2
_FEWEST, _Z = 8, 1.959964


@dataclass(slots=True)
class Kind:
    """The answers of one format.

    Attributes:
        answer: The format.
        wanted: The number of answers to request.
        found: The number of stored answers.
        tokens: The sum of the stored answers' tokens.
        squares: The sum of their squares.
        seconds: The sum of the stored answers' latencies, in seconds.
        likely: The estimated tokens of the judge's own answers to the cases' tasks, each as long as the case's
            responses.
    """

    answer: AnswerFormat | None
    wanted: int = 0
    found: int = 0
    tokens: int = 0
    squares: int = 0
    seconds: float = 0.0
    likely: float = 0.0

    def add(self, completion: Completion) -> None:
        """Add a stored answer, if its number of tokens is known."""
        if completion.usage.completion_tokens is not None:
            self.found += 1
            self.tokens += completion.usage.completion_tokens
            self.squares += completion.usage.completion_tokens**2
            self.seconds += completion.latency

    def guess(self) -> float:
        """Return the estimated tokens of one answer from its format, without stored answers."""
        return self.likely / self.wanted if self.likely else expected_tokens(self.answer)

    def half_width(self) -> float | None:
        """Return half the width of the 95% interval of the mean tokens of the answers to request.

        It treats the stored answers as a sample without replacement (Cochran, Sampling Techniques, 1977, section 2.8).
        The quantile of Student's t comes from the first terms of its expansion (Abramowitz and Stegun 26.7.5). `None`
        for fewer than eight answers.
        """
        if self.found < _FEWEST:
            return None
        freedom = self.found - 1
        variance = max(0.0, self.squares - self.tokens**2 / self.found) / freedom
        left = self.wanted / (self.wanted + self.found)
        z = _Z
        quantile = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        return float(quantile * (variance * left / self.found) ** 0.5)


def response_tokens(case: Case) -> float:
    """Return the estimated mean tokens of a case's responses; 0 if it has none."""
    lengths = [_characters(response.text) for response in case.responses]
    return sum(lengths) / len(lengths) / CHARACTERS_PER_TOKEN if lengths else 0.0


def prompt_tokens(request: JudgeRequest) -> int:
    """Return the estimated tokens of a request's messages."""
    return -(-sum(_characters(message["content"]) for message in request.messages) // CHARACTERS_PER_TOKEN)


def _characters(text: str) -> int:
    """Return the number of ASCII characters with as many tokens as a text; a Chinese character counts as one token."""
    if text.isascii():
        return len(text)
    return len(text.encode("ascii", "ignore")) + _PER_BYTE * (len(text.encode("utf-8", "surrogatepass")) - len(text))


def expected_tokens(answer: AnswerFormat | None) -> int:
    """Return the estimated tokens of an answer in a format, with a few words per text."""
    return FREE_TEXT if answer is None else _within(answer.schema, _TEXT)


def _within(schema: Mapping[str, Any], text: int) -> int:
    if "properties" in schema:
        return _SYNTAX + sum(
            len(name) // CHARACTERS_PER_TOKEN + _SYNTAX + _within(part, text)
            for name, part in schema["properties"].items()
        )
    if "items" in schema:
        each = _within(schema["items"], _ITEM) + 1
        count = max(int(schema.get("minItems", 0)), min(_ITEMS, int(schema.get("maxItems", _ITEMS))))
        return _SYNTAX + each * count
    return text if schema.get("type") == "string" and "enum" not in schema else _VALUE


def sample_fits(answer: AnswerFormat | None, completion: Completion) -> bool:
    """Return whether a stored answer has a format: the same properties, and fixed-size lists of the same sizes."""
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
            if isinstance(parsed[name], list) and part.get("minItems", -1) == part.get("maxItems")
        )
    )
