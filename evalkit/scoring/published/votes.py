"""MT-Bench: a judge against the votes of several people, and models by the judge's scores and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from evalkit.core.annotations import choice_for
from evalkit.scoring.columns.codes import CODES, NONE, TIE
from evalkit.scoring.published.models import mean_scores, win_rates
from evalkit.scoring.published.view import View
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Annotation, Metric

EXPERTS = "expert"
NO_VOTES = "no pair with a verdict has such a vote"


def mt_bench(view: View) -> list[Statistic | Metric]:
    """Return `mt_bench/agreement` and `mt_bench/agreement_without_ties`, of all turns and by turn, and people's own.

    The share of people's votes, each counting once, that equal the judge's verdict: with ties (their setup S1), and of
    votes and verdicts that are no ties (S2). Of a pair in both orders the verdict is what both say, and a tie where
    they differ. `mt_bench/human_agreement` is the same of any two people's votes on one pair (Zheng et al. 2023,
    arXiv 2306.05685, section 4.2, and `compute_agreement.py`). As there, only experts' votes count if there are any.

    `mt_bench/score/MODEL`, also by turn, is a model's mean score; `mt_bench/win_rate/MODEL` its share of wins over all
    pairs it stands in, a tie counting half (`show_result.py`, there `win_rate_adjusted`).
    """
    verdict, turns = _verdicts(view), _turns(view)
    found: list[Statistic | Metric] = []
    for suffix, rows in turns.items():
        for ties, name in ((True, "agreement"), (False, "agreement_without_ties")):
            found.append(_judge(view, f"mt_bench/{name}{suffix}", _of_cases(view, verdict), rows, ties=ties))
            found.append(_people(view, f"mt_bench/human_{name}{suffix}", rows, ties=ties))
    if view.outcome.shown is not None:
        return [*found, *win_rates(view, "mt_bench/win_rate", verdict)]
    return [*found, *mean_scores(view, "mt_bench/score", turns)]


def _turns(view: View) -> dict[str, Bools]:
    turns = np.array([str(turn or "") for turn in view.of_cases("turn")], dtype=object)
    every = {"": np.ones(len(turns), dtype=bool)}
    return every | {f"/turn{turn}": np.asarray(turns == turn) for turn in sorted(set(turns.tolist()) - {""})}


def _verdicts(view: View) -> Codes:
    """Return each pair's verdict: what both orders say, and a tie where they differ."""
    passes = view.passes
    agreed = np.where(passes[:, 0] == passes[:, -1], passes[:, 0], TIE)
    return np.where((passes == NONE).any(axis=1), NONE, agreed).astype(np.int8)


def _of_cases(view: View, winner: Codes) -> Codes:
    """Return each case's verdict on its first pair."""
    out = np.full(len(view.cases), NONE, dtype=np.int8)
    first = (view.pairs.i == 0) & (view.pairs.j == 1)
    out[view.pairs.case[first]] = winner[first]
    return out


def _votes(labels: Mapping[str, Annotation]) -> list[int]:
    given = {name: CODES[vote] for name, label in labels.items() if (vote := choice_for(label)) is not None}
    experts = [vote for name, vote in given.items() if name.startswith(EXPERTS)]
    return experts or list(given.values())


def _judge(view: View, name: str, verdict: Codes, rows: Bools, *, ties: bool) -> Statistic:
    def count(case: int) -> tuple[float, float, float]:
        votes = [vote for vote in _votes(view.cases[case].labels) if ties or vote != TIE]
        if verdict[case] == NONE:
            return 0, 0, len(votes)
        if not ties and verdict[case] == TIE:
            return 0, 0, 0
        return sum(vote == verdict[case] for vote in votes), len(votes), 0

    return _share(name, view, rows, count)


def _people(view: View, name: str, rows: Bools, *, ties: bool) -> Statistic:
    def count(case: int) -> tuple[float, float, float]:
        votes = [vote for vote in _votes(view.cases[case].labels) if ties or vote != TIE]
        pairs = list(combinations(votes, 2))
        return sum(one == other for one, other in pairs), len(pairs), 0

    return _share(name, view, rows, count)


def _share(name: str, view: View, rows: Bools, count: Callable[[int], tuple[float, float, float]]) -> Statistic:
    columns: Floats = np.zeros((len(view.cases), 3))
    for case in np.flatnonzero(rows).tolist():
        columns[case] = count(case)
    hits, n, lost = (float(total) for total in columns.sum(axis=0))
    every = n + lost
    return Statistic(
        name,
        columns[:, :2],
        lambda totals: divide(totals[:, 0], totals[:, 1]),
        n=int(n),
        missing=int(lost),
        worst=(hits / every, (hits + lost) / every) if every else (None, None),
        proportion=True,
        why=NO_VOTES,
    )
