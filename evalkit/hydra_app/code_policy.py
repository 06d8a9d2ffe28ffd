"""Refuse configs that make Hydra import or run code, or set up logging or the environment, unless code is allowed.

Hydra instantiates whatever `_target_` names in its own part of a config, and it sets up callbacks, logging and the
environment before the first job. So each config is checked as soon as it is composed, also in a launcher's processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.config_source import ConfigSource
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from evalkit.errors import ConfigError
from evalkit.plugins import TRUST, code_allowed

PLACES = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
_NO_LOGGING = {"version", "root", "disable_existing_loggers"}
# Hydra only accepts sweepers and launchers from installed packages.
_INSTALLED = re.compile(r"(hydra_plugins|hydra\._internal\.core_plugins)(\.\w+)+")
_SAMPLER = re.compile(r"optuna\.samplers\.\w+")


class CheckedLoader(ConfigLoader):
    """A config loader that refuses configs that name code."""

    def __init__(self, loader: ConfigLoader) -> None:
        self._loader = loader

    def load_configuration(self, *args: Any, **kwargs: Any) -> DictConfig:
        """Return a composed config.

        Raises:
            ConfigError: if it names code and code is not allowed.
        """
        return _checked(self._loader.load_configuration(*args, **kwargs))

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Return the composed config of a job of a sweep.

        Raises:
            ConfigError: if it names code and code is not allowed.
        """
        return _checked(self._loader.load_sweep_config(master_config, sweep_overrides))

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


def _checked(cfg: DictConfig) -> DictConfig:
    if not code_allowed():
        check(cfg)
    return cfg


def check_search_path(study: DictConfig) -> None:
    """Check the search path that a primary config sets; one on the command line is allowed.

    Raises:
        ConfigError: if it names a package, which Hydra would import, and code is not allowed.
    """
    for path in () if code_allowed() else OmegaConf.select(study, "hydra.searchpath") or ():
        if str(path).startswith("pkg://"):
            raise ConfigError("names a package, which is imported", where="hydra.searchpath", remedy=TRUST)


def check(cfg: DictConfig) -> None:
    """Check Hydra's own part of a composed config.

    Raises:
        ConfigError: if it names code.
    """
    part = OmegaConf.to_container(cfg.hydra, resolve=False)
    assert isinstance(part, dict)
    for key, found in _code_named_by(part, cfg.hydra):
        raise ConfigError(found, where=f"hydra.{key}", remedy=TRUST)


def _code_named_by(part: dict[Any, Any], hydra: DictConfig) -> Iterator[tuple[str, str]]:
    for key in ("callbacks", "env"):
        if part.get(key):
            yield key, "names code that Hydra would run"
    for key in ("job_logging", "hydra_logging"):
        logging = part.get(key) or {}
        if not isinstance(logging, dict) or set(logging) - _NO_LOGGING or logging.get("root") is not None:
            yield key, "sets up logging, which can name code"
    if part["job"].get("env_set") or part["job"].get("env_copy"):
        yield "job.env_set", "sets environment variables, which can name code"
    for key in ("sweeper", "launcher"):
        yield from ((where, f"names code ({what})") for where, what in _targets(hydra, key, part[key], top=True))


def _targets(hydra: DictConfig, where: str, value: Any, *, top: bool = False) -> Iterator[tuple[str, str]]:
    """Yield each key that Hydra would instantiate, with what it names."""
    if isinstance(value, str) and "${" in value:
        value = _resolved(hydra, where)
        if isinstance(value, dict | list | None):
            yield where, "by an interpolation"
        return
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from _targets(hydra, f"{where}[{place}]", one)
    if isinstance(value, dict):
        if value.get("custom_search_space"):
            yield f"{where}.custom_search_space", str(value["custom_search_space"])
        target = value.get("_target_")
        if target is not None and not (_INSTALLED if top else _SAMPLER).fullmatch(str(target)):
            yield f"{where}._target_", str(target)
        for key, one in value.items():
            yield from _targets(hydra, f"{where}.{key}", one)


def _resolved(hydra: DictConfig, where: str) -> Any:
    """Return the value of an interpolation, or nothing if it cannot be resolved."""
    try:
        value = OmegaConf.select(hydra, where)
    except OmegaConfBaseException:
        return None
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


def check_place(folder: Path, start: Path, words: Any) -> None:
    """Check that a run is written below the current folder, unless the command line names another folder.

    Args:
        folder: where the run is written.
        start: the folder where evalkit was started.
        words: keys or overrides on the command line.

    Raises:
        ConfigError: if a config names a folder elsewhere and code is not allowed.
    """
    chosen = any(str(word).lstrip("+").startswith(PLACES) for word in words)
    if not chosen and not code_allowed() and not folder.resolve().is_relative_to(start.resolve()):
        remedy = f"give hydra.run.dir (with -m hydra.sweep.dir) on the command line, or {TRUST}"
        raise ConfigError("the config would write outside the current folder", where=str(folder), remedy=remedy)
