"""One run, from config to recorded result: the stages in their order, and nothing of how any of them works."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from evalkit.config import RunConfig
from evalkit.core.hashing import digest
from evalkit.core.resources import project
from evalkit.core.spool import Spool
from evalkit.datasets import CaseStream, Dataset, Fetch, iter_cases, load_cases, with_examples
from evalkit.engine import JudgingResult, Progress
from evalkit.engine import judge as judge_cases
from evalkit.engine.event_loop import run_async
from evalkit.evaluators import make_evaluator
from evalkit.gating import apply_gate, check_gate, check_rules, write_with_gate
from evalkit.judges import describe_judges, make_arbiter, make_judges
from evalkit.plugins import allowing_code
from evalkit.protocols import Evaluator
from evalkit.report import run_files
from evalkit.runs import check_free, check_no_sweep, unused_folder
from evalkit.runs.versions import environment_versions
from evalkit.scoring import Scores, check_names, score_run
from evalkit.scoring.metrics.self_preference import family_notes
from evalkit.scoring.stats.clusters import NOTE, Clusters
from evalkit.scoring.verdicts.aggregate import AGGREGATE
from evalkit.store import open_store
from evalkit.tracking import dataset_fetchers, warm_up
from evalkit.tracking.record import begin_recording
from evalkit.types import Case, Judgment, RunResult, Spent, Verdict


class RunInterruption(KeyboardInterrupt):
    """The run was stopped by the user; what was paid for is in the store."""

    def __init__(self, judged: JudgingResult) -> None:
        self.judged = judged
        super().__init__("interrupted")


@dataclass(frozen=True, slots=True)
class Materials:
    """What a config turns into before anything is judged."""

    dataset: Dataset
    evaluator: Evaluator


def load_materials(config: RunConfig, folder: Path | None = None, cases: Any = None) -> Materials:
    """Load the cases, from `cases` if they are given, and make the evaluator; many wait in a file in or above `folder`.

    Raises:
        ConfigError: if the dataset, a template or a plug-in is not what the config says.
    """
    evaluator = build_evaluator(config)
    hold = partial(Spool[Case], folder=folder or Path.cwd())
    mode, fetch = config.mode.name, _fetch(config)
    dataset = load_cases(config.dataset, mode=mode, base=project(), frame=cases, fetch=fetch, told=_told, hold=hold)
    return Materials(dataset, evaluator)


def stream_cases(config: RunConfig) -> CaseStream:
    """Return the cases, to be read one at a time: for what looks at each case once.

    Raises:
        ConfigError: if the dataset is not what the config says.
    """
    return iter_cases(config.dataset, mode=config.mode.name, base=project(), fetch=_fetch(config), told=_told)


def build_evaluator(config: RunConfig) -> Evaluator:
    """Return the evaluator that a config describes.

    Raises:
        ConfigError: if a template, a plug-in or a judge's name is not what it must be.
    """
    check_names([judge.label for judge in config.judge.members])  # else scoring would, once all is paid
    return make_evaluator(config, prompt_folders=[project() / "prompts"])


def _fetch(config: RunConfig) -> Mapping[str, Fetch]:
    return dataset_fetchers(config.tracking, folder=Path.cwd())


def _told(path: Path) -> str | None:
    from evalkit.interop import describe_file

    return describe_file(path)


def default_folder(config: RunConfig) -> Path:
    """Return `outputs/<date>/<time>-<mode>-<judge>` under the current folder."""
    name = re.sub(r"[^\w.-]+", "_", f"{config.mode.name}-{config.judge.label}")
    return unused_folder(Path("outputs") / f"{datetime.now():%Y-%m-%d}" / f"{datetime.now():%H-%M-%S}-{name}")


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

    A folder that holds another run is refused, unless `overwrite` says to replace that run.

    `cases` takes the place of `dataset.path`: a pandas or polars frame, an Arrow table, or a list of mappings, whose
    columns are read as `dataset.fields` says. With `allow_code` the config may name classes by their dotted paths; they
    are imported and run.

    Raises:
        ConfigError: if something was described wrongly.
        StoreError: if the store of completions cannot be used.
        TrackingError: if the run could not be recorded; its folder is complete.
        Interrupted: on Ctrl-C; answers that had arrived are in the store.
    """
    if cases is not None:
        config = config.model_copy(update={"dataset": config.dataset.model_copy(update={"path": None, "format": None})})
    folder = folder or default_folder(config)
    with allowing_code(allow_code):
        return track(config, judge_and_score(config, folder, cases=cases, observe=observe, overwrite=overwrite))


def judge_and_score(
    config: RunConfig,
    folder: Path,
    *,
    sweep: Mapping[str, Any] | None = None,
    cases: Any = None,
    observe: Callable[[Progress], None] | None = None,
    overwrite: bool = False,
    spent: Spent | None = None,
) -> RunResult:
    """Judge the cases, score and write the run folder.

    A folder that holds another run is refused before anything is paid for, unless `overwrite` says to replace that run.
    `spent` is what the jobs of the sweep have spent, for a budget that they share.
    """
    started = datetime.now(UTC)
    config = with_examples(config, base=project())
    materials = load_materials(config, folder, cases)
    Clusters.of(config, materials.dataset.cases)  # a column that no case has is to be known before anything is paid
    check_gate(config, materials.dataset.cases)
    if overwrite:
        check_no_sweep(folder)
    else:
        # A sweep runs a job again whose data have changed.
        check_free(folder, config, fingerprint=None if sweep else materials.dataset.fingerprint)
    warm_up(config.tracking, folder=Path.cwd())
    begun = time.perf_counter()
    judged = run_async(ask_judges(config, materials.dataset.cases, materials.evaluator, observe, folder, spent))
    judging = time.perf_counter() - begun
    if judged.interrupted:
        raise RunInterruption(judged)
    manifest = {**run_manifest(config, materials, started, sweep), "stopped": judged.stopped}
    manifest["judges"] = [{**one, "dropped": list(judged.dropped.get(one["name"], ()))} for one in manifest["judges"]]
    manifest["timing"] = {"judging": round(judging, 4), "sending": round(judged.sending, 4)}
    return _write(config, folder, materials, judged, manifest)


async def judge_one(config: RunConfig, case: Case) -> tuple[Sequence[Judgment], Sequence[Verdict]]:
    """Judge one case and resolve it; nothing is written but the store."""
    config = with_examples(config, base=project())
    evaluator = build_evaluator(config)
    judged = await ask_judges(config, [case], evaluator)
    free = {"bootstrap": 0, "cluster": None}
    unmeasured = config.model_copy(update={"scoring": config.scoring.model_copy(update=free)})
    return judged.judgments, score_run(unmeasured, [case], judged.judgments).verdicts


async def ask_judges(
    config: RunConfig,
    cases: Sequence[Case],
    evaluator: Evaluator,
    observe: Callable[[Progress], None] | None = None,
    folder: Path | None = None,
    spent: Spent | None = None,
) -> JudgingResult:
    """Have every case judged, by stored answers as far as there are any; nothing is written but the store."""
    store = open_store(config.store)
    judges, arbiter = make_judges(config.judge, config.runner), make_arbiter(config)
    try:
        return await judge_cases(
            cases,
            evaluator,
            judges,
            store,
            config.runner,
            store_mode=config.store.mode,
            arbiter=arbiter,
            observe=observe,
            spool=folder,
            spent=spent if config.runner.budget_scope == "sweep" else None,
        )
    finally:
        for judge in judges:
            await judge.close()
        if store:
            store.close()


async def check_judges(config: RunConfig) -> str:
    """Check each judge's model name, key and endpoint without a call, and return their names.

    Raises:
        JudgeSetupError: if no call to one of them can succeed.
    """
    arbiter = make_arbiter(config)
    judges = [*make_judges(config.judge, config.runner), *([arbiter] if arbiter else [])]
    try:
        for judge in judges:
            if prepare := getattr(judge, "prepare", None):
                await prepare()
        return ", ".join(judge.spec.model for judge in judges)
    finally:
        for judge in judges:
            await judge.close()


def _write(
    config: RunConfig, folder: Path, materials: Materials, judged: JudgingResult, manifest: Mapping[str, Any]
) -> RunResult:
    begun = time.perf_counter()
    dataset = materials.dataset
    scores = score_run(config, dataset.cases, judged.judgments)
    timing = {**manifest["timing"], "scoring": round(time.perf_counter() - begun, 4)}
    result = RunResult(
        folder=str(folder.resolve()),
        config=config.dump(),
        manifest={
            **_understood(manifest, scores),
            "timing": timing,
            "ended": datetime.now(UTC).isoformat(),
        },
        cases=dataset.cases,
        judgments=judged.judgments,
        verdicts=scores.verdicts,
        metrics=scores.metrics,
        calls=judged.calls,
        tokens=judged.tokens,
        cost_usd=judged.cost_usd,
    )
    result, gate = apply_gate(config, result)
    files = run_files(config, result, scores, materials.evaluator)
    return write_with_gate(folder, result, files, gate, replace_run=True)


def rescore(
    config: RunConfig,
    result: RunResult,
    folder: Path,
    files: Mapping[str, str] | None = None,
    *,
    replace_run: bool = False,
) -> RunResult:
    """Score a finished run again under other scoring settings: no judge, no store; the folder is rewritten.

    `files` are further files of the folder, by name. With `replace_run`, the folder held another run, none of whose
    files are to remain.
    """
    scores = score_run(config, result.cases, result.judgments)
    manifest = {
        **_understood(result.manifest, scores),
        "config_hash": config.hash(),
        "rescored": datetime.now(UTC).isoformat(),
    }
    again = replace(
        result,
        folder=str(folder.resolve()),
        config=config.dump(),
        manifest=manifest,
        verdicts=scores.verdicts,
        metrics=scores.metrics,
    )
    check_rules(config, again)
    again, gate = apply_gate(config, again)
    further = {**run_files(config, again, scores), **(files or {})}
    return write_with_gate(folder, again, further, gate, replace_run=replace_run)


def _understood(manifest: Mapping[str, Any], scores: Scores) -> dict[str, Any]:
    """Return a manifest that says how scoring understood its settings, in place of what it said before."""
    notes = [note for note in manifest.get("notes") or () if not note.startswith((AGGREGATE, NOTE))]
    clusters = scores.clusters
    said = [note] if (note := clusters.note()) else []
    told = {"by": clusters.by, "count": clusters.count, "cases": clusters.cases}
    return {**manifest, "notes": [*notes, *scores.notes, *said], "clusters": told}


def track(config: RunConfig, result: RunResult) -> RunResult:
    """Record a run that is complete on disk; return it with its id at the tracker in the manifest.

    Raises:
        TrackingError: if it could not be recorded.
    """
    return begin_recording(config.tracking, result, folder=Path.cwd())()


def run_manifest(
    config: RunConfig,
    materials: Materials,
    started: datetime,
    sweep: Mapping[str, Any] | None = None,
    judges: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return what a run's manifest says before it has ended; `judges` replaces what the config says of them."""
    prompts = dict(getattr(materials.evaluator, "prompt_hashes", {}))
    return {
        "run_id": uuid4().hex,
        **environment_versions(),
        "config_hash": config.hash(),
        "prompt_hashes": prompts,
        "prompt_hash": digest(prompts),
        "dataset": {
            "name": materials.dataset.name,
            "source": materials.dataset.source,
            "fingerprint": materials.dataset.fingerprint,
            "rows": len(materials.dataset.cases),
            **({"benchmark": dict(materials.dataset.benchmark)} if materials.dataset.benchmark else {}),
        },
        "judges": describe_judges(config) if judges is None else [*judges],
        "mode": config.mode.name,
        "judge": config.judge.label,
        "started": started.isoformat(),
        "ended": None,
        "sweep": dict(sweep) if sweep else None,
        "mlflow_run_id": None,
        "notes": [*config.notes(), *materials.dataset.notes, *family_notes(config, materials.dataset.cases)],
    }
