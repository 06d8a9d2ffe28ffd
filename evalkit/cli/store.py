"""`evalkit store`: count, delete, export, import and copy stored answers."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import datetime

from evalkit.cli.console import plain_console, text_table
from evalkit.cli.parser import UsageError, check_overrides
from evalkit.compose import DEFAULT, load_jobs
from evalkit.core.claims import claim_file
from evalkit.core.display import counted
from evalkit.core.errors import ConfigError
from evalkit.store import backend_of, open_url, store_location, store_url
from evalkit.store.maintenance import (
    StoreStats,
    copy_answers,
    export_to,
    import_from,
    prune,
    prune_damaged,
    stats,
)

_SECONDS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def main(arguments: Namespace) -> int:
    """Run one action on the configured store; `store.url=FILE` names another.

    Raises:
        ConfigError: if an override is not a key of `store`.
        StoreError: if the store cannot be used.
    """
    check_store_words(f"store {arguments.action}", arguments.overrides)
    url = configured_url(arguments.overrides)
    ACTIONS[arguments.action](url, arguments)
    return 0


def check_store_words(command: str, overrides: Sequence[str]) -> None:
    """Check that each word of a command is an override of a key of `store`.

    Raises:
        ConfigError: naming the first word that is not.
    """
    for word in overrides:
        if not word.startswith("store."):
            raise UsageError(command, f"unexpected argument '{word}'")
    check_overrides(overrides)


def configured_url(overrides: Sequence[str]) -> str:
    """Return the URL of the configured store."""
    return store_url(load_jobs(DEFAULT, overrides, sweep=False)[0][1].store.url)


def _stats(url: str, _: Namespace) -> None:
    # Without a check, so that a store with damaged answers can be counted.
    with closing(open_url(url, read_only=True, verify=False)) as store:
        _print_stats(stats(store))


def _prune_answers(url: str, arguments: Namespace) -> None:
    """Delete damaged answers, or those older than an age.

    Raises:
        UsageError: if neither is requested.
        ConfigError: if there is no store.
    """
    if arguments.older_than is None and not arguments.damaged:
        raise UsageError("store prune", "needs --older-than or --damaged")
    age = None if arguments.older_than is None else _age(arguments.older_than)
    where = store_location(url)
    if not backend_of(url).exists(url):
        raise ConfigError(
            "no such file",
            where=where,
            remedy="name the store in store.url or EVALKIT_STORE",
        )
    # A check would refuse the very answers that are to be deleted.
    with closing(open_url(url, verify=not arguments.damaged)) as store:
        if arguments.damaged:
            deleted = counted(prune_damaged(store), "damaged answer")
            print(f"{deleted} deleted from {where}")
        if age is not None:
            deleted = counted(prune(store, age), "answer")
            print(f"{deleted} older than {arguments.older_than} deleted from {where}")


def _export(url: str, arguments: Namespace) -> None:
    with (
        closing(open_url(url, read_only=True, verify=False)) as store,
        claim_file(arguments.file, "choose another file"),
    ):
        written, damaged = export_to(store, arguments.file)
    note = f"; damaged and omitted: {damaged:,}" if damaged else ""
    print(f"{counted(written, 'answer')} written to {arguments.file}{note}")


def _import(url: str, arguments: Namespace) -> None:
    with closing(open_url(url)) as store:
        added, present = import_from(store, arguments.file)
    print(
        f"{counted(added, 'answer')} added to {store_location(url)}; already stored: {present:,}"
    )


def _copy_store(_: str, arguments: Namespace) -> None:
    """Copy the answers of one store to another, and print the numbers."""
    with ExitStack() as stores:
        source = stores.enter_context(
            closing(open_url(arguments.source, read_only=True, verify=False))
        )
        target = stores.enter_context(closing(open_url(arguments.target)))
        added, present, damaged = copy_answers(source, target)
    note = f"; damaged and omitted: {damaged:,}" if damaged else ""
    print(
        f"{counted(added, 'answer')} added to {store_location(arguments.target)}; already stored:"
        f" {present:,}{note}"
    )


ACTIONS: dict[str, Callable[[str, Namespace], None]] = {
    "stats": _stats,
    "prune": _prune_answers,
    "export": _export,
    "import": _import,
    "copy": _copy_store,
}


def _age(text: str) -> float:
    age = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text)
    if age is None:
        raise ConfigError(
            "is not an age",
            where=text,
            remedy="write a number and h, d or w, for example 30d",
        )
    return float(age[1]) * _SECONDS[age[2]]


def _print_stats(stats: StoreStats) -> None:
    """Print how many answers a store has, of which models, and what they cost."""
    console = plain_console()
    size = "" if stats.size is None else f", {stats.size / 1e6:,.1f} MB"
    console.print(f"{stats.path}: {counted(stats.completions, 'answer')}{size}")
    if stats.oldest is not None and stats.newest is not None:
        console.print(f"stored between {_day(stats.oldest)} and {_day(stats.newest)}")
    if stats.damaged:
        damaged = counted(stats.damaged, "damaged answer")
        console.print(
            f"{damaged}: `evalkit store prune --damaged` deletes damaged answers"
        )
    rows = (
        (
            model,
            f"{of.completions:,}",
            f"{of.tokens:,}",
            f"${of.cost_usd:,.4f}" if of.unpriced < of.completions else "–",
        )
        for model, of in stats.models.items()
    )
    console.print(text_table(("model",), ("answers", "tokens", "cost"), rows))


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment):%Y-%m-%d %H:%M}"
