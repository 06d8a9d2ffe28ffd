"""Say in one line what is wrong with a config, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from evalkit.config.kinds import models_in
from evalkit.config.run_config import RunConfig
from evalkit.core.bounded_files import check_yaml, read_yaml
from evalkit.core.display import relative
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.regular_files import read_text

_ASKS = "Input should be "
_TYPE = re.compile(
    r"(str|int|float|bool|constrained-\w+|(literal|dict|list|tuple|nullable|function-[a-z]+)\W.*)$",
    re.S,
)


def locate(key: Sequence[str | int], files: Sequence[Path], value: Any = None) -> str:
    """Return `file:line` of a key path in the first of `files` that sets it, or an empty string.

    Args:
        key: The key path.
        files: The config files, in order of precedence.
        value: If this is a scalar or a list, only files that set the key to it count. Other files
            may set the key, too, or the command line sets it.
    """
    for file in files:
        try:
            text = read_text(file)
            # The file may be hostile: a few lines of aliases can describe gigabytes.
            check_yaml(text)
            root = yaml.compose(text)
        except (OSError, yaml.YAMLError, ValueError, RecursionError):
            continue
        if (
            [file.parent.name] == list(key)
            and isinstance(root, yaml.SequenceNode)
            and _may_have_value(root, value)
        ):
            return f"{relative(file)}:1"
        # the file of an option has the keys below the name of its group
        for path in (list(key), list(key[1:]) if file.parent.name == key[0] else None):
            if (
                path
                and (entry := _locate_key(root, path)) is not None
                and _may_have_value(entry[1], value)
            ):
                return f"{relative(file)}:{entry[0]}"
    return ""


def _option(group: str, section: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return the option file that sets most keys of an invalid section, and no other
    value; empty if there is none.
    """
    agreeing: dict[str, int] = {}
    for file in [file for file in files if file.parent.name == group]:
        with suppress(OSError, ValueError):
            values = read_yaml(read_text(file))
            # `defaults` is a list of Hydra's, not a setting
            option_values = {
                key: part
                for key, part in (values if isinstance(values, dict) else {}).items()
                if key != "defaults"
            }
            if option_values and all(
                section.get(key) == part for key, part in option_values.items()
            ):
                agreeing[str(relative(file))] = len(option_values)
    return max(agreeing, key=lambda file: agreeing[file], default="")


def _may_have_value(node: yaml.Node, value: Any) -> bool:
    """Return whether a place in a file may have set a value; an interpolation may be anything."""
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
        text = yaml.serialize(node)
        return "${" in text or bool(yaml.safe_load(text) == value)
    if (
        not isinstance(value, str | int | float)
        or not isinstance(node, yaml.ScalarNode)
        or "${" in node.value
    ):
        return True
    written = yaml.safe_load(yaml.serialize(node))
    # As texts, too: NaN is not equal to itself.
    return bool(written == value) or str(written) == str(value)


def _locate_key(
    node: yaml.Node | None, path: Sequence[str | int]
) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of a key path.

    An entry of a list may be addressed by its name.
    """
    line = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            # A mapping node is a list of pairs of nodes, of which the key has the line.
            entry = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            # A file that does not set the whole path did not set the value.
            if entry is None:
                return None
            line = entry[0].start_mark.line + 1
            node = entry[1]
        elif (
            isinstance(node, yaml.SequenceNode)
            and isinstance(part, int)
            and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode):
            node = next(
                (element for element in node.value if _name_of(element) == part), None
            )
            line = node.start_mark.line + 1 if node else None
        else:
            return None
    if line is None or node is None:
        return None
    return (line, node)


def _name_of(node: yaml.Node) -> str | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value.value for key, value in pairs if key.value == "name"), None)


def _sections() -> frozenset[str]:
    """Return the names of the classes of all sections of RunConfig."""
    sections: set[type[BaseModel]] = set()
    # Sections contain sections, some of them themselves, so each is visited once.
    todo: list[type[BaseModel]] = [RunConfig]
    while todo:
        for field in todo.pop().model_fields.values():
            new = {*models_in(field.annotation)} - sections
            sections |= new
            todo += new
    return frozenset(section.__name__ for section in sections)


_SECTIONS = _sections()


def config_error(error: ValidationError, files: Sequence[Path]) -> ConfigError:
    """Return the first problem that pydantic found.

    It names the file and line that set the value, if a file did.
    """
    first, loc = _most_telling(error.errors(include_url=False))
    key = ".".join(str(part) for part in loc)
    message = re.sub(r"^(Value|Assertion) error, ", "", first["msg"])
    # Rules between sections have no path in pydantic: their texts begin with the key.
    if not loc and (named := re.match(r"([a-z_]+(?:\.[\w ]+)*): ", message)):
        loc = [int(part) if part.isdigit() else part for part in named[1].split(".")]
        key = named[1]
        message = message[named.end() :]
    location = locate(loc, files, first.get("input")) if loc else ""
    if (
        len(loc) == 1
        and not location
        and isinstance(section := first.get("input"), Mapping)
    ):
        location = _option(str(loc[0]), section, files)
    # A rule may be a text instead of a mapping.
    if loc[:1] == ["gate"] and len(loc) > 1:
        location = location or locate(loc[:-1], files)
    where = f"{location}: {key}" if location else key
    if first["type"] == "extra_forbidden":
        return no_such("key", where, str(loc[-1]), known_keys(loc[:-1]))
    if first["type"] == "missing":
        in_list = any(isinstance(part, int) for part in loc)
        return ConfigError(
            "is not set", where=where, remedy="add it" if in_list else f"give {key}=…"
        )
    if first["type"] in ("dict_type", "model_type"):
        message = "is not a mapping: write {name: value, ...}"
    if first["type"] in ("tuple_type", "list_type"):
        message = "is not a list: write [A, B]"
    problem, _, remedy = message.partition(": ")
    value = first.get("input")
    if isinstance(value, str | int | float | bool) and loc:
        received = f" (got {value!r})"
    else:
        received = ""
    if problem[1:2].islower():
        problem = problem[:1].lower() + problem[1:]
    return ConfigError(problem + received, where=where, remedy=remedy)


def _most_telling(errors: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the problem to report, and its key path.

    The path is without the types that pydantic tried for the value.

    If a value can have several types, there is a problem for each. The one of the type that the
    value was meant to have is reported: that of the section for a mapping, a limit that a number
    breaks, and otherwise what each type asks for.
    """
    first = errors[0]
    # a key path names each type that pydantic tried, at the same position
    # Index in the path at which a type and no key is named.
    position = next((n for n, part in enumerate(first["loc"]) if _is_type(part)), None)
    if position is None:
        return first, list(first["loc"])
    tried = [
        problem
        for problem in errors
        if problem["loc"][:position] == first["loc"][:position]
        and len(problem["loc"]) > position
    ]
    inside = [
        problem
        for problem in tried
        if _is_section(problem["loc"][position])
        and problem["type"] not in ("dict_type", "model_type")
    ]
    limits = [
        problem
        for problem in tried
        if not re.search(r"_(type|error|parsing|from_float)$", problem["type"])
    ]
    # A problem inside of a section says more than a limit, and that more than "not a string".
    chosen = (inside or limits or tried)[0]
    if not inside and not (chosen in limits and chosen["type"] != "literal_error"):
        expectations = list(
            dict.fromkeys(
                re.sub(r"(, unable| or instance).*", "", problem["msg"])
                for problem in tried
            )
        )
        if all(expected.startswith(_ASKS) for expected in expectations):
            plain = {
                "a valid dictionary": "a mapping",
                "a valid integer": "an integer",
                "a valid ": "a ",
            }
            expectations = [
                reduce(
                    lambda text, old: text.replace(old, plain[old]),
                    plain,
                    expected[len(_ASKS) :],
                )
                for expected in expectations
            ]
            chosen = {
                **chosen,
                "type": "union",
                "msg": _ASKS + ", or ".join(expectations),
            }
    return chosen, [
        part
        for n, part in enumerate(chosen["loc"])
        if n < position or not _is_type(part)
    ]


def _is_type(part: object) -> bool:
    """Return whether a part of pydantic's path is a type that it tried instead of a key."""
    return isinstance(part, str) and (
        _is_section(part) or _TYPE.match(part) is not None
    )


def _is_section(part: object) -> bool:
    return part in _SECTIONS or (
        isinstance(part, str) and re.sub(r".*, (\w+)\]$", r"\1", part) in _SECTIONS
    )


def known_keys(path: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed under a key path of RunConfig."""
    model: type[BaseModel] | None = RunConfig
    named = False  # whether the last key is a name from the user, like an entry of a mapping
    for part in path:
        # An index or a name that the user chose leads to the entry's own model.
        if isinstance(part, int) or named:
            named = False
            continue
        field = model.model_fields.get(part) if model else None
        named = field is not None and get_origin(field.annotation) is dict
        model = next(models_in(field.annotation), None) if field else None
    if model:
        return list(model.model_fields)
    return []


def no_such(kind: str, where: str, name: str, names: Sequence[str]) -> ConfigError:
    """Return the error for a name that is not one of the `names` names."""
    if name in names:  # it exists, but not in this form
        items = where.rpartition(".")[0]
        if items:
            remedy = f"set the whole list: '{items}=[{{{name}: VALUE}}]'"
        else:
            remedy = f"write {name}.KEY=VALUE"
        return ConfigError("cannot be set in this way", where=where, remedy=remedy)
    return ConfigError(f"no such {kind}", where=where, remedy=did_you_mean(name, names))
