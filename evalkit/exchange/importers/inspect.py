"""Inspect's logs, as JSON or as .eval archives: each sample's output with its scorers' values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from evalkit.errors import DatasetError
from evalkit.exchange.files import Peek, load_object, number, text
from evalkit.exchange.records import Answer, Found, Options, Record, Said, lost

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0}
_CONVERT = "convert it with `inspect log convert --to json --output-dir FOLDER`"


def sniff(start: Peek) -> bool:
    """Say whether it is a log."""
    if start.path.suffix == ".eval":
        return is_zipfile(start.path)
    return isinstance(start.top.get("eval"), Mapping) and "samples" in start.top


def read(path: Path, options: Options) -> Found:
    """Return a record for each sample and epoch, with each scorer's value as a criterion.

    C, P and I are 1, 0.5 and 0, as Inspect has them; N, that there was no answer to grade, is missing.
    """
    header, samples = _log(path)
    evaluation = header.get("eval") or {}
    model = str(evaluation.get("model") or "model")
    records = [_record(sample, model, options) for sample in samples if sample.get("scores")]
    values = [value for record in records for value in record.said.scores.values()]
    scale = (0.0, 1.0, 0.5) if values and set(values) <= {0.0, 0.5, 1.0} else None
    return Found(records, scale=scale)


def _log(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    if path.suffix != ".eval":
        log = load_object(path)
        return log, iter(log.get("samples") or ())
    return _archived(path)


def _archived(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
            start = "header.json" if "header.json" in names else "_journal/start.json"
            header = json.loads(archive.read(start))
            inside = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
            samples = [json.loads(archive.read(name)) for name in inside]
    except NotImplementedError:
        raise DatasetError("is compressed in a way that Python cannot read", where=str(path), remedy=_CONVERT) from None
    except (BadZipFile, KeyError, ValueError, OSError) as bad:
        raise DatasetError(f"is not a whole .eval archive ({bad})", where=str(path), remedy=_CONVERT) from None
    return header, iter(samples)


def _record(sample: Mapping[str, Any], model: str, options: Options) -> Record:
    scores: Mapping[str, Any] = sample["scores"]
    judge = options.judge or (next(iter(scores)) if len(scores) == 1 else "inspect")
    target = text(sample.get("target")) or None
    answer = Answer(model, _output(sample.get("output") or {}), model)
    prompt = text(sample.get("input"))
    return Record(str(sample.get("id")), prompt, (answer,), _said(sample, judge), reference=target)


def _output(output: Mapping[str, Any]) -> str:
    if output.get("completion"):
        return str(output["completion"])
    choices = output.get("choices") or [{}]
    return text((choices[0].get("message") or {}).get("content"))


def _said(sample: Mapping[str, Any], judge: str) -> Said:
    values: dict[str, float] = {}
    words, unread = [], []
    for name, score in sample["scores"].items():
        score = score if isinstance(score, Mapping) else {"value": score}
        if isinstance(score.get("explanation"), str):
            words.append(score["explanation"])
        value = score.get("value")
        parts = {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, Mapping) else {name: value}
        for key, part in parts.items():
            read = _GRADES[part] if isinstance(part, str) and part in _GRADES else number(part)
            if read is None:
                unread.append(f"{key} is {part}")
            else:
                values[key] = read
    sampled: dict[str, Any] = {"sample": int(sample.get("epoch") or 1) - 1, "text": "\n\n".join(words) or None}
    return Said(judge, scores=values, **sampled) if values else lost(judge, "; ".join(unread), **sampled)
