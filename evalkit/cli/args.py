"""A command's words apart: options with a value, and the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from evalkit.errors import ConfigError, did_you_mean


def pop_options(
    command: str, words: Sequence[str], options: Collection[str], usage: str
) -> tuple[dict[str, str], list[str]]:
    """Return the options, each with its value (`--to csv` or `--to=csv`), and the words that are none.

    Raises:
        ConfigError: if an option is unknown or has no value.
    """
    values: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        key, equals, value = word.partition("=")
        if not word.startswith("-"):
            rest.append(word)
            continue
        if key not in options:
            remedy = did_you_mean(key, options)
            raise ConfigError("no such option", where=f"evalkit {command} {key}", remedy=remedy)
        values[key] = value if equals else next(left, "")
        if not values[key]:
            raise ConfigError("needs a value", where=key, remedy=usage)
    return values, rest
