"""Judgments made elsewhere as cases and judgments, and back: files in other projects' layouts. Nothing here judges."""

from evalkit.exchange.bringing import bring
from evalkit.exchange.formats import FORMATS, judged, recognise
from evalkit.exchange.records import Brought, Options

__all__ = ["FORMATS", "Brought", "Options", "bring", "judged", "recognise"]
