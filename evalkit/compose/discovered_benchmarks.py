"""The option `dataset=NAME` of each benchmark, which needs no file: it sets `dataset.benchmark`."""

from __future__ import annotations

from collections.abc import Collection

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from evalkit.core.benchmark_discovery import own_benchmark_names
from evalkit.core.plugins import BENCHMARKS, entry_points_in

GROUP = "dataset"
OURS, OTHERS = "benchmark://evalkit", "benchmark://plugins"
"""Paths of Hydra's search path: the options of evalkit's benchmarks, and those of other
packages."""


class BenchmarkOptions(ConfigSource):
    """A source of Hydra's options: those of evalkit's benchmarks, or those of other packages."""

    @staticmethod
    def scheme() -> str:
        """Return the beginning of its paths."""
        return "benchmark"

    def available(self) -> bool:
        """Return whether it can be read."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Return whether a path is the group of datasets."""
        return config_path.rstrip("/") == GROUP

    def is_config(self, config_path: str) -> bool:
        """Return whether a path is the option of a benchmark."""
        group, _, name = config_path.removesuffix(".yaml").rpartition("/")
        return group == GROUP and name in self._names()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the options in a group, or the groups."""
        if config_path == "":
            if results_filter == ObjectType.CONFIG:
                return []
            return [GROUP]
        if self.is_group(config_path) and results_filter != ObjectType.GROUP:
            return sorted(self._names())
        return []

    def load_config(self, config_path: str) -> ConfigResult:
        """Return the config of an option."""
        node = OmegaConf.create(
            {"benchmark": config_path.removesuffix(".yaml").rpartition("/")[2]}
        )
        return ConfigResult(self.provider, self.full_path(), node, {"package": None})

    def _names(self) -> Collection[str]:
        if self.full_path() == OURS:
            return own_benchmark_names()
        return {point.name for point in entry_points_in(BENCHMARKS)}
