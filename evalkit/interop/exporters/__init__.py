"""Export a run's judgments in other projects' formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from evalkit.errors import ConfigError
from evalkit.interop.exporters.judged import alpaca_eval, mt_bench
from evalkit.interop.exporters.table import as_parquet, rows_of_run, table_as_csv
from evalkit.interop.label_sampling import LabelSample
from evalkit.interop.labeling import Task, argilla_records, label_studio_tasks, label_tasks
from evalkit.results import RunResult


def _listed(rows: list[dict[str, object]]) -> bytes:
    return (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace")


def _lines(rows: list[dict[str, object]]) -> bytes:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return text.encode("utf-8", "backslashreplace")


def _tasks(result: RunResult, seed: int, sample: LabelSample | None) -> list[Task]:
    if sample is None:
        return label_tasks(result, seed=seed)
    return label_tasks(result, seed=seed, units=sample.units, probabilities=sample.probabilities)


CSV = "csv"
EXPORTS: Mapping[str, tuple[str, Callable[[RunResult, int, LabelSample | None], bytes]]] = MappingProxyType(
    {
        CSV: ("csv", lambda result, *_: table_as_csv(rows_of_run(result))),
        "parquet": ("parquet", lambda result, *_: as_parquet(rows_of_run(result))),
        "alpaca_eval": ("json", lambda result, *_: _listed(alpaca_eval(result))),
        "mt_bench": ("jsonl", lambda result, *_: _lines(mt_bench(result))),
        "argilla": ("json", lambda *asked: _listed(argilla_records(_tasks(*asked)))),
        "label_studio": ("json", lambda *asked: _listed(label_studio_tasks(_tasks(*asked)))),
    }
)
"""Each format, with its file's suffix and its exporter."""


def export(
    result: RunResult, name: str, seed: int = 0, sample: LabelSample | None = None, *, raw: bool = False
) -> bytes:
    """Return a run's judgments in a format of `EXPORTS`, as the content of one file.

    Labeling tasks are shuffled by `seed`; `sample` selects them. In CSV, texts that a spreadsheet
    would execute get a leading `'`, unless `raw`.

    Raises:
        ConfigError: If the run has nothing that the format can represent.
    """
    raw_csv = raw and name == CSV
    content = table_as_csv(rows_of_run(result), raw=True) if raw_csv else EXPORTS[name][1](result, seed, sample)
    if not result.judgments:
        raise ConfigError("the run has no judgments", where=f"evalkit export --to {name}", remedy="use another run")
    return content
