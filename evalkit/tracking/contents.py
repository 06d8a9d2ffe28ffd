"""The contents of a tracked run as plain values; this module does not use MLflow."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, TypedDict

from evalkit.core.display import shorten
from evalkit.core.redaction import without_password
from evalkit.core.regular_files import read_text
from evalkit.core.types import Judgment, Unit, Verdict
from evalkit.runs.layout import FINDINGS, simulated_judges
from evalkit.runs.results import RunResult
from evalkit.runs.side_by_side import letters
from evalkit.scoring.catalog import CATALOG, LEADERBOARD_COLUMNS, SHORT_TITLES
from evalkit.tracking.applicable import applicable, flat

MAIN = 12
"""The metrics that are recorded unless `tracking.metrics` is `all`."""
SHORT = 6
"""The metrics that are also recorded under a short name, which a narrow column shows in full."""
MAX_PARAM = 6_000
MAX_KEY = 250
MAX_ROWS = 1_000
MAX_CELL = 4_000
MAX_TABLE = 1_000_000
"""The most characters of a table; the UI needs seconds to open larger ones."""
DECISION = "decision"
"""The tag that says what a judge is good for."""
USER = "mlflow.user"
NOTE, LONGEST_NOTE = "mlflow.note.content", 8_000
"""The tag that MLflow shows on a run's page, as Markdown."""
_SECRET = re.compile(
    r"(^|[._-])(api[_-]?key|secret|password|authorization|token)$", re.IGNORECASE
)
_NOT_A_NAME = re.compile(r"[^\w./\- ]")


class Table(TypedDict):
    """Rows in the layout that MLflow's table view reads."""

    columns: list[str]
    data: list[list[Any]]


def params(result: RunResult) -> dict[str, str]:
    """Return the settings that apply as texts by flat dotted names, without unset
    values and secrets.
    """
    config = {
        key: value
        for key, value in result.config.dump().items()
        if key != "gate" or result.manifest.get("gate")
    }
    overrides = (result.manifest.get("sweep") or {}).get("overrides") or ()
    settings = applicable(dict(flat(config, "")), result.config, overrides)
    return {
        param_name(key): param_text(key, value)
        for key, value in settings.items()
        if value not in (None, [], {})
    }


def param_text(key: str, value: Any) -> str:
    """Return a param's value as text, short enough for MLflow and without secrets."""
    if _SECRET.search(key):
        return "(hidden)"
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return shorten(without_password(text), MAX_PARAM)


def param_name(key: str) -> str:
    """Return a name that MLflow accepts."""
    return _NOT_A_NAME.sub("_", key)[:MAX_KEY]


def metrics(result: RunResult, *, every: bool = False) -> dict[str, float]:
    """Return the main metrics, each under its name and its interval under `name/low`
    and `name/high`: at most 45.

    An audit has one more metric for each of its probes. First come the values of six under short
    names, which narrow columns tell apart. The metrics of a leaderboard follow, then other headline
    metrics, so that runs of one sweep have the same ones and MLflow shows its columns in this
    order. `calls/sent`, `calls/failed` and `cost_usd` in US dollars follow. With `every`, all
    metrics, calls and tokens are returned.
    """
    # MLflow has no intervals, so the ends of one are metrics of their own.
    names = _ordered_names(result, every)
    values: dict[str, float | int | None] = {
        short: result.metrics[name].value for short, name in short_names(names).items()
    }
    for name in names:
        metric = result.metrics[name]
        values |= {
            name: metric.value,
            f"{name}/low": metric.low,
            f"{name}/high": metric.high,
        }
    calls = (
        ("planned", "stored", "sent", "retried", "failed")
        if every
        else ("sent", "failed")
    )
    values |= {f"calls/{key}": getattr(result.calls, key) for key in calls}
    if every:
        values |= {f"tokens/{key}": count for key, count in result.tokens.items()}
    values["cost_usd"] = result.cost_usd
    return {
        param_name(key): float(value)
        for key, value in values.items()
        if value is not None and isfinite(value)
    }


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the first metrics that have a short name, by that name."""
    short: dict[str, str] = {}
    for name in names:
        title = SHORT_TITLES.get(name, name)
        # A name that MLflow would have to change is not short for anything.
        if title != name and param_name(title) == title:
            short.setdefault(title, name)
    return dict(islice(short.items(), SHORT))


def _ordered_names(result: RunResult, every: bool) -> list[str]:
    """Return the metrics to record, the main ones first; `every` adds all others."""
    present = [
        name for name, metric in result.metrics.items() if metric.value is not None
    ]
    columns = [name for name in LEADERBOARD_COLUMNS if name in present]
    of_benchmarks = [
        name
        for name in present
        if (spec := CATALOG.spec(name)) is not None and spec.benchmark
    ]
    main = [
        # a benchmark's metrics get at most a third of the main ones
        *CATALOG.main(of_benchmarks, MAIN // 3),
        *columns,
        *CATALOG.main(present, len(present)),
    ]
    # Without repeats, in order: the same metric may be a column and a headline.
    first = list(dict.fromkeys(main))[:MAIN]
    ordered = list(dict.fromkeys([*first, *_of_probes(present)]))
    if every:
        return [*ordered, *(name for name in present if name not in set(ordered))]
    return ordered


def _of_probes(names: Sequence[str]) -> list[str]:
    """Return the metric of each probe that tells what the judge falls for: wrong
    answers, or else the shift.
    """
    by_probe: dict[str, str] = {}
    for name in names:
        probe, _, part = name.rpartition("/")
        if probe.startswith("audit/") and (
            part == "passed" or (part == "shift" and probe not in by_probe)
        ):
            by_probe[probe] = name
    return [*by_probe.values()]


def tags(result: RunResult, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a run: hashes, mode, judge, the decision about each judge, and
    the tags in the config.
    """
    manifest = result.manifest
    commit = manifest.get("git_commit")
    notes = manifest.get("notes") or []
    run_tags = {
        "evalkit.run_id": manifest.get("run_id"),
        "evalkit.version": manifest.get("evalkit"),
        "evalkit.config_hash": manifest.get("config_hash"),
        "evalkit.prompt_hash": manifest.get("prompt_hash"),
        "evalkit.git_commit": commit,
        "evalkit.mode": mode(result),
        "evalkit.judge": judge(result),
        "evalkit.simulated": "true" if simulated_judges(manifest) else None,
        "evalkit.dataset": (manifest.get("dataset") or {}).get("fingerprint"),
        "evalkit.test_labels_opened": manifest.get("test_labels_opened"),
        DECISION: result.decision.use,
        **{
            f"judge/{name}/{DECISION}": decision.use
            for name, decision in result.decisions.items()
        },
        "evalkit.gate": (manifest.get("gate") or {}).get("state"),
        "evalkit.notes": "; ".join(notes),
        "mlflow.source.name": "evalkit run",
        "mlflow.source.type": "LOCAL",
        USER: user(),
        "mlflow.runType": "genai_evaluate",
        "mlflow.source.git.commit": commit,
        **extra,
    }
    return {param_name(key): str(value) for key, value in run_tags.items() if value}


def user() -> str | None:
    """Return the name of the user of this machine, as MLflow finds it; `None` if it has none."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return None


def description(result: RunResult) -> dict[str, str]:
    """Return the run's findings as the tag that MLflow shows as a description, or
    nothing if it has none.
    """
    path = Path(result.folder or "") / FINDINGS
    if not result.folder or not path.is_file():
        return {}
    return {NOTE: read_text(path)[:LONGEST_NOTE]}


def mode(result: RunResult) -> str:
    """Return the mode's name."""
    return str(result.manifest.get("mode") or result.config.mode.name)


def judge(result: RunResult) -> str:
    """Return the judge's name in this run."""
    return str(result.manifest.get("judge") or result.config.judge.model or "judge")


def run_name(result: RunResult, chosen: str | None) -> str:
    """Return the run's name: the overrides of a sweep's job, otherwise the configured
    name or mode and judge.
    """
    sweep = result.manifest.get("sweep") or {}
    if overrides := sweep.get("overrides"):
        return without_password(", ".join(overrides))[:MAX_KEY]
    short = str(result.manifest.get("config_hash") or "")[:8]
    return chosen or "-".join(
        part for part in (mode(result), judge(result), short) if part
    )


def milliseconds(stamp: str | None) -> int | None:
    """Return an ISO 8601 time as milliseconds since 1970."""
    if stamp:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000)
    return None


def judgment_table(result: RunResult) -> Table:
    """Return the first judgments as a table, each with its prompt and responses."""
    columns: dict[str, Callable[[Judgment], Any]] = {
        "item": lambda j: (
            f"{_item(j.case_id, j.unit)}, shown {letters(j.shown)}"
            + (f", {j.sample}" if j.sample else "")
        ),
        "value": lambda j: j.value,
        "class": lambda j: j.class_name,
        "status": lambda j: j.status,
        "judge": lambda j: j.judge,
        "confidence": lambda j: j.confidence,
        "criteria": lambda j: _compact(j.criteria),
        "read_by": lambda j: j.read_by,
        "error": lambda j: j.error,
        "completion": lambda j: _cell(j.completion.text if j.completion else None),
        "cost_usd": lambda j: j.completion and j.completion.cost_usd,
        "latency": lambda j: j.completion and j.completion.latency,
    }
    return _table(result.judgments, columns)


def verdict_table(result: RunResult) -> Table:
    """Return the first verdicts as a table, each with its case's prompt and responses."""
    case_ids = {verdict.case_id for verdict in result.verdicts[:MAX_ROWS]}
    cases = {case.id: case for case in result.cases if case.id in case_ids}

    def texts(verdict: Verdict) -> str | None:
        case = cases.get(verdict.case_id)
        if case:
            return "\n\n".join(
                f"[{letters((i,))}] {case.responses[i].text}" for i in verdict.unit
            )
        return None

    columns: dict[str, Callable[[Verdict], Any]] = {
        "item": lambda v: _item(v.case_id, v.unit),
        "winner": lambda v: v.winner,
        "score": lambda v: v.score,
        "class": lambda v: v.class_name,
        "reason": lambda v: v.reason,
        "margin": lambda v: v.margin,
        "confidence": lambda v: v.confidence,
        "label": lambda v: v.label,
        "first": lambda v: v.orders and v.orders.first,
        "second": lambda v: v.orders and v.orders.second,
        "consistent": lambda v: v.orders and v.orders.consistent,
        "criteria": lambda v: _compact(v.criteria),
        "prompt": lambda v: _cell(
            cases[v.case_id].prompt if v.case_id in cases else None
        ),
        "responses": lambda v: _cell(texts(v)),
    }
    return _table(result.verdicts, columns)


def table_note(tables: Mapping[str, Table], result: RunResult) -> str | None:
    """Return how many rows the tables `judgments` and `verdicts` omit, or `None` if
    they have every row.
    """
    counts = {"judgments": len(result.judgments), "verdicts": len(result.verdicts)}
    held = {name: len(table["data"]) for name, table in tables.items()}
    cut = [
        f"the first {held[name]:,} of {n:,} {name}"
        for name, n in counts.items()
        if n > held[name]
    ]
    if cut:
        return f"tables hold {' and '.join(cut)}; the .jsonl files have all rows"
    return None


def _table(rows: Sequence[Any], columns: Mapping[str, Callable[[Any], Any]]) -> Table:
    """Return a table of the first rows that fit, without empty columns.

    The UI compares runs by the first column.
    """
    filled = list(
        _filling([[read(row) for read in columns.values()] for row in rows[:MAX_ROWS]])
    )
    # Indexes of the columns that have a value in some row.
    used = [
        at
        for at in range(len(columns))
        if any(row[at] not in (None, "") for row in filled)
    ]
    names = list(columns)
    return {
        "columns": [names[at] for at in used],
        "data": [[row[at] for at in used] for row in filled],
    }


def _filling(rows: Sequence[list[Any]]) -> Iterator[list[Any]]:
    """Yield rows until their table has `MAX_TABLE` characters, but at least one row."""
    size = 0
    for index, row in enumerate(rows):
        size += sum(len(value) if isinstance(value, str) else 8 for value in row)
        if index and size > MAX_TABLE:
            return
        yield row


def _item(case_id: str, unit: Unit) -> str:
    return f"{case_id} {letters(unit)}"


def _cell(text: str | None) -> str | None:
    if text is None:
        return None
    return shorten(text, MAX_CELL)


def _compact(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())
