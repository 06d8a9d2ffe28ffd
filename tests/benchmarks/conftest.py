"""The small files of each benchmark, in the shape that its authors publish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.config import DatasetConfig
from evalkit.datasets import Dataset, load_cases

FILES = Path(__file__).parent / "files"


@pytest.fixture(scope="session")
def files() -> Path:
    return FILES


@pytest.fixture(scope="session")
def load() -> Callable[..., Dataset]:
    """Load a benchmark from a path under files/, by default its own folder, for a mode of judging."""

    def loaded(name: str, path: str | Path | None = None, mode: str = "pairwise", **more: Any) -> Dataset:
        where = FILES / (path or name)
        return load_cases(DatasetConfig(benchmark=name, path=str(where), **more), mode=mode)

    return loaded
