"""Verdicts of a cascade: the first judge that is sure enough decides; labeled cases
choose how sure that is.

Each judge has a threshold of certainty, by fixed-sequence testing of its risk with a binomial tail
bound (Jung, Brahman and Choi 2025, Trust or Escalate, arXiv 2407.18370; Bauer 1991, Statist. Med.
10, 871-890). A later judge is tested on the cases that reach it, and `judge.delta` is divided among
the tests. So the agreement of all decided cases is at least `judge.target` with probability 1 -
`judge.delta` over the labels, if the judges' errors are independent given their certainties or the
same cases are difficult for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, exp, lgamma, log, log1p
from typing import Any, Final

import numpy as np

from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import digest
from evalkit.core.splits import is_labeled, without_labels
from evalkit.core.types import Case
from evalkit.scoring import judgments as codes
from evalkit.scoring.columns import (
    ABSTENTION,
    MISSING,
    NONE,
    TIE,
    A,
    B,
    ClassColumns,
    PassColumns,
    VerdictColumns,
)
from evalkit.scoring.judgments import JudgmentColumns
from evalkit.scoring.stats.arrays import Bools, Floats, Ints
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.pairs import pair_margins

WAITING: Final = -1
"""The decider of a unit on which no judge has a verdict, or that the next judge is to decide."""
ABSTAINED: Final = -2
"""The decider of a unit on which the last judge is not sure enough."""
START: Final = 0.2
"""The strictest threshold that is tested is exceeded by this share of the labels: fewer allow
almost no error."""
CANDIDATES: Final = 25

NO_ROWS: Final = np.zeros(0, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Vote:
    """One judge's verdicts on all units of a run.

    Attributes:
        judge: the judge's name.
        answered: (units,) whether it has a verdict, or declines to decide.
        right: (units,) whether the verdict equals the label.
        certainty: (units,) how sure it is, from 0 to 1; NaN without a verdict.
    """

    judge: str
    answered: Bools
    right: Bools
    certainty: Floats


@dataclass(frozen=True, slots=True)
class Step:
    """One judge of a cascade.

    Attributes:
        judge: the judge's name.
        threshold: the least certainty at which it decides; `None` if it never does.
        labels: the number of labels at or above the threshold.
        errors: the number of these labels that differ from the verdict.
        guaranteed: whether the threshold was tested, here or where it was chosen.
    """

    judge: str
    threshold: float | None = None
    labels: int = 0
    errors: int = 0
    guaranteed: bool = True


@dataclass(frozen=True, slots=True)
class Cascade:
    """What decides each unit of a run.

    Attributes:
        steps: the judges that were asked, in order.
        decider: (units,) the index of the deciding judge, or WAITING or ABSTAINED.
        dev: (cases,) the cases whose labels chose the thresholds.
        used: (n,) the judgments that the cascade needs: those of a decider and of the judges before
            it.
    """

    steps: tuple[Step, ...]
    decider: Ints
    dev: Bools
    used: Bools

    @property
    def guaranteed(self) -> Bools:
        """Which units a tested judge decides, (units,)."""
        tested = np.array([*(step.guaranteed for step in self.steps), False, False])
        return np.asarray(tested[self.decider])

    def table(self, judge: JudgeConfig) -> dict[str, Any]:
        """Return the steps as JSON values."""
        rows = [
            {**asdict(step), "decided": int((self.decider == n).sum())}
            for n, step in enumerate(self.steps)
        ]
        abstained = int((self.decider == ABSTAINED).sum())
        facts = {
            "target": judge.target,
            "delta": judge.delta,
            "given": judge.thresholds is not None,
        }
        return {**facts, "steps": rows, "abstained": abstained}

    def fixed(self, config: RunConfig) -> RunConfig:
        """Return a config with these thresholds instead of labels that choose them."""
        threshold_by_judge = {step.judge: step.threshold for step in self.steps}
        return with_thresholds(config, threshold_by_judge)

    def blind(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases without the labels that chose the thresholds."""
        return [
            without_labels(case) if dev else case
            for case, dev in zip(cases, self.dev, strict=True)
        ]

    @classmethod
    def of(
        cls,
        judge: JudgeConfig,
        votes: Mapping[str, Vote],
        chosen: Bools,
        dev: Bools,
        rows: tuple[Ints, Ints] = NO_ROWS,
    ) -> Cascade:
        """Return the cascade of the judges that were asked so far.

        Args:
            judge: the cascade's config.
            votes: the verdicts by judge; a judge that was not asked has none.
            chosen: (units,) the labeled units that choose thresholds, at most one of a cluster.
            dev: (cases,) the cases of their clusters.
            rows: the unit of each judgment, and the index of its judge, both (n,).
        """
        levels = _levels(judge, int(chosen.sum()))
        names = [member.label for member in judge.members]
        # shape (units,): position of the judge that decides the unit, or a negative code
        decider = np.full(len(chosen), WAITING)
        steps = list[Step]()
        for position, (name, level) in enumerate(zip(names, levels, strict=True)):
            if (vote := votes.get(name)) is None:
                break
            # shape (units,): no judge before this one decided them, and this one answered
            reached = (decider == WAITING) & vote.answered
            if level is None:
                # This judge always answers: it decides the rest, and no test supports its verdicts.
                steps.append(Step(name, 0.0, guaranteed=False))
                decider[reached] = position
                break
            if judge.thresholds is not None:
                step = Step(name, judge.thresholds[position])
            else:
                candidates = thresholds(vote.certainty[reached])
                # The test needs independent verdicts: at most one unit of each cluster.
                used = reached & chosen & np.isfinite(vote.certainty)
                step = _last_safe_threshold(
                    name,
                    vote.certainty[used],
                    ~vote.right[used],
                    candidates,
                    1 - judge.target,
                    level,
                )
            steps.append(step)
            if step.threshold is not None:
                decider[reached & (vote.certainty >= step.threshold)] = position
            if position == len(names) - 1:
                decider[reached & (decider == WAITING)] = ABSTAINED
        unit, by = rows
        return cls(
            tuple(steps),
            decider,
            dev,
            # shape (judgments,): those of the decider and of the judges before it
            (decider[unit] < 0) | (by <= decider[unit]),
        )


def with_thresholds(
    config: RunConfig, threshold_by_judge: Mapping[str, float | None]
) -> RunConfig:
    """Return a config with thresholds by judge; a judge without one was never reached,
    and never decides.
    """
    return config.with_(
        {
            "judge.thresholds": tuple(
                threshold_by_judge.get(member.label) for member in config.judge.members
            )
        }
    )


def labels_required(judge: JudgeConfig) -> int:
    """Return the fewest labels that can show the target: all of them right, by chance
    with probability delta.
    """
    return _fewest(judge.delta, 1 - judge.target)


def _fewest(level: float, risk: float) -> int:
    # The smallest n with (1 - risk)**n <= level; 1e-9 is for rounding at an exact power.
    return ceil(log(level) / log1p(-risk) - 1e-9)


def _levels(judge: JudgeConfig, labels: int) -> list[float | None]:
    """Return the level of each judge's test, `None` for a judge that always answers.

    Each has the same share of delta. Where the labels are too few for that, the first judge has all
    of it.
    """
    count = len(judge.members)
    # If the last judge always answers, it has no threshold to test.
    tested = count - (judge.last == "answer")
    few = labels < _fewest(judge.delta / tested, 1 - judge.target)
    shares: list[float | None] = (
        [judge.delta, *[0.0] * (tested - 1)] if few else [judge.delta / tested] * tested
    )
    return shares + [None] * (count - tested)


def thresholds(certainty: Floats) -> Floats:
    """Return the thresholds to test, strictest first; they do not depend on labels."""
    values = np.unique(certainty[np.isfinite(certainty)])
    if len(values) > CANDIDATES:
        spread = np.linspace(0, 1, CANDIDATES)
        # `higher` returns certainties that occur, not numbers between them.
        values = np.unique(
            np.quantile(certainty[np.isfinite(certainty)], spread, method="higher")
        )
    return np.asarray(values[::-1])


def _last_safe_threshold(
    judge: str,
    certainty: Floats,
    wrong: Bools,
    candidates: Iterable[float],
    risk: float,
    level: float,
) -> Step:
    """Return the last threshold of the descending sequence before the first at which
    the risk may be too high.
    """
    step = Step(judge)
    if not level:
        return step
    # With fewer verdicts the test cannot pass even without an error, and would end the sequence.
    fewest = max(_fewest(level, risk), START * len(certainty))
    for threshold in candidates:
        above = certainty >= threshold
        if (n := int(above.sum())) < fewest:
            continue
        errors = int(wrong[above].sum())
        # The sequence ends at the first failure, so that each test may use the whole level.
        if binomial_tail(errors, n, risk) > level:
            break
        step = Step(judge, float(threshold), n, errors)
    return step


def descending_test(
    certainty: Floats,
    wrong: Bools,
    candidates: Iterable[float],
    risk: float,
    level: float,
) -> float | None:
    """Return the lowest threshold at and above which verdicts are wrong no more often
    than `risk`; `None` without one.

    Args:
        certainty: (n,) the certainty of each verdict, independent of the others.
        wrong: (n,) whether it is wrong.
        candidates: the thresholds, strictest first, chosen without the outcomes.
        risk: the largest share of wrong verdicts.
        level: the probability with which the threshold may be wrong.
    """
    return _last_safe_threshold("", certainty, wrong, candidates, risk, level).threshold


def binomial_tail(errors: int, n: int, risk: float) -> float:
    """Return the probability of at most `errors` among `n` if each has the probability `risk`."""
    counts = range(errors + 1)
    # As logs, because binomial coefficients of large n overflow a float.
    logs = (
        lgamma(n + 1)
        - lgamma(k + 1)
        - lgamma(n - k + 1)
        + k * log(risk)
        + (n - k) * log1p(-risk)
        for k in counts
    )
    return sum(map(exp, logs))


def dev_cases(judge: JudgeConfig, cases: Sequence[Case], clusters: Clusters) -> Bools:
    """Return the cases whose labels choose thresholds: a share of the clusters, by the
    hash of the first case's id.

    Given thresholds need no such cases.
    """
    if judge.thresholds is not None:
        return np.zeros(len(cases), dtype=bool)
    chosen = np.array(
        [_hash("dev", case.id) < judge.calibration for case in cases], dtype=bool
    )
    if clusters.number is None:
        return chosen
    # All cases of a cluster follow its first one, so that no cluster is on both sides.
    first = np.unique(clusters.number, return_index=True)[1]
    return np.asarray(chosen[first][clusters.number])


def chosen_units(
    cases: Sequence[Case], case: Ints, labeled: Bools, dev: Bools, clusters: Clusters
) -> Bools:
    """Return one labeled unit of each cluster of the dev cases, by a hash.

    Args:
        cases: the cases.
        case: (units,) the case of each unit.
        labeled: (units,) which units have a label.
        dev: (cases,) the dev cases.
        clusters: the clusters of the cases.
    """
    units = np.flatnonzero(labeled & dev[case])
    # shape (dev units,): the hash of the case and of the unit's number in it
    rank = np.array(
        [
            _hash(
                "unit",
                cases[case[unit]].id,
                int(unit - np.searchsorted(case, case[unit])),
            )
            for unit in units
        ]
    )
    units = units[np.argsort(rank, kind="stable")]
    chosen = np.zeros(len(case), dtype=bool)
    # `np.unique` returns the first row of each cluster, the one with the lowest hash.
    chosen[units[np.unique(clusters.of_rows(case[units]), return_index=True)[1]]] = True
    return chosen


def _hash(*parts: object) -> float:
    return int(digest([*parts])[:8], 16) / 2**32


def check_labels(
    config: RunConfig, cases: Iterable[Case], clusters: Clusters | None = None
) -> None:
    """Refuse a cascade with too few labels to choose a threshold, if labels choose it.

    Raises:
        ConfigError: if there are fewer labeled clusters on the dev side than could show the target.
    """
    if not config.judge.calibrates:
        return
    cases = [*cases]
    clusters = clusters or Clusters.of(config, cases)
    labeled = np.array([is_labeled(case) for case in cases], dtype=bool)
    judge = config.judge
    available = clusters.covered(labeled & dev_cases(config.judge, cases, clusters))
    if available < (needed := labels_required(judge)):
        every = clusters.covered(labeled)
        raise ConfigError(
            f"{available} of the {every} labels choose thresholds"
            f" (judge.calibration={judge.calibration:g}), and judge.target={judge.target:g} with"
            f" judge.delta={judge.delta:g} needs {needed}",
            where="judge.vote=cascade",
            remedy="label more cases, lower judge.target, or raise judge.delta",
        )


def pair_vote(
    config: RunConfig, verdicts: VerdictColumns, judgments: JudgmentColumns
) -> Vote:
    """Return one judge's verdicts on pairs.

    Its certainty is the mean support of its judgments for the verdict: for a winner, their margins
    toward it; for a tie, 1 less their sizes. So both orders, samples and probabilities count. A
    judgment that could not be read gives no support.
    """
    rows = judgments.select(third=False).of_units(2)
    pairs = verdicts.pairs
    # judgment -> its pair
    pair = pairs.rows(rows)
    margin = np.nan_to_num(pair_margins(config, rows))
    winner = verdicts.winner[pair]
    # A margin is positive for A and negative for B.
    support = np.select(
        [winner == A, winner == B, winner == TIE],
        [margin, -margin, 1 - np.abs(margin)],
        0.0,
    )
    count = np.bincount(pair, minlength=len(pairs))
    mean = np.bincount(
        pair, np.where(rows.readable, support, 0.0), len(pairs)
    ) / np.maximum(count, 1)
    certainty = np.where(verdicts.present, np.maximum(mean, 0.0).round(9), np.nan)
    return Vote(verdicts.judge, verdicts.present, verdicts.right, certainty)


def class_vote(columns: ClassColumns, judgments: JudgmentColumns) -> Vote:
    """Return one judge's classes: its certainty is the probability of the class, or the
    share of samples that name it.

    Args:
        columns: the judge's verdicts.
        judgments: its judgments.
    """
    assert judgments.choice is not None  # read with the classes
    # judgment -> its response
    row = columns.rows(judgments)
    same = judgments.readable & (judgments.choice == columns.verdicts[row])
    count = np.bincount(row, minlength=len(columns))
    share = np.bincount(row, same, len(columns)) / np.maximum(count, 1)
    if columns.probabilities is not None:
        named = columns.probabilities[
            np.arange(len(columns)), np.maximum(columns.verdicts, 0)
        ]
        share = np.where(np.isfinite(named), named, share)
    certainty = np.where(columns.present, share.round(9), np.nan)
    return Vote(columns.judge, ~columns.missing, columns.right, certainty)


def decided_pairs(
    name: str,
    cascade: Cascade,
    judgments: JudgmentColumns,
    judge_verdicts: Sequence[VerdictColumns],
) -> VerdictColumns:
    """Return the verdict of each pair's decider, without one if the cascade abstains.

    Args:
        name: the cascade's name.
        cascade: the deciders.
        judgments: all judgments.
        judge_verdicts: the verdicts of each judge that was asked, in order.
    """
    # Index spaces: `pairs`, `judges` (those that were asked, in order) and `judgments`.
    pairs = judge_verdicts[0].pairs
    # shape (pairs,): position of the judge that decides the pair, or a negative code
    decider = cascade.decider
    has_decider = decider >= 0
    abstains = decider == ABSTAINED
    # shape (pairs,): position of the judge whose verdict and passes are shown
    last = _last_asked(judge_verdicts)
    chosen = np.where(has_decider, decider, last)
    without_verdict = {**_NO_WINNER, **_NO_NUMBER, "reason": MISSING}
    columns = _verdicts_of_deciders(
        judge_verdicts, chosen, has_decider, without_verdict
    )
    columns["reason"][abstains] = ABSTENTION
    passes = [
        verdicts.passes for verdicts in judge_verdicts if verdicts.passes is not None
    ]
    pass_columns = _verdicts_of_deciders(passes, chosen, has_decider, _NO_PASS)
    # Whether a pass was asked is known of every pair, decided or not.
    every_pair = np.ones(len(pairs), dtype=bool)
    pass_columns |= _verdicts_of_deciders(passes, chosen, every_pair, {"asked": False})
    # judge of `judgments` -> its position in the cascade, -1 if it was not asked
    positions = {verdicts.judge: n for n, verdicts in enumerate(judge_verdicts)}
    position = np.array([positions.get(judge, -1) for judge in judgments.judges])
    # shape (judgments,): the pair of each, and whether its judge is the one that is shown
    pair = pairs.rows(judgments)
    is_of_chosen = position[judgments.judge] == chosen[pair]
    decisive = is_of_chosen & ~abstains[pair]
    return VerdictColumns(
        pairs,
        judgments=judgments.where(decisive),
        passes=PassColumns(
            **pass_columns,
            both=any(judge_passes.both for judge_passes in passes),
        ),
        panel=name,
        **columns,
    )


def _last_asked(judge_verdicts: Sequence[VerdictColumns]) -> Ints:
    """Return the position of the last judge that was asked about each pair, (pairs,)."""
    pairs = judge_verdicts[0].pairs
    was_asked = []
    for verdicts in judge_verdicts:
        pair = pairs.rows(verdicts.judgments)
        judgments_of_pair = np.bincount(pair, minlength=len(pairs))
        was_asked.append(judgments_of_pair > 0)
    # shape (judges, pairs), the last judge first: `argmax` finds the first that was asked
    reversed_judges = np.array(was_asked)[::-1]
    from_last = np.argmax(reversed_judges, axis=0)
    return np.asarray(len(judge_verdicts) - 1 - from_last)


_NO_WINNER: Final = dict.fromkeys(("lean", "winner", "surer"), NONE)
_NO_NUMBER: Final = dict.fromkeys(("margin", "confidence", "settle"), np.nan)
_NO_PASS: Final = {
    **dict.fromkeys(("winner", "third"), NONE),
    **dict.fromkeys(
        ("margin", "confidence", "third_margin", "third_confidence"), np.nan
    ),
}


def _verdicts_of_deciders(
    columns_by_judge: Sequence[Any],
    chosen: Ints,
    kept: Bools,
    missing: Mapping[str, float],
) -> dict[str, Any]:
    """Return columns of the verdicts of each unit's judge.

    Args:
        columns_by_judge: the verdicts of each judge.
        chosen: (units,) the index of the judge.
        kept: (units,) which units have a verdict.
        missing: the names of the columns, with the value of other units.
    """
    units = np.arange(len(chosen))
    columns = dict[str, Any]()
    for name, value in missing.items():
        # shape (judges, units, ...)
        by_judge = np.stack(
            [getattr(judge_columns, name) for judge_columns in columns_by_judge]
        )
        # shape (units, ...)
        column = by_judge[chosen, units]
        column[~kept] = value
        columns[name] = column
    return columns


def decided_classes(
    cascade: Cascade, name: str, judge_verdicts: Sequence[ClassColumns]
) -> ClassColumns:
    """Return the class of each response by its decider, an abstention if the cascade abstains."""
    decider = cascade.decider
    missing = {"verdicts": codes.MISSING, "chances": np.nan}
    # A negative code would index a judge from the end; `_verdicts_of_deciders` blanks these units.
    columns = _verdicts_of_deciders(
        judge_verdicts, np.maximum(decider, 0), decider >= 0, missing
    )
    columns["verdicts"][decider == ABSTAINED] = codes.ABSTAINED
    return judge_verdicts[0].with_verdicts(
        name,
        **columns,
        votes={verdicts.judge: verdicts.verdicts for verdicts in judge_verdicts},
    )
