"""Watch a judge: judge the same cases again, past stored answers, and test whether its
answers have changed.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import numpy as np

from evalkit.config import (
    GateConfig,
    JudgeConfig,
    ProbeConfig,
    RunConfig,
    TrackingConfig,
)
from evalkit.core.atomic_files import check_inside, drop_empty, file_errors
from evalkit.core.claims import NAME as CLAIM
from evalkit.core.claims import claim_folder
from evalkit.core.display import shorten
from evalkit.core.errors import ConfigError, EvalkitError, JudgeSetupError
from evalkit.core.redaction import redact
from evalkit.core.resources import project
from evalkit.core.scale import Scale
from evalkit.core.values import frozen
from evalkit.datasets import with_examples
from evalkit.engine.event_loop import run_async
from evalkit.engine.judging_run import NEVER_SENT
from evalkit.engine.progress import Progress
from evalkit.judges import check_judges
from evalkit.report.watch_page import render_watch
from evalkit.runs import write_files
from evalkit.runs.read import read_record
from evalkit.runs.records import encode_pretty
from evalkit.runs.results import RunResult
from evalkit.scoring.looks import (
    Baseline,
    Look,
    Unit,
    answers_of,
    as_numbers,
    look_facts,
)
from evalkit.scoring.stats.clusters import Clusters
from evalkit.store import open_store
from evalkit.workflows.materials import load_materials
from evalkit.workflows.run import RunInterruption, judge_and_score, stored_answers

FILE: Final = "watch.json"
PAGE: Final = "watch.html"
LOOKS: Final = "looks"
"""The folder of the run folders of the looks."""
_MOST_REPORTED: Final = 5
_LONGEST_REPORTED: Final = 200
"""The most values of a judge that are kept, and the most characters of one."""
_REMEDY: Final = "--reset starts from a new baseline, and --output FOLDER another watch"


@frozen
class _Watch:
    baselines: tuple[Baseline, ...]


def read_watch(folder: Path) -> tuple[Baseline, ...]:
    """Return the baselines of the watch in a folder, oldest first; none if the folder
    is new or empty.

    Raises:
        ConfigError: If it has other files, or its file is missing or damaged.
    """
    path = folder / FILE
    with file_errors("cannot be read", path, "check its permissions"):
        if not path.exists():
            if folder.is_dir() and any(
                not child.name.startswith(CLAIM) for child in folder.iterdir()
            ):
                problem, remedy = "has other files", "choose another --output"
                if (folder / LOOKS).is_dir():
                    problem = f"has looks, but no {FILE}"
                    remedy = "restore it, or choose another --output"
                raise ConfigError(problem, where=str(folder), remedy=remedy)
            return ()
    watch: _Watch = read_record(path, _Watch, "restore it, or choose another --output")
    return watch.baselines


def look_config(config: RunConfig, key: str) -> RunConfig:
    """Return the config of a look: its own answers of all cases, and neither gate,
    tracker nor probes.
    """
    swap = config.swap
    if swap.arbiter is not None:
        # The look is a part of the content key: the same requests are asked anew instead of being
        # read from the store.
        swap = swap.model_copy(update={"arbiter": _looking(swap.arbiter, key)})
    bare = {
        "gate": GateConfig(),
        "tracking": TrackingConfig(enabled=False),
        "probe": ProbeConfig(),
        "objective": None,
    }
    # Unusable answers are what a look reports: it needs all of them.
    config = config.with_({"runner.stop": None, "runner.stop_if_useless": False})
    return config.model_copy(
        update={**bare, "swap": swap, "judge": _looking(config.judge, key)}
    )


def _looking(judge: JudgeConfig, key: str) -> JudgeConfig:
    if judge.judges is None:
        judges = None
    else:
        judges = tuple(_looking(member, key) for member in judge.judges)
    return judge.model_copy(update={"look": key, "judges": judges})


def next_look(baseline: Baseline | None, number: int = 1) -> Look:
    """Return the look to take: the last one if it is not complete, or else a new one."""
    # The same key again, under which the answers so far are stored.
    if baseline is not None and baseline.looks and not baseline.looks[-1].complete:
        return baseline.looks[-1]
    now = datetime.now(UTC)
    return Look(
        f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
        number,
        now.isoformat(timespec="seconds"),
    )


def take_look(
    folder: Path,
    config: RunConfig,
    templates: Mapping[str, str] | None = None,
    *,
    reset: bool = False,
    observe: Callable[[Progress], None] | None = None,
) -> Baseline:
    """Take the next look, or the rest of one that was cut, write the folder of the
    watch, and return the baseline.

    Args:
        folder: The folder of the watch.
        config: The judge and the cases.
        templates: The texts of the templates, if they are not the installed ones.
        reset: Whether to start from a new baseline.
        observe: Called with the progress while judging.

    Raises:
        ConfigError: If the folder watches another judge or other cases, another look is being
            taken, the config or the data are invalid, or no answer came back; the folder is then as
            before.
        RunInterruption: On Ctrl-C; received answers are stored, and the next call takes the rest.
    """
    if config.store.mode != "read_write":
        problem = f"with '{config.store.mode}' the answers of a look that is cut would be lost"
        raise ConfigError(
            problem, where="store.mode", remedy="set store.mode=read_write"
        )
    stored = read_watch(folder)
    materials = load_materials(config, templates=templates)
    current = Baseline(
        config.judge.label,
        config.hash(),
        materials.dataset.fingerprint,
        dict(getattr(materials.evaluator, "prompt_hashes", {})),
        len(materials.dataset.cases),
    )
    earlier = (*stored, current) if reset or not stored else stored
    before = earlier[-1]
    _refuse_changes(before, current, folder)
    # A wrong key must not leave a look behind.
    run_async(check_judges(config))
    store = open_store(config.store)
    if store is not None:
        # What it complains about must show before anything is written.
        store.close()
    look = next_look(before, sum(len(past.looks) for past in earlier) + 1)
    config = look_config(config, look.key)
    look_folder = folder / LOOKS / f"{look.number:03}"
    with file_errors("cannot be written", folder, "choose another --output"):
        check_inside(folder, look_folder)
    with _claimed(folder, stored), ExitStack() as unanswered:
        # If no answer comes back, the folder is left as it was: a look without answers would
        # count as a failure of the judge.
        unanswered.callback(
            _restore, folder, stored, None if look_folder.exists() else look_folder
        )
        # Written before the first call, so that the next command finds the look's key if this one
        # is killed.
        baseline = _with(before, look)
        _write(folder, (*earlier[:-1], baseline))
        try:
            result = judge_and_score(
                config,
                look_folder,
                observe=observe,
                overwrite=True,
                templates=templates,
            )
        except BaseException as error:
            if _is_begun(error, config, folder, templates):
                # the look stays, and the next command requests the rest
                unanswered.pop_all()
                if isinstance(error, RunInterruption):
                    spend = error.judged.spend
                    cut = _with(before, _paid(look, spend.calls.sent, spend.cost_usd))
                    _write(folder, (*earlier[:-1], cut))
            raise
        if not _was_answered(result):
            raise _error_without_answers(config, result)
        # the look has answers, so it stays
        unanswered.pop_all()
        baseline = _finish_look(baseline, look, result)
        _write(folder, (*earlier[:-1], baseline))
    return baseline


def _refuse_changes(before: Baseline, current: Baseline, folder: Path) -> None:
    """Refuse a look at something else: answers can be compared only if nothing else has changed.

    Raises:
        ConfigError: If the configuration, the cases or the templates are others.
    """
    for name, subject in (
        ("config_hash", "configuration"),
        ("fingerprint", "cases"),
        ("prompt_hashes", "templates"),
    ):
        if getattr(before, name) != getattr(current, name):
            raise ConfigError(
                f"its looks had other {subject}", where=str(folder), remedy=_REMEDY
            )


def _is_begun(
    error: BaseException,
    config: RunConfig,
    folder: Path,
    templates: Mapping[str, str] | None,
) -> bool:
    """Return whether a look that ended in an error has answers, or will have some."""
    if config.runner.kind == "batch" and not isinstance(error, JudgeSetupError):
        # A batch at the provider will have some.
        return True
    return _has_answers(config, folder, templates)


def _was_answered(result: RunResult) -> bool:
    """Return whether an answer came back, now or earlier."""
    return any(
        judgment.completion is not None or judgment.earlier
        for judgment in result.judgments
    )


def _has_answers(
    config: RunConfig, folder: Path, templates: Mapping[str, str] | None
) -> bool:
    """Return whether the store has an answer of a look; if that is unknown, it may have."""
    try:
        config = with_examples(config, base=project())
        return (
            stored_answers(
                config, load_materials(config, folder, templates=templates), folder
            )
            > 0
        )
    except EvalkitError:
        return True


def _restore(folder: Path, stored: Sequence[Baseline], run: Path | None) -> None:
    """Leave the folder of a watch as it was before a look, whose new run folder is given."""
    if run is not None and run.exists():
        rmtree(run)
    drop_empty(folder / LOOKS)
    if stored:
        _write(folder, stored)
    else:
        for name in (FILE, PAGE):
            (folder / name).unlink(missing_ok=True)


def _error_without_answers(config: RunConfig, result: RunResult) -> ConfigError:
    """Return the error of a look without answers: the judge's if requests were sent, or
    else why none was.
    """
    failed = [
        judgment
        for judgment in result.judgments
        if judgment.error_kind not in NEVER_SENT
    ]
    reason = result.manifest.get("stopped")
    remedy = "raise the budget"
    if failed:
        reason = (
            f"{len(failed):,} requests failed, for example case {failed[0].case_id}:"
            f" {failed[0].error}"
        )
        remedy = "run it again when the judge answers"
    return ConfigError(
        f"no answer came back: {reason}",
        where=config.judge.label,
        remedy=f"{remedy}; no look was kept",
    )


def _with(baseline: Baseline, look: Look) -> Baseline:
    other_looks = tuple(
        other_look for other_look in baseline.looks if other_look.key != look.key
    )
    return replace(baseline, looks=(*other_looks, look))


def _paid(look: Look, sent: int, cost_usd: float | None) -> Look:
    """Return a look with the calls that one command added to it, and their cost if it
    is known of all.
    """
    is_priced = look.cost_usd is not None and cost_usd is not None
    return replace(
        look,
        sent=look.sent + sent,
        cost_usd=(look.cost_usd or 0.0) + (cost_usd or 0.0) if is_priced else None,
    )


def _finish_look(baseline: Baseline, look: Look, result: RunResult) -> Baseline:
    """Return the baseline with a look that was judged.

    A look is one judging of the same cases, to compare with earlier ones; it counts if enough of
    its requests were answered. The first look that counts fixes the units, which all later ones
    have in the same order.

    Args:
        baseline: The looks so far.
        look: The look, before its answers are known.
        result: The run that judged it.
    """
    why = _why_incomplete(result)
    judged = replace(
        look,
        complete=why is None,
        why=why,
        models=_reported(result, "model"),
        fingerprints=_reported(result, "fingerprint"),
    )
    paid = _paid(judged, result.calls.sent, result.cost_usd)
    if why is not None:
        return _with(baseline, paid)
    # {unit: (answer, label)}
    answers = answers_of(result.verdicts, result.judgments)
    # The first complete look fixes the units, and their order, for all later ones.
    if not baseline.units:
        baseline = replace(
            baseline,
            units=(*answers,),
            labels=tuple(label for _, label in answers.values()),
            clusters=_clusters_of_units(result, answers),
        )
    no_answer = (None, None)
    in_order = (answers.get(unit, no_answer) for unit in baseline.units)
    answered = replace(paid, answers=tuple(answer for answer, _ in in_order))
    looks = _with(baseline, answered).complete
    span = Scale.of(result.config.rubric).span
    # (looks, units) both: the answers as numbers, and how right they are.
    values, right = as_numbers(
        [complete.answers for complete in looks], baseline.labels, span
    )
    facts = look_facts(values, right, np.array(baseline.clusters))
    return _with(baseline, replace(answered, facts=facts))


def _why_incomplete(result: RunResult) -> str | None:
    """Return why a look does not count, `None` if it does: it stopped, or too many
    requests failed.
    """
    stopped = result.manifest.get("stopped")
    if stopped is not None:
        return redact(str(stopped))
    calls = result.calls
    if calls.failed > result.config.runner.max_failure_rate * calls.planned:
        return redact(f"{calls.failed:,} of {calls.planned:,} requests failed")
    return None


def _clusters_of_units(result: RunResult, units: Iterable[Unit]) -> tuple[int, ...]:
    """Return the cluster of each unit's case, numbered from 0 without gaps."""
    row_of = {case.id: row for row, case in enumerate(result.cases)}
    rows = np.array([row_of[case_id] for case_id, *_ in units])
    clusters = Clusters.of(result.config, result.cases).of_rows(rows)
    _, numbers = np.unique(clusters, return_inverse=True)
    return tuple(numbers.tolist())


def _reported(result: RunResult, name: str) -> dict[str, tuple[str, ...]]:
    """Return what the provider reported about its answers, most frequent first, by judge.

    At most `_MOST_REPORTED` values of a judge are kept, without secrets and signs that do not
    print.

    Args:
        result: The run.
        name: The field of an answer, such as `model`.
    """
    by_judge: dict[str, Counter[str]] = defaultdict(Counter)
    for judgment in result.judgments:
        for completion in filter(None, (judgment.completion, *judgment.earlier)):
            if (value := getattr(completion, name)) is not None:
                clean = "".join(
                    letter if letter.isprintable() else "\ufffd"
                    for letter in redact(value)
                )
                by_judge[judgment.arbiter or judgment.judge][
                    shorten(clean, _LONGEST_REPORTED)
                ] += 1
    return {
        judge: tuple(value for value, _ in counts.most_common(_MOST_REPORTED))
        for judge, counts in by_judge.items()
    }


def _write(folder: Path, baselines: Sequence[Baseline]) -> None:
    files: dict[str, Any] = {
        FILE: encode_pretty({"baselines": baselines}),
        PAGE: render_watch(baselines),
    }
    write_files(folder, files)


@contextmanager
def _claimed(folder: Path, stored: Sequence[Baseline]) -> Iterator[None]:
    """Claim the folder within the block, if it still has the baselines that are `stored`.

    Raises:
        ConfigError: If another process has it, or it cannot be written.
    """
    with claim_folder(folder, "choose another --output"):
        # It was read before the claim: another process may have taken a look meanwhile.
        if read_watch(folder) != stored:
            raise ConfigError(
                "another look was taken just now",
                where=str(folder),
                remedy="run it again",
            )
        yield
