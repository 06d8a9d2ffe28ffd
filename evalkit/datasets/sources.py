"""Where rows come from: files, standard input, a frame, a Hugging Face data set, or what another part fetches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.datasets.files import KEY, SHIPPED, STDIN, find_files, find_place, standard_input
from evalkit.datasets.frames import frame_rows
from evalkit.datasets.named import benchmark_of, named_rows
from evalkit.datasets.packed import reading
from evalkit.datasets.readers import Reader, Row, reader_for
from evalkit.errors import ConfigError, DatasetError

Rows = Iterable[tuple[str, Row]]
_SCHEME = re.compile(r"[a-zA-Z][\w+.-]+(?=:)")
_SAVED = ("dataset_info.json", "dataset_dict.json")
HUB = "hf"


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that can be read as often as is needed: `rows()` begins anew. `name` is what the manifest calls them.

    `files` are the files, or the folder, that the rows are read from, if they stand there. `left_out` counts what no
    row was made of, by what it is.
    """

    name: str
    rows: Callable[[], Rows]
    files: Sequence[Path] = ()
    left_out: Counter[str] = field(default_factory=Counter)


Fetch = Callable[[str, str | None], Source]
"""Fetches what a path with a scheme means, in a format or in that which its name tells."""


def open_source(
    config: DatasetConfig,
    *,
    base: Path | None = None,
    frame: Any = None,
    fetch: Mapping[str, Fetch] | None = None,
) -> Source:
    """Return the rows that a config describes.

    Args:
        config: the dataset group.
        base: a folder to search for files after the current one.
        frame: rows from Python, in place of `dataset.path`: a pandas or polars frame, an Arrow table, or mappings.
        fetch: what fetches paths of the form `scheme:…`, by scheme.

    Raises:
        ConfigError: if the description is wrong, or what it names is not there.
    """
    if frame is not None:
        return Source("frame", lambda: frame_rows(frame))
    named = config.path
    if not named:
        remedy = f"name a file, or {SHIPPED}sample.jsonl for the shipped sample"
        if config.benchmark is not None:
            remedy = f"name {benchmark_of(config.benchmark).expects}"
        raise ConfigError("not set", where=KEY, remedy=remedy)
    if config.benchmark is not None and config.format is None:
        return _named(config.benchmark, named, base, config.baseline)
    if named == STDIN:
        return _standard_input(config.format)
    if fetched := _fetched(named, config.format, fetch or {}):
        return fetched
    if (config.format or "").lower() == HUB or _is_saved(named, base, config.format):
        from evalkit.datasets.hub import hub_rows

        return Source(named, lambda: hub_rows(config, base))
    if foreign := next((key for key in ("subset", "split", "revision") if getattr(config, key) is not None), None):
        raise ConfigError("is for Hugging Face data sets", where=f"dataset.{foreign}", remedy="set dataset=hf")
    return file_source(find_files(named, base, format=config.format), config.format, named)


def file_source(paths: Sequence[Path], format: str | None, name: str) -> Source:  # noqa: A002 - the config's own word
    """Return the rows of files, one file after the other.

    Raises:
        ConfigError: if one of them has no reader.
    """
    readers = [(path, reader_for(format, path)) for path in paths]

    def rows() -> Iterator[tuple[str, Row]]:
        for path, reader in readers:
            yield from _read(path, reader)

    return Source(name, rows, tuple(paths))


def downloaded(path: Path, format: str | None, name: str) -> Source:  # noqa: A002 - the config's own word
    """Return the rows of a file, or of a folder's, that was fetched from elsewhere, where it goes by `name`."""
    real = file_source(find_files(str(path), None, format=format), format, name)
    return Source(name, lambda: _called(real.rows(), str(path), name))


def _named(benchmark: str, named: str, base: Path | None, baseline: str | None) -> Source:
    benchmark_of(benchmark)
    path = find_place(named, base)
    left_out: Counter[str] = Counter()

    def rows() -> Iterator[tuple[str, Row]]:
        left_out.clear()
        with reading(path):
            yield from named_rows(benchmark, path, baseline, left_out)

    return Source(named, rows, (path,), left_out)


def _read(path: Path, reader: Reader) -> Iterator[tuple[str, Row]]:
    with reading(path):
        yield from reader(path)


def _standard_input(format: str | None) -> Source:  # noqa: A002 - the config's own word
    if not format:
        what, remedy = "not set, and standard input has no name to tell it by", "set it: jsonl, csv, …"
        raise ConfigError(what, where="dataset.format", remedy=remedy)
    path = standard_input()
    reader = reader_for(format, path)
    return Source("stdin", lambda: _called(_read(path, reader), str(path), "stdin"))


def _called(rows: Rows, path: str, name: str) -> Iterator[tuple[str, Row]]:
    """Yield rows with their places, and raise complaints, under another name than that of the file they are in."""
    try:
        for place, row in rows:
            yield name + place.removeprefix(path), row
    except DatasetError as bad:
        where = name + bad.where.removeprefix(path) if bad.where.startswith(path) else bad.where
        raise DatasetError(bad.what, where=where, remedy=bad.remedy) from None


def _fetched(named: str, format: str | None, fetch: Mapping[str, Fetch]) -> Source | None:  # noqa: A002 - the config's own word
    scheme = _SCHEME.match(named)
    if scheme is None or named.startswith(SHIPPED):
        return None
    if scheme[0] in fetch:
        return fetch[scheme[0]](named, format)
    if not named.startswith(f"{scheme[0]}://"):
        return None
    known = ", ".join(f"{one}:" for one in sorted(fetch))
    remedy = "download it" + (f"; {known} are fetched" if known else "")
    raise ConfigError(f"'{scheme[0]}:' is not fetched from here", where=f"{KEY}={named}", remedy=remedy)


def _is_saved(named: str, base: Path | None, format: str | None) -> bool:  # noqa: A002 - the config's own word
    """Say whether a folder is one that `save_to_disk` of the library `datasets` wrote."""
    path = Path(named).expanduser()
    folders = (path, *([base / path] if base else []))
    return format is None and any((folder / name).is_file() for folder in folders for name in _SAVED)
