"""Keep the compiled templates of pages next to Python's compiled modules: compiling them takes as
long as filling them in for a small run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jinja2 import compiler
from jinja2.bccache import Bucket, BytecodeCache

from evalkit.core.prepared_files import read_prepared, write_prepared

_FOLDER: Final = Path(__file__).with_name("assets")


class PreparedTemplates(BytecodeCache):
    """The compiled templates of `assets/`, which change with Jinja and with the engine's settings.

    Args:
        engine: The module that makes the template engine.
    """

    def __init__(self, engine: Path) -> None:
        stamps = [path.stat() for path in (engine, Path(compiler.__file__))]
        self._made_by = repr([(stamp.st_mtime_ns, stamp.st_size) for stamp in stamps])

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give a bucket the compiled template, if it is there and of the same source."""
        prepared = read_prepared(_FOLDER / bucket.key, self._source(bucket))
        if prepared is not None:
            bucket.bytecode_from_string(prepared)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the compiled template of a bucket."""
        path = _FOLDER / bucket.key
        write_prepared(path, self._source(bucket), bucket.bytecode_to_string())

    def get_cache_key(self, name: str, _filename: str | None = None) -> str:
        """Return the name of a template, which is that of its file."""
        return name

    def _source(self, bucket: Bucket) -> bytes:
        """Return what a compiled template depends on."""
        return f"{bucket.checksum} {self._made_by}".encode()
