"""Check that a folder is free for a run, remove an earlier run, and read the status and
openings of one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

from platformdirs import user_state_path

from evalkit.config import RunConfig
from evalkit.core.atomic_files import file_errors
from evalkit.core.bounded_files import read_json
from evalkit.core.claims import Claim, claim_folder, claim_unused
from evalkit.core.display import visible
from evalkit.core.errors import ConfigError
from evalkit.core.image_files import FOLDER, is_image_file
from evalkit.core.regular_files import read_file
from evalkit.core.splits import is_labeled
from evalkit.core.types import Case
from evalkit.core.values import Json, JsonObject, frozen
from evalkit.runs import layout
from evalkit.runs.read import read_config

_ANOTHER = "choose another folder with hydra.run.dir"
REMEDY = "choose another folder with hydra.run.dir, or add --overwrite to replace it"


def claim_run(folder: Path, remedy: str = _ANOTHER) -> Claim:
    """Claim a folder for a run, before anything is paid.

    Args:
        folder: The folder; it is created if it is missing.
        remedy: What to do instead of waiting.

    Raises:
        ConfigError: If another process has it, or it cannot be written.
    """
    return claim_folder(folder, remedy)


def claim_unused_run(folder: Path) -> tuple[Path, Claim]:
    """Claim `folder`, or else the first of `folder-2`, `folder-3` and so on without a
    run and without a process.

    Raises:
        ConfigError: If it cannot be written.
    """
    # The manifest is written last, so a run is there if it is.
    return claim_unused(folder, lambda path: (path / layout.MANIFEST).exists())


def claim_finished(folder: Path) -> AbstractContextManager[object]:
    """Claim the folder of a finished run that a command reads and then changes; a
    missing folder is not created.

    Raises:
        ConfigError: If another process has it, or it cannot be written.
    """
    if folder.is_dir():
        return claim_folder(folder)
    return nullcontext()


def check_free(
    folder: Path,
    config: RunConfig,
    *,
    fingerprint: str | None = None,
    imported: str | None = None,
) -> None:
    """Check that a folder is empty or has an earlier run of the same config.

    An imported or labeled run counts as another run, because repeating it would not restore its
    contents.

    Args:
        folder: The folder.
        config: The config of the new run.
        fingerprint: The fingerprint of its data; `None` to not compare it.
        imported: The source of an import; an earlier import from the same source may be replaced.

    Raises:
        ConfigError: If the folder has another run, or files that a run would replace.
    """
    check_no_sweep(folder)
    existing = [
        name
        for name in (*layout.FILES, layout.FINDINGS, layout.PROMPTS, layout.REPORT)
        if (folder / name).exists()
    ]
    if not existing:
        return
    # Without a config, these are not the files of a whole run.
    if layout.CONFIG not in existing:
        raise ConfigError(
            f"contains {existing[0]}, which the run would replace",
            where=str(folder),
            remedy=REMEDY,
        )
    manifest = read_object(folder / layout.MANIFEST)
    before = _fingerprint(manifest)
    changed = fingerprint is not None and before not in ("", fingerprint)
    # The config alone is not enough: the data may have changed, and labels would be lost.
    source = (manifest.get("imported") or {}).get("source")
    if source != imported or manifest.get("labels") or _hash(folder) != config.hash():
        raise ConfigError("contains another run", where=str(folder), remedy=REMEDY)
    if changed:
        raise ConfigError(
            "contains a run of this config on other data",
            where=str(folder),
            remedy=REMEDY,
        )


def check_only_run(folder: Path) -> None:
    """Check that a folder is new or empty, or has a run.

    Raises:
        ConfigError: If it has other files, or a sweep.
    """
    check_no_sweep(folder)
    if not folder.is_dir() or (folder / layout.MANIFEST).exists():
        return
    with file_errors("cannot be read", folder, "check its permissions"):
        # Hidden files are claims, and what a system or an editor leaves.
        names = sorted(
            child.name for child in folder.iterdir() if child.name[:1] != "."
        )
    if names:
        remedy = "choose a new folder with --output"
        raise ConfigError(
            f"has other files ({visible(names[0])})", where=str(folder), remedy=remedy
        )


def check_no_sweep(folder: Path) -> None:
    """Check that a folder is not the folder of a sweep.

    Raises:
        ConfigError: If it is.
    """
    if (folder / layout.SWEEP).exists():
        remedy = "choose another folder with hydra.run.dir"
        raise ConfigError("contains a sweep", where=str(folder), remedy=remedy)


def written_files(folder: Path) -> set[str]:
    """Return the names of the files that the run, or later commands about it, wrote to a folder,
    if they are there or not.

    Pictures and figures are `FOLDER/NAME`. The manifest lists others; a folder without one has
    only the usual names.
    """
    listed = read_object(folder / layout.MANIFEST).get("files")
    if isinstance(listed, list):
        # Names from a file that anybody may have edited: only plain ones are removed
        # (`_is_plain`).
        names = {name for name in listed if isinstance(name, str)}
    else:
        names = set()
    drawn = folder / layout.FIGURES
    figures = set[str]()
    if not drawn.is_symlink():  # else they are of another folder
        figures = {f"{drawn.name}/{figure.name}" for figure in drawn.glob("*.svg")}
    images = folder / FOLDER
    pictures = set[str]()
    if not images.is_symlink():  # likewise
        pictures = {f"{FOLDER}/{image.name}" for image in images.glob("*.*")}
    written = {*layout.FILES, *layout.DERIVED, *layout.EARLIER_DETAILS, *figures}
    return (
        written | set(filter(_is_plain, names)) | set(filter(is_image_file, pictures))
    )


def remove_files(folder: Path, names: Collection[str]) -> None:
    """Remove files of a run folder, and its folders of figures and pictures if they are empty
    then.

    A file that is absent is no error.

    Raises:
        ConfigError: If a file cannot be removed.
    """
    for name in sorted(names):
        with file_errors(
            "cannot be removed", folder / name, "check the folder's permissions"
        ):
            (folder / name).unlink(missing_ok=True)
    # A folder with other files is not empty, and remains.
    for emptied in (layout.FIGURES, FOLDER):
        with suppress(OSError):
            (folder / emptied).rmdir()


def _is_plain(name: str) -> bool:
    return bool(name.strip(".")) and Path(name).name == name


def _hash(folder: Path) -> str | None:
    # From the config, not from the manifest: versions of evalkit may hash a config differently.
    with suppress(ConfigError, ValueError):
        return RunConfig.model_validate(read_config(folder)).hash()
    return None


@frozen
class RunStatus:
    """The status of a run folder.

    Attributes:
        config_hash: The hash of its config.
        fingerprint: The fingerprint of its data.
        prompts: The hash of each template.
        evalkit: The version of evalkit that wrote it.
        complete: Whether all files exist, and every call was made and succeeded.
        recorded: Its id at the tracker; `None` if it was not recorded.
        gate: The state of its gate; `None` without a gate.
        usable: Whether all its answers could be used.
    """

    config_hash: str
    fingerprint: str
    prompts: Mapping[str, str]
    evalkit: str
    complete: bool
    recorded: str | None
    gate: str | None = None
    usable: bool = True


def read_status(folder: Path) -> RunStatus:
    """Return the status of a run folder; empty if there is no run."""
    manifest = read_object(folder / layout.MANIFEST)
    # A run with failed calls is not complete: a second run would ask for these again.
    calls = read_object(folder / layout.METRICS).get("calls") or {}
    whole = all(
        (folder / name).is_file()
        or (name == layout.JUDGMENTS and (folder / layout.PARQUET).is_file())
        for name in layout.FILES
    )
    return RunStatus(
        config_hash=str(manifest.get("config_hash") or ""),
        fingerprint=_fingerprint(manifest),
        prompts=manifest.get("prompt_hashes") or {},
        evalkit=str(manifest.get("evalkit") or ""),
        complete=whole and not manifest.get("stopped") and calls.get("failed") == 0,
        recorded=manifest.get("mlflow_run_id")
        or (manifest.get("tracked") or {}).get("id"),
        gate=(manifest.get("gate") or {}).get("state"),
        usable=not (folder / f"{layout.CAUSES}.json").exists(),
    )


def _fingerprint(manifest: Json) -> str:
    """Return the fingerprint of a run's data, with cases that were not needed; empty if
    it is unknown.
    """
    return str(
        (manifest.get("not_needed") or manifest.get("dataset") or {}).get("fingerprint")
        or ""
    )


def read_object(path: Path) -> JsonObject:
    """Return the object in a JSON file, empty if the file has none or cannot be read."""
    with suppress(OSError, ValueError):
        value = read_json(read_file(path))
        if isinstance(value, dict):
            return value
        return {}
    return {}


NOTE = "test labels opened"
"""The beginning of the note."""


def count_opening(
    config: RunConfig, fingerprint: str, cases: Iterable[Case]
) -> int | None:
    """Count that a run on `dataset.split.use=test` was scored, and return the count for
    its data so far.

    The counts of a user are in one file of the user's state folder.

    Args:
        config: The run's config.
        fingerprint: The fingerprint of its cases.
        cases: Its cases.

    Returns:
        The count with this one; `None` if the run is not on the test side or has no labels, or the
        file cannot be written.
    """
    # Opening the test labels again and again fits choices to them, so each time is counted.
    division = config.dataset.division
    if division is None or division.use != "test" or not any(map(is_labeled, cases)):
        return None
    path = user_state_path("evalkit") / "test-labels.jsonl"
    opened = {
        "data": fingerprint,
        "config": config.hash(),
        "at": datetime.now(UTC).isoformat(),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            file.write(
                json.dumps(opened).encode() + b"\n"
            )  # one write: runs at the same time do not mix
            file.seek(0)
            return file.read().count(f'"data": "{fingerprint}"'.encode())
    except OSError:
        return None


def opening_note(opened: int, where: str = "for this data on this machine") -> str:
    """Return the note for a count."""
    return f"{NOTE} {'once' if opened == 1 else f'{opened:,} times'} {where}"
