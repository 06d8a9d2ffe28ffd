"""One judge's judgments, or a panel's, resolved: what verdicts, metrics and the frontier are made of, by mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns.cases import all_pairs
from evalkit.scoring.columns.judgments import Answers, Columns, read_columns
from evalkit.scoring.verdicts.length_control import control_length
from evalkit.scoring.verdicts.pairs import OrderOutcomes, Resolution, SampleColumns, pair_draws, resolve_pairs
from evalkit.scoring.verdicts.pointwise import ScoreColumns, compare_scores, score_draws, score_lists, score_responses
from evalkit.types import Case


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
