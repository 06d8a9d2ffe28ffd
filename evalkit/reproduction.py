"""A finished run done again from its own config and stored answers, and compared with what it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from evalkit.app import Materials, ask_judges, describe, prepare
from evalkit.config import RunConfig
from evalkit.datasets import Dataset
from evalkit.datasets.files import STDIN
from evalkit.datasets.fingerprints import fingerprint
from evalkit.engine.blocking import run_async
from evalkit.evaluators import make_evaluator
from evalkit.resources import project
from evalkit.scoring import score_run
from evalkit.types import Judgment, Metric, RunResult

NUMBERS = ("value", "low", "high", "n", "missing", "worst_low", "worst_high")
NEVER_STORED = ("failed", "refused")
"""What is no answer is not kept in the store: it cannot be asked of it again."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not what it was; `was` and `now` are as people read them, or numbers."""

    what: str
    was: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What became of a run done again.

    `metrics` names every number that differs, as `metric value`, `metric low` and so on; `reasons` what else differs,
    whether or not a number hangs on it. `compared` counts the metrics, `answers` the requests, and `carried` those of
    them that had failed or been refused and were taken over as they stood, since no store holds them. `kept` names the
    source that cannot be read again (a frame, standard input), so that the run's own cases were judged.
    """

    metrics: tuple[Change, ...]
    reasons: tuple[Change, ...]
    compared: int
    answers: int
    carried: int
    kept: str | None = None

    @property
    def equal(self) -> bool:
        """Whether every metric is the same to the last bit."""
        return not self.metrics


def reproduce(result: RunResult, config: RunConfig) -> Reproduction:
    """Judge a run's cases again from stored answers alone, score them, and compare; nothing is written anywhere.

    The judgments of an imported run, which no judge of this store gave, are its folder's own; so are the cases of a run
    whose data came from a frame or from standard input, unless `dataset.path` names a file now.

    Args:
        result: the run as it was.
        config: its config, but for where store and dataset are to be found.

    Raises:
        ConfigError: if the dataset, a template or a plug-in is no longer what the config says.
        StoreError: if the store is not there or cannot be read.
    """
    config = config.model_copy(update={"store": config.store.model_copy(update={"mode": "read_only"})})
    kept = _gone(result, config)
    if result.manifest.get("imported"):
        materials, judgments, carried = _own(result, config), list(result.judgments), 0
    else:
        materials = prepare(config) if kept is None else _own(result, config)
        judged = run_async(ask_judges(config, materials.dataset.cases, materials.evaluator))
        judgments, carried = _carry_over(judged.judgments, result.judgments)
    metrics = score_run(config, materials.dataset.cases, judgments).metrics
    return Reproduction(
        tuple(_different_numbers(result.metrics, metrics)),
        (*_different_things(result, config, materials), *_different_answers(result.judgments, judgments)),
        compared=len(metrics),
        answers=len(judgments),
        carried=carried,
        kept=kept,
    )


def _gone(result: RunResult, config: RunConfig) -> str | None:
    """Return what a run's cases came from, if it was no file and can be read only once."""
    if config.dataset.path not in (None, STDIN) or result.manifest.get("imported"):
        return None
    return str((result.manifest.get("dataset") or {}).get("source") or "frame")


def _own(result: RunResult, config: RunConfig) -> Materials:
    """Return the materials of a run with the cases that its folder keeps."""
    source = str((result.manifest.get("dataset") or {}).get("source") or "")
    dataset = Dataset(tuple(result.cases), fingerprint(result.cases), source, ())
    return Materials(dataset, make_evaluator(config, prompt_folders=[project() / "prompts"]))


def _place(judgment: Judgment) -> tuple[Any, ...]:
    one = judgment
    return one.case_id, one.judge, one.unit, one.shown, one.sample, one.arbiter


def _carry_over(again: Sequence[Judgment], before: Sequence[Judgment]) -> tuple[list[Judgment], int]:
    """Return the judgments, those that no store can hold in place of the gaps they left, and how many these are."""
    lost = {_place(one): one for one in before if one.status in NEVER_STORED}
    found = [lost.get(_place(one), one) if one.error_kind == "not_stored" else one for one in again]
    return found, sum(one is not other for one, other in zip(found, again, strict=True))


def _different_numbers(before: Mapping[str, Metric], again: Mapping[str, Metric]) -> Iterator[Change]:
    for name in dict.fromkeys((*before, *again)):
        one, other = before.get(name), again.get(name)
        if one is None or other is None:
            yield Change(name, *("there" if metric else "not there" for metric in (one, other)))
            continue
        for number in NUMBERS:
            was, now = getattr(one, number), getattr(other, number)
            if was != now:
                yield Change(f"{name} {number}", was, now)


def _different_things(result: RunResult, config: RunConfig, materials: Materials) -> Iterator[Change]:
    was, now = result.manifest, describe(config, materials, datetime.now(UTC))
    dataset, prompts = was.get("dataset") or {}, {} if was.get("imported") else now["prompt_hashes"]
    pairs = [
        *((f"prompt {name}", *both) for name, both in _both(was.get("prompt_hashes"), prompts)),
        ("dataset fingerprint", dataset.get("fingerprint"), now["dataset"]["fingerprint"]),
        ("dataset rows", dataset.get("rows"), now["dataset"]["rows"]),
        *((f"judge {name}", *both) for name, both in _both(_models(was.get("judges")), _models(now["judges"]))),
        ("evalkit", was.get("evalkit"), now["evalkit"]),
        ("python", was.get("python"), now["python"]),
        *((f"package {name}", *both) for name, both in _both(was.get("packages"), now["packages"])),
        ("git commit", was.get("git_commit"), now["git_commit"]),
    ]
    yield from (Change(what, before, after) for what, before, after in pairs if before != after)


def _both(was: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in dict.fromkeys((*(was or {}), *now)):
        yield name, ((was or {}).get(name), now.get(name))


def _models(judges: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    return {str(one.get("name")): str(one.get("model")) for one in judges or ()}


def _different_answers(before: Sequence[Judgment], again: Sequence[Judgment]) -> Iterator[Change]:
    """Yield how many answers are not there, are others, or are read in another way, each over the same requests."""
    was = {_place(one): one for one in before}
    counts = Counter(_difference(was.get(_place(one)), one) for one in again)
    counts["requests that the run did not make"] += counts.pop("new", 0)
    gone = len(was.keys() - {_place(one) for one in again})
    for what, count in (*counts.items(), ("requests that are not made any more", gone)):
        if what and count:
            yield Change(what, 0, count)


def _difference(was: Judgment | None, now: Judgment) -> str:
    if was is None:
        return "new"
    if now.error_kind == "not_stored":
        return "answers that are not in the store"
    if was.status in NEVER_STORED and now.status not in NEVER_STORED:
        return "answers that have come since"
    texts = [None if one.completion is None else one.completion.text for one in (was, now)]
    if texts[0] != texts[1]:
        return "answers of another wording"
    return "" if _said(was) == _said(now) else "answers that are read otherwise"


def _said(judgment: Judgment) -> Judgment:
    """Return what a judgment says, without how it came."""
    return replace(judgment, completion=None, stored=False, keys=())
