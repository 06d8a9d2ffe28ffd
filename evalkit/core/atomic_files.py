"""Files that are complete or absent, also after a full disk, a killed process or a power cut.

Each is written beside its place as `.NAME.PID.tmp`, waited for until it is on the disk, and then moved there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from glob import escape
from pathlib import Path

_AT_ONCE = 16


def write_file(path: Path, chunks: Iterable[bytes], *, private: bool = False) -> None:
    """Write or replace one file; its folder is made if it is missing.

    Raises:
        OSError: if it cannot be written; what was there before is left as it was.
    """
    write_files(path.parent, {path.name: chunks}, private=private)


def write_files(
    folder: Path, contents: Mapping[str, Iterable[bytes]], *, last: str = "", private: bool = False
) -> None:
    """Write or replace files in a folder, which is made if it is missing; all are written before the first is moved.

    Args:
        folder: where they go.
        contents: name, or path below the folder, → bytes in pieces, which are asked for one at a time.
        last: the name that is moved last, so that a new folder that has it has all of them.
        private: whether only the user may read them.

    Raises:
        OSError: if one cannot be written; what was there before is left as it was.
    """
    places = [folder / name for name in contents]
    with ExitStack() as leftovers:
        folder.mkdir(parents=True, exist_ok=True)
        for inner in {place.parent for place in places} - {folder}:
            leftovers.callback(drop_empty, inner)
            inner.mkdir(parents=True, exist_ok=True)
        staged = [
            _stage(place, some, leftovers, private) for place, some in zip(places, contents.values(), strict=True)
        ]
        _sync(staged)
        for written, place in sorted(zip(staged, places, strict=True), key=lambda one: one[1].name == last):
            written.replace(place)
        _settle(folder)


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove what processes that were killed while they wrote to a folder have left of files of that name."""
    for left in folder.glob(f".{name}.*.tmp"):
        process = left.name.split(".")[-2]
        if process.isdigit() and not _alive(int(process)):
            left.unlink(missing_ok=True)


def drop_empty(folder: Path) -> None:
    """Remove a folder if nothing is in it."""
    with suppress(OSError):
        folder.rmdir()


def _alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere asking would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _stage(place: Path, chunks: Iterable[bytes], leftovers: ExitStack, private: bool) -> Path:
    remove_leftovers(place.parent, escape(place.name))
    written = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    leftovers.callback(written.unlink, missing_ok=True)
    written.unlink(missing_ok=True)
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb") as file:  # noqa: PTH123
        file.writelines(chunks)
    return written


def _sync(files: Sequence[Path]) -> None:
    """Wait until files are on the disk, all at once: it takes hardly longer for twenty than for one."""
    if len(files) < 2:
        for file in files:
            _sync_one(file)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(_AT_ONCE, len(files)), "evalkit-sync") as threads:
        for _ in threads.map(_sync_one, files):
            pass


def _sync_one(file: Path) -> None:
    handle = os.open(file, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _settle(folder: Path) -> None:
    # A rename survives a power cut once its folder is synced; where folders cannot be opened, it is left to the system.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
