"""Measure the branch coverage of `evalkit.scoring` while its own tests run, as a part of the whole suite.

Only if EVALKIT_COVERAGE names a file: each process of the suite writes one next to it, and
`coverage combine` joins them. Tests of other folders are not measured, so they are not slower.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

VARIABLE = "EVALKIT_COVERAGE"
PACKAGE = "evalkit.scoring"


@cache
def _coverage() -> Any:
    """Return the measurement of this process; `None` if nothing is to be measured."""
    if not (file := os.environ.get(VARIABLE)):
        return None
    from coverage import Coverage

    # Without the configuration of the repository, which also measures processes that tests start.
    return Coverage(
        data_file=file, data_suffix=True, source=[PACKAGE], branch=True, config_file=False
    )


def import_measured() -> None:
    """Import the package under measurement, so that the lines of its modules count."""
    coverage = _coverage()
    if coverage is None:
        return
    early = [name for name in sys.modules if name.startswith(PACKAGE)]
    assert not early, f"imported before it is measured: {early}"
    coverage.start()
    package = import_module(PACKAGE)
    for module in walk_packages(package.__path__, f"{PACKAGE}."):
        import_module(module.name)
    coverage.stop()


@contextmanager
def measured() -> Iterator[None]:
    """Measure what runs in the block."""
    coverage = _coverage()
    if coverage is None:
        yield
        return
    coverage.start()
    try:
        yield
    finally:
        coverage.stop()


def save_measured() -> None:
    """Write what was measured in this process."""
    if (coverage := _coverage()) is not None:
        coverage.save()
