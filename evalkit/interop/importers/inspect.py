"""Import Inspect logs, JSON or .eval: each sample's output with its scorers' values."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
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
_NAMES = "samples without a scorer", "scorers' values other than numbers, C, P and I"

Sample = Mapping[str, Any]


def _sniff(start: Peek) -> bool:
    if start.path.suffix == ".eval":
        return is_zipfile(start.path)
    return isinstance(start.top.get("eval"), Mapping) and ("samples" in start.top or "plan" in start.top)


def _read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each sample and epoch, with each scorer's value as a criterion.

    C, P and I are 1, 0.5 and 0, as in Inspect; N (no answer to grade) is missing. A sample without a scorer was not
    judged and is omitted.

    Raises:
        DatasetError: If the log has no samples.
    """
    log = _archived(path) if path.suffix == ".eval" else load_object(path)
    samples, evaluation = list(log.get("samples") or ()), log.get("eval") or {}
    if not samples:
        remedy = "use a log written with samples (--log-samples)"
        raise DatasetError("the log has no samples", where=str(path), remedy=remedy)
    judge = options.judge or _judge(evaluation, samples)
    fields: dict[str, Field] = {
        "id": lambda sample: str(sample.get("id")),
        "prompt": "input",
        "model": lambda _: str(evaluation.get("model") or "model"),
        "response": _output,
        "reference": lambda sample: text(sample.get("target")).strip(),
        "sample": lambda sample: int(sample.get("epoch") or 1) - 1,
        "judge": lambda _: judge,
    }
    values = {part.score for sample in samples for part in _parts(sample) or () if part.score is not None}
    return scored_items(samples, fields, _parts, _NAMES, (0.0, 1.0, 0.5) if values and values <= _LEVELS else None)


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
    return sample.get("scores") or ({"score": sample["score"]} if sample.get("score") else {})


def _judge(evaluation: Mapping[str, Any], samples: Sequence[Sample]) -> str:
    """Return the grading model named in the log, or else the only scorer."""
    if role := (evaluation.get("model_roles") or {}).get("grader"):
        return str(role.get("model") if isinstance(role, Mapping) else role)
    graded = (model for sample in samples for score in _scores(sample).values() for model in _graders(score))
    names = dict.fromkeys(name for sample in samples for name in _scores(sample))
    return next(graded, None) or (next(iter(names)) if len(names) == 1 else "inspect")


def _graders(score: Any) -> Iterator[str]:
    """Yield the models that answered in the grading conversation of a score."""
    metadata = score.get("metadata") if isinstance(score, Mapping) else None
    grading = metadata.get("grading") if isinstance(metadata, Mapping) else None
    for message in grading if isinstance(grading, list) else ():
        if isinstance(message, Mapping) and message.get("model"):
            yield str(message["model"])


def _output(sample: Sample) -> str:
    output = sample.get("output") or {}
    if output.get("completion"):
        return str(output["completion"])
    content = ((output.get("choices") or [{}])[0].get("message") or {}).get("content")
    if isinstance(content, list):  # reasoning is not part of the answer
        content = [part for part in content if not (isinstance(part, Mapping) and part.get("type") == "reasoning")]
    return text(content)


def _parts(sample: Sample) -> Sequence[Part] | None:
    """Return the scorers' values of a sample, by scorer, and by key if a scorer has several."""
    parts = []
    for name, score in _scores(sample).items():
        value, reason = (score.get("value"), score.get("explanation")) if isinstance(score, Mapping) else (score, None)
        values = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, Mapping) else {name: value}
        for key, one in values.items():
            known = _GRADES.get(one, _GRADES.get(one.lower())) if isinstance(one, str) else None
            grade = number(one) if known is None else known
            parts.append(Part(key, grade, reason, f"{key} is {one}" if grade is None else ""))
            reason = None
    return parts if _scores(sample) else None


IMPORTER = Importer("inspect", "an Inspect log, .json or .eval", _sniff, _read)
