"""Import judgments from other projects' file formats, and export to them.

Nothing here calls a judge.
"""

from __future__ import annotations

from evalkit.foreign_files.records import ImportedJudgments, Options
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import describe_file, formats, recognize_format

__all__ = [
    "ImportedJudgments",
    "Options",
    "describe_file",
    "formats",
    "import_judgments",
    "recognize_format",
]
