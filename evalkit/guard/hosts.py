"""Read the address of a server strictly: what two libraries could read differently is refused."""

from __future__ import annotations

import re
from ipaddress import ip_address

from evalkit.core.values import frozen
from evalkit.guard.rules import rules

_ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:(?P<user>[\w.-]+)@)?"
    r"(?P<host>[^/\s:@\\?#%\[\]]+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>\d{1,5}))?(?P<path>/[\w./~:+-]*)?",
    re.IGNORECASE | re.ASCII,
)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_PORTS = {
    "http": 80,
    "https": 443,
    "postgresql": 5432,
    "postgres": 5432,
    "mysql": 3306,
    "mssql": 1433,
}


@frozen
class Host:
    """A server: its scheme, its name in lower case and ASCII, and its port; 0 if it is
    not known.
    """

    scheme: str
    name: str
    port: int

    def __str__(self) -> str:
        """Return it as it is trusted: without a port if that is the scheme's own."""
        bracketed = f"[{self.name}]" if ":" in self.name else self.name
        if self.port in (0, _PORTS.get(self.scheme)):
            return bracketed
        return f"{bracketed}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine."""
        try:
            return self.name == "localhost" or ip_address(self.name).is_loopback
        except ValueError:
            return False

    def is_own(self, provider: str) -> bool:
        """Return whether it is a server of the provider, called over HTTPS."""
        provider_hosts = rules().hosts.get(provider, frozenset())
        return (
            self.scheme == "https" and self.port == 443 and self.name in provider_hosts
        )


def host_of(address: str) -> Host | None:
    """Return the server that a URL names; `None` if the URL is malformed or ambiguous.

    A user's name is read only where a database has users. A query, a fragment, a password and
    encoded characters are refused, because they can name another server.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    scheme = match["scheme"].lower()
    # `https://good.example@evil.example` looks like the first and calls the second.
    if match["user"] and scheme.startswith("http"):
        return None
    name = host_name(match["host"])
    if name is None:
        return None
    if match["port"]:
        port = int(match["port"])
    else:
        # The part behind + is a driver.
        port = _PORTS.get(scheme.partition("+")[0], 0)
    if port < 2**16:
        return Host(scheme, name, port)
    return None


def host_name(text: str) -> str | None:
    """Return a host's name in its only spelling; `None` for something else."""
    # The last dot of a full name changes nothing.
    bare = text.strip("[]").rstrip(".").lower()
    try:
        return str(ip_address(bare))
    except ValueError:
        pass
    try:
        # Letters of other alphabets can look like Latin ones; in this form they differ.
        name = bare.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    # Resolvers read such numbers as addresses, each in its own way.
    if not _NAME.fullmatch(name) or re.fullmatch(
        r"(0x[0-9a-f]*|\d+)", name.rpartition(".")[2]
    ):
        return None
    return name
