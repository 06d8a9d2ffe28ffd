"""`evalkit score`, `evalkit track` and `evalkit reproduce`: score, record or repeat a
finished run.
"""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic import ValidationError

from evalkit.cli.console import (
    plain_console,
    print_heading,
    reported,
    text_table,
)
from evalkit.cli.gate_outcome import print_gate
from evalkit.cli.parser import UsageError
from evalkit.config import RunConfig, TrackingConfig
from evalkit.config.problems import config_error, known_keys
from evalkit.core.claims import claim_file
from evalkit.core.display import counted
from evalkit.core.errors import ConfigError, EvalkitError, ExitStatus, did_you_mean
from evalkit.core.values import Json, JsonObject
from evalkit.guard.config_sources import REPRODUCE, SCORE, SECTIONS, TRACK
from evalkit.guard.policy import check, origin_of
from evalkit.runs import claim_finished, read_run, write_files
from evalkit.runs.layout import JUDGMENTS
from evalkit.runs.results import RunResult

if TYPE_CHECKING:
    from rich.console import Console

    from evalkit.workflows.reproduction import MetricChange, Reproduction

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
    "judge.target",
    "judge.delta",
    "judge.last",
    "judge.calibration",
    "judge.thresholds",
    "judge.weights",
    "runner.stop.width",
    "gate",
)
"""What `evalkit score` can change without calling a judge."""
_WEIGHT: Final = re.compile(r"criteria\.(.+)\.weight")


def score(arguments: Namespace) -> int:
    """Score a finished run again, rewrite its folder and print the summary; no judge is called."""
    from evalkit.cli.summary import print_summary
    from evalkit.workflows.rescoring import rescore

    folder = Path(arguments.run_folder)
    # From reading to writing, so that no other command changes the folder in between.
    with claim_finished(folder):
        result = _named_run(arguments)
        config = apply_settings(result, arguments.overrides, SCORING_KEYS)
        # Trust is checked only then: all other settings of scoring stay in this folder.
        if config.gate.leads:  # another run, perhaps of the tracking server
            check(config, origin_of(folder, arguments.overrides), SECTIONS[SCORE])
        again = rescore(config, result, folder)
    print_summary(again)
    return print_gate(again)


def track(arguments: Namespace) -> int:
    """Record a finished run; overrides set other tracking.* values.

    Raises:
        ConfigError: if an override disables tracking.
    """
    with claim_finished(Path(arguments.run_folder)):
        tracked = _record_run(arguments)
    print(
        f"{tracked['tracker']}: run {tracked['id']} ({Path(arguments.run_folder).name})"
    )
    return 0


def _record_run(arguments: Namespace) -> JsonObject:
    """Record the run, and return the tracker and its id there.

    Raises:
        ConfigError: If an override turns tracking off.
        TrackingError: If it could not be recorded.
    """
    from evalkit.workflows.finishing import track

    result = _named_run(arguments)
    # The run may have been run without tracking.
    config = apply_settings(
        result, ["tracking.enabled=true", *arguments.overrides], ("tracking",)
    )
    check(
        config,
        origin_of(Path(arguments.run_folder), arguments.overrides),
        SECTIONS[TRACK],
    )
    if not config.tracking.enabled:
        raise ConfigError(
            "is false",
            where="tracking.enabled",
            remedy="omit it: this command tracks the run",
        )
    manifest = track(config, result).manifest
    return manifest.get("tracked") or {
        "tracker": "MLflow",
        "id": manifest["mlflow_run_id"],
    }


def _named_run(arguments: Namespace) -> RunResult:
    """Return the run in the folder that a command names.

    Raises:
        ConfigError: if it names no folder, or the folder has no run.
    """
    check_named(arguments, "a run folder")
    return read_run(Path(arguments.run_folder))


def check_named(arguments: Namespace, needed: str) -> None:
    """Check that a command names a run before its overrides.

    Raises:
        UsageError: if the first argument is an override.
    """
    if "=" in arguments.run_folder and not Path(arguments.run_folder).is_dir():
        raise UsageError(arguments.command, f"needs {needed} before the overrides")


def apply_settings(
    result: RunResult, overrides: Sequence[str] = (), allowed: Sequence[str] = ()
) -> RunConfig:
    """Return a run's checked config with overrides; only keys in `allowed` can be changed.

    Raises:
        ConfigError: if an override is not `key=value` or is not allowed here, or makes the config
            invalid.
    """
    # Overrides change the plain values; the config is then checked as a whole, as one file.
    values = result.config.dump()
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(
                "is not an override", where=override, remedy="write key=value"
            )
        if WEIGHT in allowed and (weight := _WEIGHT.fullmatch(key)):
            _set_weight(values, weight[1], read_value(key, text))
            continue
        # Anything else would change what was measured, and the stored answers are to the old
        # prompts.
        if not any(key == name or key.startswith(f"{name}.") for name in allowed):
            raise ConfigError(
                "cannot be changed here",
                where=key,
                remedy=_allowed_remedy(key, allowed),
            )
        _set(values, key.split("."), read_value(key, text))
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise config_error(error, []) from None


def _allowed_remedy(key: str, allowed: Sequence[str]) -> str:
    """Return the key that is probably meant if there is none of this name, or else all
    keys that can be changed.
    """
    *sections, name = key.split(".")
    if name in known_keys(sections):
        # The key exists but may not be changed: a similar name is not what the user means.
        close = []
    else:
        close = get_close_matches(key, allowed, n=1, cutoff=0.8)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"these can: {', '.join(allowed)}; for another value, start a new run with `evalkit run`"


_WORDS = ("on", "off", "yes", "no", "y", "n")
"""What YAML takes for true or false, and Hydra for a text, as in `store.mode=off`."""


def read_value(key: str, text: str) -> Any:
    """Return the value of an override `key=text`, as Hydra reads it when a run starts.

    Raises:
        ConfigError: if it is not YAML.
    """
    # `yaml.safe_load("off")` is `False`, which is not the mode `off`.
    if text.strip().lower() in _WORDS:
        return text.strip()
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(
            f"cannot be read as YAML: {text}",
            where=key,
            remedy=_quoting_remedy(key, text),
        ) from None


def _quoting_remedy(key: str, text: str) -> str:
    """Return how to write an override in a shell, so that its value is read as a text."""
    section, _, name = key.partition(".")
    # The names of metrics have characters that Hydra refuses in a key, so gates are set as a whole.
    if section == "gate" and name:
        quoted = f"'gate={{{name}: \"{text}\"}}'"
    else:
        quoted = f"'{key}=\"{text}\"'"
    return f"put quotes around a text with a special character: {quoted}"


def _set_weight(values: JsonObject, name: str, weight: Any) -> None:
    """Change the weight of a criterion, and remove its weight in `scoring.weights`.

    Args:
        values: The values of a config, which are changed.
        name: The criterion.
        weight: Its new weight, which is checked later.

    Raises:
        ConfigError: If there is no such criterion, or the prompt has its weight.
    """
    where = f"criteria.{name}.weight"
    criteria = values["criteria"]
    if name not in criteria:
        raise ConfigError(
            "no such criterion", where=where, remedy=did_you_mean(name, list(criteria))
        )
    if values["prompt"].get("show_weights"):
        remedy = f"run again, or set 'scoring.weights={{{name}: {weight}}}'"
        raise ConfigError(
            "is part of the prompt (prompt.show_weights)", where=where, remedy=remedy
        )
    # The new weight must count, and one in `scoring.weights` would win.
    values["criteria"] = {**criteria, name: {**criteria[name], "weight": weight}}
    values["scoring"]["weights"].pop(name, None)


def _set(values: JsonObject, path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        # A section that was not set, or was a single value, becomes one.
        if not isinstance(values.get(part), dict):
            values[part] = {}
        values = values[part]
    values[path[-1]] = value


PLACES = ("store.url", "dataset.path", "judge.api_base", "tracking.uri")
"""The only keys that may be set: locations, which are not part of the measurement."""
REPORT = "reproduction.json"
FOLDER = "folder="
MOST_ROWS = 30


def reproduce_(arguments: Namespace) -> int:
    """Reproduce a run, or every job of a sweep; exit with 4 if a metric differs.

    The run folder is not changed and no judge is called.
    """
    check_named(arguments, "a run or a sweep: its folder or MLflow run id")
    run = arguments.run_folder
    folder = arguments.output
    overrides = [word for word in arguments.overrides if not word.startswith(FOLDER)]
    if folder is None and (
        named := [word for word in arguments.overrides if word.startswith(FOLDER)]
    ):
        folder = Path(named[-1].removeprefix(FOLDER))
    # Needed before the run is found, which may be in that tracking server.
    uri = next(
        (
            word.partition("=")[2]
            for word in overrides
            if word.startswith("tracking.uri=")
        ),
        None,
    )
    from evalkit.tracking import find_run
    from evalkit.workflows.sweeps import find_jobs

    tracking = TrackingConfig(uri=uri)
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        # A sweep is looked for first: its folder contains runs, but is none.
        jobs = find_jobs(run, tracking, folder=Path.cwd(), scratch=Path(scratch))
        if jobs is not None:
            return _reproduce_jobs(run, jobs, overrides, folder)
        result = find_run(run, tracking, folder=Path.cwd(), scratch=Path(scratch))
        reproduction = _reproduce_run(result, overrides)
    _print_reproduction(run, result, reproduction)
    if folder is not None:
        _write_report(folder, _content(run, result, reproduction))
    if reproduction.equal:
        return ExitStatus.DONE
    return ExitStatus.GATE_FAILED


def _reproduce_run(result: RunResult, overrides: Sequence[str]) -> Reproduction:
    """Reproduce a run with overrides, which may only name other places, and return what differs.

    Raises:
        ConfigError: if an override sets anything else, or a place is not trusted.
    """
    config = apply_settings(result, overrides, PLACES)
    check(config, origin_of(Path(result.folder or "."), overrides), SECTIONS[REPRODUCE])
    # Naming a place asks to read from there, instead of the copies in the run folder.
    named = {word.partition("=")[0] for word in overrides}
    # Only now: a refused override needs none of what reproduces a run.
    from evalkit.workflows.reproduction import reproduce

    return reproduce(
        result,
        config,
        from_dataset="dataset.path" in named,
        from_store="store.url" in named,
    )


def _reproduce_jobs(
    sweep: str,
    jobs: Mapping[str, Callable[[], RunResult]],
    overrides: Sequence[str],
    folder: Path | None,
) -> int:
    """Reproduce each job of a sweep, print a line for it, and return the exit status.

    A job that cannot be read does not stop the others.
    """
    statuses = [int(ExitStatus.DONE)]
    contents = []
    equal = 0
    for name, fetch in jobs.items():
        with reported(statuses, EvalkitError, f"{name}: "):
            result = fetch()
            reproduction = _reproduce_run(result, overrides)
            contents.append(_content(name, result, reproduction))
            equal += reproduction.equal
            statuses.append(
                ExitStatus.DONE if reproduction.equal else ExitStatus.GATE_FAILED
            )
            print(f"{name}: {_in_one_line(reproduction)}")
    print(f"{sweep}: {equal} of {len(jobs)} jobs reproduced")
    if folder is not None:
        _write_report(
            folder, {"run": sweep, "equal": equal == len(jobs), "jobs": contents}
        )
    return max(statuses)


def _in_one_line(reproduction: Reproduction) -> str:
    """Describe a reproduction in one line, for a job of a sweep."""
    if reproduction.equal:
        return (
            f"reproduced, all {reproduction.compared} metrics are"
            f" equal{_added_metrics(reproduction)}"
            f" ({_what_was_checked(reproduction)})"
        )
    first = reproduction.metrics[0]
    differing = _count_differing(reproduction)
    example = f"{first.what} was {_short(first.was)}, is {_short(first.now)}"
    return (
        f"not reproduced, {differing} of {reproduction.compared} metrics differ, for example"
        f" {example}"
    )


def _count_differing(reproduction: Reproduction) -> int:
    """Return the number of metrics that differ; each may have several changes, as of its bounds."""
    return len({change.what.split(" ")[0] for change in reproduction.metrics})


def _added_metrics(reproduction: Reproduction) -> str:
    if not reproduction.added:
        return ""
    count = len(reproduction.added)
    return (
        f", and this evalkit has {count} that the run lacks:"
        f" {', '.join(reproduction.added[:3])}{', …' * (count > 3)}"
    )


def _what_was_checked(reproduction: Reproduction) -> str:
    """Describe what was repeated, and from which sources."""
    if reproduction.sources == (JUDGMENTS,):
        return "its judgments were scored again"
    done = f"{reproduction.prompts} of {reproduction.answers} prompts have the same content keys"
    return f"from {', '.join(reproduction.sources)}: {done}, answers were parsed and scored again"


def _print_reproduction(
    run: str, result: RunResult, reproduction: Reproduction
) -> None:
    """Print whether the metrics of a run are reproduced, what was checked, and what differs."""
    console = plain_console()
    manifest = result.manifest
    dataset = (manifest.get("dataset") or {}).get("name", "")
    parts = (manifest.get("mode"), manifest.get("judge"), dataset)
    title = " · ".join(str(part) for part in parts if part)
    console.print(
        print_heading(title, f" ({run}, {counted(reproduction.answers, 'answer')})")
    )
    if reproduction.missing:
        console.print(
            f"note: {reproduction.missing}, so the dataset and the store were read"
        )
    if manifest.get("imported"):
        console.print(
            "note: an imported run has no prompts to render and no answers to parse again"
        )
    if reproduction.carried:
        console.print(
            f"note: {reproduction.carried} failed requests have no answer and are copied as"
            " failures"
        )
    if reproduction.equal:
        console.print(
            f"  • Reproduced: all {reproduction.compared} metrics are equal to the last"
            f" bit{_added_metrics(reproduction)}."
        )
    else:
        console.print(
            f"  • Not reproduced: {_count_differing(reproduction)} of"
            f" {reproduction.compared} metrics differ."
        )
    console.print(
        f"  • Checked {_what_was_checked(reproduction)}. No judge was called."
    )
    _print_causes(console, reproduction)
    if reproduction.metrics:
        _print_table(console, "metric", reproduction.metrics)


def _print_causes(console: Console, reproduction: Reproduction) -> None:
    """Print what differs in data, prompts, versions and answers, and may explain the metrics."""
    if reproduction.reasons:
        if reproduction.equal:
            heading = "difference without effect on metrics"
        else:
            heading = "difference that may be the reason"
        _print_table(console, heading, reproduction.reasons)
    elif not reproduction.equal:
        console.print(
            "  • Data, prompts, versions and answers are the same: the cause is elsewhere."
        )


def _print_table(
    console: Console, heading: str, changes: Sequence[MetricChange]
) -> None:
    """Print a table of changes; of many, the first ones and the number of the others."""
    rows = (
        (change.what, _short(change.was), _short(change.now))
        for change in changes[:MOST_ROWS]
    )
    console.print("", text_table((heading, "was", "is"), rows=rows))
    if len(changes) > MOST_ROWS:
        console.print(
            f"and {len(changes) - MOST_ROWS} more; --output FOLDER writes them all"
        )


def _short(value: Any) -> str:
    """Shorten a hash; keep all digits of a number, because its last bit matters."""
    text = "–" if value is None else str(value)
    # A hash; floats have a point and fewer digits.
    if len(text) >= 32 and text.isalnum():
        return text[:12]
    return text


def _content(run: str, result: RunResult, reproduction: Reproduction) -> JsonObject:
    return {
        "run": run,
        "run_id": result.manifest.get("run_id"),
        "equal": reproduction.equal,
        **asdict(reproduction),
    }


def _write_report(folder: Path, content: Json) -> None:
    remedy = "choose another --output"
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    with claim_file(folder / REPORT, remedy):
        write_files(folder, {REPORT: text}, remedy)
    print(f"written: {folder / REPORT}")
