"""`--trust HOST`, and the question of a terminal: what the user trusts is kept for
later commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from evalkit.cli.console import log, log_style
from evalkit.guard.known_hosts import FLAG, Entry, Trust, keep, kept, read_entries
from evalkit.guard.policy import UntrustedError

T = TypeVar("T")
_MOST_QUESTIONS = 10


def or_ask(command: Callable[[T], int], arguments: T) -> int:
    """Run a command; in a terminal, ask whether a server that it needs is trusted, and
    run it again.

    Raises:
        UntrustedError: If a server is not trusted.
    """
    for _ in range(_MOST_QUESTIONS):
        try:
            return command(arguments)
        except UntrustedError as error:
            if log_style() or not _ask(error):
                raise
            names = frozenset(error.names)
            path = keep(Trust([Entry(error.host.name, error.host.port or None, names)]))
            log("note", f"{error.host} is trusted from now on (kept in {path})")
    return command(arguments)


def _ask(error: UntrustedError) -> bool:
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    log("note", f"{error.where}: {error.what}")
    question = f"Trust {error.host}, now and later? It may get {', '.join(error.names)}. [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def keep_unused(words: Sequence[str]) -> None:
    """Keep what `--trust` names and no config needed, so that later commands know it.

    Raises:
        ConfigError: If it cannot be kept.
    """
    if not words:
        return
    kept_trust = kept()
    new_trust = read_entries(words, FLAG)
    hosts = [
        entry
        for entry in new_trust.hosts
        if not any(
            kept_host.key == entry.key and kept_host.names is not None
            for kept_host in kept_trust.hosts
        )
    ]
    missing = new_trust.variables - kept_trust.variables
    if hosts or missing:
        keep(Trust(hosts, missing))
