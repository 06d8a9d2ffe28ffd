"""Check a run's metrics against its gate, and write the outcome."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as Xml

from pydantic import ValidationError

from evalkit.config import GateConfig, LeadRule, RunConfig
from evalkit.core.atomic_files import file_errors
from evalkit.core.causes import STOP_SETTING, STOPPED_EARLY
from evalkit.core.display import slug, xml_text
from evalkit.core.errors import ConfigError, EvalkitError
from evalkit.core.resources import project
from evalkit.core.translation import in_every_language
from evalkit.core.types import Case
from evalkit.core.values import Json
from evalkit.report.findings.decisions import sentence
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import CATALOG, catalog_of
from evalkit.scoring.catalog.removed import metric_remedy
from evalkit.scoring.decision import Metrics
from evalkit.scoring.gate_rules import (
    Gate,
    Ruling,
    available_names,
    fits,
    is_available,
    judge_decision,
    judge_lead,
    judge_metrics,
    lead_text,
    less_is_better,
)
from evalkit.scoring.judgments import KINDS, READABLE
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.search import check_choices, choices_text, selected
from evalkit.scoring.verdicts.panel import metric_part

LONGEST_NAME = 100
"""Longer texts in a case's metadata are not names."""


def check_gate(config: RunConfig, cases: Iterable[Case]) -> None:
    """Check that every metric and run that a gate names can exist, as far as that is
    known before judging.

    The metric catalog has the possible names. The cases are read once for each run to compare with,
    and once more if the name of a metric depends on them.

    Args:
        config: The run's config.
        cases: The run's cases.

    Raises:
        ConfigError: If a metric or run cannot exist; the message names the first one.
        TrackingError: If a run must be downloaded and the tracking server is not reachable.
    """
    if not config.gate:
        return
    # A misspelled metric must show now, not after the judges are paid.
    for name in config.gate.rules:
        _check_metric_name(name, config, cases, f"gate.{name}")
    for lead in config.gate.leads:
        _check_metric_name(lead.metric, config, cases, "gate.no_worse_than.metric")
    check_choices(cases if config.gate.where else (), config.gate.where)
    check_leads(config, cases)


def check_leads(config: RunConfig, cases: Iterable[Case]) -> None:
    """Check that a run can be compared with each run that its gate names.

    Args:
        config: The run's config.
        cases: The run's cases; read once for each run to compare with.

    Raises:
        ConfigError: If there is no such run, or if it has other metrics or cases; the message names
            the first one.
        TrackingError: If a run must be downloaded and the tracking server is not reachable.
    """
    if not config.gate:
        return
    for lead in config.gate.leads:
        less_is_better(lead)
        with other_run(lead, config) as named_run:
            if lead.metric not in named_run.metrics:
                remedy = metric_remedy(lead.metric, named_run.metrics)
                raise ConfigError(
                    f"this run has no metric '{lead.metric}'",
                    where=_where(lead),
                    remedy=remedy,
                )
            # A comparison is by case, so at least one must be in both runs.
            theirs = {case.id for case in named_run.cases}
            if not any(case.id in theirs for case in cases):
                raise ConfigError(
                    "it shares no case with this run",
                    where=_where(lead),
                    remedy="choose a run on the same dataset",
                )


def _where(lead: LeadRule) -> str:
    return f"gate.no_worse_than.run {lead.run}"


def _check_metric_name(
    name: str, config: RunConfig, cases: Iterable[Case], where: str
) -> None:
    """Check that a run with this config and these cases would have a metric.

    Raises:
        ConfigError: if there is no such metric, or no such judge.
    """
    members = [member.label for member in config.judge.members]
    parts: list[str] = []
    plain = name
    # Only a panel has metrics of single judges.
    if len(members) > 1:
        parts = [metric_part(member) for member in members]
        listed = "|".join(map(re.escape, parts))
        of_judge = re.fullmatch(rf"judge/(?:{listed})/(.+)", name)
        if of_judge:
            plain = of_judge[1]
    if parts and plain.startswith("judge/"):
        raise ConfigError(
            "no such judge", where=where, remedy=f"choose from {', '.join(parts)}"
        )
    # A judge of a judge does not exist.
    match = None if plain.startswith("judge/") else CATALOG.find(plain)
    if (
        match is None
        or not is_available(match.spec, config)
        or not fits(match, config, lambda: _names_in(cases))
    ):
        names = available_names(
            config, catalog_of(config.dataset.benchmark), _names_in(cases)
        )
        remedy = metric_remedy(plain, names)
        raise ConfigError("no such metric", where=where, remedy=remedy)


def _names_in(cases: Iterable[Case]) -> dict[str, None]:
    """Return the names of models, subsets and so on in the cases, as they appear in
    metric names.
    """
    return dict.fromkeys(slug(name) for case in cases for name in _names_of(case))


def _names_of(case: Case) -> Iterator[str]:
    yield from (response.model for response in case.responses if response.model)
    yield from (
        value
        for value in case.metadata.values()
        if isinstance(value, str) and len(value) <= LONGEST_NAME
    )


@contextmanager
def other_run(lead: LeadRule, config: RunConfig) -> Iterator[RunResult]:
    """Read the run that a rule compares with; it is available within the block.

    Raises:
        ConfigError: If there is no such run.
        TrackingError: If it must be downloaded and the tracking server is not reachable.
    """
    from evalkit.tracking import find_run

    with TemporaryDirectory(prefix="evalkit-") as scratch:
        # A path in a study is relative to the project, one on the command line to the current
        # folder.
        here = Path.cwd() if (Path.cwd() / lead.run).exists() else project()
        yield find_run(lead.run, config.tracking, folder=here, scratch=Path(scratch))


GATE = "gate"
"""The manifest's key for the outcome of the gate."""


def apply_gate(
    config: RunConfig, result: RunResult
) -> tuple[RunResult, dict[str, str]]:
    """Return a scored run with the outcome of its gate in the manifest, and the gate's files by
    name.

    A gate is a list of rules that the metrics must satisfy. Without a gate in the config, the
    manifest has no outcome and there are no files. A missing metric or run does not raise an
    error, because the run is already paid for: the rule is undecided instead.
    """
    # The outcome of an earlier scoring is replaced, or removed with its gate.
    plain = {key: value for key, value in result.manifest.items() if key != GATE}
    if not config.gate:
        return replace(result, manifest=plain), {}
    try:
        judged = _limit_to_cases(config, result)
    except ConfigError as error:
        rule = f"where {choices_text(config.gate.where)}"
        # A limit without any case must not pass: a gate that checks nothing is no gate.
        rulings: tuple[Ruling, ...] = (Ruling(GATE, rule, "failed", str(error)),)
    else:
        rulings = (
            *_of_decision(config.gate, judged),
            *judge_metrics(config.gate, judged.metrics, config.scoring.confidence),
            *_leads(config, judged),
        )
    gate = Gate(rulings, config.gate.undecided == "fail", config.gate.where)
    return replace(result, manifest={**plain, GATE: gate.json()}), gate_files(
        gate, plain
    )


def _limit_to_cases(config: RunConfig, result: RunResult) -> RunResult:
    """Return a run with only the cases that its gate is limited to, scored by themselves.

    Raises:
        ConfigError: If no case has a column or value that the limit names.
    """
    if not config.gate.where:
        return result
    check_choices(result.cases, config.gate.where)
    chosen = selected(result.cases, config.gate.where)
    cases = [case for case, use in zip(result.cases, chosen, strict=True) if use]
    ids = {case.id for case in cases}
    judgments = [judgment for judgment in result.judgments if judgment.case_id in ids]
    scores = score_run(config, cases, judgments)
    # The metrics of an audit are about its probes, and are not limited to slices.
    audit = {
        name: metric
        for name, metric in result.metrics.items()
        if name.startswith("audit/")
    }
    return replace(
        result,
        cases=cases,
        judgments=judgments,
        verdicts=scores.verdicts,
        metrics={**scores.metrics, **audit},
    )


def _of_decision(gate: GateConfig, result: RunResult) -> Iterator[Ruling]:
    if gate.decision:
        # The run's first finding has all limits; the gate's line has the main one.
        main = replace(result.decision, limits=result.decision.limits[:1])
        text, _ = in_every_language(sentence(main, result.metrics))
        yield judge_decision(gate.decision, result.decision, text, gate.where)


def check_rules(config: RunConfig, result: RunResult) -> None:
    """Check that a scored run has every metric that its gate names.

    Raises:
        ConfigError: If it does not; the message names the first missing metric.
    """
    named = [(f"gate.{name}", name) for name in config.gate.rules]
    named += [("gate.no_worse_than.metric", lead.metric) for lead in config.gate.leads]
    for where, name in named:
        if name not in result.metrics:
            raise ConfigError(
                "no such metric in this run",
                where=where,
                remedy=metric_remedy(name, result.metrics),
            )


def _leads(config: RunConfig, result: RunResult) -> Iterator[Ruling]:
    mine = RunEntry.of("this run", replace(result, config=config))
    for lead in config.gate.leads:
        yield _judge_lead(lead, config, mine)


def _judge_lead(lead: LeadRule, config: RunConfig, mine: RunEntry) -> Ruling:
    """Return the ruling on a lead over another run; undecided if that run cannot be read."""
    name = Path(lead.run).name or lead.run
    try:
        with other_run(lead, config) as named_run:
            theirs = RunEntry.of(name, named_run)
            return judge_lead(lead, mine, theirs, config.scoring, config.gate.by)
    except ValidationError:
        return Ruling(
            lead.metric,
            lead_text(lead, name),
            "undecided",
            f"the config of {name} is invalid",
        )
    except EvalkitError as error:
        return Ruling(lead.metric, lead_text(lead, name), "undecided", str(error))


def shortfall(config: RunConfig, result: RunResult) -> str | None:
    """Explain on one line why a run does not have enough answers; `None` if it has."""
    highest = config.runner.max_failure_rate
    failed = 0.0
    if result.calls.planned:
        failed = result.calls.failed / result.calls.planned
    stopped = result.manifest.get("stopped")
    if stopped and stopped.startswith(STOPPED_EARLY):
        return (
            f"{stopped}; answers are stored; fix the judge and run again with store=retry, or set"
            f" {STOP_SETTING}=false"
        )
    if stopped:
        again = "with a higher budget " if "budget" in stopped else ""
        return (
            f"{stopped}; finished answers were scored and written; rerun {again}to request the rest"
            " only"
        )
    if failed > highest:
        return (
            f"{failed:.1%} of the requests failed, more than runner.max_failure_rate={highest:.1%}"
            " allows; the results were written"
        )
    return unusable(config, result.metrics)


def unusable(config: RunConfig, metrics: Metrics) -> str | None:
    """Report on one line that too many answers of a run are missing; `None` if enough
    are usable.
    """
    shares = {
        kind: metrics[f"missing/{kind}"].value or 0.0
        # All kinds before `ok`: unreadable, refused, failed, or not asked.
        for kind in KINDS[:READABLE]
        if f"missing/{kind}" in metrics
    }
    highest = config.runner.max_unusable_rate
    if (share := sum(shares.values())) <= highest:
        return None
    parts = ", ".join(f"{value:.1%} {name}" for name, value in shares.items() if value)
    return (
        f"{share:.1%} of the answers are unusable ({parts}), more than"
        f" runner.max_unusable_rate={highest:.1%} allows; the results were written"
    )


JSON, JUNIT, MARKDOWN = "gate.json", "gate.xml", "gate.md"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_MARKS = {"held": "✅ held", "failed": "❌ failed", "undecided": "❔ undecided"}


def gate_files(gate: Gate, manifest: Json) -> dict[str, str]:
    """Return the files of a gate by name."""
    title = title_of(manifest)
    if gate.where:
        title = f"{title} · where {choices_text(gate.where)}"
    return {
        JSON: json.dumps(gate.json(), indent=1, ensure_ascii=False, allow_nan=False)
        + "\n",
        JUNIT: junit(gate, title),
        MARKDOWN: markdown(gate, title),
    }


def title_of(manifest: Json) -> str:
    """Return a run's title: its mode, judge and data."""
    dataset = (manifest.get("dataset") or {}).get("name")
    return " · ".join(
        str(part)
        for part in (manifest.get("mode"), manifest.get("judge"), dataset)
        if part
    )


def junit(gate: Gate, title: str) -> str:
    """Return JUnit XML with a test case per rule; an undecided rule is skipped, or
    failed if the gate is strict.
    """
    failed = [ruling for ruling in gate.rulings if _counts_as_failed(ruling, gate)]
    skipped = [
        ruling
        for ruling in gate.rulings
        if ruling.state == "undecided" and not gate.strict
    ]
    # JUnit wants these counts in the root and in the suite.
    counts = {
        "tests": len(gate.rulings),
        "failures": len(failed),
        "errors": 0,
        "skipped": len(skipped),
    }
    counted = {name: str(count) for name, count in counts.items()}
    root = Xml.Element("testsuites", {"name": "evalkit", **counted})
    suite = Xml.SubElement(root, "testsuite", {"name": xml_text(title), **counted})
    for ruling in gate.rulings:
        case = Xml.SubElement(
            suite,
            "testcase",
            {
                "classname": xml_text(f"evalkit.{title}"),
                "name": xml_text(f"{ruling.metric} {ruling.rule}"),
            },
        )
        message = xml_text(f"{ruling.state}: {ruling.why}")
        if ruling in failed:
            Xml.SubElement(
                case, "failure", {"message": message, "type": ruling.state}
            ).text = message
        elif ruling in skipped:
            Xml.SubElement(case, "skipped", {"message": message})
    Xml.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + Xml.tostring(root, encoding="unicode")
        + "\n"
    )


def _counts_as_failed(ruling: Ruling, gate: Gate) -> bool:
    return ruling.state == "failed" or (gate.strict and ruling.state == "undecided")


def markdown(gate: Gate, title: str) -> str:
    """Return a summary in GitHub's Markdown: the state, and a row per rule."""
    if gate.strict and gate.state == "failed":
        strict = ", because `gate.undecided` is `fail`"
    else:
        strict = ""
    rows = [
        f"| {_MARKS[ruling.state]} |"
        f" {' | '.join(map(_cell, (ruling.metric, ruling.rule, ruling.why)))} |"
        f" {ruling.n} | {ruling.missing} |"
        for ruling in gate.rulings
    ]
    head = [
        f"### Gate {gate.state}: {_cell(title)}{strict}",
        "",
        "| | metric | rule | found | n | missing |",
        "| --- | --- | --- | --- | ---: | ---: |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def gate_lines(gate: Json) -> list[str]:
    """Return a gate from a manifest as lines of plain text: the state, then one line per rule."""
    rules = gate["rules"]
    rows = [
        (rule["state"], rule["metric"], rule["rule"], rule["why"]) for rule in rules
    ]
    # widths[k] is that of column k; the last column is not padded.
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
    return [gate_title(gate), *("  " + "  ".join(_padded(row, widths)) for row in rows)]


def gate_title(gate: Json) -> str:
    """Return the outcome of a gate from a manifest, on one line."""
    states = [rule["state"] for rule in gate["rules"]]
    counts = ", ".join(
        f"{states.count(state)} {state}" for state in _MARKS if state in states
    )
    if gate["state"] == "failed" and "failed" not in states:
        strict = ", because gate.undecided is fail"
    else:
        strict = ""
    limited = ""
    if gate.get("where"):
        limited = f" where {choices_text(gate['where'])}"
    return f"gate {gate['state']}{limited}: {counts}{strict}"


def gate_faults(gate: Json) -> str:
    """Return the rules that made a gate fail, on one line, from a manifest."""
    rules = gate["rules"]
    # Undecided rules make a strict gate fail only where none failed.
    bad = [rule for rule in rules if rule["state"] == "failed"] or [
        rule for rule in rules if rule["state"] == "undecided"
    ]
    return "; ".join(
        f"{rule['metric']} {rule['rule']} {rule['state']}: {rule['why']}"
        for rule in bad
    )


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        *(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)),
        row[3],
    ]


def _cell(text: str) -> str:
    text = (
        " ".join(text.split())
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    # Names come from the data, and must not become Markdown.
    return re.sub(r"([\\|`*_\[\]])", r"\\\1", text)


def write_step_summary(folder: str | None) -> None:
    """Append the summary of a run's gate, if it has one, to GitHub Actions' step
    summary, if there is one.

    Raises:
        ConfigError: If the file cannot be written.
    """
    target = os.environ.get(STEP_SUMMARY)
    if (
        not target
        or folder is None
        or not (summary := Path(folder) / MARKDOWN).is_file()
    ):
        return
    with file_errors(
        "cannot be written", f"${STEP_SUMMARY} {target}", "check its permissions"
    ):
        text = summary.read_text(encoding="utf-8")
        # Appended: other steps of the job write to the same file.
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
