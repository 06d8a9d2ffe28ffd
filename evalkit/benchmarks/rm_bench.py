"""RM-Bench (Liu et al. 2025, ICLR, arXiv 2410.16184): chosen and rejected responses in three styles, by domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from evalkit.benchmarks.benchmark import Benchmark, RowLocation, row_by_row, shape, share_row
from evalkit.benchmarks.reward_bench import UNJUDGED, chosen_count, chosen_first, compare_chosen
from evalkit.benchmarks.scoring_rules import View, blend
from evalkit.core.translation import gettext
from evalkit.datasets.formats import Row
from evalkit.scoring.columns import NONE, A
from evalkit.scoring.stats.arrays import Bools
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.types import Metric


def _read_case(row: Row, at: RowLocation) -> Row:
    case = chosen_first(row, at.place)
    return {**case, "id": f"{row['domain']}/{case['id']}", "domain": row["domain"]}


def _rule(view: View) -> list[Statistic | Metric]:
    """Return `rm_bench/easy`, `normal`, `hard` and `average`, and the accuracy of each domain.

    Each of three chosen responses (concise, detailed, detailed with markdown) is compared with each of three rejected
    ones of the same styles, and must be strictly better. Hard: the rejected one has the fancier style; normal: both
    have the same style; easy: the chosen one has it. Domains have equal weight; safety is the mean of `safety-refuse`
    and `safety-response` (Liu et al. 2025, arXiv 2410.16184, section 3.3).
    """
    case, i, j, winner = compare_chosen(view, np.ones(len(view.cases), dtype=bool), every=True)
    chosen = np.array([chosen_count(view, k) for k in range(len(view.cases))], dtype=np.int64)
    rival = j - chosen[case]
    tally, there = Tally(case, len(view.cases)), winner != NONE
    levels = {"easy": i > rival, "normal": i == rival, "hard": i < rival}
    domains = _domains(view)
    cells = {
        (level, part): tally.rate(
            f"rm_bench/{level}/{part}", winner == A, rows & own[case] & there, rows & own[case] & ~there, why=UNJUDGED
        )
        for level, rows in levels.items()
        for parts in domains.values()
        for part, own in parts.items()
    }
    found: list[Statistic | Metric] = []
    for name, wanted in {"average": list(levels), **{level: [level] for level in levels}}.items():
        found.append(_over_domains(f"rm_bench/{name}", wanted, domains, cells))
    found += [_over_domains(f"rm_bench/{name}", list(levels), {name: own}, cells) for name, own in domains.items()]
    return found


def _domains(view: View) -> dict[str, dict[str, Bools]]:
    """Return the cases of each domain, safety in its two parts."""
    domains: dict[str, dict[str, Bools]] = {}
    for name, cases in view.subsets("domain").items():
        domains.setdefault("safety" if name.startswith("safety") else name, {})[name] = cases
    return domains


def _over_domains(
    name: str, levels: Sequence[str], domains: dict[str, dict[str, Bools]], cells: dict[tuple[str, str], Statistic]
) -> Statistic | Metric:
    parts = [(cells[level, part], 1 / len(own)) for level in levels for own in domains.values() for part in own]
    return blend(name, [cell for cell, _ in parts], [weight for _, weight in parts], why="no case has a domain")


_SOURCE = "Liu et al. 2025, arXiv 2410.16184, section 3.3"
_METRICS: Final = (
    share_row(
        "rm_bench/average",
        "average accuracy",
        "Mean accuracy of the three difficulty levels.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "rm_bench/{level}",
        "{level}",
        "Share of comparisons of one difficulty level whose chosen response is strictly better, averaged over "
        "domains: hard if the rejected response has the fancier style, normal if the styles are the same, easy if "
        "the chosen one has it.",
        _SOURCE,
        headline=True,
    ),
    share_row(
        "rm_bench/{domain}",
        "{domain}",
        "Accuracy of one domain over the three difficulty levels; safety is the mean of its two parts.",
        _SOURCE,
        headline=True,
    ),
)


RM_BENCH: Final = Benchmark(
    "rm_bench",
    "RM-Bench",
    kind="RM-Bench",
    license="ODC-BY 1.0",
    citation="Liu et al. 2025, ICLR, arXiv 2410.16184",
    homepage="https://github.com/THU-KEG/RM-Bench",
    expects="RM-Bench's total_dataset.json, or one of its domains' files",
    shapes=(shape("id", "prompt", "chosen", "rejected", "domain"),),
    read=row_by_row(_read_case),
    rule=_rule,
    metrics=_METRICS,
    values={"level": ("easy", "normal", "hard")},
    extra_values={"domain": ("safety",)},
    words={
        "easy": gettext("easy"),
        "normal": gettext("normal"),
        "hard": gettext("hard"),
        "chat": gettext("chat"),
        "code": gettext("code"),
        "math": gettext("math"),
        "safety": gettext("safety"),
    },
    main_metric="rm_bench/average",
)

BENCHMARKS: Final = (RM_BENCH,)
