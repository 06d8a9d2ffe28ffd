"""Run folders: write a finished run as files, each complete or absent, and read it back."""

from evalkit.runs.folders import (
    check_free,
    check_no_sweep,
    check_only_run,
    claim_finished,
    claim_run,
    claim_unused_run,
    remove_files,
    written_files,
)
from evalkit.runs.read import (
    Outcome,
    read_cases,
    read_config,
    read_details,
    read_facts,
    read_outcome,
    read_run,
)
from evalkit.runs.write import write_files, write_manifest, write_run

__all__ = [
    "Outcome",
    "check_free",
    "check_no_sweep",
    "check_only_run",
    "claim_finished",
    "claim_run",
    "claim_unused_run",
    "read_cases",
    "read_config",
    "read_details",
    "read_facts",
    "read_outcome",
    "read_run",
    "remove_files",
    "write_files",
    "write_manifest",
    "write_run",
    "written_files",
]
