"""The outcome of a run's gate: what a command prints, and its exit status."""

from __future__ import annotations

from evalkit.cli.console import log, log_style, reported
from evalkit.cli.language import speaker
from evalkit.core.errors import ConfigError, ExitStatus
from evalkit.core.translation import gettext, ngettext
from evalkit.core.values import Json
from evalkit.runs.results import RunResult
from evalkit.workflows.gating import GATE, gate_faults, write_step_summary


def print_gate(result: RunResult) -> int:
    """Report the outcome of a run's gate, and return the exit status.

    Without a gate, nothing is reported. In GitHub Actions, its table is also written to the summary
    of the step; if that fails, the status is an error, too.
    """
    gate = result.manifest.get(GATE)
    if not gate:
        return ExitStatus.DONE
    # The gate's status counts even if its table cannot be written.
    status = gate_status(result)
    faults_of_summary: list[int] = []
    with reported(faults_of_summary, ConfigError):
        write_step_summary(result.folder)
    _print_outcome(result, gate, failed=status != ExitStatus.DONE)
    return max([status, *faults_of_summary])


def _print_outcome(result: RunResult, gate: Json, *, failed: bool) -> None:
    """Log the faults of a gate that failed; print the outcome of another one, unless only
    logs are wanted.
    """
    if failed:
        log("error", f"gate {gate['state']}: {gate_faults(gate)}", gate=gate)
    elif not log_style():
        text = ngettext(
            "gate: {n} rule passed", "gate: all {n} rules passed", len(gate["rules"])
        )
        if gate["state"] == "undecided":
            text = gettext("gate: {faults}", faults=gate_faults(gate))
        print(speaker(result.config)(text))


def gate_status(result: RunResult) -> int:
    """Return the exit status that a run's gate asks for."""
    state = (result.manifest.get(GATE) or {}).get("state")
    if state == "failed":
        return ExitStatus.GATE_FAILED
    strict = state == "undecided" and result.config.gate.undecided == "exit_5"
    if strict:
        return ExitStatus.GATE_UNDECIDED
    return ExitStatus.DONE
