"""Import paths of version 0.2 that still work: each imports the new module and warns.

`evalkit/__init__.py` installs this finder behind Python's own, so it costs nothing until an import
has failed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any, Final

NEW_PATHS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "evalkit.adapters": ("evalkit.serving.adapters",),
        "evalkit.api": ("evalkit.workflows.run",),
        "evalkit.batch": ("evalkit.engine.batch",),
        "evalkit.benchmark_discovery": ("evalkit.core.benchmark_discovery",),
        "evalkit.decision": ("evalkit.scoring.decision",),
        "evalkit.errors": ("evalkit.core.errors",),
        "evalkit.foreign_files": ("evalkit.interop.layouts",),
        "evalkit.gating": ("evalkit.workflows.gating",),
        "evalkit.holdout": ("evalkit.workflows.holdout",),
        "evalkit.hydra_app": ("evalkit.compose",),
        "evalkit.import_run": ("evalkit.workflows.import_run",),
        "evalkit.materials": ("evalkit.workflows.materials",),
        "evalkit.parsing": ("evalkit.evaluators.parsing",),
        "evalkit.plugins": ("evalkit.core.plugins",),
        "evalkit.prompting": ("evalkit.evaluators.prompting",),
        "evalkit.protocols": ("evalkit.core.protocols", "evalkit.runs.results"),
        "evalkit.pytest_plugin": ("evalkit.testing.pytest_plugin",),
        "evalkit.reproduction": ("evalkit.workflows.reproduction",),
        "evalkit.rescoring": ("evalkit.workflows.rescoring",),
        "evalkit.results": ("evalkit.runs.results",),
        "evalkit.sessions": ("evalkit.serving.sessions",),
        "evalkit.stopping": ("evalkit.workflows.stopping",),
        "evalkit.sweeps": ("evalkit.workflows.sweeps",),
        "evalkit.tools": ("evalkit.serving.tools",),
        "evalkit.types": ("evalkit.core.types", "evalkit.runs.results"),
        "evalkit.values": ("evalkit.core.values",),
        "evalkit.workers": ("evalkit.engine.workers",),
    }
)
"""Each old path, with the modules that have its names now. A module below it moved with it."""


class _Alias(Loader):
    """Loads an old path as a module that looks its names up in the new ones."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    def create_module(self, _spec: ModuleSpec) -> ModuleType | None:
        """Return `None`: Python makes an empty module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give a module the names of the new modules, and warn."""
        homes = [import_module(name) for name in self._modules]

        def find(name: str) -> Any:
            for home in homes:
                if hasattr(home, name):
                    return getattr(home, name)
            problem = f"module {module.__name__!r} has no attribute {name!r}"
            raise AttributeError(problem)

        module.__doc__ = homes[0].__doc__
        module.__dict__["__getattr__"] = find
        warnings.warn(
            f"{module.__name__} has moved: import {' or '.join(self._modules)}",
            DeprecationWarning,
            stacklevel=2,
        )


class OldPaths(MetaPathFinder):
    """Finds modules by the paths that they had in version 0.2."""

    def find_spec(
        self,
        fullname: str,
        _path: Sequence[str] | None = None,
        _target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how an old path is loaded; `None` for any other name."""
        modules = new_paths(fullname)
        if not modules:
            return None
        # Its submodules are found by their old path, too.
        return ModuleSpec(fullname, _Alias(modules), is_package=True)


def new_paths(name: str) -> tuple[str, ...]:
    """Return the modules that have the names of an old path; empty if it is not one."""
    old = name
    while old not in NEW_PATHS:
        old, _, _ = old.rpartition(".")
        if not old:
            return ()
    if old == name:
        return NEW_PATHS[old]
    parent = NEW_PATHS[old][0]
    return (parent + name[len(old) :],)


def install() -> None:
    """Let imports by old paths work from now on."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(OldPaths())
