"""`evalkit import`, `evalkit export` and `evalkit label`: exchange judgments and labels with other tools."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.cli.parser import FOLDER, UsageError, check_overrides, reading_option
from evalkit.cli.tables import read_judgments, read_label_file
from evalkit.core.atomic_files import file_errors, write_file
from evalkit.core.claims import claim_file
from evalkit.errors import ConfigError, Signaled, did_you_mean
from evalkit.results import RunResult
from evalkit.values import frozen

if TYPE_CHECKING:
    from evalkit.audit.rewriting import Reviews
    from evalkit.config import RunConfig
    from evalkit.interop.labeling import Label, LabelSample

FIELD = "dataset.fields."
SHOWN = 5
TASK_COUNT = 50
MLFLOW = "mlflow"
TASKS = ("argilla", "label_studio")
PARAPHRASES = "paraphrases"
JUDGE = "judge"
ASSESSMENTS = "mlflow-assessments"
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
    """Read a file of judgments, score them, write the run folder, record the run and print the summary.

    Raises:
        ConfigError: if the arguments, the file or its config are wrong.
    """
    from evalkit.interop import formats

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
    return _import(_sorted(arguments))


def _sorted(arguments: Namespace) -> _Import:
    """Separate the columns after `--fields` from the overrides around them."""
    words: list[str] = arguments.words
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
        arguments.format,
        Path(arguments.path).expanduser(),
        arguments,
        fields,
        overrides,
        folder,
        reading,
    )


def _is_column(word: str) -> bool:
    from evalkit.interop.importers.generic import is_field

    key, equals, _ = word.partition("=")
    return bool(equals) and is_field(key)


def _import(source: _Import) -> int:
    from evalkit.cli.settled import load_settings
    from evalkit.interop.importer_discovery import importer
    from evalkit.rescoring import claim_run_folder

    if importer(source.format).needs_cases:
        imported, config = _batch(source)
    else:
        imported = _select(
            source,
            read_judgments(
                source.format,
                source.path,
                _options(source),
                source.reading,
            ),
        )
        config = load_settings(dict(imported.settings), source.overrides)
    folder, claim = claim_run_folder(config, source.folder)
    with claim:
        return _import_into(folder, source, config, imported)


def _import_into(
    folder: Path, source: _Import, config: RunConfig, imported: Any
) -> int:
    """Score the judgments that were read, write them to a folder, and print the summary."""
    from evalkit.import_run import import_run
    from evalkit.interop.importer_discovery import importer

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
    if imported.unread and not has_output and not needs_cases:
        raise _no_verdicts(source)
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
    return _finish(config, adopted, compared=not imported.unread)


def _no_verdicts(source: _Import) -> ConfigError:
    from evalkit.foreign_files.judgment_files import peek
    from evalkit.interop.importer_discovery import format_names

    remedy = (
        "name their output format: output=NAME; or map the verdicts: --fields winner=COLUMN, or"
        " score=COLUMN"
    )
    remedy = (None if source.fields else format_names(peek(source.path))) or remedy
    return ConfigError(
        "the file has texts but no verdicts", where=str(source.path), remedy=remedy
    )


def _batch(source: _Import) -> tuple[Any, Any]:
    """Return the answers in a batch's file, and the config of a run over its cases, which says how to parse them."""
    from evalkit.config import JudgeConfig
    from evalkit.core.resources import project
    from evalkit.datasets import load_cases
    from evalkit.hydra_app import load_config
    from evalkit.interop import import_judgments

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
    options = _options(source)
    options = replace(options, cases=cases, judge=options.judge or judge)
    imported = _select(source, import_judgments(source.format, source.path, options))
    if not named:
        model = imported.judgments[0].judge
        config = config.with_(
            {"judge": JudgeConfig(name=model, model=model, temperature=None)}
        )
    return imported, config


def _options(source: _Import) -> Any:
    from evalkit.interop import Options

    return Options(
        fields=source.fields,
        dimension=source.arguments.dimension,
        scores=source.arguments.scores,
        judge=source.arguments.judge,
        custom_id=source.arguments.custom_id,
        winners=dict(source.arguments.map),
    )


def _select(source: _Import, imported: Any) -> Any:
    """Return the selected cases with their judgments."""
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


def _finish(config: Any, adopted: Any, *, compared: bool) -> int:
    from evalkit.cli.console import reported
    from evalkit.cli.finished_run import print_gate
    from evalkit.cli.summary import print_summary
    from evalkit.rescoring import track

    statuses = list[int]()
    result = adopted.result
    with reported(statuses):
        result = track(config, result)
    print_summary(result)
    if adopted.texts and compared:
        _print_differences(adopted, result)
    return max([*statuses, print_gate(result)])


def _print_differences(adopted: Any, result: RunResult) -> None:
    count = len(adopted.differs)
    if count:
        where = f", all in {Path(result.folder or '') / 'differences.jsonl'}"
    else:
        where = ""
    print(f"texts read again: {adopted.texts}; {count} differ from the file{where}")
    for difference in adopted.differs[:SHOWN]:
        print(f"  {difference.line()}")


def export(arguments: Namespace) -> int:
    """Write a run's judgments to a file, by default in the run folder.

    Raises:
        ConfigError: if the options do not fit the layout, or the file cannot be written.
    """
    layout = arguments.to
    folder = Path(arguments.run_folder)
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
    from evalkit.interop.exporters import EXPORTS
    from evalkit.interop.exporters import export as content_of
    from evalkit.runs import read_run
    from evalkit.runs.layout import judgments_of

    result = read_run(folder)
    if layout == JUDGE:
        from evalkit.serving.folder import write_judge

        target = arguments.output or folder / JUDGE
        write_judge(result, target)
        print(f"judge written to {target}; use it with evalkit.load_judge")
        return 0
    if layout == ASSESSMENTS:
        from evalkit.guard import check, origin_of
        from evalkit.guard.doors import EXPORT, SECTIONS
        from evalkit.tracking.traces import log_assessments

        check(result.config, origin_of(folder), SECTIONS[EXPORT])
        assessed, uri = log_assessments(result.config.tracking, result)
        print(f"traces assessed in {uri}: {assessed}")
        return 0
    if layout == PARAPHRASES:
        from evalkit.audit.rewriting import review_table
        from evalkit.runs.read import read_probes

        edits = read_probes(folder)[0] if result.config.probe.probes else ()
        table = review_table(result.config, result.cases, edits)
        file = arguments.output or folder / f"{PARAPHRASES}.csv"
        if file.exists():  # it may have labels
            remedy = (
                "read it with `evalkit label` and remove it, or choose another --output"
            )
            raise ConfigError("exists", where=str(file), remedy=remedy)
        _write(file, table.encode("utf-8", "backslashreplace"))
        print(
            f"paraphrases written to {file}; fill in label (same or different) and annotator"
        )
        return 0
    suffix = EXPORTS[layout][0]
    name = f"{'judgments' if layout == suffix else layout}.{suffix}"
    own_file = judgments_of(result.config)
    file = arguments.output or folder / (
        "judgments-table.parquet" if name == own_file else name
    )
    if (
        file.exists()
        and (folder / own_file).exists()
        and file.samefile(folder / own_file)
    ):
        raise ConfigError(
            "holds the run's own judgments",
            where=str(file),
            remedy="choose another --output",
        )
    sample = None
    if arguments.n is not None:
        from evalkit.interop.labeling import sample_for_labeling

        sample = sample_for_labeling(result, arguments.n, arguments.seed)
    content = content_of(result, layout, arguments.seed, sample, raw=arguments.raw)
    _write(file, content)
    if layout in TASKS:
        count = f"{len(json.loads(content))} tasks"
    else:
        count = f"{len(result.judgments)} judgments"
    if sample is not None:
        _record(folder, sample)
    print(f"{count} of {len(result.cases)} cases written to {file}")
    return 0


def _write(file: Path, content: bytes) -> None:
    remedy = "choose another --output"
    with claim_file(file, remedy), file_errors("cannot be written", file, remedy):
        write_file(file, [content])


def _next(result: RunResult, arguments: Namespace) -> LabelSample:
    """Return the labels to give next, and print what they are expected to show."""
    from evalkit.interop.next_labels import next_labels

    next_sample = next_labels(result, arguments.next, arguments.seed)
    if (cases := len({case for case, _ in next_sample.sample.units})) < arguments.next:
        print(
            f"note: the run has {cases:,} cases without a label, not {arguments.next:,}: all are"
            " sampled"
        )
    print(
        f"{next_sample.labels:,} labels will be about as precise as"
        f" {next_sample.effective:,.0f} at random"
    )
    if (
        (metric := next_sample.metric) is not None
        and metric.low is not None
        and metric.high is not None
    ):
        print(
            f"expected width of {metric.name}: {next_sample.width:.3f}, now"
            f" {metric.high - metric.low:.3f}; with labels at random {next_sample.at_random:.3f}"
        )
    return next_sample.sample


def _record(folder: Path, sample: LabelSample) -> None:
    """Store in the run folder how cases were sampled, so that metrics weight their labels."""
    from evalkit.runs.layout import LABEL_SAMPLE
    from evalkit.runs.write import write_files

    write_files(folder, {LABEL_SAMPLE: sample.content()})


def label(arguments: Namespace) -> int:
    """Read labels from a file, from MLflow or from a page, and score the run again; or send items to label to MLflow.

    Raises:
        ConfigError: if the arguments are incomplete, or the labels belong to another run.
        TrackingError: if MLflow cannot be reached.
    """
    file = arguments.file
    overrides = list(arguments.overrides)
    if file is not None and file.startswith("tracking.") and not Path(file).exists():
        overrides = [file, *overrides]
        file = None
    sources = sum(
        source is not None
        for source in (file, arguments.to, arguments.source, arguments.page or None)
    )
    if sources > 1 or not (sources or arguments.next):
        raise UsageError(
            "label",
            "needs one of FILE, --page, --next N, --to mlflow and --from mlflow",
        )
    if arguments.next and (
        file is not None or arguments.source is not None or arguments.informative
    ):
        raise UsageError(
            "label",
            "--next is for labels to be given: use it alone, with --page, or with --to mlflow",
        )
    if arguments.n is not None and arguments.next:
        raise UsageError("label", f"--next {arguments.next} says how many: omit --n")
    if arguments.n is not None and not (arguments.page or arguments.to):
        raise UsageError("label", "--n needs --page or --to mlflow")
    for flag in () if arguments.page else ("informative", "annotator", "port"):
        if getattr(arguments, flag) not in (None, False):
            raise UsageError("label", f"--{flag} needs --page")
    from evalkit.runs import claim_finished

    folder = Path(arguments.run_folder)
    if not arguments.page:
        with claim_finished(folder):
            return _label(_labeled_run(folder), folder, file, overrides, arguments)
    if folder.is_file():
        folder = _imported(folder)
    result = _labeled_run(folder)
    _config(result, overrides)
    return _on_page(result, folder, arguments)


def _labeled_run(folder: Path) -> RunResult:
    """Return a run that labels can be added to.

    Raises:
        ConfigError: if its labels are held out.
    """
    from evalkit.runs import read_run

    result = read_run(folder)
    if result.config.dataset.holdout is not None:
        remedy = "add the labels to the data, and run again: answers are stored"
        raise ConfigError(
            "labels of test are held out, and new ones would show them",
            where=str(folder),
            remedy=remedy,
        )
    return result


def _label(
    result: RunResult,
    folder: Path,
    file: str | None,
    overrides: Sequence[str],
    arguments: Namespace,
) -> int:
    """Send items to label, sample the next ones, or read labels and score the run again."""
    if arguments.to is not None:
        return _send(result, arguments, overrides)
    if arguments.next:
        sample = _next(result, arguments)
        _record(folder, sample)
        print(
            f"{len(sample.units)} to label: evalkit label {folder} --page --next {arguments.next}"
        )
        return 0
    source = file if file is not None else arguments.source
    _config(result, overrides)  # report an invalid override before labels are read
    omitted: Counter[str] = Counter()
    if source != MLFLOW and result.config.probe.rewriter is not None:
        from evalkit.audit.rewriting import read_reviews

        if (reviews := read_reviews(Path(source), omitted)) is not None:
            return _review(result, folder, reviews, omitted, source)
    if source == MLFLOW:
        read = _from_mlflow(result, overrides)
    else:
        read = read_label_file(result, Path(source), omitted, arguments.reading)
    labels = list(
        {
            (label.case_id, label.unit, label.annotator, label.item): label
            for label in read
        }.values()
    )
    notes = [f"note: {reason}, omitted: {count}" for reason, count in omitted.items()]
    if older := len(read) - len(labels):
        notes.append(
            f"note: {older} older labels omitted: an annotator's last label of an item counts"
        )
    return _add(result, folder, labels, source, notes)


def _add(
    result: RunResult,
    folder: Path,
    labels: Sequence[Label],
    source: str,
    notes: Sequence[str] = (),
) -> int:
    """Score a run again with labels, and print the result and what they changed."""
    from evalkit.cli.finished_run import print_gate
    from evalkit.cli.summary import print_changes, print_summary
    from evalkit.import_run import add_labels
    from evalkit.interop.labeling import recorded

    again = add_labels(result, folder, labels, source, recorded(folder))
    print_summary(again)
    print_changes(result, again)
    counts = Counter(label.annotator for label in labels)
    counted = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    print(
        f"labels: {len(labels)} by {len(counts)} annotator{'s' * (len(counts) != 1)} ({counted})"
    )
    print(*notes, sep="\n", end="\n" * bool(notes))
    return print_gate(again)


def _imported(table: Path) -> Path:
    """Return the run folder of a table or a log: NAME-labels in the current folder, checked the first time.

    Raises:
        ConfigError: if the table cannot be read, or the folder has another run.
    """
    from evalkit.cli import check
    from evalkit.cli.parser import parse
    from evalkit.runs.layout import MANIFEST
    from evalkit.runs.read import read_facts

    source = str(table.absolute())
    folder = Path(f"{table.stem}-labels")
    if not (folder / MANIFEST).exists():
        check.main(parse(["check", source, "--output", str(folder)]))
    elif (read_facts(folder)[0].get("imported") or {}).get("source") != source:
        remedy = f"move it, or label that run: evalkit label {folder} --page"
        raise ConfigError("contains another run", where=str(folder), remedy=remedy)
    return folder


def _on_page(result: RunResult, folder: Path, arguments: Namespace) -> int:
    """Let an annotator label on a page until all is labeled, a click on Finish or Ctrl-C; then score the run again."""
    from evalkit.cli.label_page import HOST, LabelPage, page_of
    from evalkit.interop.label_session import LabelSession
    from evalkit.interop.labeling import sample_for_labeling
    from evalkit.interop.next_labels import sample_next
    from evalkit.runs import claim_finished, read_run
    from evalkit.serving.admission import listen
    from evalkit.tracking.connection import one_at_a_time

    with listen(HOST, arguments.port or 0) as listener:
        session = LabelSession(
            result,
            "human" if arguments.annotator is None else arguments.annotator,
            count=arguments.next or arguments.n or TASK_COUNT,
            seed=arguments.seed,
            informative=arguments.informative or bool(arguments.next),
            sampler=sample_next if arguments.next else sample_for_labeling,
        )
        try:
            page = LabelPage(session, page_of(session, result.config), listener)
            print(f"{len(session.tasks)} to label: {page.url}", flush=True)
            print("each label is stored at once; Ctrl-C ends the page", flush=True)
            page.serve()
        except Signaled:
            raise
        except KeyboardInterrupt:
            pass
        finally:
            session.close()
    with one_at_a_time(f"labels {folder.resolve()}"), claim_finished(folder):
        result = read_run(folder)  # another annotator may have finished
        if labels := session.new_labels(result.cases):
            return _add(result, folder, labels, str(session.file))
    print("no new labels; the run is unchanged")
    return 0


def _review(
    result: RunResult,
    folder: Path,
    reviews: Reviews,
    omitted: Counter[str],
    source: str,
) -> int:
    """Score an audit again without the paraphrases that annotators reject.

    Raises:
        ConfigError: if none of the reviews is of a paraphrase of this run.
    """
    from evalkit.audit.rewriting import key_of
    from evalkit.cli.finished_run import print_gate
    from evalkit.cli.summary import print_summary
    from evalkit.rescoring import rescore
    from evalkit.runs.read import read_probes

    reviewed = {key_of(edit) for edit in read_probes(folder)[0]} & reviews.keys()
    if not reviewed:
        remedy = "label the table of `evalkit export RUN --to paraphrases`"
        raise ConfigError(
            "has no review of a paraphrase of this run", where=source, remedy=remedy
        )
    omitted["reviews of other paraphrases"] += len(reviews) - len(reviewed)
    again = rescore(result.config, result, folder, reviews=reviews)
    print_summary(again)
    print(f"reviews: {len(reviewed):,} paraphrases")
    for reason, count in (+omitted).items():
        print(f"note: {reason}, omitted: {count}")
    return print_gate(again)


def _config(result: RunResult, overrides: Sequence[str]) -> RunConfig:
    from evalkit.cli.finished_run import apply_settings

    return apply_settings(result, overrides, ("tracking",))


def _from_mlflow(result: RunResult, overrides: Sequence[str]) -> list[Label]:
    from evalkit.tracking.review import fetch_labels

    return fetch_labels(_config(result, overrides).tracking, result)


def _send(result: RunResult, arguments: Namespace, overrides: Sequence[str]) -> int:
    if arguments.to != MLFLOW:
        remedy = "use --to mlflow, or `evalkit export RUN --to argilla` or label_studio"
        raise ConfigError(
            "labels cannot be requested there",
            where=f"--to {arguments.to}",
            remedy=remedy,
        )
    seed = arguments.seed
    names = [name.strip() for name in arguments.annotators.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            "needs different names",
            where="--annotators",
            remedy="write --annotators ann,bob",
        )
    from evalkit.interop.labeling import sample_for_labeling
    from evalkit.tracking.review import send_tasks

    if arguments.next:
        sample = _next(result, arguments)
    else:
        sample = sample_for_labeling(result, arguments.n or TASK_COUNT, seed)
    if not sample.units:
        raise ConfigError(
            "the run has no verdicts to label",
            where="evalkit label",
            remedy="name another run",
        )
    sent = send_tasks(_config(result, overrides).tracking, result, sample, names)
    _record(Path(arguments.run_folder), sample)
    print(
        f"{len(sample.units)} to label for each of {', '.join(names)}, in MLflow's experiment"
        f" '{sent.experiment}':"
    )
    for name, address in sent.queues.items():
        print(f"  {name}: {address}")
    print(
        "`evalkit ui` opens MLflow; `evalkit label RUN --from mlflow` reads the labels"
    )
    return 0
