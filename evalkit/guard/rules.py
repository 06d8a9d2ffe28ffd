"""The lists of what a config from elsewhere may name, from `rules.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evalkit.core.prepared_files import read_table
from evalkit.core.values import frozen

# LiteLLM replaces such texts by the value of a variable, or by a token that it fetches.
_REFERENCE = re.compile(r"\s*(os\.environ/|oidc/|aws_secret_manager/)", re.IGNORECASE)
_DEEPEST = 20


@frozen
class Rules:
    """Good values, by what they are for."""

    schemes: Mapping[str, frozenset[str]]
    variables: frozenset[str]
    prefixes: tuple[str, ...]
    hosts: Mapping[str, frozenset[str]]
    loopback_providers: frozenset[str]
    loopback_transports: frozenset[str]
    plain: frozenset[str]
    structured: frozenset[str]
    nested: frozenset[str]
    patterns: Mapping[str, re.Pattern[str]]


@cache
def rules() -> Rules:
    """Return the shipped lists."""
    content = read_table(Path(__file__).with_name("rules.toml"))
    params = content["params"]
    return Rules(
        schemes={
            name: frozenset(values) for name, values in content["schemes"].items()
        },
        variables=frozenset(content["variables"]["names"]),
        prefixes=tuple(content["variables"]["prefixes"]),
        hosts={name: frozenset(values) for name, values in content["hosts"].items()},
        loopback_providers=frozenset(content["loopback"]["providers"]),
        loopback_transports=frozenset(content["loopback"]["transports"]),
        plain=frozenset(params["plain"]),
        structured=frozenset(params["structured"]),
        nested=frozenset(params["nested"]),
        patterns={name: re.compile(form) for name, form in params["patterns"].items()},
    )


def risky_params(
    params: Mapping[str, Any], depth: int = 0
) -> Iterator[tuple[str, ...]]:
    """Yield the paths of parameters of a request that may name a server, a file or a credential."""
    known_rules = rules()
    for name, value in params.items():
        # Parameters inside others, such as `extra_body`, follow the same rules; deeper ones are
        # refused.
        if name in known_rules.nested and isinstance(value, Mapping) and depth < 2:
            for path in risky_params(value, depth + 1):
                yield (name, *path)
            continue
        pattern = known_rules.patterns.get(name)
        # From the strictest rule to the loosest; a name on no list is refused.
        if pattern is not None:
            harmless = isinstance(value, str) and pattern.fullmatch(value) is not None
        elif name in known_rules.structured:
            harmless = is_plain(value, mappings=True)
        else:
            harmless = name in known_rules.plain and is_plain(value)
        if not harmless and value is not None:
            yield (name,)


def is_plain(value: Any, *, mappings: bool = False, depth: int = 0) -> bool:
    """Return whether a value is a number, a switch, a text that is no reference, or their list.

    Args:
        value: The value.
        mappings: Whether mappings of such values are plain, too.
        depth: The depth of the value in another one.
    """
    # A limit, so that a value nested without end cannot exhaust the stack.
    if depth > _DEEPEST:
        return False
    if isinstance(value, str):
        # No address anywhere in it, and nothing that LiteLLM would replace.
        return "://" not in value and not _REFERENCE.match(value)
    if isinstance(value, list | tuple):
        return all(is_plain(part, mappings=mappings, depth=depth + 1) for part in value)
    if isinstance(value, Mapping):
        return mappings and all(
            is_plain(key) and is_plain(part, mappings=True, depth=depth + 1)
            for key, part in value.items()
        )
    return value is None or isinstance(value, bool | int | float)
