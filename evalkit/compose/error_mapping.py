"""Turn Hydra's errors into one line: where, what, and what to do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml
from hydra.errors import (
    ConfigCompositionException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from evalkit.compose.criteria import as_written, no_such_criterion
from evalkit.compose.user_files import user_files
from evalkit.config import RunConfig
from evalkit.config.problems import known_keys, no_such
from evalkit.core.benchmark_discovery import own_benchmark_names
from evalkit.core.bounded_files import DEEPEST, FLATTEN, UnboundedError, check_yaml
from evalkit.core.display import relative
from evalkit.core.errors import ConfigError, EvalkitError, did_you_mean, pasted
from evalkit.core.redaction import remedy_for
from evalkit.core.regular_files import read_file
from evalkit.core.resources import shipped
from evalkit.guard.known_hosts import FLAG

EACH = "add -m to run a job for each"
_SEVERAL = re.compile(
    r"(?:Ambiguous value for argument|Sweep parameters) '(.+?)'(?: requires --multirun)?$",
    re.M,
)
_HYDRA_GROUPS = (
    "callbacks",
    "env",
    "help",
    "hydra_help",
    "launcher",
    "output",
    "sweeper",
)
RECORDED = "recorded"
"""The option of each group in the config of a finished run."""


def hydra_error(error: Exception) -> EvalkitError:
    """Return an error of composing a config as one line."""
    if isinstance(error, EvalkitError):
        return error
    # From the most specific cause to the most general one: Hydra wraps its errors several times.
    for explain in (
        _unreadable_file,
        _missing_option,
        _changed_criteria,
        _unread_override,
        _not_yaml,
        _several_values,
    ):
        explained = explain(error)
        if explained is not None:
            return explained
    cause: BaseException = error
    if isinstance(error.__cause__, OmegaConfBaseException):
        cause = error.__cause__
    explained = _faulty_value(cause) or _faulty_key(cause, error)
    if explained is not None:
        return explained
    if "missing `_self_`" in str(error):
        remedy = "write `- _self_` last, so that the file's own keys apply"
        return ConfigError(
            "the defaults list has no _self_", where="defaults", remedy=remedy
        )
    # The first line of Hydra's text has the problem; the rest is its search path.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, ConfigCompositionException):
        return _not_composed(error, lines[0])
    return ConfigError(lines[0] if lines else type(error).__name__)


def _unreadable_file(error: Exception) -> EvalkitError | None:
    """Return the error for a file that is not UTF-8, or a config that is nested too deep."""
    raised = (error, error.__cause__, error.__context__)
    problem = ConfigError(f"a text is not UTF-8 ({error})")
    if any(isinstance(cause, RecursionError) for cause in raised):
        problem = ConfigError(
            f"a config or an override is nested deeper than {DEEPEST} levels",
            remedy=FLATTEN,
        )
    elif not isinstance(error, UnicodeDecodeError):
        return None
    # Better the file that is at fault.
    faults = (unusable(file) for file in user_files())
    return next(filter(None, faults), problem)


def _missing_option(error: Exception) -> EvalkitError | None:
    if isinstance(error, MissingConfigException):
        return _missing_option_error(error)
    return None


def _changed_criteria(error: Exception) -> ConfigError | None:
    """Return the error for a change of criteria that are a list instead of a mapping."""
    text = str(error)
    is_merged = "In 'criteria/" in text and "Cannot merge" in text
    if not is_merged and not re.search(r"Index '_(set|add|del)_", text):
        return None
    return ConfigError(
        "a list of criteria cannot be changed or combined",
        where=_criteria_file(text),
        remedy="write NAME: {description: TEXT, weight: 0.5} for each criterion in its file",
    )


def _unread_override(error: Exception) -> ConfigError | None:
    """Return the error for an override that Hydra's grammar does not have."""
    if not isinstance(error, OverrideParseException):
        return None
    # The user's own spelling, not the one that was made for Hydra.
    error.override = as_written(error.override)
    if error.override.lstrip("+").startswith("gate."):
        remedy = (
            "write 'gate={METRIC: \"RULE\"}': a metric's name cannot be before the ="
        )
        return ConfigError(
            "cannot be read as an override", where=error.override, remedy=remedy
        )
    return ConfigError(
        f"cannot be read as an override ({_grammar_fault(error.message)})",
        where=error.override,
        remedy="quote what holds brackets, commas or spaces: 'key=\"value\"'",
    )


def _not_yaml(error: Exception) -> ConfigError | None:
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem_mark:
        return None
    mark = error.problem_mark
    # Lines are counted from 1.
    location = f"{relative(Path(mark.name))}:{mark.line + 1}"
    return ConfigError(f"is not YAML ({error.problem})", where=location)


def _several_values(error: Exception) -> ConfigError | None:
    """Return the error for a list of values without `-m`, which is mostly forgotten."""
    several = _SEVERAL.search(str(error))
    if several is None:
        return None
    word = as_written(several[1])
    name, _, values = word.partition("=")
    remedy = f"{EACH}, or write {pasted(name, values)} if it is one value"
    return ConfigError("has several values", where=word, remedy=remedy)


def _faulty_value(cause: BaseException) -> ConfigError | None:
    """Return the error for a value that is missing, secret, unknown or not to be read."""
    if isinstance(cause, MissingMandatoryValue):
        return ConfigError(
            "is not set", where=str(cause.full_key), remedy=f"give {cause.full_key}=…"
        )
    where = str(getattr(cause, "full_key", None) or "")
    if secret := re.search(r"contains the value of \$\w+", str(cause)):
        return ConfigError(secret[0], where=where, remedy=remedy_for(where))
    if reads := re.search(r"reads the variable \$(\w+)", str(cause)):
        remedy = (
            f"if it may be shown and sent, add {FLAG} env:{reads[1]} (once, it is kept)"
        )
        return ConfigError(f"a file {reads[0]}", where=where, remedy=remedy)
    return _unresolved(cause)


def _faulty_key(cause: BaseException, error: Exception) -> ConfigError | None:
    """Return the error for a key of the config, by OmegaConf's own error."""
    if not isinstance(cause, OmegaConfBaseException) or not cause.full_key:
        return None
    if re.match(r"hydra[./]", f"{cause.full_key}."):
        return None
    key = str(cause.full_key)
    if "is not in struct" in str(cause) or "is not in struct" in str(error):
        return _unknown_key(key, cause)
    first_line = str(cause).partition("\n")[0]
    return ConfigError(first_line, where=as_written(key))


def _unresolved(cause: BaseException) -> ConfigError | None:
    """Return the error for a `${...}` that refers to nothing; `None` for another cause."""
    where = str(getattr(cause, "full_key", None) or "")
    # The folder of a run refers to the keys of the config: the fault is in one of those.
    if where.startswith("hydra."):
        where = ""
    if unset := re.search(r"Environment variable '(\w+)' not found", str(cause)):
        name = unset[1]
        remedy = f"export {name}=VALUE, or write ${{oc.env:{name},DEFAULT}}"
        return ConfigError(f"${name} is not set", where=where, remedy=remedy)
    if link := re.search(r"Interpolation key '([^']+)' not found", str(cause)):
        remedy = "write a key from the top of the config, such as ${judge.name}"
        return ConfigError(f"${{{link[1]}}} does not exist", where=where, remedy=remedy)
    if of_job := re.search(r"interpolation '(\$\{hydra:[^']+)'", str(cause)):
        remedy = "leave out --resolve, or add -m if the config needs it"
        return ConfigError(
            f"{of_job[1]} has a value only in a job of a sweep",
            where=where,
            remedy=remedy,
        )
    return None


def _grammar_fault(message: str) -> str:
    """Return the line of the parser's message that says what it expected."""
    lines = message.splitlines()
    telling = [line for line in lines if not line.startswith("Error parsing override")]
    return next(iter(telling), message)


def _not_composed(error: ConfigCompositionException, problem: str) -> ConfigError:
    """Return the error for an override that Hydra understands, but cannot apply.

    Hydra's exception has no fields for it, so the override is read from its message.

    Args:
        error: Hydra's exception.
        problem: The message if no other fits.
    """
    text = str(error)
    cause = error.__cause__
    if placed := re.search(
        r"override '([^'=]+)@[^']*'[\s\S]*to override ([^?]+)\?", text
    ):
        remedy = f"write {placed[2]}=NAME: the group has no other place"
        return ConfigError("no such place of a group", where=placed[1], remedy=remedy)
    if several := re.match(r"Multiple values for ([^.]+)\.", text):
        remedy = f"write {several[1]}=NAME without +, or in a file: override /{several[1]}: NAME"
        return ConfigError("is chosen twice", where=several[1], remedy=remedy)
    if kept := re.match(r"Could not delete '(([^'=]+)=[^']*)'", text):
        remedy = f"write {kept[2]}=NAME for another option"
        return ConfigError("is not chosen", where=f"~{kept[1]}", remedy=remedy)
    if deleted := re.match(r"Could not delete from config\. '([^']+)'", text):
        return _unknown_key(deleted[1])
    key = re.search(r"override '([^']+)'", text)
    if key and key[1].startswith("hydra/"):
        return no_such("group", key[1], key[1].partition("/")[2], _HYDRA_GROUPS)
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        where = str(cause.full_key)
        if re.match(r"Key '.+' (is )?not in ", str(cause)) and where.startswith(
            "hydra."
        ):
            parent, _, last = where.rpartition(".")
            siblings = [str(name) for name in cause.parent_node or ()]
            if not siblings:
                remedy = f"leave it out: {parent} has no keys"
                return ConfigError("no such key", where=where, remedy=remedy)
            return no_such("key", where, last, siblings)
        if "is not in struct" not in str(cause):
            return ConfigError(str(cause).partition("\n")[0], where=where)
    if key and "is not in struct" in str(cause or error):
        return _unknown_key(key[1])
    return ConfigError(problem)


def unusable(file: Path) -> ConfigError | None:
    """Return the error for a file that cannot be used; `None` if it can.

    It is not UTF-8, too deeply nested, or too large.
    """
    where = str(relative(file))
    try:
        text = read_file(file).decode("utf-8")
    except UnicodeDecodeError as error:
        return ConfigError(
            f"the byte at offset {error.start} is not UTF-8",
            where=where,
            remedy="save the file as UTF-8",
        )
    except OSError:
        return None
    try:
        check_yaml(text)
    except UnboundedError as error:
        line = "" if error.line is None else f":{error.line}"
        return ConfigError(error.what, where=where + line, remedy=error.remedy)
    return None


def _criteria_file(message: str) -> str:
    """Return the user's file with criteria that is a list, among those composed;
    `criteria` if there is none.
    """
    named = re.search(r"In '(criteria/[^']+)'", message)
    files = [
        file
        for file in user_files()
        if named and file.as_posix().endswith(f"/{named[1]}.yaml")
    ]
    if files:
        return str(relative(files[0]))
    return "criteria"


def _unknown_key(key: str, cause: OmegaConfBaseException | None = None) -> ConfigError:
    *parents, last = key.split(".")
    if parents == ["criteria"] and cause is not None and cause.parent_node is not None:
        return no_such_criterion(last, [str(name) for name in cause.parent_node])
    return no_such("key", key, last, known_keys(parents))


def _missing_option_error(error: MissingConfigException) -> ConfigError:
    """Return the error for an option or group that Hydra does not find, with similar names."""
    text = str(error)
    named = re.search(r"[Cc]ould not (?:find|load) '([^']+)'", text)
    override = re.search(r"Could not override '([^']+)'", text)
    if named and "/" in named[1]:
        group, _, option = named[1].rpartition("/")
        if (
            named[1].startswith("dataset/")
            and Path(file := named[1].removeprefix("dataset/")).exists()
        ):
            remedy = f"for a file or folder, write dataset=file dataset.path={shlex.quote(file)}"
            return ConfigError(
                "no such dataset", where=f"dataset={file}", remedy=remedy
            )
        # `RECORDED` is an internal name.
        options = [o for o in error.options or () if o and o != RECORDED]
        # For a list of options, Hydra does not name them.
        if not options:
            options = [file.stem for file in (shipped("conf") / group).glob("*.yaml")]
            options += own_benchmark_names() if group == "dataset" else ()
        # A group within a section, such as judge/simulated.
        top = group.partition("/")[0]
        if top in RunConfig.model_fields and top != group:
            group = top
            option = named[1].partition("/")[2]
            nested = sorted((shipped("conf") / top).glob("*/*.yaml"))
            options += [f"{file.parent.name}/{file.stem}" for file in nested]
        return ConfigError(
            f"no such {group}",
            where=f"{group}={option}",
            remedy=did_you_mean(option, options),
        )
    if override:
        group = override[1].partition("@")[0]
        return no_such("config group", override[1], group, list(RunConfig.model_fields))
    return ConfigError(text.strip().partition("\n")[0])
