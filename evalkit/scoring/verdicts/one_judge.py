"""Verdicts of one judge on single responses, pairs or lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evalkit.config import RunConfig
from evalkit.errors import ConfigError
from evalkit.scoring.columns.cases import all_pairs
from evalkit.scoring.columns.judgments import JudgmentColumns, of_one_judge
from evalkit.scoring.columns.verdicts import VerdictColumns
from evalkit.scoring.verdicts.length_control import control_length
from evalkit.scoring.verdicts.pairs import resolve_pairs
from evalkit.scoring.verdicts.pointwise import compare_scores, score_lists, score_responses
from evalkit.types import Case


def resolve(config: RunConfig, cases: Sequence[Case], judgments: JudgmentColumns) -> VerdictColumns:
    """Return the verdicts from one judge's judgments of single responses, pairs or lists.

    Args:
        config: the run's config.
        cases: the cases.
        judgments: the judgments.

    Raises:
        ConfigError: if the judgments do not belong to the cases or lack what the settings require.
    """
    pairs = all_pairs(cases)
    if by_score(config, judgments):
        single = of_one_judge(cases, judgments, pairs.sizes, 1)
        scored = control_length(config, cases, score_responses(config, cases, single))
        return compare_scores(config, cases, single, scored, pairs)
    asked, thirds = (of_one_judge(cases, judgments.select(third=third), pairs.sizes, 2) for third in (False, True))
    found = resolve_pairs(config, cases, asked, pairs, thirds)
    ranks = of_one_judge(cases, judgments, pairs.sizes, 1)
    return replace(found, scores=score_lists(config, cases, ranks), ranks=ranks) if len(ranks) else found


def by_score(config: RunConfig, judgments: JudgmentColumns) -> bool:
    """Return whether single responses were judged; a third-party mode is identified by the units of its judgments.

    Raises:
        ConfigError: if some judgments are of single responses and others are not.
    """
    sizes = {len(unit) for unit in judgments.units} or {1 if config.mode.scores else 2}
    if 0 in sizes or (1 in sizes and len(sizes) > 1):
        raise ConfigError(
            f"judgments of {' and '.join(map(str, sorted(sizes)))} responses cannot be scored together",
            where=f"mode '{config.mode.name}'",
            remedy="judge either single responses or pairs and lists",
        )
    return sizes == {1}
