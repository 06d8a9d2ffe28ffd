"""What the user trusts: hosts with the credentials that they may get, and variables
that a file may read.

As in OpenSSH's `known_hosts`, trust is given once, and kept in the user's configuration folder.
`EVALKIT_TRUST` has the same entries, for CI.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.errors import ConfigError
from evalkit.core.regular_files import open_file
from evalkit.core.values import Json, frozen
from evalkit.guard.hosts import Host, host_name

FLAG = "--trust"
VARIABLE = "EVALKIT_TRUST"
FILE = "trusted_hosts.json"
_VERSION = 1
_ENTRY = re.compile(
    r"(?:https?://)?(?P<host>[^\s:/@=\\?#%\[\]]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?/?"
    r"(?:=(?P<names>[A-Za-z_]\w*(?:\+[A-Za-z_]\w*)*))?"
)
_READS = re.compile(r"env:(?P<name>[A-Za-z_]\w*)")
_LARGEST = 1_000_000


@frozen
class Entry:
    """What is trusted: a host, at one port or at all, with credentials; `None` for
    those that a judge there needs.
    """

    host: str
    port: int | None = None
    names: frozenset[str] | None = None

    @property
    def key(self) -> str:
        """The host and the port, as they are written."""
        bracketed = f"[{self.host}]" if ":" in self.host else self.host
        if self.port is None:
            return bracketed
        return f"{bracketed}:{self.port}"

    def covers(self, host: Host) -> bool:
        """Return whether it is about a host."""
        return self.host == host.name and self.port in (None, host.port)

    def allows(self, names: Iterable[str]) -> bool:
        """Return whether the host may get these credentials."""
        return self.names is None or self.names.issuperset(names)


@frozen
class Trust:
    """Trusted hosts, and names of variables that a file may read."""

    hosts: Sequence[Entry] = ()
    variables: frozenset[str] = frozenset()

    def __or__(self, added: Trust) -> Trust:
        """Return both."""
        return Trust((*self.hosts, *added.hosts), self.variables | added.variables)


_of_command: ContextVar[Sequence[str]] = ContextVar("evalkit_trust", default=())


_keeps: ContextVar[bool] = ContextVar("evalkit_keeps_trust", default=False)


def is_keeping() -> bool:
    """Return whether what the command trusts is kept, as on the command line."""
    return _keeps.get()


def trusted_words() -> Sequence[str]:
    """Return what the command or the call trusts."""
    return _of_command.get()


@contextmanager
def trusting(words: Sequence[str], *, keeps: bool = False) -> Iterator[None]:
    """Trust entries such as `gateway.example` or `env:DATA` inside the block.

    Entries that are kept are trusted anyway.

    Args:
        words: The entries.
        keeps: Whether a host is kept once a config names it, with the credentials that it needs.

    Raises:
        ConfigError: If an entry is malformed.
    """
    # For its error: a malformed entry should fail here and not at its first use.
    read_entries(words, FLAG)
    token = _of_command.set((*_of_command.get(), *words))
    # An inner block cannot take back what an outer one keeps.
    keeping = _keeps.set(keeps or _keeps.get())
    try:
        yield
    finally:
        _of_command.reset(token)
        _keeps.reset(keeping)


def read_entries(words: Iterable[str], where: str) -> Trust:
    """Read entries as they are written on the command line.

    Raises:
        ConfigError: If one is malformed.
    """
    hosts = list[Entry]()
    variables = set[str]()
    for word in words:
        if reads := _READS.fullmatch(word):
            variables.add(reads["name"])
            continue
        # The whole word: a part behind the host must not go unread.
        match = _ENTRY.fullmatch(word)
        host = host_name(match["host"]) if match else None
        if match is None or host is None:
            raise ConfigError(
                "is not a host",
                where=f"{where} {word}",
                remedy=(
                    f"write {FLAG} HOST, {FLAG} HOST:PORT, "
                    f"{FLAG} HOST=VARIABLE or {FLAG} env:VARIABLE"
                ),
            )
        # Without a port, all ports of the host are meant.
        port = int(match["port"]) if match["port"] else None
        names = frozenset(match["names"].split("+")) if match["names"] else None
        hosts.append(Entry(host, port, names))
    return Trust(tuple(hosts), frozenset(variables))


def trust_file() -> Path:
    """Return the file with what the user trusts."""
    from platformdirs import user_config_path

    return user_config_path("evalkit") / FILE


def trust() -> Trust:
    """Return all that the user trusts: this command's, `EVALKIT_TRUST`'s, and what is kept.

    Raises:
        ConfigError: If an entry is malformed, or the file is damaged.
    """
    from_environment = re.split(r"[\s,;]+", os.environ.get(VARIABLE, "").strip())
    return (
        read_entries(trusted_words(), FLAG)
        | read_entries(filter(None, from_environment), VARIABLE)
        | kept()
    )


def kept() -> Trust:
    """Return what the user's file has.

    Raises:
        ConfigError: If it is damaged.
    """
    content = _read_trust_file()
    hosts = content.get("hosts")
    variables = content.get("variables")
    words = [
        key if names is None else f"{key}={'+'.join(names)}"
        for key, names in (hosts if isinstance(hosts, dict) else {}).items()
        # An empty list trusts the host with nothing, so it is omitted.
        if names is None or names
    ]
    words += [
        f"env:{name}" for name in (variables if isinstance(variables, list) else ())
    ]
    return read_entries(words, str(trust_file()))


def keep(entries: Trust) -> Path:
    """Add entries to the user's file, and return it.

    Raises:
        ConfigError: If the file is damaged or cannot be written.
    """
    path = trust_file()
    content = _read_trust_file()
    hosts: dict[str, list[str] | None] = dict(content.get("hosts") or {})
    for entry in entries.hosts:
        # `None` is trust in what a judge there needs, and cannot grow; a list gets the new names.
        before = hosts.get(entry.key, [])
        if entry.names is None or before is None:
            hosts[entry.key] = None
        else:
            hosts[entry.key] = sorted({*before, *entry.names})
    variables = sorted({*(content.get("variables") or ()), *entries.variables})
    text = json.dumps(
        {"version": _VERSION, "hosts": hosts, "variables": variables}, indent=2
    )
    with file_errors("cannot be written", path, f"set {VARIABLE} instead"):
        # Complete or not at all, and readable by the user only.
        write_file(path, [text.encode(), b"\n"], private=True)
    return path


def _read_trust_file() -> Json:
    """Return what the file of trust has; nothing if there is no file.

    Raises:
        ConfigError: If it cannot be read, or is damaged.
    """
    path = trust_file()
    try:
        with open_file(path) as file:
            # A limit, since the file may be replaced by anything.
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", where=str(path)
        ) from None
    try:
        content = json.loads(text)
        is_valid = (
            isinstance(content, dict)
            and content.get("version") == _VERSION
            and all(map(_is_names, content.get("hosts", {}).values()))
            and _is_names(content.get("variables", []))
        )
    except (ValueError, RecursionError, AttributeError):
        is_valid = False
    if not is_valid:
        raise ConfigError(
            "the file is damaged", where=str(path), remedy="remove it, and trust again"
        )
    return dict(content)


def _is_names(value: object) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(name, str) for name in value)
    )
