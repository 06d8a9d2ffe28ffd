"""SECURITY.md says what the types of the fields say."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_of_security_are_those_of_the_types():
    # After a change: python docs/generate_security.py
    page = (ROOT / "SECURITY.md").read_text("utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "generate_security.py"))["text"](page) == page
