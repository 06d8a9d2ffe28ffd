"""Judges: the models that judge. Heavy packages are imported by the first call, not by this package."""

from evalkit.judges.factory import describe_judges, describe_rewriter, make_arbiter, make_judges
from evalkit.judges.specs import max_concurrency, spec_of

__all__ = ["describe_judges", "describe_rewriter", "make_arbiter", "make_judges", "max_concurrency", "spec_of"]
