"""Open the files that users and folders from elsewhere name: a pipe would block, and a
device never ends.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

NOT_A_FILE = "a pipe or a device, not a file"
# Opening a pipe would wait for a writer. On regular files, the flags have no effect.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK")
)


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file for its bytes.

    Raises:
        OSError: If it cannot be read, or is a folder, a pipe or a device.
    """
    check_regular(path)
    descriptor = os.open(path, _FLAGS)
    try:
        _check_mode(os.fstat(descriptor).st_mode, path)  # it may have been replaced
        return io.BufferedReader(io.FileIO(descriptor, "rb"))
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(path: Path) -> None:
    """Check that a path is a regular file, for libraries that open it themselves.

    Raises:
        OSError: If it is missing, or is a folder, a pipe or a device.
    """
    _check_mode(path.stat().st_mode, path)


def read_file(path: Path) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        OSError: If it cannot be read, or is a folder, a pipe or a device.
    """
    with open_file(path) as file:
        return file.read()


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a regular file; any line break becomes a newline.

    Raises:
        OSError: If it cannot be read, or is a folder, a pipe or a device.
        UnicodeDecodeError: If it has another encoding.
    """
    with io.TextIOWrapper(open_file(path), encoding=encoding) as file:
        return file.read()


def _check_mode(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, NOT_A_FILE, str(path))
