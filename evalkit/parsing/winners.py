"""One spelling of a winner, read as A, B or TIE."""

from __future__ import annotations

import re
from types import MappingProxyType

from evalkit.parsing.thinking import half_width
from evalkit.parsing.unreadable import UnreadableError
from evalkit.types import Winner

_TIES = ("TIE", "TIED", "DRAW", "EQUAL", "平局", "平手", "打平", "持平")
_SPELLINGS = MappingProxyType({"A": "A", "B": "B"} | dict.fromkeys(_TIES, "TIE"))
_TITLE = re.compile(
    r"\A(?:(?:THE )?(?:RESPONSE|ASSISTANT|ANSWER|OUTPUT)[ _]?|响应|回答|回复|答案)\(?(?P<letter>[AB])\)?\Z"
)


def read_winner(text: str) -> Winner:
    """Return the winner that a text spells and nothing else, such as `A`, `tie`, `Response B` or `平局`.

    Raises:
        UnreadableError: if it spells none.
    """
    spelt = half_width(text).strip().strip("\"'`*.。").strip().upper()
    titled = _TITLE.match(spelt)
    winner = _SPELLINGS.get(titled["letter"].strip() if titled else spelt)
    if winner is None:
        raise UnreadableError("invalid", f"'{text.strip()[:60]}' is not a winner: write A, B or TIE")
    return "A" if winner == "A" else "B" if winner == "B" else "TIE"
