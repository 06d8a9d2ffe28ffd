"""Write a finished run to its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit.core import atomic_files
from evalkit.core.atomic_files import drop_empty, file_errors, remove_leftovers
from evalkit.core.errors import EvalkitError
from evalkit.core.image_files import FOLDER, IMAGES, is_image_file
from evalkit.core.images import Image, cases_with_images, images_in, texts_of
from evalkit.core.values import Json, JsonObject
from evalkit.runs import layout
from evalkit.runs.manifest import dump
from evalkit.runs.records import (
    encode_judgments,
    encode_line,
    encode_lines,
    encode_pretty,
    finite_lines,
    metric_values,
)
from evalkit.runs.results import RunResult

_REMEDY = "check its permissions and the free disk space"


def write_run(
    folder: Path, result: RunResult, files: Mapping[str, str | bytes] | None = None
) -> RunResult:
    """Write a run to its folder, and return it with the folder set.

    Every file is first written next to its destination and moved at the end, so that it is complete
    or absent. A full disk leaves earlier files unchanged. Figures of an earlier run that are not in
    `files` are removed.

    Args:
        folder: The run folder.
        result: The run.
        files: Additional files by name; `figures/NAME` for figures.

    Raises:
        ConfigError: If the folder cannot be written.
        ValueError: If the name of an additional file is invalid or reserved.
        EvalkitError: If a number of a verdict, a metric or the manifest is not finite.
    """
    folder = folder.absolute()
    # Lazy: lines are encoded as they are written, so the run is never in memory twice.
    contents: dict[str, Iterable[bytes]] = {
        layout.CONFIG: [dump(result.config.dump())],
        layout.MANIFEST: _finite(layout.MANIFEST, [result.manifest], encode_pretty),
        layout.CASES: map(encode_line, result.cases),
        **_judgments(result),
        layout.VERDICTS: _verdicts(result),
        layout.METRICS: _finite(
            layout.METRICS, [_metrics_content(result)], encode_pretty
        ),
        **_additional_files(files or {}),
    }
    contents |= _images(folder, result)
    remedy = f"choose another folder with hydra.run.dir, or {_REMEDY}"
    with file_errors("the run folder cannot be written", folder, remedy):
        _write_all(folder, contents)
        if files:
            _clear(folder / layout.FIGURES, contents)
        # After the new files are in place, so that a failure leaves the earlier run complete.
        _clear_images(folder / FOLDER, result)
    return replace(result, folder=str(folder))


def write_manifest(folder: Path, manifest: Json) -> None:
    """Replace the manifest in a run folder.

    Raises:
        ConfigError: If it cannot be written.
    """
    with file_errors("cannot be written", folder / layout.MANIFEST, _REMEDY):
        _write_all(
            folder,
            {layout.MANIFEST: _finite(layout.MANIFEST, [manifest], encode_pretty)},
        )


def write_files(
    folder: Path, files: Mapping[str, str | bytes], remedy: str = _REMEDY
) -> None:
    """Write files to a folder that may have others, each complete or absent.

    Args:
        folder: The folder.
        files: Their contents by name.
        remedy: What to do if they cannot be written.

    Raises:
        ConfigError: If they cannot be written.
    """
    with file_errors("cannot be written", folder, remedy):
        _write_all(folder, {name: [_bytes(text)] for name, text in files.items()})


def _additional_files(files: Mapping[str, str | bytes]) -> dict[str, Iterable[bytes]]:
    """Return additional files of a run as bytes.

    Raises:
        ValueError: if a name leads out of the folder or is one of a main file.
    """
    for name in files:
        # A name must not lead out of the folder, nor replace a main file of the run.
        plain = name.removeprefix(f"{layout.FIGURES}/")
        if (
            not plain.strip(".")
            or Path(plain).name != plain
            or name in (*layout.FILES, layout.FIGURES)
        ):
            raise ValueError(
                f"not a valid name for an additional file of a run folder: '{name}'"
            )
    return {name: [_bytes(text)] for name, text in files.items()}


def _clear(figures: Path, contents: Json) -> None:
    """Remove figures of an earlier scoring, and their folder if it is empty."""
    if figures.is_symlink():  # the figures of another folder
        return
    for figure in figures.glob("*.svg"):
        if f"{layout.FIGURES}/{figure.name}" not in contents:
            figure.unlink(missing_ok=True)
    drop_empty(figures)


def _images(folder: Path, result: RunResult) -> dict[str, Iterable[bytes]]:
    """Return the pictures of a run's cases that its folder does not have, by the names
    of their files.
    """
    missing: dict[str, Iterable[bytes]] = {}
    for image in _pictures(result):
        name = f"{FOLDER}/{image.file_name}"
        # The name is a hash of the content, so a file of this name need not be written again.
        if name not in missing and not (folder / name).is_file():
            missing[name] = IMAGES.chunks(image)
    return missing


def _pictures(result: RunResult) -> Iterator[Image]:
    cases = cases_with_images(result.cases)
    return images_in(text for case in cases for text in texts_of(case))


def _clear_images(images: Path, result: RunResult) -> None:
    """Remove pictures of an earlier run, and their folder if it is empty."""
    if not images.is_dir() or images.is_symlink():
        return
    kept = {image.file_name for image in _pictures(result)}
    for file in images.iterdir():
        # Only files with names that evalkit gives: a user may keep others there.
        if file.name not in kept and is_image_file(f"{FOLDER}/{file.name}"):
            file.unlink(missing_ok=True)
    drop_empty(images)


def _judgments(result: RunResult) -> dict[str, Iterable[bytes]]:
    name = layout.judgments_of(result.config)
    if name == layout.PARQUET:
        return {name: encode_judgments(result.judgments)}
    return {name: encode_lines(result.judgments)}


def _metrics_content(result: RunResult) -> JsonObject:
    """Return the content of metrics.json; `decisions` only for a run of several judges."""
    metrics = {name: metric_values(metric) for name, metric in result.metrics.items()}
    content: JsonObject = {"metrics": metrics, "decision": result.decision.json()}
    if result.decisions:
        content["decisions"] = {
            judge: decision.json() for judge, decision in result.decisions.items()
        }
    content["calls"] = result.calls
    content["tokens"] = result.tokens
    content["cost_usd"] = result.cost_usd
    return content


def _verdicts(result: RunResult) -> Iterator[bytes]:
    written = 0
    try:
        for encoded in finite_lines(result.verdicts):
            yield encoded
            written += 1
    except ValueError as bad:
        raise _not_finite(layout.VERDICTS, written + 1, bad) from None


def _finite(name: str, values: Iterable[Any], encode: Any) -> Iterator[bytes]:
    for line, value in enumerate(values, 1):
        try:
            yield encode(value)
        except ValueError as bad:
            raise _not_finite(name, line, bad) from None


def _not_finite(name: str, line: int, bad: ValueError) -> EvalkitError:
    # Such a number is an error of evalkit, so it is not written as a text.
    problem = f"{name}: entry {line} has a number that is not finite ({bad})"
    return EvalkitError(problem)


def _bytes(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    return text.encode("utf-8", "backslashreplace")


def _write_all(folder: Path, contents: Mapping[str, Iterable[bytes]]) -> None:
    # Temporary files of a process that was killed.
    for path in (folder, folder / layout.FIGURES, folder / FOLDER):
        if path == folder or not path.is_symlink():
            remove_leftovers(path)
    # The manifest last: a folder with it has all other files.
    atomic_files.write_files(folder, contents, last=layout.MANIFEST)
