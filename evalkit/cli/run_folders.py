"""Commands that take a finished run: its folder, and overrides of what may still be changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from evalkit.cli.console import log
from evalkit.config import RunConfig, criteria_by_name
from evalkit.errors import ConfigError, ExitStatus, did_you_mean
from evalkit.gating import GATE, gate_faults, write_step_summary
from evalkit.hydra_app.error_mapping import config_error
from evalkit.runs import read_run
from evalkit.runs.layout import CONFIG
from evalkit.types import RunResult

WEIGHT: Final = "criteria.NAME.weight"
"""What may be changed of criteria: their weights, which are scoring."""
_WEIGHT: Final = re.compile(r"criteria\.(.+)\.weight")


def read_one_run(command: str, words: Sequence[str]) -> tuple[Path, RunResult, list[str]]:
    """Return the run folder a command names, what is in it, and the overrides after it.

    Raises:
        ConfigError: if no folder is named, or it holds no run.
    """
    if not words or words[0].startswith("-") or ("=" in words[0] and not Path(words[0]).is_dir()):
        raise ConfigError(
            "needs a run folder", where=f"evalkit {command}", remedy=f"evalkit {command} outputs/DATE/RUN"
        )
    folder = Path(words[0])
    return folder, read_run(folder), list(words[1:])


def apply_settings(result: RunResult, overrides: Sequence[str] = (), allowed: Sequence[str] = ()) -> RunConfig:
    """Return a run's config, checked, with some settings changed; only those named in `allowed` may be.

    Raises:
        ConfigError: if an override is not `key=value` or is not allowed here, or the config is not valid with it.
    """
    values = deepcopy(dict(result.config))
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError("is not an override", where=override, remedy="write key=value")
        if WEIGHT in allowed and (found := _WEIGHT.fullmatch(key)):
            _set_weight(values, found[1], yaml.safe_load(text))
            continue
        if not any(key == name or key.startswith(f"{name}.") for name in allowed):
            raise ConfigError("cannot be changed here", where=key, remedy=f"these can: {', '.join(allowed)}")
        _set(values, key.split("."), yaml.safe_load(text))
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        # What is wrong with an override does not stand in the file.
        files = [Path(result.folder) / CONFIG] if result.folder and not overrides else []
        raise config_error(error, files) from None


def _set_weight(values: dict[str, Any], name: str, weight: Any) -> None:
    """Give a criterion another weight, also where `scoring.weights` gave it one."""
    where, criteria = f"criteria.{name}.weight", criteria_by_name(values["criteria"])  # older runs have a list
    if name not in criteria:
        raise ConfigError("no such criterion", where=where, remedy=did_you_mean(name, list(criteria)))
    if values["prompt"].get("show_weights"):
        remedy = f"run again, or set 'scoring.weights={{{name}: {weight}}}'"
        raise ConfigError("stands in the prompt, by prompt.show_weights", where=where, remedy=remedy)
    values["criteria"] = {**criteria, name: {**criteria[name], "weight": weight}}
    values["scoring"]["weights"].pop(name, None)


def _set(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        if not isinstance(values.get(part), dict):
            values[part] = {}
        values = values[part]
    values[path[-1]] = value


def print_gate(result: RunResult) -> int:
    """Say if a run's gate failed, put its table where GitHub Actions shows it, and return the exit status."""
    gate = result.manifest.get(GATE)
    if not gate:
        return int(ExitStatus.DONE)
    status = ExitStatus.DONE
    try:
        write_step_summary(result.folder)
    except ConfigError as error:
        log("error", str(error))
        status = error.status
    if gate["state"] == "failed":
        log("error", f"gate failed: {gate_faults(gate)}", gate=gate)
        status = ExitStatus.GATE_FAILED
    return int(status)
