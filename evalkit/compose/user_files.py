"""Config files of the user and of plug-ins, as they lie in folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evalkit.core.benchmark_discovery import own_benchmark_names
from evalkit.core.plugins import CONF, folders, user_folders
from evalkit.core.resources import shipped


def user_files() -> list[Path]:
    """Return every config file in the user's folders and in those of plug-ins."""
    return [
        file
        for folder in (*user_folders(), *folders(CONF))
        for file in sorted(folder.rglob("*.yaml"))
        if file.is_file()  # a pipe would block
    ]


def chosen_first(
    files: Iterable[Path], words: Iterable[str], study: Path | None
) -> list[Path]:
    """Return config files, after the study those of options that the command line chooses.

    These set what is used.

    Args:
        files: the files, in their order.
        study: the study, which precedes options.
        words: the overrides of the command line, such as `judge=mine` or `criteria=[a,b]`.
    """
    chosen: set[tuple[str, str]] = set()
    for word in words:
        group, equals, names = word.lstrip("+").partition("=")
        if equals:
            group = group.partition("@")[0].rpartition("/")[2]
            options = names.strip("[]").split(",")
            chosen |= {(group, Path(name.strip()).name) for name in options}

    def is_later(file: Path) -> bool:
        return file != study and (file.parent.name, file.stem) not in chosen

    return sorted(files, key=is_later)


def hidden_files() -> list[Path]:
    """Return the user's config files that are hidden by shipped options of the same name."""
    shipped_conf = shipped("conf")
    options = {Path("dataset", f"{name}.yaml") for name in own_benchmark_names()}
    files = [
        (f, f.relative_to(folder))
        for folder in user_folders()
        for f in folder.rglob("*.yaml")
    ]
    return [
        f
        for f, option in files
        if option in options or (shipped_conf / option).is_file()
    ]
