"""Where each value of an answer stands in the judge's text: by the JSON's structure, not by what looks like it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
Span: TypeAlias = tuple[int, int]

_DECODER = json.JSONDecoder()
_SCALAR, _STRING = re.compile(r"[^\s,\]}]+"), re.compile(r'"(?:[^"\\]|\\.)*"')
_BEGIN, _TRIES = re.compile(r"\{(?=\s*[\"}])"), 200
_SPACE = re.compile(r"[ \t\n\r]*")


def places(text: str, answer: Mapping[str, Any]) -> dict[Path, Span]:
    """Return the span [start, end) of each text, number and constant of a JSON object, by its path inside.

    A text's span lies between its quotes. The object is the last one in `text` that equals `answer`; of one that does
    not stand there as valid JSON, nothing is returned.
    """
    found: dict[Path, Span] = {}
    end = 0
    try:
        for _ in range(_TRIES):
            if (begun := _BEGIN.search(text, end)) is None:
                break
            at = begun.start()
            try:
                value, end = _DECODER.raw_decode(text, at)
            except ValueError:
                end = at + 1
            else:
                if value == answer:
                    _walk(text, at, (), found)
    except RecursionError:
        return {}
    return found


def _walk(text: str, at: int, path: Path, found: dict[Path, Span]) -> int:
    """Note the spans in the valid JSON value that starts at `at`, and return where it ends."""
    if text[at] == "{":
        return _members(text, at, path, found)
    if text[at] == "[":
        return _items(text, at, path, found)
    quotes = int(text[at] == '"')
    end = _past(_STRING if quotes else _SCALAR, text, at)
    found[path] = (at + quotes, end - quotes)
    return end


def _members(text: str, at: int, path: Path, found: dict[Path, Span]) -> int:
    at = _past_space(text, at + 1)
    while text[at] != "}":
        at = _past_comma(text, at)
        end = _past(_STRING, text, at)
        key = _DECODER.decode(text[at:end])
        at = _past_space(text, _past_space(text, end) + 1)
        at = _past_space(text, _walk(text, at, (*path, key), found))
    return at + 1


def _items(text: str, at: int, path: Path, found: dict[Path, Span]) -> int:
    at = _past_space(text, at + 1)
    place = 0
    while text[at] != "]":
        at = _past_space(text, _walk(text, _past_comma(text, at), (*path, place), found))
        place += 1
    return at + 1


def _past_comma(text: str, at: int) -> int:
    return _past_space(text, at + 1) if text[at] == "," else at


def _past_space(text: str, at: int) -> int:
    return _past(_SPACE, text, at)


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, "the JSON was valid a moment ago"
    return match.end()
