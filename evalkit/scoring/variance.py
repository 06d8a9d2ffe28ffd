"""Where the variance of a judge's numbers comes from, and what would halve an interval."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil, prod, sqrt
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.answers import Answers
from evalkit.scoring.bootstrap import Statistic, Together, divide
from evalkit.scoring.columns import Columns, Floats, Ints
from evalkit.scoring.components import Design, Effect, Observations, grouped
from evalkit.scoring.outcome import Outcome
from evalkit.scoring.resolve import pair_margins, weigh
from evalkit.scoring.sorting import read_columns
from evalkit.scoring.values import tidy
from evalkit.types import Case

RANKS = ("judge", "criterion", "order")
"""An effect counts to the first of these that it is of, else to the case."""
LARGEST = 2**25
SAME = "all of it is the same number: there is no variance"
ALONE = "no two judgments of one case, or no two cases: what varies with what cannot be told"
UNCROSSED = "nothing was judged under more than one {}"
ONCE = "nothing was asked twice in the same way (mode.samples): repeat noise cannot be told from how {} differ"


def observe(config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers) -> Observations:
    """Return the numbers of all judgments: scores by criterion, or margins of pairs; of each judge of a panel."""
    judges = answers.by
    each = [outcome.columns] if len(judges) < 2 else [_columns_of(cases, outcome, answers, j) for j in judges]
    criteria = outcome.shown is None and len(cases) * len(config.weights()) * len(each) <= LARGEST
    parts = [_observed(config, columns, outcome, by_criterion=criteria) for columns in each]
    value, case, unit_i, unit_j, order, criterion = (
        np.concatenate(list(column)) for column in zip(*parts, strict=True)
    )
    judge = np.repeat(np.arange(len(each)), [len(part[0]) for part in parts])
    unit, _ = grouped(*(column.astype(np.int64) for column in (case, unit_i, unit_j)))
    facets = {"order": order, "criterion": criterion, "judge": judge}
    return Observations(value, case, unit, facets, len(cases))


def _columns_of(cases: Sequence[Case], outcome: Outcome, answers: Answers, judge: str) -> Columns:
    own, sizes = answers.select(judge, third=False), outcome.resolved.pairs.sizes
    return read_columns(cases, own, sizes, 1) if outcome.shown is None else read_columns(cases, own.of_pairs, sizes, 2)


def _observed(
    config: RunConfig, columns: Columns, outcome: Outcome, *, by_criterion: bool
) -> tuple[Floats | Ints, ...]:
    none = np.zeros(len(columns), dtype=np.int64)
    places = (columns.case, columns.i, columns.j, columns.swapped.astype(np.int64))
    if outcome.shown is not None:
        return pair_margins(config, columns), *places, none
    alone = np.asarray(np.isnan(columns.criteria).all(axis=1))
    if not by_criterion or alone.any():
        return np.where(alone, columns.value, weigh(columns, config.weights())), *places, none
    width = len(columns.names)
    return (
        columns.criteria.ravel(),
        *(np.repeat(place, width) for place in places),
        np.tile(np.arange(width), len(columns)),
    )


def part_of(effect: Effect) -> str:
    """Return the part of the variance that an effect counts to."""
    return next((name for name in RANKS if name in effect[1]), "case")


def variance_statistics(design: Design, parts: Sequence[str]) -> list[Statistic]:
    """Return `variance/<part>`: the share of the variance of single judgments that comes with each part.

    `case` is what differs between cases, or units within them, whoever judges and however; `order`, `criterion` and
    `judge` what comes with these, by itself or with the case; `sample` what differs when the same is asked again.
    Components estimated below 0 count as 0.
    """
    together = Together(partial(_shares, design, tuple(parts)))
    return [_statistic(design, together[place], name) for place, name in enumerate(parts)]


def _statistic(design: Design, value: Any, name: str) -> Statistic:
    blind = name not in {*map(part_of, design.every_effect), *(["sample"] if design.repeated else [])}
    seen = design.seen
    why = _why_not(design, name) if blind or not design.sound else SAME
    return Statistic(
        f"variance/{name}",
        design.columns,
        (lambda totals: np.full(len(totals), np.nan)) if blind or not design.sound else value,
        n=len(seen.value),
        note=None if design.repeated else ONCE.format(_words(design.top)),
        why=why,
    )


def _why_not(design: Design, name: str) -> str:
    if not design.sound:
        return ALONE
    return ONCE.format(_words(design.top)) if name == "sample" else UNCROSSED.format(name)


def _shares(design: Design, parts: Sequence[str], totals: Floats) -> Floats:
    found = np.maximum(design.components(totals), 0.0)
    total = np.nan_to_num(found).sum(axis=1)
    names = [*(part_of(effect) for effect in design.every_effect), "sample"]
    columns = [
        sum((found[:, k] for k, name in enumerate(names) if name == part), np.zeros(len(found))) for part in parts
    ]
    return np.stack([divide(column, np.where(total > 1e-15, total, 0.0)) for column in columns], axis=1)


def _words(effect: Effect) -> str:
    depth, facets = effect
    return " × ".join([("", "cases", "units")[depth], *(f"{name}s" for name in sorted(facets))]).replace(
        "criterions", "criteria"
    )


def variance_details(design: Design, unit: str) -> dict[str, Any]:
    """Return what variance.json holds: every component in squared units, and what would halve the mean's interval."""
    if not design.sound:
        return {"unit": unit, "components": [], "note": ALONE}
    raw = design.components(design.columns.sum(axis=0)[None])[0]
    components = [
        {"effect": _words(effect).strip(" ×"), "part": part_of(effect), "variance": tidy(value)}
        for effect, value in zip(design.every_effect, raw, strict=False)
    ]
    left = {"effect": "samples" if design.repeated else f"{_words(design.top)}, with samples", "part": "sample"}
    return {
        "unit": f"squared {unit}",
        "components": [*components, left | {"variance": tidy(raw[-1])}],
        "halve": _halving(design, np.maximum(raw, 0.0)),
    }


def _halving(design: Design, components: Floats) -> dict[str, Any]:
    """Return how many cases, or samples of what there is, would halve the interval of the mean over cases.

    The variance of the mean, facets held as they are, is that of case effects over the cases, of unit effects over
    the units and of noise over the judgments (Brennan 2001, Generalizability Theory, section 4.1): four times the cases
    quarter it all, samples only the last of the three.
    """
    seen = design.seen
    cases, units, judgments = len(np.unique(seen.case)), len(np.unique(seen.unit)), len(seen.value)
    levels = {name: len(np.unique(level)) for name, level in seen.facets.items()}
    fixed = 0.0
    for (depth, facets), value in zip(design.every_effect, components, strict=False):
        fixed += value / (prod(levels[name] for name in facets) * (cases, cases, units)[depth]) if depth else 0.0
    noise = float(components[-1]) / judgments
    every = fixed + noise
    found: dict[str, Any] = {"cases": {"now": cases, "needed": 4 * cases}}
    if not design.repeated or every <= 0:
        note = ONCE.format(_words(design.top)) if not design.repeated else SAME
        return found | {"samples": {"needed": None, "note": note}}
    now = judgments / (units * prod(levels.values()))
    enough = fixed < every / 4
    return found | {
        "samples": {
            "now": tidy(now),
            "needed": ceil(now * noise / (every / 4 - fixed)) if enough else None,
            "note": f"endless samples would leave {sqrt(fixed / every):.0%} of the interval",
        }
    }
