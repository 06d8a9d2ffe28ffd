"""Logs that the tools wrote, damaged in many ways: each is one line, or what was lost is counted; memory is bounded."""

import gzip
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from evalkit.compose import load_config
from evalkit.config import RunConfig
from evalkit.core.errors import EvalkitError
from evalkit.core.types import Case
from evalkit.datasets import compression, formats
from evalkit.interop.import_file import import_judgments
from evalkit.interop.importer_discovery import recognize_format
from evalkit.interop.importers import inspect as archives
from evalkit.interop.layouts import judgment_files
from evalkit.interop.layouts.records import Options
from evalkit.workflows.materials import stream_cases
from tests.interop.test_tools import LOGS
from tests.support.import_layouts import SHAPES

TOOLS = ("inspect", "promptfoo", "deepeval", "pydantic_evals", "mlflow_traces", "lm_eval")
WRITTEN = {
    f"{path.parent.name} {path.name}": path
    for path in sorted(LOGS.glob("*/*.*"))
    if path.parent.name != "__pycache__"
    if not path.name.startswith(("values", "results"))
}
OLDER = {f"{tool} older": tool for tool in TOOLS if tool in SHAPES}
REMOVED = object()
VALUES: tuple[Any, ...] = (
    *(
        None,
        "two",
        3,
        10**400,
        -1.5,
        True,
        [],
        {},
        [None],
        {"x": "y"},
        "\x00",
        [["a"]],
        float("nan"),
        REMOVED,
    ),
    *("x" * 100_000, [[[[[[[[]]]]]]]], "\ud800", {"": None}),
)
ROW = json.dumps({"gradingResult": {}, "response": {"output": "x"}}).encode() + b"\n"
BYTES = {
    "empty": lambda content: b"",
    "a blank": lambda content: b" \n",
    "half": lambda content: content[: len(content) // 2],
    "all but the end": lambda content: content[:-3],
    "twice": lambda content: content * 2,
    "NUL bytes": lambda content: content[:100] + bytes(100) + content[100:],
    "other bytes": lambda content: content[:1000] + b"\xff\xfe\xfa" + content[1003:],
    "UTF-16": lambda content: content.decode("latin-1").encode("utf-16"),
    "UTF-32": lambda content: content.decode("latin-1").encode("utf-32"),
    "compressed": gzip.compress,
    "a list": lambda content: b"[]",
    "an object": lambda content: b"{}",
    "nothing": lambda content: b"null",
    "a number": lambda content: b"1e999",
    "a text": lambda content: b"the log is gone",
    "nested": lambda content: b"[" * 100_000,
    "another log": lambda content: (LOGS / "promptfoo" / "prompts.json").read_bytes(),
}


@dataclass(frozen=True, slots=True)
class Read:
    """What evalkit reads of a log.

    Attributes:
        counts: Usable verdicts, all verdicts, and answers and labels, of the import and of the
            dataset.
        notes: All notes.
    """

    counts: tuple[int, ...]
    notes: tuple[str, ...]


def contents(path: Path) -> Any:
    if path.suffix == ".eval":
        return archives._read_archive(path)
    text = path.read_text("utf-8")
    return (
        [json.loads(line) for line in text.splitlines()]
        if path.suffix == ".jsonl"
        else json.loads(text)
    )


def save(path: Path, content: Any) -> None:
    if path.suffix == ".eval":
        samples = content.get("samples")
        with ZipFile(path, "w", ZIP_DEFLATED) as file:
            file.writestr("header.json", json.dumps({**content, "samples": None}))
            for number, sample in enumerate(samples if isinstance(samples, list) else ()):
                file.writestr(f"samples/{number}.json", json.dumps(sample))
    else:
        lines = content if path.suffix == ".jsonl" and isinstance(content, list) else [content]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in nested lists and objects."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def fields(content: Any) -> list[tuple[Any, ...]]:
    """Return the first place of each field: items of a list have the same."""
    first: dict[Any, tuple[Any, ...]] = {}
    for path in places(content):
        first.setdefault(tuple("*" if isinstance(key, int) else key for key in path), path)
    return [*first.values()]


def damaged(content: Any, path: Sequence[Any], value: Any) -> Any:
    log = deepcopy(content)
    parent = log
    for key in path[:-1]:
        parent = parent[key]
    if value is not REMOVED:
        parent[path[-1]] = value
    elif isinstance(parent, dict):  # without one of its samples, a log is a shorter log
        del parent[path[-1]]
    return log


@cache
def settings(tool: str) -> RunConfig:
    classes = ["rubric=own", 'rubric.classes={yes: "", no: ""}'] if tool == "mlflow_traces" else []
    return load_config(overrides=["mode=pointwise", "dataset.path=any.json", *classes])


def read(path: Path, tool: str) -> Read | None:
    """Return what evalkit reads of a log, `None` if it refuses to, with one line each time."""
    options = Options(dimension="right" if tool == "mlflow_traces" else None)
    counts: list[int] = []
    notes: list[str] = []
    refused = []
    try:
        config = settings(tool)
        dataset = config.dataset.model_copy(update={"path": str(path)})
        stream = stream_cases(config.model_copy(update={"dataset": dataset}))
        counts += texts_and_labels(list(stream))
        notes += stream.notes
    except EvalkitError as error:
        refused.append(error)
    try:
        found = import_judgments(tool, path, options)
        usable = sum(one.status == "ok" for one in found.judgments)
        counts += [usable, len(found.judgments), *texts_and_labels(found.cases)]
        notes += found.notes
    except EvalkitError as error:
        refused.append(error)
    for error in refused:
        assert "\n" not in str(error)
        assert len(str(error)) < 600
    return Read(tuple(counts), tuple(notes)) if len(refused) < 2 else None


def texts_and_labels(cases: Sequence[Case]) -> list[int]:
    labels = [label for case in cases for given in case.labels.values() for label in given]
    return [
        sum(bool(response.text) for case in cases for response in case.responses),
        sum(label is not None for label in labels),
    ]


def kept(found: Read | None, whole: Read) -> bool:
    """Return whether a damaged log is refused, or has all that the whole log has, or another note."""
    if (
        found is None
        or len(found.counts) < len(whole.counts)
        or set(found.notes) != set(whole.notes)
    ):
        return True
    return all(value >= before for value, before in zip(found.counts, whole.counts, strict=True))


@pytest.fixture(params=[*WRITTEN, *OLDER])
def log(request, tmp_path):
    """Return the tool of a log, a file in which to write it, and its content."""
    if tool := OLDER.get(request.param):
        file, content = SHAPES[tool]
        return tool, tmp_path / file, deepcopy(content)
    path = WRITTEN[request.param]
    return recognize_format(path) or "", tmp_path / path.name, contents(path)


def test_no_value_of_a_damaged_log_is_lost_without_a_line_or_a_note(log, thorough):
    tool, path, content = log
    save(path, content)
    whole = read(path, tool)
    assert whole
    every = [*product(fields(content), VALUES)]
    for place, value in Random(0).sample(every, 60 if thorough else 20):
        save(path, damaged(content, place, value))
        assert kept(read(path, tool), whole), (place, str(value)[:20])


@pytest.mark.parametrize("name", WRITTEN)
def test_a_log_with_other_bytes_is_one_line_or_read(name, tmp_path):
    source = WRITTEN[name]
    path, tool = tmp_path / source.name, recognize_format(source) or ""
    path.write_bytes(source.read_bytes())
    whole = read(path, tool)
    assert whole
    for kind, change in BYTES.items():
        path.write_bytes(change(source.read_bytes()))
        assert kept(read(path, tool), whole), kind


def bomb(path: Path, size: int) -> None:
    """Write a log that is small and has one long text."""
    text = json.dumps({"eval": {}, "plan": {}, "samples": [{"id": "x" * size}]}).encode()
    if path.suffix == ".eval":
        with ZipFile(path, "w", ZIP_DEFLATED) as file:
            file.writestr("header.json", "{}")
            file.writestr("samples/1.json", text)
    else:
        path.write_bytes(gzip.compress((ROW if ".jsonl" in path.name else b"") + text, 1))


@pytest.mark.parametrize(
    ("name", "tool"),
    [("log.eval", "inspect"), ("log.json.gz", "inspect"), ("results.jsonl.gz", "promptfoo")],
)
def test_a_small_file_with_a_long_text_is_one_line_and_does_not_fill_the_memory(
    name, tool, tmp_path, monkeypatch
):
    limit, size = 1_000_000, 60_000_000
    for module, constant in (
        (archives, "_LARGEST_SAMPLE"),
        (judgment_files, "_LARGEST"),
        (judgment_files, "_WHOLE"),
        (compression, "LONGEST_ROW"),
        (formats, "LONGEST_ROW"),
    ):
        monkeypatch.setattr(module, constant, limit)
    bomb(tmp_path / name, size)
    assert (tmp_path / name).stat().st_size < size / 100
    read(tmp_path / name, tool)  # imports modules
    tracemalloc.start()
    try:
        assert read(tmp_path / name, tool) is None
        assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()
