"""Import Inspect logs, JSON or .eval: each sample's output with its scorers' values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from evalkit.benchmarks.judgment_files import Peek, load_object, number, text
from evalkit.benchmarks.records import Answer, Options, ParsedFile, Record, RecordedJudgment, missing_record
from evalkit.errors import DatasetError

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_CONVERT = "convert it with `inspect log convert --to json --output-dir FOLDER`"
_STARTS = ("header.json", "_journal/start.json", "start.json")
_LEVELS = {0.0, 0.5, 1.0}

Sample = Mapping[str, Any]


def sniff(start: Peek) -> bool:
    """Return whether a file is a log."""
    if start.path.suffix == ".eval":
        return is_zipfile(start.path)
    return isinstance(start.top.get("eval"), Mapping) and ("samples" in start.top or "plan" in start.top)


def read(path: Path, options: Options) -> ParsedFile:
    """Return a record for each sample and epoch, with each scorer's value as a criterion.

    C, P and I are 1, 0.5 and 0, as in Inspect; N (no answer to grade) is missing. A sample without a scorer was not
    judged and is omitted.

    Raises:
        DatasetError: If the log has no samples.
    """
    header, samples = _log(path)
    if not samples:
        remedy = "use a log written with samples (--log-samples)"
        raise DatasetError("the log has no samples", where=str(path), remedy=remedy)
    evaluation = header.get("eval") or {}
    model = str(evaluation.get("model") or "model")
    judged = [sample for sample in samples if _scores(sample)]
    judge = options.judge or _judge(evaluation, judged)
    records = [_record(sample, model, judge) for sample in judged]
    values = [value for record in records for value in record.said.scores.values()]
    given = sum(len(_parts(sample)) for sample in judged)
    scale = (0.0, 1.0, 0.5) if values and set(values) <= _LEVELS else None
    left_out = len(samples) - len(judged)
    notes = [f"samples without a scorer, omitted: {left_out} of {len(samples)}"] if left_out else []
    if unread := given - len(values):
        notes.append(f"scorers' values other than numbers, C, P and I: {unread} of {given}")
    return ParsedFile(records, scale=scale, notes=tuple(notes))


def _log(path: Path) -> tuple[dict[str, Any], Sequence[Sample]]:
    if path.suffix != ".eval":
        log = load_object(path)
        return log, list(log.get("samples") or ())
    return _archived(path)


def _archived(path: Path) -> tuple[dict[str, Any], Sequence[Sample]]:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
            start = next((name for name in _STARTS if name in names), _STARTS[0])
            header = json.loads(archive.read(start))
            inside = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            samples = [json.loads(archive.read(name)) for name in inside]
    except NotImplementedError:
        raise DatasetError("uses a compression that Python cannot read", where=str(path), remedy=_CONVERT) from None
    except (BadZipFile, KeyError, ValueError, OSError) as bad:
        raise DatasetError(f"is not a complete .eval archive ({bad})", where=str(path), remedy=_CONVERT) from None
    return header, sorted(samples, key=_place)


def _place(sample: Sample) -> tuple[int, bool, int, str]:
    """Return a sort key for samples: epoch, then id, with numbers before names."""
    name = str(sample.get("id"))
    return int(sample.get("epoch") or 1), not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def _scores(sample: Sample) -> Mapping[str, Any]:
    """Return a sample's scores by scorer; logs of version 1 have one without a name."""
    return sample.get("scores") or ({"score": sample["score"]} if sample.get("score") else {})


def _judge(evaluation: Mapping[str, Any], samples: Sequence[Sample]) -> str:
    """Return the grading model named in the log, or else the only scorer."""
    role = (evaluation.get("model_roles") or {}).get("grader")
    if role:
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


def _record(sample: Sample, model: str, judge: str) -> Record:
    target = text(sample.get("target")).strip() or None
    answer = Answer(model, _output(sample.get("output") or {}), model)
    prompt = text(sample.get("input"))
    return Record(str(sample.get("id")), prompt, (answer,), _said(sample, judge), reference=target)


def _output(output: Mapping[str, Any]) -> str:
    if output.get("completion"):
        return str(output["completion"])
    choices = output.get("choices") or [{}]
    content = (choices[0].get("message") or {}).get("content")
    if isinstance(content, list):  # reasoning is not part of the answer
        content = [part for part in content if not (isinstance(part, Mapping) and part.get("type") == "reasoning")]
    return text(content)


def _said(sample: Sample, judge: str) -> RecordedJudgment:
    explained = (score.get("explanation") for score in _scores(sample).values() if isinstance(score, Mapping))
    words = [words for words in explained if isinstance(words, str)]
    parts = _parts(sample)
    values = {key: read for key, part in parts.items() if (read := _value(part)) is not None}
    unread = [f"{key} is {part}" for key, part in parts.items() if key not in values]
    sampled: dict[str, Any] = {"sample": int(sample.get("epoch") or 1) - 1, "text": "\n\n".join(words) or None}
    return (
        RecordedJudgment(judge, scores=values, **sampled)
        if values
        else missing_record(judge, "; ".join(unread), **sampled)
    )


def _parts(sample: Sample) -> dict[str, Any]:
    """Return the scorers' values of a sample, by scorer, and by key if a scorer has several."""
    found: dict[str, Any] = {}
    for name, score in _scores(sample).items():
        value = score.get("value") if isinstance(score, Mapping) else score
        found |= {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, Mapping) else {name: value}
    return found


def _value(part: Any) -> float | None:
    known = _GRADES.get(part, _GRADES.get(part.lower())) if isinstance(part, str) else None
    return number(part) if known is None else known
