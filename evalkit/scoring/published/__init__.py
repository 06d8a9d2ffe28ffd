"""The metrics that benchmarks were published with, each by the rule of its authors and under its own name.

A rule looks at cases, their metadata (`subset`, `domain`, `num_correct`, `grades`, ...), and what was judged; it reads
no file. `dataset.benchmark` chooses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from evalkit.config import RunConfig
from evalkit.errors import ConfigError, did_you_mean
from evalkit.scoring.published.arena import alpaca_eval, arena_hard
from evalkit.scoring.published.best_of import rewardbench2, rm_bench
from evalkit.scoring.published.grades import helpsteer, prometheus, summeval, topical_chat
from evalkit.scoring.published.pairs import auto_j, faireval, judgebench, llmbar, pandalm
from evalkit.scoring.published.sections import rewardbench
from evalkit.scoring.published.truth import halluqa
from evalkit.scoring.published.view import View
from evalkit.scoring.published.votes import mt_bench
from evalkit.scoring.stats.bootstrap import Statistic
from evalkit.scoring.verdicts.outcome import Outcome
from evalkit.types import Case, Metric

__all__ = ["RULES", "published_statistics"]

Rule = Callable[[View], list[Statistic | Metric]]

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "llmbar": llmbar,
        "judgebench": judgebench,
        "rewardbench": rewardbench,
        "rewardbench2": rewardbench2,
        "rm_bench": rm_bench,
        "mt_bench": mt_bench,
        "pandalm": pandalm,
        "alpaca_eval": alpaca_eval,
        "arena_hard": arena_hard,
        "auto_j": auto_j,
        "faireval": faireval,
        "halluqa": halluqa,
        "prometheus": prometheus,
        "summeval": summeval,
        "topical_chat": topical_chat,
        "helpsteer": helpsteer,
    }
)
"""The rule of each benchmark, by its name, which is also the first part of its metrics' names."""


def published_statistics(config: RunConfig, cases: Sequence[Case], outcome: Outcome) -> list[Statistic | Metric]:
    """Return the metrics of the benchmark that `dataset.benchmark` names, none if it names none.

    Raises:
        ConfigError: if there is no such benchmark.
    """
    name = config.dataset.benchmark
    if name is None:
        return []
    if name not in RULES:
        raise ConfigError("no such benchmark", where=f"dataset.benchmark={name}", remedy=did_you_mean(name, RULES))
    return RULES[name](View(config, cases, outcome))
