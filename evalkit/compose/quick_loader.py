"""Hydra's loader, which parses and merges once in a process what is the same in every composition.

Evalkit's own config files, Hydra's, and the schema cannot change while a process runs. What they
make together is kept; files of the user are read each time, and Hydra merges them and
the overrides.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeAlias

from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import (
    CachingConfigRepository,
    ConfigRepository,
    IConfigRepository,
)
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigNode, ConfigStore
from hydra.core.default_element import (
    ConfigDefault,
    GroupDefault,
    InputDefault,
    ResultDefault,
)
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf

from evalkit.compose.discovered_benchmarks import OURS
from evalkit.core.resources import shipped

SCHEMA = "schema"
_STRUCTURED = "structured"
_HYDRA_FILES = "pkg://hydra.conf"
_HYDRA_GROUPS = "hydra/"
_DEFAULTS = "defaults"

Key: TypeAlias = tuple[str, str, int]
"""A config that does not change: its source, its path there, and what is registered under it."""
# As bytes, because Hydra changes what it gets, and reading them is quicker than a deep copy.
_PARSED: dict[Key, bytes] = {}
_MERGED: dict[tuple[Any, ...], bytes] = {}
_PRESENT: dict[tuple[str, str, ObjectType | None], bool] = {}
"""Whether a constant source has a config or a group of a path."""
# Held, so that no other object gets the number that identifies a registered config.
_REGISTERED: dict[int, ConfigNode] = {}


def keep(kept: dict[Any, bytes], key: Any, config: object) -> None:
    """Keep a config as bytes, unless it cannot be written so.

    In a worker that gets its job by pickle, Hydra has imported its plug-ins a second time, and
    their classes are no longer those of their modules.
    """
    with suppress(pickle.PicklingError):
        kept[key] = pickle.dumps(config)


class _Repository(ConfigRepository):
    """Hydra's repository of configs, which parses each constant one once."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Repository:
        """Return a copy with a list of sources of its own.

        Hydra copies the repository for each composition, because one may change the
        list; a deep copy would also copy everything that is registered.
        """
        return copy.copy(self)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Return a config with its defaults list, or nothing if there is none."""
        key = self.key(config_path)
        if key is None:
            return super().load_config(config_path)
        if key in _PARSED:
            kept: ConfigResult = pickle.loads(_PARSED[key])
            return kept
        result = super().load_config(config_path)
        keep(_PARSED, key, result)
        return result

    def _find_object_source(
        self, config_path: str, object_type: ObjectType | None
    ) -> ConfigSource | None:
        """Return the first source that has a config or a group of this path."""
        for source in self.sources:
            if _has(source, config_path, object_type):
                return source
        return None

    def key(self, config_path: str) -> Key | None:
        """Return what identifies a constant config; nothing for one that may change."""
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None:
            return None
        if source.scheme() == _STRUCTURED:
            return _registered_key(source, config_path)
        if source.full_path() in _constant_sources():
            return source.full_path(), config_path, 0
        return None


def _has(source: ConfigSource, path: str, object_type: ObjectType | None) -> bool:
    """Return whether a source has a config or a group; each constant source is asked once."""
    asked = (source.full_path(), path, object_type)
    if asked in _PRESENT:
        return _PRESENT[asked]
    if object_type is ObjectType.GROUP:
        present = source.is_group(path)
    else:
        present = source.is_config(path)
    if source.full_path() in _constant_sources():
        _PRESENT[asked] = present
    return present


def _registered_key(source: ConfigSource, path: str) -> Key | None:
    """Return the key of the schema or of an option of Hydra's; users register studies,
    which change.
    """
    if path != SCHEMA and not path.startswith(_HYDRA_GROUPS):
        return None
    node = ConfigStore.instance()._load(f"{path.removesuffix('.yaml')}.yaml")
    # A program that registers another config under the same name gets that one.
    _REGISTERED[id(node)] = node
    return source.full_path(), path, id(node)


@cache
def _constant_sources() -> frozenset[str]:
    return frozenset((_HYDRA_FILES, f"file://{shipped('conf')}", OURS))


class _MergedStart(ResultDefault):
    """The place in a defaults list of a config that was merged before."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__()
        self.result = ConfigResult(
            provider="", path="", config=config, header={"package": None}
        )


class QuickLoader(ConfigLoaderImpl):
    """Hydra's loader, which merges the constant configs at the start of a defaults list once."""

    def __init__(self, search_path: ConfigSearchPath) -> None:
        super().__init__(search_path)
        self.repository = _Repository(search_path)

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: IConfigRepository
    ) -> DictConfig:
        """Compose a config as Hydra does, starting with a stored composition of shipped files."""
        assert isinstance(repo, CachingConfigRepository)
        assert isinstance(repo.delegate, _Repository)
        constant: list[tuple[Any, ...]] = []
        for default in defaults:
            key = repo.delegate.key(str(default.config_path))
            if key is None:
                break
            constant.append((key, default.package, default.is_self, default.primary))
        known = tuple(constant)
        start: DictConfig
        if known in _MERGED:
            start = pickle.loads(_MERGED[known])
        else:
            start = super()._compose_config_from_defaults_list(
                defaults[: len(known)], repo
            )
            keep(_MERGED, known, start)
        # The time of another composition, which Hydra resolved when it checked a type.
        OmegaConf.clear_cache(start)
        if len(known) == len(defaults):
            return start
        return super()._compose_config_from_defaults_list(
            [_MergedStart(start), *defaults[len(known) :]], repo
        )

    def _load_single_config(
        self, default: ResultDefault, repo: IConfigRepository
    ) -> ConfigResult:
        if isinstance(default, _MergedStart):
            return default.result
        return super()._load_single_config(default, repo)


@contextmanager
def choices_if_read() -> Iterator[None]:
    """Spare Hydra, inside the block, the map of choices.

    Only interpolations in a defaults list read it.

    Hydra makes it for every config of the tree, a fifth of a composition's time.
    """
    choices = defaults_list._create_interpolation_map
    name = choices.__name__

    def if_read(
        overrides: Any, entries: list[InputDefault], self_added: bool
    ) -> DictConfig | None:
        if any(entry.is_interpolation() for entry in entries):
            return _choices(overrides.known_choices, entries, self_added)
        return None

    setattr(defaults_list, name, if_read)
    try:
        yield
    finally:
        setattr(defaults_list, name, choices)


def _choices(
    known: dict[str, Any], entries: list[InputDefault], self_added: bool
) -> DictConfig:
    """Return Hydra's map of choices, with its list of defaults only where one refers to it."""
    choices: dict[str, Any] = {**known, _DEFAULTS: []}
    if any(
        _DEFAULTS in str(entry.get_name())
        for entry in entries
        if entry.is_interpolation()
    ):
        for entry in entries:
            if self_added and entry.is_self():
                continue
            if isinstance(entry, ConfigDefault):
                choices[_DEFAULTS].append(entry.get_config_path())
            elif isinstance(entry, GroupDefault):
                choices[_DEFAULTS].append({entry.get_override_key(): entry.value})
    return OmegaConf.create(choices)
