"""The one parent run of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evalkit.tracking.connection import one_at_a_time

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SWEEP, ROLE, PARENT = "evalkit.sweep", "evalkit.role", "mlflow.parentRunId"


def child_tags(
    client: MlflowClient, experiment: str, sweep: Mapping[str, Any], *, started: int | None
) -> dict[str, str]:
    """Return the tags that put a job's run under its sweep's parent run, which is made if there is none."""
    return {PARENT: parent_run(client, experiment, sweep, started=started), SWEEP: _identity(sweep)}


def _identity(sweep: Mapping[str, Any]) -> str:
    return str(sweep["id"]).replace("'", "")


def find_runs(client: MlflowClient, experiment: str, **wanted: str) -> list[Run]:
    """Return the experiment's runs that have all `wanted` tags (`run_id` stands for `evalkit.run_id`), oldest first."""
    terms = [f"tags.`evalkit.{tag}` = '{value.replace(chr(39), '')}'" for tag, value in wanted.items()]
    found = client.search_runs([experiment], filter_string=" AND ".join(terms), max_results=100)
    return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))


def parent_run(client: MlflowClient, experiment: str, sweep: Mapping[str, Any], *, started: int | None) -> str:
    """Return the id of the sweep's parent run, made if there is none; its end is when its last job was recorded.

    Several processes may ask at once: on one machine they take turns, and of two parents made on different
    machines the older one stays.
    """
    identity = _identity(sweep)
    with one_at_a_time(f"{client.tracking_uri} {experiment} {identity}"):
        if not (found := find_runs(client, experiment, sweep=identity, role="sweep")):
            made = _create(client, experiment, identity, sweep, started)
            found = find_runs(client, experiment, sweep=identity, role="sweep") or [made]
            if found[0].info.run_id != made.info.run_id:
                client.delete_run(made.info.run_id)
        parent = str(found[0].info.run_id)
        client.set_terminated(parent, "FINISHED")
    return parent


def _create(client: MlflowClient, experiment: str, identity: str, sweep: Mapping[str, Any], started: int | None) -> Run:
    tags = {SWEEP: identity, ROLE: "sweep", "mlflow.source.name": "evalkit run -m", "mlflow.source.type": "LOCAL"}
    return client.create_run(experiment, start_time=started, tags=tags, run_name=str(sweep.get("name") or identity))
