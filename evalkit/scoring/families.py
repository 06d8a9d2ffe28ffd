"""Which family a model is of, by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from evalkit.config import JudgeConfig, RunConfig
from evalkit.types import Case

FAMILIES: dict[str, tuple[str, ...]] = {
    "claude": ("claude",),
    "command": ("command-", "c4ai", "aya"),
    "deepseek": ("deepseek",),
    "ernie": ("ernie",),
    "gemini": ("gemini", "gemma", "palm", "bard"),
    "glm": ("glm",),
    "gpt": ("gpt", "davinci", "o1-", "o3-", "o4-"),
    "grok": ("grok",),
    "llama": ("llama", "vicuna", "alpaca", "guanaco"),
    "mistral": ("mistral", "mixtral", "ministral", "codestral"),
    "phi": ("phi-", "phi3", "phi4"),
    "qwen": ("qwen", "qwq"),
    "smollm": ("smollm",),
    "yi": ("yi-",),
}
"""Words in a model's name by family; models trained from another's weights are of that one's family."""
_EXACT = {"o1": "gpt", "o3": "gpt", "o4": "gpt", "yi": "yi", "phi": "phi"}


@cache
def family(model: str | None) -> str | None:
    """Return the family of a model by its name, without provider; for an unknown one the name's first word, if any."""
    name = (model or "").rsplit("/", 1)[-1].lower()
    known = _EXACT.get(name) or next((f for f, words in FAMILIES.items() if any(word in name for word in words)), None)
    first = re.match(r"[^\W\d_]{3,}", name)
    return known or (first[0] if first else None)


def judge_families(config: RunConfig) -> dict[str, str]:
    """Return the family of each judge of a run, by the judge's name."""
    found = {judge.label: family(judge.model) for judge in _judges(config.judge)}
    return {name: own for name, own in found.items() if own is not None}


def _judges(judge: JudgeConfig) -> Iterator[JudgeConfig]:
    for member in judge.judges or ():
        yield from _judges(member)
    if judge.judges is None:
        yield judge


def family_notes(config: RunConfig, cases: Sequence[Case]) -> list[str]:
    """Return a warning for each judge that is of one family with models whose responses it judges."""
    models = sorted({response.model for case in cases for response in case.responses if response.model})
    notes = []
    for judge, own in judge_families(config).items():
        if shared := [model for model in models if family(model) == own]:
            named = ", ".join(shared[:3]) + (f" and {len(shared) - 3} more" if len(shared) > 3 else "")
            notes.append(f"judge {judge} and {named} are of one family ({own}): see self/preference")
    return notes
