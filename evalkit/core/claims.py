"""Claim a folder or a file for one process before it writes there, on one machine or on
a shared file system.

A claim is a file, `.claim` in the folder or `.NAME.claim` next to the file, that names its process.
It appears with its content at once (a hard link), so that of many processes exactly one has it. It
is locked as long as its process lives: a claim that a killed process left is taken over by the next
process on that machine. Nobody can know whether a process on another machine still lives, so its
claim is removed by hand.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import Lock, get_ident
from typing import Final, Self

from evalkit.core.atomic_files import drop_empty, is_alive
from evalkit.core.display import shorten, visible
from evalkit.core.errors import ConfigError
from evalkit.core.regular_files import open_file
from evalkit.core.values import JsonObject, frozen

NAME: Final = ".claim"
_ATTEMPTS: Final = 100
_PAUSE: Final = 0.02  # seconds, while another process replaces a claim that was left
_LONGEST_SHOWN: Final = 80
"""The most characters of a value of a claim that a message shows."""
_WAIT: Final = "wait until it has ended"


class Claim:
    """A claim that this process holds until it is released; also a context manager.

    Claims of one thread on the same target are nested: the last release frees it.
    """

    __slots__ = ("_created", "_path", "_released")

    def __init__(self, path: Path, created: list[Path]) -> None:
        self._path = path
        self._created = created  # new folders, outermost first
        self._released = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Free the target, and remove folders that were created for the claim and stayed empty."""
        if self._released:
            return
        self._released = True
        with _lock:
            holding = _held.get(self._path)
            # After a fork, the child has a copy of the table, but the claim is its parent's.
            if holding is None or holding.process != os.getpid():
                return
            if holding.depth > 1:
                _held[self._path] = holding.deeper(-1)
                return
            del _held[self._path]
            with suppress(OSError):
                # Only if the file is still ours: another process may have taken over the claim.
                if is_at(self._path, holding.descriptor):
                    self._path.unlink()
            os.close(holding.descriptor)
        # Innermost first: a folder must be empty to be removed.
        for folder in reversed(self._created):
            drop_empty(folder)


class InUseError(ConfigError):
    """Another process, or another thread of this one, has claimed the target."""


@frozen
class _Holding:
    """A claim of this process: the open file, and how often its thread has claimed it."""

    descriptor: int
    process: int
    thread: int
    depth: int = 1

    def deeper(self, by: int) -> _Holding:
        return _Holding(self.descriptor, self.process, self.thread, self.depth + by)


# Of the process, because locks on files are.
_held: dict[Path, _Holding] = {}
_lock = Lock()


def _release_all() -> None:
    """Remove the claims of a process that ends in the middle, such as after Ctrl-C."""
    for path, holding in list(_held.items()):
        if holding.process == os.getpid():
            with suppress(OSError):
                if is_at(path, holding.descriptor):
                    path.unlink()


atexit.register(_release_all)


def claim_folder(folder: Path, remedy: str = "") -> Claim:
    """Claim a folder, which is created if it is missing.

    Args:
        folder: The folder.
        remedy: What to do instead of waiting, if another process has it.

    Raises:
        InUseError: If another process has it; the error names the process, its host and its start.
        ConfigError: If the folder cannot be written.
    """
    return _claim_with_retries(folder, folder / NAME, remedy)


def claim_file(file: Path, remedy: str = "") -> Claim:
    """Claim a file that is going to be written.

    Raises:
        InUseError: If another process has it.
        ConfigError: If its folder cannot be written.
    """
    target = file.resolve()  # all links to a file share one claim
    return _claim_with_retries(file, target.with_name(f".{target.name}{NAME}"), remedy)


def claim_unused(folder: Path, is_used: Callable[[Path], bool]) -> tuple[Path, Claim]:
    """Claim the first of `folder`, `folder-2`, `folder-3` … that is unclaimed and unused; return
    it with its claim.

    Args:
        folder: The folder.
        is_used: Whether a folder has something that must not be replaced.

    Raises:
        ConfigError: If none can be written.
    """
    for number in count(1):
        path = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if is_used(path):
            continue
        try:
            claim = claim_folder(path)
        except InUseError:
            continue
        # Again under the claim: its process may have finished between the look and the claim.
        if not is_used(path):
            return path, claim
        claim.release()  # its process finished between the two checks
    raise AssertionError("unreachable")


def _claim_with_retries(target: Path, path: Path, remedy: str) -> Claim:
    """Return the claim of a file, after waiting a little for another process.

    Raises:
        InUseError: If another process keeps it.
        ConfigError: If the claim cannot be written.
    """
    created: list[Path] = []
    try:
        for _ in range(_ATTEMPTS):
            with _lock:
                claim = _try_claim(target, path, remedy, created)
            if claim is not None:
                return claim
            time.sleep(_PAUSE)
    except OSError as error:
        _drop(created)
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot be written ({reason})",
            where=str(target),
            remedy=remedy or "check its permissions and the free disk space",
        ) from None
    except ConfigError:
        _drop(created)
        raise
    raise _in_use_error(target, path, _read(path), remedy)


def _drop(folders: list[Path]) -> None:
    for folder in reversed(folders):
        drop_empty(folder)


def _try_claim(
    target: Path, path: Path, remedy: str, created: list[Path]
) -> Claim | None:
    """Return a claim, or `None` to try again after a moment.

    Raises:
        InUseError: If another process or thread has the target.
        OSError: If it cannot be written.
    """
    path = _make_parent(path, created)
    holding = _held.get(path)
    if holding is not None and holding.process == os.getpid():
        # Two threads of this process exclude each other, as two processes do.
        if holding.thread != get_ident():
            raise _in_use_error(target, path, _read(path), remedy)
        _held[path] = holding.deeper(1)
        return Claim(path, [])
    staged = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        # Content and lock are complete before the claim has its name, so nobody ever reads half
        # of one.
        descriptor = _stage(staged)
    except FileNotFoundError:  # another process removed the empty folder
        return None
    try:
        if not _put(staged, path, target, remedy):
            os.close(descriptor)
            return None
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        staged.unlink(missing_ok=True)
    _held[path] = _Holding(descriptor, os.getpid(), get_ident())
    return Claim(path, list(created))


def _make_parent(path: Path, created: list[Path]) -> Path:
    """Create the folder of a claim, and return the claim's path without links."""
    folder = path.parent
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    created += [parent for parent in reversed(missing) if parent not in created]
    return folder.resolve() / path.name


def _stage(staged: Path) -> int:
    """Write a claim next to its destination, lock it, and return the open file."""
    descriptor = os.open(staged, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        content = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.write(descriptor, json.dumps(content).encode() + b"\n")
        _try_lock(descriptor)
    except BaseException:
        os.close(descriptor)
        staged.unlink(missing_ok=True)
        raise
    return descriptor


def _put(staged: Path, path: Path, target: Path, remedy: str) -> bool:
    """Move a staged claim to its destination; return whether this process has it now."""
    try:
        _link(staged, path)
    except FileExistsError:
        return _take_over(staged, path, target, remedy)
    except FileNotFoundError:
        return False
    return True


def _link(staged: Path, path: Path) -> None:
    """Create a claim with its content.

    Raises:
        FileExistsError: If there is a claim.
    """
    try:
        os.link(staged, path)
    except OSError as error:
        # Some file systems have no hard links: there the content follows a moment later.
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        staged.replace(path)


def _take_over(staged: Path, path: Path, target: Path, remedy: str) -> bool:
    """Replace a claim whose process is gone.

    Returns:
        Whether it was replaced; if not, the claim has just changed, and can be tried again.

    Raises:
        InUseError: If its process may be alive.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except PermissionError:  # another user's
        raise _in_use_error(target, path, _read(path), remedy) from None
    try:
        owner = _read(path)
        # A lock ends with its process, however it ended: a claim whose lock is free was left
        # behind.
        locked = _try_lock(descriptor)
        if locked is False and _is_live(owner):
            raise _in_use_error(target, path, owner, remedy)
        # The lock is held although its process is gone, or the file is another one by now.
        if locked is False or not is_at(path, descriptor):
            return False  # another process is replacing it
        # A lock may not be visible across machines, so a claim of another host is never taken
        # over.
        if owner.get("host") != socket.gethostname():
            raise _in_use_error(target, path, owner, remedy)
        # Without locks, only the process number can tell; it may have been given to another
        # process.
        if locked is None and _is_live(owner):
            raise _in_use_error(target, path, owner, remedy)
        staged.replace(path)
        return True
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool | None:
    """Lock an open file; return whether no other process has the lock, or `None` without locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _is_live(owner: JsonObject) -> bool:
    """Return whether a claim's process may be alive; nothing is known about other machines."""
    process = owner.get("pid")
    if owner.get("host") != socket.gethostname() or not isinstance(process, int):
        return True
    return is_alive(process)


def is_at(path: Path, descriptor: int) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _read(path: Path) -> JsonObject:
    """Return the content of a claim, empty if it is damaged or missing."""
    with suppress(OSError, ValueError, RecursionError):
        with open_file(path) as file:
            content = json.loads(file.read(4096))
        if isinstance(content, dict):
            return content
        return {}
    return {}


def _in_use_error(
    target: Path, path: Path, owner: JsonObject, remedy: str
) -> InUseError:
    """Return the error of a file that another process has claimed.

    Args:
        target: The file or folder that was to be claimed.
        path: The file of the claim.
        owner: The content of the claim: the process, its host and when it started.
        remedy: What to do instead of waiting; may be empty.
    """
    process, host, started = (
        shorten(visible(str(owner.get(key) or "?")), _LONGEST_SHOWN)
        for key in ("pid", "host", "started")
    )
    wait = _WAIT
    if host != socket.gethostname():
        wait += f", or remove {path} if it is gone"
    return InUseError(
        f"in use by process {process} on {host} since {started}",
        where=str(target),
        remedy=f"{wait}, or {remedy}" if remedy else wait,
    )
