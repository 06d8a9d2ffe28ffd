"""`evalkit compare RUN RUN […]` and `evalkit drift BEFORE AFTER`: compare runs on the
cases they share.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from evalkit.cli.console import plain_console, print_heading, text_table
from evalkit.cli.finished_run import apply_settings, read_value
from evalkit.cli.parser import UsageError
from evalkit.config import ScoringConfig, TrackingConfig
from evalkit.core.atomic_files import file_errors, write_files
from evalkit.core.claims import claim_file
from evalkit.core.display import counted
from evalkit.core.errors import ConfigError, DatasetError, ExitStatus, did_you_mean
from evalkit.core.splits import without_labels
from evalkit.core.translation import in_every_language
from evalkit.core.values import Json, JsonObject
from evalkit.report.cases_page import cases_page
from evalkit.report.comparison import STOP, differences_table, sentences, values_table
from evalkit.report.findings import conclusion
from evalkit.report.findings.drift import findings
from evalkit.runs.records import as_csv, metric_values
from evalkit.runs.results import RunResult
from evalkit.runs.side_by_side import PAGE as CASES_PAGE
from evalkit.scoring.compare import Comparison, Difference, compare_runs
from evalkit.scoring.drift import measure_drift
from evalkit.scoring.paired_runs import RunEntry
from evalkit.tracking import find_run

SCORING = ("confidence", "bootstrap", "seed", "cluster")
OPTIONS = ("metrics", *SCORING, "folder", "tracking.uri")
MARGIN = "drift.margin"
DRIFT_OPTIONS = (MARGIN, *SCORING, "tracking.uri")
STATUS = {"worse": ExitStatus.GATE_FAILED, "unknown": ExitStatus.GATE_UNDECIDED}
_FILES = ("comparison.json", "comparison.csv", CASES_PAGE)


def main(arguments: Namespace) -> int:
    """Compare runs, print the tables and write comparison.json and comparison.csv; return the
    exit status.

    Raises:
        UsageError: If there are fewer than two runs.
    """
    runs, options = _split_runs_and_settings(arguments.runs, OPTIONS, "compare")
    if len(runs) < 2:
        raise UsageError("compare", "needs two or more runs: folders or MLflow run ids")
    with _found(runs, options) as results:
        entries = [
            RunEntry.of(name, replace(result, config=apply_settings(result)))
            for name, result in zip(_names(runs, results), results, strict=True)
        ]
        comparison = compare_runs(entries, _scoring(options), _metrics(options))
    folder = arguments.output or Path(str(options.get("folder", ".")))
    _write_files(folder, comparison, runs, results)
    _print_comparison(comparison, results)
    print("written: " + ", ".join(str(folder / name) for name in _FILES))
    return 0


def drift(arguments: Namespace) -> int:
    """Print what changed between two runs and whether the judge got worse.

    Exits with 4 if it did, 5 if that is undecided.

    Raises:
        UsageError: If there are not two runs.
    """
    runs, options = _split_runs_and_settings(arguments.runs, DRIFT_OPTIONS, "drift")
    if len(runs) != 2:
        raise UsageError(
            "drift", "needs two runs, before and after: folders or MLflow run ids"
        )
    with _found(runs, options) as results:
        if arguments.labels is not None:
            results = _with_labels_of_file(results, arguments.labels)
        before, after = map(RunEntry.of, runs, results)
        # The later run states what matters now.
        margin = _read_margin(options.get(MARGIN, after.config.scoring.margin))
        measured = measure_drift(
            before,
            after,
            [result.manifest for result in results],
            _scoring(options),
            margin,
        )
    texts = [in_every_language(text) for text in findings(measured)]
    if arguments.json:
        english, chinese = ([text[language] for text in texts] for language in (0, 1))
        content = {
            "before_run": runs[0],
            "after_run": runs[1],
            **measured.json(),
            "findings": english,
            "findings_zh": chinese,
        }
        print(json.dumps(content, ensure_ascii=False, allow_nan=False))
    else:
        console = plain_console()
        console.print(
            print_heading(
                " → ".join(runs), f" ({counted(measured.cases, 'case')} compared)"
            )
        )
        for text, _ in texts:
            console.print(
                "  • "
                + "".join(
                    character if character.isprintable() else "�" for character in text
                )
            )
    return int(STATUS.get(measured.state, ExitStatus.DONE))


def _read_margin(value: Any) -> float:
    """Return a margin in the metric.

    Raises:
        ConfigError: if it is not a number from 0 to 1.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= 1
    ):
        raise ConfigError(
            f"'{value}' is not a number from 0 to 1",
            where=MARGIN,
            remedy="write 0.05 for five points",
        )
    return float(value)


def _with_labels_of_file(results: Sequence[RunResult], path: Path) -> list[RunResult]:
    """Return the runs with the labels of a file instead of their own.

    Labels of other cases are omitted.

    Raises:
        DatasetError: if a label is invalid, or none is of a case that the run after has.
    """
    from evalkit.labels.joined import class_reader, with_labels
    from evalkit.labels.label_files import read_labels

    after = results[-1]
    # Labels of other cases may be in the file: one file may serve many runs.
    case_ids = {case.id for case in after.cases}
    labels = [
        label
        for label in read_labels(path, None, class_reader(after.config))
        if label.case_id in case_ids
    ]
    if not labels:
        raise DatasetError(
            "has no label of a case of the run after",
            where=str(path),
            remedy="use its case ids",
        )
    # the labels of the file replace those of both runs
    bare = [
        replace(result, cases=tuple(map(without_labels, result.cases)))
        for result in results
    ]
    cases = with_labels(
        bare[-1].cases, labels, classes=after.config.rubric.named_classes
    )
    return [*bare[:-1], replace(bare[-1], cases=cases)]


@contextmanager
def _found(runs: Sequence[str], options: Json) -> Iterator[list[RunResult]]:
    """Find runs, whose files exist inside the block."""
    uri = options.get("tracking.uri")
    tracking = TrackingConfig(uri=None if uri is None else str(uri))
    with TemporaryDirectory(prefix="evalkit-") as scratch:
        yield [
            find_run(run, tracking, folder=Path.cwd(), scratch=Path(scratch))
            for run in runs
        ]


def _split_runs_and_settings(
    words: Sequence[str], keys: Sequence[str], command: str
) -> tuple[list[str], JsonObject]:
    """Return the runs, and the values of the settings by key; a word with `=` is a setting unless
    it is a folder.

    Args:
        words: The words of the command.
        keys: The settings that it has.
        command: Its name, for errors.

    Raises:
        UsageError: If there is no such setting.
    """
    runs: list[str] = []
    options: JsonObject = {}
    for word in words:
        key, equals, text = word.partition("=")
        # The name of a folder may contain `=`, such as one that Hydra names after overrides.
        if not equals or Path(word).is_dir():
            runs.append(word)
        elif key in keys:
            options[key] = read_value(key, text)
        else:
            raise UsageError(
                command, f"no such setting '{key}'", did_you_mean(key, keys)
            )
    return runs, options


def _scoring(options: JsonObject) -> ScoringConfig:
    chosen = {key: options[key] for key in SCORING if key in options}
    try:
        return ScoringConfig.model_validate(chosen)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            first["msg"], where=str(first["loc"][0]), remedy="change its value"
        ) from None


def _metrics(options: JsonObject) -> list[str]:
    named = options.get("metrics", [])
    if isinstance(named, list):
        return [str(name) for name in named]
    return str(named).split(",")


def _names(words: Sequence[str], results: Sequence[RunResult]) -> list[str]:
    """Return names for the runs: their judges if these differ, else their folders, else
    the words given.
    """
    judges = [str(result.manifest.get("judge") or "") for result in results]
    # a name must differ from all others
    for names in (judges, [Path(word).name for word in words]):
        if all(names) and len(set(names)) == len(names):
            return names
    return list(words)


def _write_files(
    folder: Path,
    comparison: Comparison,
    words: Sequence[str],
    results: Sequence[RunResult],
) -> None:
    """Write a comparison as JSON, its differences as CSV, and a page of the cases, under the names
    in `_FILES`.

    Args:
        folder: Where they are written.
        comparison: The comparison.
        words: The runs as the user named them.
        results: The runs, in the same order.

    Raises:
        ConfigError: If they cannot be written, or another command writes there.
    """
    rows = [
        _difference_row(difference)
        for difference in (*comparison.differences, *comparison.between)
    ]
    title = " · ".join(comparison.runs)
    texts = (
        _comparison_json(comparison, words, results),
        as_csv(list(rows[0]), rows) if rows else "",
        cases_page(dict(zip(comparison.runs, results, strict=True)), title).html,
    )
    remedy = "choose another --output"
    with (
        # Two commands in one folder would mix their files; all are written, or none.
        claim_file(folder / _FILES[0], remedy),
        file_errors("cannot be written", folder, remedy),
    ):
        write_files(
            folder,
            {name: [text.encode()] for name, text in zip(_FILES, texts, strict=True)},
        )


def _comparison_json(
    comparison: Comparison, words: Sequence[str], results: Sequence[RunResult]
) -> str:
    """Return a comparison as JSON.

    Args:
        comparison: The comparison.
        words: The runs as the user named them.
        results: The runs, in the same order.
    """
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
    metrics = [
        {
            "run": entry.run,
            "letters": entry.letters,
            "metric": entry.metric.name,
            **metric_values(entry.metric),
        }
        for entry in comparison.entries
    ]
    content = {
        "runs": runs,
        "cases": comparison.cases,
        "clusters": comparison.clusters,
        "confidence": comparison.confidence,
        "tested": list(comparison.family),
        "metrics": metrics,
        "differences": [
            _difference_row(difference) for difference in comparison.differences
        ],
        "between": [_difference_row(difference) for difference in comparison.between],
    }
    if comparison.stops:
        content["stops"] = [
            {
                "run": entry.run,
                "metric": entry.metric.name,
                **metric_values(entry.metric),
            }
            for entry in comparison.stops
        ]
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def _difference_row(difference: Difference) -> JsonObject:
    """Return the columns of a difference, as in both the JSON and the CSV file."""
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


def _print_comparison(comparison: Comparison, results: Sequence[RunResult]) -> None:
    """Print the tables of a comparison, with notes before and conclusions after them."""
    console = plain_console()
    console.print(
        print_heading(
            " · ".join(comparison.runs),
            f" ({counted(comparison.cases, 'shared case')})",
        )
    )
    for name, count in comparison.left_out.items():
        if count:
            console.print(
                f"note: {counted(count, 'case')} of {name} omitted: not in every run"
            )
    if comparison.clusters:
        console.print(f"note: {comparison.clusters}")
    for entry in comparison.stops:
        name = entry.metric.name
        console.print(
            f"note: {entry.run} had a {STOP} on {name}: the interval in the row {name} ({STOP})"
            " holds at any stopping time, all others and the tests are as if the number of cases"
            " had been fixed",
            soft_wrap=True,
        )
    for header, *rows in (
        values_table(comparison, [result.decision for result in results]),
        differences_table(comparison),
    ):
        console.print("", text_table(header, rows=rows))
    console.print()
    for sentence in sentences(comparison):
        console.print(f"  • {sentence}")
    for name, result in zip(comparison.runs, results, strict=True):
        for advice in conclusion(result):
            console.print(f"  • {name}: {advice.text}")
