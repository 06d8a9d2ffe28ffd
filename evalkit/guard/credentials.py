"""Servers that get no credential, because a file named them: this process's own list,
and that of its workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from evalkit.core.redaction import is_placeholder

PLACEHOLDER = "not-needed"
"""What a server gets instead of a key; clients do not start without one."""
_withheld = set[str]()


def withhold(address: str) -> None:
    """Send no credential to a server from now on."""
    # The same server may be written with and without the last slash.
    _withheld.add(address.rstrip("/"))


def allow(address: str) -> None:
    """Let a server get the credentials of its provider again."""
    _withheld.discard(address.rstrip("/"))


def is_withheld(address: str | None) -> bool:
    """Return whether a server gets no credential."""
    return address is not None and address.rstrip("/") in _withheld


def withheld_servers() -> tuple[str, ...]:
    """Return all servers that get no credential, for other processes."""
    return tuple(sorted(_withheld))


def withhold_all(addresses: Iterable[str]) -> None:
    """Send no credential to these servers."""
    _withheld.update(addresses)


def stand_in(name: str) -> str:
    """Return what such a server gets instead of the value of a variable: the value, if
    it is a placeholder.
    """
    value = os.environ.get(name, "")
    # A local server may expect a certain placeholder, and a placeholder is not a secret.
    if value and is_placeholder(value):
        return value
    return PLACEHOLDER
