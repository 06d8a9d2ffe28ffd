"""An output format: the verdict stands after an arrow, as in `-> A`, `-> tie` or `-> 4`."""

from __future__ import annotations

from evalkit.config import OutputConfig


class Arrow:
    """Read what stands after the last arrow."""

    def __init__(self, config: OutputConfig) -> None:
        self._arrow = config.pattern or "->"

    def winner(self, text: str) -> str:
        """Return the winner as written; evalkit knows its spellings."""
        return self._last(text)

    def score(self, text: str) -> str:
        """Return the score as written; evalkit checks that it is on the scale."""
        return self._last(text)

    def _last(self, text: str) -> str:
        _, arrow, after = text.rpartition(self._arrow)
        if not arrow:
            raise ValueError(f"there is no '{self._arrow}'")
        return after.strip()
