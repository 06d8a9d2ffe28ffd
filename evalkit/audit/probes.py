"""Probes: deterministic edits of a case, each with the answer that is right after it.

A probe is one value, `Probe`. evalkit's own are in the table of the module `edits`; a package registers more as entry
points in the group `evalkit.probes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from evalkit.config import RunConfig
from evalkit.core.hashing import text_digest
from evalkit.core.translation import Message, gettext
from evalkit.errors import ConfigError, PluginError, did_you_mean
from evalkit.plugins import PROBES, entry_points_in, load_only
from evalkit.types import Case, Response
from evalkit.values import Json, frozen

__all__ = [
    "Place",
    "Probe",
    "all_probes",
    "edit_text",
    "find_probe",
    "language_of",
    "own_probes",
    "replace_copy",
    "same_case",
    "side_of",
    "with_text",
]

Expectation: TypeAlias = Literal["same", "loses", "fails", "tie"]
RIGHT: Final[Mapping[Expectation, Message]] = MappingProxyType(
    {
        "same": gettext("nothing may change"),
        "loses": gettext("the edited response must lose, or score lower than the original"),
        "fails": gettext("the planted response must lose, or score at most the middle of the scale"),
        "tie": gettext("the verdict must be a tie"),
    }
)
"""The right answer after an edit, by what a probe expects."""
REPEAT: Final = "repeat"
PARAPHRASE: Final = "paraphrase"
"""The probe whose texts a model writes: that of `probe.rewriter`."""
PAIRS: Final = ("pairwise", "listwise")
SINGLE: Final = ("pointwise", "checklist")
"""The modes that judge one response at a time."""
ALL: Final = (*PAIRS, *SINGLE)
_CHINESE = re.compile("[\u3400-\u9fff]")


@frozen
class Place:
    """Where and how a probe is to edit a case.

    Attributes:
        side: The index of the response to edit.
        language: `en` or `zh`: the language of the texts to insert.
        config: The run's config.
        settings: The probe's settings, from `probe.probes.NAME`.
        paraphrase: The rewriter's paraphrase of the response; `None` if there is none.
    """

    side: int
    language: str
    config: RunConfig
    settings: Json = field(default_factory=dict)
    paraphrase: str | None = None


Edit: TypeAlias = Callable[[Case, Place], Case | None]


@frozen
class Probe:
    """A deterministic edit of a case, with the answer that is right after it.

    Attributes:
        name: The name in `probe=NAME`, and in the names of metrics.
        expects: `same`: nothing may change. `loses`: the edited response must lose a pair, or score lower than before.
            `fails`: it must lose a pair, or score at most the middle of the scale. `tie`: a pair must be a tie.
        what: What the edit does, in one sentence.
        assumes: What must be true for the expected answer to be right, in one sentence.
        edit: Returns the edited case, or `None` if the case cannot be edited.
        modes: The modes that the probe makes sense for.
        directed: Whether a verdict can shift toward the edited response; else only the size of a change counts.
        worse: Whether to edit the worse response if labels tell; else the better one.
        reword: Returns another config, for a probe that edits the prompt and not the case.
        relabel: The names of the first and second response in the prompt, for a probe that changes them.
    """

    name: str
    expects: Expectation
    what: Message
    assumes: Message
    edit: Edit
    modes: tuple[str, ...] = ALL
    directed: bool = True
    worse: bool = True
    reword: Callable[[RunConfig], RunConfig] | None = None
    relabel: tuple[str, str] | None = None


def same_case(case: Case, _: Place) -> Case:
    """Return the case as it is."""
    return case


def edit_text(change: Callable[[str, Case, Place], str | None]) -> Edit:
    """Return an edit that changes the text of one response."""

    def edit(case: Case, place: Place) -> Case | None:
        old = case.responses[place.side]
        text = change(old.text, case, place)
        return None if text is None or text == old.text else with_text(case, place.side, text)

    return edit


def replace_copy(change: Callable[[str, Case, Place], str | None]) -> Edit:
    """Return an edit that puts a changed copy of one response next to the original, or in its place if it is alone."""

    def edit(case: Case, place: Place) -> Case | None:
        original = case.responses[1 - place.side if len(case.responses) > 1 else 0]
        text = change(original.text, case, place)
        return None if text is None or text == original.text else with_text(case, place.side, text)

    return edit


def with_text(case: Case, side: int, text: str) -> Case:
    """Return a case with another text of one response."""
    responses = (*case.responses[:side], Response(text), *case.responses[side + 1 :])
    return replace(case, responses=responses)


def side_of(case: Case, *, worse: bool) -> int:
    """Return the index, 0 or 1, of the worse or better response; one by the hash of the case's id if labels differ not.

    It does not depend on any judgment, so that a judge's noise cannot select cases.
    """
    if len(case.responses) < 2:
        return 0
    one, two = (response.grade for response in case.responses[:2])
    if one is not None and two is not None and one != two:
        return int((two < one) == worse)
    if case.label in ("A", "B"):
        return int((case.label == "A") == worse)
    return int(text_digest(case.id)[:8], 16) % 2


def language_of(text: str) -> str:
    """Return `zh` if a text has Chinese characters, else `en`."""
    return "zh" if _CHINESE.search(text) else "en"


def own_probes() -> dict[str, Probe]:
    """Return evalkit's probes by name."""
    return {probe.name: probe for probe in import_module("evalkit.audit.edits").PROBES}


def all_probes() -> dict[str, Probe]:
    """Return evalkit's probes and those of other packages, by name."""
    return own_probes() | {point.name: find_probe(point.name) for point in entry_points_in(PROBES)}


def find_probe(name: str) -> Probe:
    """Return the probe with a name: one of evalkit's, or one of another package.

    Raises:
        ConfigError: If there is no such probe.
        PluginError: If it cannot be imported, or is not a probe with that name.
    """
    where = f"probe.probes.{name}"
    if (own := own_probes().get(name)) is not None:
        return own
    found = load_only(PROBES, name, where)
    if found is None:
        known = {*own_probes(), *(point.name for point in entry_points_in(PROBES))}
        raise ConfigError("there is no such probe", where=where, remedy=did_you_mean(name, known))
    if not isinstance(found, Probe) or found.name != name:
        what = f"the entry point '{name}' is not a probe with that name"
        raise PluginError(what, where=where, remedy=f"point it to an evalkit.audit.probes.Probe('{name}', …)")
    return found
