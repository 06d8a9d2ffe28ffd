"""`evalkit plugins` and `evalkit tools`: list what other packages add, and print the schemas of agent tools."""

from __future__ import annotations

import json
import os
from argparse import Namespace

from evalkit.plugins import GROUPS, VARIABLE, Offer, iter_offers


def plugins(_: Namespace) -> int:
    """Print every plug-in of other packages; return 1 if one cannot be used."""
    found = list(iter_offers())
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        print(f"{VARIABLE}={chosen}: only the plug-ins listed there are used")
    if not found:
        print(f"no other package adds any of: {', '.join(GROUPS.values())}")
        return 0
    rows = [("what", "name", "package", "from"), *map(_row, found)]
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]]))
    return 1 if any(one.problem for one in found) else 0


def _row(one: Offer) -> tuple[str, str, str, str]:
    place = f"wrong: {one.problem}" if one.problem else f"{one.value} ({one.place})" if one.place else one.value
    return GROUPS[one.group], one.name, one.package, place


def tools(arguments: Namespace) -> int:
    """Print the schemas of both tools as JSON."""
    from evalkit.tools.models import tool_schemas

    print(json.dumps(tool_schemas(arguments.format), indent=2, ensure_ascii=False))
    return 0
