"""Tightening a JSON schema for a small model that rambles, and turning it into a llama.cpp grammar."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# llguidance's own extension of JSON schema: no optional spaces, which cost a small model a third of its tokens.
COMPACT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}


def only(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return `schema` without properties of other names, however deep, and without objects that have none left."""
    changed = dict(schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        parts = {name: only(part, names) for name, part in properties.items() if name in names}
        changed["properties"] = {name: part for name, part in parts.items() if part.get("properties") != {}}
        if "required" in schema:
            changed["required"] = [name for name in schema["required"] if name in changed["properties"]]
    if isinstance(items := schema.get("items"), Mapping):
        changed["items"] = only(items, names)
    return changed


def tighten(schema: Mapping[str, Any], *, string_limit: int | None, list_limit: int | None) -> dict[str, Any]:
    """Return `schema` with every free string and array bounded: `string_limit` characters, `list_limit` items.

    Strings with a fixed set of values stay, and a list's own `minItems` wins. A list of exactly n items that are to
    name n things, each by an enum, is made to name each of them once, in the enum's order.
    """
    return {
        name: _part(name, value, string_limit, list_limit)
        for name, value in _each_once(_bounded(schema, string_limit, list_limit)).items()
    }


def compact(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `schema` with the request that its answer be written without spaces between tokens."""
    return {**schema, "x-guidance": COMPACT}


def _part(name: str, value: Any, string_limit: int | None, list_limit: int | None) -> Any:
    limits = {"string_limit": string_limit, "list_limit": list_limit}
    if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
        return {key: tighten(part, **limits) if isinstance(part, Mapping) else part for key, part in value.items()}
    if name in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
        return tighten(value, **limits)
    if name in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
        return [tighten(part, **limits) if isinstance(part, Mapping) else part for part in value]
    return value


def _bounded(schema: Mapping[str, Any], string_limit: int | None, list_limit: int | None) -> dict[str, Any]:
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    bounded = dict(schema)
    free = not {"enum", "const", "pattern", "format", "maxLength"} & set(schema)
    if "string" in kinds and free and string_limit is not None:
        bounded["maxLength"] = max(string_limit, schema.get("minLength", 0))
    if "array" in kinds and list_limit is not None:
        bounded["maxItems"] = max(min(list_limit, schema.get("maxItems", list_limit)), schema.get("minItems", 0))
    return bounded


def _each_once(schema: dict[str, Any]) -> dict[str, Any]:
    items = schema.get("items")
    if not isinstance(items, Mapping) or schema.get("minItems") != schema.get("maxItems"):
        return schema
    for name, part in items.get("properties", {}).items():
        if len(values := part.get("enum", [])) == schema["minItems"]:
            fixed = [{**items, "properties": {**items["properties"], name: {"const": value}}} for value in values]
            return {**{k: v for k, v in schema.items() if k != "items"}, "prefixItems": fixed, "items": False}
    return schema
