"""What the jobs of a sweep are called: their settings, without those that make no difference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from evalkit.core.translation import Joined, Text, gettext, joined
from evalkit.scoring.leaderboard import Leaderboard

MARK: Final = " (simulated)"
"""What the name of a job ends with if its judge is simulated and its settings do not say so."""
# Names of criteria can have spaces.
_OVERRIDE = re.compile(r",\s*(?=(?:[\w@/.+~-]+|\+{0,2}criteria\.[^=,]+)=)")


def settings_of(name: str) -> dict[str, str]:
    """Return a job's overrides by key from its name in the leaderboard; empty if it is
    not a list of overrides.
    """
    settings = {}
    for part in _OVERRIDE.split(name.removesuffix(MARK)):
        key, sign, value = part.partition("=")
        if not sign:
            return {}
        settings[key.strip()] = value
    return settings


def folded_names(board: Leaderboard) -> dict[str, str]:
    """Return the name of each job; twins have one name, of the settings that they share."""
    names = {row.job: row.name for row in board.rows}
    for group in board.twins:
        settings = [settings_of(names[job]) for job in group]
        differing = _differing(settings)
        shared = [
            f"{key}={value}"
            for key, value in settings[0].items()
            if key not in differing
        ]
        # Twins without a common setting keep their own names.
        if shared:
            common_name = ", ".join(shared)
            if names[group[0]].endswith(MARK):
                common_name += MARK
            names |= dict.fromkeys(group, common_name)
    return names


def no_effect(board: Leaderboard) -> list[Text]:
    """Return what twins show: each key with the values that make no difference between them.

    A key that makes a difference in other jobs is named with the settings of its own.
    """
    names = {row.job: settings_of(row.name) for row in board.rows}
    groups = [[names[job] for job in group] for group in board.twins]
    swept = _differing([*names.values()])
    everywhere = _without_effect_in_all(board, groups)
    texts: dict[str, Text] = {}
    for group in groups:
        differing = _differing(group)
        in_all = [key for key in differing if key in everywhere]
        in_these = [key for key in differing if key not in everywhere]
        shared = [
            f"{key}={group[0].get(key, '-')}" for key in swept if key not in differing
        ]
        sentences = []
        if in_all or not shared:
            values = _values(group, in_all or in_these)
            sentences.append(gettext("{settings}: no difference.", settings=values))
        if in_these and shared:
            sentences.append(
                gettext(
                    "With {shared}, {settings}: no difference.",
                    shared=joined(shared),
                    settings=_values(group, in_these),
                )
            )
        if differing:
            texts |= {repr(sentence): sentence for sentence in sentences}
    return list(texts.values())


def _without_effect_in_all(
    board: Leaderboard, groups: Sequence[Sequence[dict[str, str]]]
) -> set[str]:
    """Return the keys in which all jobs have twins; no key if a job has no twin."""
    twins = {job for group in board.twins for job in group}
    if not groups or any(row.job not in twins for row in board.rows):
        return set()
    return set.intersection(*(set(_differing(group)) for group in groups))


def _values(group: Sequence[dict[str, str]], keys: Sequence[str]) -> Joined:
    """Return each key with its values in a group of jobs."""
    parts = []
    for key in keys:
        values = list(dict.fromkeys(setting.get(key, "-") for setting in group))
        listed = joined(values, gettext(" and "))
        parts.append(gettext("{key} {values}", key=key, values=listed))
    return joined(parts)


def _differing(settings: Sequence[dict[str, str]]) -> list[str]:
    """Return the keys that do not have one value in all settings; empty if one is no
    list of overrides.
    """
    if not all(settings):
        return []
    keys = dict.fromkeys(key for setting in settings for key in setting)
    differing = []
    for key in keys:
        values = {setting.get(key) for setting in settings}
        if len(values) > 1:
            differing.append(key)
    return differing
