"""Checks to call in the tests of plug-ins.

`check_evaluator(evaluator)`, `check_judge(config)`, `check_benchmark(name, path)`,
`check_store(backend, url)`, `check_probe(name)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalkit.testing.evaluators import CASES as CASES
    from evalkit.testing.evaluators import ODD as ODD
    from evalkit.testing.evaluators import check_evaluator as check_evaluator
    from evalkit.testing.evaluators import example_answer as example_answer
    from evalkit.testing.evaluators import faults as faults
    from evalkit.testing.plugins import check_benchmark as check_benchmark
    from evalkit.testing.plugins import check_judge as check_judge
    from evalkit.testing.plugins import check_probe as check_probe
    from evalkit.testing.stores import check_store as check_store
    from evalkit.testing.stores import store_faults as store_faults

_MODULES = {
    "CASES": "evaluators",
    "ODD": "evaluators",
    "check_benchmark": "plugins",
    "check_evaluator": "evaluators",
    "check_judge": "plugins",
    "check_probe": "plugins",
    "check_store": "stores",
    "example_answer": "evaluators",
    "faults": "evaluators",
    "store_faults": "stores",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """Import a check when it is first used.

    pytest imports this package for its plug-in in every session, also where evalkit is not used.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"evalkit.testing.{_MODULES[name]}"), name)
