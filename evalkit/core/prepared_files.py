"""Keep what is parsed from evalkit's own files next to Python's compiled modules.

Parsing tables and templates in Python takes a twelfth of a small check, always with the same
result. As with compiled modules, a folder that cannot be written and PYTHONDONTWRITEBYTECODE only
mean that a file is parsed again.
"""

from __future__ import annotations

import marshal
import os
import sys
from contextlib import suppress
from hashlib import blake2b
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from evalkit.core.values import JsonObject

_DIGEST: Final = 16
"""The bytes of a digest."""


def read_table(path: Path) -> JsonObject:
    """Return the content of a TOML file of evalkit's own; it must have no dates."""
    content = path.read_bytes()
    prepared = read_prepared(path, content)
    if prepared is not None:
        with suppress(ValueError, EOFError, TypeError):
            table: JsonObject = marshal.loads(prepared)
            return table
    import tomllib

    parsed = tomllib.loads(content.decode("utf-8"))
    write_prepared(path, content, marshal.dumps(parsed))
    return parsed


def read_prepared(path: Path, source: bytes) -> bytes | None:
    """Return what was kept for a file with this content; `None` if there is nothing.

    Args:
        path: The file.
        source: Its content, and whatever else the prepared bytes depend on.
    """
    try:
        stored = _location(path).read_bytes()
    except (OSError, NotImplementedError):
        return None
    digests = stored[: 2 * _DIGEST]
    prepared = stored[2 * _DIGEST :]
    # The second digest finds a file that was cut or damaged.
    if digests != _digest(source) + _digest(prepared):
        return None
    return prepared


def write_prepared(path: Path, source: bytes, prepared: bytes) -> None:
    """Keep prepared bytes for a file with this content, if Python may keep compiled modules."""
    if sys.dont_write_bytecode:
        return
    with suppress(OSError, NotImplementedError):
        location = _location(path)
        # Other processes read the old file or the new one, and nothing in between.
        temporary = location.with_name(f"{location.name}.{os.getpid()}")
        # With PYTHONPYCACHEPREFIX none of its folders may be there yet.
        location.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(_digest(source) + _digest(prepared) + prepared)
        temporary.replace(location)


def _location(path: Path) -> Path:
    # The file's own suffix stays in the name: a module may have the same stem.
    return Path(cache_from_source(f"{path}.py"))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()
