"""Read rows from MLflow: its evaluation datasets, and files that a run logged."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from evalkit.config import TrackingConfig
from evalkit.core.redaction import without_password
from evalkit.datasets import Fetch, Source, downloaded
from evalkit.errors import DatasetError
from evalkit.tracking.connection import mlflow_errors, open_client
from evalkit.tracking.location import sqlite_file, tracking_uri

DATASET, RUN = "mlflow", "runs"
_ID = "d-"
_COLUMNS = ("inputs", "outputs", "expectations", "tags")


def dataset_fetchers(config: TrackingConfig, *, folder: Path) -> Mapping[str, Fetch]:
    """Return functions that fetch `mlflow:NAME` (or a dataset's id) and `runs:/RUN_ID/PATH` from the tracking store.

    A record's columns are `id`, `inputs`, `outputs`, `expectations` and `tags`; all but `id` are objects. Relative
    stores start from `folder`. MLflow is imported only when something is fetched.
    """

    def dataset(named: str, _format: str | None) -> Source:
        return _dataset(tracking_uri(config, folder), named)

    def artifact(named: str, format_: str | None) -> Source:
        return _artifact(tracking_uri(config, folder), named, format_)

    return {DATASET: dataset, RUN: artifact}


def _dataset(uri: str, named: str) -> Source:
    wanted = named.partition(":")[2].strip("/")
    with _fetch_errors(uri, named):
        records = _records(uri, wanted, named)

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        for number, record in enumerate(records, 1):
            row = {"id": record["dataset_record_id"], **{name: record[name] for name in _COLUMNS}}
            yield f"{named}:row {number}", row

    return Source(named, rows)


def _records(uri: str, wanted: str, named: str) -> list[dict[str, Any]]:
    client = open_client(uri)
    from mlflow.tracking._tracking_service.utils import _use_tracking_uri

    with _use_tracking_uri(uri):  # a dataset loads its records from the process's current store
        if wanted.startswith(_ID):
            found = client.get_dataset(wanted)
        else:
            quote = "'" if '"' in wanted else '"'
            several = client.search_datasets(filter_string=f"name = {quote}{wanted}{quote}", max_results=2)
            if len(several) != 1:
                what = "several datasets have this name" if several else "no such dataset"
                remedy = f"name it by its id, {_ID}…" if several else "set tracking.uri to the store that holds it"
                raise DatasetError(f"{what} in {without_password(uri)}", where=named, remedy=remedy)
            found = several[0]
        records: list[dict[str, Any]] = found.to_df().to_dict("records")
    if not records:
        raise DatasetError("the dataset has no records", where=named, remedy="name one that has records")
    return records


def _artifact(uri: str, named: str, format_: str | None) -> Source:
    run_id, _, path = named.partition(":")[2].strip("/").partition("/")
    if not path:
        remedy = "write runs:/RUN_ID/PATH, the path of a file or folder among its artifacts"
        raise DatasetError("names a run but none of its files", where=named, remedy=remedy)
    folder = tempfile.TemporaryDirectory(prefix="evalkit-")
    atexit.register(folder.cleanup)
    with _fetch_errors(uri, named):
        file = Path(open_client(uri).download_artifacts(run_id, path, folder.name))
    return downloaded(file, format_, named)


def _fetch_errors(uri: str, named: str) -> AbstractContextManager[None]:
    if (file := sqlite_file(uri)) is not None and not file.exists():  # a client would create it
        raise DatasetError(f"there is no tracking store at {uri}", where=named, remedy="set tracking.uri")
    what, remedy = f"cannot be fetched from {without_password(uri)}", "check dataset.path and tracking.uri"
    return mlflow_errors(lambda cause: DatasetError(f"{what}: {cause}", where=named, remedy=remedy))
