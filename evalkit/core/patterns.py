"""Regular expressions that are compiled when they are first used.

Where a module has many patterns, compiling them is most of the time of its import, and most
commands need few of them.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """Stands for a compiled pattern, and compiles it when one of its attributes is first read."""

    def __init__(self, text: str, flags: re.RegexFlag) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        # Later uses find the method here, and cost what those of the pattern itself cost.
        self.__dict__[name] = value
        return value


def lazy_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used.

    Functions of `re` do not take it: call its methods.
    """
    return cast(re.Pattern[str], _LazyPattern(text, flags))
