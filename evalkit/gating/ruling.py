"""A run's metrics held against its gate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from evalkit.config import LeadRule, RunConfig
from evalkit.errors import ConfigError, EvalkitError, did_you_mean
from evalkit.gating.checking import other_run
from evalkit.gating.files import gate_files
from evalkit.scoring.gates import Gate, Ruling, judge_lead, judge_metrics, lead_text
from evalkit.scoring.pairing import Entrant
from evalkit.types import RunResult

GATE = "gate"
"""Where the manifest says what became of it."""


def rule_on(config: RunConfig, result: RunResult) -> tuple[RunResult, dict[str, str]]:
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
    mine = Entrant("this run", config, result.cases, result.judgments)
    for lead in config.gate.leads:
        yield _lead(lead, config, mine)


def _lead(lead: LeadRule, config: RunConfig, mine: Entrant) -> Ruling:
    name = Path(lead.run).name or lead.run
    try:
        with other_run(lead, config) as other:
            theirs = Entrant(name, RunConfig.model_validate(other.config), other.cases, other.judgments)
            return judge_lead(lead, mine, theirs, config.scoring, config.gate.by)
    except ValidationError:
        return Ruling(lead.metric, lead_text(lead, name), "undecided", f"the config of {name} is not valid")
    except EvalkitError as error:
        return Ruling(lead.metric, lead_text(lead, name), "undecided", str(error))
