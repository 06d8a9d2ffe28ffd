"""One module per format: `sniff` detects a file, `read` returns its records."""

from __future__ import annotations
