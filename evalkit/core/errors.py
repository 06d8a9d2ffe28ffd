"""Define evalkit's exceptions and exit statuses.

EvalkitError
├── ConfigError            invalid configuration or data; a retry cannot help; exit status 1
│   ├── DatasetError       a data file or one of its rows
│   ├── PromptError        a template
│   ├── PluginError        an evaluator, judge or format that is looked up by name
│   └── JudgeSetupError    a key, model or endpoint that is rejected before any judging
│       └── AccessError    a key, an account or a model that ends a run, at any time
├── CallError              one failed call: retried, then a row, never shown as a traceback
├── StoreError             the answer store cannot be read or written; exit status 1
└── TrackingError          the run is complete on disk but could not be logged; exit status 3
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from typing import Literal, TypeAlias

__all__ = [
    "AccessError",
    "CallError",
    "ConfigError",
    "DatasetError",
    "EvalkitError",
    "ExitStatus",
    "JudgeSetupError",
    "PluginError",
    "PromptError",
    "Scope",
    "Signaled",
    "StoreError",
    "TrackingError",
    "did_you_mean",
    "pasted",
]

_LISTED = 24
_BARE = re.compile(r"[\w./:+-]+")


class ExitStatus(IntEnum):
    """Exit status of a command; a command ended by a signal exits with 128 + the signal number."""

    DONE = 0
    WRONG = 1
    TOO_MANY_FAILURES = 2
    NOT_TRACKED = 3
    GATE_FAILED = 4
    GATE_UNDECIDED = 5


class Signaled(KeyboardInterrupt):
    """Raised when a signal ends the command; `str()` gives one line for the user.

    Args:
        number: The signal number.
        text: The state of the work when it was interrupted.
    """

    def __init__(self, number: int, text: str = "interrupted") -> None:
        self.number = number
        super().__init__(text)


class EvalkitError(Exception):
    """Base class of every error that evalkit raises on purpose; `str()` gives one line
    for the user.
    """

    status = ExitStatus.WRONG


class ConfigError(EvalkitError):
    """Invalid configuration or data.

    Args:
        what: The problem, in one clause.
        where: The file, key or line, shown first; may be empty.
        remedy: How to fix it; may be empty.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        text = (
            (f"{where}: " if where else "") + what + (f"; {remedy}" if remedy else "")
        )
        super().__init__(" ".join(text.split()))


class DatasetError(ConfigError):
    """A data file, or a row of it, cannot be read as cases."""


class PromptError(ConfigError):
    """A template cannot be found, parsed or rendered."""


class PluginError(ConfigError):
    """A plug-in cannot be found by its name, or does not satisfy its protocol."""


class JudgeSetupError(ConfigError):
    """No call to the judge can succeed: the key, model name, parameter or endpoint is wrong."""


class AccessError(JudgeSetupError):
    """No later call of this run can succeed, whatever was answered before.

    The key is refused, the account has no budget left, the model or its address is gone, or the
    provider cannot be called for too long.

    Args:
        what: The problem, in one clause.
        where: The key, shown first; may be empty.
        remedy: How to fix it; may be empty.
        kind: The kind of the failed call, as in `CallError`.
    """

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", kind: str = "account"
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.kind = kind


Scope: TypeAlias = Literal[
    "request",
    "capability",
    "model",
    "address",
    "key",
    "account",
    "server",
    "outage",
    "loading",
]
"""What an error is about: this request, something that the endpoint cannot do, the model, the
address of the calls, the key, the account, the server for now, or a server that cannot be reached
or still loads its model."""


class CallError(EvalkitError):
    """One call to a judge failed.

    Args:
        kind: One of `timeout`, `rate_limit`, `connection`, `server`, `bad_request`, `too_long`,
            `auth`, `account`, `not_found`, `content_filter`, `truncated` and `bad_response`.
        message: The provider's message, on one line and without secrets.
        retryable: Whether the same call may succeed later.
        retry_after: Seconds that the provider asked to wait; `None` if it did not ask.
        scope: What the error is about.
        status: The HTTP status, kept as `http_status`; 0 if there was no response.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        scope: Scope = "request",
        status: int = 0,
    ) -> None:
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.scope = scope
        self.http_status = status
        super().__init__(f"{kind}: {message}")


class StoreError(EvalkitError):
    """The answer store cannot be read or written."""


class TrackingError(EvalkitError):
    """The run could not be logged; its run folder is complete."""

    status = ExitStatus.NOT_TRACKED


def pasted(key: str, value: str) -> str:
    """Return the override `key=value`, quoted so that it can be pasted into a shell.

    Hydra's quotes are inside the shell's quotes. Hydra reads backslashes before a quote in pairs.
    """
    if not _BARE.fullmatch(value):
        # `${` would be an interpolation.
        inner = re.sub(r'(\\*)"', r'\1\1\\"', value).replace("${", "\\${")
        trailing = len(inner) - len(inner.rstrip("\\"))
        value = f'"{inner}{chr(92) * trailing}"'
    return shlex.quote(f"{key}={value}")


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a remedy that names the closest of the `choices`; if none is close, all of
    them or the first 24.
    """
    options = sorted(set(choices))
    close = get_close_matches(word, options, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    count = f", … ({len(options)} in all)" if len(options) > _LISTED else ""
    if options:
        return f"choose from {', '.join(options[:_LISTED])}{count}"
    return ""
