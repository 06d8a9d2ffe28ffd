"""Read the samples of lm-evaluation-harness: answers to judge, in samples_TASK_TIME.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evalkit.core.display import relative
from evalkit.core.errors import DatasetError
from evalkit.core.values import Json, JsonObject, mapping_of
from evalkit.interop.layouts.judgment_files import Peek, load_object, rows_of
from evalkit.interop.layouts.layouts import Field, log_cells, record_of
from evalkit.interop.layouts.records import Importer, Options, ParsedFile, Record

_KEYS: Final = ("doc_id", "arguments", "resps", "filtered_resps")

Sample = Json


def _sniff(start: Peek) -> bool:
    return start.has(*_KEYS)


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each answer of each document.

    The metadata are its row, and each metric by filter.

    A row is a document and a filter; filters change what metrics compare, not the answer.

    Raises:
        DatasetError: If the answers are to be judgments, or the task has log-likelihoods and no
            answers.
    """
    if not options.answers:
        remedy = (
            "have its answers judged: evalkit run "
            f"mode=pointwise dataset.path={relative(path)}"
        )
        raise DatasetError(
            "has answers and no judgments", where=str(path), remedy=remedy
        )
    samples = [row for _, row in rows_of(path)]
    written = [
        sample
        for sample in samples
        if all(isinstance(answer, str) for answer in _answers(sample))
    ]
    if not written:
        problem = "has log-likelihoods and no answers"
        raise DatasetError(
            problem,
            where=str(path),
            remedy="use the samples of a task that generates text",
        )
    # {document: the metrics of all filters}.
    metrics: dict[str, JsonObject] = {}
    for sample in written:
        metrics.setdefault(str(sample["doc_id"]), {}).update(_metrics(sample))
    model = _model(path)
    # A document has a row for each filter, of which the last one stays.
    records = {
        (record.question, number): record
        for sample in written
        for number, record in enumerate(
            _records(sample, model, metrics[str(sample["doc_id"])])
        )
    }
    omitted = len(samples) - len(written)
    notes = (
        (f"samples without a text as an answer, omitted: {omitted} of {len(samples)}",)
        if omitted
        else ()
    )
    return ParsedFile([*records.values()], notes=notes)


def _answers(sample: Sample) -> list[Any]:
    return list(sample["resps"][0])


def _records(sample: Sample, model: str | None, metrics: Json) -> Iterator[Record]:
    """Yield a record for each answer: the model was asked as often as the task repeats."""
    row = sample.get("doc")
    fields: dict[str, Field] = {
        "prompt": ("arguments.gen_args_0.arg_0.0", "arguments.gen_args_0.arg_0"),
        "model": lambda _: model,
        "reference": "target",
        "metadata": lambda _: {**mapping_of(row), **metrics},
    }
    for number, answer in enumerate(_answers(sample)):
        cells = log_cells(
            {**sample, "response": answer}, {**fields, "response": "response"}
        )
        cells |= {"id": str(sample["doc_id"]), "sample": number}
        yield record_of(cells, cells["id"], "response")


def _metrics(sample: Sample) -> JsonObject:
    """Return the metrics of a sample, named as in the tool's results: metric,filter."""
    names = sample.get("metrics")
    if isinstance(names, list):
        return {f"{name},{sample.get('filter')}": sample.get(name) for name in names}
    return {}


def _model(path: Path) -> str | None:
    """Return the model in the results of the samples, a file with the same time in its name."""
    # The samples end with jsonl, the results with json.
    time = path.name.rpartition("_")[2].removesuffix("l")
    results = path.with_name(f"results_{time}")
    if not results.is_file():
        return None
    content = load_object(results)
    arguments = (content.get("config") or {}).get("model_args")
    named = arguments.get("model") if isinstance(arguments, Mapping) else None
    return str(named or content.get("model_name") or "") or None


IMPORTER: Final = Importer(
    "lm_eval",
    "the samples of lm-evaluation-harness: answers without judgments",
    _sniff,
    _read_records,
    is_log=True,
)
