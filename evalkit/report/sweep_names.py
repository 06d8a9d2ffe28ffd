"""What the jobs of a sweep are called: their settings, without those that make no difference."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evalkit.core.translation import Text, gettext, joined
from evalkit.scoring.leaderboard import Leaderboard

# Names of criteria can have spaces.
_OVERRIDE = re.compile(r",\s*(?=(?:[\w@/.+~-]+|\+{0,2}criteria\.[^=,]+)=)")


def settings_of(name: str) -> dict[str, str]:
    """Return a job's overrides by key from its name in the leaderboard; empty if it is not a list of overrides."""
    settings = {}
    for part in _OVERRIDE.split(name):
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
            names |= dict.fromkeys(group, common_name)
    return names


def no_effect(board: Leaderboard) -> list[Text]:
    """Return what twins show: each key with the values that make no difference between them."""
    names = {row.job: row.name for row in board.rows}
    texts: dict[str, Text] = {}
    for group in board.twins:
        settings = [settings_of(names[job]) for job in group]
        differing = _differing(settings)
        if not differing:
            continue
        parts = []
        for key in differing:
            values = list(dict.fromkeys(setting.get(key, "-") for setting in settings))
            listed = joined(values, gettext(" and "))
            parts.append(gettext("{key} {values}", key=key, values=listed))
        text = gettext("{settings}: no difference.", settings=joined(parts))
        texts.setdefault(repr(text), text)
    return list(texts.values())


def _differing(settings: Sequence[dict[str, str]]) -> list[str]:
    """Return the keys that do not have one value in all settings; empty if one is no list of overrides."""
    if not all(settings):
        return []
    keys = dict.fromkeys(key for setting in settings for key in setting)
    differing = []
    for key in keys:
        values = {setting.get(key) for setting in settings}
        if len(values) > 1:
            differing.append(key)
    return differing
