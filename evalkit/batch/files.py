"""Write a round of requests to files with an index next to them, and find the requests that were written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from glob import escape
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from evalkit.batch.requests import URL, BatchRequest, BatchTarget, Round
from evalkit.core.atomic_files import write_files
from evalkit.core.hashing import is_content_key
from evalkit.errors import ConfigError
from evalkit.judges.setup import RUNGS
from evalkit.types import Rung

INDEX = ".index.jsonl"
_START = b'{"evalkit_batch"'
MAX_REQUESTS, MAX_MEGABYTES = 50_000, 200
"""The limits of a file of OpenAI's batch API."""


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A file of requests to one model."""

    name: str
    target: BatchTarget
    rounds: int


@dataclass(frozen=True, slots=True)
class _Header:
    evalkit_batch: Literal[1]
    store: str | None
    files: tuple[RequestFile, ...]


class RequestIndex:
    """The requests that were written: the file and the rung of each content key.

    Attributes:
        files: The files of requests, with the folders they are in.
        stores: The stores for which they were written.
    """

    def __init__(self) -> None:
        self.files: list[tuple[Path, RequestFile]] = []
        self.stores: set[str] = set()
        self._keys: dict[bytes, tuple[int, Rung]] = {}

    def load(self, path: Path, only: str | None = None) -> None:
        """Add the requests in an index file, or only those of the file of requests named `only`.

        A request that was written again counts for the index that is loaded last.

        Raises:
            ConfigError: If it is not an index.
        """
        try:
            with path.open("rb") as lines:
                header = _codec().validate_json(next(lines, b""))
                start = len(self.files)
                self.files += [(path.parent, file) for file in header.files]
                self.stores |= {header.store} if header.store is not None else set()
                for line in lines:
                    key, place, rung = json.loads(line)
                    if not is_content_key(key) or place not in range(len(header.files)) or rung not in RUNGS:
                        raise ValueError(line)
                    if only in (None, header.files[place].name):
                        self._keys[bytes.fromhex(key)] = start + place, rung
        except OSError as error:
            raise ConfigError(f"cannot be read ({error.strerror})", where=str(path)) from None
        except (ValueError, TypeError, LookupError, RecursionError):
            remedy = "restore the file, or write the requests again"
            raise ConfigError("is not an index of `evalkit batch write`", where=str(path), remedy=remedy) from None

    def add(self, file: RequestFile, rungs: Mapping[str, Rung]) -> None:
        """Add the requests of a file, each with its rung."""
        self._keys |= {bytes.fromhex(key): (len(self.files), rung) for key, rung in rungs.items()}
        self.files.append((Path(), file))

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._keys

    def __getitem__(self, key: str) -> tuple[int, Rung]:
        """Return the number of a key's file, and its rung; the key must be a content key."""
        return self._keys[bytes.fromhex(key)]

    def keys_of(self, files: set[int]) -> Iterator[tuple[str, int]]:
        """Yield the content keys in these files, with the number of the file."""
        return ((key.hex(), place) for key, (place, _) in self._keys.items() if place in files)


@cache
def _codec() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(_Header).validator


def index_of(path: Path) -> Path:
    """Return the index's path of a path that was given to `evalkit batch write`."""
    return path.with_name(f"{path.stem}{INDEX}")


def find_indexes(folders: Sequence[Path]) -> list[Path]:
    """Return the index files in these folders, the newest last; other files of such a name are left out."""
    found = {one.resolve(): one for folder in folders for one in folder.glob(f"*{INDEX}") if _is_index(one)}
    return sorted(found.values(), key=lambda one: (one.stat().st_mtime_ns, one))


def _is_index(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_START)) == _START
    except OSError:
        return False


def load_named(requests: Path, index: RequestIndex) -> None:
    """Add the requests that were written to a file, to all files of one round, or that an index file lists.

    Raises:
        ConfigError: If there is no index of this file.
    """
    if requests.name.endswith(INDEX):
        index.load(requests)
        return
    stems = [requests.stem, requests.stem.rpartition("-")[0]]
    for place, stem in enumerate(stems):
        found = requests.with_name(f"{stem}{INDEX}")
        if stem and found.is_file():
            index.load(found, only=requests.name if place else None)
            return
    remedy = "name a file that `evalkit batch write` wrote, with its index next to it"
    raise ConfigError("has no index", where=str(requests), remedy=remedy)


def check_free(path: Path) -> None:
    """Check that no file of another round is where a round would be written.

    Raises:
        ConfigError: If there is one.
    """
    taken = [path, index_of(path), *path.parent.glob(f"{escape(path.stem)}-*{path.suffix}")]
    if found := next((one for one in taken if one.exists()), None):
        remedy = "give another name: each round has its own files, and late answers need them"
        raise ConfigError("exists already", where=str(found), remedy=remedy)


def write_round(
    path: Path,
    found: Round,
    *,
    store: str | None,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_MEGABYTES * 10**6,
) -> list[tuple[RequestFile, int]]:
    """Write a round's requests, ordered by shared prefix, and their index; return the files with their sizes.

    Each file has requests to one model. If there are several files, they are numbered: `requests-1.jsonl` and so on.

    Args:
        path: The file to write.
        found: The requests.
        store: The URL of the store for which they are written; `None` to not name it.
        max_requests: The most requests in a file.
        max_bytes: The largest file.

    Raises:
        ConfigError: If the files cannot be written, or one name of a model is set for several models.
    """
    order = sorted(found.requests, key=lambda one: (repr(one.target), one.prefix, one.key))
    by_target = [list(group) for _, group in groupby(order, key=lambda one: one.target)]
    if found.model is not None and len(by_target) > 1:
        models = ", ".join(sorted(group[0].target.name for group in by_target))
        raise ConfigError(f"names one model, and the requests are for {models}", where="--model")
    parts = [part for group in by_target for part in _split(group, max_requests, max_bytes)]
    names = [path.name] if len(parts) == 1 else [f"{path.stem}-{n}{path.suffix}" for n, _ in enumerate(parts, 1)]
    files = [RequestFile(name, part[0].target, found.rounds) for name, part in zip(names, parts, strict=True)]
    contents = {index_of(path).name: _index(_Header(1, store, tuple(files)), parts)}
    contents |= {name: _lines(part, found) for name, part in zip(names, parts, strict=True)}
    try:
        write_files(path.parent, contents)
    except OSError as error:
        raise ConfigError(f"cannot be written ({error.strerror})", where=str(path)) from None
    return [(file, len(part)) for file, part in zip(files, parts, strict=True)]


def _split(requests: Sequence[BatchRequest], max_requests: int, max_bytes: int) -> list[list[BatchRequest]]:
    parts: list[list[BatchRequest]] = [[]]
    size, envelope = 0, len(_line(requests[0].key, b""))
    for request in requests:
        if parts[-1] and (len(parts[-1]) == max_requests or size + envelope + request.size > max_bytes):
            parts.append([])
            size = 0
        parts[-1].append(request)
        size += envelope + request.size
    return parts


def _lines(part: Sequence[BatchRequest], found: Round) -> Iterator[bytes]:
    for request in part:
        yield _line(request.key, found.lines[request.position])


def _line(key: str, body: bytes) -> bytes:
    return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (key.encode(), URL.encode(), body)


def _index(header: _Header, parts: Sequence[Sequence[BatchRequest]]) -> Iterator[bytes]:
    yield json.dumps(asdict(header)).encode() + b"\n"
    for place, part in enumerate(parts):
        for request in part:
            yield b'["%b",%d,"%b"]\n' % (request.key.encode(), place, request.rung.encode())
