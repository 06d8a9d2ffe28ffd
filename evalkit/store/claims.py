"""Share one call among equal requests of all processes on a store: the process that claims a key makes the call.

A claim is a lock on one byte of an empty file next to the store, at an offset from the key's hash. It writes nothing,
and the operating system releases it when its process ends, for whatever reason: no lease, no clock, no cleanup.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

try:
    import fcntl
except ImportError:  # Windows: claims work only within the process
    fcntl = None  # type: ignore[assignment]

SUFFIX = "-claims"


@dataclass(slots=True)
class _File:
    """An open file of claims. Its locks belong to the process, and closing any of its descriptors drops all of them."""

    descriptor: int
    held: set[int] = field(default_factory=set)
    users: int = 0


_files: dict[str, _File] = {}
_lock = Lock()


def _forget() -> None:
    """Drop the claims in a forked child process, which does not inherit its parent's locks."""
    global _lock
    _lock = Lock()
    _files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Claims:
    """The claims on one store, shared within the process.

    Args:
        store: The store's file.

    Raises:
        OSError: If the file of claims cannot be created.
    """

    def __init__(self, store: Path) -> None:
        self._name = f"{store.resolve()}{SUFFIX}"
        self._mine: set[int] = set()
        with _lock:
            if self._name not in _files:
                _files[self._name] = _File(os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._file = _files[self._name]
            self._file.users += 1

    def take(self, key: str) -> bool:
        """Claim a key; return `False` if another process or another user of the store has it."""
        offset = _offset(key)
        with _lock:
            if offset in self._file.held or not _locked(self._file.descriptor, offset):
                return False
            self._file.held.add(offset)
            self._mine.add(offset)
        return True

    def release(self, key: str) -> None:
        """Release a claim of this object."""
        with _lock:
            self._unlock(_offset(key))

    def close(self) -> None:
        """Release every claim of this object."""
        with _lock:
            for offset in tuple(self._mine):
                self._unlock(offset)
            self._file.users -= 1
            if not self._file.users and _files.get(self._name) is self._file:
                del _files[self._name]
                os.close(self._file.descriptor)

    def _unlock(self, offset: int) -> None:
        if offset in self._mine:
            self._mine.discard(offset)
            self._file.held.discard(offset)
            if fcntl is not None:
                fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, offset)


def _offset(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")


def _locked(descriptor: int, offset: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
    except (BlockingIOError, PermissionError):  # POSIX allows either if another process has the lock
        return False
    return True
