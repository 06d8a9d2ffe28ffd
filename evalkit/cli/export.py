"""`evalkit export`: write a run's judgments, its labeling tasks or its judge for other tools."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from evalkit.cli.label_samples import record_sample
from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.claims import claim_file
from evalkit.core.display import counted
from evalkit.core.errors import ConfigError
from evalkit.runs.results import RunResult

TASKS = ("argilla", "label_studio")
PARAPHRASES = "paraphrases"
JUDGE = "judge"
ASSESSMENTS = "mlflow-assessments"


def export(arguments: Namespace) -> int:
    """Write a run's judgments to a file, by default in the run folder.

    Raises:
        ConfigError: if the options do not fit the layout, or the file cannot be written.
    """
    layout = arguments.to
    _check_options(arguments)
    from evalkit.runs import read_run

    folder = Path(arguments.run_folder)
    result = read_run(folder)
    # Other layouts write judgments.
    if layout == JUDGE:
        _export_judge(result, folder, arguments)
    elif layout == ASSESSMENTS:
        _export_assessments(result, folder)
    elif layout == PARAPHRASES:
        _export_paraphrases(result, folder, arguments.output)
    else:
        _export_judgments(result, folder, arguments)
    return 0


def _check_options(arguments: Namespace) -> None:
    """Check that the options fit the layout.

    Raises:
        ConfigError: if one does not.
    """
    layout = arguments.to
    if arguments.n is not None and layout not in TASKS:
        remedy = f"omit it, or use --to {' or '.join(TASKS)}"
        raise ConfigError(
            "exports every judgment, so --n has no effect",
            where=f"--to {layout}",
            remedy=remedy,
        )
    if arguments.raw and layout != "csv":
        raise ConfigError(
            "is only for csv",
            where="--raw",
            remedy="omit it: no other layout changes a text",
        )
    if arguments.register is not None and layout != JUDGE:
        raise ConfigError(
            "is only for judge", where="--register", remedy="add --to judge, or omit it"
        )


def _export_judge(result: RunResult, folder: Path, arguments: Namespace) -> None:
    from evalkit.serving.folder import write_judge

    target = arguments.output or folder / JUDGE
    write_judge(result, target)
    print(f"judge written to {target}; use it with evalkit.load_judge")
    if arguments.register is not None:
        _register_judge(result, folder, target, arguments.register)


def _export_assessments(result: RunResult, folder: Path) -> None:
    from evalkit.guard.config_sources import EXPORT, SECTIONS
    from evalkit.guard.policy import check, origin_of
    from evalkit.tracking.traces import log_assessments

    check(result.config, origin_of(folder), SECTIONS[EXPORT])
    assessed, uri = log_assessments(result.config.tracking, result)
    print(f"traces assessed in {uri}: {assessed}")


def _export_paraphrases(result: RunResult, folder: Path, output: Path | None) -> None:
    """Write the paraphrases of a bias probe, for people to label as equal in meaning or not.

    Raises:
        ConfigError: if the file exists, because it may have labels.
    """
    from evalkit.audit.rewriting import review_table
    from evalkit.runs.read import read_probes

    edits = read_probes(folder)[0] if result.config.probe.probes else ()
    table = review_table(result.config, result.cases, edits)
    file = output or folder / f"{PARAPHRASES}.csv"
    if file.exists():
        remedy = (
            "read it with `evalkit label` and remove it, or choose another --output"
        )
        raise ConfigError("exists", where=str(file), remedy=remedy)
    write_output(file, table.encode("utf-8", "backslashreplace"))
    print(
        f"paraphrases written to {file}; fill in label (same or different) and annotator"
    )


def _export_judgments(result: RunResult, folder: Path, arguments: Namespace) -> None:
    """Write all judgments, or tasks for annotators, which may be those of a sample."""
    from evalkit.interop.exporters import export as content_of
    from evalkit.labels.exporters import export_tasks

    layout = arguments.to
    file = _judgments_file(result, folder, arguments)
    sample = None
    if arguments.n is not None:
        from evalkit.labels.sample import sample_for_labeling

        sample = sample_for_labeling(result, arguments.n, arguments.seed)
    if layout in TASKS:
        content = export_tasks(result, layout, arguments.seed, sample)
        count = counted(len(json.loads(content)), "task")
    else:
        content = content_of(result, layout, raw=arguments.raw)
        count = counted(len(result.judgments), "judgment")
    write_output(file, content)
    if sample is not None:
        record_sample(folder, sample)
    cases = counted(len(result.cases), "case")
    print(f"{count} of {cases} written to {file}")


def _judgments_file(result: RunResult, folder: Path, arguments: Namespace) -> Path:
    """Return the file to write.

    Raises:
        ConfigError: if it holds the run's own judgments, which an export must not replace.
    """
    from evalkit.interop.exporters import EXPORTS
    from evalkit.runs.layout import judgments_of

    layout = arguments.to
    suffix = "json" if layout in TASKS else EXPORTS[layout][0]
    name = f"{'judgments' if layout == suffix else layout}.{suffix}"
    # A run keeps its own judgments in a file of this name.
    judgments_name = judgments_of(result.config)
    if name == judgments_name:
        name = "judgments-table.parquet"
    file: Path = arguments.output or folder / name
    judgments_file = folder / judgments_name
    exist = file.exists() and judgments_file.exists()
    if exist and file.samefile(judgments_file):
        raise ConfigError(
            "holds the run's own judgments",
            where=str(file),
            remedy="choose another --output",
        )
    return file


def _register_judge(result: RunResult, run: Path, judge: Path, name: str) -> None:
    """Add a judge to the model registry of MLflow, and print how to load it.

    Args:
        result: The run that validated it.
        run: The folder of the run.
        judge: The folder of the judge.
        name: Its name in the registry.

    Raises:
        ConfigError: If the run's config names a server that is not trusted.
        TrackingError: If it cannot be registered.
    """
    from evalkit.guard.config_sources import EXPORT, SECTIONS
    from evalkit.guard.policy import check, origin_of
    from evalkit.serving.folder import LOADER
    from evalkit.tracking.registry import CHAMPION, SCHEME, register_judge

    check(result.config, origin_of(run), SECTIONS[EXPORT])
    use = result.decision.use
    registered = register_judge(judge, name, result.config.tracking, use, LOADER)
    print(f"registered as {name}, version {registered.version}, in {registered.uri}")
    if registered.champion:
        print(f"load it with evalkit.load_judge('{SCHEME}{name}@{CHAMPION}')")
    else:
        print(
            f"note: not the {CHAMPION}, since its decision is {use};"
            f" load it with evalkit.load_judge('{SCHEME}{name}/{registered.version}')"
        )


def write_output(file: Path, content: bytes) -> None:
    """Write a file that no other command writes at the same time.

    Raises:
        ConfigError: If another command has claimed it, or it cannot be written.
    """
    remedy = "choose another --output"
    with claim_file(file, remedy), file_errors("cannot be written", file, remedy):
        write_file(file, [content])
