"""`evalkit import`: read judgments from other tools' files into a run folder."""

from __future__ import annotations

import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.cli.parser import FOLDER, UsageError, check_overrides, reading_option
from evalkit.cli.tables import read_judgments
from evalkit.core.errors import ConfigError, did_you_mean
from evalkit.core.values import frozen

if TYPE_CHECKING:
    from evalkit.config import RunConfig

FIELD = "dataset.fields."
MLFLOW = "mlflow"
_SCALE = re.compile(r"\+*(rubric|method|rubric\.(min|max|classes))=")


@frozen
class _Import:
    """What to import: the arguments, with fields and folder apart from the overrides."""

    format: str
    path: Path
    arguments: Namespace
    fields: dict[str, str]
    overrides: list[str]
    folder: Path | None
    reading: Path | None = None


def import_(arguments: Namespace) -> int:
    """Import a file of judgments into a run folder, and return the exit status.

    The judgments are scored, the run is recorded, and its summary printed.

    Raises:
        ConfigError: if the arguments, the file or its config are wrong.
    """
    from evalkit.interop.importer_discovery import formats

    if "=" in arguments.format or (
        "=" in arguments.path and not Path(arguments.path).expanduser().exists()
    ):
        raise UsageError("import", "needs FORMAT and PATH before the overrides")
    if arguments.format not in (names := formats()):
        if arguments.path in names:
            raise UsageError(
                "import",
                "needs FORMAT before PATH",
                f"write evalkit import {arguments.path} FILE",
            )
        raise UsageError(
            "import",
            f"no such format '{arguments.format}'",
            did_you_mean(arguments.format, names),
        )
    return _import_file(_separate_fields(arguments))


def _separate_fields(arguments: Namespace) -> _Import:
    """Return what to import: the columns after `--fields`, and the overrides around them.

    Raises:
        ConfigError: If a word is no override.
    """
    words: list[str] = arguments.words
    # argparse gives `--fields` all words after it, overrides included: only those that name a
    # field are columns.
    columns = set(
        filter(
            _is_column, words[words.index("--fields") :] if "--fields" in words else ()
        )
    )
    parsed = {*(arguments.fields or ()), *arguments.overrides}
    fields: dict[str, str] = {}
    overrides: list[str] = []
    folder = arguments.output
    for word in words:
        key, _, value = word.partition("=")
        if word not in parsed:
            continue
        if word in columns or word.startswith(FIELD):
            fields[key.removeprefix(FIELD)] = value
        elif word.startswith(FOLDER):
            folder = arguments.output or Path(value)
        else:
            overrides.append(word)
    check_overrides(overrides)
    overrides, reading = reading_option(overrides, arguments.reading)
    return _Import(
        format=arguments.format,
        path=Path(arguments.path).expanduser(),
        arguments=arguments,
        fields=fields,
        overrides=overrides,
        folder=folder,
        reading=reading,
    )


def _is_column(word: str) -> bool:
    from evalkit.interop.generic_importer import is_field

    key, equals, _ = word.partition("=")
    return bool(equals) and is_field(key)


def _import_file(source: _Import) -> int:
    """Import a file into a run folder, and return the exit status.

    Raises:
        ConfigError: if the file, its cases or the settings cannot be used.
    """
    from evalkit.cli.plain_settings import load_settings
    from evalkit.interop.importer_discovery import importer
    from evalkit.workflows.finishing import claim_run_folder

    if importer(source.format).needs_cases:
        imported, config = _read_batch(source)
    else:
        imported = _select_cases(
            source,
            read_judgments(
                source.format,
                source.path,
                _reader_options(source),
                source.reading,
            ),
        )
        # What the file says first, and the user's overrides on top of it.
        config = load_settings(dict(imported.settings), source.overrides)
    folder, claim = claim_run_folder(config, source.folder)
    with claim:
        return _import_into(folder, source, config, imported)


def _import_into(
    folder: Path, source: _Import, config: RunConfig, imported: Any
) -> int:
    """Score the judgments that were read, write them to a folder, print the summary, and return
    the exit status.

    Args:
        folder: The run folder.
        source: The words of the command.
        config: The config of the run.
        imported: The cases and judgments of the file.

    Raises:
        ConfigError: If the file has texts, and nothing says how verdicts are parsed from them.
    """
    from evalkit.interop.importer_discovery import importer
    from evalkit.workflows.import_run import import_run

    # The run's own cases are its data set, so that it can be judged again.
    if not any(word.startswith("dataset.path=") for word in source.overrides):
        config = config.with_(
            {
                "dataset.path": str(folder.absolute() / "cases.jsonl"),
                "dataset.format": "jsonl",
            }
        )
    has_output = "output" in imported.settings or any(
        word.startswith("output") for word in source.overrides
    )
    needs_cases = importer(source.format).needs_cases
    # Texts can be parsed only if their format is known.
    if imported.unread and not has_output and not needs_cases:
        raise _no_verdicts_error(source)
    # Whether the verdicts parsed from texts replace those of the file.
    take = imported.unread or source.arguments.reread
    adopted = import_run(
        config,
        imported,
        folder,
        source=str(source.path),
        read=has_output or imported.unread,
        take=take,
        overwrite=source.arguments.overwrite,
        scale_given=any(_SCALE.match(word) for word in source.overrides),
    )
    return _finish_import(config, adopted)


def _no_verdicts_error(source: _Import) -> ConfigError:
    """Return the error for a file without verdicts; it names formats that could fit."""
    from evalkit.interop.importer_discovery import format_names
    from evalkit.interop.layouts.judgment_files import peek

    remedy = (
        "name their output format: output=NAME; or map the verdicts: --fields winner=COLUMN, or"
        " score=COLUMN"
    )
    # With a mapping, the user has said which format it is.
    if not source.fields:
        remedy = format_names(peek(source.path)) or remedy
    return ConfigError(
        "the file has texts but no verdicts", where=str(source.path), remedy=remedy
    )


def _read_batch(source: _Import) -> tuple[Any, Any]:
    """Return the answers in a batch's file, and the config of a run over its cases.

    The config says how the answers are parsed. Without a judge in the overrides, the judge is the
    file's model.

    Raises:
        ConfigError: If the overrides name no cases, or the file cannot be read.
    """
    from evalkit.compose import load_config
    from evalkit.config import JudgeConfig
    from evalkit.core.resources import project
    from evalkit.datasets import load_cases
    from evalkit.interop.import_file import import_judgments

    if not any(word.startswith("dataset") for word in source.overrides):
        remedy = "name its cases: dataset=file dataset.path=FILE"
        raise ConfigError(
            "a batch file has only answers", where=str(source.path), remedy=remedy
        )
    config = load_config(overrides=source.overrides)
    named = any(word.startswith("judge") for word in source.overrides)
    mode = config.mode
    classes = config.rubric.named_classes
    dataset = load_cases(
        config.dataset,
        mode=mode.name,
        base=project(),
        items=mode.items,
        classes=classes,
    )
    cases = tuple(dataset.cases)
    judge = config.judge.label if named else None
    options = _reader_options(source)
    options = replace(options, cases=cases, judge=options.judge or judge)
    imported = _select_cases(
        source, import_judgments(source.format, source.path, options)
    )
    if not named:
        # A batch file has one model, which is its judge.
        model = imported.judgments[0].judge
        config = config.with_(
            {"judge": JudgeConfig(name=model, model=model, temperature=None)}
        )
    return imported, config


def _reader_options(source: _Import) -> Any:
    """Return the options of a command as readers of formats take them."""
    from evalkit.interop.layouts.records import Options

    return Options(
        fields=source.fields,
        dimension=source.arguments.dimension,
        scores=source.arguments.scores,
        judge=source.arguments.judge,
        custom_id=source.arguments.custom_id,
        winners=dict(source.arguments.map),
    )


def _select_cases(source: _Import, imported: Any) -> Any:
    """Return the cases that `--only` and `--complete` select, with their judgments.

    Args:
        source: The words of the command.
        imported: The cases and judgments of the file.

    Raises:
        ConfigError: If no case is left.
    """
    from evalkit.interop.import_file import complete_only

    cases = list(imported.cases)
    judgments = list(imported.judgments)
    notes = list(imported.notes)
    for key, value in source.arguments.only:
        known_values = sorted(
            {str(case.metadata.get(key)) for case in cases if key in case.metadata}
        )
        cases = [case for case in cases if str(case.metadata.get(key)) == value]
        if not cases:
            raise ConfigError(
                "no such case",
                where=f"--only {key}={value}",
                remedy=did_you_mean(value, known_values[:20]),
            )
    # Judgments follow their cases; a judgment without a case could not be scored.
    names = {case.id for case in cases}
    judgments = [judgment for judgment in judgments if judgment.case_id in names]
    if source.arguments.complete:
        before = len(cases)
        cases, judgments = complete_only(cases, judgments)
        notes.append(
            f"cases omitted because not all their judgments could be read: {before - len(cases)} of"
            f" {before}"
        )
        if not cases:
            raise ConfigError(
                "no case has all its judgments", where="--complete", remedy="omit it"
            )
    return replace(
        imported, cases=tuple(cases), judgments=tuple(judgments), notes=tuple(notes)
    )


def _finish_import(config: Any, adopted: Any) -> int:
    """Record and print an imported run, and return the exit status of its gate."""
    from evalkit.cli.console import reported
    from evalkit.cli.gate_outcome import print_gate
    from evalkit.cli.summary import print_summary
    from evalkit.workflows.finishing import track

    statuses = list[int]()
    result = adopted.result
    with reported(statuses):
        result = track(config, result)
    print_summary(result)
    if adopted.texts and adopted.differences is not None:
        print(
            f"texts read again: {adopted.texts}; {adopted.differences} differ from the file"
        )
    return max([*statuses, print_gate(result)])
