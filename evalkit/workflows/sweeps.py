"""Sweeps: the leaderboard of a folder as JSON, CSV and HTML, and the journal with which
a sweep resumes.

`sweep.json` lists the jobs by the hashes of their configs, and is closed when all of them are
finished. A repeated sweep resumes in the newest folder that lists the same jobs, is not closed, and
is not claimed by another process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from evalkit.config import SIMULATED, TrackingConfig
from evalkit.core.claims import Claim, claim_folder, claim_unused
from evalkit.core.errors import ConfigError
from evalkit.core.optional_features import load_feature
from evalkit.core.plain_errors import check_type, raises_plainly
from evalkit.core.translation import in_every_language
from evalkit.core.types import Metric
from evalkit.core.values import Json, JsonObject
from evalkit.engine.estimates import total
from evalkit.report.cases_page import cases_page
from evalkit.report.findings.sweeps import choice_text
from evalkit.report.page import language_of
from evalkit.report.sweep_names import MARK, folded_names
from evalkit.report.sweep_page import SweepFacts, render_sweep
from evalkit.runs import (
    layout,
    read_cases,
    read_config,
    read_facts,
    read_outcome,
    read_run,
    records,
    remove_files,
    write_files,
    written_files,
)
from evalkit.runs.folders import RunStatus, read_object, read_status
from evalkit.runs.layout import simulated_judges
from evalkit.runs.records import metric_values
from evalkit.runs.results import RunResult
from evalkit.runs.side_by_side import PAGE as CASES_PAGE
from evalkit.runs.side_by_side import side_by_side, unique_names
from evalkit.scoring.leaderboard import Choice, Contender, Leaderboard, Standing, rank
from evalkit.scoring.stats.clusters import Clusters
from evalkit.tracking import (
    MLFLOW,
    fetch_run,
    is_run_id,
    job_runs,
    make_tracker,
    tracking_uri,
)

_PAGE: Final = "report.html"


def sweep_pages(folder: Path, board: Leaderboard) -> dict[str, str]:
    """Return the HTML pages of a leaderboard of the runs in `folder`, and of their cases, by file.

    Raises:
        ConfigError: If a run's file is missing or damaged.
    """
    jobs = [row.job for row in board.rows]
    manifests, costs = zip(*(read_facts(folder / job) for job in jobs), strict=True)
    started = [
        str(manifest["started"]) for manifest in manifests if manifest.get("started")
    ]
    sweep: JsonObject = next(
        (manifest["sweep"] for manifest in manifests if manifest.get("sweep")), {}
    )
    title = str(sweep.get("name") or folder.name)
    names = unique_names({row.job: row.name for row in board.rows})
    cases = cases_page({names[job]: read_run(folder / job) for job in jobs}, title)
    facts = SweepFacts(
        title=title,
        cases={
            job: (f"{CASES_PAGE}#wrong-{position}", cases.counts[f"wrong-{position}"])
            for position, job in enumerate(jobs)
        },
        started=min(started, default=None),
        cost_usd=total(costs),
        datasets={
            str(data.get("fingerprint") or ""): str(data.get("name") or "data")
            for data in (manifest.get("dataset") or {} for manifest in manifests)
        },
        pages=[job for job in jobs if (folder / job / _PAGE).is_file()],
        simulated=tuple(
            dict.fromkeys(
                name for manifest in manifests for name in simulated_judges(manifest)
            )
        ),
        language=language_of(read_config(folder / jobs[0])),
    )
    return {PAGE: render_sweep(board, facts), CASES_PAGE: cases.html}


JSON: Final = "leaderboard.json"
CSV: Final = "leaderboard.csv"
CASES: Final = "cases.csv"
"""The verdicts of the jobs on each case, next to each other."""
PAGE: Final = "report.html"
_METHOD_KEYS: Final = ("method=", "mode=", "mode.", "rubric=", "rubric.", "output=")


@runtime_checkable
class SweepTracker(Protocol):
    """A tracker that has a parent run per sweep."""

    def attach(self, run: str, files: Sequence[Path]) -> None:
        """Log files to the parent run of the sweep that `run` belongs to."""


def leaderboard_of(
    folder: Path, jobs: Sequence[str], names: Sequence[str] | None = None
) -> Leaderboard | None:
    """Return the leaderboard of the runs in the subfolders `jobs` of `folder`; `None`
    if there are fewer than two.

    The `scoring` settings of the first job set the confidence level.

    Args:
        folder: The sweep's folder.
        jobs: The names of the subfolders.
        names: The names of the jobs on the leaderboard; by default the overrides in their
            manifests.

    Raises:
        ConfigError: If a run's file is missing or damaged.
    """
    contenders = []
    scoring = None
    clusters: dict[str, dict[str, int]] = {}
    for index, job in enumerate(jobs):
        outcome = read_outcome(folder / job)
        manifest = outcome.manifest
        overrides = _overrides(manifest)
        name = ", ".join(overrides) or str(manifest.get("judge") or job)
        if simulated_judges(manifest) and SIMULATED not in name:
            name += MARK
        dataset = str((manifest.get("dataset") or {}).get("fingerprint") or "")
        scoring = scoring or outcome.config.scoring
        if dataset not in clusters:
            cases = read_cases(folder / job)
            # Once for each dataset: jobs on the same cases share their clusters.
            clusters[dataset] = Clusters.of(outcome.config, cases).by_id(cases)
        contenders.append(
            Contender(
                job=job,
                name=names[index] if names else name,
                dataset=dataset,
                metrics=outcome.metrics,
                verdicts=outcome.verdicts,
                cluster=clusters[dataset],
                mode=str(manifest.get("mode") or ""),
                alike=tuple(
                    sorted(
                        word for word in overrides if not word.startswith(_METHOD_KEYS)
                    )
                ),
            )
        )
    if scoring and len(contenders) > 1:
        return rank(contenders, scoring)
    return None


@raises_plainly
def leaderboard(folder: str | Path) -> Leaderboard:
    """Rank the runs in the subfolders of a folder, such as the jobs of a sweep.

    Raises:
        ConfigError: If there are fewer than two, or a run's file is missing or damaged.
    """
    check_type("folder", folder, str | Path, "write leaderboard('SWEEP_FOLDER')")
    jobs = sorted(
        path.parent.name for path in Path(folder).glob(f"*/{layout.MANIFEST}")
    )
    if (board := leaderboard_of(Path(folder), jobs)) is None:
        raise ConfigError(
            "has fewer than two runs to rank",
            where=str(folder),
            remedy="name the folder of a sweep",
        )
    return board


def _overrides(manifest: Json) -> list[str]:
    """Return the overrides of a job that differ between the jobs of its sweep."""
    return [str(word) for word in (manifest.get("sweep") or {}).get("overrides") or ()]


def _in_number_order(job: str) -> tuple[int, str]:
    return int(job) if job.isdigit() else -1, job


def sweep_definition(folder: Path, jobs: Sequence[str]) -> JsonObject:
    """Return the definition of a sweep: its name, its jobs, and the values of each key
    that differs between them.

    Raises:
        ConfigError: If a job's manifest is missing or damaged.
    """
    manifests = {job: read_facts(folder / job)[0] for job in jobs}
    values: dict[str, list[str]] = {}
    for manifest in manifests.values():
        for word in _overrides(manifest):
            key, _, value = word.partition("=")
            if value not in values.setdefault(key, []):
                values[key].append(value)
    names = [
        (manifest.get("sweep") or {}).get("name") for manifest in manifests.values()
    ]
    return {"name": names[0] if names else None, "jobs": len(jobs), "swept": values}


def write_leaderboard(folder: Path, board: Leaderboard) -> list[Path]:
    """Write a leaderboard's files to a sweep's folder, and return their paths.

    The verdicts by case are in `cases.csv`, which is not among them.

    Raises:
        ConfigError: If they cannot be written.
    """
    # Job 10 comes after job 9, not after job 1.
    jobs = sorted((row.job for row in board.rows), key=_in_number_order)
    definition = sweep_definition(folder, jobs)
    sheet = _audit_files(folder, {row.job: row.name for row in board.rows})
    contents = {
        JSON: as_json(board, definition),
        **sheet,
        **sweep_pages(folder, board),
        CSV: as_csv(board),
    }
    cases = side_by_side(folder, {row.job: row.name for row in board.rows})
    write_files(folder, {**contents, CASES: cases})
    return [folder / name for name in contents]


def _audit_files(folder: Path, names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the files of a sweep about the audits among its jobs, by name; nothing
    without audits.
    """
    if not any((folder / job / f"{layout.DATASHEET}.json").is_file() for job in names):
        return {}
    sheet = load_feature("evalkit.audit.sweep_datasheet", "the sweep's audits")
    files: Mapping[str, str] = sheet.sweep_datasheet(folder, names)
    return files


def track_leaderboard(folder: Path, jobs: Sequence[str], files: Sequence[Path]) -> None:
    """Send a sweep's files to its parent run in MLflow, which is found by the first job
    that was recorded there.

    Args:
        folder: The sweep's folder.
        jobs: The names of the jobs' subfolders.
        files: The files to send.

    Raises:
        TrackingError: If they cannot be sent.
    """
    for job in jobs:
        # One job is enough: all of them have the same parent run.
        if run := read_status(folder / job).recorded:
            config = read_config(folder / job).tracking
            tracker = make_tracker(config) if config.tracker == MLFLOW else None
            if isinstance(tracker, SweepTracker):
                attached = list(files)
                cases = folder / CASES
                if cases.is_file():
                    attached.append(cases)
                tracker.attach(run, attached)
            return


def as_json(board: Leaderboard, definition: Json | None = None) -> str:
    """Return a leaderboard as JSON: the `sweep`, the `choices`, and `rows` with their
    `metrics` and contrasts.
    """
    content = {
        **({"sweep": definition} if definition else {}),
        "by": board.by,
        "columns": board.columns,
        "confidence": board.confidence,
        "margin": board.margin,
        "choices": [_choice(board, choice) for choice in board.choices],
        "rows": [_standing_row(row, board.twins_of(row)) for row in board.rows],
        "contrasts": [asdict(contrast) for contrast in board.contrasts],
        "contradictions": [
            {
                "scores": contradiction.scores,
                "comparisons": contradiction.comparisons,
                "metrics": {
                    name: metric_values(metric)
                    for name, metric in contradiction.metrics.items()
                },
            }
            for contradiction in board.contradictions
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _choice(board: Leaderboard, choice: Choice) -> JsonObject:
    names = folded_names(board)
    needed = choice.top.decision.labels_needed
    # Those of a job that is chosen, or is shown to be useful by itself, decide something else.
    if choice.job is not None or choice.reason == "luck":
        needed = None
    return {
        "dataset": choice.dataset,
        "reason": choice.reason,
        "job": choice.job.job if choice.job else None,
        "top": choice.top.job,
        "rivals": [row.job for row in choice.rivals],
        "labels_needed": needed,
        "text": in_every_language(choice_text(board, choice, names))[0],
    }


def _standing_row(row: Standing, twins: Sequence[str]) -> JsonObject:
    """Return a job's place in the leaderboard as a row of its file."""
    return {
        "rank": row.rank,
        "rank_low": row.rank_low,
        "rank_high": row.rank_high,
        "job": row.job,
        "name": row.name,
        "dataset": row.dataset,
        "letters": row.letters,
        "pareto": row.pareto,
        "decision": row.decision.json(),
        "behind": metric_values(row.behind) if row.behind else None,
        "non_inferior": row.non_inferior,
        "twins": twins,
        "metrics": {
            name: metric_values(metric) for name, metric in row.metrics.items()
        },
    }


def as_csv(board: Leaderboard) -> str:
    """Return a leaderboard's rows as CSV: `x`, `x/low` and `x/high` for each metric x,
    and `pareto` as 1 or 0.
    """
    spread = [f"{name}{end}" for name in board.columns for end in ("", "/low", "/high")]
    ends = ["rank/low", "rank/high", "decision", "reason"]
    columns = ["rank", "job", "name", "dataset", "letters", "pareto", *spread, *ends]
    rows = []
    for row in board.rows:
        # Three cells for each metric, in the order of `columns`: value, low, high.
        numbers = [
            number for name in board.columns for number in _ends(row.metrics.get(name))
        ]
        front = None if row.pareto is None else int(row.pareto)
        last = (row.rank_low, row.rank_high, row.decision.use, row.decision.reason)
        cells = [
            row.rank,
            row.job,
            row.name,
            row.dataset,
            row.letters,
            front,
            *numbers,
            *last,
        ]
        rows.append(dict(zip(columns, cells, strict=True)))
    return records.as_csv(columns, rows)


def _ends(metric: Metric | None) -> tuple[float | None, float | None, float | None]:
    if metric:
        return (metric.value, metric.low, metric.high)
    return (None, None, None)


NAME: Final = layout.SWEEP
DERIVED: Final = (
    NAME,
    "leaderboard.json",
    "leaderboard.csv",
    "cases.csv",
    CASES_PAGE,
    "report.html",
    "reproduction.json",
)
_MAX_FOLDERS: Final = 100  # the newest ones


def claim_sweep(folder: Path) -> tuple[Path, Claim]:
    """Claim a new folder for a sweep: `folder`, or a numbered one if another sweep is there.

    Raises:
        ConfigError: If it cannot be written.
    """
    return claim_unused(folder, lambda path: (path / NAME).exists())


def claim_interrupted(root: Path, hashes: Sequence[str]) -> tuple[Path, Claim] | None:
    """Claim the newest unfinished sweep of exactly these jobs in `root/DATE/TIME` that no process
    has.

    Args:
        root: The folder of all sweeps.
        hashes: The hashes of the jobs' configs.

    Returns:
        Its folder with the claim; `None` if there is none.
    """
    # Names are dates and times, so the order of names is that of time.
    folders = sorted((path.parent for path in root.glob(f"*/*/{NAME}")), reverse=True)
    for folder in folders[:_MAX_FOLDERS]:
        if not _is_unfinished(folder, hashes):
            continue
        try:
            claim = claim_folder(folder)
        except ConfigError:
            continue
        if _is_unfinished(folder, hashes):
            return folder, claim
        claim.release()  # another process finished it just now
    return None


def _is_unfinished(folder: Path, hashes: Sequence[str]) -> bool:
    state = read_object(folder / NAME)
    # Exactly these jobs in this order: job numbers are the names of folders.
    return state.get("jobs") == list(hashes) and state.get("ended") is None


def begin(folder: Path, hashes: Sequence[str]) -> None:
    """Record the start of a sweep in its folder.

    Raises:
        ConfigError: If the folder cannot be written.
    """
    # A resumed sweep keeps its first start.
    started = read_object(folder / NAME).get("started") or datetime.now(UTC).isoformat()
    _write(folder, {"jobs": list(hashes), "started": started, "ended": None})


def end(folder: Path) -> None:
    """Record that every job of a sweep is finished."""
    _write(
        folder, {**read_object(folder / NAME), "ended": datetime.now(UTC).isoformat()}
    )


def check_free(
    folder: Path, hashes: Sequence[str] | None, *, overwrite: bool = False
) -> None:
    """Check that a sweep's folder has no runs except finished jobs of these configs.

    Args:
        folder: The sweep's folder.
        hashes: The config hashes of the jobs; `None` if they are unknown.
        overwrite: Whether to remove other jobs, and the files derived from them, instead of raising
            an error.

    Raises:
        ConfigError: If the folder has other jobs, or is a run folder.
    """
    if (folder / layout.MANIFEST).exists():
        raise ConfigError(
            "contains a run",
            where=str(folder),
            remedy="choose another folder with hydra.sweep.dir",
        )
    if hashes is None and not overwrite:
        return  # the sweeper chooses the jobs one by one, so each job checks its own folder
    other_jobs = [
        job
        for job, run in runs(folder).items()
        if not _is_job(job, run.config_hash, hashes)
    ]
    if not other_jobs:
        return
    if not overwrite:
        remedy = "choose another folder with hydra.sweep.dir, or add --overwrite to replace it"
        raise ConfigError(
            f"contains another sweep (job {other_jobs[0]})",
            where=str(folder),
            remedy=remedy,
        )
    for job in other_jobs:
        remove_files(folder / job, written_files(folder / job))
        with suppress(OSError):
            (folder / job).rmdir()
    remove_files(folder, DERIVED)


def _is_job(job: str, config_hash: str, hashes: Sequence[str] | None) -> bool:
    if hashes is None:
        return False
    number = int(job) if job.isdigit() else None
    if number is None:
        return config_hash in hashes
    # Hydra numbers jobs from 0, so the number is the index of the hash.
    return number < len(hashes) and hashes[number] == config_hash


def runs(folder: Path) -> dict[str, RunStatus]:
    """Return the runs in a sweep's folder by the names of their folders, in numerical order."""
    by_job = {
        str(path.parent.relative_to(folder)): read_status(path.parent)
        for path in folder.glob("**/manifest.json")
    }
    return {job: by_job[job] for job in sorted(by_job, key=_in_number_order)}


def _write(folder: Path, state: Json) -> None:
    write_files(
        folder,
        {NAME: json.dumps(state, indent=1) + "\n"},
        "choose another folder with hydra.sweep.dir",
    )


Jobs = Mapping[str, Callable[[], RunResult]]
"""Readers of a sweep's jobs, by job name."""


def find_jobs(
    word: str, tracking: TrackingConfig, *, folder: Path, scratch: Path
) -> Jobs | None:
    """Return the jobs of the sweep that `word` names, or `None` if it does not name a sweep.

    Args:
        word: A sweep's folder, or the id of its parent run in MLflow.
        tracking: The tracking server with the recorded runs.
        folder: The current folder.
        scratch: A folder for downloads, which must exist as long as the jobs are used.

    Raises:
        ConfigError: If there is no such run.
        TrackingError: If the tracking server is not reachable.
    """
    path = folder / word
    if path.exists() or not is_run_id(word):
        jobs = {} if (path / layout.MANIFEST).exists() else runs(path)
        return {job: partial(read_run, path / job) for job in jobs} or None
    uri = tracking_uri(tracking, folder)
    recorded = job_runs(uri, word)
    if recorded is None:
        return None
    return {
        name: partial(_fetch, uri, run, scratch / run) for name, run in recorded.items()
    }


def _fetch(uri: str, run: str, into: Path) -> RunResult:
    return read_run(fetch_run(uri, run, into))
