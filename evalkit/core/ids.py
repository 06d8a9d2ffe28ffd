"""Ids are texts: they are compared as written, never as floating-point numbers."""

from __future__ import annotations

import re
from typing import Any, Final

_WHOLE: Final = re.compile(r"(-?(?:0|[1-9]\d*))\.0+")


def id_text(value: Any) -> str:
    """Return the text by which an id is compared.

    A number 1 or 1.0 and the texts `1` and `1.0` are one id: frames and spreadsheets write integers
    with a decimal point. Any other text is the id as written, so `01`, `1e0` and ` 1` are others.
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = value if isinstance(value, str) else str(value)
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return text
    return whole[1]
