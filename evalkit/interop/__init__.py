"""Judgments made elsewhere as cases and judgments, and back: files in other projects' layouts. Nothing here judges."""

from __future__ import annotations

from evalkit.interop.import_file import FORMATS, describe_file, import_judgments, recognize_format
from evalkit.interop.records import ImportedJudgments, Options

__all__ = ["FORMATS", "ImportedJudgments", "Options", "describe_file", "import_judgments", "recognize_format"]
