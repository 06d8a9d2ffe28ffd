"""Texts that are too long for a page: cut, and how many bytes a case takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalkit.core.json_encoders import quick_encoder
from evalkit.core.turns import Unit as Heading
from evalkit.core.turns import parse, render, unit_of
from evalkit.core.types import (
    Case,
    Judgment,
)

SHORT, LONG = 200, 20_000
"""The most characters of a text in shortened cases, and in other cases."""


LEAST, OF_JUDGMENT = 20, 300
"""The fewest bytes of a response, and a third of those of a case, without texts; and about the
bytes of a judgment."""


PARTS, ROOM = 1_000, 60_000
"""The most parts of a long conversation, and about the most characters of all of them."""


_as_json = quick_encoder(json.JSONEncoder(ensure_ascii=False, separators=(",", ":")))


def estimate_bytes(case: Case, judgments: Sequence[Judgment]) -> int:
    """Return roughly how many bytes a case takes in the page."""
    texts = [
        case.prompt,
        case.context or "",
        case.reference or "",
        *(response.text for response in case.responses),
    ]
    completions = [
        judgment.completion for judgment in judgments if judgment.completion is not None
    ]
    texts += [
        text or ""
        for completion in completions
        for text in (completion.text, completion.reasoning)
    ]
    # ASCII takes one byte; most other text in these data takes two or more.
    return OF_JUDGMENT * (1 + len(judgments)) + sum(
        min(len(text), LONG) * (1 if text.isascii() else 2) for text in texts
    )


def encoded_size(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-8", "replace"))


def encode(value: Any) -> str:
    """Return a value as JSON for a script element."""
    text = _as_json(value)
    # No text can end the script element, or open a comment in it, without one of these.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def cut_text(text: str, length: int) -> str:
    """Return a text with at most so many characters; in full cases, a conversation part by part."""
    if len(text) <= length:
        return text
    if length == LONG and (unit := unit_of(text)) is not None:
        return cut_conversation(text, unit)
    return f"{text[:length]}… (+{len(text) - length:,})"


def cut_conversation(text: str, unit: Heading) -> str:
    """Return a conversation with its longest parts shortened; of very many parts, the
    first and the last.
    """
    parts = parse(text)
    # Half of the parts from the beginning, half from the end.
    half = PARTS // 2
    most = ROOM
    if len(parts) > PARTS:
        omitted = sum(len(part.text) for part in parts[half:-half])
        gap = replace(
            parts[half],
            kind="said",
            name="omitted",
            text=f"… (+{omitted:,})",
            judged=False,
        )
        parts = [*parts[:half], gap, *parts[-half:]]
    # The limit falls by a quarter until all parts together fit.
    while sum(min(len(part.text), most) for part in parts) > ROOM:
        most = most * 3 // 4
    return render(
        (replace(part, text=cut_text(part.text, most)) for part in parts), unit
    )


def shorten_texts(value: Any, length: int) -> Any:
    """Return a value with each text in it shortened to a length."""
    if isinstance(value, str):
        return cut_text(value, length)
    if isinstance(value, dict):
        # Texts that are short enough need no call.
        # Most values are numbers or short words: a call for each would double the time.
        return {
            key: inner
            if isinstance(inner, str) and len(inner) <= length
            else shorten_texts(inner, length)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [shorten_texts(inner, length) for inner in value]
    return value
