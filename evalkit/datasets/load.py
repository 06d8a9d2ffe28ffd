"""From a dataset's description to its cases."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from evalkit.config import DatasetConfig
from evalkit.datasets.named import benchmark_of, named_rows, recognise
from evalkit.datasets.readers import Row, reader_for
from evalkit.datasets.rows import CaseReader
from evalkit.errors import ConfigError, DatasetError, did_you_mean
from evalkit.hashing import canonical_json
from evalkit.types import Case

SHIPPED = "evalkit:"


@dataclass(frozen=True, slots=True)
class Dataset:
    """Cases to judge.

    `fingerprint` is the SHA-256 of their content, in order; `notes` say what was read with an assumption. `benchmark`
    says whose they are, with licence and citation, if they are a named benchmark's.
    """

    cases: tuple[Case, ...]
    fingerprint: str
    source: str
    notes: tuple[str, ...] = ()
    benchmark: Mapping[str, str] | None = None


def load_cases(config: DatasetConfig, *, mode: str, base: Path | None = None) -> Dataset:
    """Read the cases a config describes, for a mode of judging; `base` is searched after the current folder.

    Raises:
        ConfigError: if the description is wrong.
        DatasetError: if the file, or a row of it, cannot be read as cases; the message names file and line.
    """
    benchmark = None if config.benchmark is None else benchmark_of(config.benchmark)
    named = benchmark is not None and config.format is None
    path = _locate(config.path, base, folders=named)
    rows = named_rows(str(config.benchmark), path, config.baseline) if named else reader_for(config.format, path)(path)
    reader = CaseReader(config, mode)
    first = config.limit if config.shuffle_seed is None else None
    try:
        cases = _read(islice(rows, first), reader)
    except OSError as bad:
        raise _unreadable(path, bad) from None
    except DatasetError as bad:
        raise (bad if named or config.fields else _recognised(bad, path)) from None
    if not cases:
        raise DatasetError("the file holds no rows", where=str(path), remedy="name a file with at least one case")
    reader.columns.check_seen(str(path))
    if config.shuffle_seed is not None:
        random.Random(config.shuffle_seed).shuffle(cases)
    chosen = tuple(cases[: config.limit])
    notes = ((benchmark.note,) if benchmark else ()) + _notes(chosen, reader)
    described = benchmark.described() if benchmark else None
    return Dataset(chosen, fingerprint(chosen), config.path or str(path), notes, described)


def fingerprint(cases: Iterable[Case]) -> str:
    """Return the SHA-256, in hex, of the cases' content: one line of canonical JSON for each, in order."""
    sha = hashlib.sha256()
    for case in cases:
        sha.update(canonical_json(_content(case)) + b"\n")
    return sha.hexdigest()


def _content(case: Case) -> dict[str, Any]:
    content = {
        "id": case.id,
        "prompt": case.prompt,
        "context": case.context,
        "reference": case.reference,
        "responses": [[r.text, r.model, r.grade] for r in case.responses],
        "label": case.label,
        "metadata": dict(case.metadata),
    }
    # A new key would change the fingerprint of every dataset that does not have it.
    return {**content, "labels": dict(case.labels)} if case.labels else content


def _read(rows: Iterable[tuple[str, Row]], reader: CaseReader) -> list[Case]:
    cases: list[Case] = []
    places: dict[str, str] = {}
    for number, (place, row) in enumerate(rows, 1):
        case = reader.read(row, number, place)
        if case.id in places:
            raise _repeated(case.id, places[case.id], place)
        places[case.id] = place
        cases.append(case)
    return cases


def _repeated(id_: str, before: str, place: str) -> DatasetError:
    first = before.rpartition(":")[2]
    first = first if first.startswith("row") else f"line {first}"
    return DatasetError(f"id '{id_}' is already that of {first}", where=place, remedy="make ids unique")


def _notes(cases: tuple[Case, ...], reader: CaseReader) -> tuple[str, ...]:
    unlabelled = sum(c.label is None and all(r.grade is None for r in c.responses) for c in cases)
    said = (f"cases without a label: {unlabelled} of {len(cases)}",) if 0 < unlabelled < len(cases) else ()
    return reader.tally.notes() + said


def _locate(named: str | None, base: Path | None, *, folders: bool = False) -> Path:
    if not named:
        raise ConfigError(
            "not set", where="dataset.path", remedy=f"name a file, or {SHIPPED}sample.jsonl for the shipped sample"
        )
    if named.startswith(SHIPPED):
        return _shipped(named.removeprefix(SHIPPED))
    path = Path(named).expanduser()
    found = [p for p in (path, *([base / path] if base else [])) if p.exists()]
    if not found:
        raise _not_there(path)
    if found[0].is_dir() and not folders:
        inside = sorted(p.name for p in found[0].iterdir() if p.is_file())
        raise DatasetError("is a folder", where=str(found[0]), remedy=f"name a file in it: {', '.join(inside[:5])}")
    return found[0]


def _shipped(name: str) -> Path:
    folder = Path(str(files("evalkit.datasets") / "samples"))
    names = sorted(p.name for p in folder.iterdir())
    if name not in names:
        where = f"dataset.path={SHIPPED}{name}"
        raise DatasetError("no such shipped sample", where=where, remedy=did_you_mean(name, names))
    return folder / name


def _not_there(path: Path) -> DatasetError:
    folder = path.parent
    if not folder.is_dir():
        return DatasetError("no such file, nor its folder", where=str(path), remedy="set dataset.path to a data file")
    near = did_you_mean(path.name, [p.name for p in folder.iterdir() if p.is_file()])
    remedy = near if near.startswith("did you mean") else "set dataset.path to a data file"
    return DatasetError("no such file", where=str(path), remedy=remedy)


def _recognised(bad: DatasetError, path: Path) -> DatasetError:
    """Return the error with a better remedy, if columns are missing since the file is one of a named benchmark."""
    known = recognise(path) if bad.what.startswith("no column") else None
    return DatasetError(bad.what, where=bad.where, remedy=f"it {known.hint}") if known else bad


def _unreadable(path: Path, bad: OSError) -> DatasetError:
    return DatasetError(
        f"cannot be read ({bad.strerror or bad})", where=str(path), remedy="check the file and its permissions"
    )
