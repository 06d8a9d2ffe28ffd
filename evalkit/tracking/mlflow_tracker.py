"""Record finished runs in MLflow, with explicit run ids and batches; no run is active
for the whole process.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from evalkit.config import RunConfig, TrackingConfig
from evalkit.core.bounded_files import read_json
from evalkit.core.errors import TrackingError
from evalkit.core.regular_files import read_file
from evalkit.core.values import Json, frozen
from evalkit.runs.layout import PROMPTS
from evalkit.runs.results import RunResult
from evalkit.scoring.catalog import MAIN_COLUMNS
from evalkit.tracking import contents
from evalkit.tracking.connection import (
    VIEW,
    one_at_a_time,
    open_client,
    recording_errors,
    sqlite_file,
)
from evalkit.tracking.mlflow_environment import experiment_name, surrounding_run
from evalkit.tracking.parent_runs import PARENT, attach, child_tags, find_runs
from evalkit.tracking.traces import log_traces

if TYPE_CHECKING:
    from mlflow import MlflowClient

GATE = "evalkit.gate"
_MOST_METRICS = 800
_MOST_PARAMS = 100
_MOST_TAGS = 100
"""How many of each are sent in one batch; MLflow takes 100 params, 100 tags and 1,000 in all."""
_LONGEST_NAME = 500
_LONGEST_DIGEST = 36
"""The most characters that MLflow takes of a dataset's name and digest."""
_TABLES = {"judgments": "tables/judgments.json", "verdicts": "tables/verdicts.json"}


@frozen
class MlflowTracker:
    """Record runs in the MLflow store at `uri`; the first call imports MLflow."""

    uri: str
    config: TrackingConfig

    def record(self, result: RunResult) -> str:
        """Record a run and return its MLflow run id; a recorded run is not recorded again.

        Raises:
            TrackingError: if it could not be recorded; the run folder is complete anyway.
        """
        with recording_errors(self.uri, result.folder):
            client = self._client()
            experiment = self._experiment(client)
            _share_view(client, experiment)
            identity = str(result.manifest.get("run_id") or "")
            # Two commands may record one run at the same time, for example `evalkit track` and a
            # sweep.
            with one_at_a_time(f"{self.uri} {experiment} {identity}"):
                run, finished = self._known(client, experiment, identity)
                # A run that was only started is adopted; one whose recording was cut off is
                # replaced.
                if run is None or not finished:
                    return self._send_run(client, experiment, result, run)
                # Its numbers may have changed since it was recorded.
                if result.manifest.get("rescored"):
                    _renew_gate(client, run, result)
                return run

    def start(self, config: RunConfig, run_id: str) -> None:
        """Create a run that is running, with its config; `record` adopts it.

        Raises:
            TrackingError: if it could not be created.
        """
        with recording_errors(self.uri, None):
            client = self._client(contacts=1)
            experiment = self._experiment(client)
            with one_at_a_time(f"{self.uri} {experiment} {run_id}"):
                if not find_runs(client, experiment, run_id=run_id):
                    self._create_run(client, experiment, config, run_id)

    def end(self, run_id: str, status: str) -> None:
        """End a started run that is not recorded, as FAILED or KILLED.

        Raises:
            TrackingError: if that could not be sent.
        """
        with recording_errors(self.uri, None):
            client = self._client(contacts=1)
            experiment = self._experiment(client)
            for run in find_runs(client, experiment, run_id=run_id):
                if run.info.status == "RUNNING":
                    client.set_terminated(run.info.run_id, status)

    def renew(self, result: RunResult, run: str) -> None:
        """Update a recorded run after its gate was decided again; results with other
        scores are not sent.

        If the store has no such run, it was recorded elsewhere and nothing is done.

        Raises:
            TrackingError: if the update could not be sent.
        """
        with recording_errors(self.uri, result.folder):
            _renew_gate(self._client(), run, result)

    def register(self, name: str, text: str, tags: Mapping[str, str]) -> str:
        """Register a prompt of evalkit, and return its name and version; a text that is
        registered has no new version.

        Raises:
            TrackingError: if it could not be sent.
        """
        with recording_errors(self.uri, None):
            client = self._client()
            experiment = self._experiment(client)
            registered = registered_name(name)
            digest = _sha256(text, "utf-8")
            return (
                f"{registered} version"
                f" {_prompt_version(client, experiment, registered, text, digest, tags)}"
            )

    def check_surrounding_run(self) -> None:
        """Check that the run that $MLFLOW_RUN_ID names can get runs, before anything is paid.

        Raises:
            TrackingError: if it cannot.
        """
        with recording_errors(self.uri, None):
            surrounding_run(self._client(contacts=1), self.uri, self.config)

    def greet(self) -> None:
        """Open the store once, so that it opens quickly when a run is recorded."""
        with recording_errors(self.uri, None):
            self._client().get_prompt("evalkit")

    def attach(self, run: str, files: Sequence[Path]) -> None:
        """Log files with the parent run of the sweep that `run` is a job of.

        Raises:
            TrackingError: if they could not be sent; they remain where they are.
        """
        with recording_errors(self.uri, None):
            attach(self._client(), run, files)

    def _client(self, contacts: int = 2) -> MlflowClient:
        # Two processes that both find an empty database would both create its tables.
        with one_at_a_time(self.uri):
            return open_client(self.uri, contacts)

    def _experiment(self, client: MlflowClient) -> str:
        """Return the id of the experiment, which is that of a surrounding run."""
        if surrounding := surrounding_run(client, self.uri, self.config):
            return str(surrounding.info.experiment_id)
        return experiment_of(client, self.uri, experiment_name(self.config))

    def _known(
        self, client: MlflowClient, experiment: str, identity: str
    ) -> tuple[str | None, bool]:
        """Return the id of the run with this identity, and whether it is recorded as a whole.

        A run that was only started can be completed. If an attempt was interrupted, its run is
        deleted. The id is `None` if no run remains.
        """
        started = None
        for run in find_runs(client, experiment, run_id=identity) if identity else []:
            if run.info.status == "FINISHED":
                return str(run.info.run_id), True
            if started is None and not run.data.metrics:
                started = str(run.info.run_id)
            else:
                # It has metrics but is not finished: MLflow cannot change params, so it is sent
                # again as a whole.
                client.delete_run(run.info.run_id)  # left by an interrupted attempt
        return started, False

    def _create_run(
        self, client: MlflowClient, experiment: str, config: RunConfig, run_id: str
    ) -> None:
        """Create a run with the tags and params that a config alone gives."""
        from mlflow.entities import Param

        manifest = {
            "run_id": run_id,
            "config_hash": config.hash(),
            "judge": config.judge.label,
        }
        # An empty result: tags and params come from the config alone.
        result = RunResult(
            folder=None,
            config=config,
            manifest=manifest,
            cases=(),
            judgments=(),
            verdicts=(),
            metrics={},
        )
        tags = contents.tags(result, self.config.tags)
        del tags[contents.DECISION]
        name = contents.run_name(result, self.config.run_name)
        run = client.create_run(experiment, tags=tags, run_name=name).info.run_id
        params = [Param(key, value) for key, value in contents.params(result).items()]
        for some in _chunks(params, _MOST_PARAMS):
            client.log_batch(run, params=some)

    def _send_run(
        self,
        client: MlflowClient,
        experiment: str,
        result: RunResult,
        adopted: str | None,
    ) -> str:
        """Send a run, as a new one or as the one that was started for it, and return its id."""
        started = contents.milliseconds(result.manifest.get("started"))
        tags = contents.description(result) | contents.tags(result, self.config.tags)
        surrounding = surrounding_run(client, self.uri, self.config)
        if sweep := result.manifest.get("sweep"):
            tags |= child_tags(
                client, experiment, sweep, started=started, under=surrounding
            )
        elif surrounding:
            tags[PARENT] = surrounding.info.run_id
        tags |= prompt_tags(client, experiment, result)
        name = contents.run_name(result, self.config.run_name)
        if adopted is None:
            created = client.create_run(
                experiment, start_time=started, tags=tags, run_name=name
            )
            run = str(created.info.run_id)
        else:
            run = adopted
            _rename(client, run, name, tags)
        _log_numbers(client, run, result, every=self.config.metrics == "all")
        _log_dataset(client, run, result.manifest.get("dataset") or {})
        _log_files(client, run, result)
        log_traces(self.uri, experiment, run, result, self.config.traces)
        ended = contents.milliseconds(result.manifest.get("ended"))
        # Last of all: a run that is FINISHED is complete, and is never sent again.
        client.set_terminated(run, "FINISHED", ended)
        return run


def _rename(client: MlflowClient, run: str, name: str, tags: Mapping[str, str]) -> None:
    """Set the name and the tags of a run that was started."""
    from mlflow.entities import RunTag

    client.update_run(run, name=name)
    entities = [RunTag(key, value) for key, value in tags.items()]
    for some in _chunks(entities, _MOST_TAGS):
        client.log_batch(run, tags=some)


def _share_view(client: MlflowClient, experiment: str) -> None:
    """Add a view of the run list with the decision and the main metrics to an experiment.

    MLflow's own view has no such columns, and no default ones. It opens a view that is stored in an
    experiment's tag if the URL names it.
    """
    tag = f"mlflow.sharedViewState.{VIEW}"
    state = {
        "selectedColumns": [
            f"tags.`{contents.DECISION}`",
            *(f"metrics.`{name}`" for name in MAIN_COLUMNS),
        ],
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "searchFilter": "",
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
    }
    value = (
        "deflate;"
        + base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()
    )
    # Compared first, so that most runs cost no write.
    if client.get_experiment(experiment).tags.get(tag) != value:
        client.set_experiment_tag(experiment, tag, value)


def _renew_gate(client: MlflowClient, run: str, result: RunResult) -> None:
    """Replace the recorded decision and outcome of a run's gate: their tags and the run's files."""
    from mlflow.exceptions import MlflowException

    try:
        recorded = client.get_run(run).data.tags
    except MlflowException as problem:
        if problem.error_code not in (
            "RESOURCE_DOES_NOT_EXIST",
            "INVALID_PARAMETER_VALUE",
        ):
            raise
        return
    current = contents.tags(result, {})
    if any(
        recorded.get(tag) != current.get(tag)
        for tag in ("evalkit.run_id", "evalkit.config_hash")
    ):
        return  # the gate belongs to other scores
    for tag in (GATE, contents.DECISION):
        if tag in current:
            client.set_tag(run, tag, current[tag])
        elif tag in recorded:
            client.delete_tag(run, tag)
    if result.folder:
        client.log_artifacts(run, result.folder)


def experiment_of(client: MlflowClient, uri: str, name: str) -> str:
    """Return the id of an experiment, which is created if needed; its artifacts are
    stored next to an SQLite file.

    Raises:
        TrackingError: If it was deleted in MLflow.
    """
    experiment = client.get_experiment_by_name(name) or _new_experiment(
        client, uri, name
    )
    if experiment.lifecycle_stage == "deleted":
        remedy = (
            "restore it with `mlflow experiments restore --experiment-id"
            f" {experiment.experiment_id}`"
        )
        raise TrackingError(
            f"tracking.experiment: '{name}' was deleted in MLflow: {remedy}, or name another"
        )
    return str(experiment.experiment_id)


def _new_experiment(client: MlflowClient, uri: str, name: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        client.create_experiment(name, artifact_location=_artifact_location(uri, name))
    except MlflowException as problem:
        if (
            problem.error_code != "RESOURCE_ALREADY_EXISTS"
        ):  # another process was faster
            raise
    return client.get_experiment_by_name(name)


def _artifact_location(uri: str, experiment: str) -> str | None:
    """Return `mlruns/` next to an SQLite file; MLflow's default is the current folder."""
    file = sqlite_file(uri)
    slug = re.sub(r"[^\w.-]+", "_", experiment).strip("._") or "experiment"
    if file:
        return (file.parent / "mlruns" / slug).as_uri()
    return None


def _log_numbers(
    client: MlflowClient, run: str, result: RunResult, *, every: bool
) -> None:
    """Record the metrics and params of a run, in batches as large as MLflow takes.

    Args:
        client: The client of the store.
        run: The id of the run in MLflow.
        result: The run.
        every: Whether to record every metric, not only the main ones.
    """
    from mlflow.entities import Metric, Param

    stamp = contents.milliseconds(result.manifest.get("ended")) or int(
        time.time() * 1000
    )
    metrics = [
        Metric(name, value, stamp, 0)
        for name, value in contents.metrics(result, every=every).items()
    ]
    params = [Param(name, value) for name, value in contents.params(result).items()]
    for some in _chunks(metrics, _MOST_METRICS):
        client.log_batch(run, metrics=some)
    for some in _chunks(params, _MOST_PARAMS):
        client.log_batch(run, params=some)


def _chunks(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def _log_dataset(client: MlflowClient, run: str, dataset: Json) -> None:
    """Record the dataset of a run as its input; nothing if it is not known."""
    if not dataset:
        return
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    source = str(dataset.get("source") or "")
    entity = Dataset(
        name=str(dataset.get("name") or Path(source).name or "dataset")[:_LONGEST_NAME],
        digest=str(dataset.get("fingerprint") or "")[:_LONGEST_DIGEST],
        source_type="local",
        source=json.dumps({"uri": source}),
        profile=json.dumps(
            {"num_rows": dataset.get("rows"), "fingerprint": dataset.get("fingerprint")}
        ),
    )
    inputs = [DatasetInput(entity, [InputTag("mlflow.data.context", "evaluation")])]
    try:
        client.log_inputs(run, inputs)
    except (
        MlflowException
    ):  # another run has recorded the same dataset for the first time just now
        client.log_inputs(run, inputs)


def _log_files(client: MlflowClient, run: str, result: RunResult) -> None:
    """Record the files of the run folder, and tables of judgments and verdicts."""
    if result.folder:
        client.log_artifacts(run, result.folder)
    tables = {
        "judgments": contents.judgment_table(result),
        "verdicts": contents.verdict_table(result),
    }
    for name, table in tables.items():
        client.log_text(run, json.dumps(table, ensure_ascii=False), _TABLES[name])
    artifacts = [{"path": path, "type": "table"} for path in _TABLES.values()]
    client.set_tag(run, "mlflow.loggedArtifacts", json.dumps(artifacts))
    if note := contents.table_note(tables, result):
        client.set_tag(run, "evalkit.tables", note)


HASH, NOTE = "evalkit.sha256", "evalkit.prompts"
LINKED = "mlflow.linkedPrompts"
"""The tag with the prompts of a run."""
_EXPERIMENTS = "_mlflow_experiment_ids"
"""The tag with the experiments of a prompt."""
_IS_PROMPT = "mlflow.prompt.is_prompt"
NO_TAGS: Mapping[str, str] = MappingProxyType({})
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")


def prompt_tags(
    client: MlflowClient, experiment: str, result: RunResult
) -> dict[str, str]:
    """Register the templates whose content is not registered yet, and return the tags
    that link a run to them.

    If the server has no prompts or refuses this user, a tag says so and the run is recorded without
    them.
    """
    from mlflow.exceptions import MlflowException

    try:
        linked = [
            {
                "name": name,
                "version": _prompt_version(client, experiment, name, text, digest),
            }
            for name, text, digest in _templates(result)
        ]
    except (MlflowException, NotImplementedError) as problem:
        reason = " ".join((str(problem) or type(problem).__name__).split())
        return {NOTE: f"not registered: {reason}"[:500]}
    if linked:
        return {LINKED: json.dumps(linked)}
    return {}


def registered_name(template: str) -> str:
    """Return the name of a template's MLflow prompt: `en/pairwise.md.j2` is
    `evalkit.en.pairwise`.
    """
    stem = template.removesuffix(".j2").removesuffix(".md").replace("/", ".")
    plain = _STRANGE.sub("-", stem)
    if plain == stem:
        suffix = ""
    else:
        suffix = f"-{hashlib.sha256(template.encode()).hexdigest()[:6]}"
    return f"evalkit.{plain}{suffix}"


def _templates(result: RunResult) -> Iterator[tuple[str, str, str]]:
    """Yield the name, text and SHA-256 of each template whose text is in the run folder."""
    try:
        texts = read_json(read_file(Path(result.folder or "") / PROMPTS))
    except (OSError, ValueError):
        return
    for template, digest in (result.manifest.get("prompt_hashes") or {}).items():
        text = texts.get(template) if isinstance(texts, dict) else None
        # The digest is that of the file, which may begin with a byte order mark.
        if isinstance(text, str) and digest in {
            _sha256(text, "utf-8"),
            _sha256(text, "utf-8-sig"),
        }:
            yield registered_name(template), text, digest


def _sha256(text: str, encoding: str) -> str:
    return hashlib.sha256(text.encode(encoding, "replace")).hexdigest()


def _prompt_version(
    client: MlflowClient,
    experiment: str,
    name: str,
    text: str,
    digest: str,
    tags: Mapping[str, str] = NO_TAGS,
) -> str:
    """Return the number of the version with this content, which is created if needed, as is the
    prompt.

    Args:
        client: The client of the store.
        experiment: The id of the experiment that should show the prompt.
        name: The name of the prompt.
        text: Its template.
        digest: The hash of the template, by which a version is found.
        tags: More tags of a new version.
    """
    filter_string = (
        f"name = '{name}' AND tag.`{_IS_PROMPT}` = 'true' AND tag.`{HASH}` = '{digest}'"
    )
    # two processes must not both create the prompt
    with one_at_a_time(f"{client.tracking_uri} prompt {name}"):
        prompt = client.get_prompt(name)
        if prompt is None:
            client.create_prompt(
                name,
                "A judge prompt template of evalkit",
                {_EXPERIMENTS: f",{experiment},"},
            )
        # MLflow shows a prompt only in the experiments that this tag lists.
        elif experiment not in (
            ids := [id_ for id_ in prompt.tags.get(_EXPERIMENTS, "").split(",") if id_]
        ):
            client.set_prompt_tag(
                name, _EXPERIMENTS, f",{','.join([*ids, experiment])},"
            )
        if versions := client.search_model_versions(filter_string, max_results=1):
            return str(versions[0].version)
        return str(
            client.create_prompt_version(
                name, text, tags={**tags, HASH: digest}
            ).version
        )
