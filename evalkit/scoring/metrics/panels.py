"""Several judges: whether those of a panel agree and err on the same units, and which
of a cascade decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.core.values import JsonObject, frozen
from evalkit.scoring.columns import TIE, A, B, ClassColumns, Units, VerdictColumns
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.metrics.rates import case_totals, reason_rate
from evalkit.scoring.stats.arrays import Bools, Floats, Ints, divide
from evalkit.scoring.stats.bounded_intervals import PseudoCounts, mixed
from evalkit.scoring.stats.coefficients import Confusion, alpha_of_numbers
from evalkit.scoring.stats.statistic import Statistic, Table, Tabled, Tally
from evalkit.scoring.verdicts.cascade import ABSTAINED, WAITING, Cascade, Step
from evalkit.scoring.verdicts.panel import metric_part

ALONE: Final = "no unit was judged by two judges"
NO_LABEL: Final = "no unit has a label: the judges' errors are unknown"
UNREAD: Final = "no labeled unit was judged by two judges"
ALIKE: Final = "no judge is right on some units and wrong on others"
NO_OTHERS: Final = (
    "no unit was judged by a third judge, from whom two judges could differ"
)
NEVER: Final = "no two judges differ from the others on some units only"
ERRORS: Final = "panel/error_correlation"
VOTES: Final = "panel/effective_votes"
DISAGREEMENT: Final = "panel/disagreement_correlation"


@frozen
class PanelVotes:
    """What each judge of a panel answered, and what would have been right.

    Attributes:
        values: (judges, units) codes of winners or classes, or scores; NaN without an answer.
        truth: (units,) labels or grades on the same scale, NaN without one.
        tally: the case of each unit.
        numbers: whether the values are numbers and not codes.
    """

    values: Floats
    truth: Floats
    tally: Tally
    numbers: bool

    @classmethod
    def of(cls, panel: Units, judge_verdicts: Sequence[Units]) -> PanelVotes:
        """Return the codes of the judges' verdicts on the units of a panel."""
        cast = [
            np.where(judge.present, judge.codes, np.nan) for judge in judge_verdicts
        ]
        return cls(
            np.stack(cast),
            np.where(panel.labeled, panel.truth, np.nan),
            panel.tally,
            numbers=False,
        )

    def off(self, reference: Floats) -> Floats:
        """Return the difference of each vote from a reference (units,): of codes,
        whether they differ.
        """
        difference = self.values - reference
        if self.numbers:
            return difference
        return np.where(np.isnan(difference), np.nan, difference != 0)

    def of_others(self, judges: Ints) -> Floats:
        """Return the vote of all other judges, (units,): the most frequent code or the
        mean; NaN without one.
        """
        other_values = np.delete(self.values, judges, axis=0)
        if self.numbers:
            return divide(
                np.nansum(other_values, axis=0),
                np.isfinite(other_values).sum(axis=0, dtype=np.float64),
            )
        levels = np.unique(other_values[np.isfinite(other_values)])
        # shape (levels, units)
        counts = (other_values == levels[:, None, None]).sum(axis=1)
        first = (counts == counts.max(axis=0, initial=0)) & (counts > 0)
        return np.where(
            first.sum(axis=0) == 1, levels @ first if len(levels) else np.nan, np.nan
        )


def panel_statistics(
    scale: Scale, verdicts: VerdictColumns, judges: Sequence[VerdictColumns]
) -> list[Statistic]:
    """Return the agreement of the judges on winners or scores, and the correlation of their errors.

    Args:
        scale: the scale of the scores.
        verdicts: the panel's verdicts.
        judges: the verdicts of each judge.
    """
    panel = verdicts
    winners = PanelVotes.of(verdicts, judges)
    if panel.passes is not None or panel.scores is None:
        agreement = vote_agreement(winners, judges, (A, TIE, B), "pairs")
        return [
            *agreement,
            reason_rate(panel, "tie_rate/split"),
            *shared_errors(winners),
        ]
    scores = np.stack(
        [judge.scores.raw for judge in judges if judge.scores is not None]
    )
    has_score = np.isfinite(scores)
    # shape (judges, units)
    unit = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    tally = panel.scores.tally
    grade = panel.scores.grade
    alpha = alpha_of_numbers(
        "panel/alpha", scores[has_score], unit[has_score], tally, **_votes(has_score)
    )
    graded = grade[np.isfinite(grade)]
    if not len(graded) and panel.labeled.any():
        return [alpha, *shared_errors(winners)]
    why = panel.scores.off_scale(scale)
    truth = np.full(len(grade), np.nan) if why else grade
    votes = PanelVotes(scores, truth, tally, numbers=True)
    return [alpha, *shared_errors(votes, why if len(graded) else NO_LABEL)]


def class_panel_statistics(
    classes: ClassColumns, judges: Sequence[ClassColumns]
) -> list[Statistic]:
    """Return the agreement of the judges on classes, and the correlation of their
    errors; abstentions are no votes.

    Args:
        classes: the panel's verdicts.
        judges: the verdicts of each judge.
    """
    votes = PanelVotes.of(classes, judges)
    return [
        *vote_agreement(votes, judges, range(len(classes.names)), "responses"),
        *shared_errors(votes),
    ]


def vote_agreement(
    votes: PanelVotes,
    judge_verdicts: Sequence[Units],
    classes: Sequence[int],
    units: str,
) -> list[Statistic]:
    """Return `panel/alpha` and `panel/unanimous`, how often all votes for a class agree
    if there are at least two.

    Args:
        votes: the votes.
        judge_verdicts: the verdicts of each judge.
        classes: the codes of the classes; other votes are for none of them.
        units: the name of the units in notes.
    """
    # shape (units, classes)
    counts = np.stack(
        [(votes.values == code).sum(axis=0) for code in classes], axis=1
    ).astype(np.float64)
    is_read = ~np.stack([judge.missing for judge in judge_verdicts])
    size = counts.sum(axis=1)
    several = size > 1
    same = counts.max(axis=1) == size
    note = f"of the {units} with at least two votes"
    why = "nothing to count" if several.any() else ALONE
    return [
        *Confusion.among(counts, votes.tally).coefficients(
            "panel", "panel", **_votes(is_read)
        ),
        votes.tally.rate(
            "panel/unanimous", same, several, ~several, note=note, why=why
        ),
    ]


def _votes(is_read: Bools) -> JsonObject:
    """Return the attributes of alpha, given which votes (judges, units) could be read."""
    several = is_read.sum(axis=0) > 1
    return {
        "n": int(is_read[:, several].sum()),
        "missing": int((~is_read).sum()),
        "note": None if is_read.all() else "missing votes are omitted and not bounded",
        "why": "all votes are equal" if several.any() else ALONE,
    }


def shared_errors(votes: PanelVotes, unlabeled: str = NO_LABEL) -> list[Statistic]:
    """Return the correlation of the judges' errors, their number of effective votes,
    and of their disagreement.

    The correlation is the mean covariance of two judges' errors over the mean variance of a
    judge's. With it, the mean of n votes has the variance of that of n / (1 + (n - 1) correlation)
    independent votes (Kish 1965, Survey Sampling, section 5.4, the design effect; Clemen and
    Winkler 1985, Oper. Res. 33, 427-442, on dependent experts). A negative correlation counts as 0
    there, so it is at most n.

    Without labels there are no errors: `panel/disagreement_correlation` is that of how two judges
    differ from the vote of the others, whose own errors raise it.

    Args:
        votes: the votes.
        unlabeled: why there are no errors if no unit has a label.
    """
    judges = len(votes.values)
    labeled = np.isfinite(votes.truth)
    # shape (pairs of judges, 2)
    pairs = np.stack(np.triu_indices(judges, 1), axis=1)
    # shape (pairs of judges, 2, units)
    errors = votes.off(votes.truth)[pairs]
    apart = np.reshape(
        [votes.off(votes.of_others(pair))[pair] for pair in pairs], errors.shape
    )
    why = UNREAD if labeled.any() else unlabeled
    why = ALONE if judges < 2 else why
    shared = _error_correlation(ERRORS, errors, labeled, votes, (why, ALIKE))
    effective = partial(effective_votes, judges)
    reach = mixed(
        effective, shared.table.sums, _unlike(errors, judges), float(shared.n)
    )
    disagreement = _error_correlation(
        DISAGREEMENT,
        apart,
        np.ones(len(labeled), dtype=bool),
        votes,
        (NO_OTHERS, NEVER),
    )
    counted = replace(
        shared, name=VOTES, value=effective, reach=reach, limits=(1.0, float(judges))
    )
    return [shared, counted, disagreement]


def _error_correlation(
    name: str, errors: Floats, possible: Bools, votes: PanelVotes, why: tuple[str, str]
) -> Statistic:
    """Return the correlation of two judges' errors, pooled over the pairs of judges.

    Few errors make resamples too alike, so the interval of codes adds a unit in which one judge
    errs, and a half in which all do and in which none does (see `PseudoCounts`; checked by
    simulation).

    Args:
        name: the metric's name.
        errors: (pairs, 2, units) the errors of two judges, NaN if unknown.
        possible: (units,) which units can have errors.
        votes: the votes.
        why: why there is no value, without units and without errors.
    """
    judges = len(votes.values)
    both_known = np.asarray(np.isfinite(errors).all(axis=1))
    x, y = np.where(both_known[:, None], errors, 0.0).swapaxes(0, 1)
    # shape (pairs of judges * 5, units): the sums of a pair are side by side
    columns = np.stack(_sums(both_known, x, y), axis=1).reshape(-1, len(possible))
    table = Table.of(votes.tally.columns(*columns) or np.zeros((votes.tally.cases, 0)))
    n = int(both_known.any(axis=0).sum())
    rows = _unlike(errors, judges)
    missing = int((possible & ~both_known.all(axis=0)).sum()) if n else 0
    units = np.tile([1.0 / max(1, len(errors)), 0.0, 0.0, 0.0, 0.0], len(errors))
    pseudo = PseudoCounts(rows, np.array([*[1 / judges] * judges, 0.5, 0.5]), units)
    return Statistic(
        name,
        table,
        error_correlation,
        n=n,
        missing=missing,
        note="missing votes are omitted and not bounded" if missing else None,
        why=why[bool(n)],
        reach=mixed(error_correlation, table.sums, rows, float(n)),
        pseudo=None if votes.numbers else pseudo,
    )


def _sums(counted: Bools | Floats, x: Floats, y: Floats) -> list[Floats]:
    return [counted.astype(np.float64), x, y, x * x + y * y, x * y]


def _unlike(errors: Floats, judges: int) -> Floats:
    """Return what a unit adds to the columns if only one of the judges errs, if all do,
    and if none does.
    """
    largest = float(np.nanmax(np.abs(errors), initial=0.0)) or 1.0
    wrong: Floats = largest * np.concatenate(
        [np.eye(judges), np.ones((1, judges)), np.zeros((1, judges))]
    )
    x, y = (wrong[:, side] for side in np.triu_indices(judges, 1))
    return np.asarray(
        np.stack(_sums(np.ones(x.shape), x, y), axis=2).reshape(len(x), 5 * x.shape[1])
    )


def error_correlation(totals: Floats) -> Floats:
    """Return the mean covariance over the mean variance of totals (rows, 5 for each
    pair of judges); NaN without one.

    They are the number of units and the sums of x, y, x² + y² and xy of the errors x and y of two
    judges.
    """
    n, x, y, squares, products = np.moveaxis(
        totals.reshape(len(totals), totals.shape[1] // 5, 5), 2, 0
    )
    covariance = divide(n * products - x * y, n * n)
    variance = divide(n * squares - x * x - y * y, 2 * n * n)
    total = np.nansum(variance, axis=1)
    return divide(np.nansum(covariance, axis=1), np.where(total > 1e-12, total, 0.0))


def effective_votes(judges: int, totals: Floats) -> Floats:
    """Return the number of independent votes that as many `judges` amount to, from the
    totals of their errors.
    """
    return judges / (1 + (judges - 1) * np.clip(error_correlation(totals), 0.0, 1.0))


UNTESTED: Final = (
    "only the verdicts that the guarantee is about: "
    "the last judge answers the others without it"
)
REST: Final = "answers whatever is left"
GIVEN: Final = ", by judge.thresholds"


def cascade_statistics(
    config: RunConfig, cascade: Cascade, answers: Units, judgments: JudgmentColumns
) -> Tabled:
    """Return `cascade/share/JUDGE`, `cascade/abstained`, `cascade/accuracy`,
    `cascade/cost_ratio`, and the deciders.

    Args:
        config: the run's config.
        cascade: the deciders.
        answers: the verdicts of the cascade, whose labels chose no threshold.
        judgments: all judgments.
    """
    tally = answers.tally
    waiting = cascade.decider == WAITING
    fixed = config.judge.thresholds is not None
    shares = [
        tally.rate(
            f"cascade/share/{metric_part(step.judge)}",
            cascade.decider == n,
            ~waiting,
            waiting,
            note=_step_note(step, fixed=fixed),
        )
        for n, step in enumerate(cascade.steps)
    ]
    tested = answers.labeled & cascade.guaranteed
    note = UNTESTED if config.judge.last == "answer" else None
    why = "no label that chose no threshold was decided"
    statistics = [
        *shares,
        tally.rate(
            "cascade/abstained", cascade.decider == ABSTAINED, ~waiting, waiting
        ),
        tally.rate("cascade/accuracy", answers.right, tested, note=note, why=why),
        _cost_ratio(config, judgments),
    ]
    return statistics, {"cascade": cascade.table(config.judge)}


def _step_note(step: Step, *, fixed: bool) -> str:
    """Return when a step of a cascade decides, and whether its error is guaranteed."""
    if not step.guaranteed:
        return REST
    if fixed and step.threshold is None:
        return f"never decides{GIVEN}"
    if fixed:
        return f"where its certainty is at least {step.threshold:.3g}{GIVEN}"
    if step.threshold is None:
        return "never sure enough: the labels show no threshold at which it meets the target"
    return (
        f"where its certainty is at least {step.threshold:.3g}: {step.errors} of {step.labels}"
        " labels differ"
    )


def _cost_ratio(config: RunConfig, judgments: JudgmentColumns) -> Statistic:
    """Return the cost of all answers, relative to that of the last judge alone at its
    mean cost per case asked.
    """
    every, priced = case_totals(judgments, "cost")
    last, last_priced = case_totals(
        judgments.select(config.judge.members[-1].label), "cost"
    )
    # shape (cases, 4): cost and priced of all answers, then of the last judge's
    columns = np.stack(
        [
            np.where(priced, every, 0.0),
            priced,
            np.where(last_priced, last, 0.0),
            last_priced,
        ],
        axis=1,
    )
    # There is no largest cost. Where all are equal, a case is assumed to cost at most as much as
    # all together.
    most = columns[:, 0].sum()
    most_last = columns[:, 2].sum()
    reach = np.array(
        [[0, 1, 0, 0], [most, 1, 0, 0], [most_last, 1, most_last, 1]], dtype=np.float64
    )

    def value(totals: Floats) -> Floats:
        return divide(
            divide(totals[:, 0], totals[:, 1]), divide(totals[:, 2], totals[:, 3])
        )

    return Statistic(
        "cascade/cost_ratio",
        columns.astype(np.float64),
        value,
        n=int(priced.sum()),
        missing=int((~priced).sum()),
        covered=np.asarray(priced),
        reach=reach,
        why="the last judge was not asked, or its answers are free or have no price",
    )
