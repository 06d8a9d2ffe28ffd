"""`evalkit check`: what a table, a log or a run shows about its judges, in one step."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, field, replace
from pathlib import Path
from shlex import join
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from evalkit.cli.parser import FOLDER, UsageError, check_overrides, is_override
from evalkit.core.display import relative
from evalkit.core.translation import gettext, translator
from evalkit.decision import Decision, metrics_of
from evalkit.errors import ConfigError, DatasetError
from evalkit.values import Json, JsonObject, frozen

if TYPE_CHECKING:
    from evalkit.config import RunConfig
    from evalkit.interop import ImportedJudgments
    from evalkit.interop.tables.columns import Rows
    from evalkit.interop.tables.fixed_roles import Choices
    from evalkit.interop.tables.questions import OpenTableError, Role
    from evalkit.results import RunResult
    from evalkit.scoring.leaderboard import Leaderboard

STDIN: Final = "-"
MOST_ROLES: Final = 30


@frozen
class _Checked:
    """What was read: judgments, the roles of columns, and warnings about the data."""

    brought: ImportedJudgments
    roles: tuple[Role, ...] = ()
    warnings: tuple[str, ...] = ()
    settings: Json = field(default_factory=dict)


def main(arguments: Namespace) -> int:
    """Read tables, a log or a run folder, decide about its judges, write the run folder and print the result.

    Raises:
        ConfigError: if the arguments or the data are wrong; nothing is written then.
    """
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
    if any(word.startswith("gate") for word in overrides):
        overrides = ["gate.undecided=exit_5", *overrides]
    if not any(word.startswith("tracking") for word in overrides):
        overrides = ["tracking=none", *overrides]
    if len(names) == 1 and (Path(names[0]) / "manifest.json").exists():
        return _check_run(Path(names[0]), overrides, arguments)
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        paths = [_path(name, overrides, Path(scratch)) for name in names]
        try:
            checked = _read(paths, names, arguments)
        except DatasetError as error:
            if scratch not in error.where:
                raise
            where = error.where
            for path, name in zip(paths, names, strict=True):
                where = where.replace(str(path), name)
            raise DatasetError(error.what, where=where, remedy=error.remedy) from None
    return _score(checked, ", ".join(names), overrides, arguments)


def _path(name: str, overrides: Sequence[str], scratch: Path) -> Path:
    """Return the path that an argument names; standard input and traces are written to a file in `scratch`."""
    from evalkit.tracking import TRACES

    if name == STDIN:
        return _stdin(scratch)
    if not name.startswith(TRACES):
        return Path(name).expanduser()
    from evalkit.hydra_app import load_config
    from evalkit.tracking import fetch_traces, tracking_uri

    settings = load_config(
        overrides=[word for word in overrides if word.startswith("tracking")]
    ).tracking
    path = scratch / "traces.jsonl"
    fetch_traces(tracking_uri(settings), name.removeprefix(TRACES), path)
    return path


def _stdin(folder: Path) -> Path:
    content = sys.stdin.buffer.read()
    start = content[:1000].lstrip()
    suffix = (
        "json"
        if start.startswith(b"[")
        else "jsonl"
        if start.startswith(b"{")
        else "csv"
    )
    path = folder / f"stdin.{suffix}"
    path.write_bytes(content)
    return path


def _read(
    paths: Sequence[Path], names: Sequence[str], arguments: Namespace
) -> _Checked:
    """Return the judgments of a file in a known format, otherwise those of tables."""
    from evalkit.datasets.compression import refuse_stream
    from evalkit.foreign_files.judgment_files import peek
    from evalkit.interop import Options, import_judgments
    from evalkit.interop.exporters import EXPORTED
    from evalkit.interop.import_file import imported
    from evalkit.interop.importer_discovery import GENERIC, format_names, importer
    from evalkit.interop.tables.fixed_roles import Choices
    from evalkit.interop.tables.questions import OpenTableError
    from evalkit.interop.tables.table import read_table

    path = paths[0]
    where = ", ".join(names)
    for one in paths:
        if not one.exists():
            raise DatasetError("no such file", where=str(one), remedy="check the path")
        refuse_stream(one)
    if arguments.fields and len(paths) == 1:
        fields = dict(word.partition("=")[::2] for word in arguments.fields)
        options = Options(fields=fields, winners=dict(arguments.map or ()))
        return _Checked(import_judgments(GENERIC, path, options))
    choices = _choices(arguments)
    if len(paths) == 1 and choices == Choices() and peek(path).has(*EXPORTED):
        return _Checked(import_judgments(GENERIC, path, Options()))
    plain = choices == Choices(choices.judges[:1], choices.labels[:1])
    if plain and (logs := {log: name for one in paths for log, name in _logs(one)}):
        name, *others = dict.fromkeys(logs.values())
        if others:
            what = f"has logs of several formats: {', '.join((name, *others))}"
            raise DatasetError(what, where=where, remedy="check them one at a time")
        if not choices.labels or importer(name).is_log:
            first, *more = logs
            options = Options(
                judge=next(iter(choices.judges), None),
                dimension=next(iter(choices.labels), None),
            )
            return _Checked(import_judgments(name, first, options, *more))
    several = len(paths) > 1
    try:  # the rows are not held longer than they are read
        table = read_table(
            [
                row
                for one, name in zip(paths, names, strict=True)
                for row in _rows(one, name, several=several)
            ],
            where,
            choices,
        )
    except OpenTableError as question:
        _print_question(question, arguments)
        raise
    except ConfigError as error:
        if (
            len(paths) == 1
            and choices == Choices()
            and (remedy := format_names(peek(path)))
        ):
            raise DatasetError(error.what, where=where, remedy=remedy) from None
        raise
    return _Checked(
        imported(table.parsed, "table", path),
        table.roles,
        table.warnings,
        table.settings,
    )


def _logs(path: Path, depth: int = 4) -> Iterator[tuple[Path, str]]:
    """Yield the files and folders in a known format at a path, with the format."""
    from evalkit.interop.importer_discovery import recognize_format

    if name := recognize_format(path):
        yield path, name
    elif path.is_dir() and depth:
        for child in sorted(path.iterdir()):
            yield from _logs(child, depth - 1)


def _print_question(question: OpenTableError, arguments: Namespace) -> None:
    """Print how the table was read so far, the question, and a command for each answer."""
    from evalkit.interop.tables.questions import command

    print("\n".join(reading_lines(question.roles)))
    print(f"Question: {question.what}")
    before = _given_options(arguments)
    for answer in question.answers:
        words = ["evalkit", "check", *arguments.paths, *before, *answer.options]
        print(f"  {answer.meaning}:\n    {command(_without_repeats(words))}")


def _given_options(arguments: Namespace) -> list[str]:
    """Return the options of the command that say how to read the table."""
    given: list[str] = []
    for name in ("judge", "label", "response", "key"):
        for value in getattr(arguments, name, None) or ():
            given += [f"--{name}", value]
    for name in ("id", "prompt", "order", "sample"):
        if value := getattr(arguments, name, None):
            given += [f"--{name}", value]
    for word, meaning in arguments.map or ():
        given += ["--map", f"{word}={meaning}"]
    return given


def _without_repeats(words: Sequence[str]) -> list[str]:
    """Return a command without options that occur twice."""
    kept: list[str] = []
    seen: set[tuple[str, str]] = set()
    position = 0
    while position < len(words):
        word = words[position]
        if word.startswith("--") and position + 1 < len(words):
            option = (word, words[position + 1])
            if option not in seen:
                kept += option
            seen.add(option)
            position += 2
        else:
            kept.append(word)
            position += 1
    return kept


def reading_lines(roles: Sequence[Role]) -> list[str]:
    """Return how a table was read: a line for each used column, and one for all others."""
    from evalkit.interop.tables.raters import NOT_USED

    used = [role for role in roles if role.role != NOT_USED]
    lines = [
        f"  {role.column}: {role.role}"
        + (f", {role.type}" if role.type else "")
        + f" ({role.why})"
        for role in used[:MOST_ROLES]
    ]
    unused = [f"{role.column} ({role.why})" for role in roles if role.role == NOT_USED]
    if unused:
        more = "" if len(unused) <= MOST_ROLES else f" and {len(unused) - MOST_ROLES} more"
        listed = ", ".join(unused[:MOST_ROLES]) + more
        lines.append(f"  not used: {listed}; to use one: --judge COLUMN or --label COLUMN")
    return lines


def _choices(arguments: Namespace) -> Choices:
    from evalkit.interop.tables.fixed_roles import Choices

    responses = arguments.response or []
    if len(responses) > 2:
        raise UsageError("check", "--response can be used at most twice")
    columns = {
        name: column
        for name in ("id", "prompt", "order", "sample")
        if (column := getattr(arguments, name))
    }
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
    from evalkit.datasets.formats import is_readable
    from evalkit.foreign_files.judgment_files import rows_of

    if path.is_dir():
        files = sorted(
            file for file in path.iterdir() if file.is_file() and is_readable(file)
        )
        if not files:
            raise DatasetError(
                "is a folder with no data files", where=name, remedy="use a file"
            )
        return [row for file in files for row in _rows(file, str(file), several=True)]
    if not path.stat().st_size:
        raise DatasetError(
            "is empty", where=name, remedy="use a file with a row for each verdict"
        )
    rows = list(rows_of(path))
    return (
        [
            (place, {**row, "file": row.get("file", Path(name).stem)})
            for place, row in rows
        ]
        if several
        else rows
    )


def _score(
    checked: _Checked, source: str, overrides: Sequence[str], arguments: Namespace
) -> int:
    from evalkit.api import claim_run_folder
    from evalkit.hydra_app import load_settings

    settings = _merged(checked.brought.settings, checked.settings)
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
    from evalkit.api import track
    from evalkit.cli.console import reported
    from evalkit.import_run import import_run

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
    statuses: list[int] = []
    with reported(statuses):
        result = track(config, result) if config.tracking.enabled else result
    return max([*statuses, _print(result, checked.roles, as_json=arguments.json)])


def _merged(settings: Json, more: Json) -> JsonObject:
    """Return settings with those of a table's reading, which replace a whole rubric."""
    merged = dict(settings)
    for section, values in more.items():
        kept = {} if section == "rubric" else dict(merged.get(section, {}))
        merged[section] = {**kept, **values}
    return merged


def _check_run(folder: Path, overrides: Sequence[str], arguments: Namespace) -> int:
    """Decide about the judges of a finished run; it is scored again only if settings are given."""
    from evalkit.api import rescore
    from evalkit.cli.finished_run import SCORING_KEYS, apply_settings
    from evalkit.runs import claim_finished, read_run

    settings = [word for word in overrides if word != "tracking=none"]
    with claim_finished(folder) if settings else nullcontext():
        result = read_run(folder)
        if settings:
            config = apply_settings(result, settings, SCORING_KEYS)
            result = rescore(config, result, folder)
    return _print(replace(result, folder=str(folder)), (), as_json=arguments.json)


def _leaderboard(result: RunResult) -> Leaderboard | None:
    """Return the leaderboard of a run's judges, best first; `None` without labels or with one judge."""
    from evalkit.scoring import verdicts_by_judge
    from evalkit.scoring.leaderboard import Contender, rank
    from evalkit.scoring.stats.clusters import Clusters
    from evalkit.scoring.verdicts.panel import metric_part

    config = result.config
    decisions = result.decisions
    if len(decisions) < 2:
        return None
    cluster = Clusters.of(config, result.cases).by_id(result.cases)
    verdicts = verdicts_by_judge(result)
    contenders = [
        Contender(
            part,
            judge,
            "",
            metrics_of(result.metrics, part),
            own,
            cluster,
            config.mode.name,
        )
        for judge, own in verdicts.items()
        if (part := metric_part(judge)) in decisions
    ]
    board = rank(contenders, config.scoring)
    return board if board.rows else None


def _lines(result: RunResult, board: Leaderboard | None) -> list[str]:
    """Return a line for each judge, best first, and which judge to use, or none."""
    from evalkit.cli.summary import translator_of
    from evalkit.core.translation import rendered
    from evalkit.report.findings.decisions import sentence
    from evalkit.report.findings.sweeps import choice_text

    words = translator_of(result)
    if board is None:
        texts = {
            name: rendered(
                sentence(
                    decision,
                    metrics_of(result.metrics, name if result.decisions else None),
                ),
                words,
            )
            for name, decision in _decisions(result, board)
        }
        return [
            f"{name}: {text}" if len(texts) > 1 else str(text)
            for name, text in texts.items()
        ]
    lines = [
        f"{row.name}:"
        f" {rendered(sentence(row.decision, metrics_of(result.metrics, row.job)), words)}"
        for row in board.rows
    ]
    names = {row.job: row.name for row in board.rows}
    return [*lines, str(rendered(choice_text(board, board.choices[0], names), words))]


def _decisions(
    result: RunResult, board: Leaderboard | None
) -> list[tuple[str, Decision]]:
    """Return each judge with the decision about it, best first."""
    if board is not None:
        return [(row.name, row.decision) for row in board.rows]
    decisions = result.decisions or {str(result.manifest["judge"]): result.decision}
    return [*decisions.items()]


def _unlabeled(result: RunResult) -> list[str]:
    """Return what cannot be known without labels, and the next command."""
    from evalkit.cli.summary import translator_of

    command = join(
        ["evalkit", "label", str(relative(Path(result.folder or ""))), "--page"]
    )
    return [
        text.render(translator_of(result))
        for text in (
            gettext(
                "Without labels, nothing shows whether the verdicts are right; "
                "only consistency and position can be checked."
            ),
            gettext("Next: {command}", command=command),
        )
    ]


def _print(result: RunResult, roles: Sequence[Role], *, as_json: bool) -> int:
    from evalkit.cli.console import plain_console, terminal_width, text_table
    from evalkit.cli.finished_run import gate_status, print_gate
    from evalkit.cli.summary import (
        WIDTH,
        leaderboard_table,
        metric_table,
        translator_of,
    )
    from evalkit.gating import GATE
    from evalkit.report.findings import TABLES, corrections, findings_of
    from evalkit.report.texts import note_text
    from evalkit.runs import read_details

    words = translator_of(result)
    board = _leaderboard(result)
    decisions = _decisions(result, board)
    lines = _lines(result, board)
    folder = Path(result.folder or "")
    if any(decision.reason == "no_labels" for _, decision in decisions):
        lines += _unlabeled(result)
    found = {"": findings_of(result, read_details(folder, TABLES))}
    parts = {row.name: row.job for row in board.rows} if board is not None else {}
    by_judge = {
        name: list(corrections(metrics_of(result.metrics, part)))
        for name, part in parts.items()
    }
    found |= {
        f"{name}: ": own[: len(own) - (len(own) == 2)] for name, own in by_judge.items()
    }
    chinese = words is translator("zh")
    findings = [
        f"{name}{one.text_zh if chinese else one.text}"
        for name, own in found.items()
        for one in own
    ]
    report = relative(folder / "report.html")
    confidence = result.config.scoring.confidence
    if as_json:
        content = {
            "decisions": {judge: decision.json() for judge, decision in decisions},
            "conclusion": lines,
            "roles": [asdict(role) for role in roles],
            "metrics": {
                name: asdict(metric) for name, metric in result.metrics.items()
            },
            "findings": findings,
            "notes": list(result.manifest.get("notes", ())),
            "gate": result.manifest.get(GATE),
            "paths": {"folder": str(folder), "report": str(report)},
        }
        print(json.dumps(content, ensure_ascii=False))
        return gate_status(result)
    console = plain_console()
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
    if len(decisions) > 1:
        print(gettext("All judges together, as a panel that votes:").render(words))
    for text in findings[1:]:
        console.print(f"  • {text}", markup=False, highlight=False)
    console.print("", metric_table(result.metrics, confidence), "")
    if board is not None:
        console.print(
            leaderboard_table(board, board.rows, max(WIDTH, terminal_width()))[0], ""
        )
    if roles:
        rows = ((role.column, role.role, role.why) for role in roles[:MOST_ROLES])
        console.print(text_table(("column", "role", "why"), rows=rows), "")
    for note in result.manifest.get("notes", ()):
        text = gettext("note: {note}", note=note_text(note)).render(words)
        console.print(text, markup=False, highlight=False)
    status = print_gate(result)
    print(gettext("report: {path}", path=report).render(words))
    kept = gettext("the texts were written to {folder}; nothing was sent anywhere")
    sent = gettext("the texts were written to {folder} and sent to the tracker")
    print(
        (sent if result.config.tracking.enabled else kept)
        .fill(folder=relative(folder))
        .render(words)
    )
    return status
