"""How many words an edit adds to a text, and whether length alone explains what a judge
falls for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

import numpy as np

from evalkit.audit.metrics import Outcome, p_value
from evalkit.audit.plan import unit_of
from evalkit.audit.probes import SINGLE, Probe
from evalkit.config import RunConfig
from evalkit.core.translation import Text, gettext, ngettext
from evalkit.core.types import Case
from evalkit.scoring.decision import Decision
from evalkit.scoring.stats.clusters import Clusters

NEUTRAL: Final = "distractor"
"""The probe that adds a neutral sentence."""


_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")


def words_added(
    config: RunConfig,
    cases: Sequence[Case],
    edits: Sequence[Case],
    probes: Sequence[Probe],
) -> dict[str, int]:
    """Return the median number of words by which each probe that edits one response lengthens it.

    Probes that no case could be edited by are not in the result. A negative number means that
    the edit shortens.

    Args:
        config: The run's config.
        cases: The original cases.
        edits: The edited cases.
        probes: The probes.
    """
    directed = {
        probe.name: probe
        for probe in probes
        if probe.directed and probe.expects == "same"
    }
    positions = {case.id: position for position, case in enumerate(cases)}
    counts: dict[str, list[int]] = {}
    for edit in edits:
        if (probe := directed.get(str(edit.metadata["probe"]))) is None:
            continue
        case = cases[positions[str(edit.metadata["case"])]]
        side = int(edit.metadata["side"])
        before = [response.text for response in case.responses]
        # an edited case has only the edited response
        if config.mode.name in SINGLE:
            before = [before[unit_of(case, probe, config)[0]]]
        after = [response.text for response in edit.responses]
        # a probe may also edit other responses: that is no longer text of one
        if all(
            old == new
            for k, (old, new) in enumerate(zip(before, after, strict=False))
            if k != side
        ):
            counts.setdefault(probe.name, []).append(
                _words(after[side]) - _words(before[side])
            )
    return {name: round(median(added)) for name, added in counts.items()}


def _words(text: str) -> int:
    return len(_WORD.findall(text))


def length_sentence(
    outcome: Outcome,
    neutral: Outcome | None,
    added: Mapping[str, int],
    decision: Decision,
    clusters: Clusters,
    alpha: float,
) -> Text | None:
    """Return how far the added words explain what a judge falls for; `None` if they do
    not, or none are added.

    Args:
        outcome: What the probe found.
        neutral: What the probe `NEUTRAL` found; `None` if it was not used.
        added: The median number of words that each probe adds.
        decision: The decision about the judge on the unedited cases.
        clusters: The clusters of the cases.
        alpha: The level of tests.
    """
    words = added.get(outcome.contrast.probe.name, 0)
    if not outcome.found or words < 1 or outcome is neutral:
        return None
    if (
        neutral is None
        or not np.isfinite(outcome.contrast.tested - neutral.contrast.tested).any()
    ):
        reason = gettext(
            "the probe {probe} would show whether a neutral sentence has the same effect"
        )
    else:
        sign = np.sign(outcome.mean or 0.0)
        p = p_value(
            sign * (outcome.contrast.tested - neutral.contrast.tested),
            clusters,
            one_sided=True,
        )
        stronger = p is not None and p <= alpha
        preferences = {"longer", "always_longer"} if sign > 0 else {"shorter"}
        if neutral.found and np.sign(neutral.mean or 0.0) == sign:
            reason = gettext(
                "a neutral sentence of {n:,} words moves it as much, as far as these cases show"
                " ({probe})"
            )
            if stronger and words > added.get(NEUTRAL, 0):
                reason = gettext(
                    "a neutral sentence of only {n:,} words moves it too ({probe})"
                )
            elif stronger:
                reason = gettext(
                    "a neutral sentence of {n:,} words moves it too, but less ({probe})"
                )
        elif not stronger:
            reason = gettext(
                "the effect does not differ significantly from that of a neutral sentence of {n:,}"
                " words ({probe})"
            )
        elif words > added.get(NEUTRAL, 0) and preferences & {
            limit.kind for limit in decision.limits
        }:
            reason = gettext(
                "on the unedited cases, length moves it in the same direction"
            )
        else:
            return None
    text = ngettext(
        "These edits also lengthen the text by {n:,} word",
        "These edits also lengthen the text by {n:,} words",
        words,
    )
    return gettext(
        "{first}; {rest}.",
        first=text,
        rest=reason.fill(n=added.get(NEUTRAL, 0), probe=NEUTRAL),
    )
