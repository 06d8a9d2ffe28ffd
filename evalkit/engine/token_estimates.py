"""How many tokens prompts and answers come to, before they are there: by characters, and by what is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.types import AnswerFormat, Case, Completion, JudgeRequest

CHARACTERS_PER_TOKEN = 4
_PER_BYTE = 2
"""Characters that each byte beyond the first counts for in the UTF-8 of a character beyond ASCII."""
FREE_TEXT = 150
"""Tokens of an answer in running text, where nothing is known of it."""
_TEXT, _ITEM, _VALUE, _SYNTAX = 25, 12, 3, 3
_ITEMS = 2
_FEWEST, _Z = 8, 1.959964


@dataclass(slots=True)
class Kind:
    """Answers of one format: how many are `wanted`; the tokens, their squares and seconds of those `found` stored.

    `likely` is the tokens of those wanted that answer a case's task itself, were each as long as the responses to it.
    """

    answer: AnswerFormat | None
    wanted: int = 0
    found: int = 0
    tokens: int = 0
    squares: int = 0
    seconds: float = 0.0
    likely: float = 0.0

    def add(self, completion: Completion) -> None:
        """Take a stored answer in, if its tokens are known."""
        if completion.usage.completion_tokens is not None:
            self.found += 1
            self.tokens += completion.usage.completion_tokens
            self.squares += completion.usage.completion_tokens**2
            self.seconds += completion.latency

    def guess(self) -> float:
        """Return about how many tokens one of those wanted has, where none is known: by what it is to hold."""
        return self.likely / self.wanted if self.likely else expected_tokens(self.answer)

    def half_width(self) -> float | None:
        """Return half the width of the 95 % interval of the mean tokens of those wanted, were these drawn from them.

        Student's t for a sample without replacement (Cochran, Sampling Techniques, 1977, section 2.8), its quantile by
        the first terms of its expansion (Abramowitz and Stegun 26.7.5); none of fewer than eight.
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
    """Return about how many tokens a case's responses have on average; 0 if it has none."""
    lengths = [_characters(response.text) for response in case.responses]
    return sum(lengths) / len(lengths) / CHARACTERS_PER_TOKEN if lengths else 0.0


def prompt_tokens(request: JudgeRequest) -> int:
    """Return about how many tokens a request's messages have."""
    return -(-sum(_characters(message["content"]) for message in request.messages) // CHARACTERS_PER_TOKEN)


def _characters(text: str) -> int:
    """Return how many ASCII characters have as many tokens as a text; a Chinese character counts as one token."""
    if text.isascii():
        return len(text)
    return len(text.encode("ascii", "ignore")) + _PER_BYTE * (len(text.encode("utf-8", "surrogatepass")) - len(text))


def expected_tokens(answer: AnswerFormat | None) -> int:
    """Return about how many tokens an answer of a format has, a few words for each of its texts."""
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
    """Say whether a stored answer is of such a format: the same properties, and as many entries for as many names."""
    text = completion.text.strip()
    if answer is None:
        return not text.startswith("{")
    try:
        held = json.loads(text)
    except ValueError:
        return False
    properties = answer.schema.get("properties", {})
    return (
        isinstance(held, dict)
        and held.keys() == properties.keys()
        and all(
            len(held[name]) == part["minItems"]
            for name, part in properties.items()
            if isinstance(held[name], list) and part.get("minItems", -1) == part.get("maxItems")
        )
    )
