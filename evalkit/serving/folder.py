"""The folder of a judge: what `evalkit export RUN --to judge` writes and `load_judge` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from evalkit.config import (
    CHECKLIST,
    DatasetConfig,
    GateConfig,
    RunConfig,
    RunnerConfig,
    StoreConfig,
    TrackingConfig,
)
from evalkit.config.problems import config_error
from evalkit.core.claims import NAME as CLAIM
from evalkit.core.claims import claim_folder
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import digest
from evalkit.core.planners import Planners
from evalkit.core.redaction import remedy_for, secrets_of
from evalkit.core.regular_files import read_file
from evalkit.core.values import Json
from evalkit.datasets.field_mapping import MESSAGES
from evalkit.runs import read_details, read_run, write_files
from evalkit.runs.layout import MANIFEST, PROMPTS
from evalkit.runs.manifest import dump, load
from evalkit.runs.read import read_record
from evalkit.runs.records import encode_pretty
from evalkit.runs.results import RunResult
from evalkit.scoring.verdicts.cascade import with_thresholds
from evalkit.serving.trust import Validation, describe_trust
from evalkit.workflows.materials import build_evaluator

LOADER: Final = "evalkit.serving.adapters.mlflow"
"""The module that MLflow imports to load a registered judge."""
JUDGE: Final = "judge.yaml"
TRUST: Final = "trust.json"
CASCADE: Final = "cascade"
SCHEMAS: Final = "schemas.json"
README: Final = "README.md"
_REMEDY: Final = "export the judge again with `evalkit export RUN --to judge`"
_README: Final = """\
# The judge {judge}

{sentence}

{sentence_zh}

This folder holds a judge as it judged the data set {data} ({rows} cases, {date}). \
It has no case of that data set, no
key and no path.

- `{config}`: the configuration that was judged. `{prompts}`: its prompt templates. \
`{schemas}`: the answer's schema.
- `{trust}`: what that run showed about the judge, with intervals. \
It holds for this configuration only: a judge with
  a changed file is refused.

Use it in Python:

    import evalkit

    judge = evalkit.load_judge("{folder}")
    verdict = judge.sync({fields})
    print(verdict.json())

Or over HTTP, or for agents:

    evalkit serve {folder}
    evalkit serve {folder} --mcp stdio
"""
_EXAMPLE: Final = {
    "pairwise": 'prompt="…", response_a="…", response_b="…"',
    "listwise": 'prompt="…", responses=["…", "…", "…"]',
}


@dataclass(frozen=True, slots=True)
class JudgeFolder:
    """A judge as in its folder: its config, the texts of its templates by name, and
    what is known about it.
    """

    config: RunConfig
    templates: Mapping[str, str]
    validation: Validation


def judge_folder(result: RunResult) -> JudgeFolder:
    """Return the judge of a finished run, without its data, its paths and its tracker.

    Raises:
        ConfigError: If the run was imported, or its folder has no templates or no thresholds of a
            cascade.
    """
    where = str(result.folder)
    # Imported judgments came from a judge that evalkit cannot call.
    if result.manifest.get("imported"):
        remedy = "judge the cases with evalkit first"
        raise ConfigError(
            "its judgments were imported, so there is no judge to use",
            where=where,
            remedy=remedy,
        )
    hashes = result.manifest.get("prompt_hashes") or {}
    templates = (
        read_record(Path(where) / PROMPTS, dict[str, str]) if hashes else {}
    )  # rewards need none
    # Without the recorded texts, the judge would use today's templates, which may be others.
    if absent := sorted(hashes.keys() - templates.keys()):
        raise ConfigError(
            f"{PROMPTS} has no {absent[0]}", where=where, remedy="rerun the run"
        )
    tables = read_details(Path(where), [CASCADE])
    config = _with_chosen_thresholds(result, tables)
    runner = result.config.runner
    # Budgets and batches were those of the run.
    limits = RunnerConfig(
        concurrency=runner.concurrency, timeout=runner.timeout, retries=runner.retries
    )
    # The omitted values name the user's data, paths and servers.
    bare: dict[str, Any] = {
        "dataset": _units_of(config.dataset),
        "tracking": TrackingConfig(),
        "store": StoreConfig(),
        "gate": GateConfig(),
        "objective": None,
        "runner": limits,
    }
    content = {**describe_trust(result), **tables}
    return JudgeFolder(
        config.model_copy(update=bare),
        templates,
        Validation(content, f"the metrics of {where}"),
    )


def _with_chosen_thresholds(result: RunResult, tables: Json) -> RunConfig:
    """Return the config of a run, with the thresholds that its labels chose if its
    judge is a cascade.
    """
    if not result.config.judge.calibrates:
        return result.config
    try:
        steps = {step["judge"]: step["threshold"] for step in tables[CASCADE]["steps"]}
        thresholds = {
            name: None if value is None else float(value)
            for name, value in steps.items()
        }
        return with_thresholds(result.config, thresholds)
    except (KeyError, TypeError, ValueError):
        where = f"{result.folder}/{CASCADE}.json"
        remedy = "run `evalkit score` on the run, which writes it"
        raise ConfigError(
            "has no thresholds of the cascade", where=where, remedy=remedy
        ) from None


def _units_of(data: DatasetConfig) -> DatasetConfig:
    """Return only what verdicts are about: texts, or conversations, turns or steps of messages."""
    fields = {MESSAGES: "response"} if data.has_turns else {}
    return DatasetConfig(unit=data.unit, after=data.after, fields=fields)


def judge_files(result: RunResult, folder: Path) -> dict[str, bytes]:
    """Return the files of the folder of a run's judge.

    Raises:
        ConfigError: As `judge_folder`; or if the configuration contains a secret.
    """
    judge = judge_folder(result)
    # The folder is made to be passed on.
    for key, secret in secrets_of(judge.config.dump()):
        raise ConfigError(secret, where=key, remedy=remedy_for(key))
    contents = {
        JUDGE: dump(judge.config.dump()),
        PROMPTS: encode_pretty(dict(judge.templates)),
        SCHEMAS: encode_pretty(_schemas(judge, result)),
    }
    # The hash binds the result of the validation to the files that were validated.
    trust = {**judge.validation.content, "content_hash": _content_hash(contents)}
    data = trust["dataset"]
    readme = _README.format(
        judge=trust["judge"],
        sentence=trust["decision"]["sentence"],
        sentence_zh=trust["decision"]["sentence_zh"],
        data=data["name"],
        rows=data["rows"],
        date=str(trust["date"])[:10],
        config=JUDGE,
        prompts=PROMPTS,
        schemas=SCHEMAS,
        trust=TRUST,
        folder=folder.name,
        fields=_EXAMPLE.get(judge.config.mode.name, 'prompt="…", response="…"'),
    )
    return {**contents, TRUST: encode_pretty(trust), README: readme.encode()}


def _schemas(judge: JudgeFolder, result: RunResult) -> dict[str, Any]:
    """Return the schemas of the judge's answers by name; those of checklists depend on the case."""
    if judge.config.mode.name == CHECKLIST or not result.cases:
        return {}
    evaluator = build_evaluator(judge.config, judge.templates)
    names = (member.label for member in judge.config.judge.members)
    return {
        request.answer.name: dict(request.answer.schema)
        for requests in Planners(evaluator, names).plan(result.cases[0])
        for request in requests
        if request.answer is not None
    }


def write_judge(result: RunResult, folder: Path) -> None:
    """Write the folder of a run's judge.

    Raises:
        ConfigError: If the run has no judge to use, or the folder has files or cannot be written.
    """
    files = judge_files(result, folder)
    remedy = "choose another --output"
    if folder.exists() and not folder.is_dir():
        raise ConfigError("is a file", where=str(folder), remedy=remedy)
    with claim_folder(folder, remedy):
        # Only an empty folder, or one of a judge, which is replaced.
        names = [child.name for child in folder.iterdir()]
        if any(name not in files and not name.startswith(CLAIM) for name in names):
            raise ConfigError("has other files", where=str(folder), remedy=remedy)
        write_files(folder, files)


def read_judge(path: Path) -> JudgeFolder:
    """Read the folder of a judge, or the judge of a run folder; no code is run.

    Raises:
        ConfigError: If it is neither, or a file is missing, damaged or was changed after the
            export.
    """
    # A run folder; so is anything else, whose error then says what is missing.
    if (path / MANIFEST).exists() or not (path / JUDGE).exists():
        return judge_folder(read_run(path))
    contents = {name: _bytes(path / name) for name in (JUDGE, PROMPTS, SCHEMAS)}
    validation = Validation(
        read_record(path / TRUST, dict[str, Any], _REMEDY), str(path / TRUST)
    )
    if validation.content.get("content_hash") != _content_hash(contents):
        problem = (
            f"{JUDGE}, {PROMPTS} or {SCHEMAS} was changed after the export, so {TRUST} does not"
            " describe this judge"
        )
        raise ConfigError(problem, where=str(path), remedy=_REMEDY)
    try:
        config = RunConfig.model_validate(load(contents[JUDGE]))
    except ValueError as bad:
        if isinstance(bad, ValidationError):
            raise config_error(bad, [path / JUDGE]) from None
        raise ConfigError(
            f"the file is damaged ({bad})", where=str(path / JUDGE), remedy=_REMEDY
        ) from None
    return JudgeFolder(
        config, read_record(path / PROMPTS, dict[str, str], _REMEDY), validation
    )


def _content_hash(contents: Mapping[str, bytes]) -> str:
    return digest(
        {
            name: content.decode("utf-8", "surrogateescape")
            for name, content in contents.items()
        }
    )


def _bytes(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as bad:
        raise ConfigError(
            f"cannot be read ({bad.strerror or bad})", where=str(path), remedy=_REMEDY
        ) from None
