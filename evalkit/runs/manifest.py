"""Build the manifest and the config file of a run."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from uuid import uuid4

import yaml

from evalkit.config import RunConfig
from evalkit.core.bounded_files import read_yaml
from evalkit.core.hashing import digest
from evalkit.core.resources import own_version
from evalkit.core.values import Json, JsonObject

PACKAGES = (
    "hydra-core",
    "omegaconf",
    "pydantic",
    "litellm",
    "mlflow",
    "numpy",
    "scipy",
    "jinja2",
    "json-repair",
)


def environment_versions() -> JsonObject:
    """Return the versions of evalkit, Python and `PACKAGES`, and the git commit; `None`
    for what is missing.
    """
    return {
        "evalkit": own_version(),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
        "git_commit": _git_commit(),
    }


@cache
def version_of(package: str) -> str | None:
    """Return the version of an installed package; `None` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    command = ("git", "rev-parse", "HEAD")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def describe_run(
    config: RunConfig,
    *,
    started: datetime,
    dataset: Json,
    prompt_hashes: Mapping[str, str],
    judges: Sequence[Json],
    notes: Sequence[str],
    sweep: Json | None = None,
    judging: Json | None = None,
    imported: Json | None = None,
    run_id: str | None = None,
) -> JsonObject:
    """Return the manifest of a run before scoring.

    Args:
        config: The run's config.
        started: The start of the run.
        dataset: The name, source, fingerprint, rows and benchmark of the cases.
        prompt_hashes: The hash of each template.
        judges: The description of each judge.
        notes: Notes for the user.
        sweep: The sweep that the run belongs to.
        judging: `stopped` and `timing`, if the run judged its cases itself.
        imported: The source of imported judgments, for which no template was used.
        run_id: The identity of the run; by default a new one.
    """
    manifest: JsonObject = {
        "run_id": run_id or uuid4().hex,
        **environment_versions(),
        "config_hash": config.hash(),
        # The prompts of imported judgments are not known.
        "prompt_hashes": {} if imported else {**prompt_hashes},
        "prompt_hash": digest({**prompt_hashes}),
        "dataset": {**dataset},
        "judges": [{**judge} for judge in judges],
        "mode": config.mode.name,
        "judge": config.judge.label,
        "started": started.isoformat(),
        # An import ends at once; another run ends when it is scored.
        "ended": _now() if imported else None,
        "sweep": {**sweep} if sweep else None,
        "mlflow_run_id": None,
        "notes": [*notes],
        **(judging or {}),
    }
    if imported:
        manifest["imported"] = {**imported}
    return manifest


def describe_scoring(
    manifest: Json,
    *,
    notes: Sequence[str],
    stale: tuple[str, ...],
    clusters: Json,
    opened: int | None = None,
    seconds: float | None = None,
    rescored: RunConfig | None = None,
) -> JsonObject:
    """Return a manifest with the results of scoring, which replace those of an earlier scoring.

    Args:
        manifest: The manifest so far.
        notes: Notes on how scoring applied its settings.
        stale: The prefixes of an earlier scoring's notes.
        clusters: The units that intervals resample.
        opened: How often the labels of this test data were used; `None` without a test side.
        seconds: The duration of scoring in seconds, if the run ends with it.
        rescored: The config, if the run was scored before.
    """
    # Notes of an earlier scoring are replaced; those about the judging remain.
    kept = [note for note in manifest.get("notes") or () if not note.startswith(stale)]
    described = {**manifest, "notes": [*kept, *notes], "clusters": {**clusters}}
    if opened is not None:
        described["test_labels_opened"] = opened
    if rescored is not None:
        return {**described, "config_hash": rescored.hash(), "rescored": _now()}
    return {
        **described,
        "timing": {**described["timing"], "scoring": seconds},
        "ended": _now(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat()


HEAD = "# The resolved config of this run. Repeat the run with `evalkit run` on this file.\n"
DEFAULTS = ["schema", "runtime", "_self_"]

# Some YAML readers take a text such as 1e3 for a number, and an unescaped NEL, LS or PS for a line
# break. In double quotes it is a text for all of them.
_QUOTED = re.compile("^[-+.\\d]|[\x85\u2028\u2029\ufeff]")
_INTERPOLATION = re.compile(r"(\\*)\$\{")


_Fastest: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The emitter of libyaml, where PyYAML has it, takes a quarter of the time."""


class _Dumper(_Fastest):  # type: ignore[misc]
    # Equal values would become anchors and references, which few people can read.
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the overridden method's own name
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _QUOTED.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(config: Json) -> bytes:
    """Return a config of JSON values as YAML with a Hydra defaults list; `${` is
    escaped so that it stays text.
    """
    # With the defaults list, the file is also a config that `evalkit run` composes.
    body = {"defaults": DEFAULTS, **escaped(config)}
    text: str = yaml.dump(
        body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
    )
    return (HEAD + text).encode()


def escaped(config: Json) -> JsonObject:
    """Return the config with `${` escaped, so that it stays text when it is composed."""
    plain: JsonObject = _texts(config, _escaped)
    return plain


def load(content: bytes) -> JsonObject:
    """Return a config that was written by `dump`.

    Raises:
        ValueError: If the file is not such a config; the message is one line, with the line number
            if known.
    """
    config = read_yaml(content.decode())
    if not isinstance(config, dict):
        raise ValueError("not a mapping")
    config.pop("defaults", None)
    plain: JsonObject = _texts(config, _unescaped)
    return plain


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _texts(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_texts(part, change) for part in value]
    return value


def _escaped(text: str) -> str:
    # Backslashes in front are doubled, since one of them would otherwise undo the escape.
    return _INTERPOLATION.sub(lambda match: match[1] * 2 + "\\${", text)


def _unescaped(text: str) -> str:
    return _INTERPOLATION.sub(lambda match: match[1][: len(match[1]) // 2] + "${", text)
