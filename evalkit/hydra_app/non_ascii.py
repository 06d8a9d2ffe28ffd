"""Overrides in any script: Hydra's grammar accepts other characters than ASCII only in quoted values.

Values are quoted. Keys, also those inside a mapping, pass through Hydra spelled in ASCII and are decoded afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

_ENCODED: Final = re.compile(r"_key_(\w+)", re.ASCII)
_PIECE: Final = re.compile(
    r"""(?P<kept>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[\]{}(),])|(?:\$\{[^}]*\}|\\.|[^\\\[\]{}(),'"])+|.""", re.DOTALL
)
_CHOICE: Final = re.compile(r"choice\(([^()]*)\)", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\\()\[\]{}:=, \t])")
_QUOTED: Final = re.compile(r"(?<=[=,\[(])'([^\s,:=(){}\[\]\"'\\$]*)'")


def in_ascii(word: str) -> str:
    """Return an override that Hydra can parse, if only characters other than ASCII keep Hydra from parsing it."""
    key, equals, value = word.partition("=")
    if word.isascii() or not equals or word.startswith("-"):
        return word
    key = ".".join(part if part.isascii() else encoded("key", part) for part in key.split("."))
    if _parses(value):
        return f"{key}={value}"
    choice = _CHOICE.fullmatch(value)  # Hydra's sweeper would remove the quotes in it
    quoted_parts = _with_quoted_parts(choice[1] if choice else value)
    return f"{key}={quoted_parts if _parses(quoted_parts) else quoted(value)}"


def as_typed(text: str) -> str:
    """Return a text with the keys and plain values of overrides as the user typed them."""
    plain = _QUOTED.sub(lambda found: found[0] if found[1].isascii() else found[1], text)
    return _ENCODED.sub(lambda found: decoded(found[1]), plain)


def with_decoded_keys(values: Any) -> Any:
    """Return composed values with the keys that were spelled in ASCII."""
    if isinstance(values, Mapping):
        return {_key(key): with_decoded_keys(value) for key, value in values.items()}
    return [with_decoded_keys(value) for value in values] if isinstance(values, list) else values


def _key(key: Any) -> Any:
    spelled = _ENCODED.fullmatch(key) if isinstance(key, str) else None
    return key if spelled is None else decoded(spelled[1])


def encoded(how: str, name: str) -> str:
    """Return a key for a name: ASCII letters and digits unchanged, other UTF-8 bytes as `_` and two hex digits."""
    spelled = "".join(chr(b) if chr(b).isalnum() and b < 128 else f"_{b:02x}" for b in name.encode())
    return f"_{how}_{spelled}"


def decoded(spelled: str) -> str:
    """Return the name that `encoded` spelled."""
    return re.sub(rb"_([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), spelled.encode()).decode()


def quoted(text: str) -> str:
    """Return a text in Hydra's quotes; interpolations in it stay."""
    escaped = re.sub(r"(\\*)'", lambda found: found[1] * 2 + "\\'", text)
    trailing = len(escaped) - len(escaped.rstrip("\\"))
    return f"'{escaped}{chr(92) * trailing}'"


def _parses(value: str) -> bool:
    try:
        OverridesParser.create().parse_override(f"key={value}")
    except HydraException:
        return False
    return True


def _with_quoted_parts(value: str) -> str:
    """Quote each text with other characters than ASCII, also in lists, mappings, functions and sweeps."""
    parts, inside, last = [], [""], ""
    for piece in _PIECE.finditer(value):
        text = piece[0]
        if piece["kept"] is None:
            in_key = inside[-1] == "{" and last in ("{", ",")
            text = _as_pair(text) if in_key and ":" in text else _as_text(text)
        elif text in ("[", "{", "("):
            inside.append(text)
        elif text in ("]", "}", ")"):
            inside = inside[:-1] or [""]
        last = text
        parts.append(text)
    return "".join(parts)


def _as_pair(text: str) -> str:
    key, _, value = text.partition(":")
    spelled = key if key.isascii() else encoded("key", _ESCAPED.sub(r"\1", key.strip()))
    return f"{spelled}:{_as_text(value)}"


def _as_text(text: str) -> str:
    content = text.strip()
    return text if text.isascii() else text.replace(content, quoted(_ESCAPED.sub(r"\1", content)))
