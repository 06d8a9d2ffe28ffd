"""Encode the frozen values as JSON, and decode them exactly.

Judges' texts may contain unpaired surrogates, which UTF-8 cannot encode. pydantic refuses them; `json` keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, Final, cast, get_args, get_type_hints

from evalkit.errors import did_you_mean
from evalkit.types import Metric

Decoder = Callable[[Any], Any]

NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class MalformedError(ValueError):
    """A JSON value does not have the expected type; `str()` names the key and the mismatch."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(f"{path}: {what}" if path else what)


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def _open(value: Any) -> Any:
    if is_dataclass(value):
        return {name: getattr(value, name) for name in _names(cast(Any, type(value)))}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    # NumPy scalars, without importing NumPy; any other value in a case is kept as text.
    return value.item() if hasattr(value, "item") else str(value)


_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_open)
_LOOSE = json.JSONEncoder(ensure_ascii=False, allow_nan=True, default=_open)


def encode_line(value: Any) -> bytes:
    """Return a value as one line of strict JSON in UTF-8; NaN and infinities become texts."""
    try:
        text = _STRICT.encode(value)
    except ValueError:
        text = _STRICT.encode(json.loads(_LOOSE.encode(value), parse_constant=str))
    return _one_line(text)


def encode_finite(value: Any) -> bytes:
    """Return a value as one line of strict JSON in UTF-8.

    Raises:
        ValueError: If the value contains NaN or an infinity.
    """
    return _one_line(_STRICT.encode(value))


def encode_pretty(value: Any) -> bytes:
    """Return a value as indented strict JSON in UTF-8.

    Raises:
        ValueError: If the value contains NaN or an infinity.
    """
    show = partial(json.dumps, indent=2, allow_nan=False, default=_open)
    try:
        return (show(value, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (show(value, ensure_ascii=True) + "\n").encode()


def _one_line(text: str) -> bytes:
    # Some readers also split lines at NEL, LS and PS, which JSON does not escape; escape all of such a line.
    if len(text.splitlines()) == 1:
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:
            pass
    return json.dumps(json.loads(text)).encode() + b"\n"


@cache
def decoder(hint: Any) -> Decoder:
    """Return a function that decodes a JSON value to a type, or raises `MalformedError`.

    It is pydantic's validator with a strict version of the type's schema: a text is not a number, and unknown keys are
    errors. It takes the values of `json`, not bytes, because pydantic's JSON parser refuses unpaired surrogates.
    """
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator, ValidationError

    validate = SchemaValidator(_strict(TypeAdapter(hint).core_schema)).validate_python

    def decode(value: Any) -> Any:
        try:
            return validate(value)
        except ValidationError as bad:
            raise _malformed(bad.errors(include_url=False), hint) from None

    return decode


def _strict(schema: Any) -> Any:
    """Make a pydantic schema strict: convert only integers and `NOT_FINITE` to numbers, and lists to tuples."""
    if isinstance(schema, list | tuple):
        return type(schema)(_strict(part) for part in schema)
    if not isinstance(schema, dict) or schema.get("type") == "literal":
        return schema
    if schema.get("type") == "float":
        text = {"type": "chain", "steps": [{"type": "literal", "expected": sorted(NOT_FINITE)}, {"type": "float"}]}
        choices = [({**schema, "strict": True}, _CHOICE), (text, _CHOICE)]
        return {"type": "union", "mode": "left_to_right", "choices": choices}
    strict = {key: _strict(part) for key, part in schema.items()}
    match schema.get("type"):
        case "str" | "int" | "bool":
            strict["strict"] = True
        case "dataclass-args":
            strict["extra_behavior"] = "forbid"
        case "union":
            strict |= {"mode": "left_to_right", "choices": [(part, _CHOICE) for part in strict["choices"]]}
    return strict


def _malformed(errors: Sequence[Any], hint: Any) -> MalformedError:
    """Return a pydantic error on one line, with the path of keys."""
    # A misspelled key is also a missing one: report the unknown key.
    error = next((one for one in errors if one["type"] == "unexpected_keyword_argument"), errors[0])
    kind, loc = error["type"], [part for part in error["loc"] if part != _CHOICE]
    if kind == "unexpected_keyword_argument":
        *loc, key = loc
        what = f"unknown key '{key}', {did_you_mean(key, _names(_record_at(hint, loc)))}"
    elif kind == "missing" and isinstance(loc[-1], str):
        *loc, key = loc
        what = f"key '{key}' is missing"
    else:
        expected = _EXPECTED.get(kind, "a list of a different length")
        if kind == "literal_error":
            expected = "one of " + str(error["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
        what = f"expected {expected}, got {_shown(error['input'])}"
    return MalformedError(what, ".".join(part for part in loc if isinstance(part, str)))


def _record_at(hint: Any, loc: Sequence[str | int]) -> Any:
    """Return the dataclass at a path in a value of type `hint`."""
    if not is_dataclass(hint):
        return next((found for part in get_args(hint) if (found := _record_at(part, loc)) is not None), None)
    keys = [part for part in loc if isinstance(part, str)]
    return _record_at(get_type_hints(hint)[keys[0]], keys[1:]) if keys else hint


_CHOICE = "|"  # pydantic adds this to the path of a type with several choices
_NAMES = {str: "a string", bool: "true or false", int: "an integer", dict: "an object", list: "a list"}
_EXPECTED = {
    "string_type": _NAMES[str],
    "bool_type": _NAMES[bool],
    "int_type": _NAMES[int],
    "float_type": "a number",
    "dict_type": _NAMES[dict],
    "dataclass_type": _NAMES[dict],
    "tuple_type": _NAMES[list],
}


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else _NAMES.get(type(value), "a number")


def metric_values(metric: Metric) -> dict[str, Any]:
    """Return a metric's fields as in metrics.json, without its name."""
    return {
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "n": metric.n,
        "missing": metric.missing,
        "worst_low": metric.worst_low,
        "worst_high": metric.worst_high,
        "note": metric.note,
    }
