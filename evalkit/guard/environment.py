"""Which variables of the environment `${oc.env:NAME}` in a file may read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from evalkit.core.plugins import CONF, folders
from evalkit.core.redaction import names_secret
from evalkit.core.resources import shipped
from evalkit.guard.known_hosts import trust
from evalkit.guard.rules import rules

_READS = re.compile(r"oc\.env:\s*['\"]?(\w+)")


def may_read(name: str, words: Sequence[str] = ()) -> bool:
    """Return whether a config may read a variable.

    Args:
        name: The variable.
        words: The overrides of the command line, which may read any that is no secret.
    """
    # First, so that no list and no trust makes a secret readable.
    if names_secret(name):
        return False
    known_rules = rules()
    if name in known_rules.variables or (
        # A token of the cluster's scheduler, such as SLURM_JWT, is a credential.
        name.startswith(known_rules.prefixes) and "JWT" not in name
    ):
        return True
    # What the user reads on the command line, a file may read too.
    read_by_user = {variable for word in words for variable in _READS.findall(word)}
    return name in read_by_user or name in _installed() or name in trust().variables


@cache
def _installed() -> frozenset[str]:
    """Return the variables that shipped and installed options read."""
    return frozenset(
        name
        for folder in (shipped("conf"), *folders(CONF))
        for file in folder.rglob("*.yaml")
        for name in _READS.findall(file.read_text("utf-8"))
    )
