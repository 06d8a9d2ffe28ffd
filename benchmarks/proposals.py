"""Criteria proposed on labels of noise: how often `evalkit align RUN tune=criteria`
keeps one that adds nothing.

    uv run python benchmarks/proposals.py [RUNS] [LABELS] [PROPOSALS]

Labels are one of two classes at random. Whatever the criteria, the judge answers at random: by its
own criteria always the same class in half of the runs. It exits with 1 if more than 5% of the
searches keep a criterion, or the upper end of the 95% interval is above 7%. 200 searches take some
minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import binomtest

from evalkit.alignment.calls import Asking
from evalkit.alignment.criteria import Proposals
from evalkit.alignment.search import Side
from evalkit.config import RunConfig
from evalkit.config.align import AlignConfig
from evalkit.core.types import Case, Judgment, Response
from evalkit.runs.results import RunResult
from evalkit.scoring.decision import CLASSES

HIGHEST, UPPER = 0.05, 0.07
NAMES = ("pass", "fail")


@dataclass
class RandomAsking(Asking):
    """A model that proposes criteria with numbers, and a judge whose answers do not
    depend on them.
    """

    generator: Any = None
    proposals: int = 6

    def write(self, prompts: Any, read: Any) -> list[Judgment]:
        """Return an answer with numbered criteria."""
        criteria = [
            {"name": f"c{k}", "description": f"criterion {k}"}
            for k in range(self.proposals)
        ]
        return [
            Judgment(
                "prompt", (0,), (0,), 0, "writer", "ok", answer={"criteria": criteria}
            )
        ]

    def answer(
        self, config: RunConfig, side: Side, templates: Mapping[str, str]
    ) -> Side:
        """Return a side with random answers."""
        return answered(side, self.generator, 0.5)


def answered(side: Side, generator: np.random.Generator, share: float) -> Side:
    """Return a side with random answers, this share of them the first class."""
    names = [NAMES[int(one >= share)] for one in generator.random(len(side.cases))]
    given = zip(side.cases, names, strict=True)
    return replace(
        side,
        judgments=[
            Judgment(c.id, (0,), (0,), 0, "m", "ok", class_name=name)
            for c, name in given
        ],
    )


def keeps(seed: int, labels: int, proposals: int) -> bool:
    """Return whether a search keeps a criterion."""
    generator = np.random.default_rng(seed)
    settings: dict[str, Any] = {
        "judge": {"model": "m"},
        "criteria": {"quality": ""},
        "mode": {"name": "pointwise"},
    }
    config = RunConfig.model_validate(
        {
            **settings,
            "swap": {"policy": "none"},
            "rubric": {"classes": dict.fromkeys(NAMES, "")},
        }
    )
    classes = [str(one) for one in generator.choice(NAMES, labels)]
    cases = [
        Case(f"c{k}", f"q{k}", (Response("r", class_name=name),))
        for k, name in enumerate(classes)
    ]
    side = answered(Side(cases, ()), generator, float(generator.choice([0.5, 1.0])))
    asking = RandomAsking(
        RunResult(None, config, {}, cases, [], [], {}),
        1.0,
        generator=generator,
        proposals=proposals,
    )
    tune = AlignConfig.model_validate(
        {
            "tune": "criteria",
            "criteria": "none.yaml",
            "budget_usd": 1,
            "proposals": proposals,
        }
    )
    search = Proposals(
        asking.result,
        CLASSES,
        "agreement/accuracy",
        asking,
        tune,
        side,
        side,
        lambda _: None,
    )
    return bool(search.search().settings)


def main(runs: int = 200, labels: int = 84, proposals: int = 6) -> int:
    """Print how many searches keep a criterion, and return 1 if they are too many."""
    kept = sum(keeps(seed, labels, proposals) for seed in range(runs))
    upper = binomtest(kept, runs).proportion_ci(method="exact").high
    print(
        f"kept one of {proposals} in {kept / runs:.1%} of {runs} searches on {labels} labels, at"
        f" most {upper:.1%}"
    )
    return int(kept > HIGHEST * runs or upper > UPPER)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
