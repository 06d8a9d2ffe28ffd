"""Read a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from evalkit.config import RunConfig
from evalkit.config.problems import config_error, locate
from evalkit.core.atomic_files import file_errors
from evalkit.core.bounded_files import read_json
from evalkit.core.display import relative
from evalkit.core.errors import ConfigError
from evalkit.core.image_files import FOLDER, IMAGES
from evalkit.core.regular_files import open_file, read_file
from evalkit.core.spool import Spool
from evalkit.core.types import Case, Judgment, Metric, Verdict
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.runs import layout
from evalkit.runs.manifest import load
from evalkit.runs.records import MalformedError, decoder, read_rows
from evalkit.runs.results import Calls, RunResult
from evalkit.scoring.decision import Metrics

DEEPEST_RECORD: Final = 200
"""Levels of a record: an answer may have some of its own."""
_REMEDY: Final = "rerun it, or restore the file"


def read_run(folder: Path) -> RunResult:
    """Read the run in a folder, exactly as it was written.

    Raises:
        ConfigError: If it is not a run folder, or a file is missing or damaged; the message names
            the file and line.
    """
    folder = folder.absolute()
    _check_folder(folder)
    # Cases name pictures by their hash; their files are in the run's folder.
    IMAGES.add_folder(folder / FOLDER)
    metrics = _object(folder / layout.METRICS)
    config = _config(folder / layout.CONFIG)
    return RunResult(
        folder=str(folder),
        config=config,
        manifest=_manifest(folder / layout.MANIFEST),
        cases=read_records(folder / layout.CASES, Case),
        judgments=read_records(folder / layout.judgments_of(config), Judgment),
        verdicts=read_records(folder / layout.VERDICTS, Verdict),
        **_read_numbers(metrics, folder / layout.METRICS),
    )


@frozen
class Outcome:
    """The results of a run without its texts, which are nine tenths of the data."""

    config: RunConfig
    manifest: Json
    verdicts: Sequence[Verdict]
    metrics: Metrics


def read_outcome(folder: Path) -> Outcome:
    """Read the results of the run in a folder.

    Raises:
        ConfigError: If it is not a run folder, or a file is missing or damaged; the message names
            the file and line.
    """
    folder = folder.absolute()
    _check_folder(folder)
    return Outcome(
        config=_config(folder / layout.CONFIG),
        manifest=_manifest(folder / layout.MANIFEST),
        verdicts=read_records(folder / layout.VERDICTS, Verdict),
        metrics=_read_numbers(
            _object(folder / layout.METRICS), folder / layout.METRICS
        )["metrics"],
    )


def read_cases(folder: Path) -> Sequence[Case]:
    """Return the cases of the run in a folder.

    Raises:
        ConfigError: If the file is missing or damaged.
    """
    return read_records(folder.absolute() / layout.CASES, Case)


def read_edits(folder: Path) -> Sequence[Case]:
    """Return the edited cases of the audit in a folder.

    Raises:
        ConfigError: If the file is missing or damaged.
    """
    return read_records(folder.absolute() / layout.PROBE_CASES, Case)


def read_probes(folder: Path) -> tuple[Sequence[Case], Sequence[Judgment]]:
    """Return the edited cases of the audit in a folder, and their judgments.

    Raises:
        ConfigError: If a file is missing or damaged.
    """
    return read_edits(folder), read_records(
        folder.absolute() / layout.PROBE_JUDGMENTS, Judgment
    )


def read_config(folder: Path) -> RunConfig:
    """Return the config of the run in a folder.

    Raises:
        ConfigError: If the file is missing or damaged, or the config is invalid.
    """
    return _config(folder / layout.CONFIG)


def read_facts(folder: Path) -> tuple[JsonObject, float | None]:
    """Return the manifest of the run in a folder, and its cost in USD; `None` if the
    cost is unknown.

    Raises:
        ConfigError: If a file is missing or damaged.
    """
    cost = _object(folder / layout.METRICS).get("cost_usd")
    return _object(folder / layout.MANIFEST), cost if isinstance(
        cost, float | int
    ) else None


def read_details(folder: Path, names: Iterable[str]) -> JsonObject:
    """Return the tables of these names that the run in a folder has, as JSON values.

    Raises:
        ConfigError: If a file is damaged.
    """
    # A table that the scoring did not have is absent. That is not an error.
    paths = {name: folder / f"{name}.json" for name in names}
    return {
        name: _json(_content(path), str(path))
        for name, path in paths.items()
        if path.exists()
    }


def _check_folder(folder: Path) -> None:
    """Check that a folder has all files of a run.

    Raises:
        ConfigError: if it has not; the remedy names a run folder nearby.
    """
    remedy = "choose a folder that `evalkit run` wrote"
    if not folder.is_dir():
        problem = "a file, not a run folder" if folder.exists() else "no such folder"
        if close := _alike(folder):
            remedy = f"did you mean '{close}'?"
        raise ConfigError(problem, where=str(folder), remedy=remedy)
    present = [name for name in layout.FILES if (folder / name).is_file()]
    if (folder / layout.PARQUET).is_file():
        present.append(layout.JUDGMENTS)  # one of them; the config says which
    # not one of the main files: this is another folder, not a damaged run
    if not {layout.MANIFEST, layout.JUDGMENTS, layout.METRICS} & set(present):
        # The folder of a sweep has its runs in folders of its own.
        if job := next(
            (
                child
                for child in sorted(folder.iterdir())
                if (child / layout.MANIFEST).is_file()
            ),
            None,
        ):
            problem = "contains several runs and is not a run folder"
            remedy = f"choose one of them, for example {job}"
            raise ConfigError(problem, where=str(folder), remedy=remedy)
        raise ConfigError(
            "not a run folder: it has none of a run's files",
            where=str(folder),
            remedy=remedy,
        )
    if missing := [name for name in layout.FILES if name not in present]:
        raise ConfigError(
            "the file is missing", where=str(folder / missing[0]), remedy=_REMEDY
        )


def _alike(folder: Path) -> Path | None:
    """Return the run folder whose name is closest to that of an absent folder, in the same place;
    `None` if none is close.
    """
    try:
        names = [
            child.name
            for child in folder.parent.iterdir()
            if (child / layout.MANIFEST).is_file()
        ]
    except OSError:
        return None
    close = get_close_matches(folder.name, names, n=1, cutoff=0.6)
    if close:
        return relative(folder.with_name(close[0]))
    return None


def _damaged(where: str, why: object, remedy: str = _REMEDY) -> ConfigError:
    return ConfigError(f"the file is damaged ({why})", where=where, remedy=remedy)


def _place(path: Path, keys: Sequence[str | int]) -> str:
    """Return a JSON file with the line of a key, if it has the key."""
    line = locate(keys, [path]).rpartition(":")[2] if keys else ""
    if line:
        return f"{path}:{line}"
    return str(path)


def _content(path: Path, remedy: str = _REMEDY) -> bytes:
    with file_errors("cannot be read", path, "check its permissions"):
        try:
            return read_file(path)
        except FileNotFoundError:
            raise ConfigError(
                "the file is missing", where=str(path), remedy=remedy
            ) from None


def _unreadable(path: Path, bad: OSError) -> ConfigError:
    return ConfigError(
        f"cannot be read ({bad.strerror or bad})",
        where=str(path),
        remedy="check its permissions",
    )


def _object(path: Path, remedy: str = _REMEDY) -> JsonObject:
    value = _json(_content(path, remedy), str(path), remedy)
    if not isinstance(value, dict):
        raise _damaged(str(path), "not an object", remedy)
    return value


_OF_MANIFEST: Final = {"dataset": dict, "judge": str}
_OPTIONAL: Final = {
    "clusters": dict,
    "imported": dict,
    "notes": list,
    "prompt_hashes": dict,
    "timing": dict,
}


def _manifest(path: Path) -> JsonObject:
    """Return a manifest, with the keys that commands read in the types that they have.

    Raises:
        ConfigError: If it is missing or damaged, or such a key is missing or has another type.
    """
    manifest = _object(path)
    for key, kind in (_OF_MANIFEST | _OPTIONAL).items():
        value = manifest.get(key)
        # Other keys are not read by commands, so newer and older versions may have more or fewer.
        if not isinstance(value, kind) and (value is not None or key in _OF_MANIFEST):
            if value is None:
                problem = f"key '{key}' is missing"
            else:
                problem = f"key '{key}' has another type"
            raise _damaged(
                _place(path, (key,)) if value is not None else str(path), problem
            )
    return manifest


def _json(content: bytes, where: str, remedy: str = _REMEDY) -> Any:
    try:
        return read_json(content, DEEPEST_RECORD)
    except ValueError as bad:
        raise _damaged(where, bad, remedy) from None


def _config(path: Path) -> RunConfig:
    try:
        values = load(_content(path))
    except ValueError as bad:
        raise _damaged(str(path), bad) from None
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise config_error(error, [path]) from None


def read_record(path: Path, kind: Any, remedy: str = _REMEDY) -> Any:
    """Read and check a file with one record.

    Args:
        path: The file.
        kind: The type of the record.
        remedy: What to do about a damaged file.

    Raises:
        ConfigError: If it is missing or damaged; the message names the line.
    """
    return _part(path, _object(path, remedy), kind, (), remedy)


def _part(
    path: Path, content: Any, kind: Any, keys: Sequence[str], remedy: str = _REMEDY
) -> Any:
    """Check what a JSON file has at a path of keys."""
    try:
        return decoder(kind)(content)
    except MalformedError as bad:
        raise _damaged(_place(path, [*keys, *bad.keys]), bad, remedy) from None


def read_templates(result: RunResult) -> dict[str, str] | None:
    """Return the texts of a run's templates, `None` if its folder does not have them.

    Raises:
        ConfigError: If the file is damaged.
    """
    path = Path(result.folder or "") / layout.PROMPTS
    return (
        read_record(path, dict[str, str]) if result.folder and path.is_file() else None
    )


def read_records(path: Path, kind: Any) -> Sequence[Any]:
    """Read and check a file line by line; records beyond the memory limit go to a temporary file
    next to it.

    Args:
        path: A file of JSON lines, or the judgments in Parquet.
        kind: The type of its records.

    Raises:
        ConfigError: If it is missing or damaged.
    """
    decode = decoder(kind)
    if path.name == layout.PARQUET:
        return Spool(_parquet_records(path, decode), folder=path.parent)
    try:
        with open_file(path) as file:
            # Lines from 1, as editors count them.
            lines = enumerate(file, 1)
            return Spool(
                (
                    _decoded(decode, _json(line, where), where)
                    for number, line in lines
                    if line.strip() and (where := f"{path}:{number}")
                ),
                folder=path.parent,
            )
    except OSError as bad:
        raise _unreadable(path, bad) from None


def _parquet_records(path: Path, decode: Any) -> Iterator[Any]:
    """Yield the judgments of a file in Parquet.

    Raises:
        ConfigError: if it is missing or damaged, with the row.
    """
    number = 0
    try:
        for number, row in enumerate(read_rows(path), 1):
            yield _decoded(decode, row, f"{path}: row {number}")
    except ConfigError:
        # Already about a row, or about pyarrow that is not installed.
        raise
    except FileNotFoundError:
        raise ConfigError(
            "the file is missing", where=str(path), remedy=_REMEDY
        ) from None
    except Exception as bad:  # pyarrow has many errors for a damaged file
        raise _damaged(
            f"{path}: row {number + 1}", " ".join(str(bad).split())[:120]
        ) from None


def _decoded(decode: Any, value: Any, where: str) -> Any:
    try:
        return decode(value)
    except MalformedError as bad:
        raise _damaged(where, bad) from None


def _read_numbers(content: JsonObject, path: Path) -> JsonObject:
    """Return the metrics, calls, tokens and cost of metrics.json.

    Raises:
        ConfigError: if the file is damaged.
    """
    try:
        metrics = {
            # The name is the key in the file, and a field of the record.
            name: _part(path, {**values, "name": name}, Metric, ("metrics", name))
            for name, values in content["metrics"].items()
        }
        kinds: Json = {
            "calls": Calls,
            "tokens": dict[str, int],
            "cost_usd": float | None,
        }
        return {
            "metrics": metrics,
            **{
                key: _part(path, content[key], kind, (key,))
                for key, kind in kinds.items()
            },
        }
    except KeyError as bad:
        raise _damaged(str(path), f"key {bad} is missing") from None
    except (TypeError, AttributeError):
        raise _damaged(
            _place(path, ("metrics",)), "metrics is not an object of objects"
        ) from None
