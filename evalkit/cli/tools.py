"""`evalkit tools`: the schemas of the two tools, for model providers and MCP."""

from __future__ import annotations

import json
from collections.abc import Sequence

from evalkit.cli.args import pop_options
from evalkit.cli.usage import USAGE
from evalkit.errors import ConfigError


def main(words: Sequence[str]) -> int:
    """Print the schemas of both tools as JSON.

    Raises:
        ConfigError: if the words name no format.
    """
    values, rest = pop_options("tools", words, ("--format",), USAGE["tools"])
    if rest:
        raise ConfigError("takes only --format", where=f"evalkit tools {rest[0]}", remedy=USAGE["tools"])
    from evalkit.tools.schemas import tool_schemas

    print(json.dumps(tool_schemas(values.get("--format", "json-schema")), indent=2, ensure_ascii=False))
    return 0
