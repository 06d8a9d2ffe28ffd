"""Judges: the models that judge.

Heavy packages are imported by the first call, not by this package.
"""

from evalkit.judges.factory import (
    check_judges,
    describe_judges,
    describe_rewriter,
    make_arbiter,
    make_judges,
    spec_of,
)
from evalkit.judges.model_judge import max_concurrency

__all__ = [
    "check_judges",
    "describe_judges",
    "describe_rewriter",
    "make_arbiter",
    "make_judges",
    "max_concurrency",
    "spec_of",
]
