"""Run folders: a finished run as files, each complete or absent, and back again."""

from evalkit.runs.naming import unused
from evalkit.runs.read import Outcome, read_cases, read_config, read_facts, read_outcome, read_run
from evalkit.runs.write import write_files, write_manifest, write_run

__all__ = [
    "Outcome",
    "read_cases",
    "read_config",
    "read_facts",
    "read_outcome",
    "read_run",
    "unused",
    "write_files",
    "write_manifest",
    "write_run",
]
