"""An output format: the verdict follows an arrow, as in `-> A`, `-> tie`, `-> 4` or `-> pass`."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.config import OutputConfig

WORDS = {
    "en": (
        "End with an arrow and the winner: {0} A, {0} B{1}.",
        " or {} TIE",
        "End with an arrow and the score: {0} 4.",
    ),
    "fr": (
        "Termine par une flèche et le gagnant : {0} A, {0} B{1}.",
        " ou {} TIE",
        "Termine par une flèche et la note.",
    ),
}


class Arrow:
    """Ask for the answer after an arrow, and read it there."""

    def __init__(self, config: OutputConfig) -> None:
        self._arrow = config.pattern or "->"

    def instruction(
        self, decision: str, language: str, tie_allowed: bool, classes: Sequence[str] | None
    ) -> str:
        """Return what the judge is told about its answer."""
        if classes:
            return f"End with an arrow and one of: {', '.join(f'{self._arrow} {name}' for name in classes)}."
        winner, tie, score = WORDS.get(language, WORDS["en"])
        return (score if decision == "score" else winner).format(
            self._arrow, tie.format(self._arrow) * tie_allowed
        )

    def winner(self, text: str) -> str:
        """Return the winner as written; evalkit knows its spellings."""
        return self._last(text)

    def score(self, text: str) -> str:
        """Return the score as written; evalkit checks that it is on the scale."""
        return self._last(text)

    def class_name(self, text: str) -> str:
        """Return the class as written; evalkit checks that it is one."""
        return self._last(text)

    def _last(self, text: str) -> str:
        _, arrow, after = text.rpartition(self._arrow)
        if not arrow:
            raise ValueError(f"there is no '{self._arrow}'")
        return after.strip()
