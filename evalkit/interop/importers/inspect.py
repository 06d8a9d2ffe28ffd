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
from zipfile import BadZipFile, ZipFile, ZipInfo

from evalkit.core.errors import DatasetError
from evalkit.core.regular_files import open_file
from evalkit.core.resources import optional
from evalkit.core.values import Json, JsonObject, mapping_of
from evalkit.datasets.text import is_more_than_text
from evalkit.interop.layouts.judgment_files import Peek, load_object, number, text
from evalkit.interop.layouts.layouts import Field
from evalkit.interop.layouts.logs import Part, read_log
from evalkit.interop.layouts.records import Importer, Options, ParsedFile

_GRADES = {
    "C": 1.0,
    "P": 0.5,
    "I": 0.0,
    "yes": 1.0,
    "true": 1.0,
    "no": 0.0,
    "false": 0.0,
}
_CONVERT = "convert it with `inspect log convert --to json --output-dir FOLDER`"
_STARTS = ("header.json", "_journal/start.json", "start.json")
_LARGEST, _LARGEST_SAMPLE = 500_000_000, 100_000_000
"""The most bytes that are kept of an archive, and read of a sample: a small archive can hold
gigabytes."""
_UNREAD = {"events", "events_data", "store", "timelines"}
"""Parts of a sample that are not read; most of its bytes."""
_ATTACHED = "attachment://"
_WITH_ATTACHED = ("input", "messages", "output", "target")
_ZSTD = 93
_NAMES_AT = 26
"""Where a member's header has the lengths of its name and of its extra field."""
_MODEL_GRADED, _UNNAMED = "model_graded", "score"

Sample = Json


def _sniff(start: Peek) -> bool:
    if start.path.suffix == ".eval":
        return start.path.is_file()
    return isinstance(start.top.get("eval"), Mapping) and (
        "samples" in start.top or "plan" in start.top
    )


def _read_records(path: Path, options: Options) -> ParsedFile:
    """Return a record for each sample, epoch and judge.

    Its criteria are the values of its scorers.

    A judge is a model that grades: C, P and I are 1, 0.5 and 0, as in Inspect, and N (no answer to
    grade) is missing. The votes of a panel are judges. What a person made of a score is a label;
    the judge's own value counts. A sample that failed is a failed judgment.

    Raises:
        DatasetError: If the log has no samples, or no judge.
    """
    log = _read_archive(path) if path.suffix == ".eval" else load_object(path)
    listed = [*map(_with_attachments, log.get("samples") or ())]
    evaluation = log.get("eval") or {}
    samples = [sample for sample in listed if isinstance(sample, Mapping)]
    if not samples:
        remedy = "use a log written with samples (--log-samples)"
        raise DatasetError("the log has no samples", where=str(path), remedy=remedy)
    scorers = dict.fromkeys(name for sample in samples for name in _scores(sample))
    graders = {name: _grader_models(name, evaluation, samples) for name in scorers}
    edited = {
        name
        for sample in samples
        for name, score in _scores(sample).items()
        if any(_edits(score))
    }
    fields: dict[str, Field] = {
        "id": lambda sample: str(sample.get("id")),
        "prompt": "input",
        "model": lambda _: str(evaluation.get("model") or "model"),
        "response": _output,
        "reference": lambda sample: text(sample.get("target")).strip(),
        "sample": lambda sample: int(sample.get("epoch") or 1) - 1,
        "failure": _failure,
        "metadata": _metadata,
        "messages": _messages,
        "labels": lambda sample: {
            f"{author} ({name})" if len(edited) > 1 else author: value
            for name, score in _scores(sample).items()
            for author, value in _edits(score)
            if value is not None
        },
    }

    def parts(sample: Sample) -> Iterator[Part]:
        for name, score in _scores(sample).items():
            for grader, vote in _votes(_original(score), graders[name] or [name]):
                yield from _parts(name, vote, grader, bool(graders[name]))

    parsed = read_log(path, listed, fields, parts, options, grades=_GRADES)
    return replace(parsed, notes=(*parsed.notes, *_log_notes(log, samples)))


def _with_attachments(sample: Any) -> Any:
    """Return a sample with its attachments where they belong.

    Inspect keeps long texts and pictures apart.
    """
    attachments = sample.get("attachments") if isinstance(sample, Mapping) else None
    if not isinstance(attachments, Mapping) or not attachments:
        return sample

    def restore(value: Any) -> Any:
        """Return a value in which references to attachments are replaced by these, at any depth."""
        if isinstance(value, str):
            name = value.removeprefix(_ATTACHED)
            attached = attachments.get(name) if name != value else None
            if isinstance(attached, str):
                return attached
            return value
        if isinstance(value, list):
            return [restore(inner) for inner in value]
        if isinstance(value, Mapping):
            return {key: restore(inner) for key, inner in value.items()}
        return value

    read = {name: restore(sample[name]) for name in _WITH_ATTACHED if name in sample}
    return {**sample, **read}


def _log_notes(log: Json, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield a note on a log that is incomplete, and one on edits that cannot be read."""
    evaluation = log.get("eval") or {}
    status = log.get("status", "success")
    total = (evaluation.get("dataset") or {}).get("samples")
    epochs = (evaluation.get("config") or {}).get("epochs") or 1
    if status != "success" or log.get("invalidated"):
        if isinstance(total, int) and isinstance(epochs, int):
            of = f" of {total * epochs}"
        else:
            of = ""
        state = "invalidated" if log.get("invalidated") else f"incomplete ({status})"
        yield f"the log is {state}: it has {len(samples)}{of} samples"
    edits = [
        value
        for sample in samples
        for score in _scores(sample).values()
        for _, value in _edits(score)
    ]
    if unread := edits.count(None):
        yield f"edits of scores that are not grades, omitted: {unread} of {len(edits)}"


def _read_archive(path: Path) -> JsonObject:
    """Return the log in an archive, whose members are compressed by deflate or Zstandard.

    Raises:
        DatasetError: If it is damaged, or too large when decompressed.
    """
    try:
        with ZipFile(path) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            start = next((name for name in _STARTS if name in infos), _STARTS[0])
            inside = [
                start,
                *(
                    name
                    for name in infos
                    if name.startswith("samples/") and name.endswith(".json")
                ),
            ]
            # a small archive can expand without bound, so that all members share one
            # limit
            remaining = _LARGEST
            values = []
            for name in inside:
                limit = min(remaining, _LARGEST_SAMPLE)
                content = _read_member(archive, path, infos[name], limit)
                if len(content) > limit:
                    problem = f"{name} is too large: more than {limit:,} bytes when decompressed"
                    raise DatasetError(
                        problem, where=str(path), remedy="log fewer or smaller samples"
                    )
                value = {
                    key: part
                    for key, part in json.loads(content).items()
                    if key not in _UNREAD
                }
                remaining -= len(json.dumps(value))
                values.append(value)
    except (
        BadZipFile,
        KeyError,
        ValueError,
        OSError,
        EOFError,
        RuntimeError,
        struct.error,
        zlib.error,
    ) as bad:
        problem = (
            f"is not a complete .eval archive ({' '.join(str(bad).split())[:120]})"
        )
        raise DatasetError(problem, where=str(path), remedy=_CONVERT) from None
    header, *samples = values
    # An evaluation that ended early has no header yet.
    return {
        "status": "success" if start == _STARTS[0] else "started",
        **header,
        "samples": sorted(samples, key=_order),
    }


def _read_member(archive: ZipFile, path: Path, info: ZipInfo, limit: int) -> bytes:
    """Return at most `limit` + 1 bytes of a member of an archive.

    zipfile reads Zstandard only from Python 3.14 on.
    """
    if info.compress_type != _ZSTD:
        with archive.open(info) as file:
            return file.read(limit + 1)
    # the lengths of the name and the extra field are in the member's own header and may
    # differ from those in the directory at the archive's end
    with open_file(path) as raw:
        raw.seek(info.header_offset + _NAMES_AT)
        name, extra = struct.unpack("<HH", raw.read(4))
        raw.seek(name + extra, 1)
        compressed = BytesIO(raw.read(info.compress_size))
    content: bytes = (
        optional("pyarrow", str(path), "zstd")
        .input_stream(compressed, compression="zstd")
        .read(limit + 1)
    )
    return content


def _order(sample: Sample) -> tuple[int, bool, int, str]:
    """Return a sort key for samples: epoch, then id, with numbers before names."""
    name = str(sample.get("id"))
    return (
        int(sample.get("epoch") or 1),
        not name.isdecimal(),
        int(name) if name.isdecimal() else 0,
        name,
    )


def _scores(sample: Sample) -> Json:
    """Return a sample's scores by scorer; logs of version 1 have one without a name."""
    return sample.get("scores") or (
        {_UNNAMED: sample["score"]} if sample.get("score") else {}
    )


def _grader_models(
    name: str, evaluation: Json, samples: Sequence[Sample]
) -> Sequence[str]:
    """Return the models that grade in a scorer, in the order of a panel's votes.

    Empty if it is not a judge.
    """
    named = [
        scorer
        for scorer in evaluation.get("scorers") or ()
        if _get(scorer, "name") == name
    ]
    declared = _models(_get(_get(named[0] if named else {}, "options"), "model"))
    graded = dict.fromkeys(
        str(message["model"])
        for sample in samples
        for message in _get(
            _get(_original(_scores(sample).get(name)), "metadata"), "grading"
        )
        or ()
        if _get(message, "model")
    )
    role = _models(_get(evaluation.get("model_roles"), "grader"))
    if graded or declared or _MODEL_GRADED in name:
        return declared or role or [*graded][:1] or [name]
    if name == _UNNAMED:
        return [name]
    return []


def _models(value: Any) -> list[str]:
    """Return the names of one model or several, each a name or an object."""
    models = value if isinstance(value, list) else [value]
    return [str(_get(model, "model") or model) for model in models if model]


def _get(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    return None


def _original(score: Any) -> Any:
    """Return a score as its scorer gave it; `None` if a person added it."""
    first = (_get(score, "history") or [score])[0]
    if _get(first, "provenance"):
        return None
    return first


def _edits(score: Any) -> Iterator[tuple[str, float | None]]:
    """Yield who edited a score, with the new value; `None` if it is not a grade."""
    for edit in (_get(score, "history") or [])[_original(score) is not None :]:
        yield (
            str(_get(_get(edit, "provenance"), "author") or "annotator"),
            _grade(_get(edit, "value")),
        )


def _votes(score: Any, graders: Sequence[str]) -> Iterator[tuple[str, Json]]:
    """Yield each grader of a score with what it gave; a panel's votes are those of its graders."""
    votes = _get(_get(_get(score, "metadata"), "panel"), "votes")
    if isinstance(votes, list) and len(votes) == len(graders) > 1:
        yield from (
            (grader, {"value": vote})
            for grader, vote in zip(graders, votes, strict=True)
        )
    elif score is not None:
        yield graders[0], score if isinstance(score, Mapping) else {"value": score}


def _failure(sample: Sample) -> str:
    error = sample.get("error")
    if _scores(sample):
        return ""
    return str(_get(error, "message") or error or "")


def _metadata(sample: Sample) -> JsonObject:
    metadata = sample.get("metadata")
    choices = sample.get("choices")
    return {
        **mapping_of(metadata),
        **({"choices": choices} if choices else {}),
    }


def _messages(sample: Sample) -> list[Any] | None:
    """Return the messages of a sample if its answer took more than one."""
    messages = sample.get("messages") or []
    if len(messages) > 2 or is_more_than_text(messages):
        return messages
    return None


def _output(sample: Sample) -> str:
    """Return the text of the answer of a sample, without its reasoning."""
    output = sample.get("output") or {}
    if output.get("completion"):
        return str(output["completion"])
    # Without a completion, the answer is in the first choice.
    choices = output.get("choices") or [{}]
    content = (choices[0].get("message") or {}).get("content")
    if isinstance(content, list):  # reasoning is not part of the answer
        content = [
            part
            for part in content
            if not (isinstance(part, Mapping) and part.get("type") == "reasoning")
        ]
    return text(content)


def _parts(name: str, vote: Json, grader: str, is_judge: bool) -> Iterator[Part]:
    """Yield the values of a scorer, by key if it has several; the first has its text."""
    value = vote.get("value")
    reason = vote.get("explanation")
    if isinstance(value, Mapping):
        values = {f"{name}.{key}": item for key, item in value.items()}
    else:
        values = {name: value}
    for key, item in values.items():
        score = _grade(item)
        if score is not None:
            error = ""
        else:
            error = str(vote.get("reason") or f"{key} is {item}")
        yield Part(key, score, grader, is_judge, reason, error)
        reason = None


def _grade(value: Any) -> float | None:
    if isinstance(value, str):
        grade = _GRADES.get(value, _GRADES.get(value.lower()))
    else:
        grade = None
    if grade is None:
        return number(value)
    return grade


IMPORTER = Importer(
    "inspect", "an Inspect log, .json or .eval", _sniff, _read_records, is_log=True
)
