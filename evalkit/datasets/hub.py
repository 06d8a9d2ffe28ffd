"""Hugging Face data sets to rows, by the library `datasets` (extra `hf`): from a folder on disk, or by name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.resources import DISTRIBUTION

Row = dict[str, Any]
_BATCH = 512


def hub_rows(config: DatasetConfig, base: Path | None = None) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a data set with their places, as `name[split]:row 3`; they stay on disk until they are read.

    A path to a folder that `save_to_disk` wrote is read from there; anything else is a name that the library fetches,
    or has in its cache.

    Raises:
        ConfigError: if the library is not installed, or there is no such data set or split.
    """
    found, named = _loaded(config, base), str(config.path)
    if isinstance(found, dict):
        if config.split is None and len(found) == 1:
            found = next(iter(found.values()))
        elif config.split in found:
            found = found[config.split]
        else:
            what = f"no split '{config.split}'" if config.split else "not set, and the data set has several splits"
            raise ConfigError(what, where="dataset.split", remedy=did_you_mean(config.split or "", list(found)))
    elif config.split is not None and (own := getattr(found, "split", None)) and str(own) != config.split:
        what = f"the data set is the split '{own}'"
        raise ConfigError(what, where=f"dataset.split={config.split}", remedy="leave it out")
    name = f"{named}[{config.split}]" if config.split else named
    number = 0
    for batch in found.with_format(None).iter(batch_size=_BATCH):
        columns = list(batch)
        for values in zip(*batch.values(), strict=True):
            number += 1
            yield f"{name}:row {number}", dict(zip(columns, values, strict=True))


def _loaded(config: DatasetConfig, base: Path | None) -> Any:
    named = str(config.path)
    try:
        library = import_module("datasets")
    except ImportError:
        remedy = f"install it: pip install '{DISTRIBUTION}[hf]'"
        raise ConfigError("format hf needs the library datasets", where="dataset.format", remedy=remedy) from None
    path = Path(named).expanduser()
    folder = next((p for p in (path, *([base / path] if base else [])) if p.is_dir()), None)
    try:
        library.disable_progress_bars()
        if folder is not None and any((folder / f).is_file() for f in ("state.json", "dataset_dict.json")):
            return library.load_from_disk(str(folder))
        return library.load_dataset(str(folder or named), config.subset, revision=config.revision)
    except Exception as bad:  # the library raises errors of a dozen kinds, its own and those of HTTP clients
        what = f"cannot be loaded ({type(bad).__name__}: {' '.join(str(bad).split())[:300]})"
        raise DatasetError(what, where=named, remedy="check dataset.path, dataset.subset and the network") from bad
