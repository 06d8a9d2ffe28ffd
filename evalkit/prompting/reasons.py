"""Translate the reasons why an answer cannot be used into the judge's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from evalkit.errors import PromptError

_PART = "; "


@dataclass(frozen=True, slots=True)
class Reasons:
    """A catalog of reasons: English regular expressions and translations in which `{name}` is a group's text.

    `otherwise` replaces a reason that the catalog does not contain, so that no message mixes two languages.
    """

    known: tuple[tuple[re.Pattern[str], str], ...]
    otherwise: str

    @classmethod
    def parse(cls, text: str, place: str) -> Reasons:
        """Read a catalog.

        Raises:
            PromptError: If the text is not a catalog.
        """
        try:
            found = yaml.safe_load(text)
            known = tuple((re.compile(pattern), str(translation)) for pattern, translation in found["reasons"].items())
            return cls(known, str(found["otherwise"]))
        except (yaml.YAMLError, re.error, TypeError, KeyError, AttributeError) as error:
            what = f"not a catalog of reasons: {error}"
            raise PromptError(what, where=place, remedy="set 'reasons' (a mapping) and 'otherwise'") from None

    def translate(self, reason: str) -> str:
        """Return a reason, or several joined by semicolons, in the catalog's language."""
        whole = self._one(reason)
        if whole is not None:
            return whole
        parts = [self._one(part) for part in reason.split(_PART)]
        return "；".join(part for part in parts if part is not None) if None not in parts else self.otherwise

    def _one(self, reason: str) -> str | None:
        for pattern, translation in self.known:
            if match := pattern.fullmatch(reason):
                return translation.format_map(self._groups(match))
        return None

    def _groups(self, match: re.Match[str]) -> Mapping[str, str]:
        """Return the groups of a match; the group `rest` is itself a reason, so translate it."""
        groups = {name: text or "" for name, text in match.groupdict().items()}
        if "rest" in groups:
            groups["rest"] = self.translate(groups["rest"])
        return groups
