"""`evalkit doctor`, `tools` and `plugins`: check what a run needs, and list what is installed."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.text import Text

from evalkit.cli.console import plain_console
from evalkit.cli.hydra_runner import study_jobs
from evalkit.cli.parser import study_words
from evalkit.config import RunConfig
from evalkit.core.display import counted
from evalkit.core.errors import EvalkitError, PluginError
from evalkit.core.plugins import GROUPS, VARIABLE, Offer, iter_offers
from evalkit.core.redaction import redact, without_password
from evalkit.core.resources import own_version
from evalkit.engine.event_loop import run_async
from evalkit.judges import check_judges
from evalkit.runs.manifest import PACKAGES, version_of
from evalkit.store import backend_of, open_store, store_location, store_url
from evalkit.tracking import MLFLOW, check_tracking, make_tracker, tracking_uri
from evalkit.workflows.materials import load_materials

Check = tuple[str, Callable[[], str]]


def main(arguments: Namespace) -> int:
    """Check what a configuration needs; return 1 if something is missing."""
    [(_, config)] = study_jobs(study_words(arguments))
    console = plain_console()
    wrong = 0
    # All checks are made, also after one that fails: the user gets the whole list.
    for name, check in _checks(config):
        try:
            mark = ("ok   ", "green")
            answer = check()
        except (EvalkitError, OSError) as error:
            mark = ("wrong", "red")
            answer = redact(str(error))
            wrong = wrong + 1
        console.print(Text.assemble(mark, f" {name}: {answer}"))
    if wrong:
        return 1
    return 0


def _checks(config: RunConfig) -> Iterator[Check]:
    """Yield the name of each check with a function that returns what it finds, or raises."""
    yield "python", platform.python_version
    yield "evalkit", lambda: _installed(own_version())
    for package in PACKAGES:
        # The default binds the package: the functions are called after the loop.
        yield package, lambda package=package: _installed(version_of(package))  # type: ignore[misc]
    yield (
        "dataset and prompts",
        lambda: counted(len(load_materials(config).dataset.cases), "case"),
    )
    yield "judge", lambda: run_async(check_judges(config))
    yield "store", lambda: _describe_store(config)
    yield "run folder", _writable
    yield "plug-ins", _count_plugins
    if config.tracking.enabled:
        yield "tracking", lambda: _tracking(config)


def _tracking(config: RunConfig) -> str:
    if config.tracking.tracker == MLFLOW:
        uri = tracking_uri(config.tracking)
        check_tracking(uri)
        return without_password(uri)
    make_tracker(config.tracking)
    return config.tracking.tracker


def _installed(version: str | None) -> str:
    if version is None:
        raise OSError("not installed")
    return version


def _describe_store(config: RunConfig) -> str:
    """Return where answers are stored, after opening the store or checking that it can be created.

    Raises:
        StoreError: if it cannot be used.
    """
    if config.store.mode == "off":
        return "off: every run pays for all its calls"
    url = store_url(config.store.url)
    backend = backend_of(url)
    if config.store.mode != "read_only" and not backend.exists(url):
        backend.check_creatable(url)
        return f"{store_location(url)} (the first run creates it)"
    store = open_store(config.store)
    if store is not None:
        store.close()
    return store_location(url)


def _count_plugins() -> str:
    """Return how many plug-ins there are.

    Raises:
        PluginError: if one cannot be used; it names the first.
    """
    offers = list(iter_offers())
    problems = [offer for offer in offers if offer.problem]
    if problems:
        first = problems[0]
        raise PluginError(
            first.problem,
            where=f"{first.package} ({first.group} '{first.name}')",
            remedy="`evalkit plugins` lists all",
        )
    if offers:
        return f"{len(offers)} of other packages"
    return "none"


def _writable() -> str:
    with tempfile.TemporaryFile(dir=Path.cwd()):
        return f"{Path.cwd()} can be written"


def plugins(_: Namespace) -> int:
    """Print every plug-in of other packages; return 1 if one cannot be used."""
    offers = list(iter_offers())
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        print(f"{VARIABLE}={chosen}: only the plug-ins listed there are used")
    if not offers:
        print(f"no other package adds any of: {', '.join(GROUPS.values())}")
        return 0
    rows = [("what", "name", "package", "from"), *map(_row, offers)]
    # The last column is not padded: it may be long.
    *padded_columns, _last_column = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in padded_columns]
    for *padded, last in rows:
        cells = [cell.ljust(width) for cell, width in zip(padded, widths, strict=True)]
        print("  ".join([*cells, last]))
    if any(offer.problem for offer in offers):
        return 1
    return 0


def _row(offer: Offer) -> tuple[str, str, str, str]:
    if offer.problem:
        origin = f"wrong: {offer.problem}"
    else:
        if offer.location:
            origin = f"{offer.value} ({offer.location})"
        else:
            origin = offer.value
    return GROUPS.get(offer.group, offer.group), offer.name, offer.package, origin


def tools(arguments: Namespace) -> int:
    """Print the schemas of both tools as JSON."""
    from evalkit.serving.tools.models import tool_schemas

    print(json.dumps(tool_schemas(arguments.format), indent=2, ensure_ascii=False))
    return 0
