"""`evalkit plan`: what a run or a sweep would ask, and what of it is already stored."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from evalkit.app import stream
from evalkit.cli.driving import MULTIRUN, check_words, split_study, sweeps
from evalkit.cli.voice import say
from evalkit.compose import DEFAULT, load_jobs
from evalkit.config import RunConfig, StoreConfig
from evalkit.engine import Plan
from evalkit.engine import plan as plan_requests
from evalkit.judges import spec_of
from evalkit.judges.prices import price_of
from evalkit.protocols import Store
from evalkit.store import open_store, store_path

WIDE = 200  # a file or a pipe has no width that a table must keep to
ANSWER_TOKENS = 350  # what a reasoned JSON answer for three criteria comes to, where no stored answer tells


def main(words: Sequence[str]) -> int:
    """Print each job's requests, stored answers and tokens still to pay; nothing is called or written."""
    study, rest = split_study(words)
    check_words(rest, flags=MULTIRUN)
    sweep = sweeps(study, rest)
    jobs = load_jobs(str(study) if study else DEFAULT, [w for w in rest if w not in MULTIRUN], sweep=sweep)
    told: set[str] = set()
    print_plans([(name, config, plan_job(config, told)) for name, config in jobs])
    return 0


def plan_job(config: RunConfig, told: set[str]) -> Plan:
    """Return what one job would ask; say whose benchmark it is, unless that is among what was `told`."""
    cases, evaluator = stream(config)
    store = _store(config.store)
    try:
        plan = plan_requests(cases, evaluator, spec_of(config.judge), store)
    finally:
        if store:
            store.close()
    if cases.benchmark is not None and cases.benchmark.note not in told:
        told.add(cases.benchmark.note)
        say("note", cases.benchmark.note)
    return plan


def _store(config: StoreConfig) -> Store | None:
    """Open the store if it is there: what a run would make is left to the run."""
    path = store_path(config.url)
    new = not path.exists() or path.stat().st_size == 0
    looks = config.mode == "read_only" or (config.mode == "read_write" and not new)
    return open_store(config) if looks else None


def cost(config: RunConfig, plan: Plan) -> float | None:
    """Return about how many US$ are still to be paid for a job; none where a price is not known."""
    if config.judge.judges is not None:
        return None if plan.unique else 0.0
    price = price_of(config.judge)
    if price is None:
        return None if plan.unique else 0.0
    return (plan.prompt_tokens * price.input + plan.unique * answer_length(plan) * price.output) / 1e6


def answer_length(plan: Plan) -> float:
    """Return about how many tokens an answer has: the mean of those that are stored already, if any are."""
    return plan.answer_tokens / plan.answers if plan.answers else ANSWER_TOKENS


def minutes(config: RunConfig, plan: Plan) -> float | None:
    """Return how many minutes the judge's `rpm` and `tpm` make the calls take at least; none where it has neither."""
    tokens = plan.prompt_tokens + plan.unique * answer_length(plan)
    limits = ((plan.unique, config.judge.rpm), (tokens, config.judge.tpm))
    return max((amount / limit for amount, limit in limits if limit), default=None)


def print_plans(jobs: Sequence[tuple[Sequence[str], RunConfig, Plan]]) -> None:
    """Print the table of planned jobs, with a total that counts a request shared by several jobs once."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("job", "requests", "stored", "to send", "prompt tokens, about", "US$, about"):
        table.add_column(column, justify="left" if column == "job" else "right")
    total = Plan()
    to_pay: float | None = 0.0
    for place, (name, config, plan) in enumerate(jobs):
        table.add_row(" ".join(name) or "the run", *_cells(plan, cost(config, plan)))
        fresh = plan.after([before for _, _, before in jobs[:place]])
        added = cost(config, fresh)
        to_pay = None if to_pay is None or added is None else to_pay + added
        total = Plan(
            total.requests + plan.requests,
            total.stored + plan.stored,
            total.unique + fresh.unique,
            total.prompt_tokens + fresh.prompt_tokens,
        )
    if len(jobs) > 1:
        table.add_row("all, shared requests once", *_cells(total, to_pay), style="bold")
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    console.print(table)
    if to_pay:
        lengths = sorted({round(answer_length(plan)) for _, _, plan in jobs if plan.unique})
        at = f"{lengths[0]}" if lengths[0] == lengths[-1] else f"{lengths[0]} to {lengths[-1]}"
        guessed = any(plan.unique and not plan.answers for _, _, plan in jobs)
        why = "a guess until some are stored" if guessed else "the mean of those stored"
        console.print(f"US$ at {at} tokens an answer, {why}; re-asks come on top")
    if waits := [wait for _, config, plan in jobs if (wait := minutes(config, plan))]:
        console.print(f"at judge.rpm and judge.tpm: at least {max(waits):.1f} minutes for the longest job")


def _cells(plan: Plan, dollars: float | None) -> list[str]:
    counts = [f"{value:,}" for value in (plan.requests, plan.stored, plan.unique, plan.prompt_tokens)]
    return [*counts, "price unknown" if dollars is None else f"{dollars:.4f}"]
