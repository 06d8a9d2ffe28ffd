"""The one parent run of a sweep."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.core.regular_files import read_file
from evalkit.core.values import Json, JsonObject
from evalkit.runs.layout import DATASHEET
from evalkit.runs.records import unescaped
from evalkit.tracking.connection import one_at_a_time
from evalkit.tracking.contents import (
    DECISION,
    MAIN,
    MAX_PARAM,
    MAX_ROWS,
    NOTE,
    USER,
    param_name,
    param_text,
    short_names,
    user,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


SWEEP, ROLE, PARENT = "evalkit.sweep", "evalkit.role", "mlflow.parentRunId"


def child_tags(
    client: MlflowClient,
    experiment: str,
    sweep: Json,
    *,
    started: int | None,
    under: Run | None = None,
) -> dict[str, str]:
    """Return the tags that put a job's run under its sweep's parent run, which is
    created if needed.

    Args:
        client: A client of the store.
        experiment: The id of the experiment.
        sweep: The manifest's entry about the sweep.
        started: When the job started, in milliseconds since 1970.
        under: A run of the user's own that is the parent instead; it keeps running.
    """
    if under is None:
        parent = parent_run(client, experiment, sweep, started=started)
    else:
        parent = str(under.info.run_id)
        # a run of the user's has no role before its first job
        if under.data.tags.get(ROLE) != "sweep":
            client.set_tag(parent, ROLE, "sweep")
    return {PARENT: parent, SWEEP: _identity(sweep)}


def _identity(sweep: Json) -> str:
    return str(sweep["id"]).replace("'", "")


def find_runs(client: MlflowClient, experiment: str, **tags: str) -> list[Run]:
    """Return the experiment's runs that have all `tags` (`run_id` stands for
    `evalkit.run_id`), oldest first.
    """
    terms = [
        f"tags.`evalkit.{tag}` = '{value.replace(chr(39), '')}'"
        for tag, value in tags.items()
    ]
    runs = client.search_runs(
        [experiment], filter_string=" AND ".join(terms), max_results=100
    )
    return sorted(runs, key=lambda run: (run.info.start_time, run.info.run_id))


def parent_run(
    client: MlflowClient, experiment: str, sweep: Json, *, started: int | None
) -> str:
    """Return the id of the sweep's parent run, which is created if needed.

    It ends when its last job is recorded.

    Processes on one machine take turns. If two machines each create a parent, the older one is
    kept.
    """
    identity = _identity(sweep)
    with one_at_a_time(f"{client.tracking_uri} {experiment} {identity}"):
        # The lock covers the processes of this user; on another machine, both may create a
        # parent.
        if not (parents := find_runs(client, experiment, sweep=identity, role="sweep")):
            created = _create_parent(client, experiment, identity, sweep, started)
            parents = find_runs(client, experiment, sweep=identity, role="sweep") or [
                created
            ]
            # Both see the same oldest one, and the younger one is removed by its creator.
            if parents[0].info.run_id != created.info.run_id:
                client.delete_run(created.info.run_id)
        parent = str(parents[0].info.run_id)
        # Set with each job, so that its end is that of the last one.
        client.set_terminated(parent, "FINISHED")
    return parent


def _create_parent(
    client: MlflowClient,
    experiment: str,
    identity: str,
    sweep: Json,
    started: int | None,
) -> Run:
    """Create and return the run that groups the jobs of a sweep."""
    tags = {
        SWEEP: identity,
        ROLE: "sweep",
        "mlflow.source.name": "evalkit run -m",
        "mlflow.source.type": "LOCAL",
        USER: user(),
    }
    return client.create_run(
        experiment,
        start_time=started,
        tags={key: text for key, text in tags.items() if text is not None},
        run_name=str(sweep.get("name") or identity),
    )


_ENDS = (("", "value"), ("/low", "low"), ("/high", "high"))
# the most pairs of jobs: a batch has at most 1,000 metrics, and leaderboard.json has all pairs
_CONTRADICTIONS = 200
_MOST_PARAMS = 100
"""The most params that MLflow takes in one batch."""


def attach(client: MlflowClient, child: str, files: Sequence[Path]) -> str | None:
    """Log files with the parent of the run `child`, and return the parent's id; `None` for a run
    without a parent, for which nothing is logged.

    A CSV is also logged as a table. A leaderboard in JSON becomes params, tags, metrics and a
    description.
    """
    parent = client.get_run(child).data.tags.get(PARENT)
    if parent is None:
        return None
    # all files first, because what follows describes them
    for file in files:
        client.log_artifact(parent, str(file))
    for file in files:
        if file.suffix == ".json" and file.stem != DATASHEET:
            _describe_parent(client, parent, json.loads(read_file(file)))
    # MLflow shows the first table; that of cases has as many rows as fit
    tables = [file for file in files if file.suffix == ".csv"]
    for file in tables:
        client.log_text(parent, table_of(file), _table_path(file))
    if tables:
        shown = [{"path": _table_path(file), "type": "table"} for file in tables]
        client.set_tag(parent, "mlflow.loggedArtifacts", json.dumps(shown))
    return str(parent)


def _table_path(file: Path) -> str:
    return f"tables/{file.stem}.json"


def _describe_parent(client: MlflowClient, parent: str, board: Json) -> None:
    """Record what a sweep found at its parent run: params, tags, metrics and a description.

    Args:
        client: The client of the store.
        parent: The id of the parent run.
        board: The sweep's leaderboard, as in its JSON.
    """
    from mlflow.entities import Metric, Param, RunTag

    recorded = client.get_run(parent).data.params
    # MLflow cannot change a param, which extending a sweep would require: the tags have the current
    # values.
    params = [
        Param(name, value)
        for name, value in definition(board).items()
        if name not in recorded
    ]
    tags = [
        RunTag(name, value)
        for name, value in (tags_of(board) | {NOTE: description(board)}).items()
    ]
    stamp = int(time.time() * 1000)
    values = best_metrics(board) | contradictions(board)
    metrics = [Metric(name, value, stamp, 0) for name, value in values.items()]
    first_params = params[:_MOST_PARAMS]
    client.log_batch(parent, metrics=metrics, params=first_params, tags=tags)


def definition(board: Json) -> dict[str, str]:
    """Return a sweep's definition: `sweep.name`, `sweep.jobs`, and `sweep.KEY` with the
    values of each swept key.
    """
    sweep = board.get("sweep") or {}
    swept = {
        f"sweep.{key}": ", ".join(values)
        for key, values in (sweep.get("swept") or {}).items()
    }
    values = {"sweep.name": sweep.get("name"), "sweep.jobs": sweep.get("jobs"), **swept}
    return {
        param_name(key): param_text(key, str(value))
        for key, value in values.items()
        if value
    }


def tags_of(board: Json) -> dict[str, str]:
    """Return the tags of a sweep: what was swept, what jobs are ranked by, and the best job."""
    sweep = board.get("sweep") or {}
    swept = " ".join(
        f"{key}={param_text(key, ','.join(values))}"
        for key, values in (sweep.get("swept") or {}).items()
    )
    best = _best(board)
    values = {
        "evalkit.sweep.name": sweep.get("name"),
        "evalkit.sweep.jobs": sweep.get("jobs"),
        "evalkit.sweep.swept": swept[:MAX_PARAM],
        "evalkit.sweep.ranked_by": board.get("by"),
        "evalkit.sweep.best": f"{best['name']} (job {best['job']})" if best else None,
        DECISION: (best.get("decision") or {}).get("use") if best else None,
    }
    return {key: str(value) for key, value in values.items() if value}


def best_metrics(board: Json) -> dict[str, float]:
    """Return the best job's metrics in the leaderboard, by their names in the job's own
    run: short ones first.
    """
    best = _best(board) or {"metrics": {}}
    main = dict(islice(best["metrics"].items(), MAIN))
    ends = {short: main[name].get("value") for short, name in short_names(main).items()}
    ends |= {
        f"{name}{end}": values.get(key)
        for name, values in main.items()
        for end, key in _ENDS
    }
    return {
        param_name(name): float(value)
        for name, value in ends.items()
        if value is not None
    }


def contradictions(board: Json) -> dict[str, float]:
    """Return how often scores contradict comparisons, by the names of the two jobs if
    there are several pairs.
    """
    listed = (board.get("contradictions") or [])[:_CONTRADICTIONS]
    names = {row["job"]: row["name"] for row in board["rows"]}
    values: dict[str, float | None] = {}
    for contradiction in listed:
        if len(listed) > 1:
            pair = (
                f"/{names[contradiction['scores']]} against "
                f"{names[contradiction['comparisons']]}"
            )
        else:
            pair = ""
        metric = contradiction["metrics"]["between/contradiction"]
        values |= {
            f"between/contradiction{pair}{end}": metric.get(key) for end, key in _ENDS
        }
    return {
        param_name(name): float(value)
        for name, value in values.items()
        if value is not None
    }


def description(board: Json) -> str:
    """Return a sweep's outcome in words: which job to use, or none, for each dataset."""
    return (
        " ".join(choice["text"] for choice in board.get("choices") or ())
        or "See `leaderboard.csv`."
    )


def _best(board: Json) -> JsonObject | None:
    """Return the row of the job to use, otherwise the first row, if all jobs are ranked
    together.
    """
    rows: list[JsonObject] = board["rows"]
    if (
        not board.get("by")
        or len({row["dataset"] for row in rows}) > 1
        or not rows[0]["metrics"]
    ):
        return None
    chosen = next((choice["job"] for choice in board.get("choices") or ()), None)
    return next((row for row in rows if row["job"] == chosen), rows[0])


def table_of(file: Path) -> str:
    """Return the first rows of a CSV as JSON in the layout that MLflow's table view
    reads, numbers as numbers.
    """
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines)
        columns = next(reader)
        # MLflow's page needs seconds for larger tables.
        rows = list(islice(reader, MAX_ROWS))
    data = [
        [_value(column, text) for column, text in zip(columns, row, strict=True)]
        for row in rows
    ]
    return json.dumps({"columns": columns, "data": data}, ensure_ascii=False)


def _value(column: str, text: str) -> str | float | None:
    if "/" not in column and column not in ("rank", "tie_rate"):
        return str(unescaped(text))
    try:
        if text:
            return float(text)
        return None
    except ValueError:
        return text
