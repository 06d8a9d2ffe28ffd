"""Printing for people: what comes from data or config is never taken for markup."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

WIDE = 1000
"""Wide enough for any table: cut or folded numbers cannot be read."""


def plain_console() -> Console:
    """Return standard output, on which brackets are brackets and lines are as long as they are."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=WIDE)


def headed(heading: str, rest: str = "") -> Text:
    """Return a line that begins with a heading, after an empty one."""
    return Text.assemble("\n", (heading, "bold"), rest)
