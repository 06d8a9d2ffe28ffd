"""Register the templates of a run as MLflow prompts, one version for each content, and link the run to them by tag."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.runs.layout import PROMPTS
from evalkit.tracking.connection import one_at_a_time
from evalkit.types import RunResult

if TYPE_CHECKING:
    from mlflow import MlflowClient

HASH, NOTE = "evalkit.sha256", "evalkit.prompts"
LINKED = "mlflow.linkedPrompts"
"""The tag with the prompts of a run."""
_EXPERIMENTS = "_mlflow_experiment_ids"
"""The tag with the experiments of a prompt."""
_IS_PROMPT = "mlflow.prompt.is_prompt"
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")


def prompt_tags(client: MlflowClient, experiment: str, result: RunResult) -> dict[str, str]:
    """Register the templates whose content is not registered yet, and return the tags that link a run to them.

    If the server has no prompts or refuses this user, a tag says so and the run is recorded without them.
    """
    from mlflow.exceptions import MlflowException

    try:
        linked = [
            {"name": name, "version": _version(client, experiment, name, text, digest)}
            for name, text, digest in _templates(result)
        ]
    except (MlflowException, NotImplementedError) as problem:
        reason = " ".join((str(problem) or type(problem).__name__).split())
        return {NOTE: f"not registered: {reason}"[:500]}
    return {LINKED: json.dumps(linked)} if linked else {}


def registered_name(template: str) -> str:
    """Return the name of a template's MLflow prompt: `en/pairwise.md.j2` is `evalkit.en.pairwise`."""
    stem = template.removesuffix(".j2").removesuffix(".md").replace("/", ".")
    plain = _STRANGE.sub("-", stem)
    suffix = "" if plain == stem else f"-{hashlib.sha256(template.encode()).hexdigest()[:6]}"
    return f"evalkit.{plain}{suffix}"


def _templates(result: RunResult) -> Iterator[tuple[str, str, str]]:
    """Yield the name, text and SHA-256 of each template whose text is in the run folder."""
    try:
        texts = json.loads((Path(result.folder or "") / PROMPTS).read_text("utf-8"))
    except (OSError, ValueError):
        return
    for template, digest in (result.manifest.get("prompt_hashes") or {}).items():
        text = texts.get(template) if isinstance(texts, dict) else None
        if isinstance(text, str) and digest in {_sha256(text, "utf-8"), _sha256(text, "utf-8-sig")}:
            yield registered_name(template), text, digest


def _sha256(text: str, encoding: str) -> str:
    return hashlib.sha256(text.encode(encoding, "replace")).hexdigest()


def _version(client: MlflowClient, experiment: str, name: str, text: str, digest: str) -> str:
    """Return the number of the version with this content, which is created if needed."""
    wanted = f"name = '{name}' AND tag.`{_IS_PROMPT}` = 'true' AND tag.`{HASH}` = '{digest}'"
    with one_at_a_time(f"{client.tracking_uri} prompt {name}"):
        known = client.get_prompt(name)
        if known is None:
            client.create_prompt(name, "A judge prompt template of evalkit", {_EXPERIMENTS: f",{experiment},"})
        elif experiment not in (ids := [one for one in known.tags.get(_EXPERIMENTS, "").split(",") if one]):
            client.set_prompt_tag(name, _EXPERIMENTS, f",{','.join([*ids, experiment])},")
        if found := client.search_model_versions(wanted, max_results=1):
            return str(found[0].version)
        return str(client.create_prompt_version(name, text, tags={HASH: digest}).version)
