"""evalkit: which LLM judge configuration to trust, and how far."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evalkit.old_paths import NEW_PATHS, install

if TYPE_CHECKING:
    from evalkit.compose import load_config as load_config
    from evalkit.config import RunConfig as RunConfig
    from evalkit.runs.results import RunResult as RunResult
    from evalkit.serving import Judge as Judge
    from evalkit.serving import load_judge as load_judge
    from evalkit.serving.tools import direct_score as direct_score
    from evalkit.serving.tools import direct_score_sync as direct_score_sync
    from evalkit.serving.tools import pairwise_compare as pairwise_compare
    from evalkit.serving.tools import pairwise_compare_sync as pairwise_compare_sync
    from evalkit.workflows.run import compare as compare
    from evalkit.workflows.run import run as run
    from evalkit.workflows.sweeps import leaderboard as leaderboard

_HOMES = {
    "Judge": "evalkit.serving",
    "RunConfig": "evalkit.config",
    "RunResult": "evalkit.runs.results",
    "compare": "evalkit.workflows.run",
    "direct_score": "evalkit.serving.tools",
    "direct_score_sync": "evalkit.serving.tools",
    "leaderboard": "evalkit.workflows.sweeps",
    "load_config": "evalkit.compose",
    "load_judge": "evalkit.serving",
    "pairwise_compare": "evalkit.serving.tools",
    "pairwise_compare_sync": "evalkit.serving.tools",
    "run": "evalkit.workflows.run",
}

__all__ = [*_HOMES]

PUBLIC_MODULES = (
    "evalkit.core.types",
    "evalkit.runs.results",
    "evalkit.core.protocols",
    "evalkit.core.errors",
    "evalkit.config",
    "evalkit.evaluators.prompting",
    "evalkit.evaluators.parsing",
    "evalkit.audit.probes",
    "evalkit.benchmarks",
    "evalkit.scoring.catalog",
    "evalkit.testing",
)
"""The modules that plug-ins may import, each with `__all__`. Everything else may change in any
release."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    old_path = f"evalkit.{name}"
    if old_path in NEW_PATHS:
        return import_module(old_path)
    if name not in _HOMES:
        raise AttributeError(f"module 'evalkit' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)


install()
