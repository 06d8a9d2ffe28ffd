"""Spares each of a thousand compositions what Hydra does again for files that are the same in all of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hydra._internal import config_loader_impl, config_repository, defaults_list
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from omegaconf import OmegaConf

from evalkit.core.resources import shipped

_CONSTANT = ("pkg://", f"file://{shipped('conf')}", "benchmark://evalkit")
_PARSED: dict[tuple[str, str], bytes] = {}
_MERGED: dict[tuple[Any, ...], bytes] = {}


def _constant(repo: Any, path: str) -> tuple[str, str] | None:
    """Return the key of a config that no test changes: shipped, Hydra's own, or the schema."""
    source = repo._find_object_source(path, ObjectType.CONFIG)
    if source is None:
        return None
    place = source.full_path()
    own = place.startswith("structured://") and (path == "schema" or path.startswith("hydra/"))
    return (place, path) if own or place.startswith(_CONSTANT) else None


@contextmanager
def quick_composition() -> Iterator[None]:
    """Parse constant files once, merge the same of them once, and find the choices of a defaults list if it asks.

    The files of tests are read each time, and what they and the command line say is merged by
    Hydra.
    """
    repository, loader = config_repository.ConfigRepository, config_loader_impl.ConfigLoaderImpl
    load, one, merge = (
        repository.load_config,
        loader._load_single_config,
        loader._compose_config_from_defaults_list,
    )
    choices = defaults_list._create_interpolation_map

    def load_once(self: Any, config_path: str) -> Any:
        if (key := _constant(self, config_path)) is None:
            return load(self, config_path)
        if key not in _PARSED:
            _PARSED[key] = pickle.dumps(load(self, config_path))
        return pickle.loads(_PARSED[key])

    def merge_once(self: Any, defaults: list[ResultDefault], repo: Any) -> Any:
        keys: list[Any] = []
        for default in defaults:
            if (key := _constant(repo.delegate, str(default.config_path))) is None:
                break
            keys.append((key, default.package, default.is_self, default.primary))
        known = tuple(keys)
        if known not in _MERGED:
            _MERGED[known] = pickle.dumps(merge(self, defaults[: len(known)], repo))
        start = pickle.loads(_MERGED[known])
        OmegaConf.clear_cache(start)  # of the time, which merging asks for to check a type
        if len(known) == len(defaults):
            return start
        return merge(self, [_Merged(start), *defaults[len(known) :]], repo)

    def load_one(self: Any, default: ResultDefault, repo: Any) -> Any:
        return default.result if isinstance(default, _Merged) else one(self, default, repo)

    def choices_if_used(overrides: Any, defaults: Any, self_added: bool) -> Any:
        return (
            choices(overrides, defaults, self_added)
            if any(d.is_interpolation() for d in defaults)
            else None
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repository, "load_config", load_once)
        patch.setattr(loader, "_compose_config_from_defaults_list", merge_once)
        patch.setattr(loader, "_load_single_config", load_one)
        patch.setattr(defaults_list, "_create_interpolation_map", choices_if_used)
        # Hydra copies its sources for each composition, and with them all that is stored, only to
        # read it.
        patch.setattr(ConfigStore, "__deepcopy__", lambda self, memo: self, raising=False)
        yield


class _Merged(ResultDefault):
    """A place in a defaults list for what was merged before."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.result = ConfigResult(provider="", path="", config=config, header={"package": None})
