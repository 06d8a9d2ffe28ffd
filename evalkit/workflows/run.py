"""Run the stages of a run in order, from config to recorded result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from evalkit.config import RunConfig, ScoringConfig, refuse_cascade
from evalkit.config.stopping import refuse_stop
from evalkit.core.errors import ConfigError
from evalkit.core.plain_errors import check_type, raises_plainly
from evalkit.core.plugins import allowing_code, check_options
from evalkit.core.protocols import Evaluator
from evalkit.core.resources import project
from evalkit.core.spool import Spool
from evalkit.core.types import Case
from evalkit.core.values import JsonObject, frozen
from evalkit.datasets import with_examples
from evalkit.engine.event_loop import run_async
from evalkit.engine.progress import JudgingResult, Observe, Progress
from evalkit.engine.run_design import Design
from evalkit.engine.runner_kinds import runner_kind
from evalkit.engine.shards import Shard
from evalkit.judges import describe_judges
from evalkit.runs import check_free, check_no_sweep
from evalkit.runs.manifest import describe_scoring
from evalkit.runs.results import RunResult, Spent
from evalkit.scoring.catalog import custom_metrics
from evalkit.scoring.compare import Comparison, compare_runs
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.slices import check_slices
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdicts.cascade import check_labels
from evalkit.tracking import running_run, warm_up
from evalkit.workflows.asking import Circumstances, ask_judges
from evalkit.workflows.design_registry import design_of
from evalkit.workflows.finishing import (
    claim_run_folder,
    run_manifest,
    scoring_facts,
    track,
    write_scored,
)
from evalkit.workflows.gating import check_gate
from evalkit.workflows.holdout import split_files, with_openings
from evalkit.workflows.materials import (
    Materials,
    build_evaluator,
    load_materials,
    stream_cases,
)
from evalkit.workflows.stopping import StopRule, with_stop

_DIGITS = 4
"""The digits after the point of seconds in the manifest."""


class RunInterruption(KeyboardInterrupt):
    """The user stopped the run; its paid answers are in the store."""

    def __init__(self, judged: JudgingResult) -> None:
        self.judged = judged
        super().__init__("interrupted")


@raises_plainly
def run(
    config: RunConfig,
    folder: Path | None = None,
    *,
    cases: Any = None,
    observe: Callable[[Progress], None] | None = None,
    allow_code: bool = False,
    overwrite: bool = False,
) -> RunResult:
    """Judge, score, write the run folder and record the run.

    Args:
        config: the config of the run.
        folder: the run folder (default: a new one, as `claim_default_folder` names it).
        cases: rows to use instead of `dataset.path`: a pandas or polars frame, an Arrow table, or a
            list of mappings; `dataset.fields` applies to their columns.
        observe: called with the progress while judging.
        allow_code: let the config name classes by dotted paths, which are imported and run, and set
            any option of workers.
        overwrite: replace another run in `folder`; without it, such a folder is refused.

    Raises:
        ConfigError: if the config or the data are invalid.
        StoreError: if the store of completions cannot be used.
        TrackingError: if the run could not be recorded; its folder is complete.
        RunInterruption: on Ctrl-C; received answers are in the store.
    """
    remedy = "write run(load_config(overrides=['judge=…']))"
    check_type("config", config, RunConfig, remedy)
    if folder is not None:
        check_type("folder", folder, Path, f"write Path({str(folder)!r})")
    if cases is not None:
        config = config.with_({"dataset.path": None, "dataset.format": None})
    with allowing_code(allow_code):
        check_options(config.runner.options)
        folder, claim = claim_run_folder(config, folder)
        with claim:
            result = judge_and_score(
                config, folder, cases=cases, observe=observe, overwrite=overwrite
            )
            return track(config, result)


@raises_plainly
def compare(
    runs: Mapping[str, RunResult],
    metrics: Sequence[str] = (),
    scoring: ScoringConfig | None = None,
) -> Comparison:
    """Compare finished runs on the cases they share, paired by case, as `evalkit compare` does.

    Args:
        runs: The runs by the names that they have in the comparison.
        metrics: The metrics to test; by default agreement and scores, as far as they are known in
            every run.
        scoring: Confidence, resamples, seed and clusters.

    Raises:
        ConfigError: If there are fewer than two runs, they share no case, or a case or metric
            differs.
    """
    remedy = "write compare({'first': first_result, 'second': second_result})"
    check_type("runs", runs, Mapping, remedy)
    for name, result in runs.items():
        check_type(f"runs[{name!r}]", result, RunResult, remedy)
    entries = [RunEntry.of(name, result) for name, result in runs.items()]
    return compare_runs(entries, scoring or ScoringConfig(), metrics)


def judge_and_score(
    config: RunConfig,
    folder: Path,
    *,
    sweep: Mapping[str, Any] | None = None,
    cases: Any = None,
    observe: Callable[[Progress], None] | None = None,
    overwrite: bool = False,
    spent: Spent | None = None,
    templates: Mapping[str, str] | None = None,
    asked_keys: set[str] | None = None,
) -> RunResult:
    """Judge the cases, score and write the run folder; return the run, which is not recorded in
    MLflow yet.

    Args:
        config: the config of the run.
        folder: the run folder; if it holds another run, it is refused before anything is paid.
        sweep: what the manifest says about the sweep that this job belongs to.
        cases: rows to use instead of `dataset.path`.
        observe: called with the progress while judging.
        overwrite: replace another run in `folder`.
        spent: what the jobs of the sweep have spent of a shared budget.
        templates: the texts of the templates, if they are not the installed ones.
        asked_keys: the content keys of requests that this command has sent for other runs.

    Raises:
        ConfigError: If the run cannot be judged, scored or written.
        StoreError: If the store fails.
    """
    run = _prepare(
        config, folder, cases, templates, in_sweep=bool(sweep), overwrite=overwrite
    )
    shared = Circumstances(
        observe,
        folder,
        spent,
        until=run.rule,
        asked_keys=set() if asked_keys is None else asked_keys,
    )
    warm_up(config.tracking)
    # From here on the tracker knows the run, and is informed however it ends.
    with running_run(run.config, folder, run.id):
        begun = time.perf_counter()
        judged = _judge_run(run, shared)
        seconds = time.perf_counter() - begun
        run, judged, facts = _cut_at_stop(run, judged)
        manifest = _unscored_manifest(run, judged, sweep, facts, seconds)
        return _score_and_write(run, judged, manifest)


@frozen
class _PreparedRun:
    """A run before its first call: what can fail without a judge has been done.

    Attributes:
        config: The config, with its examples and the rule of its stop.
        folder: The run folder.
        materials: The cases and the evaluator.
        design: What is asked about the cases.
        rule: When the run may stop; `None` if it asks about all cases.
        in_memory: Whether the cases are rows that no file has.
        started: When it started.
        id: The identity of the run.
    """

    config: RunConfig
    folder: Path
    materials: Materials
    design: Design
    rule: StopRule | None
    in_memory: bool
    started: datetime
    id: str


def _prepare(
    config: RunConfig,
    folder: Path,
    rows: Any,
    templates: Mapping[str, str] | None,
    *,
    in_sweep: bool,
    overwrite: bool,
) -> _PreparedRun:
    """Load, and check everything that can fail without a judge.

    Args:
        config: The config of the run.
        folder: The run folder.
        rows: Rows to use instead of `dataset.path`; `None` for none.
        templates: The texts of the templates; `None` for the installed ones.
        in_sweep: Whether the run is a job of a sweep.
        overwrite: Whether another run in the folder may be replaced.

    Raises:
        ConfigError: If the run could not be judged, scored or written.
    """
    started = datetime.now(UTC)
    with_rubric = with_examples(config, base=project())
    materials = load_materials(with_rubric, folder, rows, templates)
    cases = materials.dataset.cases
    settled = with_stop(with_rubric, cases)
    design = design_of(settled)
    _check_before_judging(
        settled, design, materials, folder, in_sweep=in_sweep, overwrite=overwrite
    )
    # Read before the run is replaced: annotators' work must survive a second run.
    design.remember(folder)
    rule = None
    if settled.runner.stop is not None:
        rule = StopRule(settled, cases, materials.evaluator)
    in_memory = rows is not None
    return _PreparedRun(
        config=settled,
        folder=folder,
        materials=materials,
        design=design,
        rule=rule,
        in_memory=in_memory,
        started=started,
        id=uuid4().hex,
    )


def _judge_run(run: _PreparedRun, shared: Circumstances) -> JudgingResult:
    """Have everything judged that the run asks.

    Raises:
        RunInterruption: On Ctrl-C; received answers are in the store.
    """
    with_workers = _judge_ahead(run, shared.observe)
    cases = run.materials.dataset.cases
    evaluator = run.materials.evaluator
    judged = run_async(_judge(run.design, cases, evaluator, run.folder, shared))
    # What workers sent and paid is part of this run, whose own calls were then mostly stored.
    judged = with_workers(judged)
    # No folder is written: half of the answers would look like a run, and they are in the store.
    if judged.interrupted:
        raise RunInterruption(judged)
    return judged


def _cut_at_stop(
    run: _PreparedRun, judged: JudgingResult
) -> tuple[_PreparedRun, JudgingResult, JsonObject]:
    """Return the run with the cases up to its stop, their judgments, and what the manifest says
    about the other cases.

    Without a rule for stopping, the run and its judgments are unchanged, and there is nothing to
    say.
    """
    if run.rule is None:
        return run, judged, {}
    # A run that stops consists of the clusters up to the stop; later answers would bias it.
    dataset, judgments, facts = run.rule.part(
        run.materials.dataset, judged.judgments, run.folder
    )
    # A run that stopped because its metric is known was not stopped too early.
    stopped = None if run.rule.settled else judged.stopped
    materials = replace(run.materials, dataset=dataset)
    return (
        replace(run, materials=materials),
        replace(judged, judgments=judgments, stopped=stopped),
        facts,
    )


def _unscored_manifest(
    run: _PreparedRun,
    judged: JudgingResult,
    sweep: Mapping[str, Any] | None,
    facts: JsonObject,
    seconds: float,
) -> dict[str, Any]:
    """Return the manifest of a judged run before scoring.

    Args:
        run: The run.
        judged: Its judgments, and what they cost.
        sweep: The sweep that the run belongs to, if any.
        facts: What the manifest says about an early stop.
        seconds: How long judging took.
    """
    timing = {
        "judging": round(seconds, _DIGITS),
        "sending": round(judged.sending, _DIGITS),
    }
    judges = [
        {**judge, "dropped": [*judged.dropped.get(judge["name"], ())]}
        for judge in describe_judges(run.config)
    ]
    manifest = run_manifest(
        run.config,
        run.materials.dataset,
        run.materials.evaluator,
        run.started,
        run_id=run.id,
        sweep=sweep,
        judges=judges,
        judging={
            "stopped": judged.stopped,
            "timing": timing,
            **_asked_again(judged),
            **facts,
            **run.design.facts(),
        },
    )
    manifest["notes"] += run.design.notes
    for name, changes in judged.adapted.items():
        manifest["notes"] += [f"judge {name}: {change}" for change in changes]
    return manifest


def _score_and_write(
    run: _PreparedRun, judged: JudgingResult, manifest: dict[str, Any]
) -> RunResult:
    """Score a judged run, write its folder, and return it.

    Args:
        run: The run.
        judged: Its judgments, and what they cost.
        manifest: The manifest before scoring.
    """
    config = run.config
    cases = run.materials.dataset.cases
    begun = time.perf_counter()
    judgments = run.design.of_cases(judged.judgments, run.folder)
    scores = score_run(config, cases, judgments)
    metrics = {**scores.metrics, **run.design.score(cases, judgments)}
    scoring = round(time.perf_counter() - begun, _DIGITS)
    sides = None
    if run.materials.split is not None:
        sides = with_openings(run.materials.split, run.folder)
    result = RunResult(
        folder=str(run.folder.resolve()),
        config=config,
        manifest=describe_scoring(
            manifest,
            **scoring_facts(config, manifest, cases, scores, sides),
            seconds=scoring,
        ),
        cases=cases,
        judgments=judgments,
        verdicts=scores.verdicts,
        metrics=metrics,
        calls=judged.calls,
        tokens=judged.tokens,
        cost_usd=judged.cost_usd,
    )
    # These files are written together with the run, or not at all.
    files = {**run.design.files(result)}
    if sides is not None:
        files |= split_files(sides, run.materials.held_out)
    return write_scored(
        config,
        run.folder,
        result,
        scores,
        files,
        evaluator=run.materials.evaluator,
        replace_run=True,
    )


def _judge_ahead(
    run: _PreparedRun, observe: Observe | None
) -> Callable[[JudgingResult], JudgingResult]:
    """Let the workers of `runner.kind` judge first, if it has any: what they leave is judged here.

    Returns:
        A function that adds what they sent and paid to the result of the run.
    """
    kind = runner_kind(run.config)
    if run.in_memory and not kind.takes_rows:
        raise ConfigError(
            "workers cannot read cases from memory",
            where=f"runner={run.config.runner.kind}",
            remedy="write the cases to a file, and set dataset.path",
        )
    stored = partial(stored_answers, run.config, run.materials, run.folder)
    return kind.judge_ahead(run.config, run.folder, judge_shard, observe, stored)


def stored_answers(config: RunConfig, materials: Materials, folder: Path) -> int:
    """Return the number of different answers of a run that are in the store; nothing is sent."""
    # The run itself, with nothing sent: it counts what it finds.
    reading = config.with_({"store.mode": "read_only"})
    shared = Circumstances(folder=folder)
    cases = materials.dataset.cases
    judging = _judge(design_of(reading), cases, materials.evaluator, folder, shared)
    return run_async(judging).answers


def judge_shard(
    config: RunConfig,
    shard: Shard,
    observe: Observe | None = None,
    spent: Spent | None = None,
) -> JudgingResult:
    """Have one shard of the cases judged into the store, and nothing else."""
    refuse_cascade(
        config,
        "set judge.thresholds as in cascade.json of a run with labels, or use evalkit run",
    )
    refuse_stop(config)
    evaluator = build_evaluator(config)
    folder = Path.cwd()
    # In a file if they are many: workers on one machine share its memory.
    cases = Spool(
        (case for case in stream_cases(config) if shard.holds(case)), folder=folder
    )
    design = design_of(config)
    design.check(cases)
    shared = Circumstances(observe, folder, spent)
    return run_async(_judge(design, cases, evaluator, folder, shared))


async def _judge(
    design: Design,
    cases: Sequence[Case],
    evaluator: Evaluator,
    folder: Path,
    shared: Circumstances,
) -> JudgingResult:
    """Have all that a run asks judged, under one budget.

    Args:
        design: The steps of the run and their order.
        cases: The cases.
        evaluator: Plans and reads the requests.
        folder: The run folder, for temporary files.
        shared: What the steps share. What was spent before counts only for the budget of a sweep.
    """
    scope = design.config.runner.budget_scope
    # A budget of the store counts what each step takes of it.
    if scope == "store":
        spent = None
    elif scope == "sweep" and shared.spent is not None:
        spent = shared.spent
    else:
        spent = Spent()

    async def ask(
        config: RunConfig,
        asked: Sequence[Case],
        planner: Evaluator,
        *,
        chosen_on: Sequence[Case] | None = None,
    ) -> JudgingResult:
        # Limits that workers share are those of the run, also in a step with another config.
        step = replace(shared, spent=spent, study=design.config)
        return await ask_judges(config, asked, planner, step, chosen_on=chosen_on)

    return await design.judge(cases, evaluator, folder, ask)


def _asked_again(judged: JudgingResult) -> dict[str, Any]:
    """Return the manifest's entry about requests whose stored answers could not be
    used, if there are some.
    """
    if not judged.again:
        return {}
    share = judged.again / max(1, judged.calls.planned)
    return {"asked_again": {"count": judged.again, "share": round(share, 6)}}


def _check_before_judging(
    config: RunConfig,
    design: Design,
    materials: Materials,
    folder: Path,
    *,
    in_sweep: bool,
    overwrite: bool,
) -> None:
    """Check before the judges are paid what would only fail after that.

    Raises:
        ConfigError: if no case has a column of `scoring`, a gate cannot be decided, or the folder
            holds another run.
    """
    design.check(materials.dataset.cases)
    clusters = Clusters.of(config, materials.dataset.cases)
    check_slices(config.scoring.slices, materials.dataset.cases)
    custom_metrics()  # one that cannot be used is an error before anything is paid for
    check_labels(config, materials.dataset.cases, clusters)
    check_gate(config, materials.dataset.cases)
    if overwrite:
        check_no_sweep(folder)
    else:
        # A sweep runs a job again if its data have changed.
        check_free(
            folder,
            config,
            fingerprint=None if in_sweep else materials.dataset.fingerprint,
        )
