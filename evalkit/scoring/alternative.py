"""The alternative annotator test: whether the judge could stand in for one of the people.

Calderon, Reichart and Dror 2025, "The Alternative Annotator Test for LLM-as-a-Judge", arXiv 2501.10970, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.scoring.annotators import CLASSES, Annotations, others, others_count
from evalkit.scoring.bootstrap import Statistic, divide
from evalkit.scoring.clusters import Clusters
from evalkit.scoring.columns import Bools, Floats, Ints
from evalkit.scoring.values import tidy
from evalkit.types import Metric

LEAST_CASES = 30
"""A person who labelled fewer clusters of cases is not tested (section 3.2 of the paper)."""
LEAST_PEOPLE = 3
FALSE_DISCOVERIES = 0.05


@dataclass(frozen=True, slots=True)
class Contest:
    """Judge against each person, at being like the others; rows are labels as in Annotations.

    `judge_wins` and `person_wins` say who is at least as close to the other people as the other; `used` which rows
    have others and a judge. `cluster` is each row's, and `tested` are the people with enough clusters.
    """

    found: Annotations
    judge_wins: Bools
    person_wins: Bools
    used: Bools
    cluster: Ints
    tested: tuple[int, ...]

    @classmethod
    def of(cls, found: Annotations, clusters: Clusters) -> Contest:
        """Hold the judge against every person on every item."""
        judge, person, rest = _closeness(found)
        used = (rest > 0) & np.isfinite(found.judge)
        cluster = clusters.of_rows(found.case[found.item])
        people = range(len(found.names))
        tested = tuple(p for p in people if len(np.unique(cluster[used & (found.person == p)])) >= LEAST_CASES)
        fuzz = 1e-12
        return cls(found, used & (judge >= person - fuzz), used & (person >= judge - fuzz), used, cluster, tested)

    @property
    def why(self) -> str:
        """Why there is no test; empty if there is one."""
        if len(self.tested) >= LEAST_PEOPLE:
            return ""
        return f"fewer than {LEAST_PEOPLE} people labelled {LEAST_CASES} judged cases together with others"


def _closeness(found: Annotations) -> tuple[Floats, Floats, Floats]:
    """Return by row how close judge and person are to the others' labels, and how many others there are.

    Choices: the share of others who chose the same. Grades: minus the root mean square distance from theirs.
    """
    items = len(found.case)
    size = others_count(found)
    if found.chosen:
        counts = others(found)
        same = [(counts * np.stack([v == c for c in CLASSES], axis=1)).sum(axis=1) for v in (found.judge, found.value)]
        return divide(same[0], size), divide(same[1], size), size
    once = np.bincount(found.item, weights=found.value, minlength=items)[found.item] - found.value
    twice = np.bincount(found.item, weights=found.value**2, minlength=items)[found.item] - found.value**2
    apart = [divide(twice - 2 * v * once, size) + v * v for v in (found.judge, found.value)]
    judge, person = (np.asarray(-np.sqrt(np.maximum(distance, 0.0))) for distance in apart)
    return judge, person, size


def alternative_statistics(contest: Contest, epsilon: float) -> list[Statistic | Metric]:
    """Return `human/advantage`, with its interval over cases, and `human/alt_test`, the winning rate.

    The advantage is the mean over people of how often the judge is at least as close to the others as the person. The
    winning rate is the share of people against whom the test finds the judge no worse, `epsilon` being what a person's
    label may be worth more (0.2 for experts, 0.1 for crowd workers); from 0.5 on the judge may stand in for them.
    """
    return [_advantage(contest), _winning_rate(contest, epsilon)]


def _advantage(contest: Contest) -> Statistic:
    found, why = contest.found, contest.why
    case, columns = found.case[found.item], []
    for person in contest.tested:
        own = contest.used & (found.person == person)
        columns += [np.bincount(case[rows], minlength=found.cases) for rows in (own & contest.judge_wins, own)]
    table = np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((found.cases, 0))

    def advantage(totals: Floats) -> Floats:
        if why:
            return np.full(len(totals), np.nan)
        return np.asarray(divide(totals[:, 0::2], totals[:, 1::2]).mean(axis=1))

    rows = contest.used & np.isin(found.person, contest.tested)
    lost = int((np.isin(found.person, contest.tested) & ~np.isfinite(found.judge)).sum())
    note = "missing answers are left out and not bounded" if lost else None
    return Statistic("human/advantage", table, advantage, int(rows.sum()), lost, proportion=True, note=note, why=why)


def _winning_rate(contest: Contest, epsilon: float) -> Metric:
    if contest.why:
        return Metric("human/alt_test", None, note=contest.why)
    rejected = _rejected(np.array([p_value(contest, person, epsilon) for person in contest.tested]))
    note = f"share of {len(rejected)} people at epsilon {epsilon:g}; a count of tests: no interval"
    return Metric("human/alt_test", tidy(rejected.mean()), n=len(rejected), note=note)


def p_value(contest: Contest, person: int, epsilon: float) -> float:
    """Return the p-value of "this person's label is worth `epsilon` more than the judge's", by a one-sided t-test.

    Tested are the clusters' means of the person's wins less the judge's: with one item a cluster, the paper's test.
    """
    from scipy.special import stdtr

    found = contest.found
    own = contest.used & (found.person == person)
    cluster = contest.cluster[own]
    lead = contest.person_wins[own].astype(np.float64) - contest.judge_wins[own]
    size = np.bincount(cluster)
    leads = np.bincount(cluster, weights=lead)[size > 0] / size[size > 0]
    spread, distance = float(leads.std(ddof=1)), float(leads.mean()) - epsilon
    if spread < 1e-12:
        return 0.0 if distance < 0 else 1.0
    return float(stdtr(len(leads) - 1, distance / (spread / np.sqrt(len(leads)))))


def _rejected(p: Floats) -> Bools:
    """Return which tests are rejected at a false discovery rate of 0.05 under any dependence.

    Benjamini and Yekutieli 2001, Ann. Statist. 29, 1165-1188, theorem 1.3.
    """
    m = len(p)
    limits = np.arange(1, m + 1) / m * FALSE_DISCOVERIES / (1 / np.arange(1, m + 1)).sum()
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= limits)
    rejected = np.zeros(m, dtype=bool)
    rejected[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return rejected


def annotator_table(contest: Contest, epsilon: float) -> list[dict[str, Any]]:
    """Return each person's labels, the judge's advantage over them and the test's p-value, none where not tested."""
    return [_entry(contest, person, name, epsilon) for person, name in enumerate(contest.found.names)]


def _entry(contest: Contest, person: int, name: str, epsilon: float) -> dict[str, Any]:
    own = contest.used & (contest.found.person == person)
    tested = person in contest.tested
    return {
        "annotator": name,
        "labels": int((contest.found.person == person).sum()),
        "compared": int(own.sum()),
        "advantage": tidy(contest.judge_wins[own].mean()) if own.any() else None,
        "p": tidy(p_value(contest, person, epsilon)) if tested else None,
        "note": None if tested else f"fewer than {LEAST_CASES} cases: not tested",
    }
