"""`evalkit plan`: what a run or a sweep would ask, and what of it is already stored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evalkit.app import stream
from evalkit.cli.driving import MULTIRUN, check_words, split_study, sweeps
from evalkit.cli.estimates import ORIGINS, Length, Part, length_of, minutes
from evalkit.cli.probing import FLAG, SUGGESTED, Probed, check_stores, probe, take_probe, told
from evalkit.cli.voice import say
from evalkit.cli.ways import Prospect, foreseeable, looking
from evalkit.compose import DEFAULT, load_jobs
from evalkit.config import JudgeConfig, RunConfig
from evalkit.engine import Plan, foreseen_plans
from evalkit.engine import plan as plan_requests
from evalkit.errors import ExitStatus
from evalkit.evaluators.guarding import foresight
from evalkit.gating import check_gate
from evalkit.judges import spec_of
from evalkit.store import SqliteStore
from evalkit.store.lately import lately
from evalkit.types import Completion, JudgeSpec

WIDE = 200  # a file or a pipe has no width that a table must keep to


@dataclass(frozen=True, slots=True)
class Planned:
    """A job by its overrides, and what each of its judges is to be asked: by itself, and after the jobs before it."""

    name: Sequence[str]
    config: RunConfig
    parts: Sequence[Part]
    fresh: Sequence[Part]


def main(words: Sequence[str]) -> int:
    """Print each job's requests, stored answers and tokens still to pay; nothing is called or written.

    But `--probe N` has N requests of each judge judged, and stored, so that the estimates rest on them.
    """
    count, words = take_probe(words)
    study, rest = split_study(words)
    check_words(rest, flags=MULTIRUN, also=(FLAG,))
    sweep = sweeps(study, rest)
    loaded = load_jobs(str(study) if study else DEFAULT, [w for w in rest if w not in MULTIRUN], sweep=sweep)
    jobs = [Prospect.of(name, config) for name, config in loaded]
    for job in jobs:
        check_gate(job.config, job)
    probes = _probes(jobs, count)
    quick = foreseeable(jobs)
    whose: set[str] = set()
    planned: list[Planned] = []
    for job in jobs:
        asked = plan_job(job, whose, quick)
        parts = [part.after(asked[:place]) for place, part in enumerate(asked)]
        before = [part for other in planned for part in other.parts]
        fresh = [part.after([*before, *parts[:place]]) for place, part in enumerate(parts)]
        planned.append(Planned(job.name, job.config, parts, fresh))
    print_plans(planned)
    if probes:
        print(told(probes))
    hopeless = any(one.drawn and one.judged.calls.failed == one.judged.calls.planned for one in probes)
    return int(ExitStatus.TOO_MANY_FAILURES if hopeless else ExitStatus.DONE)


def _probes(jobs: Sequence[Prospect], count: int) -> list[Probed]:
    if not count:
        return []
    check_stores(jobs)
    return [probed for job in jobs for probed in probe(job, count)]


def plan_job(job: Prospect, whose: set[str], quick: Collection[str] = ()) -> list[Part]:
    """Return what each judge of a job is to be asked; say whose benchmark it is, unless it is in `whose` already.

    What models in `quick` are asked is told without filling a prompt.
    """
    cases, specs, foresee = stream(job.config), spec_of(job.config.judge), foresight(job.evaluator)
    foreseen = [spec for spec in specs if foresee is not None and spec.model in quick]
    told_of: dict[str, Plan] = {}
    if foresee is not None and foreseen:
        plans = foreseen_plans(cases.texts(), foresee, foreseen)
        told_of = {spec.name: plan for spec, plan in zip(foreseen, plans, strict=True)}
    if cases.benchmark is not None and cases.benchmark.note not in whose:
        whose.add(cases.benchmark.note)
        say("note", cases.benchmark.note)
    with looking(job.config.store) as store:
        judges = zip(job.config.judge.members, specs, strict=True)
        return [_part(job, judge, spec, store, told_of.get(spec.name)) for judge, spec in judges]


def _part(job: Prospect, judge: JudgeConfig, spec: JudgeSpec, store: SqliteStore | None, foreseen: Plan | None) -> Part:
    plan = plan_requests(job, job.evaluator, [spec], store) if foreseen is None else foreseen

    @cache
    def latest() -> list[Completion]:
        return lately(store, spec.model) if store is not None and store.reads and foreseen is None else []

    return Part(judge, plan, length_of(plan, latest, judge.max_tokens))


def print_plans(jobs: Sequence[Planned]) -> None:
    """Print the table of planned jobs, with a total that counts a request shared by several jobs once."""
    times = [minutes(job.fresh, job.config.runner) for job in jobs]
    timed = any(times)
    table = Table(box=None, pad_edge=False, header_style="bold")
    counts = ("requests", "stored", "to send", *(("shared",) if len(jobs) > 1 else ()))
    abouts = ("prompt tokens", "answer tokens", *(("minutes",) if timed else ()), "US$")
    for column in ("job", *counts, *(f"{name}, about" for name in abouts)):
        table.add_column(column, justify="left" if column == "job" else "right")
    same = set.intersection(*(set(job.name) for job in jobs)) if len(jobs) > 1 else set()
    for job in jobs:
        name = escape(" ".join(word for word in job.name if word not in same))
        shared = [_unique(job.parts) - _unique(job.fresh)] if len(jobs) > 1 else []
        takes = [minutes(job.parts, job.config.runner)] if timed else []
        table.add_row(name or "the run", *_cells(job.parts, job.parts, shared, takes))
    parts, fresh = [part for job in jobs for part in job.parts], [part for job in jobs for part in job.fresh]
    if len(jobs) > 1:
        known = None if None in times else sum(time for time in times if time is not None)
        shared = [sum(_unique(job.parts) - _unique(job.fresh) for job in jobs)]
        cells = _cells(parts, fresh, shared, [known] if timed else [])
        table.add_row("all, shared requests once", *cells, style="bold")
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    console.print(table)
    for line in (*_lengths(fresh), *_unpriced(fresh)):
        console.print(line)


def _unique(parts: Sequence[Part]) -> int:
    return sum(part.plan.unique for part in parts)


def _cells(
    parts: Sequence[Part], fresh: Sequence[Part], shared: Sequence[int], takes: Sequence[float | None]
) -> list[str]:
    costs = [part.cost for part in fresh]
    dollars = None if None in costs else sum(cost for cost in costs if cost is not None)
    counts = [
        sum(part.plan.requests for part in parts),
        sum(part.plan.stored for part in parts),
        _unique(fresh),
        *shared,
    ]
    tokens = [sum(part.plan.prompt_tokens for part in fresh), round(sum(part.answer_tokens for part in fresh))]
    return [
        *(f"{count:,}" for count in (*counts, *tokens)),
        *("unknown" if time is None else f"{time:.1f}" for time in takes),
        "price unknown" if dollars is None else f"{dollars:.4f}",
    ]


def _lengths(parts: Sequence[Part]) -> Iterator[str]:
    """Yield a line on what the length of answers rests on, a half-sentence for each origin."""
    said = []
    for origin, words in ORIGINS.items():
        found = [part.length for part in parts if part.plan.unique and part.length.origin == origin]
        if found:
            low, high = (f"{round(end(one.tokens for one in found)):,}" for end in (min, max))
            count = f"{max(one.answers for one in found):,}"
            said.append(f"{low if low == high else f'{low} to {high}'} tokens {words.format(count)}{_around(found)}")
    if said:
        yield f"length of answers: {'; '.join(said)}. Asking again and third judgments come on top"
    if any(part.plan.unique and part.length.origin == "assumed" for part in parts):
        yield f"{FLAG} {SUGGESTED} would measure it, for the price of {SUGGESTED} requests of each judge"


def _around(lengths: Sequence[Length]) -> str:
    """Return how far off they may be (95 %): one in tokens, of several the worst as a share; nothing if not known."""
    if any(one.within is None for one in lengths):
        return ""
    if len(lengths) == 1:
        return f" (± {lengths[0].within:.0f})"
    worst = max((one.within or 0.0) / one.tokens if one.tokens else 0.0 for one in lengths)
    return f" (± {worst:.0%} at most)"


def _unpriced(parts: Sequence[Part]) -> Iterator[str]:
    if names := sorted({part.judge.label for part in parts if part.cost is None}):
        example = "'judge.price={input: 0.15, output: 0.6}'"
        yield f"price unknown: {', '.join(names)}; set it in US$ per million tokens, for example {example}"
