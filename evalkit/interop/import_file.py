"""Import a file of judgments: cases, judgments, and the settings that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from shlex import quote
from typing import Any

from evalkit.benchmarks.benchmark import Importer
from evalkit.benchmarks.judgment_files import Peek, peek
from evalkit.benchmarks.records import ImportedJudgments, Options, ParsedFile
from evalkit.core.classes import fold_class
from evalkit.datasets.formats import reader_for
from evalkit.datasets.named import recognize_benchmark
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.interop import importers as folder
from evalkit.interop.to_cases import guessed_scale, to_cases
from evalkit.plugins import iter_benchmarks
from evalkit.types import Judgment

GENERIC = "generic"
UNKNOWN = "use another file"
"""The remedy for an unknown file."""


def importers() -> dict[str, Importer]:
    """Return the importer of each format by name: the generic one, then benchmarks, then tools.

    Those of tools are in the modules of `importers`; adding one is adding a module.
    """
    modules = (import_module(module.name) for module in iter_modules(folder.__path__, f"{folder.__name__}."))
    own = {module.IMPORTER.name: module.IMPORTER for module in modules}
    published = (benchmark.importer for benchmark in iter_benchmarks() if benchmark.importer is not None)
    return {GENERIC: own[GENERIC], **{one.name: one for one in published}, **own}


def formats() -> dict[str, str]:
    """Return each import format with a description of its files."""
    return {name: one.about for name, one in importers().items()}


def importer(name: str) -> Importer:
    """Return the importer of a format.

    Raises:
        ConfigError: If there is no such format.
    """
    known = importers()
    if name not in known:
        raise ConfigError("no such format", where=f"evalkit import {name}", remedy=did_you_mean(name, known))
    return known[name]


def recognize_format(path: Path) -> str | None:
    """Detect the format of a file or folder; `None` if it is unknown."""
    return _detected(peek(path))


def _detected(start: Peek) -> str | None:
    return next((name for name, one in importers().items() if name != GENERIC and one.sniff(start)), None)


def format_names(start: Peek) -> str | None:
    """Return the remedy for a file of a known format; `None` if the format is unknown."""
    if name := _detected(start):
        return f"it looks like {_command(name, start.path)}"
    if benchmark := recognize_benchmark(start.path):
        return f"it has no judge's verdicts and {benchmark.hint} in evalkit run"
    return None


def describe_formats(start: Peek) -> str:
    """Return the remedy for a file that is not in the named format."""
    if remedy := format_names(start):
        return remedy
    if not start.row and not start.top:
        return UNKNOWN
    keys = ", ".join(map(str, list(start.row or start.top)[:8]))
    return f"its columns are {keys}; map them with evalkit import generic … --fields"


def describe_file(path: Path) -> str | None:
    """Return the remedy for a file used as cases that has judgments; `None` if it has no known ones."""
    name = recognize_format(path)
    return None if name is None else f"it has judgments and looks like {_command(name, path)}"


def _command(name: str, path: Path) -> str:
    return f"{name}: evalkit import {name} {quote(str(path))}"


CRITERION = "quality"
NO_SCALE = "the file does not state the scale of its scores"
GUESSED = NO_SCALE + ": assumed {:g} to {:g}; set rubric.min and rubric.max"
NAMED = "the classes are those in the file"
LOST = "judgments without a usable verdict: {} of {}"
UNREAD = "files in subfolders, not read: {}"


def import_judgments(name: str, path: Path, options: Options) -> ImportedJudgments:
    """Import a file, or a folder of files, in a format.

    Args:
        name: The format.
        path: The file or folder.
        options: The user's options.

    Raises:
        ConfigError: If there is no such format, or it does not support an option.
        DatasetError: If the file is not in this format; the message names the format it looks like.
    """
    made = importer(name)
    if not path.exists():
        raise DatasetError("no such file", where=str(path), remedy="use the file with the judgments")
    start = peek(path)
    if not made.sniff(start):
        remedy = describe_formats(start)
        if remedy == UNKNOWN and path.suffix.lower() in (".csv", ".tsv", ".jsonl"):
            next(iter(reader_for(None, path)(path)), None)  # raises a more specific error if the file cannot be read
        what = "has no readable rows" if remedy == UNKNOWN else f"does not look like {name}"
        raise DatasetError(what, where=str(path), remedy=remedy)
    try:
        found = made.read(path, options)
    except ConfigError as bad:
        raise _with_remedy(bad, name, start, options) from None
    if isinstance(found, ImportedJudgments):
        return replace(found, format=name)
    if not found.records:
        raise DatasetError("has no judgments", where=str(path), remedy="use another file")
    if len({len(record.shown) for record in found.records}) > 1:
        what = "has both scores of single responses and winners of pairs"
        raise DatasetError(what, where=str(path), remedy="import each kind separately")
    cases, judgments, notes = to_cases(found, name)
    settings, guessed = describe_settings(found, judgments)
    if found.benchmark is not None:
        settings["dataset"] = {"benchmark": found.benchmark}
    lost = sum(judgment.status != "ok" for judgment in judgments)
    extra = [LOST.format(lost, len(judgments))] if lost and not found.unread else []
    if path.is_dir() and not found.below and (below := sum(1 for _ in path.glob("*/**/*.json*"))):
        extra.append(UNREAD.format(below))
    all_notes = (*found.notes, *notes, *guessed, *extra)
    return ImportedJudgments(tuple(cases), tuple(judgments), settings, all_notes, unread=found.unread, format=name)


def _with_remedy(bad: ConfigError, name: str, start: Peek, options: Options) -> ConfigError:
    """Return the error, with a better remedy if a file of a known format was imported as generic."""
    if name != GENERIC or options.fields or (remedy := format_names(start)) is None:
        return bad
    return type(bad)(bad.what, where=bad.where, remedy=remedy)


def describe_settings(found: ParsedFile, judgments: Sequence[Judgment]) -> tuple[dict[str, Any], list[str]]:
    """Return the config settings of the judgments, and notes on assumptions."""
    pointwise = len(judgments[0].unit) == 1
    judges = list(dict.fromkeys(judgment.judge for judgment in judgments))
    samples = 1 + max(judgment.sample for judgment in judgments)
    named = dict.fromkeys(name for judgment in judgments for name in judgment.criteria)
    criteria = {name: _criterion(found, name) for name in named or {CRITERION: None}}
    settings: dict[str, Any] = {
        "judge": _judge(judges, any(judgment.weighted is not None for judgment in judgments)),
        "mode": {"name": "pointwise" if pointwise else "pairwise", "samples": samples},
        "criteria": criteria,
        "swap": {"policy": "none" if pointwise else _policy(judgments)},
    }
    if any(judgment.items for judgment in judgments):
        settings["mode"]["name"] = "checklist"
        settings["rubric"] = {"min": 0, "max": 1, "step": 0.01, "levels": {}}
        return settings | ({"scoring": {"checklist": found.rule}} if found.rule else {}), []
    if found.output is not None:
        settings["output"] = dict(found.output)
    if not pointwise:
        return settings, []
    if names := [one.class_name for one in judgments if one.class_name is not None]:
        labels = [one for record in found.records for one in (*record.classes.values(), record.shown[0].class_name)]
        spelled: dict[str, str] = {}
        for one in (*names, *labels):
            if one is not None:
                spelled.setdefault(fold_class(one), one)
        settings["rubric"] = {"classes": dict.fromkeys(spelled.values(), ""), "levels": {}}
        return settings, [f"{NAMED}: {', '.join(spelled.values())}; set rubric for their meanings or the abstention"]
    values = [value for judgment in judgments for value in judgment.criteria.values()]
    low, high, step = found.scale or guessed_scale(values)
    settings["rubric"] = {"min": low, "max": high, "step": step, "levels": {}}
    return settings, [] if found.scale else [GUESSED.format(low, high)]


def _criterion(found: ParsedFile, name: str) -> dict[str, Any]:
    weight = {"weight": found.weights[name]} if name in found.weights else {}
    return {"description": found.criteria.get(name, ""), **weight}


def _judge(names: Sequence[str], weighted: bool) -> Mapping[str, Any]:
    # The temperature is unknown.
    more = {"logprobs": "fallback"} if weighted else {}
    each = [{"name": _plain(name), "model": name, "temperature": None, **more} for name in names]
    return each[0] if len(each) == 1 else {"name": "panel", "model": None, "judges": each}


def _plain(name: str) -> str:
    return " ".join(name.split()) or "judge"


def _policy(judgments: Sequence[Judgment]) -> str:
    """Return `both` if a pair was judged in both orders, `none` if all are in the case's order, otherwise `random`."""
    orders: dict[tuple[Any, ...], set[bool]] = {}
    for one in judgments:
        orders.setdefault((one.judge, one.case_id, one.unit), set()).add(one.shown == one.unit)
    if any(len(seen) > 1 for seen in orders.values()):
        return "both"
    return "random" if any(False in seen for seen in orders.values()) else "none"
