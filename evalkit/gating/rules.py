"""A run's metrics held against its gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from evalkit.config import LeadRule, RunConfig
from evalkit.core.resources import project
from evalkit.errors import ConfigError, EvalkitError, did_you_mean
from evalkit.gating.files import gate_files
from evalkit.scoring import GROUPS, score_run
from evalkit.scoring.columns.codes import KINDS, READABLE
from evalkit.scoring.compare import RunEntry
from evalkit.scoring.gate_rules import Gate, Ruling, judge_lead, judge_metrics, lead_text, less_is_better
from evalkit.scoring.verdicts.panel import metric_part
from evalkit.tracking import find_run
from evalkit.types import Case, Metric, RunResult

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


GATE = "gate"
"""Where the manifest says what became of it."""


def apply_gate(config: RunConfig, result: RunResult) -> tuple[RunResult, dict[str, str]]:
    """Return a scored run with what became of its gate in the manifest, and the gate's files by name.

    Both are without a gate where the config has none. Nothing is raised of what a gate names and is not there: the run
    is paid for, and its rulings say so.
    """
    plain = {key: value for key, value in result.manifest.items() if key != GATE}
    if not config.gate:
        return replace(result, manifest=plain), {}
    rulings = (*judge_metrics(config.gate, result.metrics), *_leads(config, result))
    gate = Gate(rulings, config.gate.undecided == "fail")
    return replace(result, manifest={**plain, GATE: gate.json()}), gate_files(gate, plain)


def check_rules(config: RunConfig, result: RunResult) -> None:
    """Check that a scored run has every metric that its gate names, where nothing is lost by saying no.

    Raises:
        ConfigError: naming the first that it has not.
    """
    named = [(f"gate.{name}", name) for name in config.gate.rules]
    named += [("gate.no_worse_than.metric", lead.metric) for lead in config.gate.leads]
    for where, name in named:
        if name not in result.metrics:
            raise ConfigError("no such metric in this run", where=where, remedy=did_you_mean(name, result.metrics))


def _leads(config: RunConfig, result: RunResult) -> Iterator[Ruling]:
    mine = RunEntry("this run", config, result.cases, result.judgments)
    for lead in config.gate.leads:
        yield _lead(lead, config, mine)


def _lead(lead: LeadRule, config: RunConfig, mine: RunEntry) -> Ruling:
    name = Path(lead.run).name or lead.run
    try:
        with other_run(lead, config) as other:
            theirs = RunEntry(name, RunConfig.model_validate(other.config), other.cases, other.judgments)
            return judge_lead(lead, mine, theirs, config.scoring, config.gate.by)
    except ValidationError:
        return Ruling(lead.metric, lead_text(lead, name), "undecided", f"the config of {name} is not valid")
    except EvalkitError as error:
        return Ruling(lead.metric, lead_text(lead, name), "undecided", str(error))


def shortfall(config: RunConfig, result: RunResult) -> str | None:
    """Return in a line what kept a run from its answers, none where it has enough of them."""
    highest = config.runner.max_failure_rate
    failed = result.calls.failed / result.calls.planned if result.calls.planned else 0.0
    if stopped := result.manifest.get("stopped"):
        again = "under a higher cap " if "budget" in stopped else ""
        return f"{stopped}; what there is was scored and written, and running it again {again}asks for the rest only"
    if failed > highest:
        return (
            f"{failed:.1%} of the requests failed, more than runner.max_failure_rate allows ({highest:.1%}); "
            "the results are written"
        )
    return unusable(config, result.metrics)


def unusable(config: RunConfig, metrics: Mapping[str, Metric]) -> str | None:
    """Return in a line that too many answers of a run are missing, or `None` if enough are usable."""
    shares = {
        kind: metrics[f"missing/{kind}"].value or 0.0 for kind in KINDS[:READABLE] if f"missing/{kind}" in metrics
    }
    highest = config.runner.max_unusable_rate
    if (share := sum(shares.values())) <= highest:
        return None
    parts = ", ".join(f"{value:.1%} {name}" for name, value in shares.items() if value)
    return (
        f"{share:.1%} of the answers are unusable ({parts}), more than runner.max_unusable_rate allows "
        f"({highest:.1%}); the results are written"
    )
