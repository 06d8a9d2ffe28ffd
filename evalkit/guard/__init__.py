"""The policy for configs from elsewhere: what they may name, and what the user trusts."""

from evalkit.guard.environment import may_read
from evalkit.guard.known_hosts import (
    FLAG,
    VARIABLE,
    keep,
    read_entries,
    trusted_words,
    trusting,
)
from evalkit.guard.policy import (
    Origin,
    UntrustedError,
    check,
    check_read,
    enter_project,
    from_judge_folder,
    origin_of,
)

__all__ = [
    "FLAG",
    "VARIABLE",
    "Origin",
    "UntrustedError",
    "check",
    "check_read",
    "enter_project",
    "from_judge_folder",
    "keep",
    "may_read",
    "origin_of",
    "read_entries",
    "trusted_words",
    "trusting",
]
