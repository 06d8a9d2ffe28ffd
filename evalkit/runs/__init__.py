"""Run folders: a finished run as files, each complete or absent, and back again."""

from evalkit.runs.naming import unused
from evalkit.runs.read import read_run
from evalkit.runs.write import write_manifest, write_run

__all__ = ["read_run", "unused", "write_manifest", "write_run"]
