"""Write files that are complete or absent, even after a full disk, a killed process or
a power failure.

Each is written as `.NAME.PID.tmp` next to its destination, flushed to disk, and then moved. Lines
are added to a file all or none.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Final

from evalkit.core.errors import ConfigError

_SYNC_THREADS = 16
_BUFFER: Final = 2**18
"""The bytes that are written at once: files have lines by the hundred thousand."""
APPENDING: Final = (
    os.O_RDWR
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)
"""How a file is opened to add lines; not through a link, which may lead elsewhere."""


def append_lines(descriptor: int, lines: bytes) -> None:
    """Add lines to an open file, all or none: a line that was cut would make the file invalid.

    Raises:
        OSError: If they cannot be written; the file is then as it was.
    """
    size = os.fstat(descriptor).st_size
    try:
        # A full disk may take a part of the bytes without an error.
        if os.write(descriptor, lines) < len(lines):
            raise OSError(0, "no space left")
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def write_file(path: Path, chunks: Iterable[bytes], *, private: bool = False) -> None:
    """Write or replace one file; a missing folder is created.

    Raises:
        OSError: If it cannot be written; an earlier file is unchanged.
    """
    write_files(path.parent, {path.name: chunks}, private=private)


def write_files(
    folder: Path,
    contents: Mapping[str, Iterable[bytes]],
    *,
    last: str = "",
    private: bool = False,
) -> None:
    """Write or replace files in a folder; all are written before the first is moved.

    A missing folder is created.

    Args:
        folder: The folder.
        contents: Name, or path below the folder, → chunks of bytes, read one at a time.
        last: The name to move last, so that a new folder with this file is complete.
        private: Whether only the user may read the files.

    Raises:
        OSError: If a file cannot be written, or a folder is a link to another place; earlier
            files are unchanged.
    """
    targets = [folder / name for name in contents]
    with ExitStack() as leftovers:
        folder.mkdir(parents=True, exist_ok=True)
        # A run folder may come from elsewhere: a link in it must not lead a write to another
        # place.
        for inner in {target.parent for target in targets} - {folder}:
            check_inside(folder, inner)
            leftovers.callback(drop_empty, inner)
            inner.mkdir(parents=True, exist_ok=True)
        staged = [
            _write_temporary(target, some, leftovers, private)
            for target, some in zip(targets, contents.values(), strict=True)
        ]
        # on disk before they are moved, so that a crash leaves no empty file under a
        # name
        _sync(staged)
        # The file named `last` is moved last: whoever finds it finds all others.
        for written, target in sorted(
            zip(staged, targets, strict=True), key=lambda pair: pair[1].name == last
        ):
            written.replace(target)
        _sync_folder(folder)


@contextmanager
def file_errors(problem: str, where: object = None, remedy: str = "") -> Iterator[None]:
    """Report an error of the operating system inside the block in one line.

    Its reason comes after `problem`.

    Args:
        problem: what cannot be done, such as `cannot be read`.
        where: the file or the folder; by default the one that the system names.
        remedy: what to do.

    Raises:
        ConfigError: instead of an error of the operating system.
    """
    try:
        yield
    except OSError as error:
        location = str(error.filename if where is None else where)
        raise ConfigError(
            f"{problem} ({error.strerror or error})", where=location, remedy=remedy
        ) from None


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove the temporary files of processes that were killed while they wrote a file
    with this name.
    """
    for leftover in folder.glob(f".{name}.*.tmp"):
        process = leftover.name.split(".")[-2]
        if process.isdigit() and not is_alive(int(process)):
            leftover.unlink(missing_ok=True)


def check_inside(folder: Path, path: Path) -> None:
    """Check that no link leads from a folder, which may be from elsewhere, to another one.

    Args:
        folder: The folder.
        path: A path in it, which may not exist yet.

    Raises:
        OSError: If it is a link to a place outside, or below one.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise OSError(errno.ELOOP, "a link to another folder", str(path))


def drop_empty(folder: Path) -> None:
    """Remove a folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def is_alive(process: int) -> bool:
    """Return whether a process of this machine may be alive."""
    if os.name != "posix":  # on other systems, os.kill would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write_temporary(
    target: Path, chunks: Iterable[bytes], leftovers: ExitStack, private: bool
) -> Path:
    """Write a temporary file next to the target, and return its path.

    Args:
        target: The file that it will replace.
        chunks: The content.
        leftovers: Removes the file at its end, if it is still there.
        private: Whether only the user may read the file.

    Raises:
        OSError: If it cannot be written.
    """
    # Temporary files of processes that are gone; a living one may be writing.
    remove_leftovers(target.parent, escape(target.name))
    written = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    leftovers.callback(written.unlink, missing_ok=True)
    written.unlink(missing_ok=True)
    with open(  # noqa: PTH123
        os.open(
            written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666
        ),
        "wb",
        buffering=_BUFFER,
    ) as file:
        file.writelines(chunks)
    return written


def _sync(files: Sequence[Path]) -> None:
    """Flush files to disk in parallel: twenty take hardly longer than one."""
    if len(files) < 2:
        for file in files:
            _sync_one(file)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(_SYNC_THREADS, len(files)), "evalkit-sync") as threads:
        for _ in threads.map(_sync_one, files):
            pass


def _sync_one(file: Path) -> None:
    handle = os.open(file, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    # A rename survives a power failure once its folder is flushed. If folders cannot be opened, the
    # system decides.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
