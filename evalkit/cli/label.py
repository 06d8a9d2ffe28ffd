"""`evalkit label`: add annotators' labels to a run, from files, MLflow or a page."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.cli.importing import MLFLOW
from evalkit.cli.label_samples import TASK_COUNT, choose_next, record_sample
from evalkit.cli.parser import UsageError
from evalkit.cli.tables import read_label_file
from evalkit.core.errors import ConfigError, Signaled
from evalkit.core.translation import Message, joined, ngettext
from evalkit.runs.results import RunResult

if TYPE_CHECKING:
    from evalkit.config import RunConfig
    from evalkit.core.annotations import Label
    from evalkit.engine.run_design import Reviews


def label(arguments: Namespace) -> int:
    """Read labels for a run and score it again, or send items to label to MLflow.

    Labels are read from a file, from MLflow, or from a page on which an annotator labels.

    Raises:
        ConfigError: if the arguments are incomplete, or the labels belong to another run.
        TrackingError: if MLflow cannot be reached.
    """
    file = arguments.file
    overrides = list(arguments.overrides)
    # argparse takes the first word for the file; it may be an override.
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
    # A page stays open for hours, so it does not hold the claim; see `_on_page`.
    if not arguments.page:
        with claim_finished(folder):
            return _label_items(
                _labeled_run(folder), folder, file, overrides, arguments
            )
    if folder.is_file():
        folder = _import_source(folder)
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


def _label_items(
    result: RunResult,
    folder: Path,
    file: str | None,
    overrides: Sequence[str],
    arguments: Namespace,
) -> int:
    """Send items to label, sample the next ones, or read labels and score the run again; return
    the exit status.

    Args:
        result: The run.
        folder: Its folder.
        file: The file of labels; `None` for the one in the options.
        overrides: The overrides of the command.
        arguments: Its options.

    Raises:
        ConfigError: If an override, the file or a label cannot be used.
    """
    if arguments.to is not None:
        return _send_to_mlflow(result, arguments, overrides)
    if arguments.next:
        sample = choose_next(result, arguments)
        record_sample(folder, sample)
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
            return _review_audit(result, folder, reviews, omitted, source)
    if source == MLFLOW:
        read = _from_mlflow(result, overrides)
    else:
        read = read_label_file(result, Path(source), omitted, arguments.reading)
    # Keyed by what is labeled and by whom: a later row replaces an earlier one.
    labels = list(
        {
            (label.case_id, label.unit, label.annotator, label.item): label
            for label in read
        }.values()
    )
    notes: list[Message] = [
        f"note: {reason}, omitted: {count}" for reason, count in omitted.items()
    ]
    if older := len(read) - len(labels):
        notes.append(
            ngettext(
                "note: {n} older label omitted: an annotator's last label of an item counts",
                "note: {n} older labels omitted: an annotator's last label of an item counts",
                older,
            )
        )
    return _add_labels(result, folder, labels, source, notes)


def _add_labels(
    result: RunResult,
    folder: Path,
    labels: Sequence[Label],
    source: str,
    notes: Sequence[Message] = (),
) -> int:
    """Score a run again with labels, print the result and what they changed, and return the exit
    status.

    Args:
        result: The run.
        folder: Its folder.
        labels: The labels to add.
        source: Where they are from, for errors and the manifest.
        notes: More lines to print.
    """
    from evalkit.cli.gate_outcome import print_gate
    from evalkit.cli.language import speaker
    from evalkit.cli.summary import print_changes, print_summary
    from evalkit.labels.sample import recorded
    from evalkit.workflows.import_run import add_labels

    again = add_labels(result, folder, labels, source, recorded(folder))
    print_summary(again)
    print_changes(result, again)
    counts = Counter(label.annotator for label in labels)
    say = speaker(again.config)
    text = ngettext(
        "labels: {labels} by {n} annotator ({counts})",
        "labels: {labels} by {n} annotators ({counts})",
        len(counts),
        labels=len(labels),
        counts=joined([f"{name} {count}" for name, count in sorted(counts.items())]),
    )
    for line in (text, *notes):
        print(say(line))
    return print_gate(again)


def _import_source(table: Path) -> Path:
    """Return the run folder of a table or a log: NAME-labels in the current folder.

    The file is imported and checked the first time.

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
    """Let an annotator label on a page, then score the run again; return the exit status.

    The page is served until all is labeled, a click on Finish, or Ctrl-C.

    Raises:
        Signaled: If another signal ends the command; the labels so far are stored.
    """
    from evalkit.core.admission import listen
    from evalkit.labels.next_labels import sample_next
    from evalkit.labels.page import HOST, LabelPage, page_of
    from evalkit.labels.sample import sample_for_labeling
    from evalkit.labels.session import LabelSession
    from evalkit.runs import claim_finished, read_run
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
        # `Signaled` is a kind of `KeyboardInterrupt`: SIGTERM ends the command, and Ctrl-C only
        # ends the page.
        except Signaled:
            raise
        except KeyboardInterrupt:
            pass
        finally:
            session.close()
    # Annotators who finish at the same time wait for each other; a claim alone would refuse the
    # second one.
    with one_at_a_time(f"labels {folder.resolve()}"), claim_finished(folder):
        result = read_run(folder)  # another annotator may have finished
        if labels := session.new_labels(result.cases):
            return _add_labels(result, folder, labels, str(session.file))
    print("no new labels; the run is unchanged")
    return 0


def _review_audit(
    result: RunResult,
    folder: Path,
    reviews: Reviews,
    omitted: Counter[str],
    source: str,
) -> int:
    """Score an audit again without the paraphrases that annotators reject; return the exit status.

    Args:
        result: The audited run.
        folder: Its folder.
        reviews: Annotators' reviews, by the paraphrase.
        omitted: Counts omitted rows of the table by kind.
        source: The table, for the error.

    Raises:
        ConfigError: if none of the reviews is of a paraphrase of this run.
    """
    from evalkit.audit.rewriting import key_of
    from evalkit.cli.gate_outcome import print_gate
    from evalkit.cli.summary import print_summary
    from evalkit.runs.read import read_probes
    from evalkit.workflows.rescoring import rescore

    # A table may have reviews of other runs' paraphrases: they are counted, and not used.
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


def _send_to_mlflow(
    result: RunResult, arguments: Namespace, overrides: Sequence[str]
) -> int:
    """Send verdicts to label to MLflow, for each annotator, and return the exit status.

    Raises:
        ConfigError: if the target, the annotators or the run cannot be used.
    """
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
    from evalkit.labels.sample import sample_for_labeling
    from evalkit.tracking.review import send_tasks

    if arguments.next:
        sample = choose_next(result, arguments)
    else:
        sample = sample_for_labeling(result, arguments.n or TASK_COUNT, seed)
    if not sample.units:
        raise ConfigError(
            "the run has no verdicts to label",
            where="evalkit label",
            remedy="name another run",
        )
    sent = send_tasks(_config(result, overrides).tracking, result, sample, names)
    # After it was sent: the record says which units were chosen, and how.
    record_sample(Path(arguments.run_folder), sample)
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
