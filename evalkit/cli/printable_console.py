"""The console of tables and styled texts: a separate module, because rich takes long to import."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from evalkit.core.display import printable


class PrintableConsole(Console):
    """A console that styles texts, and shows control characters in them as `\ufffd`."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        safe = (
            part if part.control else Segment(printable(part.text), part.style)
            for part in buffer
        )
        return super()._render_buffer(safe)
