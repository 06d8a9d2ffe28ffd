"""`evalkit compare RUN RUN […]`: compare runs on the cases they share."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError
from rich.table import Table

from evalkit.cli.console import plain_console, print_heading, text_table
from evalkit.cli.finished_run import apply_settings, read_value
from evalkit.cli.parser import UsageError
from evalkit.config import ScoringConfig, TrackingConfig
from evalkit.core.atomic_files import file_errors, write_files
from evalkit.core.display import number
from evalkit.core.translation import in_every_language
from evalkit.errors import ConfigError, did_you_mean
from evalkit.report.decisions import USES
from evalkit.report.findings import conclusion
from evalkit.results import RunResult
from evalkit.runs.records import as_csv, metric_values
from evalkit.scoring.catalog import COLUMNS
from evalkit.scoring.compare import Comparison, Difference, RunEntry, compare_runs
from evalkit.tracking import find_run
from evalkit.types import Metric

OPTIONS = ("metrics", "confidence", "bootstrap", "seed", "cluster", "folder", "tracking.uri")
_FILES = ("comparison.json", "comparison.csv")


def main(arguments: Namespace) -> int:
    """Compare runs, print the tables and write comparison.json and comparison.csv."""
    runs, options = _split(arguments.runs)
    uri = options.get("tracking.uri")
    tracking = TrackingConfig() if uri is None else TrackingConfig(uri=str(uri))
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        results = [find_run(run, tracking, folder=Path.cwd(), scratch=Path(scratch)) for run in runs]
        entries = [
            RunEntry(name, apply_settings(result), result.cases, result.judgments)
            for name, result in zip(_names(runs, results), results, strict=True)
        ]
        comparison = compare_runs(entries, _scoring(options), _metrics(options))
    folder = arguments.output or Path(str(options.get("folder", ".")))
    _write(folder, comparison, runs, results)
    _print(comparison, results)
    print(f"written: {folder / _FILES[0]}, {folder / _FILES[1]}")
    return 0


def _split(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Separate runs from settings: a word with `=` is a setting unless it is a folder."""
    runs: list[str] = []
    options: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or Path(word).is_dir():
            runs.append(word)
        elif key in OPTIONS:
            options[key] = read_value(key, text)
        else:
            raise UsageError("compare", f"no such setting '{key}'", did_you_mean(key, OPTIONS))
    if len(runs) < 2:
        raise UsageError("compare", "needs two or more runs: folders or MLflow run ids")
    return runs, options


def _scoring(options: dict[str, Any]) -> ScoringConfig:
    chosen = {key: options[key] for key in ("confidence", "bootstrap", "seed", "cluster") if key in options}
    try:
        return ScoringConfig.model_validate(chosen)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(first["msg"], where=str(first["loc"][0]), remedy="change its value") from None


def _metrics(options: dict[str, Any]) -> list[str]:
    named = options.get("metrics", [])
    return [str(name) for name in named] if isinstance(named, list) else str(named).split(",")


def _names(words: Sequence[str], results: Sequence[RunResult]) -> list[str]:
    """Return names for the runs: their judges if these differ, else their folders, else the words given."""
    judges = [str(result.manifest.get("judge") or "") for result in results]
    for names in (judges, [Path(word).name for word in words]):
        if all(names) and len(set(names)) == len(names):
            return names
    return list(words)


def _write(folder: Path, comparison: Comparison, words: Sequence[str], results: Sequence[RunResult]) -> None:
    rows = [_row(difference) for difference in (*comparison.differences, *comparison.between)]
    texts = (_json(comparison, words, results), as_csv(list(rows[0]), rows) if rows else "")
    with file_errors("cannot be written", folder, "choose another --output"):
        write_files(folder, {name: [text.encode()] for name, text in zip(_FILES, texts, strict=True)})


def _json(comparison: Comparison, words: Sequence[str], results: Sequence[RunResult]) -> str:
    runs = [
        {
            "name": name,
            "run": word,
            "run_id": result.manifest.get("run_id"),
            "left_out": comparison.left_out[name],
            "decision": result.decision.json(),
        }
        for name, word, result in zip(comparison.runs, words, results, strict=True)
    ]
    content = {
        "runs": runs,
        "cases": comparison.cases,
        "clusters": comparison.clusters,
        "confidence": comparison.confidence,
        "tested": list(comparison.family),
        "metrics": [
            {"run": e.run, "letters": e.letters, "metric": e.metric.name, **metric_values(e.metric)}
            for e in comparison.entries
        ],
        "differences": [_row(difference) for difference in comparison.differences],
        "between": [_row(difference) for difference in comparison.between],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _row(difference: Difference) -> dict[str, Any]:
    return {
        "first": difference.first,
        "second": difference.second,
        "metric": difference.metric.name,
        **metric_values(difference.metric),
        "only_first": difference.only_first,
        "only_second": difference.only_second,
        "test": difference.test,
        "p": difference.p,
        "p_holm": difference.p_holm,
        "detectable": difference.detectable,
    }


def _print(comparison: Comparison, results: Sequence[RunResult]) -> None:
    console = plain_console()
    console.print(print_heading(" · ".join(comparison.runs), f" ({comparison.cases} shared cases)"))
    for name, count in comparison.left_out.items():
        if count:
            console.print(f"note: {count} cases of {name} are not in every run and were omitted")
    if comparison.clusters:
        console.print(f"note: {comparison.clusters}")
    console.print()
    console.print(_values_table(comparison, results))
    console.print()
    console.print(_differences_table(comparison))
    console.print()
    for sentence in _sentences(comparison):
        console.print(f"  • {sentence}")
    for name, result in zip(comparison.runs, results, strict=True):
        for advice in conclusion(result):
            console.print(f"  • {name}: {advice.text}")


def _values_table(comparison: Comparison, results: Sequence[RunResult]) -> Table:
    table = text_table(["metric", *comparison.runs])
    whole = " (all cases)" if any(comparison.left_out.values()) else ""
    table.add_row(f"decision{whole}", *(in_every_language(USES[result.decision.use])[0] for result in results))
    by_name: dict[str, dict[str, str]] = {}
    for entry in comparison.entries:
        if entry.metric.value is not None and entry.metric.name in (*COLUMNS["compared"], *comparison.family):
            mark = f" {entry.letters}" if entry.letters else ""
            by_name.setdefault(entry.metric.name, {})[entry.run] = _with_interval(entry.metric) + mark
    for name, values in by_name.items():
        table.add_row(name, *(values.get(run, "–") for run in comparison.runs))
    return table


def _differences_table(comparison: Comparison) -> Table:
    table = text_table(("first − second", "metric", "difference", "n", "test", "p", "Holm", "detectable"))
    tested = [d for d in comparison.differences if d.metric.name in comparison.family]
    for d in [*tested, *comparison.between]:
        table.add_row(
            f"{d.first} − {d.second}" if d in tested else f"{d.first}, {d.second}",
            d.metric.name,
            _with_interval(d.metric, signed=d in tested),
            str(d.metric.n),
            d.test or "",
            _p(d.p).removeprefix("= "),
            _p(d.p_holm).removeprefix("= "),
            number(d.detectable) if d.detectable is not None else "",
        )
    return table


def _with_interval(metric: Metric, *, signed: bool = False) -> str:
    value = number(metric.value, signed=signed)
    if metric.low is None or metric.high is None:
        return value
    return f"{value} [{number(metric.low, signed=signed)}, {number(metric.high, signed=signed)}]"


def _p(p: float | None) -> str:
    return "" if p is None else "< 0.0001" if p < 0.0001 else f"= {p:.4f}"


def _sentences(comparison: Comparison) -> list[str]:
    alpha = 1 - comparison.confidence
    if not comparison.family:
        return ["Nothing could be tested: no metric of agreement or of scores has a value in every run."]
    return [_sentence(d, alpha) for d in comparison.differences if d.metric.name in comparison.family]


def _sentence(d: Difference, alpha: float) -> str:
    what = f"{d.first} and {d.second} in {d.metric.name}"
    if d.p_holm is None:
        return f"No difference between {what}: {d.test}."
    if d.p_holm <= alpha:
        return f"A difference between {what}: {_with_interval(d.metric, signed=True)}, p {_p(d.p_holm)}."
    seen = f"; with these cases one of {number(d.detectable)} would have been" if d.detectable is not None else ""
    if d.detectable is not None and d.detectable > 1 and d.metric.name.startswith("agreement/accuracy"):
        seen = "; these cases are too few to show any"
    return f"No difference found between {what}: {_with_interval(d.metric, signed=True)}, p {_p(d.p_holm)}{seen}."
