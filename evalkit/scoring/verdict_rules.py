"""How judgments become verdicts: winners, scores, classes or answers to items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.scale import Classes
from evalkit.core.types import Case, ItemVerdict, Judgment, Unit
from evalkit.core.values import frozen
from evalkit.scoring.columns import ClassColumns, PairColumns, VerdictColumns, all_pairs
from evalkit.scoring.judgments import JudgmentColumns, of_one_judge, read_judgments
from evalkit.scoring.metrics.classes import SHARE
from evalkit.scoring.metrics.refits import (
    FittedVote,
    fitted_classes,
    fitted_pairs,
)
from evalkit.scoring.stats.bounded_intervals import PseudoCounts
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.cascade import (
    WAITING,
    Cascade,
    Vote,
    chosen_units,
    class_vote,
    decided_classes,
    decided_pairs,
    dev_cases,
    pair_vote,
)
from evalkit.scoring.verdicts.classes import labeled_responses, vote_panel, vote_samples
from evalkit.scoring.verdicts.pairs import (
    aggregate_notes,
    resolve_pairs,
    settled,
    use_expectations,
)
from evalkit.scoring.verdicts.panel import (
    Panel,
    vote,
)
from evalkit.scoring.verdicts.pointwise import (
    compare_scores,
    control_length,
    score_lists,
    score_responses,
)
from evalkit.scoring.verdicts.verdict_objects import (
    Verdicts,
    class_verdict_objects,
    verdict_objects,
)


@frozen
class VerdictRules:
    """How judgments become verdicts of one kind.

    Attributes:
        config: the config with its settled rules.
        cases: the cases.
        units: the pairs or responses of the cases.
        resolve: maps one judge's judgments to its verdicts.
        vote: maps a panel, all judgments and the verdicts of its judges to those of the panel.
        decide: maps a cascade, all judgments and the verdicts of its judges to those of the
            cascade.
        certainty: maps a judge's verdicts and judgments to how sure it is of each verdict.
        objects: maps verdicts, those of each judge by name and the cascade to `Verdict` objects.
        refit: maps a panel, its verdicts and those of its judges to the vote that is fitted again;
            `None` without one.
        notes: how settings were interpreted.
        pseudo: what the intervals of shares of right verdicts add to resampled totals.
    """

    config: RunConfig
    cases: Sequence[Case]
    units: PairColumns | ClassColumns
    resolve: Callable[[JudgmentColumns], Any]
    vote: Callable[[Panel, JudgmentColumns, Sequence[Any]], Any]
    decide: Callable[[Cascade, JudgmentColumns, Sequence[Any]], Any]
    certainty: Callable[[Any, JudgmentColumns], Vote]
    objects: Callable[[Any, Mapping[str, Any], Cascade | None], Verdicts]
    refit: Callable[[Panel, Any, Sequence[Any]], FittedVote] | None
    notes: tuple[str, ...] = ()
    pseudo: PseudoCounts | None = None


def _score_and_pair_rules(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    items: Sequence[tuple[ItemVerdict, ...]],
) -> VerdictRules:
    """Return how pairs, lists or scored responses are compared."""
    notes = aggregate_notes(config, judgments)
    config = settled(config, judgments)
    pairs = all_pairs(cases)
    return VerdictRules(
        config,
        cases,
        pairs,
        resolve=lambda selected: resolve_comparisons(config, cases, selected, pairs),
        vote=partial(vote, config, cases),
        decide=partial(decided_pairs, config.judge.label),
        certainty=partial(pair_vote, config),
        objects=partial(verdict_objects, cases, config.scoring.combine, items),
        refit=fitted_pairs if config.tie.allow else None,
        notes=notes,
    )


def _class_rules(
    config: RunConfig, cases: Sequence[Case], classes: Classes
) -> VerdictRules:
    """Return how the classes of responses are chosen."""
    responses = labeled_responses(classes, cases)
    name = config.judge.label
    return VerdictRules(
        config,
        cases,
        responses,
        resolve=partial(vote_samples, responses, cases),
        vote=lambda panel, _, judges: vote_panel(responses, panel, name, judges),
        decide=lambda cascade, _, judges: decided_classes(cascade, name, judges),
        certainty=class_vote,
        objects=partial(class_verdict_objects, cases),
        refit=fitted_classes,
        pseudo=SHARE,
    )


def judgment_columns(
    config: RunConfig, cases: Sequence[Case], judgments: Iterable[Judgment]
) -> JudgmentColumns:
    """Return judgments as columns, with a column for each criterion and the names of classes."""
    return read_judgments(
        cases, judgments, [*config.weights()], config.rubric.named_classes
    )


def rules_of(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    items: Sequence[tuple[ItemVerdict, ...]] = (),
) -> VerdictRules:
    """Return how a run's judgments become verdicts: choices of classes, or comparisons
    and scores.
    """
    classes = config.rubric.named_classes
    if classes is None:
        return _score_and_pair_rules(config, cases, judgments, items)
    return _class_rules(config, cases, classes)


def resolve_comparisons(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: JudgmentColumns,
    pairs: PairColumns,
) -> VerdictColumns:
    """Return the verdicts from one judge's judgments of single responses, pairs or lists.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: the judgments.
        pairs: the pairs of the cases.

    Raises:
        ConfigError: if the judgments do not belong to the cases or lack what the settings require.
    """
    if by_score(config, judgments):
        single = of_one_judge(cases, judgments, pairs.sizes, 1)
        scored = control_length(config, cases, score_responses(config, cases, single))
        return compare_scores(config, cases, single, scored, pairs)
    regular, thirds = (
        of_one_judge(cases, judgments.select(third=third), pairs.sizes, 2)
        for third in (False, True)
    )
    verdicts = resolve_pairs(config, cases, regular, pairs, thirds)
    ranks = of_one_judge(cases, judgments, pairs.sizes, 1)
    if len(ranks):
        return replace(verdicts, scores=score_lists(config, cases, ranks), ranks=ranks)
    return verdicts


def cascade_of(
    config: RunConfig,
    cases: Sequence[Case],
    judgments: Iterable[Judgment],
    clusters: Clusters,
) -> Cascade:
    """Return what decides each pair or response, by the judges that were asked so far.

    Args:
        config: the config of a cascade.
        cases: the cases.
        judgments: the judgments so far.
        clusters: the clusters of the cases.

    Raises:
        ConfigError: as `score_run`.
    """
    columns = use_expectations(config, judgment_columns(config, cases, judgments))
    rules = rules_of(config, cases, columns)
    dev = dev_cases(config.judge, cases, clusters)
    members = [member.label for member in config.judge.members]
    votes = dict[str, Vote]()
    for name in members:
        if name in columns.by:
            judged = columns.select(name)
            votes[name] = rules.certainty(rules.resolve(judged), judged)
    # judge of the columns -> its position among the members
    by = np.array(
        [members.index(name) if name in members else 0 for name in columns.judges],
        dtype=np.int64,
    )
    chosen = chosen_units(cases, rules.units.case, rules.units.labeled, dev, clusters)
    return Cascade.of(
        config.judge, votes, chosen, dev, (rules.units.rows(columns), by[columns.judge])
    )


def calibrated(
    config: RunConfig, cases: Sequence[Case], judgments: Iterable[Judgment]
) -> RunConfig:
    """Return the config of a cascade with the thresholds that labels choose, by the
    judges that were asked so far.
    """
    if not config.judge.calibrates:
        return config
    case_ids = {case.id for case in cases}
    judged = [judgment for judgment in judgments if judgment.case_id in case_ids]
    return cascade_of(config, cases, judged, Clusters.of(config, cases)).fixed(config)


def escalated(
    config: RunConfig, cases: Sequence[Case], judgments: Iterable[Judgment]
) -> frozenset[tuple[str, Unit]]:
    """Return the pairs or responses that no judge of a cascade has decided so far, each
    by case id and indices.
    """
    cascade = cascade_of(config, cases, judgments, Clusters.of(config, cases))
    size = 1 if config.rubric.classes else 2
    # in the order of the cascade's units
    units = [
        (case.id, unit)
        for case in cases
        for unit in combinations(range(len(case.responses)), size)
    ]
    return frozenset(
        units[unit] for unit in np.flatnonzero(cascade.decider == WAITING).tolist()
    )


def by_score(config: RunConfig, judgments: JudgmentColumns) -> bool:
    """Return whether single responses were judged; a third-party mode is identified by
    the units of its judgments.

    Raises:
        ConfigError: if some judgments are of single responses and others are not.
    """
    sizes = {len(unit) for unit in judgments.units} or {1 if config.mode.scores else 2}
    if 0 in sizes or (1 in sizes and len(sizes) > 1):
        raise ConfigError(
            f"judgments of {' and '.join(map(str, sorted(sizes)))} responses cannot be scored"
            " together",
            where=f"mode '{config.mode.name}'",
            remedy="judge either single responses or pairs and lists",
        )
    return sizes == {1}
