"""Which folders a run may be written to, and the removal of the run that was there."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.runs import layout
from evalkit.runs.read import read_config

REMEDY = "choose another folder with hydra.run.dir, or add --overwrite to replace it"


def check_free(folder: Path, config: RunConfig, *, fingerprint: str | None = None, imported: str | None = None) -> None:
    """Check that a folder holds no run but an earlier one of the same config, on the same data if these are given.

    A run that was imported (from another file than `imported`) or labeled holds more than a repetition would restore,
    so it counts as another run.

    Raises:
        ConfigError: if it does, or if it holds files that a run would replace.
    """
    check_no_sweep(folder)
    found = [name for name in layout.FILES if (folder / name).exists()]
    if not found:
        return
    if layout.CONFIG not in found:
        raise ConfigError(f"holds the file {found[0]}, which the run would replace", where=str(folder), remedy=REMEDY)
    manifest = _manifest(folder)
    before = str((manifest.get("dataset") or {}).get("fingerprint") or "")
    changed = fingerprint is not None and before not in ("", fingerprint)
    source = (manifest.get("imported") or {}).get("source")
    if source != imported or manifest.get("labels") or _hash(folder) != config.hash():
        raise ConfigError("holds another run", where=str(folder), remedy=REMEDY)
    if changed:
        raise ConfigError("holds a run of this config on other data", where=str(folder), remedy=REMEDY)


def check_no_sweep(folder: Path) -> None:
    """Check that a folder is not that of a sweep.

    Raises:
        ConfigError: if it is.
    """
    if (folder / layout.SWEEP).exists():
        remedy = "choose another folder with hydra.run.dir"
        raise ConfigError("holds a sweep", where=str(folder), remedy=remedy)


def written_files(folder: Path) -> set[str]:
    """Return the names of files in a folder that its run wrote, or that commands wrote about that run."""
    listed = _manifest(folder).get("files")
    names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    figures = {f"{layout.FIGURES}/{figure.name}" for figure in (folder / layout.FIGURES).glob("*.svg")}
    return {*layout.FILES, *layout.DERIVED, *filter(_is_plain, names), *figures}


def remove_files(folder: Path, names: Collection[str]) -> None:
    """Remove files of a run folder.

    Raises:
        ConfigError: if one cannot be removed.
    """
    for name in sorted(names):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as bad:
            raise ConfigError(f"cannot be removed ({bad.strerror or bad})", where=str(folder / name)) from None
    with suppress(OSError):
        (folder / layout.FIGURES).rmdir()


def _is_plain(name: str) -> bool:
    return bool(name.strip(".")) and Path(name).name == name


def _manifest(folder: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads((folder / layout.MANIFEST).read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def _hash(folder: Path) -> str | None:
    # From the config rather than the manifest: versions of evalkit may hash one config differently.
    with suppress(ConfigError, ValueError):
        return RunConfig.model_validate(read_config(folder)).hash()
    return None
