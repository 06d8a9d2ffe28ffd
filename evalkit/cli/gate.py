"""What a command says of a run's gate, and the exit status that it comes to."""

from __future__ import annotations

from evalkit.cli.voice import say
from evalkit.errors import ConfigError, ExitStatus
from evalkit.gating import GATE, gate_faults, write_step_summary
from evalkit.types import RunResult


def tell_gate(result: RunResult) -> int:
    """Say if a run's gate failed, put its table where GitHub Actions shows it, and return the exit status."""
    gate = result.manifest.get(GATE)
    if not gate:
        return int(ExitStatus.DONE)
    status = ExitStatus.DONE
    try:
        write_step_summary(result.folder)
    except ConfigError as error:
        say("error", str(error))
        status = error.status
    if gate["state"] == "failed":
        say("error", f"gate failed: {gate_faults(gate)}", gate=gate)
        status = ExitStatus.GATE_FAILED
    return int(status)
