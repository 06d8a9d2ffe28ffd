"""Which files `dataset.path` means: one, those of a folder, those of a pattern, a shipped one, or standard input."""

from __future__ import annotations

import atexit
import sys
import tempfile
from functools import cache
from glob import has_magic
from importlib.resources import files
from pathlib import Path

from evalkit.datasets.named import recognise
from evalkit.datasets.readers import is_readable
from evalkit.errors import ConfigError, DatasetError, did_you_mean

SHIPPED, STDIN, KEY = "evalkit:", "-", "dataset.path"
_CHUNK = 2**20


def find_files(named: str, base: Path | None, *, key: str = KEY, format: str | None = None) -> list[Path]:  # noqa: A002 - the config's own word
    """Return the files that a path of the config means, in the order of their names; `base` is searched second.

    Args:
        named: a file, a folder (of which those files are meant whose names tell a format), a pattern (`**` goes into
            folders), or `evalkit:…` for a shipped sample.
        base: a folder to search after the current one.
        key: the config key that holds it, for errors.
        format: the format that is set; all files of a folder are then meant.

    Raises:
        DatasetError: if there is no such file.
    """
    if named.startswith(SHIPPED):
        return [_shipped(named.removeprefix(SHIPPED))]
    path = Path(named).expanduser()
    places = (path, *([base / path] if base else []))
    for place in places:
        if place.is_dir():
            return _inside(place, format)
        if place.exists():
            return [place]
    if not has_magic(named):
        raise _not_there(path, key)
    for place in places:
        if found := _matching(place):
            return found
    raise DatasetError("no file matches", where=f"{key}={named}", remedy="mend the pattern")


def find_place(named: str, base: Path | None) -> Path:
    """Return the file or folder that a path means; `base` is searched second.

    Raises:
        DatasetError: if there is none.
    """
    path = Path(named).expanduser()
    for place in (path, *([base / path] if base else [])):
        if place.exists():
            return place
    raise _not_there(path, KEY)


def standard_input() -> Path:
    """Return a file that holds what stands on standard input, which is read once and kept while the process runs.

    Raises:
        ConfigError: if that is a terminal.
    """
    if sys.stdin is None or sys.stdin.isatty():
        where = f"{KEY}={STDIN}"
        raise ConfigError("standard input is a terminal", where=where, remedy="pipe a file into it: … < data.jsonl")
    return _spooled()


@cache
def _spooled() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="evalkit-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "stdin"
    with path.open("wb") as file:
        while chunk := sys.stdin.buffer.read(_CHUNK):
            file.write(chunk)
    return path


def _matching(pattern: Path) -> list[Path]:
    rooted = pattern if pattern.is_absolute() else Path.cwd() / pattern
    start = next(p for p in rooted.parents if not has_magic(str(p)))
    shown = pattern.is_absolute()
    found = (p for p in start.glob(str(rooted.relative_to(start))) if p.is_file() and not p.name.startswith("."))
    return sorted(p if shown else _short(p) for p in found)


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _inside(folder: Path, format: str | None) -> list[Path]:  # noqa: A002 - the config's own word
    named = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith((".", "_")))
    if found := [p for p in named if format or is_readable(p)]:
        return found
    if known := recognise(folder):
        raise DatasetError("is a folder without a data file", where=str(folder), remedy=f"it {known.hint}")
    folders = sorted(f"{p.name}/" for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "_")))
    holds = ", ".join([p.name for p in named[:5]] + folders[:5]) or "nothing"
    remedy = f"name a file, or set dataset.format; it holds {holds}"
    raise DatasetError("is a folder without a data file", where=str(folder), remedy=remedy)


def _shipped(name: str) -> Path:
    folder = Path(str(files("evalkit.datasets") / "samples"))
    names = sorted(p.name for p in folder.iterdir())
    if name not in names:
        where = f"dataset.path={SHIPPED}{name}"
        raise DatasetError("no such shipped sample", where=where, remedy=did_you_mean(name, names))
    return folder / name


def _not_there(path: Path, key: str) -> DatasetError:
    folder = path.parent
    if not folder.is_dir():
        return DatasetError("no such file, nor its folder", where=str(path), remedy=f"set {key} to a data file")
    near = did_you_mean(path.name, [p.name for p in folder.iterdir() if p.is_file()])
    remedy = near if near.startswith("did you mean") else f"set {key} to a data file"
    return DatasetError("no such file", where=str(path), remedy=remedy)
