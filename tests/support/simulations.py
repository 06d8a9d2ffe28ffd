"""The simulated judges of benchmarks/coverage.py."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


@cache
def simulations() -> Any:
    """Return the module."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage.py"
    spec = spec_from_file_location("coverage_simulations", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
