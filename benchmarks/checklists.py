"""Coverage of the intervals of checklist metrics on simulated judges: `python
benchmarks/checklists.py`.

Each response has a quality, each of its six items is met with that probability, and annotators
label every item. The judge is right on an item with probability 0.85, an answer is missing with
probability 0.02, and asked together it follows most items of the response with probability 0.2. The
true values are those of 20,000 cases.
"""

from __future__ import annotations

import random
import sys

from evalkit import load_config
from evalkit.core.checklists import read_items as read_checklist
from evalkit.core.types import Case, ItemAnswer, Judgment, Response
from evalkit.scoring.metrics.checklists import checklist_statistics, halo_statistic
from evalkit.scoring.stats.bootstrap import measure
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.stats.statistic import Statistic
from evalkit.scoring.verdicts.checklists import ItemColumns, read_items

POINTS = (5, 3, 2, 1, -4, 2)
ACCURACY, MISSING, HALO = 0.85, 0.02, 0.2
LARGE = 20_000
NAMES = (
    "score/mean",
    "score/unclipped",
    "checklist/met_rate",
    "checklist/required_rate",
    "checklist/accuracy",
)
NAMES += ("checklist/kappa", "checklist/tpr", "checklist/tnr", "checklist/halo")


def simulate(size: int, seed: int) -> tuple[ItemColumns, ItemColumns]:
    """Return the items asked one by one and together."""
    draw = random.Random(seed)
    cases = []
    alone = []
    together = []
    for number in range(size):
        quality = draw.betavariate(4, 1.2)
        truth = [
            draw.random() < (quality if points > 0 else 1 - quality)
            for points in POINTS
        ]
        items = [
            {
                "id": str(k),
                "criterion": "x",
                "points": points,
                "required": k == 0,
                "label": met,
            }
            for k, (points, met) in enumerate(zip(POINTS, truth, strict=True))
        ]
        case = Case(
            str(number), str(number), (Response("r"),), checklist=read_checklist(items)
        )
        cases.append(case)
        most = sum(truth) > 3
        for judgments, halo in ((alone, 0.0), (together, HALO)):
            answers: dict[str, ItemAnswer | None] = {}
            for k, met in enumerate(truth):
                said = (
                    most if draw.random() < halo else met == (draw.random() < ACCURACY)
                )
                answers[str(k)] = (
                    None if draw.random() < MISSING else "met" if said else "not_met"
                )
            judgments.append(
                Judgment(case.id, (0,), (0,), 0, "judge", "ok", items=answers)
            )
    return read_items(cases, alone, "points")[0], read_items(cases, together, "points")[
        0
    ]


def statistics(alone: ItemColumns, together: ItemColumns) -> dict[str, Statistic]:
    """Return the metrics by name."""
    found = [*checklist_statistics(alone, "points"), halo_statistic(alone, together)]
    return {
        one.name: one
        for one in found
        if isinstance(one, Statistic) and one.name in NAMES
    }


def main(runs: int) -> None:
    """Print the share of intervals that contain the true value, by number of cases."""
    print("## Checklists\n")
    scoring = load_config(overrides=["scoring.bootstrap=1000"]).scoring
    true = {
        name: one.observed() for name, one in statistics(*simulate(LARGE, -1)).items()
    }
    print(
        f"| metric | {' | '.join(f'{size} cases' for size in SIZES)} |\n| ---"
        f" |{' --- |' * len(SIZES)}"
    )
    shares: dict[str, list[str]] = {name: [] for name in NAMES}
    for size in SIZES:
        hits = dict.fromkeys(NAMES, 0)
        for seed in range(runs):
            found = measure(
                [*statistics(*simulate(size, seed)).values()],
                scoring,
                Clusters.each(size),
            )
            for name in NAMES:
                low = found[name].low
                high = found[name].high
                hits[name] += (
                    low is not None and high is not None and low <= true[name] <= high
                )
        for name in NAMES:
            shares[name].append(f"{100 * hits[name] / runs:.1f}%")
    for name in NAMES:
        print(f"| {name} | {' | '.join(shares[name])} |")
    print()


SIZES = (50, 200)
if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
