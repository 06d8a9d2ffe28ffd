"""Turn what Hydra and pydantic say of a wrong config into one line: where, what, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_origin

import yaml
from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from evalkit.config import RunConfig
from evalkit.core.display import relative
from evalkit.errors import ConfigError, EvalkitError, did_you_mean, pasted
from evalkit.hydra_app.criteria import as_written, no_such_criterion

_SEVERAL = re.compile(r"(?:Ambiguous value for argument|Sweep parameters) '(.+?)'(?: requires --multirun)?$", re.M)
RECORDED = "recorded"
"""The option of each group that a finished run's config consists of."""


def locate(key: Sequence[str | int], files: Sequence[Path], given: Any = None) -> str:
    """Return `file:line` of a key path in the first of `files` that sets it, else an empty string.

    Where `given` is one value, only a file that sets the key to it counts: others may set the key too, or none of them
    does and the command line does.
    """
    for file in files:
        try:
            root = yaml.compose(file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError):
            continue
        for path in (list(key), list(key[1:]) if file.parent.name == key[0] else None):
            if path and (found := _line(root, path)) is not None and _says(found[1], given):
                return f"{relative(file)}:{found[0]}"
    return ""


def _says(node: yaml.Node, given: Any) -> bool:
    if not isinstance(given, str | int | float) or not isinstance(node, yaml.ScalarNode) or "${" in node.value:
        return True
    value = yaml.safe_load(yaml.serialize(node))
    return bool(value == given) or str(value) == str(given)  # nan is not nan


def _line(node: yaml.Node | None, path: Sequence[str | int]) -> tuple[int, yaml.Node] | None:
    """Return the line of a key path, and what stands there; an entry of a list may go by its name."""
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


def config_error(error: ValidationError, files: Sequence[Path]) -> ConfigError:
    """Return the first problem pydantic found, with the file and line that set it, if a file did."""
    first = error.errors(include_url=False)[0]
    loc = [part for part in first["loc"] if not (isinstance(part, str) and part.startswith("function-"))]
    key = ".".join(str(part) for part in loc)
    message = re.sub(r"^(Value|Assertion) error, ", "", first["msg"])
    if not loc and (named := re.match(r"([a-z_]+(?:\.[\w ]+)*): ", message)):
        loc = [int(part) if part.isdigit() else part for part in named[1].split(".")]
        key, message = named[1], message[named.end() :]
    place = locate(loc, files, first.get("input")) if loc else ""
    if loc[:1] == ["gate"]:  # a rule may be a text, that stands for a mapping
        place = place or locate(loc[:-1], files)
    where = f"{place}: {key}" if place else key
    if first["type"] == "extra_forbidden":
        return _no_such("key", where, str(loc[-1]), known_keys(loc[:-1]))
    what, _, remedy = message.partition(": ")
    given = first.get("input")
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) and loc else ""
    return ConfigError(_decapitalize(what) + shown, where=where, remedy=remedy)


def _decapitalize(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def known_keys(path: Sequence[str | int]) -> list[str]:
    """Return the keys that may stand under a key path of RunConfig."""
    model: type[BaseModel] | None = RunConfig
    named = False  # by the user, as an entry of a mapping is
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


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)


def hydra_error(error: Exception) -> EvalkitError:
    """Return what went wrong while Hydra composed a config, as one line."""
    if isinstance(error, EvalkitError):
        return error
    if isinstance(error, UnicodeDecodeError):
        from evalkit.hydra_app import user_files

        what = ConfigError("a config file is not UTF-8", remedy="save it as UTF-8")
        return next((fault for file in user_files() if (fault := not_utf8(file))), what)
    if isinstance(error, MissingConfigException):
        return _missing_option(error)
    if _merges_list(str(error)):
        remedy = "write NAME: {description: TEXT, weight: 0.5} for each in its file"
        return ConfigError("one is a list, and only a mapping by name can be changed", where="criteria", remedy=remedy)
    if isinstance(error, OverrideParseException):
        error.override = as_written(error.override)
        if error.override.lstrip("+").startswith("gate."):
            remedy = "write 'gate={METRIC: \"RULE\"}': a metric's name cannot stand before the ="
            return ConfigError("cannot be read as an override", where=error.override, remedy=remedy)
        return ConfigError(
            f"cannot be read as an override ({error.message.partition(chr(10))[0]})",
            where=error.override,
            remedy="quote what holds brackets, commas or spaces: 'key=\"value\"'",
        )
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return ConfigError(f"is not YAML ({error.problem})", where=f"{relative(Path(mark.name))}:{mark.line + 1}")
    if several := _SEVERAL.search(str(error)):
        word = as_written(several[1])
        name, _, values = word.partition("=")
        remedy = f"add -m to run a job for each, or write {pasted(name, values)} if it is one value"
        return ConfigError("has several values", where=word, remedy=remedy)
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if isinstance(cause, MissingMandatoryValue):
        return ConfigError("is not set", where=str(cause.full_key), remedy=f"give {cause.full_key}=…")
    if isinstance(cause, OmegaConfBaseException) and cause.full_key and cause.full_key.split(".")[0] != "hydra":
        if "is not in struct" in str(cause) or "is not in struct" in str(error):
            return _unknown_key(str(cause.full_key), cause)
        return ConfigError(str(cause).partition("\n")[0], where=as_written(str(cause.full_key)))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, ConfigCompositionException) and (key := re.search(r"override '([^']+)'", str(error))):
        return _unknown_key(key[1]) if "is not in struct" in str(error.__cause__ or error) else ConfigError(lines[0])
    return ConfigError(lines[0] if lines else type(error).__name__)


def not_utf8(file: Path) -> ConfigError | None:
    """Return what is wrong with a file that is not UTF-8, `None` if it is."""
    try:
        file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"the byte at offset {error.start} is not UTF-8"
        return ConfigError(what, where=str(relative(file)), remedy="save the file as UTF-8")
    except OSError:
        return None
    return None


def _merges_list(message: str) -> bool:
    """Say whether criteria that are a list were to be composed with others, or changed."""
    merged = "In 'criteria/" in message and "Cannot merge" in message
    return merged or re.search(r"Index '_(set|add|del)_", message) is not None


def _unknown_key(key: str, cause: OmegaConfBaseException | None = None) -> ConfigError:
    *parents, last = key.split(".")
    if parents == ["criteria"] and cause is not None and cause.parent_node is not None:
        return no_such_criterion(last, [str(name) for name in cause.parent_node])
    return _no_such("key", key, last, known_keys(parents))


def _no_such(what: str, where: str, name: str, known: Sequence[str]) -> ConfigError:
    if name in known:  # there is one, but not as it was written
        return ConfigError("cannot be set in this way", where=where, remedy=f"write {name}=OPTION or {name}.KEY=VALUE")
    return ConfigError(f"no such {what}", where=where, remedy=did_you_mean(name, known))


def _missing_option(error: MissingConfigException) -> ConfigError:
    text = str(error)
    named = re.search(r"[Cc]ould not (?:find|load) '([^']+)'", text)
    override = re.search(r"Could not override '([^']+)'", text)
    if named and "/" in named[1]:
        group, _, option = named[1].rpartition("/")
        options = [o for o in error.options or () if o and o != RECORDED]
        return ConfigError(f"no such {group}", where=f"{group}={option}", remedy=did_you_mean(option, options))
    if override:
        group = override[1].partition("@")[0]
        return _no_such("config group", override[1], group, list(RunConfig.model_fields))
    return ConfigError(text.strip().partition("\n")[0])
