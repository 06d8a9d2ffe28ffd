"""`evalkit score` and `evalkit track`: score or record a finished run again under other settings."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from evalkit.cli.arguments import UsageError
from evalkit.cli.console import log, log_style
from evalkit.config import RunConfig
from evalkit.config.validation import config_error
from evalkit.errors import ConfigError, ExitStatus, did_you_mean
from evalkit.gating import GATE, gate_faults, write_step_summary
from evalkit.results import RunResult
from evalkit.runs import read_run

WEIGHT: Final = "criteria.NAME.weight"
"""The only key of criteria that can be changed, because weights are applied when scoring."""
SCORING_KEYS: Final = (
    "scoring",
    WEIGHT,
    "swap.resolve",
    "tie.threshold",
    "tie.min_confidence",
    "judge.vote",
    "judge.quorum",
    "judge.weights",
    "gate",
)
"""What `evalkit score` can change without calling a judge."""
_WEIGHT: Final = re.compile(r"criteria\.(.+)\.weight")


def score(arguments: Namespace) -> int:
    """Score a finished run again, rewrite its folder and print the summary; no judge is called."""
    from evalkit.api import rescore
    from evalkit.cli.summary import print_summary

    result = _read(arguments)
    again = rescore(apply_settings(result, arguments.overrides, SCORING_KEYS), result, Path(arguments.run_folder))
    print_summary(again)
    return print_gate(again)


def track(arguments: Namespace) -> int:
    """Record a finished run; overrides set other tracking.* values.

    Raises:
        ConfigError: if an override disables tracking.
    """
    from evalkit import api

    result = _read(arguments)
    # The run may have been run without tracking.
    config = apply_settings(result, ["tracking.enabled=true", *arguments.overrides], ("tracking",))
    if not config.tracking.enabled:
        raise ConfigError("is false", where="tracking.enabled", remedy="omit it: this command tracks the run")
    manifest = api.track(config, result).manifest
    tracked = manifest.get("tracked") or {"tracker": "MLflow", "id": manifest["mlflow_run_id"]}
    print(f"{tracked['tracker']}: run {tracked['id']} ({Path(arguments.run_folder).name})")
    return 0


def _read(arguments: Namespace) -> RunResult:
    """Return the run in the folder that a command names.

    Raises:
        ConfigError: if it names no folder, or the folder has no run.
    """
    check_named(arguments, "a run folder")
    return read_run(Path(arguments.run_folder))


def check_named(arguments: Namespace, what: str) -> None:
    """Check that a command names a run before its overrides.

    Raises:
        UsageError: if the first argument is an override.
    """
    if "=" in arguments.run_folder and not Path(arguments.run_folder).is_dir():
        raise UsageError(arguments.command, f"needs {what} before the overrides")


def apply_settings(result: RunResult, overrides: Sequence[str] = (), allowed: Sequence[str] = ()) -> RunConfig:
    """Return a run's checked config with overrides; only keys in `allowed` can be changed.

    Raises:
        ConfigError: if an override is not `key=value` or is not allowed here, or makes the config invalid.
    """
    values = result.config.dump()
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError("is not an override", where=override, remedy="write key=value")
        if WEIGHT in allowed and (found := _WEIGHT.fullmatch(key)):
            _set_weight(values, found[1], _value(key, text))
            continue
        if not any(key == name or key.startswith(f"{name}.") for name in allowed):
            raise ConfigError("cannot be changed here", where=key, remedy=_allowed_remedy(key, allowed))
        _set(values, key.split("."), _value(key, text))
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise config_error(error, []) from None


def _allowed_remedy(key: str, allowed: Sequence[str]) -> str:
    """Return the key that is probably meant, or all keys that can be changed."""
    if close := get_close_matches(key, allowed, n=1, cutoff=0.8):
        return f"did you mean '{close[0]}'?"
    return f"these can: {', '.join(allowed)}; for another value, start a new run with `evalkit run`"


def _value(key: str, text: str) -> Any:
    """Read the value of an override.

    Raises:
        ConfigError: if it is not YAML.
    """
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        group, _, name = key.partition(".")
        quoted = f"'gate={{{name}: \"{text}\"}}'" if group == "gate" and name else f"'{key}=\"{text}\"'"
        remedy = f"put quotes around a text with a special character: {quoted}"
        raise ConfigError(f"cannot be read as YAML: {text}", where=key, remedy=remedy) from None


def _set_weight(values: dict[str, Any], name: str, weight: Any) -> None:
    """Change the weight of a criterion, and remove its weight in `scoring.weights`."""
    where, criteria = f"criteria.{name}.weight", values["criteria"]
    if name not in criteria:
        raise ConfigError("no such criterion", where=where, remedy=did_you_mean(name, list(criteria)))
    if values["prompt"].get("show_weights"):
        remedy = f"run again, or set 'scoring.weights={{{name}: {weight}}}'"
        raise ConfigError("is part of the prompt (prompt.show_weights)", where=where, remedy=remedy)
    values["criteria"] = {**criteria, name: {**criteria[name], "weight": weight}}
    values["scoring"]["weights"].pop(name, None)


def _set(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        if not isinstance(values.get(part), dict):
            values[part] = {}
        values = values[part]
    values[path[-1]] = value


def print_gate(result: RunResult) -> int:
    """Report the outcome of a gate, write its table to the summary of GitHub Actions, and return the exit status."""
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
    elif not log_style():
        count = len(gate["rules"])
        rules = f"{count} rule" if count == 1 else f"all {count} rules"
        print(f"gate: {gate_faults(gate)}" if gate["state"] == "undecided" else f"gate: {rules} passed")
    return int(status)
