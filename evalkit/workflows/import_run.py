"""Turn imported judgments into a finished run: reread their texts if available, score
and write them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TypeVar

from evalkit.config import RunConfig
from evalkit.core.annotations import Label, annotation_classes
from evalkit.core.benchmark_discovery import find_benchmark
from evalkit.core.deduplication import changed, statements_of
from evalkit.core.errors import ConfigError, DatasetError
from evalkit.core.protocols import Evaluator
from evalkit.core.resources import project
from evalkit.core.scale import Classes
from evalkit.core.types import Case, JudgeRequest, Judgment, Response, Unit
from evalkit.core.values import frozen
from evalkit.datasets import Dataset
from evalkit.datasets.labels import (
    CONSENSUS,
    SPLIT,
    UNLABELED,
    Labels,
    consensus,
    has_label,
    unlabeled_note,
)
from evalkit.datasets.load import fingerprint
from evalkit.evaluators.factory import make_evaluator
from evalkit.interop.import_settings import NAMED, NO_SCALE
from evalkit.interop.importer_discovery import GENERIC
from evalkit.interop.layouts.records import ImportedJudgments
from evalkit.labels.joined import has_own_label, with_labels
from evalkit.labels.sample import with_probabilities
from evalkit.runs import check_free, check_no_sweep, check_only_run
from evalkit.runs.results import RunResult
from evalkit.workflows.finishing import run_manifest
from evalkit.workflows.gating import check_leads
from evalkit.workflows.rescoring import rescore

_CLOSE = 1e-9
_TABLES = (GENERIC, "table")
"""The formats of tables: of the user's columns, and as `evalkit check` reads them."""


def reread(
    evaluator: Evaluator, cases: Sequence[Case], judgments: Sequence[Judgment]
) -> list[Judgment]:
    """Reread each judgment's text with `evaluator`; judgments without a text are unchanged.

    Args:
        evaluator: An evaluator for the mode of the judgments, with both orders and one sample.
        cases: All cases.
        judgments: The judgments to reread.

    Raises:
        DatasetError: If a judgment is about responses that the mode does not judge.
    """
    by_id = {case.id: case for case in cases}
    requests: dict[tuple[Unit, Unit], JudgeRequest] = {}
    planned_for = None
    again = []
    for stored in judgments:
        read: object = stored
        if stored.completion is not None:
            if stored.case_id != planned_for:  # requests of one case at a time
                planned_for = stored.case_id
                planned = evaluator.plan(by_id[planned_for])
                requests = {
                    (request.unit, request.shown): request for request in planned
                }
            request = requests.get((stored.unit, stored.shown))
            if request is None:
                problem = f"responses {list(stored.unit)} are not judged in this mode"
                raise DatasetError(problem, where=f"case '{stored.case_id}'")
            # Turn 1: a text that cannot be read is unparseable at once, instead of being asked
            # for again.
            request = replace(request, judge=stored.judge, sample=stored.sample, turn=1)
            read = evaluator.read(request, stored.completion)
        if not isinstance(
            read, Judgment
        ):  # There is no retry: an unreadable text is unparseable.
            lost = "it would be retried"
            read = replace(
                stored,
                status="unparseable",
                value=None,
                criteria={},
                class_name=None,
                error=lost,
            )
        elif (
            read is not stored
            and read.status == "repaired"
            # The status is "repaired" because of turn 1 only.
            and read.read_by != "repaired"
        ):
            read = replace(read, status="ok")
        again.append(read)
    return again


def count_differences(stored: Sequence[Judgment], read: Sequence[Judgment]) -> int:
    """Return the number of judgments whose reread value differs from the stored one."""
    # `reread` keeps the order, so entry i of both is one judgment.
    return sum(
        stored_judgment.completion is not None
        and not _is_same_answer(stored_judgment, read_judgment)
        for stored_judgment, read_judgment in zip(stored, read, strict=True)
    )


def _is_same_answer(stored: Judgment, read: Judgment) -> bool:
    """Return whether two judgments say the same: the class, the winning side, or all criteria."""
    if stored.class_name is not None or read.class_name is not None:
        return stored.class_name == read.class_name
    if (stored.value is None) != (read.value is None):
        return False
    if bool(stored.criteria) != bool(read.criteria):
        return False
    if stored.value is not None and read.value is not None:
        return _side(stored.value) == _side(read.value)
    return all(
        abs(value - read.criteria.get(name, value + 1)) < _CLOSE
        for name, value in stored.criteria.items()
    )


def _side(margin: float) -> int:
    return (margin > _CLOSE) - (margin < -_CLOSE)


UNTELLING = (
    "result",
    "results",
    "annotations",
    "output",
    "outputs",
    "judgments",
    "pairwise",
)


@frozen
class ImportedRun:
    """A run of imported judgments; `texts` counts the reread ones, `differences` those
    with another value.
    """

    result: RunResult
    texts: int = 0
    differences: int | None = None


def import_run(
    config: RunConfig,
    brought: ImportedJudgments,
    folder: Path,
    *,
    source: str,
    read: bool,
    take: bool = False,
    overwrite: bool = False,
    scale_given: bool = False,
) -> ImportedRun:
    """Score imported judgments and write their run folder.

    Args:
        config: Their config, with the scoring settings.
        brought: Cases and judgments.
        folder: The run folder.
        source: The imported file, for the manifest.
        read: Whether `config.output` describes how to read the judges' texts.
        take: Whether reread judgments replace stored ones.
        overwrite: Whether to replace another run in the folder.
        scale_given: Whether the user set the scale or the classes, even to what is assumed without.

    Raises:
        ConfigError: If the config is invalid for the judgments, or the folder cannot be written.
        DatasetError: If no judgment has a value.
    """
    started = datetime.now(UTC)
    check_only_run(folder)
    if overwrite:
        check_no_sweep(folder)
    else:
        check_free(folder, config, imported=source)
    classes = config.rubric.named_classes
    if classes is not None:
        brought = _spell_classes(config, classes, brought)
    else:
        _check_scale(config, brought.judgments)
    # After the classes have the rubric's names: a majority is counted by name.
    brought = _with_consensus(brought)
    reread = _reread(config, brought, read=read)
    judgments: Sequence[Judgment] = brought.judgments
    if take:
        judgments = reread.judgments
    if not any(judgment.readable for judgment in statements_of(judgments)):
        problem = "no row has a usable verdict"
        remedy = (
            "name the column of the verdicts, or the meaning of their words with --map"
        )
        has_failed = all(judgment.status == "failed" for judgment in judgments)
        # A cell of a table may only look like a failure.
        if judgments and has_failed and brought.format not in _TABLES:
            problem = f"all {len(judgments)} judgments failed"
            remedy = "repeat the evaluation with the tool that wrote the file"
        raise DatasetError(problem, where=source, remedy=remedy)
    dataset = _imported_dataset(config, brought, source, scale_given=scale_given)
    evaluator = make_evaluator(
        _with_scale(config), prompt_folders=[project() / "prompts"]
    )
    imported = {
        "format": brought.format,
        "source": source,
        "judgments": len(judgments),
        "texts": reread.texts,
        "differences": reread.differences,
    }
    # Before anything is written, like all checks above.
    check_leads(config, brought.cases)
    manifest = run_manifest(
        config,
        dataset,
        evaluator,
        started,
        name=_name(Path(source)),
        imported=imported,
    )
    # Without verdicts and metrics: `rescore` adds them, as for any finished run.
    result = RunResult(
        folder=None,
        config=config,
        manifest=manifest,
        cases=brought.cases,
        judgments=judgments,
        verdicts=(),
        metrics={},
    )
    written = rescore(config, result, folder, replace_run=True)
    return ImportedRun(written, reread.texts, reread.differences)


@frozen
class _Reread:
    """What the judges' texts say.

    Attributes:
        judgments: the judgments, with the verdicts of the texts where there are texts.
        texts: how many texts were read.
        differences: how many verdicts of the texts differ from those of the file; `None` if the
            file has none.
    """

    judgments: Sequence[Judgment]
    texts: int
    differences: int | None


def _reread(config: RunConfig, brought: ImportedJudgments, *, read: bool) -> _Reread:
    """Read the judges' texts, if `config.output` describes how, and compare the verdicts."""
    judgments: Sequence[Judgment] = brought.judgments
    texts = 0
    if read:
        texts = sum(judgment.completion is not None for judgment in judgments)
    again = judgments
    if texts:
        again = _read_again(config, brought)
    # A file with only texts has no verdicts to differ from.
    if brought.unread:
        return _Reread(again, texts, None)
    if not texts:
        return _Reread(again, texts, 0)
    # Compared even if the file's own verdicts are used: a difference shows that a format is read
    # wrongly.
    return _Reread(again, texts, count_differences(judgments, again))


def _name(source: Path) -> str:
    """Return a distinctive name of a file, with its folder's name if its own is generic."""
    if source.stem in UNTELLING and source.parent.name:
        return f"{source.parent.name}/{source.stem}"
    return source.stem


def _imported_dataset(
    config: RunConfig, brought: ImportedJudgments, source: str, *, scale_given: bool
) -> Dataset:
    """Return the cases of imported judgments as a dataset, with the notes that still apply."""
    benchmark_note: tuple[str, ...] = ()
    described = None
    if config.dataset.benchmark is not None:
        benchmark = find_benchmark(config.dataset.benchmark)
        benchmark_note = (benchmark.note,)
        described = benchmark.described()
    has_scale = scale_given or _has_scale(config, brought)
    notes = [
        note
        for note in brought.notes
        if not (note.startswith((NO_SCALE, NAMED)) and has_scale)
    ]
    return Dataset(
        brought.cases,
        fingerprint(brought.cases),
        source,
        (*benchmark_note, *notes),
        described,
    )


def _has_scale(config: RunConfig, brought: ImportedJudgments) -> bool:
    """Return whether the config has a scale, or classes, other than the assumed ones."""
    guessed = brought.settings.get("rubric") or {}
    if config.rubric.classes:
        return config.rubric.classes != guessed.get("classes")
    return config.rubric.real or (config.rubric.min, config.rubric.max) != (
        guessed.get("min"),
        guessed.get("max"),
    )


def _check_scale(config: RunConfig, judgments: Sequence[Judgment]) -> None:
    """Raise if scores are outside the scale; values between its steps can be means."""
    low, high = config.rubric.scale.ends or (-inf, inf)
    for judgment in statements_of(judgments):
        for name, score in judgment.criteria.items() if len(judgment.unit) == 1 else ():
            if not low <= score <= high:
                raise ConfigError(
                    f"a score of {score:g} by '{name}' is not on the scale {low:g} to {high:g}",
                    where=f"case '{judgment.case_id}'",
                    remedy="set rubric.min and rubric.max to the scale of the file",
                )


def _spell_classes(
    config: RunConfig, classes: Classes, brought: ImportedJudgments
) -> ImportedJudgments:
    """Return judgments and cases with the classes of the rubric, which a file may spell
    in another way.

    Raises:
        ConfigError: If a judgment is not by class, or a class is neither in the rubric nor in
            `dataset.label_map`.
    """
    labels = Labels(config.dataset.label_map, classes)
    # {class in the file: in the rubric}
    names_in_rubric: dict[str | None, str | None] = {}

    def spelled(judgment: Judgment) -> Judgment:
        if judgment.readable and judgment.class_name is None:
            problem = "it was not judged by class, and the rubric has classes"
            where = f"case '{judgment.case_id}'"
            raise ConfigError(
                problem,
                where=where,
                remedy="choose another rubric, or import as generic with --fields class=COLUMN",
            )
        # Each name is looked up once, and the first judgment with it is named in an error.
        if judgment.class_name not in names_in_rubric:
            location = f"the judgment of case '{judgment.case_id}'"
            answer = labels.answer_of(judgment.class_name, location)
            names_in_rubric[judgment.class_name] = answer
        return _with_class(judgment, names_in_rubric[judgment.class_name])

    judgments = changed(brought.judgments, spelled)
    cases = tuple(_spell_classes_of_case(case, labels) for case in brought.cases)
    return replace(brought, cases=cases, judgments=judgments)


_Classed = TypeVar("_Classed", Judgment, Response)


def _with_class(judged: _Classed, name: str | None) -> _Classed:
    """Return a judgment or a response with a class, the same object if it has this
    class already.
    """
    if name == judged.class_name:
        return judged
    return replace(judged, class_name=name)


def _spell_classes_of_case(case: Case, labels: Labels) -> Case:
    """Return a case with its labels in the words of the rubric, the same object if they are.

    Raises:
        ConfigError: If a class is neither in the rubric nor in `dataset.label_map`.
    """
    names = {response.class_name for response in case.responses}
    if names == {None} and not case.labels:
        return case
    location = f"case '{case.id}'"
    responses = tuple(
        _with_class(response, labels.class_of(response.class_name, location))
        for response in case.responses
    )
    annotations = dict(case.labels)
    for annotator, annotation in case.labels.items():
        classes = annotation_classes(annotation)
        # Grades and choices are no classes.
        if classes:
            annotations[annotator] = labels.annotations(classes, location)
    if responses == case.responses and annotations == case.labels:
        return case
    return replace(case, responses=responses, labels=annotations)


def _with_consensus(brought: ImportedJudgments) -> ImportedJudgments:
    """Label cases that only have annotators' labels with the majority's choice or
    class, or the mean grade.
    """
    cases = []
    labeled = 0
    for case in brought.cases:
        if case.labels and not has_label(case):
            label, responses = consensus(case.labels, case.responses)
            case = replace(case, label=label, responses=tuple(responses))
            labeled += has_label(case)
        cases.append(case)
    notes = [f"{CONSENSUS}: {labeled}"] if labeled else []
    return replace(
        brought, cases=tuple(cases), notes=(*brought.notes, *notes, *_split_note(cases))
    )


def _is_split(case: Case) -> bool:
    """Return whether annotators labeled a case, but no label has a majority; labels of
    a list are by pair.
    """
    return len(case.labels) > 1 and len(case.responses) <= 2 and not has_label(case)


def _split_note(cases: Iterable[Case]) -> tuple[str, ...]:
    count = sum(map(_is_split, cases))
    if count:
        return (f"{SPLIT}: {count}",)
    return ()


def add_labels(
    result: RunResult,
    folder: Path,
    labels: Sequence[Label],
    source: str,
    sampled: Mapping[str, float] | None = None,
) -> RunResult:
    """Add labels to a finished run, rescore it and rewrite its folder.

    Args:
        result: The run.
        folder: Its folder.
        labels: The labels.
        source: Where they come from, for the manifest.
        sampled: The probability of each case that was sampled for labeling, if cases were.

    Raises:
        DatasetError: If a label is for a case that the run does not have.
        ConfigError: If the folder cannot be written.
    """
    named = {label.case_id for label in labels}
    # Labels added later must not replace these either.
    before = result.manifest.get("own_labels") or []
    # A dictionary as an ordered set: ids without repeats.
    with_own_label = dict.fromkeys(
        (
            *before,
            *(
                case.id
                for case in result.cases
                if case.id in named and has_own_label(case)
            ),
        )
    )
    cases = with_labels(
        result.cases, labels, with_own_label, result.config.rubric.named_classes
    )
    cases = with_probabilities(result.cases, cases, labels, sampled)
    counts = Counter(label.annotator for label in labels)
    entry = {
        "source": source,
        "annotators": dict(sorted(counts.items())),
        "at": datetime.now(UTC).isoformat(),
    }
    notes = [
        note
        for note in result.manifest.get("notes") or ()
        if not note.startswith((UNLABELED, SPLIT))
    ]
    # Notes on labels are about the labels before, so they are made anew.
    notes += _split_note(cases)
    notes += unlabeled_note(sum(not has_label(case) for case in cases), len(cases))
    manifest = {
        **result.manifest,
        "notes": notes,
        "labels": [*result.manifest.get("labels", []), entry],
    }
    if with_own_label:
        manifest["own_labels"] = [*with_own_label]
    return rescore(
        result.config, replace(result, cases=cases, manifest=manifest), folder
    )


def _with_scale(config: RunConfig) -> RunConfig:
    """Return a config whose judge could be asked: imported scores may have no scale."""
    if not config.rubric.real or config.judge.rewards:
        return config
    return config.with_({"rubric.real": False})


def _read_again(config: RunConfig, brought: ImportedJudgments) -> list[Judgment]:
    """Return the judgments reread from their texts, in the order shown."""
    policy = "both" if config.mode.name == "pairwise" else "none"
    swap = {"swap.policy": policy, "swap.resolve": "tie", "swap.arbiter": None}
    plain = config.with_({**swap, "mode.samples": 1, "mode.commit_first": False})
    evaluator = make_evaluator(plain, prompt_folders=[project() / "prompts"])
    return reread(evaluator, brought.cases, brought.judgments)
