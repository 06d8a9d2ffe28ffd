"""The frozen values as JSON, and back exactly: decoders are made once from the types' own annotations.

Judges' texts may hold what UTF-8 cannot (lone surrogates), which pydantic refuses and `json` carries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from evalkit.errors import did_you_mean
from evalkit.types import Metric

Decoder = Callable[[Any], Any]

NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class MalformedError(ValueError):
    """A JSON value is not what its type says; `str()` of it names the key and the mismatch."""

    def __init__(self, what: str, path: str = "") -> None:
        self.what, self.path = what, path
        super().__init__(f"{path}: {what}" if path else what)

    def within(self, key: str) -> MalformedError:
        """Return the same complaint, seen from one level up."""
        return MalformedError(self.what, f"{key}.{self.path}" if self.path else key)


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
    # NumPy's numbers, without importing NumPy; anything else a case carries along is kept as text.
    return value.item() if hasattr(value, "item") else str(value)


_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_open)
_LOOSE = json.JSONEncoder(ensure_ascii=False, allow_nan=True, default=_open)


def encode_line(value: Any) -> bytes:
    """Return a value as one line of strict JSON in UTF-8; a number that is not finite becomes a text."""
    try:
        text = _STRICT.encode(value)
    except ValueError:
        text = _STRICT.encode(json.loads(_LOOSE.encode(value), parse_constant=str))
    return _one_line(text)


def encode_finite(value: Any) -> bytes:
    """Return a value as one line of strict JSON in UTF-8.

    Raises:
        ValueError: on NaN or an infinity.
    """
    return _one_line(_STRICT.encode(value))


def encode_pretty(value: Any) -> bytes:
    """Return a value as indented strict JSON in UTF-8.

    Raises:
        ValueError: on NaN or an infinity.
    """
    show = partial(json.dumps, indent=2, allow_nan=False, default=_open)
    try:
        return (show(value, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (show(value, ensure_ascii=True) + "\n").encode()


def _one_line(text: str) -> bytes:
    # Some readers also split at NEL, LS and PS, which JSON leaves bare: such lines are escaped throughout.
    if len(text.splitlines()) == 1:
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:
            pass
    return json.dumps(json.loads(text)).encode() + b"\n"


@cache
def decoder(hint: Any) -> Decoder:
    """Return the function that makes a value of a type out of its JSON, raising `MalformedError` if it is not one."""
    origin, args = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _record(cast(type, hint))
    if origin in (Union, UnionType):
        return _union(args)
    if origin is Literal:
        return partial(_literal, frozenset(args))
    if origin is tuple:
        return _variadic(decoder(args[0])) if args[-1] is Ellipsis else _fixed(tuple(decoder(a) for a in args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(None if args[1] is Any else decoder(args[1]))
    return _scalar(hint)


def _scalar(hint: Any) -> Decoder:
    if hint is Any:
        return lambda value: value
    if hint is float:
        return _float
    return partial(_exactly, hint)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise MalformedError(f"expected {_NAMES.get(kind, kind.__name__)}, found {_found(value)}")
    return value


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int or (type(value) is str and value in NOT_FINITE):
        return float(value)
    raise MalformedError(f"expected a number, found {_found(value)}")


def _literal(allowed: frozenset[Any], value: Any) -> Any:
    if isinstance(value, str) and value in allowed:
        return value
    raise MalformedError(f"expected one of {', '.join(sorted(allowed))}, found {_found(value)}")


def _union(args: tuple[Any, ...]) -> Decoder:
    inner = tuple(decoder(arg) for arg in args if arg is not NoneType)
    optional = NoneType in args

    def decode(value: Any) -> Any:
        if value is None and optional:
            return None
        for option in inner[:-1]:
            try:
                return option(value)
            except MalformedError:
                continue
        return inner[-1](value)

    return decode


def _items(value: Any, count: int | None = None) -> list[Any]:
    if type(value) is not list or (count is not None and len(value) != count):
        expected = "a list" if count is None else f"a list of {count}"
        raise MalformedError(f"expected {expected}, found {_found(value)}")
    return value


def _variadic(item: Decoder) -> Decoder:
    return lambda value: tuple([item(part) for part in _items(value)])


def _fixed(items: tuple[Decoder, ...]) -> Decoder:
    return lambda value: tuple(f(part) for f, part in zip(items, _items(value, len(items)), strict=True))


def _mapping(item: Decoder | None) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise MalformedError(f"expected an object, found {_found(value)}")
        return value if item is None else {key: item(part) for key, part in value.items()}

    return decode


def _record(cls: type) -> Decoder:
    hints = get_type_hints(cls)
    parts = {f.name: decoder(hints[f.name]) for f in fields(cls)}
    needed = [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise MalformedError(f"expected an object, found {_found(value)}")
        made: dict[str, Any] = {}
        for key, part in value.items():
            if key not in parts:
                raise MalformedError(f"unknown key '{key}', {did_you_mean(key, parts)}")
            try:
                made[key] = parts[key](part)
            except MalformedError as bad:
                raise bad.within(key) from None
        if missing := [name for name in needed if name not in made]:
            raise MalformedError(f"key '{missing[0]}' is missing")
        return cls(**made)

    return decode


_NAMES = {str: "a text", bool: "true or false", int: "a whole number", dict: "an object", list: "a list"}


def _found(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else _NAMES.get(type(value), "a number")


def metric_values(metric: Metric) -> dict[str, Any]:
    """Return a metric's numbers by their names in metrics.json; its own name is not among them."""
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
