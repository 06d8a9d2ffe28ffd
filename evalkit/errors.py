"""What can go wrong, in one tree.

EvalkitError
├── ConfigError            described wrongly: no retry mends it, exit status 1
│   ├── DatasetError       a data file or a row of it
│   ├── PromptError        a template
│   ├── PluginError        an evaluator, judge or format looked up by name
│   └── JudgeSetupError    key, model or endpoint refused before anything was judged
├── CallError              one call went wrong: retried, then kept as a row, never raised to the user
├── StoreError             the file of completions cannot be read or written, exit status 1
└── TrackingError          the run is complete on disk but could not be logged, exit status 3
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum

_BARE = re.compile(r"[\w./:+-]+")


class ExitStatus(IntEnum):
    """Exit status of every command; one that a signal ends has 128 + the signal's number."""

    DONE = 0
    WRONG = 1
    TOO_MANY_FAILURES = 2
    NOT_TRACKED = 3
    GATE_FAILED = 4


class Signaled(KeyboardInterrupt):
    """A signal ends the command; `str()` of it is one line for the user.

    Args:
        number: of the signal.
        text: what became of the work.
    """

    def __init__(self, number: int, text: str = "interrupted") -> None:
        self.number = number
        super().__init__(text)


class EvalkitError(Exception):
    """Base of every error that evalkit raises on purpose; `str()` of it is one line for the user."""

    status = ExitStatus.WRONG


class ConfigError(EvalkitError):
    """Something was described wrongly: say what, where (file, key, line), and what to do.

    Args:
        what: what is wrong, in one clause.
        where: the file, key or line, shown first; may be empty.
        remedy: what to do about it; may be empty.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        text = (f"{where}: " if where else "") + what + (f"; {remedy}" if remedy else "")
        super().__init__(" ".join(text.split()))


class DatasetError(ConfigError):
    """A data file, or a row of it, cannot be read as cases."""


class PromptError(ConfigError):
    """A template cannot be found, parsed or filled."""


class PluginError(ConfigError):
    """Something looked up by name is not there, or is not what it must be."""


class JudgeSetupError(ConfigError):
    """The judge cannot be called at all: key, model name, parameter or endpoint."""


class CallError(EvalkitError):
    """One call to a judge failed.

    Args:
        kind: `timeout`, `rate_limit`, `connection`, `server`, `bad_request`, `context_length`, `auth`, `not_found`,
            `content_filter` or `bad_response`.
        message: the provider's words, in one line and without secrets.
        retryable: whether the same call may succeed later.
        retry_after: seconds the provider asked to wait, if it did.
    """

    def __init__(self, kind: str, message: str, *, retryable: bool, retry_after: float | None = None) -> None:
        self.kind, self.message, self.retryable, self.retry_after = kind, message, retryable, retry_after
        super().__init__(f"{kind}: {message}")


class StoreError(EvalkitError):
    """The store of completions cannot be used."""


class TrackingError(EvalkitError):
    """The run could not be logged; its folder is complete."""

    status = ExitStatus.NOT_TRACKED


def pasted(key: str, value: str) -> str:
    """Return the override `key=value` in a form that works when pasted into a shell.

    The shell's quotes are outside, Hydra's inside; Hydra reads backslashes before a quote in pairs.
    """
    if not _BARE.fullmatch(value):
        inner = re.sub(r'(\\*)"', r'\1\1\\"', value).replace("${", "\\${")
        trailing = len(inner) - len(inner.rstrip("\\"))
        value = f'"{inner}{chr(92) * trailing}"'
    return shlex.quote(f"{key}={value}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a remedy naming the closest of `known` words, or all of them when none is close."""
    options = sorted(set(known))
    close = get_close_matches(word, options, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "choose from " + ", ".join(options) if options else ""
