"""Whether a judge prefers responses from its own model family."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.scoring.columns.cases import TIE, PairColumns
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.stats.arrays import Bools, Bounds, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally, share
from evalkit.scoring.stats.bounded_intervals import mixed
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
"""Parts of model names by family; fine-tuned models belong to the family of their base model."""
_EXACT = {"o1": "gpt", "o3": "gpt", "o4": "gpt", "yi": "yi", "phi": "phi"}


@cache
def family(model: str | None) -> str | None:
    """Return the family of a model by its name without provider, or the name's first word if it is unknown."""
    name = (model or "").rsplit("/", 1)[-1].lower()
    known = _EXACT.get(name) or next((f for f, words in FAMILIES.items() if any(word in name for word in words)), None)
    first = re.match(r"[^\W\d_]{3,}", name)
    return known or (first[0] if first else None)


def judge_families(config: RunConfig) -> dict[str, str]:
    """Return the model family of each judge of a run, by the judge's name."""
    found = {judge.label: family(judge.model) for judge in _judges(config.judge)}
    return {name: own for name, own in found.items() if own is not None}


def _judges(judge: JudgeConfig) -> Iterator[JudgeConfig]:
    for member in judge.judges or ():
        yield from _judges(member)
    if judge.judges is None:
        yield judge


def family_notes(config: RunConfig, cases: Sequence[Case]) -> list[str]:
    """Return a warning for each judge that judges responses from its own model family."""
    models = sorted({response.model for case in cases for response in case.responses if response.model})
    notes = []
    for judge, own in judge_families(config).items():
        if shared := [model for model in models if family(model) == own]:
            named = ", ".join(shared[:3]) + (f" and {len(shared) - 3} more" if len(shared) > 3 else "")
            notes.append(f"judge {judge} and {named} are of the same family ({own}): see self/preference")
    return notes


def self_statistics(config: RunConfig, verdicts: VerdictColumns, cases: Sequence[Case]) -> list[Statistic]:
    """Return `self/own_rate` and `self/preference`; empty if no response names its model.

    The first is the share of decided pairs with one own and one other response that the own one wins. The second holds
    the label constant: how often the own response wins if it is the label, minus how often the other wins if it is the
    label (Wataoka et al. 2024, arXiv 2410.21819, eq. 1). It is 0 for an unbiased judge.
    """
    if not any(response.model for case in cases for response in case.responses):
        return []
    own = _own_side(verdicts.pairs, cases, set(judge_families(config).values()))
    mixed = own != TIE
    won, unread = verdicts.winner == own, mixed & ~verdicts.present
    tally = verdicts.tally
    nothing = "no pair has one response of the judge's own family"
    decided = mixed & verdicts.present & (verdicts.winner != TIE)
    why = "no such pair has a winner" if mixed.any() else nothing
    return [
        tally.rate("self/own_rate", won, decided, unread, why=why),
        _preference(verdicts, own, tally, nothing),
    ]


def _own_side(pairs: PairColumns, cases: Sequence[Case], families: set[str]) -> Codes:
    """Return A or B for the single response of each pair from the judge's family, TIE if neither or both are."""
    flags = np.array([family(r.model) in families for case in cases for r in case.responses], dtype=np.int8)
    offset = (np.cumsum(pairs.sizes) - pairs.sizes)[pairs.case]
    return np.asarray(flags[offset + pairs.i] - flags[offset + pairs.j], dtype=np.int8)


def _preference(verdicts: VerdictColumns, own: Codes, tally: Tally, why: str) -> Statistic:
    label = verdicts.pairs.label
    sides = [(own != TIE) & (label == own), (own != TIE) & (label == -own)]
    read = [side & verdicts.present for side in sides]
    right = [side & (verdicts.winner == label) for side in read]
    columns = np.stack([tally(column) for column in (right[0], read[0], right[1], read[1])], axis=1)
    used = read[0] | read[1]
    rows = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], dtype=np.float64)
    return Statistic(
        "self/preference",
        columns,
        _lead,
        reach=mixed(_lead, columns.sum(axis=0), rows, int(used.sum())),
        n=int(used.sum()),
        missing=int(((sides[0] | sides[1]) & ~verdicts.present).sum()),
        worst=_bounds(sides, right, verdicts),
        why="too few labels prefer an own response, or another one" if (own != TIE).any() else why,
    )


def _lead(totals: Floats) -> Floats:
    return divide(totals[:, 0], totals[:, 1]) - divide(totals[:, 2], totals[:, 3])


def _bounds(sides: list[Bools], right: list[Bools], verdicts: VerdictColumns) -> Bounds:
    ends = [
        share(float(hit.sum()), float(side.sum()), float((side & ~verdicts.present).sum()))
        for side, hit in zip(sides, right, strict=True)
    ]
    (low, high), (other_low, other_high) = ends
    if low is None or high is None or other_low is None or other_high is None:
        return None, None
    return low - other_high, high - other_low
