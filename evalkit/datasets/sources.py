"""Sources of rows: files, standard input, data frames, Hugging Face datasets, and fetched paths."""

from __future__ import annotations

import atexit
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cache
from glob import has_magic
from importlib.resources import files
from pathlib import Path
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.config.table_reading import TableReading, load_reading
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.bounded_files import read_yaml
from evalkit.core.display import relative
from evalkit.core.errors import ConfigError, DatasetError, did_you_mean
from evalkit.core.patterns import lazy_pattern
from evalkit.core.regular_files import read_file
from evalkit.core.resources import DISTRIBUTION, optional
from evalkit.core.values import frozen
from evalkit.datasets.arrow_files import placed
from evalkit.datasets.compression import reading
from evalkit.datasets.field_mapping import MESSAGES
from evalkit.datasets.file_parts import file_of
from evalkit.datasets.formats import Reader, is_readable, reader_for
from evalkit.datasets.located_rows import (
    Placed,
    Row,
    numbered,
    unique_columns,
    without_repeated,
)
from evalkit.datasets.named_benchmarks import named_rows, recognize_benchmark

TRACES = "mlflow-traces:"
"""The beginning of a path that names the traces of an experiment."""
SHIPPED, STDIN, KEY = "evalkit:", "-", "dataset.path"
_CHUNK = 2**20


def find_files(
    named: str,
    base: Path | None,
    *,
    key: str = KEY,
    format: str | None = None,  # noqa: A002
) -> list[Path]:
    """Return the files of a path in the config, sorted by name.

    Args:
        named: A file, a folder (its files with a known format), a glob (`**` includes subfolders),
            or `evalkit:…` for a shipped sample.
        base: A folder to search after the current one.
        key: The config key, for errors.
        format: The format, if it is set; all files of a folder are then used.

    Raises:
        DatasetError: If there is no such file.
    """
    if named.startswith(SHIPPED):
        return [_shipped_file(named.removeprefix(SHIPPED))]
    # Each place is tried as a plain path first, so brackets in a file name are no glob.
    for path in _places(named, base):
        if path.is_dir():
            return _files_of_folder(path, format)
        if file_of(path).exists():
            return [path]
    # Without a glob, the name is wrong, and near names are suggested.
    if not has_magic(named):
        raise _missing_file_error(_places(named, None)[0], key)
    # The first place with a match wins: files of two folders are not mixed.
    for path in _places(named, base):
        if matches := _files_of_glob(path):
            return matches
    raise DatasetError("no file matches", where=f"{key}={named}", remedy="fix the glob")


def find_place(named: str, base: Path | None) -> Path:
    """Return the file or folder of a path; `base` is searched second.

    Raises:
        DatasetError: If there is none.
    """
    for path in _places(named, base):
        if file_of(path).exists():
            return path
    raise _missing_file_error(_places(named, None)[0], KEY)


def named_files(config: DatasetConfig, base: Path | None) -> list[Path]:
    """Return the files and folders that the path of a config names, as far as they exist."""
    named = config.path if isinstance(config.path, list) else [config.path or ""]
    paths = (path for name in named if name for path in _places(name, base))
    existing = []
    for path in paths:
        with suppress(OSError):  # a name that is too long for one
            existing += [file_of(path)] if file_of(path).exists() else []
    return existing


def is_missing(config: DatasetConfig, base: Path | None) -> bool:
    """Return whether the path of a config is not set, or nothing can be found at it."""
    named = config.path
    if named is None:
        return True
    if isinstance(named, list):
        # Of a list, each name must exist where it is tried last.
        return not all(
            file_of(path).exists()
            for name in named
            for path in _places(name, base)[-1:]
        )
    if named == STDIN or _SCHEME.match(named) or (config.format or "").lower() == HUB:
        return False
    return not any(
        file_of(path).exists() or (has_magic(named) and _files_of_glob(path))
        for path in _places(named, base)
    )


def _places(named: str, base: Path | None) -> tuple[Path, ...]:
    """Return where a path of the config can be: in the current folder, then in `base`."""
    path = Path(named).expanduser()
    return (path, *([base / path] if base else []))


def standard_input() -> Path:
    """Return a temporary file with standard input, which is read once per process.

    Raises:
        ConfigError: If standard input is a terminal.
    """
    if sys.stdin is None or sys.stdin.isatty():
        where = f"{KEY}={STDIN}"
        raise ConfigError(
            "standard input is a terminal",
            where=where,
            remedy="pipe a file into it: … < data.jsonl",
        )
    return _spool_standard_input()


@cache
def _spool_standard_input() -> Path:
    """Write standard input to a temporary file, and return the file; the process deletes it."""
    folder = tempfile.TemporaryDirectory(prefix="evalkit-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "stdin"
    with path.open("wb") as file:
        # In chunks: standard input may be larger than memory.
        while chunk := sys.stdin.buffer.read(_CHUNK):
            file.write(chunk)
    return path


def _files_of_glob(pattern: Path) -> list[Path]:
    """Return the files that match a glob, sorted; hidden files never match."""
    rooted = pattern if pattern.is_absolute() else Path.cwd() / pattern
    # The search begins in the last folder whose name has no wildcard.
    start = next(p for p in rooted.parents if not has_magic(str(p)))
    is_absolute = pattern.is_absolute()
    matches = (
        p
        for p in start.glob(str(rooted.relative_to(start)))
        if p.is_file() and not p.name.startswith(".")
    )
    # Sorted, so that the order of rows does not depend on the file system.
    return sorted(p if is_absolute else relative(p) for p in matches)


def _files_of_folder(folder: Path, format: str | None) -> list[Path]:  # noqa: A002
    """Return the data files of a folder, sorted by name; of all suffixes if the format is set.

    Raises:
        DatasetError: If it has none.
    """
    # Hidden files and those with an underscore are written by tools, such as _SUCCESS.
    named = sorted(
        p for p in folder.iterdir() if p.is_file() and not p.name.startswith((".", "_"))
    )
    # A set format means that all files have it, whatever their suffix.
    if readable := [p for p in named if format or is_readable(p)]:
        return readable
    if benchmark := recognize_benchmark(folder):
        raise DatasetError(
            "is a folder with no data files",
            where=str(folder),
            remedy=f"it {benchmark.hint}",
        )
    folders = sorted(
        f"{p.name}/"
        for p in folder.iterdir()
        if p.is_dir() and not p.name.startswith((".", "_"))
    )
    holds = ", ".join([p.name for p in named[:5]] + folders[:5]) or "nothing"
    remedy = f"set {KEY} to a file, or set dataset.format; it contains {holds}"
    raise DatasetError(
        "is a folder with no data files", where=str(folder), remedy=remedy
    )


def _shipped_file(name: str) -> Path:
    """Return the file of a shipped sample.

    Raises:
        DatasetError: If there is no such sample.
    """
    folder = Path(str(files("evalkit.datasets") / "samples"))
    names = sorted(p.name for p in folder.iterdir())
    if name not in names:
        where = f"dataset.path={SHIPPED}{name}"
        raise DatasetError(
            "no such shipped sample", where=where, remedy=did_you_mean(name, names)
        )
    return folder / name


def _missing_file_error(path: Path, key: str) -> DatasetError:
    """Return an error for a path without a file; it suggests a similar name in the same folder."""
    # The folder decides: a wrong folder would suggest names of an unrelated one.
    folder = path.parent
    if not folder.is_dir():
        return DatasetError(
            "no such file or folder",
            where=str(path),
            remedy=f"set {key} to a data file",
        )
    near = did_you_mean(path.name, [p.name for p in folder.iterdir() if p.is_file()])
    remedy = near if near.startswith("did you mean") else f"set {key} to a data file"
    return DatasetError("no such file", where=str(path), remedy=remedy)


_BATCH = 512


def hub_rows(config: DatasetConfig, base: Path | None = None) -> Iterator[Placed]:
    """Yield the rows of a Hugging Face dataset with their locations.

    A location is such as `name[split]:row 3`. The rows are not loaded all at once.

    A folder from `save_to_disk` is read from disk. Anything else is a name that the library
    downloads or has cached.

    Raises:
        ConfigError: If the library is not installed, or there is no such dataset or split.
    """
    dataset = _load_hub_dataset(config, base)
    named = str(config.path)
    split = config.hub_split
    # Several splits: the user must say which.
    if isinstance(dataset, dict):
        if split is None and len(dataset) == 1:
            dataset = next(iter(dataset.values()))
        elif split in dataset:
            dataset = dataset[split]
        else:
            if split:
                problem = f"no split '{split}'"
            else:
                problem = "not set, and the dataset has several splits"
            raise ConfigError(
                problem,
                where="dataset.split",
                remedy=did_you_mean(split or "", list(dataset)),
            )
    # A saved dataset is one split, and knows its name.
    elif (
        split is not None
        and (saved_split := getattr(dataset, "split", None))
        and str(saved_split) != split
    ):
        problem = f"the dataset is the split '{saved_split}'"
        raise ConfigError(problem, where=f"dataset.split={split}", remedy="remove it")
    name = f"{named}[{split}]" if split else named
    # As Arrow, an image or a sound is its bytes: decoded, it is read from any path or URL.
    tables = dataset.with_format("arrow").iter(batch_size=_BATCH)
    yield from placed((part for table in tables for part in table.to_batches()), name)


def _load_hub_dataset(config: DatasetConfig, base: Path | None) -> Any:
    """Return a dataset of the library: one split, or a dictionary of splits by name.

    Raises:
        ConfigError: If the library is not installed.
        DatasetError: If the dataset cannot be loaded, or its card names files outside its folder.
    """
    named = str(config.path)
    extra = f"'{DISTRIBUTION}[hf]'"
    library = optional(
        "datasets",
        "dataset.format",
        "format hf",
        library="the library datasets",
        install=extra,
    )
    # A folder on disk wins over a name of the hub.
    folder = next((path for path in _places(named, base) if path.is_dir()), None)
    try:
        library.disable_progress_bars()
        # Files of `save_to_disk`; other folders are loaded as data files.
        if folder is not None and any(
            (folder / f).is_file() for f in ("state.json", "dataset_dict.json")
        ):
            return library.load_from_disk(str(folder))
        if folder is not None:
            _check_card(folder)
        return library.load_dataset(
            str(folder or named), config.subset, revision=config.revision
        )
    except DatasetError:
        raise
    # the library raises many types of errors, including those of HTTP clients
    except Exception as bad:
        problem = f"cannot be loaded ({type(bad).__name__}: {' '.join(str(bad).split())[:300]})"
        raise DatasetError(
            problem,
            where=named,
            remedy="check dataset.path, dataset.subset and the network",
        ) from bad


_CARDS = ("README.md", ".huggingface.yaml")
_HEADER = lazy_pattern(r"---\s*\n(.*?)\n---\s*(?:\n|$)", re.DOTALL)
# A relative path without `..`, drive or scheme.
_INSIDE = lazy_pattern(r"(?!.*\.\.)[^/\\~:]+(?:/[^/\\~:]+)*/?")
_LISTS = ("data_files", "data_dir")


def _check_card(folder: Path) -> None:
    """Check that the cards of a data set in a folder name only files in that folder.

    A card is the header of its README, or a file of YAML. The library would read any path and any
    URL that it names. A folder without a card is fine.

    Raises:
        DatasetError: If a card names another one, or cannot be read.
    """
    for name in _CARDS:
        card = folder / name
        if not card.is_file():
            continue
        with reading(card):
            text = read_file(card).decode("utf-8", "replace")
        # In a README the header is between lines of dashes; the other file is all YAML.
        header = _HEADER.match(text) if name == _CARDS[0] else None
        if name == _CARDS[0] and header is None:
            continue
        try:
            content = read_yaml(header[1] if header else text)
        except ValueError as bad:
            raise DatasetError(
                f"its header is not YAML ({bad})", where=str(card), remedy="fix it"
            ) from None
        # The library would open these paths and URLs, also outside the folder.
        for path in _paths_in(content):
            if not _INSIDE.fullmatch(path):
                raise DatasetError(
                    f"names '{path[:200]}', which is not in its folder",
                    where=str(card),
                    remedy="copy the file into the folder, and name it there",
                )


def _paths_in(value: Any, *, listed: bool = False) -> Iterator[str]:
    """Yield the texts below the keys of files and folders; names of splits are no paths."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key != "split":
                # Below such a key every text is a path, at any depth.
                yield from _paths_in(part, listed=listed or key in _LISTS)
    elif isinstance(value, list):
        for part in value:
            yield from _paths_in(part, listed=listed)
    elif listed and isinstance(value, str):
        yield value


NAME = "frame"
_FRAME_BATCH = 4096


def frame_rows(frame: Any) -> Iterator[Placed]:
    """Yield each row of a frame with its location, such as `frame:row 3`.

    Missing values (NaN, NaT, NA, null) become `None`. Use a list instead of a generator, which can
    be read only once.

    Raises:
        DatasetError: If it is not a frame, or a row is not a mapping.
    """
    # By what a frame can do, so that no library must be imported.
    if callable(getattr(frame, "to_batches", None)):  # an Arrow table
        yield from placed(frame.to_batches(), NAME)
    elif callable(getattr(frame, "iter_rows", None)):  # polars
        yield from numbered(NAME, frame.iter_rows(named=True))
    elif hasattr(frame, "iloc") and hasattr(frame, "columns"):  # pandas
        yield from numbered(NAME, _pandas_rows(frame))
    # An iterator could be read only once, but rows are read several times.
    elif isinstance(frame, Iterable) and not isinstance(
        frame, str | bytes | Mapping | Iterator
    ):
        for location, row in numbered(NAME, frame):
            if not isinstance(row, Mapping):
                problem = f"the row is of type {type(row).__name__}, not a mapping"
                raise DatasetError(
                    problem, where=location, remedy="write each row as {column: value}"
                )
            yield location, {str(column): value for column, value in row.items()}
    else:
        problem = f"cases of type {type(frame).__name__}"
        remedy = "use a frame, an Arrow table, or a list of mappings"
        raise DatasetError(f"{problem} cannot be read", where=NAME, remedy=remedy)


def _pandas_rows(frame: Any) -> Iterator[Row]:
    """Yield the rows of a pandas frame, by the text of the column's name; missing values become
    `None`.
    """
    names = unique_columns([str(column) for column in frame.columns], NAME)
    # Slices keep the memory of converted values small.
    for start in range(0, len(frame), _FRAME_BATCH):
        part = frame.iloc[start : start + _FRAME_BATCH]
        is_filled = part.notna()
        # (columns, rows of the slice): values, with None for NaN, NaT and NA.
        columns = [
            [
                value if is_present else None
                for value, is_present in zip(
                    part.iloc[:, i].tolist(), is_filled.iloc[:, i], strict=True
                )
            ]
            for i in range(len(names))
        ]
        # Columns to rows.
        yield from (
            dict(zip(names, values, strict=True))
            for values in zip(*columns, strict=True)
        )


Rows = Iterable[Placed]
# A scheme has two or more characters, so that C: is a drive.
_SCHEME = lazy_pattern(r"[a-zA-Z][\w+.-]+(?=:)")
_SAVED = ("dataset_info.json", "dataset_dict.json")
HUB = "hf"


@frozen
class Source:
    """Rows that can be read repeatedly: `rows()` starts again.

    `name` is their name in the manifest.

    `files` are the files or the folder of the rows, if any. `left_out` counts omitted items by
    kind, and `notes` list assumptions. With `rendered`, a log's reader has made the texts.
    """

    name: str
    rows: Callable[[], Rows]
    files: Sequence[Path] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    notes: Sequence[str] = ()
    rendered: bool = False


CASE = "case"
"""The column with the case of a row that is one already."""
Tables = Callable[[Sequence[Path], str, TableReading], Source]
"""Reads tables as `dataset.reading` says."""
Fetch = Callable[[str, str | None], Source]
"""Fetches a path with a scheme, in the given format or that of its suffix."""
Logs = Callable[[Sequence[Path], str], Source | None]
"""Reads the answers in other tools' logs, several as one; `None` for a file that is not a log."""


def open_source(
    config: DatasetConfig,
    *,
    base: Path | None = None,
    frame: Any = None,
    fetch: Mapping[str, Fetch] | None = None,
    logs: Logs | None = None,
    tables: Tables | None = None,
) -> Source:
    """Return the source of a config.

    Args:
        config: The dataset settings.
        base: A folder to search for files after the current one.
        frame: Rows from Python instead of `dataset.path`: a pandas or polars frame, an Arrow table,
            or mappings.
        fetch: Functions that fetch paths of the form `scheme:…`, by scheme.
        logs: Reads files that are logs, unless `dataset.format` or `dataset.fields` says how to
            read them.
        tables: Reads files as `dataset.reading` says.

    Raises:
        ConfigError: If the settings are invalid, or the source does not exist.
    """
    if frame is not None:
        return Source("frame", lambda: frame_rows(frame))
    # From here on the path decides, from the most special to the most general.
    named = config.path
    if isinstance(named, list):
        return _source_of_logs(named, base, logs)
    if not named:
        remedy = f"set it to a file, or to {SHIPPED}sample.jsonl for the shipped sample"
        if config.benchmark is not None:
            remedy = f"set it to {find_benchmark(config.benchmark).expects}"
        raise ConfigError("not set", where=KEY, remedy=remedy)
    if config.benchmark is not None and config.format is None:
        return _benchmark_source(config.benchmark, named, base, config.baseline)
    if named == STDIN:
        return _standard_input_source(config.format)
    fetched = _fetch_by_scheme(named, config.format, fetch or {})
    if fetched is not None:
        return fetched
    # The files of `save_to_disk` show what a folder is.
    saved_to_disk = config.format is None and any(
        (p / name).is_file() for p in _places(named, base) for name in _SAVED
    )
    if saved_to_disk or (config.format or "").lower() == HUB:
        return Source(named, lambda: hub_rows(config, base))
    hub = {
        "subset": config.subset,
        "split": config.hub_split,
        "revision": config.revision,
    }
    # Settings of the hub would be ignored for a file.
    if foreign := next((key for key, value in hub.items() if value is not None), None):
        raise ConfigError(
            "applies only to Hugging Face datasets",
            where=f"dataset.{foreign}",
            remedy="set dataset=hf",
        )
    files = find_files(named, base, format=config.format)
    if config.reading is not None and tables is not None:
        reading = config.reading
        if isinstance(reading, str):
            reading = load_reading(Path(reading).expanduser())
        return tables(files, named, reading)
    # Messages may be mapped in a log; other fields mean that it is read as a table.
    mapped = config.fields.keys() - {MESSAGES}
    if (
        len(files) == 1
        and logs
        and config.format is None
        and not mapped
        and (log := logs(files, named))
    ):
        return log
    return file_source(files, config.format, named)


def _source_of_logs(
    names: Sequence[str], base: Path | None, logs: Logs | None
) -> Source:
    """Return a source with a case for each sample that is in several logs.

    Raises:
        ConfigError: If the list names other files than logs, or one file twice.
    """
    # A log that is named twice is no second log.
    several = len(set(names)) == len(names) > 1
    source = None
    if logs and several:
        source = logs([find_place(name, base) for name in names], ", ".join(names))
    if source is None:
        raise ConfigError(
            "a list is only for two or more different logs",
            where=f"{KEY}=[{','.join(names)}]",
            remedy="name one file, folder or glob",
        )
    return source


# `format` is the key of the config.
def file_source(paths: Sequence[Path], format: str | None, name: str) -> Source:  # noqa: A002
    """Return a source with the rows of several files.

    Raises:
        ConfigError: If a file has no reader.
    """
    # All readers are found before the first row is read.
    readers = [(path, reader_for(format, path)) for path in paths]

    def rows() -> Iterator[Placed]:
        for path, reader in readers:
            yield from _read_rows(path, reader)

    return Source(name, rows, tuple(paths))


def downloaded(path: Path, format: str | None, name: str) -> Source:  # noqa: A002
    """Return a source for a downloaded file or folder, under its original `name`."""
    real = file_source(find_files(str(path), None, format=format), format, name)
    return Source(name, lambda: _with_name(real.rows(), str(path), name))


def _benchmark_source(
    benchmark: str, named: str, base: Path | None, baseline: str | None
) -> Source:
    """Return a source with a published benchmark's rows, and the number of those left out."""
    find_benchmark(benchmark)
    path = find_place(named, base)
    left_out: Counter[str] = Counter()

    def rows() -> Iterator[Placed]:
        # The source may be read again, which must not count twice.
        left_out.clear()
        with reading(path):
            yield from named_rows(benchmark, path, baseline, left_out)

    return Source(named, rows, (path,), left_out)


def _read_rows(path: Path, reader: Reader) -> Iterator[Placed]:
    with reading(path):
        yield from without_repeated(reader(path))


def _standard_input_source(format: str | None) -> Source:  # noqa: A002 - as in the config
    """Return a source with the rows of standard input.

    Raises:
        ConfigError: If the format is not set.
    """
    if not format:
        raise ConfigError(
            "not set, and standard input has no suffix",
            where="dataset.format",
            remedy="set it: jsonl, csv, …",
        )
    path = standard_input()
    reader = reader_for(format, path)
    return Source(
        "stdin", lambda: _with_name(_read_rows(path, reader), str(path), "stdin")
    )


def _with_name(rows: Rows, path: str, name: str) -> Iterator[Placed]:
    """Yield rows and raise errors with another name instead of the file's."""
    try:
        for location, row in rows:
            yield name + location.removeprefix(path), row
    except DatasetError as bad:
        # Errors carry the temporary path, which means nothing to the user.
        if bad.where.startswith(path):
            where = name + bad.where.removeprefix(path)
        else:
            where = bad.where
        raise DatasetError(bad.what, where=where, remedy=bad.remedy) from None


def _fetch_by_scheme(
    path: str,
    format: str | None,  # noqa: A002
    fetch: Mapping[str, Fetch],
) -> Source | None:
    """Return the source that the function for a path's scheme fetches; `None` for a local path.

    Raises:
        ConfigError: If it is a URL of a scheme that has no function.
    """
    match = _SCHEME.match(path)
    # The scheme of shipped samples looks like one to fetch, but they are files.
    if match is None or path.startswith(SHIPPED):
        return None
    scheme = match[0]
    if scheme in fetch:
        return fetch[scheme](path, format)
    # Without slashes it may be a file name with a colon.
    if not path.startswith(f"{scheme}://"):
        return None
    remedy = "download the file"
    if fetch:
        supported = ", ".join(f"{name}:" for name in sorted(fetch))
        remedy += f"; supported: {supported}"
    raise ConfigError(
        f"'{scheme}:' paths are not supported", where=f"{KEY}={path}", remedy=remedy
    )
