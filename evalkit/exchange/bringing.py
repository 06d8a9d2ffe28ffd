"""A file of judgments made elsewhere to cases, judgments and the settings that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.datasets.readers import reader_for
from evalkit.errors import ConfigError, DatasetError
from evalkit.exchange.files import Peek, peek
from evalkit.exchange.formats import UNKNOWN, described, importer, known
from evalkit.exchange.gathering import gather, guessed_scale
from evalkit.exchange.records import Brought, Found, Options
from evalkit.types import Judgment

BATCH = "openai_batch"
CRITERION = "quality"
UNSAID = "the file does not say on what scale its scores are"
GUESSED = UNSAID + ": taken as {:g} to {:g}; set rubric.min and rubric.max"
LOST = "judgments without a verdict that could be used: {} of {}"
UNREAD = "files in folders below, not read: {}"


def bring(name: str, path: Path, options: Options) -> Brought:
    """Return what a file, or a folder of files, holds in the layout that `name` stands for.

    Raises:
        ConfigError: if there is no such format, or an option does not suit it.
        DatasetError: if the file is not in that layout; the message names the format it looks like.
    """
    made = importer(name)
    if not path.exists():
        raise DatasetError("no such file", where=str(path), remedy="name the file that holds the judgments")
    start = peek(path)
    if not made.sniff(start):
        remedy = described(start)
        if remedy == UNKNOWN and path.suffix.lower() in (".csv", ".tsv", ".jsonl"):
            next(iter(reader_for(None, path)(path)), None)  # says better why it cannot be read, if it cannot
        what = "holds no row that can be read" if remedy == UNKNOWN else f"does not look like {name}"
        raise DatasetError(what, where=str(path), remedy=remedy)
    if name == BATCH:
        from evalkit.exchange.importers.openai_batch import texts_of

        return replace(texts_of(path, options), format=name)
    try:
        found = made.read(path, options)
    except ConfigError as bad:
        raise _better(bad, name, start, options) from None
    if not found.records:
        raise DatasetError("holds no judgments", where=str(path), remedy="name another file")
    if len({len(record.shown) for record in found.records}) > 1:
        what = "holds scores of single responses and winners of pairs"
        raise DatasetError(what, where=str(path), remedy="import each kind by itself")
    cases, judgments, notes = gather(found, name)
    settings, guessed = settings_of(found, judgments)
    if found.benchmark is not None:
        settings["dataset"] = {"benchmark": found.benchmark}
    lost = sum(judgment.status != "ok" for judgment in judgments)
    said = [LOST.format(lost, len(judgments))] if lost and not found.unread else []
    if path.is_dir() and not found.below and (below := sum(1 for _ in path.glob("*/**/*.json*"))):
        said.append(UNREAD.format(below))
    told = (*found.notes, *notes, *guessed, *said)
    return Brought(tuple(cases), tuple(judgments), settings, told, unread=found.unread, format=name)


def _better(bad: ConfigError, name: str, start: Peek, options: Options) -> ConfigError:
    """Return the error with a better remedy, if a file of a known layout was to be read by columns of one's own."""
    if name != "generic" or options.fields or (told := known(start)) is None:
        return bad
    return type(bad)(bad.what, where=bad.where, remedy=told)


def settings_of(found: Found, judgments: Sequence[Judgment]) -> tuple[dict[str, Any], list[str]]:
    """Return a config's settings as the judgments have them, and what of them is a guess."""
    pointwise = len(judgments[0].unit) == 1
    judges = list(dict.fromkeys(judgment.judge for judgment in judgments))
    samples = 1 + max(judgment.sample for judgment in judgments)
    named = dict.fromkeys(name for judgment in judgments for name in judgment.criteria)
    criteria = {name: _criterion(found, name) for name in named or {CRITERION: None}}
    settings: dict[str, Any] = {
        "judge": _judge(judges),
        "mode": {"name": "pointwise" if pointwise else "pairwise", "samples": samples},
        "criteria": criteria,
        "swap": {"policy": "none" if pointwise else _policy(judgments)},
    }
    if found.output is not None:
        settings["output"] = dict(found.output)
    if not pointwise:
        return settings, []
    values = [value for judgment in judgments for value in judgment.criteria.values()]
    low, high, step = found.scale or guessed_scale(values)
    settings["rubric"] = {"min": low, "max": high, "step": step, "levels": {}}
    return settings, [] if found.scale else [GUESSED.format(low, high)]


def _criterion(found: Found, name: str) -> dict[str, Any]:
    weighed = {"weight": found.weights[name]} if name in found.weights else {}
    return {"description": found.criteria.get(name, ""), **weighed}


def _judge(names: Sequence[str]) -> Mapping[str, Any]:
    # At what temperature they were asked is not known.
    each = [{"name": _plain(name), "model": name, "temperature": None} for name in names]
    return each[0] if len(each) == 1 else {"name": "panel", "model": None, "judges": each}


def _plain(name: str) -> str:
    return " ".join(name.split()) or "judge"


def _policy(judgments: Sequence[Judgment]) -> str:
    """Return `both` where some pair was seen in both orders, `none` where all were in the case's own, else `random`."""
    orders: dict[tuple[Any, ...], set[bool]] = {}
    for one in judgments:
        orders.setdefault((one.judge, one.case_id, one.unit), set()).add(one.shown == one.unit)
    if any(len(seen) > 1 for seen in orders.values()):
        return "both"
    return "random" if any(False in seen for seen in orders.values()) else "none"
