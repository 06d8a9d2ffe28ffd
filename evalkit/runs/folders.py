"""Check that a folder is free for a run, and remove an earlier run."""

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
    """Check that a folder is empty or has an earlier run of the same config.

    An imported or labeled run counts as another run, because repeating it would not restore its contents.

    Args:
        folder: The folder.
        config: The config of the new run.
        fingerprint: The fingerprint of its data; `None` to not compare it.
        imported: The source of an import; an earlier import from the same source may be replaced.

    Raises:
        ConfigError: If the folder has another run, or files that a run would replace.
    """
    check_no_sweep(folder)
    found = [name for name in layout.FILES if (folder / name).exists()]
    if not found:
        return
    if layout.CONFIG not in found:
        raise ConfigError(f"contains {found[0]}, which the run would replace", where=str(folder), remedy=REMEDY)
    manifest = _manifest(folder)
    before = str((manifest.get("dataset") or {}).get("fingerprint") or "")
    changed = fingerprint is not None and before not in ("", fingerprint)
    source = (manifest.get("imported") or {}).get("source")
    if source != imported or manifest.get("labels") or _hash(folder) != config.hash():
        raise ConfigError("contains another run", where=str(folder), remedy=REMEDY)
    if changed:
        raise ConfigError("contains a run of this config on other data", where=str(folder), remedy=REMEDY)


def check_no_sweep(folder: Path) -> None:
    """Check that a folder is not the folder of a sweep.

    Raises:
        ConfigError: If it is.
    """
    if (folder / layout.SWEEP).exists():
        remedy = "choose another folder with hydra.run.dir"
        raise ConfigError("contains a sweep", where=str(folder), remedy=remedy)


def written_files(folder: Path) -> set[str]:
    """Return the names of the files that the run, or later commands about it, wrote to a folder."""
    listed = _manifest(folder).get("files")
    names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    figures = {f"{layout.FIGURES}/{figure.name}" for figure in (folder / layout.FIGURES).glob("*.svg")}
    return {*layout.FILES, *layout.DERIVED, *filter(_is_plain, names), *figures}


def remove_files(folder: Path, names: Collection[str]) -> None:
    """Remove files of a run folder.

    Raises:
        ConfigError: If a file cannot be removed.
    """
    for name in sorted(names):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as bad:
            raise ConfigError(
                f"cannot be removed ({bad.strerror or bad})",
                where=str(folder / name),
                remedy="check the folder's permissions",
            ) from None
    with suppress(OSError):
        (folder / layout.FIGURES).rmdir()


def _is_plain(name: str) -> bool:
    return bool(name.strip(".")) and Path(name).name == name


def _manifest(folder: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        manifest = json.loads((folder / layout.MANIFEST).read_bytes())
        return manifest if isinstance(manifest, dict) else {}
    return {}


def _hash(folder: Path) -> str | None:
    # From the config, not from the manifest: versions of evalkit may hash a config differently.
    with suppress(ConfigError, ValueError):
        return RunConfig.model_validate(read_config(folder)).hash()
    return None
