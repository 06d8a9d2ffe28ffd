"""Benchmarks of one labelled pair a case: LLMBar, JudgeBench, PandaLM, Auto-J and FairEval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np

from evalkit.core.annotations import choice_for
from evalkit.scoring.columns.codes import CODES, NONE, TIE, A, B, sign
from evalkit.scoring.metrics.agreement import CLASSES, kappa
from evalkit.scoring.published.parts import blend, nothing, rates
from evalkit.scoring.published.view import View, by_name
from evalkit.scoring.stats.arrays import Bools, Codes, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.types import Case, Metric

UNREAD = "no labelled pair could be read"
ONE_ORDER = "each pair was judged in one order: set swap=both"
LLMBAR_SETS = ("natural", "neighbor", "gptinst", "gptout", "manual")
JUDGEBENCH_SOURCES = {
    "mmlu-pro": "knowledge",
    "livebench-reasoning": "reasoning",
    "livebench-math": "math",
    "livecodebench": "coding",
}
"""Category by the beginning of the name of the set that a question is from."""


def llmbar(view: View) -> list[Statistic | Metric]:
    """Return `llmbar/mean_accuracy` and `llmbar/agreement_rate`, for all sets, the adversarial ones and each.

    Accuracy is the mean of the two orders' accuracies, agreement the share of pairs of which both orders name the same
    output; the averages are over sets, each counting the same (Zeng et al. 2024, arXiv 2310.07641, section 4, the table
    of main results). They count an unreadable answer as wrong: that is `worst_low` here. Cases without a set are one.
    Scores say the same in both orders, but for equal ones, where they take the output shown first.
    """
    named = view.subsets()
    subsets = named or {"": np.ones(len(view.cases), dtype=bool)}
    scored = view.outcome.scored is not None and not view.outcome.listed
    passes = np.stack([np.where(view.passes[:, 0] == TIE, one, view.passes[:, 0]) for one in (A, B)], axis=1)
    passes = passes if scored else view.passes
    accuracy = {name: _order_rates(view, passes, cases[view.pairs.case]) for name, cases in subsets.items()}
    agreement = {name: _agreed(view, passes, f"llmbar/agreement_rate/{name}", subsets[name]) for name in subsets}
    found: list[Statistic | Metric] = []
    for group, names in _llmbar_groups(tuple(named)).items() if named else (("", [""]),):
        note = _lacking(group, names) if named else "the cases name no set: taken as one"
        orders = [order for name in names for order in accuracy[name]]
        found.append(blend(f"llmbar/mean_accuracy{group}", orders, note=note, why="no case has a subset"))
        together = [agreement[name] for name in names]
        found.append(
            blend(f"llmbar/agreement_rate{group}", together, note=note, why="no case has a subset")
            if view.both or scored
            else nothing(f"llmbar/agreement_rate{group}", ONE_ORDER)
        )
    return found


def _llmbar_groups(names: tuple[str, ...]) -> dict[str, list[str]]:
    adversarial = [name for name in names if name != "natural"]
    groups = {"": list(names), **({"/adversarial": adversarial} if adversarial else {})}
    return groups | {f"/{name}": [name] for name in names}


def _lacking(group: str, names: Sequence[str]) -> str | None:
    """Return which of the published sets an average is without."""
    wanted = {"": LLMBAR_SETS, "/adversarial": LLMBAR_SETS[1:]}.get(group, ())
    lacking = [name for name in wanted if name not in names]
    return f"without {', '.join(lacking)}" if lacking else None


def _order_rates(view: View, passes: Codes, rows: Bools) -> list[Statistic]:
    """Return the accuracy of each order, of the rows that have a label."""
    wanted = rows & view.labelled
    return [
        view.tally.rate("order", one == view.pairs.label, wanted & (one != NONE), wanted & (one == NONE), why=UNREAD)
        for one in passes.T
    ]


def _agreed(view: View, passes: Codes, name: str, cases: Bools) -> Statistic:
    rows = cases[view.pairs.case]
    read = (passes != NONE).all(axis=1)
    same = passes[:, 0] == passes[:, -1]
    return view.tally.rate(name, same, rows & read, rows & ~read, why="no pair was read in both orders")


def judgebench(view: View) -> list[Statistic | Metric]:
    """Return `judgebench/net_vote_accuracy`, of all pairs and of each category.

    A right verdict counts +1 and its opposite -1, over both orders; a pair is right if the sum is positive, so that a
    tie in one order does not undo a right verdict in the other (Tan et al. 2025, arXiv 2410.12784, section 4.1). Where
    one order cannot be read the other decides, as there; pairs without any are missing here and not right there.
    """
    label = np.where(view.labelled, view.pairs.label, TIE)
    votes = np.where(view.passes == NONE, TIE, view.passes) * label[:, None]
    read = (view.passes != NONE).any(axis=1)
    hit = votes.sum(axis=1) > 0
    name, wanted = "judgebench/net_vote_accuracy", view.labelled
    categories = view.subsets() or by_name([_category(str(source or "")) for source in view.of_cases("source")])
    return [*rates(name, view.tally, hit, wanted & read, wanted & ~read, categories, why=UNREAD)]


def _category(source: str) -> str:
    return next((name for start, name in JUDGEBENCH_SOURCES.items() if source.startswith(start)), "")


def auto_j(view: View) -> list[Statistic | Metric]:
    """Return `auto_j/agreement` and `auto_j/consistency`, of all pairs and of each group of scenarios.

    Of pairs in both orders: agreement is the share whose verdict equals people's label in both, consistency the share
    with one verdict in both. Scores and single orders have an agreement only (Li et al. 2024, arXiv 2310.05470,
    section 5.1, and the leaderboard's definition).
    """
    passes, label, subsets = view.passes, view.pairs.label, view.subsets()
    read = (passes != NONE).all(axis=1)
    right = (passes == label[:, None]).all(axis=1)
    wanted = view.labelled
    found = rates("auto_j/agreement", view.tally, right, wanted & read, wanted & ~read, subsets, why=UNREAD)
    if not view.both:
        return [*found, nothing("auto_j/consistency", ONE_ORDER)]
    same = passes[:, 0] == passes[:, 1]
    return [*found, *rates("auto_j/consistency", view.tally, same, read, ~read, subsets, why=UNREAD)]


def pandalm(view: View) -> list[Statistic | Metric]:
    """Return `pandalm/accuracy`, and macro-averaged `pandalm/precision`, `recall` and `f1` over A, TIE and B.

    The label is what most of the three people chose; of three different choices, the first person's, as their script
    takes it. Macro-averages are over all three classes, a class that never occurs counting 0 (Wang et al. 2024,
    arXiv 2306.05087, section 5). Their script reads what cannot be read as a tie; here it is missing.
    """
    label = _majority(view.cases)[view.pairs.case]
    winner = view.outcome.resolved.winner
    first = (view.pairs.i == 0) & (view.pairs.j == 1) & (label != NONE)
    used, lost = first & (winner != NONE), first & (winner == NONE)
    tally = view.tally
    accuracy = tally.rate("pandalm/accuracy", winner == label, used, lost, why=UNREAD)
    cells = [tally(used & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    columns = np.stack(cells, axis=1)
    unbounded = "missing verdicts are left out and not bounded" if lost.any() else None
    macro = [
        Statistic(
            f"pandalm/{name}", columns, compute, accuracy.n, accuracy.missing,
            proportion=True, note=unbounded, why=UNREAD,
        )
        for name, compute in (("precision", _precision), ("recall", _recall), ("f1", _f1))
    ]  # fmt: skip
    return [accuracy, *macro]


def _majority(cases: Sequence[Case]) -> Codes:
    """Return most people's choice in each case, the first one's where all differ; the label where there are none."""
    codes = []
    for case in cases:
        said = (choice_for(label) for label in case.labels.values())
        votes = Counter(CODES[vote] for vote in said if vote is not None)
        codes.append(votes.most_common(1)[0][0] if votes else CODES[case.label])
    return np.array(codes, dtype=np.int8)


def _by_class(totals: Floats) -> tuple[Floats, Floats, Floats]:
    """Return right, said and labelled counts by class, of rows of 9 cells (label, verdict)."""
    table = totals.reshape(-1, 3, 3)
    return np.diagonal(table, axis1=1, axis2=2), table.sum(axis=1), table.sum(axis=2)


def _macro(totals: Floats, each: Floats) -> Floats:
    return np.where(totals.sum(axis=1) > 0, np.nan_to_num(each).mean(axis=1), np.nan)


def _precision(totals: Floats) -> Floats:
    right, said, _ = _by_class(totals)
    return _macro(totals, divide(right, said))


def _recall(totals: Floats) -> Floats:
    right, _, labelled = _by_class(totals)
    return _macro(totals, divide(right, labelled))


def _f1(totals: Floats) -> Floats:
    right, said, labelled = _by_class(totals)
    return _macro(totals, divide(2 * right, said + labelled))


def faireval(view: View) -> list[Statistic | Metric]:
    """Return `faireval/accuracy`, `faireval/kappa` and `faireval/conflict_rate`.

    The verdict is the sign of the mean over all samples and both orders, a mean of 0 a tie (their multiple evidence and
    balanced position calibration); kappa is Cohen's over win, tie and lose. The conflict rate is the share of pairs
    whose two orders give different verdicts (Wang et al. 2024, arXiv 2305.17926, sections 2, 3 and 4).
    """
    winner, label, tally = sign(view.mean_margin()), view.pairs.label, view.tally
    used, lost = view.labelled & (winner != NONE), view.labelled & (winner == NONE)
    accuracy = tally.rate("faireval/accuracy", winner == label, used, lost, why=UNREAD)
    cells = [tally(used & (label == row) & (winner == column)) for row, column in product(CLASSES, CLASSES)]
    why = "verdicts and labels are all of one class" if used.any() else UNREAD
    agreement = Statistic("faireval/kappa", np.stack(cells, axis=1), kappa, accuracy.n, accuracy.missing, why=why)
    if not view.both:
        return [accuracy, agreement, nothing("faireval/conflict_rate", ONE_ORDER)]
    passes = view.passes
    read = (passes != NONE).all(axis=1)
    conflict = tally.rate("faireval/conflict_rate", passes[:, 0] != passes[:, 1], read, ~read, why=UNREAD)
    return [accuracy, agreement, conflict]
