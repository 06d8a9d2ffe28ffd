"""`evalkit store`: look after stored completions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from rich.table import Table

from evalkit.cli.console import plain_console
from evalkit.cli.hydra_runner import check_words
from evalkit.cli.usage import USAGE
from evalkit.errors import ConfigError, did_you_mean
from evalkit.hydra_app import DEFAULT, load_jobs
from evalkit.store import backend_of, open_url, store_location, store_url
from evalkit.store.maintenance import StoreStats, export_to, import_from, prune, stats

OLDER_THAN = "--older-than"
_SECONDS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def main(words: Sequence[str]) -> int:
    """Do one thing with the store that the configuration names; `store.url=FILE` names another.

    Raises:
        ConfigError: if the words do not say what to do.
        StoreError: if the store cannot be used.
    """
    if not words or words[0] not in ACTIONS:
        what = words[0] if words else "evalkit store"
        remedy = did_you_mean(words[0], ACTIONS) if words else USAGE["store"]
        raise ConfigError("no such action" if words else "needs to be told what to do", where=what, remedy=remedy)
    overrides = [word for word in words[1:] if word.startswith("store.")]
    ACTIONS[words[0]](_url(overrides), [word for word in words[1:] if word not in overrides])
    return 0


def _url(overrides: Sequence[str]) -> str:
    check_words(overrides, flags=())
    return store_url(load_jobs(DEFAULT, overrides, sweep=False)[0][1].store.url)


def _stats(url: str, rest: Sequence[str]) -> None:
    _no_more(rest)
    with closing(open_url(url, read_only=True, verify=False)) as store:
        _print(stats(store))


def _prune(url: str, rest: Sequence[str]) -> None:
    words = [part for word in rest for part in word.split("=", 1)]
    if len(words) != 2 or words[0] != OLDER_THAN:
        raise ConfigError("needs an age", where="evalkit store prune", remedy=f"write {OLDER_THAN} 30d (h, d or w)")
    age, where = _age(words[1]), store_location(url)
    if not backend_of(url).exists(url):
        raise ConfigError("no such file", where=where, remedy="name the store in store.url or EVALKIT_STORE")
    with closing(open_url(url)) as store:
        gone = prune(store, age)
    print(f"{gone:,} answers older than {words[1]} taken out of {where}")


def _export(url: str, rest: Sequence[str]) -> None:
    file = _one_file("export", rest)
    with closing(open_url(url, read_only=True, verify=False)) as store:
        written, damaged = export_to(store, file)
    lost = f"; {damaged:,} were damaged and left out" if damaged else ""
    print(f"{written:,} answers written to {file}{lost}")


def _import(url: str, rest: Sequence[str]) -> None:
    file = _one_file("import", rest)
    with closing(open_url(url)) as store:
        added, there = import_from(store, file)
    print(f"{added:,} answers added to {store_location(url)}, {there:,} were there already")


ACTIONS: dict[str, Callable[[str, Sequence[str]], None]] = {
    "stats": _stats,
    "prune": _prune,
    "export": _export,
    "import": _import,
}


def _no_more(rest: Sequence[str]) -> None:
    if rest:
        raise ConfigError("is not understood here", where=rest[0], remedy=USAGE["store"])


def _one_file(action: str, rest: Sequence[str]) -> Path:
    if len(rest) != 1 or rest[0].startswith("-"):
        raise ConfigError("needs one file", where=f"evalkit store {action}", remedy=USAGE["store"])
    return Path(rest[0])


def _age(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text)
    if found is None:
        raise ConfigError("is not an age", where=text, remedy="write a number and h, d or w, for example 30d")
    return float(found[1]) * _SECONDS[found[2]]


def _print(found: StoreStats) -> None:
    console = plain_console()
    size = "" if found.size is None else f", {found.size / 1e6:,.1f} MB"
    console.print(f"{found.path}: {found.completions:,} answers{size}")
    if found.oldest is not None and found.newest is not None:
        console.print(f"stored between {_day(found.oldest)} and {_day(found.newest)}")
    if found.damaged:
        console.print(f"{found.damaged:,} are damaged: `evalkit store export FILE.jsonl` saves the others")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "answers", "tokens", "US$"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for model, of in found.models.items():
        priced = f"{of.cost_usd:,.4f}" if of.unpriced < of.completions else "–"
        table.add_row(model, f"{of.completions:,}", f"{of.tokens:,}", priced)
    console.print(table)


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment):%Y-%m-%d %H:%M}"
