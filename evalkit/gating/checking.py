"""Whether a gate can be held against a run at all, before anything is paid: are its metrics and other runs there?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from evalkit.config import LeadRule, RunConfig
from evalkit.errors import ConfigError, did_you_mean
from evalkit.resources import project
from evalkit.scoring import GROUPS, score_run
from evalkit.scoring.gates import less_is_better
from evalkit.scoring.judges import metric_part
from evalkit.tracking import find_run
from evalkit.types import Case, RunResult

LOOKED_AT = 200
"""So many of the cases are enough to know which metrics they can have."""
_OF_DATA = ("corrected/", "human/", "jnd/", "length/", "ranking/", "self/", "variance/")
OF_ANSWERS = (*_OF_DATA, "between/", "panel/", "third_pass/", "tie_rate/split", "weighted/")
"""Metrics whose names hang on what is answered: of them only the run itself can tell."""


def check_gate(config: RunConfig, cases: Iterable[Case]) -> None:
    """Check that every metric and every run that a gate names can be there, as far as that is known before judging.

    A run in which nothing was answered has its metrics by name, so that no answer is needed to know them. The cases are
    gone through once for each run that is compared with, and before.

    Raises:
        ConfigError: naming the first metric or run that is not.
        TrackingError: if a run has to be fetched and the store cannot be reached.
    """
    if not config.gate:
        return
    known = _metrics_of(config, list(islice(cases, LOOKED_AT)))
    members = [member.label for member in config.judge.members]
    for name in config.gate.rules:
        _check_name(name, known, members, f"gate.{name}")
    for lead in config.gate.leads:
        _check_name(lead.metric, known, members, "gate.no_worse_than.metric")
        less_is_better(lead)
        with other_run(lead, config) as other:
            if lead.metric not in other.metrics:
                remedy = did_you_mean(lead.metric, other.metrics)
                raise ConfigError(f"no metric '{lead.metric}' in it", where=_where(lead), remedy=remedy)
            theirs = {case.id for case in other.cases}
            if not any(case.id in theirs for case in cases):
                raise ConfigError("shares no case with this run", where=_where(lead), remedy="name one of its dataset")


def _metrics_of(config: RunConfig, cases: Sequence[Case]) -> set[str]:
    """Return the metrics that cases can have; a ranking implies scores as well as pairs."""
    plain = config.model_copy(update={"scoring": config.scoring.model_copy(update={"bootstrap": 0, "cluster": None})})
    modes = [plain.mode.name, *(["pointwise"] if plain.mode.name not in ("pairwise", "pointwise") else [])]
    as_mode = [plain.model_copy(update={"mode": plain.mode.model_copy(update={"name": mode})}) for mode in modes]
    return {name for one in as_mode for name in score_run(one, cases, []).metrics}


def _where(lead: LeadRule) -> str:
    return f"gate.no_worse_than.run {lead.run}"


def _check_name(name: str, known: Set[str], members: Sequence[str], where: str) -> None:
    parts = [metric_part(member) for member in members] if len(members) > 1 else []
    of_judge = re.fullmatch(r"judge/(?:" + "|".join(map(re.escape, parts)) + ")/(.+)", name) if parts else None
    plain = of_judge[1] if of_judge else name
    if plain in known or (plain.startswith(OF_ANSWERS) and plain.partition("/")[0] in GROUPS):
        return
    if parts and plain.startswith("judge/"):
        raise ConfigError("no such judge", where=where, remedy=f"in names of metrics they are {', '.join(parts)}")
    raise ConfigError("no such metric", where=where, remedy=did_you_mean(plain, known))


@contextmanager
def other_run(lead: LeadRule, config: RunConfig) -> Iterator[RunResult]:
    """Give the run that a rule compares with, as long as the block lasts.

    Raises:
        ConfigError: if there is no such run.
        TrackingError: if it has to be fetched and the store cannot be reached.
    """
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        here = Path.cwd() if (Path.cwd() / lead.run).exists() else project()
        yield find_run(lead.run, config.tracking, folder=here, scratch=Path(scratch))
