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

from evalkit.audit import (
    Audit,
    AuditPlan,
    Rewriter,
    check_audit,
    is_audit,
    paraphrases,
    rewriting,
    split,
)
from evalkit.audit.datasheet import earlier_reviews
from evalkit.audit.rewriting import NO_REVIEWS, Reviews, note_missing, with_reviews
from evalkit.config import JudgeConfig, RunConfig, ScoringConfig, refuse_cascade
from evalkit.config.stopping import refuse_stop
from evalkit.core.errors import ConfigError
from evalkit.core.plain_errors import check_type, raises_plainly
from evalkit.core.plugins import allowing_code, check_options
from evalkit.core.protocols import Evaluator, Judge, Store
from evalkit.core.resources import project
from evalkit.core.spool import Spool
from evalkit.core.types import Case, Judgment
from evalkit.core.values import JsonObject
from evalkit.datasets import (
    with_examples,
)
from evalkit.engine import JudgingResult, Progress
from evalkit.engine import judge as judge_cases
from evalkit.engine.batch.jobs import BatchRun
from evalkit.engine.batch.requests import reason_against
from evalkit.engine.cascade import Units, ask_in_turn
from evalkit.engine.event_loop import run_async
from evalkit.engine.progress import Until
from evalkit.engine.rate_limits import SharedLimits
from evalkit.engine.workers import (
    WORKER_KINDS,
    Shard,
    ShardReport,
    add_spent,
    judge_in_workers,
)
from evalkit.judges import describe_judges, describe_rewriter, make_arbiter, make_judges
from evalkit.judges.factory import REWRITER
from evalkit.judges.setup import keys_below
from evalkit.runs import check_free, check_no_sweep
from evalkit.runs.manifest import describe_scoring
from evalkit.runs.results import RunResult, Spent
from evalkit.scoring.catalog import custom_metrics
from evalkit.scoring.compare import Comparison, compare_runs
from evalkit.scoring.paired_runs import RunEntry
from evalkit.scoring.pipeline import score_run
from evalkit.scoring.slices import check_slices
from evalkit.scoring.stats.clusters import Clusters
from evalkit.scoring.verdict_kinds import calibrated, escalated
from evalkit.scoring.verdicts.cascade import check_labels
from evalkit.store import open_store, rescue_for, shared_state
from evalkit.tracking import (
    running_run,
    warm_up,
)
from evalkit.workflows.gating import (
    check_gate,
)
from evalkit.workflows.holdout import split_files, with_openings
from evalkit.workflows.materials import (
    Materials,
    build_evaluator,
    load_materials,
    stream_cases,
)
from evalkit.workflows.rescoring import (
    claim_run_folder,
    run_manifest,
    scoring_facts,
    track,
    write_scored,
)
from evalkit.workflows.stopping import (
    StopRule,
    with_stop,
)


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
    return compare_runs(
        [RunEntry.of(*run) for run in runs.items()], scoring or ScoringConfig(), metrics
    )


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
    """Judge the cases, score and write the run folder.

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
    """
    if asked_keys is None:
        asked_keys = set()
    started = datetime.now(UTC)
    # The order of these steps: everything that can fail without a judge is done before the first
    # call.
    config = with_examples(config, base=project())
    materials = load_materials(config, folder, cases, templates)
    given = cases is not None
    config = with_stop(config, materials.dataset.cases)
    _check(config, materials, folder, in_sweep=bool(sweep), overwrite=overwrite)
    # Read before the run is replaced: annotators' work must survive a second run.
    reviews = NO_REVIEWS
    if is_audit(config):
        reviews = earlier_reviews(folder)
    cases = materials.dataset.cases
    evaluator = materials.evaluator
    rule = None
    if config.runner.stop is not None:
        rule = StopRule(config, cases, evaluator)
    warm_up(config.tracking)
    run_id = uuid4().hex
    # From here on the tracker knows the run, and is informed however it ends.
    with running_run(config, folder, run_id):
        return _judge_and_score(
            config,
            folder,
            materials,
            started,
            run_id,
            rule=rule,
            reviews=reviews,
            given=given,
            sweep=sweep,
            observe=observe,
            spent=spent,
            asked_keys=asked_keys,
        )


def _judge_and_score(
    config: RunConfig,
    folder: Path,
    materials: Materials,
    started: datetime,
    run_id: str,
    *,
    rule: StopRule | None,
    reviews: Reviews,
    given: bool,
    sweep: Mapping[str, Any] | None,
    observe: Callable[[Progress], None] | None,
    spent: Spent | None,
    asked_keys: set[str],
) -> RunResult:
    """Judge and score the loaded cases, and write the run folder."""
    cases = materials.dataset.cases
    evaluator = materials.evaluator
    begun = time.perf_counter()
    reports, seconds = _judge_in_workers(
        config, materials, folder, observe, given=given
    )
    plan, judged, notes = run_async(
        _judge_all(config, cases, evaluator, observe, folder, spent, rule, asked_keys)
    )
    # What workers sent and paid is part of this run, whose own calls were then mostly stored.
    if reports:
        judged = add_spent(judged, reports, seconds)
    # No folder is written: half of the answers would look like a run, and they are in the store.
    if judged.interrupted:
        raise RunInterruption(judged)
    facts: JsonObject = {}
    if rule is not None:
        # A run that stops consists of the clusters up to the stop; later answers would bias it.
        dataset, judgments, facts = rule.part(
            materials.dataset, judged.judgments, folder
        )
        materials = replace(materials, dataset=dataset)
        cases = dataset.cases
        judged = replace(judged, judgments=judgments)
        if rule.settled:
            judged = replace(judged, stopped=None)
    timing = {
        "judging": round(time.perf_counter() - begun, 4),
        "sending": round(judged.sending, 4),
    }
    manifest = run_manifest(
        config,
        materials.dataset,
        materials.evaluator,
        started,
        run_id=run_id,
        sweep=sweep,
        judges=[
            {**one, "dropped": [*judged.dropped.get(one["name"], ())]}
            for one in describe_judges(config)
        ],
        judging={
            "stopped": judged.stopped,
            "timing": timing,
            **_asked_again(judged),
            **facts,
            **_rewriter(config),
        },
    )
    manifest["notes"] += notes
    for name, changes in judged.adapted.items():
        manifest["notes"] += [f"judge {name}: {change}" for change in changes]
    begun = time.perf_counter()
    judgments = judged.judgments
    # The metrics of a run are those of the original cases; edited ones count in the audit only.
    audit = None
    if plan is not None:
        judgments, answers = split(plan, judged.judgments, folder)
    scores = score_run(config, cases, judgments)
    if plan is not None:
        edits = plan.edits()
        if reviews:
            edits = with_reviews(edits, reviews)
        audit = Audit.of(config, cases, judgments, edits, answers)
    metrics = dict(scores.metrics)
    if audit:
        metrics |= audit.metrics
    scoring = round(time.perf_counter() - begun, 4)
    sides = None
    if materials.split is not None:
        sides = with_openings(materials.split, folder)
    result = RunResult(
        folder=str(folder.resolve()),
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
    # The files of the audit and of the split are written together with the run, or not at all.
    files: Mapping[str, str] = {}
    if audit:
        files = audit.files(result)
    if sides is not None:
        files = {**files, **split_files(sides, materials.held_out)}
    return write_scored(
        config, folder, result, scores, files, evaluator=evaluator, replace_run=True
    )


def _judge_in_workers(
    config: RunConfig,
    materials: Materials,
    folder: Path,
    observe: Callable[[Progress], None] | None,
    *,
    given: bool,
) -> tuple[Sequence[ShardReport], float]:
    """Let the workers of `runner.kind` judge first, if it has any: what they leave is judged here."""
    if config.runner.kind not in WORKER_KINDS:
        return (), 0.0
    if given:
        remedy = "write the cases to a file, and set dataset.path"
        raise ConfigError(
            "workers cannot read cases from memory",
            where=f"runner={config.runner.kind}",
            remedy=remedy,
        )

    return judge_in_workers(
        config,
        folder,
        judge_shard,
        observe,
        partial(stored_answers, config, materials, folder),
    )


def stored_answers(config: RunConfig, materials: Materials, folder: Path) -> int:
    """Return the number of different answers of a run that are in the store; nothing is sent."""
    # The run itself, with nothing sent: it counts what it finds.
    reading = config.with_({"store.mode": "read_only"})
    return run_async(
        _judge_all(
            reading, materials.dataset.cases, materials.evaluator, None, folder, None
        )
    )[1].answers


def judge_shard(
    config: RunConfig,
    shard: Shard,
    observe: Callable[[Progress], None] | None = None,
    spent: Spent | None = None,
) -> JudgingResult:
    """Have one shard of the cases judged into the store, and nothing else."""
    refuse_cascade(
        config,
        "set judge.thresholds as in cascade.json of a run with labels, or use evalkit run",
    )
    refuse_stop(config)
    evaluator = build_evaluator(config)
    # In a file if they are many: workers on one machine share its memory.
    cases = Spool(
        (case for case in stream_cases(config) if shard.holds(case)), folder=Path.cwd()
    )
    if is_audit(config):
        check_audit(config, cases)
    return run_async(_judge_all(config, cases, evaluator, observe, Path.cwd(), spent))[
        1
    ]


async def _judge_all(
    config: RunConfig,
    cases: Sequence[Case],
    evaluator: Evaluator,
    observe: Callable[[Progress], None] | None,
    folder: Path,
    spent: Spent | None,
    until: Until | None = None,
    asked_keys: set[str] | None = None,
) -> tuple[AuditPlan | None, JudgingResult, list[str]]:
    """Judge the cases, and with probes the edited ones, once the rewriter has written its texts.

    Returns the plan of an audit, the judgments with the calls of both steps, and notes for the
    user.
    """
    # The steps of an audit share the budget of the run; one of the store counts what each step
    # takes of it.
    scope = config.runner.budget_scope
    if scope == "store":
        spent = None
    elif spent is None or scope != "sweep":
        spent = Spent()
    if not is_audit(config):
        return (
            None,
            await ask_judges(
                config,
                cases,
                evaluator,
                observe,
                folder,
                spent,
                until=until,
                asked_keys=asked_keys,
            ),
            [],
        )
    # Step 1 of an audit: paraphrases must exist before they can be judged.
    first = None
    rewritten: Sequence[Judgment] = ()
    if config.probe.rewriter:
        first = await _rewrite(config, cases, observe, folder, spent, asked_keys)
        rewritten = first.judgments
    # Step 2: original and edited cases are judged in one run of the engine.
    plan = AuditPlan.of(config, cases, evaluator, folder, paraphrases(rewritten))
    if first is not None and first.interrupted:
        return plan, replace(first, whole=None), []
    judged = await ask_judges(
        config,
        plan.cases,
        plan.evaluator,
        observe,
        folder,
        spent,
        chosen_on=cases,
        asked_keys=asked_keys,
    )
    if first is None:
        return plan, judged, []
    return plan, judged.after(first), note_missing(first.judgments)


async def _rewrite(
    config: RunConfig,
    cases: Sequence[Case],
    observe: Callable[[Progress], None] | None,
    folder: Path,
    spent: Spent | None,
    asked_keys: set[str] | None,
) -> JudgingResult:
    """Have `probe.rewriter` write the paraphrases, one by one if it cannot be batched."""
    rewriter_config = rewriting(config)
    if rewriter_config.runner.kind == "batch" and any(
        map(reason_against, make_judges(rewriter_config.judge, rewriter_config.runner))
    ):
        rewriter_config = rewriter_config.with_({"runner.kind": "online"})
    with keys_below(REWRITER):
        return await ask_judges(
            rewriter_config,
            cases,
            Rewriter(config),
            observe,
            folder,
            spent,
            study=config,
            asked_keys=asked_keys,
        )


def _asked_again(judged: JudgingResult) -> dict[str, Any]:
    """Return the manifest's entry about requests whose stored answers could not be used, if there are some."""
    if not judged.again:
        return {}
    share = judged.again / max(1, judged.calls.planned)
    return {"asked_again": {"count": judged.again, "share": round(share, 6)}}


def _rewriter(config: RunConfig) -> dict[str, Any]:
    described = describe_rewriter(config)
    return (
        {}
        if described is None
        else {
            "rewriter": {**described, "prompt_hashes": Rewriter(config).prompt_hashes}
        }
    )


def _check(
    config: RunConfig,
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
    if is_audit(config):
        check_audit(config, materials.dataset.cases)
    clusters = Clusters.of(config, materials.dataset.cases)
    check_slices(config.scoring.slices, materials.dataset.cases)
    custom_metrics()  # one that cannot be used is an error before anything is paid for
    if config.judge.calibrates:
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


async def ask_judges(
    config: RunConfig,
    cases: Sequence[Case],
    evaluator: Evaluator,
    observe: Callable[[Progress], None] | None = None,
    folder: Path | None = None,
    spent: Spent | None = None,
    study: RunConfig | None = None,
    chosen_on: Sequence[Case] | None = None,
    until: Until | None = None,
    asked_keys: set[str] | None = None,
) -> JudgingResult:
    """Judge every case, from stored answers where possible; only the store is written.

    Args:
        config: judges, store and limits.
        cases: the cases.
        evaluator: plans and reads the requests.
        observe: called with the progress.
        folder: where many judgments are kept in a temporary file.
        spent: what the other steps of the run, or the jobs of the sweep, have spent of a shared
            budget.
        study: the config of the run that this is a step of, if it is another one.
        chosen_on: the cases whose labels choose the thresholds of a cascade, if not all.
        until: whether no more cases are needed; by default all are.
        asked_keys: the content keys of requests that this command has sent already.
    """
    # A cascade calls this function again for each of its judges.
    if config.judge.cascades:
        return await _ask_cascade(
            config,
            cases,
            evaluator,
            observe,
            folder,
            spent,
            chosen_on or cases,
            asked_keys,
        )
    store = open_store(config.store)
    judges = make_judges(config.judge, config.runner)
    arbiter = make_arbiter(config)
    batches = None
    try:
        if config.runner.kind == "batch" and config.store.mode != "read_only":
            # With batches, the answers are collected first; the engine below then finds all of
            # them in the store.
            batches = BatchRun(config, cases, evaluator, store, observe, spent)
        if batches is not None and (stopped := await batches.collect()) is not None:
            return stopped
        members: Sequence[Judge] = judges
        if batches is not None:
            members = [batches.judge(member) for member in judges]
            spent = batches.spent
            if arbiter is not None:
                arbiter = batches.judge(arbiter)
        judged = await judge_cases(
            cases,
            evaluator,
            members,
            store,
            config.runner,
            store_mode=config.store.mode,
            arbiter=arbiter,
            observe=observe,
            spool=folder,
            until=until,
            spent=spent,
            shared=shared_limits(study or config, store),
            asked_keys=asked_keys,
            rescue=rescue_for(config.store, folder),
        )
        if batches is not None:
            judged = batches.counted(judged)
        return judged
    finally:
        for judge in judges:
            await judge.close()
        # Judges first: their last answers are still written.
        if store:
            store.close()


async def _ask_cascade(
    config: RunConfig,
    cases: Sequence[Case],
    evaluator: Evaluator,
    observe: Callable[[Progress], None] | None,
    folder: Path | None,
    spent: Spent | None,
    chosen_on: Sequence[Case],
    asked_keys: set[str] | None,
) -> JudgingResult:
    """Ask the judges of a cascade in turn, under one budget."""
    if spent is None and config.runner.budget_scope != "store":
        spent = Spent()

    async def ask(judge: JudgeConfig, remaining: Evaluator) -> JudgingResult:
        return await ask_judges(
            config.with_({"judge": judge}),
            cases,
            remaining,
            observe,
            folder,
            spent,
            study=config,
            asked_keys=asked_keys,
        )

    # Thresholds are chosen on the original cases only, since edited ones have no labels of their
    # own.
    def waiting(judgments: Sequence[Judgment]) -> Units:
        return escalated(calibrated(config, chosen_on, judgments), cases, judgments)

    return await ask_in_turn(
        config.judge.members, cases, evaluator, ask, waiting, folder
    )


def shared_limits(config: RunConfig, store: Store | None) -> SharedLimits | None:
    """Return the limits that workers on the store share; `None` if the run does not write to one that has them.

    Raises:
        ConfigError: if the budget must be one of them.
    """
    state = None if config.store.mode == "read_only" else shared_state(store)
    if state is None and config.runner.budget_scope == "store":
        problem = "workers cannot share a budget without a writable SQLite or PostgreSQL store"
        raise ConfigError(
            problem,
            where="runner.budget_scope",
            remedy="set store.mode=read_write, or budget_scope=run",
        )
    if state is None:
        return None
    return SharedLimits(state, config.hash())
