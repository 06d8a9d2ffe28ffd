"""evalkit: which LLM judge configuration to trust, and how far."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalkit.api import compare as compare
    from evalkit.api import run as run
    from evalkit.config import RunConfig as RunConfig
    from evalkit.hydra_app import load_config as load_config
    from evalkit.results import RunResult as RunResult
    from evalkit.serving import Judge as Judge
    from evalkit.serving import load_judge as load_judge
    from evalkit.sweeps import leaderboard as leaderboard
    from evalkit.tools import direct_score as direct_score
    from evalkit.tools import direct_score_sync as direct_score_sync
    from evalkit.tools import pairwise_compare as pairwise_compare
    from evalkit.tools import pairwise_compare_sync as pairwise_compare_sync

_HOMES = {
    "Judge": "evalkit.serving",
    "RunConfig": "evalkit.config",
    "RunResult": "evalkit.types",
    "compare": "evalkit.api",
    "direct_score": "evalkit.tools",
    "direct_score_sync": "evalkit.tools",
    "leaderboard": "evalkit.sweeps",
    "load_config": "evalkit.hydra_app",
    "load_judge": "evalkit.serving",
    "pairwise_compare": "evalkit.tools",
    "pairwise_compare_sync": "evalkit.tools",
    "run": "evalkit.api",
}

__all__ = [*_HOMES]

PUBLIC_MODULES = (
    "evalkit.types",
    "evalkit.protocols",
    "evalkit.errors",
    "evalkit.config",
    "evalkit.prompting",
    "evalkit.parsing",
    "evalkit.audit.probes",
    "evalkit.benchmarks",
    "evalkit.scoring.catalog",
    "evalkit.testing",
)
"""The modules that plug-ins may import, each with `__all__`. Everything else may change in any
release."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evalkit' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
