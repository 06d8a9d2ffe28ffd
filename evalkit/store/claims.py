"""One call for equal requests of all processes on a store: whoever holds a key's claim is the one that asks.

A claim is a lock on one byte of an empty file beside the store, at a place that the key's hash names. It costs no
write, and the system lets go of it when its process ends, however it ends: no lease, no clock, nothing to clean up.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

try:
    import fcntl
except ImportError:  # Windows: claims then hold within the process only
    fcntl = None  # type: ignore[assignment]

SUFFIX = "-claims"


@dataclass(slots=True)
class _File:
    """One open file of claims; such locks belong to the process, and closing any of its descriptors drops them all."""

    descriptor: int
    held: set[int] = field(default_factory=set)
    users: int = 0


_files: dict[str, _File] = {}
_lock = Lock()


def _forget() -> None:
    """Begin a forked process without its parent's claims, which it does not have."""
    global _lock
    _lock = Lock()
    _files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Claims:
    """The claims on one store, shared by all of this process that use it.

    Args:
        store: the store's file.

    Raises:
        OSError: if the file of claims cannot be made.
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
        """Claim a key, and say whether it is claimed now; false while anybody else has it."""
        place = _place(key)
        with _lock:
            if place in self._file.held or not _locked(self._file.descriptor, place):
                return False
            self._file.held.add(place)
            self._mine.add(place)
        return True

    def give_back(self, key: str) -> None:
        """Let others claim a key that was claimed here."""
        with _lock:
            self._let_go(_place(key))

    def close(self) -> None:
        """Let go of every claim taken here."""
        with _lock:
            for place in tuple(self._mine):
                self._let_go(place)
            self._file.users -= 1
            if not self._file.users and _files.get(self._name) is self._file:
                del _files[self._name]
                os.close(self._file.descriptor)

    def _let_go(self, place: int) -> None:
        if place in self._mine:
            self._mine.discard(place)
            self._file.held.discard(place)
            if fcntl is not None:
                fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, place)


def _place(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")


def _locked(descriptor: int, place: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):  # POSIX allows either for "somebody else has it"
        return False
    return True
