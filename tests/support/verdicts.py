"""Read a text as an output format does."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.config import OutputConfig
from evalkit.core.scale import Scale
from evalkit.core.types import Winner
from evalkit.evaluators.parsing import AnswerTask, Pattern, Reply, read_marks

_WINNERS: dict[float, Winner] = {1.0: "A", 0.0: "TIE", -1.0: "B"}


def read_verdict(text: str, output: OutputConfig, *, sources: Sequence[str] = ()) -> Winner:
    """Return the winner as shown."""
    return _WINNERS[float(_read(text, output, AnswerTask("winner"), sources))]


def read_rating(
    text: str, output: OutputConfig, scale: Scale, *, sources: Sequence[str] = ()
) -> float:
    """Return the score, in scale units."""
    return float(_read(text, output, AnswerTask("score", scale=scale), sources))


def _read(text: str, output: OutputConfig, task: AnswerTask, sources: Sequence[str]) -> float | str:
    reply = Reply(text, sources=sources)
    return (
        Pattern(output, task).read(reply)
        if output.format == "regex"
        else read_marks(reply, output, task)
    )
