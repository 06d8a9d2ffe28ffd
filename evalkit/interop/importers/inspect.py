"""Import Inspect logs, JSON or .eval: each sample's output with its scorers' values."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo, is_zipfile

from evalkit.benchmarks.benchmark import Importer
from evalkit.benchmarks.judgment_files import Peek, load_object, number, text
from evalkit.benchmarks.layouts import Field, Part, scored_items
from evalkit.benchmarks.records import Options, ParsedFile
from evalkit.core.resources import optional
from evalkit.errors import DatasetError

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_CONVERT = "convert it with `inspect log convert --to json --output-dir FOLDER`"
_STARTS = ("header.json", "_journal/start.json", "start.json")
_LARGEST = 500_000_000
"""The most bytes of an archive when decompressed: a small one can hold gigabytes."""
_ZSTD = 93
_NAMES_AT = 26
"""Where a member's header has the lengths of its name and of its extra field."""
_LEVELS = {0.0, 0.5, 1.0}
_MODEL_GRADED, _UNNAMED = "model_graded", "score"
_NAMES = "samples without a scorer", "scorers' values other than numbers, C, P and I"

Sample = Mapping[str, Any]


def _sniff(start: Peek) -> bool:
    if start.path.suffix == ".eval":
        return is_zipfile(start.path)
    return isinstance(start.top.get("eval"), Mapping) and ("samples" in start.top or "plan" in start.top)


def _read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each sample, epoch and judge, with the value of each of its scorers as a criterion.

    A judge is a model that grades: C, P and I are 1, 0.5 and 0, as in Inspect, and N (no answer to grade) is missing.
    The votes of a panel are judges of their own. Other scorers are counted, unless `options.judge` names one. A sample
    that failed is a failed judgment; one without a judge's value was not judged and is omitted.

    Raises:
        DatasetError: If the log has no samples, or no judge.
    """
    log = _archived(path) if path.suffix == ".eval" else load_object(path)
    samples, evaluation = list(log.get("samples") or ()), log.get("eval") or {}
    if not samples:
        remedy = "use a log written with samples (--log-samples)"
        raise DatasetError("the log has no samples", where=str(path), remedy=remedy)
    scorers = dict.fromkeys(name for sample in samples for name in _scores(sample))
    graders = {name: found for name in scorers if (found := _graders(name, evaluation, samples, options))}
    if scorers and not graders and not options.answers:
        remedy = f"if a scorer is a judge, name it: --judge NAME ({', '.join(scorers)})"
        raise DatasetError("no scorer is a model that grades", where=str(path), remedy=remedy)
    judges = dict.fromkeys(judge for found in graders.values() for judge in found)
    if options.answers and not judges:
        judges = {"": None}
    names = {judge: options.judge if options.judge and len(judges) == 1 else judge for judge in judges}
    fields: dict[str, Field] = {
        "id": lambda item: str(item[0].get("id")),
        "prompt": lambda item: item[0].get("input"),
        "model": lambda _: str(evaluation.get("model") or "model"),
        "response": lambda item: _output(item[0]),
        "reference": lambda item: text(item[0].get("target")).strip(),
        "sample": lambda item: int(item[0].get("epoch") or 1) - 1,
        "judge": lambda item: names[item[1]],
        "failure": lambda item: _failure(item[0]),
        "metadata": lambda item: _metadata(item[0]),
    }

    def parts(item: tuple[Sample, str]) -> Sequence[Part] | None:
        sample, judge = item
        values = [
            part
            for name, score in _scores(sample).items()
            for grader, value, reason in zip(*_votes(score, graders.get(name, ())), strict=True)
            if grader == judge
            for part in _parts(name, value, reason)
        ]
        return values if values or _failure(sample) else None

    items = [(sample, judge) for sample in samples for judge in judges]
    values = {part.score for item in items for part in parts(item) or () if part.score is not None}
    scale = (0.0, 1.0, 0.5) if values and values <= _LEVELS else None
    parsed = scored_items(items, fields, parts, _NAMES, scale, unjudged=options.answers)
    return replace(
        parsed, notes=(*parsed.notes, *_notes(log, samples, [name for name in scorers if name not in graders]))
    )


def _notes(log: Mapping[str, Any], samples: Sequence[Sample], others: Sequence[str]) -> Iterator[str]:
    """Yield notes on what is incomplete or omitted."""
    evaluation = log.get("eval") or {}
    status, total = log.get("status", "success"), (evaluation.get("dataset") or {}).get("samples")
    epochs = (evaluation.get("config") or {}).get("epochs") or 1
    if status != "success" or log.get("invalidated"):
        of = f" of {total * epochs}" if isinstance(total, int) and isinstance(epochs, int) else ""
        state = "invalidated" if log.get("invalidated") else f"incomplete ({status})"
        yield f"the log is {state}: it has {len(samples)}{of} samples"
    if others:
        yield f"scorers that are no judges, omitted: {', '.join(others)}"
    if called := sum(map(_calls_tools, samples)):
        yield f"samples with tool calls, whose answer is the last one, and whose messages are in the metadata: {called}"


def _calls_tools(sample: Sample) -> bool:
    return any(_get(message, "tool_calls") for message in sample.get("messages") or ())


def _archived(path: Path) -> dict[str, Any]:
    """Return the log in an archive, whose members are compressed by deflate or Zstandard.

    Raises:
        DatasetError: If it is damaged, or larger than `_LARGEST` when decompressed.
    """
    try:
        with ZipFile(path) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            start = next((name for name in _STARTS if name in infos), _STARTS[0])
            inside = [start, *(name for name in infos if name.startswith("samples/") and name.endswith(".json"))]
            left, values = _LARGEST, []
            for name in inside:
                content = _member(archive, path, infos[name], left)
                if len(content) > left:
                    what = f"is larger than {_LARGEST // 10**6:,} MB when decompressed"
                    raise DatasetError(what, where=str(path), remedy="log fewer samples, or split the log")
                left -= len(content)
                values.append(json.loads(content))
    except (BadZipFile, KeyError, ValueError, OSError, EOFError, RuntimeError, struct.error, zlib.error) as bad:
        what = f"is not a complete .eval archive ({' '.join(str(bad).split())[:120]})"
        raise DatasetError(what, where=str(path), remedy=_CONVERT) from None
    header, *samples = values
    return {**header, "samples": sorted(samples, key=_order)}


def _member(archive: ZipFile, path: Path, info: ZipInfo, limit: int) -> bytes:
    """Return at most `limit` + 1 bytes of a member; zipfile reads Zstandard only from Python 3.14 on."""
    if info.compress_type != _ZSTD:
        with archive.open(info) as file:
            return file.read(limit + 1)
    with path.open("rb") as raw:
        raw.seek(info.header_offset + _NAMES_AT)
        name, extra = struct.unpack("<HH", raw.read(4))
        raw.seek(name + extra, 1)
        compressed = BytesIO(raw.read(info.compress_size))
    found: bytes = optional("pyarrow", str(path), "zstd").input_stream(compressed, compression="zstd").read(limit + 1)
    return found


def _order(sample: Sample) -> tuple[int, bool, int, str]:
    """Return a sort key for samples: epoch, then id, with numbers before names."""
    name = str(sample.get("id"))
    return int(sample.get("epoch") or 1), not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def _scores(sample: Sample) -> Mapping[str, Any]:
    """Return a sample's scores by scorer; logs of version 1 have one without a name."""
    return sample.get("scores") or ({_UNNAMED: sample["score"]} if sample.get("score") else {})


def _graders(name: str, evaluation: Mapping[str, Any], samples: Sequence[Sample], options: Options) -> Sequence[str]:
    """Return the models that grade in a scorer, in the order of a panel's votes; empty if it is not a judge."""
    named = [scorer for scorer in evaluation.get("scorers") or () if _get(scorer, "name") == name]
    declared = _models(_get(_get(named[0] if named else {}, "options"), "model"))
    graded = dict.fromkeys(
        str(message["model"])
        for sample in samples
        for message in _get(_get(_scores(sample).get(name), "metadata"), "grading") or ()
        if _get(message, "model")
    )
    role = _models(_get(evaluation.get("model_roles"), "grader"))
    if graded or declared or _MODEL_GRADED in name:
        return declared or role or [*graded][:1] or [name]
    return [name] if name in (options.judge, _UNNAMED) else []


def _models(value: Any) -> list[str]:
    """Return the names of one model or several, each a name or an object."""
    models = value if isinstance(value, list) else [value]
    return [str(_get(model, "model") or model) for model in models if model]


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _votes(score: Any, graders: Sequence[str]) -> tuple[Sequence[str], Sequence[Any], Sequence[Any]]:
    """Return the graders of a score, each with its value and its reason; a panel's votes are those of its graders."""
    value, reason = (score.get("value"), score.get("explanation")) if isinstance(score, Mapping) else (score, None)
    votes = _get(_get(_get(score, "metadata"), "panel"), "votes")
    if isinstance(votes, list) and len(votes) == len(graders) > 1:
        return graders, votes, [None] * len(votes)
    return graders[:1], [value] * len(graders[:1]), [reason] * len(graders[:1])


def _failure(sample: Sample) -> str:
    error = sample.get("error")
    return "" if _scores(sample) else str(_get(error, "message") or error or "")


def _metadata(sample: Sample) -> dict[str, Any]:
    """Return a sample's metadata, with its choices, and its messages if they have more than texts."""
    metadata, choices = sample.get("metadata"), sample.get("choices")
    own = dict(metadata) if isinstance(metadata, Mapping) else {}
    messages = {"messages": sample["messages"]} if _calls_tools(sample) else {}
    return own | ({"choices": choices} if choices else {}) | messages


def _output(sample: Sample) -> str:
    output = sample.get("output") or {}
    if output.get("completion"):
        return str(output["completion"])
    content = ((output.get("choices") or [{}])[0].get("message") or {}).get("content")
    if isinstance(content, list):  # reasoning is not part of the answer
        content = [part for part in content if not (isinstance(part, Mapping) and part.get("type") == "reasoning")]
    return text(content)


def _parts(name: str, value: Any, reason: Any) -> Iterator[Part]:
    """Yield the values of a scorer, by key if it has several."""
    values = {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, Mapping) else {name: value}
    for key, item in values.items():
        known = _GRADES.get(item, _GRADES.get(item.lower())) if isinstance(item, str) else None
        grade = number(item) if known is None else known
        yield Part(key, grade, reason, f"{key} is {item}" if grade is None else "")
        reason = None


IMPORTER = Importer("inspect", "an Inspect log, .json or .eval", _sniff, _read, is_log=True)
