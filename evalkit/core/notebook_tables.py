"""Values that notebooks show as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

__all__ = ["Shown"]


class Shown:
    """A value that a notebook shows as a table of the report.

    Attributes:
        renderer: returns a value as HTML. The report sets it when it is imported; without it,
            notebooks show the text of the value.
    """

    __slots__ = ()

    renderer: ClassVar[Callable[[Any], str] | None] = None

    def _repr_html_(self) -> str | None:
        if Shown.renderer is None:
            return None
        return Shown.renderer(self)
