"""`evalkit check`: what a table, a log or a run shows about its judges, in one step."""

from __future__ import annotations

import gc
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from evalkit.cli.check_questions import (
    answered_command,
    as_table_question,
    chosen_answer,
    print_parts,
    print_question,
    with_command,
)
from evalkit.cli.check_summary import print_checked
from evalkit.cli.parser import (
    FOLDER,
    UsageError,
    check_overrides,
    is_override,
    reading_option,
)
from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.values import Json, frozen

if TYPE_CHECKING:
    from evalkit.config import RunConfig
    from evalkit.config.table_reading import TableReading
    from evalkit.interop.layouts.records import ImportedJudgments
    from evalkit.interop.tables.columns import Rows
    from evalkit.interop.tables.fixed_roles import Choices
    from evalkit.interop.tables.questions import Role

STDIN: Final = "-"
READING_FILE: Final = "reading.yaml"


@frozen
class _Checked:
    """What was read: judgments, the roles of columns, and warnings about the data."""

    brought: ImportedJudgments
    roles: tuple[Role, ...] = ()
    warnings: tuple[str, ...] = ()
    settings: Json = field(default_factory=dict)
    reading: TableReading | None = None


def main(arguments: Namespace) -> int:
    """Read tables, a log or a run folder, decide about its judges, write the run folder
    and print the result.

    Raises:
        ConfigError: if the arguments or the data are wrong; nothing is written then.
    """
    with _without_collection():
        return _check(arguments)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Do not search for cycles of objects: a check makes millions of objects that live to its
    end, and hardly any cycles.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _check(arguments: Namespace) -> int:
    from evalkit.cli import main as run_command
    from evalkit.datasets.file_parts import OpenFileError
    from evalkit.interop.tables.fixed_roles import NO_JUDGES
    from evalkit.interop.tables.questions import NoJudgeError, OpenTableError

    # A file may have `=` in its name, so an existing path is never an override.
    names = [
        word
        for word in arguments.paths
        if not is_override(word) or Path(word).expanduser().exists()
    ]
    overrides = [
        word
        for word in arguments.paths
        if word not in names and not word.startswith(FOLDER)
    ]
    for word in arguments.paths:
        if word.startswith(FOLDER) and not arguments.output:
            arguments.output = Path(word.removeprefix(FOLDER))
    if not names:
        raise UsageError("check", "needs a PATH")
    check_overrides(overrides)
    overrides, arguments.reading = reading_option(overrides, arguments.reading)
    # Defaults of a check go before the user's own words, which then win.
    # a check that cannot decide must not pass
    if any(word.startswith("gate") for word in overrides):
        overrides = ["gate.undecided=exit_5", *overrides]
    # a check is not recorded, unless that is asked for
    if not any(word.startswith("tracking") for word in overrides):
        overrides = ["tracking=none", *overrides]
    if len(names) == 1 and (Path(names[0]) / "manifest.json").exists():
        return _check_run(Path(names[0]), overrides, arguments)
    answered: list[str] = []
    # For what has no file yet: standard input and traces.
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        paths = [_path(name, overrides, Path(scratch)) for name in names]
        try:
            if NO_JUDGES in (arguments.judge or ()):
                return _check_annotators(paths, names, arguments)
            checked = _read_labeled(paths, names, arguments)
        except NoJudgeError:
            # People judged: how far they agree is all that the table may show.
            with suppress(ConfigError):
                _check_annotators(paths, names, arguments)
            raise
        except DatasetError as error:
            # the user knows only the name on the command line
            if scratch not in error.where:
                if isinstance(error, OpenFileError):
                    print_parts(error, paths, arguments)
                raise
            where = error.where
            for path, name in zip(paths, names, strict=True):
                where = where.replace(str(path), name)
            remedy = error.remedy
            if isinstance(error, OpenFileError):
                remedy = "write it to a file, and name its encoding after the path"
            raise DatasetError(error.what, where=where, remedy=remedy) from None
        except OpenTableError as question:
            chosen = chosen_answer(question)
            if chosen is None:
                raise
            answered = answered_command(chosen, arguments)
    if answered:
        # Outside the block: the question is closed, and its temporary files are gone before the
        # new command makes its own.
        return run_command(answered)
    return _score(checked, ", ".join(names), overrides, arguments)


def _path(name: str, overrides: Sequence[str], scratch: Path) -> Path:
    """Return the path that an argument names; standard input and traces are written to
    a file in `scratch`.
    """
    from evalkit.datasets.sources import TRACES

    if name == STDIN:
        return _stdin(scratch)
    if not name.startswith(TRACES):
        return Path(name).expanduser()
    from evalkit.compose import load_config
    from evalkit.tracking import fetch_traces, tracking_uri

    settings = load_config(
        overrides=[word for word in overrides if word.startswith("tracking")]
    ).tracking
    path = scratch / "traces.jsonl"
    fetch_traces(tracking_uri(settings), name.removeprefix(TRACES), path)
    return path


def _stdin(folder: Path) -> Path:
    # Bytes, because the encoding is detected later, as for files.
    content = sys.stdin.buffer.read()
    # standard input has no suffix
    start = content[:1000].lstrip()
    suffix = "json" if start.startswith((b"[", b"{")) else "csv"
    path = folder / f"stdin.{suffix}"
    path.write_bytes(content)
    return path


def _read_labeled(
    paths: Sequence[Path], names: Sequence[str], arguments: Namespace
) -> _Checked:
    """Return the judgments of a file; of a workbook with several tables, those of its only sheet
    with a judge and labels.

    Raises:
        OpenFileError: If several sheets have both, or none has.
    """
    from evalkit.datasets.file_parts import WHICH_SHEET, OpenFileError
    from evalkit.interop.tables.sheets import labeled_sheet

    try:
        return _read(paths, names, arguments)
    except OpenFileError as question:
        [file, *other_files] = paths
        is_workbook = question.question == WHICH_SHEET
        if other_files or not is_workbook or arguments.reading or arguments.fields:
            raise
        sheet = labeled_sheet(
            question,
            _choices(arguments),
            lambda part: _rows(Path(f"{file}#{part}"), names[0], several=False),
        )
        if sheet is None:
            raise
        checked = _read([Path(f"{file}#{sheet}")], [f"{names[0]}#{sheet}"], arguments)
        listed = ", ".join(f"'{name}'" for name, _ in question.parts if name != sheet)
        note = f"the sheet '{sheet}' has a judge and labels; not read: {listed}"
        return replace(checked, warnings=(note, *checked.warnings))


def _read(
    paths: Sequence[Path], names: Sequence[str], arguments: Namespace
) -> _Checked:
    """Return the judgments of a file in a known format, otherwise those of tables."""
    from evalkit.config.table_reading import load_reading
    from evalkit.interop.import_file import import_judgments
    from evalkit.interop.importer_discovery import EXPORTED, GENERIC
    from evalkit.interop.layouts.judgment_files import peek
    from evalkit.interop.layouts.records import Options
    from evalkit.interop.tables.fixed_roles import Choices
    from evalkit.interop.tables.reading import choices_of

    _refuse_missing(paths)
    path = paths[0]
    is_alone = len(paths) == 1
    # --fields names the columns, so that nothing has to be inferred
    if arguments.fields and is_alone:
        fields = dict(word.partition("=")[::2] for word in arguments.fields)
        options = Options(fields=fields, winners=dict(arguments.map or ()))
        return _Checked(import_judgments(GENERIC, path, options))
    if arguments.reading is None:
        choices = _choices(arguments)
    else:
        choices = choices_of(load_reading(arguments.reading))
    # an export of evalkit has known columns; choices would be about a table
    if is_alone and choices == Choices() and peek(path).has(*EXPORTED):
        return _Checked(import_judgments(GENERIC, path, Options()))
    # choices beyond one judge and one label are about the columns of a table
    plain = Choices(choices.judges[:1], choices.labels[:1], words=choices.words)
    if choices == plain:
        of_logs = _read_logs(paths, ", ".join(names), choices, arguments)
        if of_logs is not None:
            return of_logs
    return _read_tables(paths, names, choices, arguments)


def _refuse_missing(paths: Sequence[Path]) -> None:
    """Refuse a path without a file, and a stream; all are checked before the first is read.

    Raises:
        DatasetError: If there is one.
    """
    from evalkit.datasets.compression import refuse_stream
    from evalkit.datasets.file_parts import file_of

    for path in paths:
        if not file_of(path).exists():
            raise DatasetError("no such file", where=str(path), remedy="check the path")
        refuse_stream(path)


def _read_logs(
    paths: Sequence[Path], where: str, choices: Choices, arguments: Namespace
) -> _Checked | None:
    """Return the judgments of files in one known format; `None` if there are none, or if labels
    or words are chosen, which only a table has.

    Raises:
        DatasetError: If there are several formats, or a file cannot be read.
        OpenTableError: If the columns of an export leave a question, which is printed.
        OpenCriterionError: If its criteria do.
    """
    from evalkit.interop.importer_discovery import importer
    from evalkit.interop.layouts.criteria import OpenCriterionError
    from evalkit.interop.tables.questions import OpenTableError

    logs = {log: name for path in paths for log, name in _logs(path)}
    if not logs:
        return None
    name, *other_formats = dict.fromkeys(logs.values())
    if other_formats:
        problem = f"has logs of several formats: {', '.join((name, *other_formats))}"
        raise DatasetError(problem, where=where, remedy="check them one at a time")
    # Named labels and words are those of a table; only a log has dimensions to choose from.
    if (choices.labels or choices.words) and not importer(name).is_log:
        return None
    try:
        return _Checked(_imported(name, [*logs], where, choices))
    except OpenTableError as question:
        print_question(question, arguments)
        raise
    except OpenCriterionError as question:
        print_question(as_table_question(question), arguments)
        raise


def _imported(
    name: str, logs: Sequence[Path], where: str, choices: Choices
) -> ImportedJudgments:
    """Return the judgments of logs in the named format."""
    from evalkit.interop.import_file import import_judgments
    from evalkit.interop.importer_discovery import importer
    from evalkit.interop.layouts.judgment_files import peek
    from evalkit.interop.layouts.records import Options
    from evalkit.interop.tables.contradictions import check_people
    from evalkit.interop.tables.fixed_roles import Choices

    first, *other_logs = logs
    options = Options(
        judge=next(iter(choices.judges), None),
        dimension=next(iter(choices.labels), None),
        winners=choices.words,
    )
    brought = import_judgments(name, first, options, *other_logs)
    if choices != Choices():
        return brought
    is_log = importer(name).is_log
    return check_people(brought, peek(first), name, where, is_log=is_log)


def _read_tables(
    paths: Sequence[Path],
    names: Sequence[str],
    choices: Choices,
    arguments: Namespace,
) -> _Checked:
    """Return the judgments of the rows of tables.

    Raises:
        OpenTableError: If the columns leave a question, which is printed.
        ConfigError: If the rows are no judgments.
    """
    from evalkit.interop.importer_discovery import format_names
    from evalkit.interop.layouts.judgment_files import peek
    from evalkit.interop.tables.fixed_roles import Choices
    from evalkit.interop.tables.questions import OpenTableError
    from evalkit.interop.tables.reading import import_table, reading_of

    path = paths[0]
    where = ", ".join(names)
    try:  # the rows are not held longer than they are read
        brought, table = import_table(_rows_of(paths, names), where, path, choices)
    except OpenTableError as question:
        print_question(question, arguments)
        raise
    except ConfigError as error:
        may_be_known = len(paths) == 1 and choices == Choices()
        if may_be_known and (remedy := format_names(peek(path))):
            raise DatasetError(error.what, where=where, remedy=remedy) from None
        raise
    return _Checked(
        brought,
        table.roles,
        tuple(with_command(note, arguments) for note in table.warnings),
        table.settings,
        reading_of(table),
    )


def _rows_of(paths: Sequence[Path], names: Sequence[str]) -> Rows:
    """Return the rows of all tables; of several, each says which one it is from."""
    if len(paths) == 1:
        return _rows(paths[0], names[0], several=False)
    return [
        row
        for path, name in zip(paths, names, strict=True)
        for row in _rows(path, name, several=True)
    ]


def _check_annotators(
    paths: Sequence[Path],
    names: Sequence[str],
    arguments: Namespace,
) -> int:
    """Print how far the annotators of tables agree in which nobody else judged, and return the
    exit status.

    Raises:
        ConfigError: If fewer than two annotators have labels.
    """
    from evalkit.cli.check_annotators import print_annotators
    from evalkit.interop.tables.annotators_alone import agreement_of_annotators

    agreement = agreement_of_annotators(
        _rows_of(paths, names), ", ".join(names), _choices(arguments)
    )
    print_annotators(agreement, as_json=arguments.json)
    return 0


def _logs(path: Path, depth: int = 4) -> Iterator[tuple[Path, str]]:
    """Yield the files and folders in a known format at a path, with the format."""
    from evalkit.interop.importer_discovery import recognize_format

    # A folder that is a log is not searched inside: its files are parts of it.
    if name := recognize_format(path):
        yield path, name
    elif path.is_dir() and depth:
        for child in sorted(path.iterdir()):
            yield from _logs(child, depth - 1)


def _choices(arguments: Namespace) -> Choices:
    """Return what the user said about the columns of a table.

    Raises:
        UsageError: If there are more than two columns of responses.
    """
    from evalkit.interop.tables.fixed_roles import Choices

    responses = arguments.response or []
    if len(responses) > 2:
        raise UsageError("check", "--response can be used at most twice")
    columns = {
        name: column
        for name in ("id", "prompt", "order", "sample")
        if (column := getattr(arguments, name))
    }
    # Not strict: there may be no response, one, or two.
    columns |= dict(
        zip(
            ("response",) if len(responses) == 1 else ("response_a", "response_b"),
            responses,
            strict=False,
        )
    )
    return Choices(
        tuple(arguments.judge or ()),
        tuple(arguments.label or ()),
        columns,
        dict(arguments.map or ()),
        tuple(arguments.key or ()),
    )


def _rows(path: Path, name: str, *, several: bool) -> Rows:
    """Return the rows of a file, or of all data files of a folder, each with its location.

    Args:
        path: The file or folder; after `#`, its sheet or encoding.
        name: The path as the user wrote it, for errors.
        several: Whether each row gets the name of its file in a column `file`.

    Raises:
        DatasetError: If the file is empty, the folder has no data files, or a file cannot be
            read.
    """
    from evalkit.datasets.file_parts import file_of
    from evalkit.datasets.formats import is_readable
    from evalkit.interop.layouts.judgment_files import table_rows

    if path.is_dir():
        files = sorted(
            file for file in path.iterdir() if file.is_file() and is_readable(file)
        )
        if not files:
            raise DatasetError(
                "is a folder with no data files", where=name, remedy="use a file"
            )
        return [row for file in files for row in _rows(file, str(file), several=True)]
    if not file_of(path).stat().st_size:
        raise DatasetError(
            "is empty", where=name, remedy="use a file with a row for each verdict"
        )
    rows = table_rows(path)
    if several:
        return [
            (location, {**row, "file": row.get("file", Path(name).stem)})
            for location, row in rows
        ]
    return rows


def _score(
    checked: _Checked, source: str, overrides: Sequence[str], arguments: Namespace
) -> int:
    from evalkit.cli.plain_settings import load_settings
    from evalkit.interop.tables.reading import merged_settings
    from evalkit.workflows.finishing import claim_run_folder

    settings = merged_settings(checked.brought.settings, checked.settings)
    config = load_settings(settings, overrides)
    folder, claim = claim_run_folder(config, arguments.output)
    with claim:
        return _score_into(folder, checked, source, config, arguments)


def _score_into(
    folder: Path,
    checked: _Checked,
    source: str,
    config: RunConfig,
    arguments: Namespace,
) -> int:
    """Score the judgments of a table as a run in a folder, record and print it, and return the
    exit status.

    Args:
        folder: The run folder.
        checked: The judgments, the reading of the table, and warnings about it.
        source: The path of the table, for the manifest.
        config: The config of the run.
        arguments: The options of the command.
    """
    from evalkit.cli.console import reported
    from evalkit.workflows.finishing import track
    from evalkit.workflows.import_run import import_run

    # The run reads its cases from its own folder from now on, so it does not depend on the table.
    config = config.with_(
        {
            "dataset.path": str(folder.absolute() / "cases.jsonl"),
            "dataset.format": "jsonl",
        }
    )
    brought = checked.brought
    brought = replace(brought, notes=(*brought.notes, *checked.warnings))
    result = import_run(
        config,
        brought,
        folder,
        source=source,
        read=False,
        overwrite=arguments.overwrite,
    ).result
    if checked.reading is not None:
        content = checked.reading.yaml(_rubric(config)).encode()
        write_file(folder / READING_FILE, [content])
        if arguments.save is not None:
            with file_errors("cannot be written", arguments.save):
                write_file(arguments.save, [content])
    statuses: list[int] = []
    with reported(statuses):
        result = track(config, result) if config.tracking.enabled else result
    return max(
        [*statuses, print_checked(result, checked.roles, as_json=arguments.json)]
    )


def _rubric(config: RunConfig) -> Json:
    """Return the settings of a run's rubric that differ from the defaults; none for pairs."""
    if config.mode.name == "pairwise":
        return {}
    changed = config.rubric.model_dump(mode="json", exclude_defaults=True)
    # of a scale, also if they are the defaults
    ends = () if config.rubric.classes else ("min", "max", "step")
    kept = {*ends, "classes", "ordered", "real"}
    return {key: value for key, value in changed.items() if key in kept}


def _check_run(folder: Path, overrides: Sequence[str], arguments: Namespace) -> int:
    """Decide about the judges of a finished run; it is scored again only if settings are given."""
    from evalkit.cli.finished_run import SCORING_KEYS, apply_settings
    from evalkit.runs import claim_finished, read_run
    from evalkit.workflows.rescoring import rescore

    # That word was added by `main` and asks for nothing.
    settings = [word for word in overrides if word != "tracking=none"]
    # Reading alone needs no claim, and must work in a folder that cannot be written.
    with claim_finished(folder) if settings else nullcontext():
        result = read_run(folder)
        if settings:
            config = apply_settings(result, settings, SCORING_KEYS)
            result = rescore(config, result, folder)
    return print_checked(
        replace(result, folder=str(folder)),
        (),
        as_json=arguments.json,
        written=False,
    )
