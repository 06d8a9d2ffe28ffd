"""Checks to call in the tests of plug-ins.

`check_evaluator(evaluator)`, `check_judge(config)`, `check_benchmark(name, path)`,
`check_store(backend, url)`, `check_probe(name)`.
"""

from __future__ import annotations

from evalkit.testing.evaluators import (
    CASES,
    ODD,
    check_evaluator,
    example_answer,
    faults,
)
from evalkit.testing.plugins import check_benchmark, check_judge, check_probe
from evalkit.testing.stores import check_store, store_faults

__all__ = [
    "CASES",
    "ODD",
    "check_benchmark",
    "check_evaluator",
    "check_judge",
    "check_probe",
    "check_store",
    "example_answer",
    "faults",
    "store_faults",
]
