"""Check a run's metrics against its gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from evalkit.benchmarks.scoring_rules import slug
from evalkit.config import GateConfig, LeadRule, RunConfig
from evalkit.core.resources import project
from evalkit.core.translation import in_every_language
from evalkit.errors import ConfigError, EvalkitError, did_you_mean
from evalkit.gating.gate_files import gate_files
from evalkit.report.decisions import sentence
from evalkit.results import RunResult
from evalkit.scoring.catalog import CATALOG, catalog_of
from evalkit.scoring.catalog.availability import available_names, fits, is_available
from evalkit.scoring.columns.cases import KINDS, READABLE
from evalkit.scoring.compare import RunEntry
from evalkit.scoring.gate_rules import (
    Gate,
    Ruling,
    judge_decision,
    judge_lead,
    judge_metrics,
    lead_text,
    less_is_better,
)
from evalkit.scoring.verdicts.panel import metric_part
from evalkit.tracking import find_run
from evalkit.types import Case, Metric

LONGEST_NAME = 100
"""Longer texts in a case's metadata are not names."""


def check_gate(config: RunConfig, cases: Iterable[Case]) -> None:
    """Check that every metric and run that a gate names can exist, as far as that is known before judging.

    The metric catalog has the possible names. The cases are read once for each run to compare with, and once more if
    the name of a metric depends on them.

    Args:
        config: The run's config.
        cases: The run's cases.

    Raises:
        ConfigError: If a metric or run cannot exist; the message names the first one.
        TrackingError: If a run must be downloaded and the tracking server is not reachable.
    """
    if not config.gate:
        return
    for name in config.gate.rules:
        _check_name(name, config, cases, f"gate.{name}")
    for lead in config.gate.leads:
        _check_name(lead.metric, config, cases, "gate.no_worse_than.metric")
        less_is_better(lead)
        with other_run(lead, config) as other:
            if lead.metric not in other.metrics:
                remedy = did_you_mean(lead.metric, other.metrics)
                raise ConfigError(f"this run has no metric '{lead.metric}'", where=_where(lead), remedy=remedy)
            theirs = {case.id for case in other.cases}
            if not any(case.id in theirs for case in cases):
                raise ConfigError(
                    "it shares no case with this run", where=_where(lead), remedy="choose a run on the same dataset"
                )


def _where(lead: LeadRule) -> str:
    return f"gate.no_worse_than.run {lead.run}"


def _check_name(name: str, config: RunConfig, cases: Iterable[Case], where: str) -> None:
    members = [member.label for member in config.judge.members]
    parts = [metric_part(member) for member in members] if len(members) > 1 else []
    of_judge = re.fullmatch(r"judge/(?:" + "|".join(map(re.escape, parts)) + ")/(.+)", name) if parts else None
    plain = of_judge[1] if of_judge else name
    if parts and plain.startswith("judge/"):
        raise ConfigError("no such judge", where=where, remedy=f"choose from {', '.join(parts)}")
    found = None if plain.startswith("judge/") else CATALOG.find(plain)
    if found is None or not is_available(found.spec, config) or not fits(found, config, lambda: _names_in(cases)):
        names = available_names(config, catalog_of(config.dataset.benchmark), _names_in(cases))
        remedy = did_you_mean(plain, names)
        raise ConfigError("no such metric", where=where, remedy=remedy)


def _names_in(cases: Iterable[Case]) -> dict[str, None]:
    """Return the names of models, subsets and so on in the cases, as they appear in metric names."""
    return dict.fromkeys(slug(name) for case in cases for name in _names_of(case))


def _names_of(case: Case) -> Iterator[str]:
    yield from (response.model for response in case.responses if response.model)
    yield from (value for value in case.metadata.values() if isinstance(value, str) and len(value) <= LONGEST_NAME)


@contextmanager
def other_run(lead: LeadRule, config: RunConfig) -> Iterator[RunResult]:
    """Read the run that a rule compares with; it is available within the block.

    Raises:
        ConfigError: If there is no such run.
        TrackingError: If it must be downloaded and the tracking server is not reachable.
    """
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        here = Path.cwd() if (Path.cwd() / lead.run).exists() else project()
        yield find_run(lead.run, config.tracking, folder=here, scratch=Path(scratch))


GATE = "gate"
"""The manifest's key for the outcome of the gate."""


def apply_gate(config: RunConfig, result: RunResult) -> tuple[RunResult, dict[str, str]]:
    """Add the outcome of the gate to a scored run's manifest, and return it with the gate's files by name.

    Without a gate in the config, there is neither. A missing metric or run does not raise an error, because the run is
    already paid for: the rule is undecided instead.
    """
    plain = {key: value for key, value in result.manifest.items() if key != GATE}
    if not config.gate:
        return replace(result, manifest=plain), {}
    rulings = (*_of_decision(config.gate, result), *judge_metrics(config.gate, result.metrics), *_leads(config, result))
    gate = Gate(rulings, config.gate.undecided == "fail")
    return replace(result, manifest={**plain, GATE: gate.json()}), gate_files(gate, plain)


def _of_decision(gate: GateConfig, result: RunResult) -> Iterator[Ruling]:
    if gate.decision:
        text, _ = in_every_language(sentence(result.decision, result.metrics))
        yield judge_decision(gate.decision, result.decision, text)


def check_rules(config: RunConfig, result: RunResult) -> None:
    """Check that a scored run has every metric that its gate names.

    Raises:
        ConfigError: If it does not; the message names the first missing metric.
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
            theirs = RunEntry(name, other.config, other.cases, other.judgments)
            return judge_lead(lead, mine, theirs, config.scoring, config.gate.by)
    except ValidationError:
        return Ruling(lead.metric, lead_text(lead, name), "undecided", f"the config of {name} is invalid")
    except EvalkitError as error:
        return Ruling(lead.metric, lead_text(lead, name), "undecided", str(error))


def shortfall(config: RunConfig, result: RunResult) -> str | None:
    """Explain on one line why a run does not have enough answers; `None` if it has."""
    highest = config.runner.max_failure_rate
    failed = result.calls.failed / result.calls.planned if result.calls.planned else 0.0
    if stopped := result.manifest.get("stopped"):
        again = "with a higher budget " if "budget" in stopped else ""
        return f"{stopped}; finished answers were scored and written; rerun {again}to request the rest only"
    if failed > highest:
        return (
            f"{failed:.1%} of the requests failed, more than runner.max_failure_rate={highest:.1%} allows; "
            "the results were written"
        )
    return unusable(config, result.metrics)


def unusable(config: RunConfig, metrics: Mapping[str, Metric]) -> str | None:
    """Report on one line that too many answers of a run are missing; `None` if enough are usable."""
    shares = {
        kind: metrics[f"missing/{kind}"].value or 0.0 for kind in KINDS[:READABLE] if f"missing/{kind}" in metrics
    }
    highest = config.runner.max_unusable_rate
    if (share := sum(shares.values())) <= highest:
        return None
    parts = ", ".join(f"{value:.1%} {name}" for name, value in shares.items() if value)
    return (
        f"{share:.1%} of the answers are unusable ({parts}), more than runner.max_unusable_rate={highest:.1%} allows; "
        "the results were written"
    )
