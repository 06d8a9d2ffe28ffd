"""`evalkit plan --probe N`: some requests judged for real, so that estimates rest on what they came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from signal import SIGINT

from evalkit.app import ask_judges
from evalkit.cli.voice import say
from evalkit.cli.ways import Prospect
from evalkit.config import JudgeConfig
from evalkit.engine import Judged
from evalkit.engine import plan as plan_requests
from evalkit.engine.blocking import run_async
from evalkit.engine.probing import Draw, Only
from evalkit.errors import ConfigError, Signaled
from evalkit.judges import spec_of
from evalkit.report.finding import dollars
from evalkit.types import JudgeSpec

FLAG = "--probe"
SUGGESTED = 20


@dataclass(frozen=True, slots=True)
class Probed:
    """What the probe of one judge of a job came to: how many asks were drawn, and what judging them gave."""

    drawn: int
    judged: Judged


def take_probe(words: Sequence[str]) -> tuple[int, list[str]]:
    """Return how many requests of each judge are to be judged, 0 for none, and the other words.

    Raises:
        ConfigError: if it is not a whole number above 0.
    """
    rest: list[str] = []
    count, left = 0, iter(words)
    for word in left:
        flag, equals, value = word.partition("=")
        if flag != FLAG:
            rest.append(word)
            continue
        value = value if equals else next(left, "")
        if not value.isdecimal() or not int(value):
            remedy = f"write {FLAG} {SUGGESTED}"
            raise ConfigError("needs a number of requests, from 1", where=f"{FLAG} {value}".strip(), remedy=remedy)
        count = int(value)
    return count, rest


def check_stores(jobs: Sequence[Prospect]) -> None:
    """Refuse a probe whose answers the run would not find again.

    Raises:
        ConfigError: naming the first job's store that keeps or reads none.
    """
    for job in jobs:
        if (mode := job.config.store.mode) != "read_write":
            what = f"with '{mode}' what a probe pays for is paid for again by the run"
            remedy = f"set store.mode=read_write, or leave {FLAG} out"
            raise ConfigError(what, where="store.mode", remedy=remedy)


def probe(job: Prospect, count: int) -> Iterator[Probed]:
    """Judge `count` requests of each judge of a job, as the run will ask them, and yield what they came to.

    Raises:
        ConfigError: if something is described wrongly.
        JudgeSetupError: if no call to a judge can succeed.
        StoreError: if answers cannot be kept.
        KeyboardInterrupt: if the user stops it; what was answered is stored.
    """
    for judge, spec in zip(job.config.judge.members, spec_of(job.config.judge), strict=True):
        yield _probe(job, judge, spec, count)


def _probe(job: Prospect, judge: JudgeConfig, spec: JudgeSpec, count: int) -> Probed:
    config, draw = job.config, Draw(count)
    plan_requests(job, job.evaluator, [spec], None, draw)
    say("note", f"probe: {spec.name} is asked {len(draw.asks):,} requests, as far as they are not stored")
    swap = config.swap.model_copy(update={"resolve": "tie", "arbiter": None})
    alone = config.model_copy(update={"judge": judge, "swap": swap})
    judged = run_async(ask_judges(alone, draw.cases, Only(job.evaluator, draw)))
    from evalkit.cli.job import failures  # and with it what a run needs

    if judged.interrupted:
        raise Signaled(judged.signal or SIGINT, "interrupted; what was answered is stored")
    for line in failures(judged.judgments):
        say("failure", line)
    return Probed(len(draw.asks), judged)


def told(probes: Sequence[Probed]) -> str:
    """Return in a line what probes cost."""
    drawn = sum(one.drawn for one in probes)
    sent, failed = (sum(getattr(one.judged.calls, name) for one in probes) for name in ("sent", "failed"))
    costs = [one.judged.cost_usd for one in probes]
    paid = None if None in costs else sum(cost for cost in costs if cost is not None)
    tokens = {name: sum(one.judged.tokens.get(name, 0) for one in probes) for name in ("prompt", "completion")}
    price = "price unknown" if paid is None else dollars(paid)
    kept = "; stored for the run" if sent > failed else ""
    return (
        f"probe: {drawn:,} requests drawn at random, {sent:,} calls sent{f', {failed:,} failed' if failed else ''}, "
        f"{tokens['prompt']:,} prompt and {tokens['completion']:,} answer tokens, {price}{kept}"
    )
