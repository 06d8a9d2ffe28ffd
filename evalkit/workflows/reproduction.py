"""Reproduce a finished run from its own files, or from dataset and store, and compare
every metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.config import JudgeConfig, RunConfig
from evalkit.core.errors import JudgeSetupError
from evalkit.core.protocols import Evaluator
from evalkit.core.resources import project
from evalkit.core.types import Case, Completion, JudgeSpec, Judgment, Metric
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.datasets import Dataset
from evalkit.datasets.load import fingerprint
from evalkit.datasets.sources import STDIN
from evalkit.engine.answered_judge import AnsweredJudge
from evalkit.engine.cascade import ask_in_turn
from evalkit.engine.event_loop import run_async
from evalkit.engine.judging import judge_cases
from evalkit.engine.progress import JudgingResult
from evalkit.evaluators.factory import make_evaluator
from evalkit.judges import spec_of
from evalkit.runs.layout import CASES, JUDGMENTS, PROMPTS
from evalkit.runs.read import read_templates
from evalkit.runs.results import RunResult
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.verdict_rules import escalated
from evalkit.workflows.asking import ask_judges
from evalkit.workflows.design_registry import design_of
from evalkit.workflows.finishing import run_manifest
from evalkit.workflows.materials import Materials, load_materials

NUMBERS = ("value", "low", "high", "n", "missing", "worst_low", "worst_high")
NEVER_STORED = ("failed", "refused")
"""The answers are not in the store."""
ABSENT = {
    True: "answers that are not in the store",
    False: "prompts that differ from those of the run",
}


@frozen
class MetricChange:
    """One difference; `was` and `now` are texts or numbers."""

    what: str
    was: Any
    now: Any


@frozen
class Reproduction:
    """The outcome of a reproduction.

    `metrics` lists every number that differs, as `metric value`, `metric low` and so on; `reasons`
    lists other differences, whether or not they change a number. `compared` counts the metrics,
    `answers` the requests, `prompts` the requests whose prompts have the recorded content keys, and
    `carried` the failed (or, from a store, refused) requests that were copied. `sources` lists what
    was read: files of the run folder, `dataset`, `store`. `missing` is the reason why a folder
    cannot be reproduced from its own files. `added` lists metrics of this evalkit that the run does
    not have, if all others are equal.
    """

    metrics: tuple[MetricChange, ...]
    reasons: tuple[MetricChange, ...]
    compared: int
    answers: int
    prompts: int
    carried: int
    sources: tuple[str, ...]
    missing: str | None = None
    added: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether every metric of the run is identical, bit for bit."""
        return not self.metrics


def reproduce(
    result: RunResult,
    config: RunConfig,
    *,
    from_dataset: bool = False,
    from_store: bool = False,
) -> Reproduction:
    """Recompute a run's prompts, judgments and metrics, and compare; nothing is written or sent.

    Cases, templates and answers come from the run folder. If a folder of an older version does not
    have them, the dataset and the store are read. An imported run is only rescored.

    Args:
        result: The recorded run.
        config: Its config; `dataset.path` and `store.url` may differ.
        from_dataset: Whether to read the cases from the dataset.
        from_store: Whether to read the answers from the store.

    Raises:
        ConfigError: If the dataset, a template or a plug-in no longer matches the config.
        StoreError: If the store is needed and cannot be read.
    """
    imported = bool(result.manifest.get("imported"))
    if imported:
        materials = _own(result, config, None)
        judgments = list(result.judgments)
        repeated = _Repeated(materials, judgments, from_store=from_store)
    else:
        repeated = _repeat(result, config, from_dataset, from_store)
    judgments = repeated.judgments
    cases = repeated.materials.dataset.cases
    metrics = dict(score_run(config, cases, judgments).metrics)
    # The judgments of an audit's edited cases are scored again, and not read again.
    metrics |= design_of(config).rescore(result)
    # Bit for bit, without a tolerance: the same answers and the same code give the same numbers.
    differing = tuple(_different_numbers(result.metrics, metrics))
    absent = ABSENT[repeated.from_store]
    reasons = (
        *_different_materials(result, config, repeated.materials),
        *_different_answers(result.judgments, judgments, absent=absent),
    )
    # A newer evalkit can have more metrics; these are not differences of the run.
    added = tuple(name for name in metrics if name not in result.metrics)
    changed = {change.what for change in differing}
    if changed != {*added} or not all(map(_of_versions, reasons)):
        added = ()
    return Reproduction(
        () if added else differing,
        reasons,
        compared=len(metrics) - len(added),
        answers=len(judgments),
        prompts=0 if imported else _equal_prompts(result.judgments, judgments),
        carried=repeated.carried,
        sources=repeated.sources,
        missing=repeated.missing,
        added=added,
    )


@frozen
class _Repeated:
    """A run's materials and judgments, made again; see `Reproduction` for the rest."""

    materials: Materials
    judgments: list[Judgment]
    carried: int = 0
    sources: tuple[str, ...] = (JUDGMENTS,)
    missing: str | None = None
    from_store: bool = False


def _repeat(
    result: RunResult, config: RunConfig, from_dataset: bool, from_store: bool
) -> _Repeated:
    """Return the judgments of a run, read again; the arguments are those of `reproduce`."""
    missing = None
    templates = read_templates(result) or {}
    if not (from_dataset and from_store):
        missing = _missing(result, templates)
    if missing is not None:
        # A folder of an older version lacks something: the store and the data then take its part.
        from_store = True
        has_dataset = config.dataset.path not in (None, STDIN)
        from_dataset = from_dataset or has_dataset
    materials = _own(result, config, None if missing else templates)
    if from_dataset:
        dataset = load_materials(config).dataset
        # The first cases of the same random order.
        if config.runner.stop is not None:
            cases = dataset.cases[: len(result.cases)]
            dataset = replace(dataset, cases=cases, fingerprint=fingerprint(cases))
        materials = replace(materials, dataset=dataset)
    if from_store:
        reading = config.with_({"store.mode": "read_only"})
        judged = run_async(
            ask_judges(reading, materials.dataset.cases, materials.evaluator)
        ).judgments
    else:
        judged = _replay_run(result, config, materials)
    # A failed request has no answer anywhere, so its failure is copied: it must not count as
    # a difference.
    judgments, carried = _carry_over(judged, result.judgments, always=not from_store)
    files = ("dataset",) if from_dataset else (CASES, PROMPTS)
    answers = "store" if from_store else JUDGMENTS
    return _Repeated(
        materials, judgments, carried, (*files, answers), missing, from_store
    )


def _equal_prompts(recorded: Iterable[Judgment], judgments: Iterable[Judgment]) -> int:
    """Return the number of requests with the recorded content keys.

    Equal content keys mean that the rendered prompt is the same to the last character.
    """
    recorded_keys = {_place(judgment): judgment.keys for judgment in recorded}
    count = 0
    for judgment in judgments:
        keys = recorded_keys.get(_place(judgment))
        if judgment.keys and judgment.keys == keys:
            count += 1
    return count


def _missing(result: RunResult, templates: Mapping[str, str]) -> str | None:
    """Return what is missing in the run folder for a reproduction, as a sentence; `None` if
    nothing is.

    Args:
        result: The run.
        templates: The texts of the run's templates by name.
    """
    if absent := sorted(
        set(result.manifest.get("prompt_hashes") or {}) - set(templates)
    ):
        if templates:
            return f"{PROMPTS} has no {absent[0]}"
        return f"{PROMPTS} is missing"
    incomplete = sum(
        len(judgment.keys) != len(judgment.earlier) + (judgment.completion is not None)
        for judgment in result.judgments
    )
    if incomplete:
        return f"{JUDGMENTS} has no answers for {incomplete} judgments"
    return None


def _own(
    result: RunResult, config: RunConfig, templates: Mapping[str, str] | None
) -> Materials:
    """Return the cases and the evaluator of a run, from its folder."""
    source = str((result.manifest.get("dataset") or {}).get("source") or "")
    dataset = Dataset(tuple(result.cases), fingerprint(result.cases), source, ())
    return Materials(
        dataset,
        make_evaluator(
            config, prompt_folders=[project() / "prompts"], recorded=templates
        ),
    )


def _replay_run(
    result: RunResult, config: RunConfig, materials: Materials
) -> Sequence[Judgment]:
    """Return the judgments of a config with the answers of a run, without any call."""
    cases = materials.dataset.cases

    async def ask(judge: JudgeConfig, evaluator: Evaluator) -> JudgingResult:
        return await _replay_judge(
            result, config.with_({"judge": judge}), cases, evaluator
        )

    waiting = partial(escalated, config, cases)
    judging = ask_in_turn(
        config.judge.in_turn, cases, materials.evaluator, ask, waiting, Path.cwd()
    )
    return run_async(judging).judgments


async def _replay_judge(
    result: RunResult, config: RunConfig, cases: Sequence[Case], evaluator: Evaluator
) -> JudgingResult:
    """Return the judgments of one judge, or the panel, with the answers of a run."""
    specs = _specs(result, config.judge)
    if config.swap.resolve == "third_pass" and config.swap.policy == "both":
        arbiter = config.swap.arbiter
    else:
        arbiter = None
    return await judge_cases(
        cases,
        evaluator,
        [AnsweredJudge(spec) for spec in specs],
        _Answers(result.judgments),
        config.runner,
        store_mode="read_only",
        arbiter=None if arbiter is None else AnsweredJudge(_specs(result, arbiter)[0]),
        spool=Path.cwd(),
    )


def _specs(result: RunResult, judge: JudgeConfig) -> tuple[JudgeSpec, ...]:
    """Return the identity of each judge; the weights of an embedded judge need not be installed."""
    recorded = _models(result.manifest.get("judges"))
    return spec_of(
        judge,
        models={name: model for name, model in recorded.items() if "@sha256:" in model},
    )


class _Answers:
    """A read-only store with the answers of a run."""

    def __init__(self, judgments: Sequence[Judgment]) -> None:
        self._judgments = judgments
        # content key -> index of the judgment, and index of the answer among its turns
        self._places: dict[str, tuple[int, int]] = {}
        for number, judgment in enumerate(judgments):
            for turn, key in enumerate(judgment.keys):
                self._places.setdefault(key, (number, turn))

    def get_many(self, keys: Sequence[str]) -> dict[str, Completion]:
        """Return the recorded completions among `keys`."""
        return {
            key: self._at(*self._places[key]) for key in keys if key in self._places
        }

    def _at(self, number: int, turn: int) -> Completion:
        judgment = self._judgments[number]
        # `earlier` first, in the order in which the answers were asked for; see `keys`.
        if judgment.completion is None:
            answers = judgment.earlier
        else:
            answers = (*judgment.earlier, judgment.completion)
        return answers[turn]

    def recent(self, model: str, limit: int = 500) -> Sequence[Completion]:  # noqa: ARG002
        """Return nothing, because no request is estimated."""
        return ()

    def put_many(self, answers: Sequence[tuple[str, str, Completion]]) -> None:
        """Raise, because a reproduction writes nothing."""
        raise AssertionError(f"a reproduction does not store answers ({answers[0][0]})")

    def claim(self, key: str) -> bool:  # noqa: ARG002
        """Grant every claim, as a read-only store does."""
        return True

    def release(self, key: str) -> None:
        """Do nothing: claims are not recorded."""


def _place(judgment: Judgment) -> tuple[Any, ...]:
    return (
        judgment.case_id,
        judgment.judge,
        judgment.unit,
        judgment.shown,
        judgment.sample,
        judgment.arbiter,
    )


def _carry_over(
    again: Sequence[Judgment], before: Sequence[Judgment], *, always: bool
) -> tuple[list[Judgment], int]:
    """Return the new judgments, some replaced by those of the run, and the number of these.

    A judgment that no store has, such as a failure, is replaced by that of the run: the run has
    it in its file.

    Args:
        again: The judgments of the reproduction.
        before: The judgments of the run.
        always: Whether earlier failures are copied even if an identical request has an answer.
    """
    # The judgments whose answers no store has.
    lost = {
        _place(judgment): judgment
        for judgment in before
        if judgment.status in NEVER_STORED
    }

    def kept(judgment: Judgment) -> Judgment:
        was = lost.get(_place(judgment))
        copied = was is not None and (
            judgment.error_kind == "not_stored" or (always and was.completion is None)
        )
        if copied and was is not None:
            return was
        return judgment

    carried = [kept(judgment) for judgment in again]
    return carried, sum(
        judgment is not recomputed
        for judgment, recomputed in zip(carried, again, strict=True)
    )


def _different_numbers(
    before: Mapping[str, Metric], again: Mapping[str, Metric]
) -> Iterator[MetricChange]:
    """Yield each number of a metric that changed, or that only one of both has the metric."""
    for name, (old, new) in _both(before, again):
        if old is None or new is None:
            yield MetricChange(
                name, *("there" if metric else "not there" for metric in (old, new))
            )
            continue
        for number in NUMBERS:
            was = getattr(old, number)
            now = getattr(new, number)
            if was != now:
                yield MetricChange(f"{name} {number}", was, now)


def _of_versions(reason: MetricChange) -> bool:
    return reason.what in ("evalkit", "python", "git commit") or reason.what.startswith(
        "package "
    )


def _different_materials(
    result: RunResult, config: RunConfig, materials: Materials
) -> Iterator[MetricChange]:
    """Yield what differs besides the answers: prompts, dataset, models, versions.

    The prompts of an imported run are not compared, because it was judged without any of ours.

    Args:
        result: The run.
        config: The config of the reproduction.
        materials: The cases and the evaluator of the reproduction.
    """
    was = result.manifest
    now = _described(config, materials)
    dataset = was.get("dataset") or {}
    prompts = {} if was.get("imported") else now["prompt_hashes"]
    # {what: (in the run, now)}
    parts = _named_pairs("prompt", was.get("prompt_hashes"), prompts)
    described = now["dataset"]
    parts["dataset fingerprint"] = (
        dataset.get("fingerprint"),
        described["fingerprint"],
    )
    parts["dataset rows"] = (dataset.get("rows"), described["rows"])
    parts |= _named_pairs("judge", _models(was.get("judges")), _models(now["judges"]))
    parts["evalkit"] = (was.get("evalkit"), now["evalkit"])
    parts["python"] = (was.get("python"), now["python"])
    parts |= _named_pairs("package", was.get("packages"), now["packages"])
    parts["git commit"] = (was.get("git_commit"), now["git_commit"])
    for part, (before, after) in parts.items():
        if before != after:
            yield MetricChange(part, before, after)


def _named_pairs(
    kind: str, before: Json | None, after: Json
) -> dict[str, tuple[Any, Any]]:
    """Return the values of each name before and after, under the kind and the name."""
    return {f"{kind} {name}": pair for name, pair in _both(before, after)}


def _described(config: RunConfig, materials: Materials) -> JsonObject:
    dataset = materials.dataset
    evaluator = materials.evaluator
    now = datetime.now(UTC)
    try:
        return run_manifest(config, dataset, evaluator, now)
    except JudgeSetupError:  # an embedded judge that is not installed here
        return run_manifest(config, dataset, evaluator, now, judges=[])


def _both(was: Json | None, now: Json) -> Iterator[tuple[str, tuple[Any, Any]]]:
    was = was or {}
    yield from ((name, (was.get(name), now.get(name))) for name in {**was, **now})


def _models(judges: Sequence[Json] | None) -> dict[str, str]:
    return {str(judge.get("name")): str(judge.get("model")) for judge in judges or ()}


def _different_answers(
    before: Sequence[Judgment], again: Sequence[Judgment], *, absent: str
) -> Iterator[MetricChange]:
    """Yield the numbers of answers that are missing, different, or parsed differently."""
    was = {_place(judgment): judgment for judgment in before}
    counts = Counter(
        _describe_difference(was.get(_place(judgment)), judgment, absent)
        for judgment in again
    )
    counts["requests that the run did not make"] += counts.pop("new", 0)
    gone = len(was.keys() - {_place(judgment) for judgment in again})
    for difference, count in (
        *counts.items(),
        ("requests that are no longer made", gone),
    ):
        if difference and count:
            yield MetricChange(difference, 0, count)


def _describe_difference(was: Judgment | None, now: Judgment, absent: str) -> str:
    """Return in what way an answer differs, empty if it does not.

    Args:
        was: the judgment of the run, `None` if it had none.
        now: the judgment with stored answers.
        absent: what to say if an answer is not stored.
    """
    if was is None:
        return "new"
    if now.error_kind == "not_stored":
        return absent
    if was.status in NEVER_STORED and now.status not in NEVER_STORED:
        return "answers received since"
    texts = [
        None if judgment.completion is None else judgment.completion.text
        for judgment in (was, now)
    ]
    if texts[0] != texts[1]:
        return "answers with different texts"
    if _said(was) == _said(now):
        return ""
    return "answers that are parsed differently"


def _said(judgment: Judgment) -> Judgment:
    """Return the content of a judgment without its origin."""
    # Whether an answer was stored, and under which key, is not what the judge said.
    return replace(judgment, completion=None, stored=False, keys=(), earlier=())
