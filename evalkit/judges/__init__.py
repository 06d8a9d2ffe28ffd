"""Judges: models that are asked. Describing and making them imports nothing heavy; the first call does."""

from evalkit.judges.making import judges_told, make_arbiter, make_judges
from evalkit.judges.specs import at_once, spec_of

__all__ = ["at_once", "judges_told", "make_arbiter", "make_judges", "spec_of"]
