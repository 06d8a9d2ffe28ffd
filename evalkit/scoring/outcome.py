"""One judge's judgments, or a panel's, resolved: what verdicts, metrics and the frontier are made of, by mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evalkit.config import RunConfig
from evalkit.core.scale import Scale
from evalkit.errors import ConfigError
from evalkit.scoring.aggregate import overall_statistics
from evalkit.scoring.bootstrap import Statistic
from evalkit.scoring.columns import Answers, Columns, all_pairs, read_columns
from evalkit.scoring.listwise import BY_RANKING
from evalkit.scoring.logprob_weighting import weight_statistics
from evalkit.scoring.metrics.agreement import agreement_statistics, pass_statistics
from evalkit.scoring.metrics.calibration import calibration_statistics
from evalkit.scoring.metrics.correlation import correlation_statistics
from evalkit.scoring.metrics.length import control_length
from evalkit.scoring.metrics.position import length_statistics, position_statistics
from evalkit.scoring.metrics.rates import missing_statistics, score_distinct, score_mean, tie_statistics
from evalkit.scoring.metrics.samples import SampleColumns
from evalkit.scoring.metrics.transitivity import conflict_statistics, edges_of
from evalkit.scoring.optional_metrics import optional_statistics
from evalkit.scoring.pairs import OrderOutcomes, Resolution, pair_draws, resolve_pairs
from evalkit.scoring.pointwise import ScoreColumns, compare_scores, score_draws, score_lists, score_responses
from evalkit.scoring.verdicts import PairVerdicts, ScoreVerdicts, interleave
from evalkit.types import Case, Metric, Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """Judgments of one judge resolved. `scored` is there where responses have scores, `shown` where orders do.

    `columns` holds the judgments of pairs, or of single responses in mode pointwise; `ranks` those of responses that
    rankings imply. `draws` are the single answers of the one judge; a panel's vote has none.
    """

    columns: Columns
    resolved: Resolution
    shown: OrderOutcomes | None = None
    scored: ScoreColumns | None = None
    ranks: Columns | None = None
    draws: SampleColumns | None = None

    @property
    def listed(self) -> bool:
        """Whether rankings were judged."""
        return self.ranks is not None


def resolve(config: RunConfig, cases: Sequence[Case], answers: Answers) -> Outcome:
    """Resolve one judge's judgments, of single responses, pairs or lists.

    Raises:
        ConfigError: if the judgments do not belong to the cases, or do not hold what the settings ask for.
    """
    pairs = all_pairs(cases)
    if by_score(config, answers):
        columns = read_columns(cases, answers, pairs.sizes, 1)
        scored = control_length(config, cases, score_responses(config, cases, columns))
        draws = score_draws(config, columns, scored)
        return Outcome(columns, compare_scores(config, cases, scored, pairs), scored=scored, draws=draws)
    passes, thirds = answers.select(third=False).of_pairs, answers.select(third=True)
    columns = read_columns(cases, passes, pairs.sizes, 2)
    resolved, shown = resolve_pairs(config, cases, columns, pairs, read_columns(cases, thirds, pairs.sizes, 2))
    draws = pair_draws(config, columns, pairs)
    if answers.singles is None or not len(answers.singles):
        return Outcome(columns, resolved, shown, draws=draws)
    ranks = read_columns(cases, answers.singles, pairs.sizes, 1)
    return Outcome(columns, resolved, shown, score_lists(config, cases, ranks), ranks, draws)


def by_score(config: RunConfig, answers: Answers) -> bool:
    """Say whether single responses were judged; a mode of someone else's is known by what its judgments are of.

    Raises:
        ConfigError: if some judgments are of single responses and others are not.
    """
    sizes = {len(unit) for unit in answers.units} or {1 if config.mode.name == "pointwise" else 2}
    if 0 in sizes or (1 in sizes and len(sizes) > 1):
        raise ConfigError(
            f"judgments of {', '.join(map(str, sorted(sizes)))} responses each cannot be scored together",
            where=f"mode '{config.mode.name}'",
            remedy="judge either single responses, or pairs and lists",
        )
    return sizes == {1}


def statistics(
    config: RunConfig, cases: Sequence[Case], outcome: Outcome, answers: Answers
) -> list[Statistic | Metric]:
    """Return every metric of an outcome, those that its mode can never have left out."""
    count, scored, shown = len(cases), outcome.scored, outcome.shown
    found: list[Statistic | Metric] = _shared(config, outcome, answers, count)
    if shown is not None:
        resolved = outcome.resolved
        found += [*position_statistics(resolved, shown, count), *pass_statistics(resolved, shown, count)]
        found += calibration_statistics(resolved, count)
        found += overall_statistics(config, outcome.columns, count)
    elif scored is not None:
        found += [score_mean(scored, Scale.of(config.rubric), count), score_distinct(scored, Scale.of(config.rubric))]
    found += optional_statistics(config, outcome.resolved, shown, outcome.draws, count)
    found += weight_statistics(config, answers, count)
    return [*found, *(correlation_statistics(scored, count, _ends(config, outcome)) if scored is not None else ())]


def _ends(config: RunConfig, outcome: Outcome) -> tuple[float, float] | None:
    """Return the ends of the scale that scores are on; none where each depends on the other scores."""
    scale, how = Scale.of(config.rubric), config.scoring.normalize
    if outcome.shown is not None or config.scoring.length_control or how not in ("none", "minmax"):
        return None
    return (0.0, 1.0) if how == "minmax" else (scale.min, scale.max)


def _shared(config: RunConfig, outcome: Outcome, answers: Answers, count: int) -> list[Statistic | Metric]:
    """Return what every mode has."""
    resolved, scored = outcome.resolved, outcome.shown is None
    return [
        *tie_statistics(resolved, count, scored=scored),
        *length_statistics(resolved, count),
        *_conflicts(config, outcome, scored),
        *agreement_statistics(resolved, count),
        *missing_statistics(answers, count),
    ]


def _conflicts(config: RunConfig, outcome: Outcome, scored: bool) -> list[Statistic | Metric]:
    edges = edges_of(config.scoring.conflict_edges, outcome.resolved, outcome.shown)
    found = conflict_statistics(edges, scored=scored)
    if not outcome.listed:
        return found
    return [
        replace(one, note=f"{one.note}; {BY_RANKING}")
        if isinstance(one, Statistic) and one.name == "conflict/rate"
        else one
        for one in found
    ]


def verdicts(
    cases: Sequence[Case], outcome: Outcome, each: Mapping[str, Outcome] | None = None, how: str = "mean"
) -> Sequence[Verdict]:
    """Return a Verdict for each pair, before them one for each response where responses have scores, case by case.

    They are made when asked for, with the votes of `each` judge by name where they are a panel's. `how` combines the
    samples of values by criterion; those of a panel, and of rankings, are means over all that there are.
    """
    resolved, scored, columns = outcome.resolved, outcome.scored, outcome.columns
    ids, judges = [case.id for case in cases], (each or {}).items()
    winners = {name: one.resolved.winner for name, one in judges}
    pairs = PairVerdicts(ids, resolved, columns, outcome.shown, winners, how)
    if scored is None:
        return pairs
    scores = {name: one.scored.score for name, one in judges if one.scored is not None}
    responses = ScoreVerdicts(ids, scored, outcome.ranks or columns, scores, "mean" if outcome.ranks else how)
    return interleave(responses, scored.case, pairs, resolved.pairs.case)
