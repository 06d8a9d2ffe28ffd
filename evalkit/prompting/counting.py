"""How long a text is for a tokeniser, by its characters alone."""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_BYTE = 0.5
"""Of what a character beyond ASCII takes in UTF-8 beyond its first byte: so a Chinese one is one token."""
_MORE = round(CHARACTERS_PER_TOKEN * TOKENS_PER_BYTE)


def quarters(text: str) -> int:
    """Return about how many tokens a text has, in quarters of one: those of texts add up to those of all together."""
    if text.isascii():
        return len(text)
    plain = len(text.encode("ascii", "ignore"))
    return plain + _MORE * (len(text.encode("utf-8", "surrogatepass")) - len(text))
