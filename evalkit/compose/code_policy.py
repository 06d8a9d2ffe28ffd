"""Refuse configs that make Hydra import or run code, or set up logging or the
environment, unless code is allowed.

Hydra instantiates whatever `_target_` names in its own part of a config, and it sets up callbacks,
logging and the environment before the first job. Settings of workers, launchers and sweepers can be
commands: a config may only set harmless ones, the command line any. So each config is checked once
it is composed, also in a launcher's processes.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, QuotedString
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigSource
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers import oc

from evalkit.compose.quick_loader import keep
from evalkit.core.errors import ConfigError
from evalkit.core.plugins import (
    HARMLESS,
    TRUST,
    code_allowed,
    leaves,
    risky_setting,
    risky_settings,
)
from evalkit.core.redaction import names_secret
from evalkit.core.values import Json, JsonObject
from evalkit.guard.environment import may_read
from evalkit.guard.policy import check_read, origin_of

PLACES = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
_NO_LOGGING = {"version", "root", "disable_existing_loggers"}
_SAMPLER = re.compile(r"optuna\.samplers\.\w+Sampler")
_VARIABLE = re.compile(r"\$\{oc\.env:(\w+)\}")
_FOLDER = re.compile(r"\.?\w+")
_SPACES = ("params", "search_space")
_PREFIXES = tuple(HARMLESS)
Setting: TypeAlias = tuple[str, ...]


class CheckedLoader(ConfigLoader):
    """A config loader that refuses configs that name code.

    Args:
        loader: Hydra's loader.
        words: the overrides on the command line, which may set anything.
    """

    def __init__(self, loader: ConfigLoader, words: Iterable[str] = ()) -> None:
        self._loader = loader
        # A launcher's processes get them with the loader.
        self._granted = _granted(words)
        # Kept, because a launcher's process has no context variables of its parent.
        self._allowed = code_allowed()
        # {overrides of a job: its config} of the jobs that were composed once.
        self._composed: dict[tuple[str, ...], bytes] = {}

    def __getstate__(self) -> JsonObject:
        """Leave the kept configs out: a launcher's process composes one job."""
        return {**vars(self), "_composed": {}}

    def load_configuration(self, *args: Any, **kwargs: Any) -> DictConfig:
        """Return a composed config.

        Raises:
            ConfigError: if it names code and code is not allowed.
        """
        return self._check_composed(self._loader.load_configuration(*args, **kwargs))

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        """Return the composed config of a job of a sweep.

        A sweeper composes each job before the first, to see whether it can be; when it is started,
        it gets that config.

        Raises:
            ConfigError: if it names code and code is not allowed.
        """
        job = tuple(sweep_overrides)
        if (kept := self._composed.pop(job, None)) is not None:
            checked: DictConfig = pickle.loads(kept)
            return checked
        config = self._check_composed(
            self._loader.load_sweep_config(master_config, sweep_overrides)
        )
        # Bytes, because the caller changes the config.
        keep(self._composed, job, config)
        return config

    def get_search_path(self) -> ConfigSearchPath:
        """Return the search path."""
        return self._loader.get_search_path()

    def get_sources(self) -> list[ConfigSource]:
        """Return the sources of the search path."""
        return self._loader.get_sources()

    def list_groups(self, parent_name: str) -> list[str]:
        """Return the groups in a group."""
        return self._loader.list_groups(parent_name)

    def get_group_options(self, *args: Any, **kwargs: Any) -> list[str]:
        """Return the options of a group."""
        return self._loader.get_group_options(*args, **kwargs)

    def compute_defaults_list(self, *args: Any, **kwargs: Any) -> Any:
        """Return the defaults list of a config."""
        return self._loader.compute_defaults_list(*args, **kwargs)

    def _check_composed(self, cfg: DictConfig) -> DictConfig:
        """Return a composed config after checking it for code and secrets.

        Raises:
            ConfigError: If a folder would show a secret, or the config names forbidden code.
        """
        # As written: it is resolved in a launcher's process.
        folder = str(OmegaConf.to_container(cfg.hydra.sweep, resolve=False))
        # The name of a folder is shown and logged.
        for name in filter(names_secret, re.findall(r"oc\.env:\s*(\w+)", folder)):
            problem = f"contains the value of ${name}"
            raise ConfigError(
                problem, where="hydra.sweep.dir", remedy="give another hydra.sweep.dir"
            )
        if not (self._allowed or code_allowed()):
            check(cfg, self._granted)
        return cfg


@contextmanager
def checked_environment(words: Iterable[str] = ()) -> Iterator[None]:
    """Refuse `${oc.env:NAME}` inside the block unless the variable is harmless or the
    user names it; nothing is read.

    Args:
        words: the overrides of the command line.

    Raises:
        ValueError: Within the block, where such a variable is read.
    """
    overrides = tuple(words)

    def read(name: str, *default: Any) -> Any:
        if names_secret(str(name)):
            raise ValueError(f"contains the value of ${name}")
        if not may_read(str(name), overrides):
            raise ValueError(f"reads the variable ${name}")
        return oc.env(name, *default)

    # OmegaConf has one resolver for the whole process, so it is put back at the end.
    before = BaseContainer._resolvers["oc.env"]
    OmegaConf.register_new_resolver("oc.env", read, replace=True)
    try:
        yield
    finally:
        BaseContainer._resolvers["oc.env"] = before


def _granted(words: Iterable[str]) -> frozenset[Setting]:
    """Return the guarded settings that the command line sets."""
    granted = set[Setting]()
    for word in words:
        # The user of the command line may set everything; a file only what is harmless.
        if word.lstrip("+").startswith(_PREFIXES):
            with suppress(HydraException):  # reported when the config is composed
                [override] = OverridesParser.create().parse_overrides([word])
                value = override.value()
                key = tuple(override.key_or_group.split("."))
                for choice in _choices(value):
                    granted |= {path for path, _ in leaves(choice, key)}
    return frozenset(granted)


def given_by(words: Iterable[str]) -> dict[str, list[Any]]:
    """Return what the overrides of the command line set, by key: each value, and those
    inside it.
    """
    values_by_key: dict[str, list[Any]] = {}
    for word in words:
        with suppress(HydraException):  # reported when the config is composed
            [override] = OverridesParser.create().parse_overrides([word])
            value = override.value()
            key = tuple(override.key_or_group.split("."))
            for choice in _choices(value):
                for path, part in _parts(choice, key):
                    values_by_key.setdefault(".".join(path), []).append(part)
    return values_by_key


def _choices(value: Any) -> list[Any]:
    """Return the values that an override gives to its key: several in a sweep, otherwise one."""
    if isinstance(value, ChoiceSweep):
        return list(value.list)
    return [value]


def _parts(value: Any, path: Setting) -> Iterator[tuple[Setting, Any]]:
    """Yield a value and each value in it, after the path of its keys; numbers and quoted texts
    are as in a config.

    Environment variables are replaced by their values. A text with another interpolation is not
    yielded, because its value may come from a file.
    """
    plain = value
    if isinstance(value, QuotedString):
        plain = value.text
    if isinstance(plain, str):
        # As the shell and Hydra would resolve it: the user named this variable.
        plain = _VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), plain)
        if "${" not in plain:  # the value of another interpolation may come from a file
            yield path, plain
    elif isinstance(plain, Mapping):
        yield path, _unquoted(plain)
        for key, part in plain.items():
            yield from _parts(part, (*path, str(key)))
    elif isinstance(plain, list):
        yield path, _unquoted(plain)
        for index, part in enumerate(plain):
            yield from _parts(part, (*path, str(index)))
    else:
        yield path, plain


def _unquoted(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, Mapping):
        return {key: _unquoted(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_unquoted(part) for part in value]
    return value


def check_search_path(study: DictConfig, file: Path | None = None) -> None:
    """Check the search path that a primary config sets; one on the command line is allowed.

    Args:
        study: the primary config.
        file: its file.

    Raises:
        ConfigError: if it names a package, which Hydra would import, or a folder that the file may
            not read, and code is not allowed.
    """
    for path in (
        () if code_allowed() else OmegaConf.select(study, "hydra.searchpath") or ()
    ):
        # Importing a package runs its code.
        if str(path).startswith("pkg://"):
            raise ConfigError(
                "names a package, which is imported",
                where="hydra.searchpath",
                remedy=TRUST,
            )
        folder = str(path).removeprefix("file://")
        if "://" in folder:
            raise ConfigError(
                f"'{folder}' is not a folder", where="hydra.searchpath", remedy=TRUST
            )
        check_read("hydra.searchpath", folder, origin_of(file), TRUST)


def check(cfg: DictConfig, granted: Collection[Setting] = ()) -> None:
    """Check Hydra's own part of a composed config, and the settings of workers.

    Args:
        cfg: the composed config.
        granted: the settings that the command line sets.

    Raises:
        ConfigError: if it names code.
    """
    # Unresolved: resolving could read the environment or a file.
    part = OmegaConf.to_container(cfg.hydra, resolve=False)
    assert isinstance(part, dict)
    for key, problem in _code_named_by(part, cfg.hydra):
        raise ConfigError(problem, where=f"hydra.{key}", remedy=TRUST)
    # A whole section by interpolation could become anything, so it counts as risky.
    hidden = OmegaConf.is_interpolation(cfg, "runner")
    if hidden:
        runner = None
    else:
        runner = OmegaConf.to_container(
            cfg.get("runner") or OmegaConf.create(), resolve=False
        )
    for path in _risky_settings({"hydra": part, "runner": runner}):
        if path not in granted:
            raise risky_setting(path)


def _risky_settings(values: Json) -> Iterator[Setting]:
    """Yield each setting of workers, launchers and sweepers that may run code."""
    for section in HARMLESS:
        above, name = section.split(".")
        settings: Any = (
            values[above].get(name) or {} if isinstance(values[above], dict) else ""
        )
        shipped: Json = {}
        if above == "hydra" and isinstance(settings, dict):
            shipped = _installed(name).get(str(settings.get("_target_")), {})
            for space in _SPACES:  # each job that they lead to is checked, too
                keys = settings.get(space)
                risky = filter(
                    _names_risky_setting, keys if isinstance(keys, dict) else ()
                )
                yield from ((above, name, space, key) for key in risky)
            settings = {
                key: value
                for key, value in settings.items()
                if key not in (*_SPACES, "sampler")
            }
        for path in risky_settings(section, settings):
            # What an installed launcher sets by itself is not the config's choice.
            if not path or settings[path[0]] != shipped.get(path[0]):
                yield (above, name, *path)


def _names_risky_setting(key: str) -> bool:
    """Return whether an override of this key sets what only the command line may set."""
    section = next(
        (section for section in HARMLESS if key.lstrip("+~").startswith(section)), None
    )
    return (
        section is not None
        and key.lstrip("+~").removeprefix(f"{section}.") not in HARMLESS[section]
    )


def _installed(kind: str) -> JsonObject:
    """Return the settings of each installed launcher or sweeper as installed, by its target."""
    Plugins.instance()
    options = ConfigStore.instance().repo["hydra"][kind].values()
    nodes = (
        OmegaConf.to_container(option.node, resolve=False)
        for option in options
        if isinstance(option, ConfigNode)
    )
    return {node["_target_"]: node for node in nodes if isinstance(node, dict)}


def _code_named_by(
    part: dict[Any, Any], hydra: DictConfig
) -> Iterator[tuple[str, str]]:
    """Yield each key of Hydra's settings that names code, and what it does, as the end of a
    sentence.

    Args:
        part: Hydra's settings as plain values.
        hydra: The same settings, to resolve interpolations.

    Raises:
        ConfigError: If the defaults of evalkit are missing.
    """
    for key in ("callbacks", "env"):
        if part.get(key):
            yield key, "names code that Hydra would run"
    for key in ("job_logging", "hydra_logging"):
        logging = part.get(key) or {}
        is_harmless = (
            isinstance(logging, dict)
            and set(logging) <= _NO_LOGGING
            and logging.get("root") is None
        )
        if is_harmless:
            continue
        # Not a danger, but a sign that evalkit's defaults are missing.
        if logging == _hydra_default(key):
            remedy = "write `- config` first, and `- override /GROUP: OPTION` for other options"
            raise ConfigError(
                "the defaults list does not start with evalkit's",
                where="defaults",
                remedy=remedy,
            )
        yield key, "sets up logging, which can name code"
    if part["job"].get("env_set") or part["job"].get("env_copy"):
        yield "job.env_set", "sets environment variables, which can name code"
    if not _FOLDER.fullmatch(str(part.get("output_subdir") or "hydra")):
        yield "output_subdir", "would write outside the run folder"
    for key in ("sweeper", "launcher"):
        targets = _targets_in(hydra, key, part[key], _installed(key))
        yield from ((where, f"names code ({target})") for where, target in targets)


def _hydra_default(key: str) -> Any:
    """Return Hydra's own logging, which only a study without evalkit's defaults has."""
    return OmegaConf.to_container(
        OmegaConf.load(str(files("hydra") / "conf" / "hydra" / key / "default.yaml"))
    )


def _targets_in(
    hydra: DictConfig, where: str, value: Any, installed: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield each key that Hydra would instantiate, and the class or function that it names.

    Args:
        hydra: Hydra's settings, to resolve interpolations.
        where: The key of `value`.
        value: A part of the settings.
        installed: The names that are harmless.
    """
    if isinstance(value, str) and "${" in value:
        # An interpolation may lead to a mapping with a `_target_`.
        resolved = _resolved(hydra, where)
        if isinstance(resolved, dict | list | None):
            yield where, "by an interpolation"
        return
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from _targets_in(hydra, f"{where}[{index}]", part)
    if isinstance(value, dict):
        target = value.get("_target_")
        if (
            target is not None
            and target not in installed
            and not _SAMPLER.fullmatch(str(target))
        ):
            yield f"{where}._target_", str(target)
        for key, part in value.items():
            yield from _targets_in(hydra, f"{where}.{key}", part)


def _resolved(hydra: DictConfig, where: str) -> Any:
    """Return the value of an interpolation, or nothing if it cannot be resolved."""
    try:
        value = OmegaConf.select(hydra, where)
    except OmegaConfBaseException:
        return None
    if OmegaConf.is_config(value):
        return OmegaConf.to_container(value)
    return value


def check_place(folder: Path, start: Path, words: Any) -> None:
    """Check that a run is written below the current folder.

    The command line may name another folder.

    Args:
        folder: where the run is written.
        start: the folder where evalkit was started.
        words: overrides on the command line.

    Raises:
        ConfigError: if a config names a folder elsewhere and code is not allowed.
    """
    chosen = any(str(word).lstrip("+").startswith(PLACES) for word in words)
    if (
        not chosen
        and not code_allowed()
        and not folder.resolve().is_relative_to(start.resolve())
    ):
        remedy = f"give hydra.run.dir (with -m hydra.sweep.dir) on the command line, or {TRUST}"
        raise ConfigError(
            "the config would write outside the current folder",
            where=str(folder),
            remedy=remedy,
        )
