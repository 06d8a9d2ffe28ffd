"""Why an answer cannot be used, in the judge's language: reasons are made in English and translated by a catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from evalkit.errors import PromptError

_PART = "; "


@dataclass(frozen=True, slots=True)
class Reasons:
    """A catalog of reasons: English regular expressions and their translations, where `{name}` is a group's text.

    `otherwise` is the reason given where the catalog does not know one, so that no message mixes two languages.
    """

    known: tuple[tuple[re.Pattern[str], str], ...]
    otherwise: str

    @classmethod
    def parse(cls, text: str, place: str) -> Reasons:
        """Read a catalog.

        Raises:
            PromptError: if it is not one.
        """
        try:
            found = yaml.safe_load(text)
            known = tuple((re.compile(pattern), str(said)) for pattern, said in found["reasons"].items())
            return cls(known, str(found["otherwise"]))
        except (yaml.YAMLError, re.error, TypeError, KeyError, AttributeError) as error:
            what = f"is not a catalog of reasons: {error}"
            raise PromptError(what, where=place, remedy="give 'reasons' (a mapping) and 'otherwise'") from None

    def translate(self, reason: str) -> str:
        """Return a reason, or several joined by semicolons, in the catalog's language."""
        whole = self._one(reason)
        if whole is not None:
            return whole
        parts = [self._one(part) for part in reason.split(_PART)]
        return "；".join(part for part in parts if part is not None) if None not in parts else self.otherwise

    def _one(self, reason: str) -> str | None:
        for pattern, said in self.known:
            if match := pattern.fullmatch(reason):
                return said.format_map(self._groups(match))
        return None

    def _groups(self, match: re.Match[str]) -> Mapping[str, str]:
        """Return a match's groups; the group `rest` is a reason itself."""
        groups = {name: text or "" for name, text in match.groupdict().items()}
        if "rest" in groups:
            groups["rest"] = self.translate(groups["rest"])
        return groups
