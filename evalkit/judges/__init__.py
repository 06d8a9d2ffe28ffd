"""Judges: models that are asked. Describing and making them imports nothing heavy; the first call does."""

from evalkit.judges.factory import describe_judges, make_arbiter, make_judges
from evalkit.judges.specs import max_concurrency, spec_of

__all__ = ["describe_judges", "make_arbiter", "make_judges", "max_concurrency", "spec_of"]
