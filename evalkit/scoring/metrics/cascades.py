"""Metrics of a cascade: who decides, the agreement behind its guarantee, and the cost against the last judge alone."""

from __future__ import annotations

import numpy as np

from evalkit.config import RunConfig
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.metrics.rates import case_totals
from evalkit.scoring.stats.arrays import Bools, Floats, divide
from evalkit.scoring.stats.bootstrap import Statistic, Tally
from evalkit.scoring.verdicts.cascade import ABSTAINED, WAITING, Cascade, Step
from evalkit.scoring.verdicts.panel import metric_part

UNTESTED = "only the verdicts that the guarantee is about: the last judge answers the others without it"
REST = "answers whatever is left"
GIVEN = ", by judge.thresholds"


def cascade_statistics(
    config: RunConfig, cascade: Cascade, tally: Tally, labeled: Bools, right: Bools, judgments: JudgmentColumns
) -> list[Statistic]:
    """Return `cascade/share/JUDGE`, `cascade/abstained`, `cascade/accuracy` and `cascade/cost_ratio`.

    Args:
        config: the run's config.
        cascade: the deciders.
        tally: the case of each unit.
        labeled: (units,) which units have a label that chose no threshold.
        right: (units,) which verdicts equal their label.
        judgments: all judgments.
    """
    waiting, given = cascade.decider == WAITING, config.judge.thresholds is not None
    shares = [
        tally.rate(
            f"cascade/share/{metric_part(step.judge)}",
            cascade.decider == n,
            ~waiting,
            waiting,
            note=_note(step, given=given),
        )
        for n, step in enumerate(cascade.steps)
    ]
    decided = cascade.guaranteed
    note = UNTESTED if config.judge.last == "answer" else None
    return [
        *shares,
        tally.rate("cascade/abstained", cascade.decider == ABSTAINED, ~waiting, waiting),
        tally.rate(
            "cascade/accuracy", right, labeled & decided, note=note, why="no label that chose no threshold was decided"
        ),
        _cost_ratio(config, judgments),
    ]


def _note(step: Step, *, given: bool) -> str:
    if not step.guaranteed:
        return REST
    if given and step.threshold is None:
        return f"never decides{GIVEN}"
    if given:
        return f"where its certainty is at least {step.threshold:.3g}{GIVEN}"
    if step.threshold is None:
        return "never sure enough: the labels show no threshold at which it meets the target"
    return f"where its certainty is at least {step.threshold:.3g}: {step.errors} of {step.labels} labels differ"


def _cost_ratio(config: RunConfig, judgments: JudgmentColumns) -> Statistic:
    """Return the cost of all answers, relative to that of the last judge alone at its mean cost per case asked."""
    every, known = case_totals(judgments, "cost")
    last, asked = case_totals(judgments.select(config.judge.members[-1].label), "cost")
    columns = np.stack([np.where(known, every, 0.0), known, np.where(asked, last, 0.0), asked], axis=1)
    # There is no largest cost. Where all are equal, a case is assumed to cost at most as much as all together.
    most, most_last = columns[:, 0].sum(), columns[:, 2].sum()
    reach = np.array([[0, 1, 0, 0], [most, 1, 0, 0], [most_last, 1, most_last, 1]], dtype=np.float64)

    def value(totals: Floats) -> Floats:
        return divide(divide(totals[:, 0], totals[:, 1]), divide(totals[:, 2], totals[:, 3]))

    return Statistic(
        "cascade/cost_ratio",
        columns.astype(np.float64),
        value,
        n=int(known.sum()),
        missing=int((~known).sum()),
        covered=np.asarray(known),
        reach=reach,
        why="the last judge was not asked, or its answers are free or have no price",
    )
