"""Turn pydantic's errors about a config into one line: where, what, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from evalkit.config.run_config import RunConfig
from evalkit.core.display import relative
from evalkit.errors import ConfigError, did_you_mean

_ASKS = "Input should be "
_TYPE = re.compile(
    r"(str|int|float|bool|constrained-\w+|(literal|dict|list|tuple|nullable|function-[a-z]+)\W.*)$", re.S
)


def locate(key: Sequence[str | int], files: Sequence[Path], value: Any = None) -> str:
    """Return `file:line` of a key path in the first of `files` that sets it, or an empty string.

    Args:
        key: The key path.
        files: The config files, in order of precedence.
        value: If this is a scalar or a list, only files that set the key to it count. Other files may set the key, too,
            or the command line sets it.
    """
    for file in files:
        try:
            root = yaml.compose(file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError):
            continue
        if [file.parent.name] == list(key) and isinstance(root, yaml.SequenceNode) and _has_value(root, value):
            return f"{relative(file)}:1"
        for path in (list(key), list(key[1:]) if file.parent.name == key[0] else None):
            if path and (found := _line(root, path)) is not None and _has_value(found[1], value):
                return f"{relative(file)}:{found[0]}"
    return ""


def _option(group: str, section: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return the option file that sets most keys of an invalid section, and no other value; empty if there is none."""
    agreeing: dict[str, int] = {}
    for file in [file for file in files if file.parent.name == group]:
        with suppress(OSError, yaml.YAMLError, UnicodeDecodeError):
            values = yaml.safe_load(file.read_text(encoding="utf-8"))
            given = {
                key: part for key, part in (values if isinstance(values, dict) else {}).items() if key != "defaults"
            }
            if given and all(section.get(key) == part for key, part in given.items()):
                agreeing[str(relative(file))] = len(given)
    return max(agreeing, key=lambda file: agreeing[file], default="")


def _has_value(node: yaml.Node, value: Any) -> bool:
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
        text = yaml.serialize(node)
        return "${" in text or bool(yaml.safe_load(text) == value)
    if not isinstance(value, str | int | float) or not isinstance(node, yaml.ScalarNode) or "${" in node.value:
        return True
    written = yaml.safe_load(yaml.serialize(node))
    return bool(written == value) or str(written) == str(value)  # nan is not equal to nan


def _line(node: yaml.Node | None, path: Sequence[str | int]) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of a key path; an entry of a list may be addressed by its name."""
    line = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                return None
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode):
            node = next((one for one in node.value if _name_of(one) == part), None)
            line = node.start_mark.line + 1 if node else None
        else:
            return None
    return None if line is None or node is None else (line, node)


def _name_of(node: yaml.Node) -> str | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value.value for key, value in pairs if key.value == "name"), None)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)


def _sections() -> frozenset[str]:
    """Return the names of the classes of all sections of RunConfig."""
    found: set[type[BaseModel]] = set()
    todo: list[type[BaseModel]] = [RunConfig]
    while todo:
        for field in todo.pop().model_fields.values():
            new = {*_models(field.annotation)} - found
            found |= new
            todo += new
    return frozenset(one.__name__ for one in found)


_SECTIONS = _sections()


def config_error(error: ValidationError, files: Sequence[Path]) -> ConfigError:
    """Return the first problem that pydantic found, with the file and line that set the value, if a file did."""
    first, loc = _most_telling(error.errors(include_url=False))
    key = ".".join(str(part) for part in loc)
    message = re.sub(r"^(Value|Assertion) error, ", "", first["msg"])
    if not loc and (named := re.match(r"([a-z_]+(?:\.[\w ]+)*): ", message)):
        loc = [int(part) if part.isdigit() else part for part in named[1].split(".")]
        key, message = named[1], message[named.end() :]
    location = locate(loc, files, first.get("input")) if loc else ""
    if len(loc) == 1 and not location and isinstance(section := first.get("input"), Mapping):
        location = _option(str(loc[0]), section, files)
    if loc[:1] == ["gate"] and len(loc) > 1:  # a rule may be a text instead of a mapping
        location = location or locate(loc[:-1], files)
    where = f"{location}: {key}" if location else key
    if first["type"] == "extra_forbidden":
        return no_such("key", where, str(loc[-1]), known_keys(loc[:-1]))
    if first["type"] == "missing":
        in_list = any(isinstance(part, int) for part in loc)
        return ConfigError("is not set", where=where, remedy="add it" if in_list else f"give {key}=…")
    if first["type"] in ("dict_type", "model_type"):
        message = "is not a mapping: write {name: value, ...}"
    if first["type"] in ("tuple_type", "list_type"):
        message = "is not a list: write [A, B]"
    what, _, remedy = message.partition(": ")
    value = first.get("input")
    shown = f" (got {value!r})" if isinstance(value, str | int | float | bool) and loc else ""
    return ConfigError(_decapitalize(what) + shown, where=where, remedy=remedy)


def _most_telling(errors: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the problem to report, and its key path without the types that pydantic tried for the value.

    If a value can have several types, there is a problem for each. The one of the type that the value was meant to have
    is reported: that of the section for a mapping, a limit that a number breaks, and otherwise what each type asks for.
    """
    first = errors[0]
    place = next((n for n, part in enumerate(first["loc"]) if _is_type(part)), None)
    if place is None:
        return first, list(first["loc"])
    tried = [one for one in errors if one["loc"][:place] == first["loc"][:place] and len(one["loc"]) > place]
    inside = [one for one in tried if _is_section(one["loc"][place]) and one["type"] not in ("dict_type", "model_type")]
    limits = [one for one in tried if not re.search(r"_(type|error|parsing|from_float)$", one["type"])]
    chosen = (inside or limits or tried)[0]
    if not inside and not (chosen in limits and chosen["type"] != "literal_error"):
        asked = list(dict.fromkeys(re.sub(r"(, unable| or instance).*", "", one["msg"]) for one in tried))
        if all(one.startswith(_ASKS) for one in asked):
            plain = {"a valid dictionary": "a mapping", "a valid integer": "an integer", "a valid ": "a "}
            asked = [reduce(lambda text, old: text.replace(old, plain[old]), plain, one[len(_ASKS) :]) for one in asked]
            chosen = {**chosen, "type": "union", "msg": _ASKS + ", or ".join(asked)}
    return chosen, [part for n, part in enumerate(chosen["loc"]) if n < place or not _is_type(part)]


def _is_type(part: object) -> bool:
    """Return whether a part of pydantic's path is a type that it tried instead of a key."""
    return isinstance(part, str) and (_is_section(part) or _TYPE.match(part) is not None)


def _is_section(part: object) -> bool:
    return part in _SECTIONS or (isinstance(part, str) and re.sub(r".*, (\w+)\]$", r"\1", part) in _SECTIONS)


def _decapitalize(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def known_keys(path: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed under a key path of RunConfig."""
    model: type[BaseModel] | None = RunConfig
    named = False  # whether the last key is a name from the user, like an entry of a mapping
    for part in path:
        if isinstance(part, int) or named:
            named = False
            continue
        field = model.model_fields.get(part) if model else None
        named = field is not None and get_origin(field.annotation) is dict
        model = _section(model, part) if model else None
    return list(model.model_fields) if model else []


def _section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    field = model.model_fields.get(name)
    return next(_models(field.annotation), None) if field else None


def no_such(what: str, where: str, name: str, known: Sequence[str]) -> ConfigError:
    """Return the error for a name that is not one of the `known` names."""
    if name in known:  # it exists, but not in this form
        items = where.rpartition(".")[0]
        remedy = f"set the whole list: '{items}=[{{{name}: VALUE}}]'" if items else f"write {name}.KEY=VALUE"
        return ConfigError("cannot be set in this way", where=where, remedy=remedy)
    return ConfigError(f"no such {what}", where=where, remedy=did_you_mean(name, known))
