"""Fetch finished runs, evaluation datasets and logged files from MLflow."""

from __future__ import annotations

import atexit
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.config import TrackingConfig
from evalkit.core.errors import ConfigError, DatasetError, TrackingError
from evalkit.core.redaction import without_password
from evalkit.core.values import JsonObject
from evalkit.datasets import Fetch, Source, downloaded
from evalkit.datasets.sources import TRACES
from evalkit.runs import read_run
from evalkit.runs.results import RunResult
from evalkit.tracking.connection import (
    mlflow_errors,
    open_client,
    sqlite_file,
    tracking_uri,
)
from evalkit.tracking.parent_runs import PARENT, ROLE

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


_REMEDY = "name a run folder, or set tracking.uri to the store that holds it"
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_MOST_JOBS = 5_000
"""The most jobs of a sweep that are fetched."""


def is_run_id(word: str) -> bool:
    """Return whether a word looks like an MLflow run id."""
    return bool(_RUN_ID.fullmatch(word))


def fetch_run(uri: str, run_id: str, into: Path) -> Path:
    """Download the recorded folder of the run `run_id` into a folder, and return its path.

    Raises:
        ConfigError: if the store has no such run, or the run has no run folder.
        TrackingError: if the store cannot be reached.
    """
    with _fetch_errors(uri, run_id):
        folder = Path(_download(uri, run_id, into))
    if not (folder / "manifest.json").is_file():
        raise ConfigError(
            "has no run folder",
            where=f"MLflow run {run_id}",
            remedy="name a run that evalkit recorded",
        )
    return folder


def job_runs(uri: str, run_id: str) -> dict[str, str] | None:
    """Return the MLflow run id of each job of a sweep by the job's name; `None` if `run_id` is not
    a parent run.

    Jobs are in the order of their start, at most `_MOST_JOBS` of them. Those with the same name
    have their run id after it.

    Raises:
        ConfigError: if the store has no such run.
        TrackingError: if the store cannot be reached.
    """
    with _fetch_errors(uri, run_id):
        client = open_client(uri)
        run = _get_run(client, uri, run_id)
        if run.data.tags.get(ROLE) != "sweep":
            return None
        runs = client.search_runs(
            [run.info.experiment_id],
            filter_string=f"tags.`{PARENT}` = '{run_id}'",
            max_results=_MOST_JOBS,
        )
    # By start, as in the sweep; the id makes the order certain if two started at once.
    jobs = sorted(runs, key=lambda job: (job.info.start_time, job.info.run_id))
    names = [str(job.info.run_name) for job in jobs]
    run_ids: dict[str, str] = {}
    for name, job in zip(names, jobs, strict=True):
        run_id_of_job = str(job.info.run_id)
        is_unique = names.count(name) == 1
        run_ids[name if is_unique else f"{name} ({run_id_of_job})"] = run_id_of_job
    return run_ids


def _download(uri: str, run_id: str, into: Path) -> str:
    client = open_client(uri)
    _get_run(client, uri, run_id)
    into.mkdir(parents=True, exist_ok=True)
    return str(client.download_artifacts(run_id, "", str(into)))


def _get_run(client: MlflowClient, uri: str, run_id: str) -> Run:
    """Return an MLflow run.

    Raises:
        ConfigError: if there is no such run.
    """
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id)
    except MlflowException as problem:
        # Other errors, such as a server that is down, are not about this run.
        if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise ConfigError(
            "no such run",
            where=f"MLflow run {run_id} in {without_password(uri)}",
            remedy=_REMEDY,
        ) from None


def _fetch_errors(uri: str, run_id: str) -> AbstractContextManager[None]:
    """Return a context in which errors of MLflow become one line about a run.

    Raises:
        ConfigError: If the store is a database that does not exist.
    """
    location = without_password(uri)
    # A client would create the database, and then not find the run in it.
    if (file := sqlite_file(uri)) is not None and not file.is_file():
        raise ConfigError(
            "no such run, since this database does not exist",
            where=f"MLflow run {run_id} in {uri}",
            remedy=_REMEDY,
        )
    return mlflow_errors(
        lambda cause: TrackingError(
            f"{location}: run {run_id} could not be fetched: {cause}"
        )
    )


def find_run(
    word: str, tracking: TrackingConfig, *, folder: Path, scratch: Path
) -> RunResult:
    """Return the run with this name.

    Args:
        word: a run folder, or the id of a run at MLflow.
        tracking: which store holds recorded runs.
        folder: where relative stores start.
        scratch: a folder for downloads, which must exist as long as the run is used.

    Raises:
        ConfigError: if there is no such run, or it is damaged.
        TrackingError: if it must be fetched and the store cannot be reached.
    """
    # A folder first: its name may look like an id.
    if (folder / word).exists() or not is_run_id(word):
        return read_run(folder / word)
    return read_run(fetch_run(tracking_uri(tracking, folder), word, scratch / word))


DATASET, RUN = "mlflow", "runs"
_ID = "d-"
_COLUMNS = ("inputs", "outputs", "expectations", "tags")


def dataset_fetchers(config: TrackingConfig) -> Mapping[str, Fetch]:
    """Return functions that fetch `mlflow:NAME` (or a dataset's id) and
    `runs:/RUN_ID/PATH` from the tracking store.

    A record's columns are `id`, `inputs`, `outputs`, `expectations` and `tags`; all but `id` are
    objects. Relative stores start from the current folder. MLflow is imported only when something
    is fetched.
    """

    def dataset(named: str, _format: str | None) -> Source:
        return _dataset_source(tracking_uri(config), named)

    def artifact(named: str, format_: str | None) -> Source:
        return _artifact_source(tracking_uri(config), named, format_)

    return {DATASET: dataset, RUN: artifact}


def _dataset_source(uri: str, named: str) -> Source:
    """Return the records of an MLflow dataset as rows, each with the record's id.

    Args:
        uri: The tracking store.
        named: The dataset as in `dataset.path`: a scheme, a colon and its name.

    Raises:
        DatasetError: If it cannot be fetched.
    """
    name = named.partition(":")[2].strip("/")
    with _source_errors(uri, named):
        # All at once, so that errors of the store come here and not in the middle of a run.
        records = _fetch_records(uri, name, named)

    def rows() -> Iterator[tuple[str, JsonObject]]:
        for number, record in enumerate(records, 1):
            row = {
                "id": record["dataset_record_id"],
                **{name: record[name] for name in _COLUMNS},
            }
            yield f"{named}:row {number}", row

    return Source(named, rows)


def _fetch_records(uri: str, name: str, named: str) -> list[JsonObject]:
    """Return all records of the dataset with this name or id.

    Raises:
        DatasetError: if there is none, several have the name, or it has no records.
    """
    client = open_client(uri)
    from mlflow.tracking._tracking_service.utils import _use_tracking_uri

    # A dataset loads its records from the process's current store.
    with _use_tracking_uri(uri):
        if name.startswith(_ID):
            dataset = client.get_dataset(name)
        else:
            dataset = _dataset_by_name(client, uri, name, named)
        records: list[JsonObject] = dataset.to_df().to_dict("records")
    if not records:
        raise DatasetError(
            "the dataset has no records",
            where=named,
            remedy="name one that has records",
        )
    return records


def fetch_traces(uri: str, experiment: str, into: Path) -> None:
    """Write the traces of an experiment to a file, one `Trace.to_json` for each line.

    Raises:
        DatasetError: If the store cannot be reached, or has no such experiment or no traces.
    """
    named = f"{TRACES}{experiment}"
    with _source_errors(uri, named):
        client = open_client(uri)
        if (found_experiment := client.get_experiment_by_name(experiment)) is None:
            problem = f"no such experiment in {without_password(uri)}"
            remedy = "set tracking.uri to the store that holds it"
            raise DatasetError(problem, where=named, remedy=remedy)
        count, token = 0, None
        with into.open("w", encoding="utf-8") as file:
            # By pages: an experiment may have more traces than one answer holds. The first token
            # is None, and the last is "".
            while token != "":
                page = client.search_traces(
                    locations=[found_experiment.experiment_id], page_token=token
                )
                file.writelines(f"{trace.to_json()}\n" for trace in page)
                count = count + len(page)
                token = page.token or ""
    if not count:
        raise DatasetError(
            "the experiment has no traces",
            where=named,
            remedy="name one that has traces",
        )


def _dataset_by_name(client: MlflowClient, uri: str, name: str, named: str) -> Any:
    """Return the MLflow dataset with a name.

    Raises:
        DatasetError: if none or several have the name.
    """
    # MLflow's filters have no way to escape a quote.
    quote = "'" if '"' in name else '"'
    # Two results are enough to know that the name is ambiguous.
    datasets = client.search_datasets(
        filter_string=f"name = {quote}{name}{quote}", max_results=2
    )
    if len(datasets) == 1:
        return datasets[0]
    problem = "no such dataset"
    remedy = "set tracking.uri to the store that holds it"
    if datasets:
        problem = "several datasets have this name"
        remedy = f"name it by its id, {_ID}…"
    raise DatasetError(
        f"{problem} in {without_password(uri)}", where=named, remedy=remedy
    )


def _artifact_source(uri: str, named: str, format_: str | None) -> Source:
    """Return the rows of a file among the artifacts of a run.

    Raises:
        DatasetError: if the path names no file.
    """
    run_id, _, path = named.partition(":")[2].strip("/").partition("/")
    if not path:
        remedy = (
            "write runs:/RUN_ID/PATH, the path of a file or folder among its artifacts"
        )
        raise DatasetError(
            "names a run but none of its files", where=named, remedy=remedy
        )
    # Rows are read after this function returns, so the folder lives as long as the process.
    folder = tempfile.TemporaryDirectory(prefix="evalkit-")
    atexit.register(folder.cleanup)
    with _source_errors(uri, named):
        file = Path(open_client(uri).download_artifacts(run_id, path, folder.name))
    return downloaded(file, format_, named)


def _source_errors(uri: str, named: str) -> AbstractContextManager[None]:
    """Return a context in which errors of MLflow become errors of the data.

    Raises:
        DatasetError: if there is no store to read from.
    """
    if (
        file := sqlite_file(uri)
    ) is not None and not file.exists():  # a client would create it
        raise DatasetError(
            f"there is no tracking store at {uri}",
            where=named,
            remedy="set tracking.uri",
        )
    summary = f"cannot be fetched from {without_password(uri)}"
    remedy = "check dataset.path and tracking.uri"
    return mlflow_errors(
        lambda cause: DatasetError(f"{summary}: {cause}", where=named, remedy=remedy)
    )
