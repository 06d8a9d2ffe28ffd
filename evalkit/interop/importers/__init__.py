"""One module per format: its `IMPORTER` detects a file and reads its records."""

from __future__ import annotations
