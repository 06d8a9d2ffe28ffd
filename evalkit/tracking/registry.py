"""Judges in MLflow's model registry: register the folder of one, and fetch it again."""

from __future__ import annotations

import atexit
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evalkit.config import TrackingConfig
from evalkit.core.errors import ConfigError, TrackingError
from evalkit.core.redaction import without_password
from evalkit.core.resources import own_version
from evalkit.core.values import frozen
from evalkit.tracking.connection import (
    mlflow_errors,
    open_client,
    sqlite_file,
    tracking_uri,
)
from evalkit.tracking.mlflow_environment import experiment_name
from evalkit.tracking.mlflow_tracker import experiment_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

SCHEME: Final = "models:/"
"""The address of a registered judge is `models:/NAME@ALIAS` or `models:/NAME/VERSION`."""
CHAMPION: Final = "champion"
USEFUL: Final = ("single", "rates", "rates_corrected")
"""The decisions with which a judge becomes the champion."""
_DATA: Final = "judge"
_ADDRESS: Final = re.compile(r"models:/([^/@:]+)(?:@([^/@:]+)|/(\d+))")


@frozen
class Registered:
    """A version of a judge in the registry; `champion` is whether it has that alias."""

    name: str
    version: str
    uri: str
    champion: bool


def register_judge(
    folder: Path, name: str, config: TrackingConfig, use: str, loader: str
) -> Registered:
    """Add the folder of a judge to the model registry, with its decision as a tag.

    It gets the alias `champion` if its decision allows a use.

    Args:
        folder: The folder of `evalkit export --to judge`.
        name: The name of the model; a new version if there is one.
        config: Which MLflow store to use.
        use: What the judge may be used for.
        loader: The module that MLflow imports to load it.

    Raises:
        TrackingError: If MLflow cannot be reached, or refuses it.
    """
    uri = tracking_uri(config)
    problem = f"{without_password(uri)}: MLflow could not register the judge"
    with mlflow_errors(lambda cause: TrackingError(f"{problem}: {cause}")):
        client = open_client(uri)
        experiment = experiment_of(client, uri, experiment_name(config))
        version = _add_version(client, experiment, folder, name, loader)
        client.set_model_version_tag(name, version, "decision", use)
        # A judge that was shown to be useful for nothing must not replace the one in use.
        champion = use in USEFUL
        if champion:
            client.set_registered_model_alias(name, CHAMPION, version)
    return Registered(name, version, uri, champion)


def _add_version(
    client: MlflowClient, experiment: str, folder: Path, name: str, loader: str
) -> str:
    """Log the folder as a model of a run of its own, and return the number of the new version.

    MLflow's own function for this uses the store of the process, which is the caller's to choose.
    """
    import mlflow

    run = client.create_run(experiment, run_name=f"judge {name}")
    run_id = run.info.run_id
    # Until the end is reached.
    status = "FAILED"
    try:
        with tempfile.TemporaryDirectory(prefix="evalkit-judge-") as temporary:
            model = Path(temporary) / _DATA
            mlflow.pyfunc.save_model(
                str(model),
                loader_module=loader,
                data_path=str(folder),
                pip_requirements=[f"evalkit-judge=={own_version()}"],
            )
            client.log_artifacts(run_id, str(model), _DATA)
        _create_if_new(client, name)
        version = client.create_model_version(
            name, f"{run.info.artifact_uri}/{_DATA}", run_id, await_creation_for=0
        )
        status = "FINISHED"
    finally:
        client.set_terminated(run_id, status)
    return str(version.version)


def _create_if_new(client: MlflowClient, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        # A new version of a known name is fine.
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def fetch_judge(address: str, loader: str) -> Path:
    """Download a registered judge, and return its folder, which lives as long as the process.

    The store is $MLFLOW_TRACKING_URI, else mlflow.db in the current folder.

    Args:
        address: Its address.
        loader: The module that loads it, by which a judge differs from other models.

    Raises:
        ConfigError: If there is no such judge, or the model is not one.
        TrackingError: If MLflow cannot be reached.
    """
    uri = tracking_uri(TrackingConfig())
    location = f"{address} in {without_password(uri)}"
    name, alias, version = _split_address(address)
    # A client would create the database, and then not find the judge in it.
    if (file := sqlite_file(uri)) is not None and not file.exists():
        raise ConfigError(
            "no such judge, since this database does not exist",
            where=location,
            remedy="set MLFLOW_TRACKING_URI to the store that holds it",
        )
    into = tempfile.TemporaryDirectory(prefix="evalkit-judge-")
    atexit.register(into.cleanup)
    with mlflow_errors(lambda cause: TrackingError(f"{location}: {cause}")):
        client = open_client(uri)
        import mlflow
        from mlflow.models import Model

        if alias:
            # An alias may move, so it is resolved now, once.
            version = str(client.get_model_version_by_alias(name, alias).version)
        path = Path(
            mlflow.artifacts.download_artifacts(
                artifact_uri=client.get_model_version_download_uri(name, version),
                dst_path=into.name,
                tracking_uri=uri,
                registry_uri=uri,
            )
        )
        # Only the description is read; loading the model would import what it names.
        flavor = Model.load(str(path)).flavors.get("python_function", {})
    folder = folder_below(path, flavor.get("data"))
    if flavor.get("loader_module") != loader or folder is None:
        raise ConfigError(
            "is not a judge of evalkit",
            where=location,
            remedy="register one with `evalkit export RUN --to judge --register NAME`",
        )
    return folder


def _split_address(address: str) -> tuple[str, str, str]:
    """Return the name, the alias and the version in the address of a model; one of the last two
    is empty.

    An address is `models:/NAME@ALIAS` or `models:/NAME/VERSION`. MLflow's own reader of addresses
    asks the registry of the process, which may be another one.

    Raises:
        ConfigError: If it is no address of a model.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise ConfigError(
            "is not the address of a registered judge",
            where=address,
            remedy="write models:/NAME@ALIAS or models:/NAME/VERSION",
        )
    name, alias, version = parts.groups(default="")
    return name, alias, version


def folder_below(model: Path, data: object) -> Path | None:
    """Return the folder that a downloaded model names; `None` unless it is inside the download.

    Whoever can write to the registry could name any folder of this machine.
    """
    if not isinstance(data, str):
        return None
    folder = (model / data).resolve()
    if folder.is_dir() and model.resolve() in folder.parents:
        return folder
    return None
